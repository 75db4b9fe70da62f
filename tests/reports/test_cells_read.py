"""Cells of sides: the same whether files are read or another side's rows are at hand."""

from __future__ import annotations

import datetime as dt
import json
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from specledger.reports import build as build_module
from specledger.reports import small_files
from specledger.reports.build import Question, build
from specledger.reports.cells_read import CellReader, Frame, Grain
from specledger.reports.model import to_json
from specledger.reports.selection import Night, Selection, select_nights
from specledger.reports.small_files import SmallFiles
from specledger.reports.strata import stratify
from specledger.reports.sums import SPARSE, distinct
from specledger.schemas.cells import CELLS_REQUESTS
from specledger.schemas.config import DEFAULT_SETTINGS
from specledger.schemas.raw import REQUESTS
from specledger.schemas.table import Table
from specledger.schemas.warehouse import Warehouse, reading
from specledger.transforms.runner import run
from tests.reports.fleet import WORLD, put_requests
from tests.simulator import nights as simulated

DAYS = [dt.date(2026, 9, 7) + dt.timedelta(days=day) for day in range(3)]
NAMES = ("a", "it's\nb")


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    found = Warehouse(tmp_path_factory.mktemp("warehouse"))
    for number, name in enumerate(NAMES):
        put_requests(found, replace(WORLD, deployment=name), DAYS, number, per_hour=1)
    return found


@pytest.fixture(scope="module")
def computed(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    found = Warehouse(tmp_path_factory.mktemp("computed"))
    for number, name in enumerate(NAMES):
        world = replace(WORLD, deployment=name)
        for date in DAYS:
            drawn = simulated.requests(world, [date], np.random.default_rng(number), per_hour=1)
            rows = simulated.rows(world, drawn, every_s=3_600)[REQUESTS.name]
            found.write(REQUESTS, date, name, "responses-0", rows)
    run(found, DEFAULT_SETTINGS)
    return found


def side(where: str, *nights: tuple[int, int]) -> Selection:
    return Selection(where, tuple(sorted(Night(DAYS[day], NAMES[name]) for day, name in nights)))


FIRST, SECOND = side("first", (0, 0), (0, 1), (1, 1)), side("second", (2, 1))
OUT_OF_BOTH = side("out of both", (0, 1), (2, 1))


def equal(one: Frame, other: Frame) -> None:
    for field in fields(Frame):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if field.name == "columns":
            assert mine.keys() == theirs.keys()
            for name, values in mine.items():
                np.testing.assert_array_equal(values, theirs[name], err_msg=name)
        else:
            np.testing.assert_array_equal(mine, theirs, err_msg=field.name)


@pytest.mark.parametrize("grain", ["hour", "block"])
@pytest.mark.parametrize(
    "of", [OUT_OF_BOTH, side("one night", (1, 1)), side("not read before", (1, 0), (1, 1)), side("none")]
)
def test_nights_of_other_sides_are_those_of_their_files(
    warehouse: Warehouse, of: Selection, grain: Grain, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = CellReader(warehouse)
    for other in (FIRST, SECOND):
        assert reader.frame(other, "requests", grain).rows > 50
    known = {night for other in (FIRST, SECOND) for night in other.nights}
    if of.nights and known.issuperset(of.nights):
        monkeypatch.setattr(reader, "_load", None)
    found = reader.frame(of, "requests", grain)
    equal(found, CellReader(warehouse).frame(of, "requests", grain))
    assert bool(found.rows) == bool(of.nights)
    assert reader.units(of, "requests", grain) == int(found.unit.max(initial=-1)) + 1


@pytest.mark.parametrize("read_before", [(), (FIRST, SECOND)])
def test_a_course_is_the_same_hours_with_fewer_columns(
    warehouse: Warehouse, read_before: tuple[Selection, ...]
) -> None:
    reader = CellReader(warehouse)
    for other in read_before:
        reader.frame(other, "requests")
    found, whole = reader.course(OUT_OF_BOTH, "requests", ["tpot_ms"]), reader.frame(OUT_OF_BOTH, "requests")
    assert set(found.columns) == {"tpot_ms.num", "tpot_ms.den"}
    equal(found, replace(whole, columns={name: whole.columns[name] for name in found.columns}))


def asked(warehouse: Warehouse, selected: str) -> list[tuple[int, ...]]:
    """An answer over the files of the first side."""
    return reading().execute(f"SELECT {selected} FROM ({select_nights(warehouse, CELLS_REQUESTS, FIRST)})").fetchall()


@pytest.mark.parametrize("name", ["ttft", "itl"])
@pytest.mark.parametrize("grain", ["hour", "block"])
def test_histograms_hold_what_the_cells_of_each_unit_hold(warehouse: Warehouse, name: str, grain: Grain) -> None:
    reader = CellReader(warehouse)
    frame = reader.frame(FIRST, "requests")
    strata = stratify(frame.observed(), frame.observed(), DEFAULT_SETTINGS.load_bands)
    found = reader.histogram(FIRST, name, grain, strata, None)
    expected: Counter[int] = Counter()
    for bucket, count in asked(warehouse, f"unnest(map_keys({name})), unnest(map_values({name}))"):
        expected[bucket] += count
    held = Counter(found.bucket.tolist())
    assert {bucket: found.count[found.bucket == bucket].sum() for bucket in held} == expected
    np.testing.assert_array_equal(np.bincount(found.row, found.count), found.seen.den)
    assert found.seen.units == reader.units(FIRST, "requests", grain)


def test_second_moments_are_told_beside_the_sums(warehouse: Warehouse) -> None:
    reader = CellReader(warehouse)
    found, plain = reader.with_moments(FIRST, "requests"), reader.frame(FIRST, "requests")
    assert not any(name.endswith((".nn", ".nd", ".dd")) for name in plain.columns)
    equal(replace(found, columns={name: found.columns[name] for name in plain.columns}), plain)
    ((steps, products),) = asked(warehouse, "sum(steps_steps), sum(steps_step_tokens)")
    assert found.columns["effective_length.dd"].sum() == steps
    assert found.columns["effective_length.nd"].sum() == products


CODES = arrays(np.int64, st.integers(0, 50), elements=st.integers(0, 60) | st.integers(SPARSE - 2, SPARSE + 1_000))


@given(CODES)
def test_distinct_codes_are_those_that_sorting_finds(codes: np.ndarray) -> None:
    found, which = distinct(codes)
    expected, inverse = np.unique(codes, return_inverse=True)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(which, inverse)


def test_courses_read_together_are_those_read_alone(warehouse: Warehouse) -> None:
    reader = CellReader(warehouse)
    reader.frame(FIRST, "requests")
    names = sorted({night.deployment for side in (FIRST, SECOND) for night in side.nights})
    sides = [
        Selection(name, tuple(sorted({n for s in (FIRST, SECOND) for n in s.nights if n.deployment == name})))
        for name in names
    ]
    for side, found in zip(sides, reader.courses(sides, "requests", ["tpot_ms"]), strict=True):
        equal(found, CellReader(warehouse).course(side, "requests", ["tpot_ms"]))


@pytest.mark.parametrize("columns", [("origin", "n"), ("date", "deployment", "steps_steps", "itl_n", "load")])
def test_small_files_read_otherwise_hold_the_same_rows(
    warehouse: Warehouse, columns: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = reading()
    answers = []
    for many in (1, 1_000_000):
        monkeypatch.setattr(small_files, "MANY", many)
        select = SmallFiles(warehouse).select(connection, CELLS_REQUESTS, FIRST, columns)
        assert ("read_parquet" in select) is (many > 1)
        described = [row[:2] for row in connection.execute(f"DESCRIBE {select}").fetchall()]
        answers.append((described, connection.execute(f"FROM ({select}) ORDER BY ALL").fetchall()))
    assert answers[0] == answers[1]
    assert len(answers[0][1]) > 50


def test_more_than_memory_is_meant_for_is_left_to_duckdb(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_files, "MANY", 1)
    files = [
        Path(path)
        for path in warehouse.paths(CELLS_REQUESTS, [(night.date, night.deployment) for night in FIRST.nights])
    ]
    size = sum(file.stat().st_size for file in files)
    for most, whose in ((size, "FROM cells_requests_"), (size - 1, "read_parquet")):
        monkeypatch.setattr(small_files, "MOST_BYTES", most)
        assert whose in SmallFiles(warehouse).select(reading(), CELLS_REQUESTS, FIRST, ["n"])


def test_a_report_that_reads_ahead_is_the_same(computed: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    question = Question(f"date < DATE '{DAYS[-1]}'", f"date = DATE '{DAYS[-1]}'")
    read = SmallFiles._rows
    reports, threads, meanwhile = [], [], []

    def watched(files: SmallFiles, table: Table, side: Selection, columns: Sequence[str]) -> pa.Table | None:
        rows = read(files, table, side, columns)
        threads.append((rows is not None, threading.current_thread() is threading.main_thread()))
        return rows

    monkeypatch.setattr(SmallFiles, "_rows", watched)
    for many in (1, 1_000_000):
        threads.clear()
        monkeypatch.setattr(small_files, "MANY", many)
        found = build(computed, question, dt.datetime(2026, 9, 15), meanwhile=lambda: meanwhile.append(1))
        reports.append(to_json(found))
        assert {here for _, here in threads} == {many > 1}
        assert any(whole for whole, _ in threads) is (many == 1)
    assert reports[0] == reports[1]
    assert meanwhile == [1, 1]
    assert len(json.loads(reports[0])["gates"]) > 5


def test_what_fails_beside_ends_the_report(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(build_module, "schedules", fails)
    question = Question(f"date < DATE '{DAYS[-1]}'", f"date = DATE '{DAYS[-1]}'")
    with pytest.raises(OSError, match="the disk is gone"):
        build(warehouse, question, dt.datetime(2026, 9, 15))
    assert not any(thread.name.startswith("beside") for thread in threading.enumerate())


def test_a_damaged_small_file_is_left_to_be_told_of(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_files, "MANY", 1)
    path = next(warehouse.paths(CELLS_REQUESTS, [(night.date, night.deployment) for night in FIRST.nights]))
    content = Path(path).read_bytes()
    try:
        Path(path).write_bytes(content[: len(content) // 2])
        assert "read_parquet" in SmallFiles(warehouse).select(reading(), CELLS_REQUESTS, FIRST, ["n"])
    finally:
        Path(path).write_bytes(content)
