"""The runner over a small warehouse: what is computed again, and that no way of cutting the data matters."""

from __future__ import annotations

import datetime as dt
import hashlib
import random
import shutil
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from specledger.schemas import TABLES
from specledger.schemas.config import DEFAULT_SETTINGS, GoodputLimits, Settings, parse_load_bands
from specledger.schemas.errors import EmptyWarehouse
from specledger.schemas.published import published
from specledger.schemas.warehouse import DATABASE, READ, Warehouse
from specledger.transforms import cells_run, engines, marts_run, runner
from specledger.transforms.database import Limits, connect, memory, publish_database
from specledger.transforms.partitions import Partition
from specledger.transforms.plan import TURNS, has_its_turn
from specledger.transforms.results import STAGED, Staged, publish, stage
from specledger.transforms.runner import Summary, run
from tests.transforms.raw import DAY, at, full_row, histogram

NEXT = DAY + dt.timedelta(1)
Rows = dict[str, list[dict[str, Any]]]


def rows(date: dt.date = DAY, instances: Iterable[str] = ("a", "b"), scrapes: int = 6) -> Rows:
    """Scrapes, requests and log records of a few instances; counters go on from date to date."""
    days = (date - DAY).days
    raw: Rows = {"snapshots": [], "requests": [], "log_stats": [], "iterations": []}
    for shift, instance in enumerate(instances):
        for n in range(scrapes):
            total = 10 * (n + scrapes * days) + shift
            raw["snapshots"].append(
                {
                    "instance": instance,
                    "scraped_at": at(15 * n, date),
                    "running": float(2 + shift),
                    "rounds": total,
                    "drafted": 3 * total,
                    "accepted": 2 * total,
                    "accepted_at": [total, total],
                    "generation_tokens": 3 * total + n,
                    "itl": histogram([0.1], [total, 0], 0.02 * total),
                    "ttft": histogram([0.1], [n + scrapes * days, 0], 0.05 * n),
                }
            )
            raw["requests"].append(
                {
                    "instance": instance,
                    "request_id": f"{date}-{instance}-{n}",
                    "arrived_at": at(15 * n, date),
                    "finished_at": at(15 * n + 20, date),
                    "ttft_ms": 1000.0,
                    "decode_ms": 19_000.0,
                    "e2e_ms": 20_000.0,
                    "prompt_tokens": 90,
                    "output_tokens": 11,
                    "rounds": 4,
                    "drafted": 12,
                    "accepted": 6,
                    "draft_limit": 3,
                    "gaps_ms": [4.0, 5.0],
                }
            )
            raw["log_stats"].append(
                {
                    "instance": instance,
                    "logged_at": at(10 * n, date),
                    "running": 3.0,
                    "rounds": 5,
                    "drafted": 15,
                    "accepted": 9,
                    "survival": [0.8, 0.6],
                }
            )
            raw["iterations"].append(
                {
                    "instance": instance,
                    "logged_at": at(n, date),
                    "iteration": n,
                    "generation_requests": 2,
                    "generation_tokens": 8,
                    "elapsed_ms": 9.0,
                }
            )
    return raw


def write(warehouse: Warehouse, raw: Rows, name: str = "x", deployment: str = "d") -> None:
    """Publish raw rows as ingest would: a file for each table and date."""
    for table, told in raw.items():
        by_date: dict[dt.date, list[dict[str, Any]]] = {}
        for row in told:
            full = full_row(table, {**row, "deployment": deployment})
            by_date.setdefault(full["date"], []).append(full)
        schema = TABLES[table].arrow_schema()
        for date, found in by_date.items():
            warehouse.write(TABLES[table], date, deployment, name, pa.Table.from_pylist(found, schema=schema))


def transform(warehouse: Warehouse, settings: Settings = DEFAULT_SETTINGS, **how: Any) -> Summary:
    return run(warehouse, settings, limits=Limits(threads=1), **how)


def stored(warehouse: Warehouse, *kinds: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of every stored table of some kinds, in order, by partition."""
    return {
        f"{table.name} {file.date} {file.deployment}": pq.read_table(file.path, partitioning=None).to_pylist()
        for table in TABLES.values()
        if table.kind in (kinds or ("cells", "mart"))
        for file in warehouse.files(table)
    }


def digests(warehouse: Warehouse) -> dict[str, str]:
    return {
        str(path.relative_to(warehouse.root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(warehouse.root.glob("*/date=*/*/*.parquet"))
    }


def in_order(warehouse: Warehouse) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of every table of cells and marts, in whatever files they are."""
    with warehouse.connect() as connection:
        return {
            table.name: connection.execute(f"SELECT * FROM {table.name} ORDER BY {', '.join(table.key)}").fetchall()
            for table in TABLES.values()
            if table.kind in ("cells", "mart")
        }


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Two dates of one deployment, transformed; to be read only."""
    warehouse = Warehouse(tmp_path_factory.mktemp("plain"))
    for date in (DAY, NEXT):
        write(warehouse, rows(date), f"{date}")
    transform(warehouse)
    return warehouse


@pytest.fixture
def copied(plain: Warehouse, tmp_path: Path) -> Warehouse:
    """The same, to be changed."""
    shutil.copytree(plain.root, tmp_path / "copied")
    return Warehouse(tmp_path / "copied")


def test_every_kind_of_cell_comes_out(plain: Warehouse) -> None:
    assert {name.split()[0] for name in stored(plain, "cells")} == {
        t.name for t in TABLES.values() if t.kind == "cells"
    }


def test_totals_go_on_over_midnight(plain: Warehouse) -> None:
    rounds = [
        sum(row["rounds"] for row in told)
        for name, told in stored(plain, "cells").items()
        if name.startswith("cells_snapshots")
    ]
    assert rounds == [2 * 50, 2 * 60]


def test_what_has_not_changed_is_left_alone(copied: Warehouse) -> None:
    def held(*, links: bool) -> dict[Path, int]:
        paths = [path for path in copied.root.rglob("*.parquet") if links or READ not in path.parts]
        return {path: path.stat().st_mtime_ns for path in paths}

    before = held(links=False)
    assert transform(copied) == Summary((), (), ())
    assert held(links=False) == before
    linked = held(links=True)
    assert len(linked) > len(before)
    assert transform(copied) == Summary((), (), ())
    assert held(links=True) == linked


@pytest.mark.parametrize("table", ["cells_requests", "acceptance", "ledger"])
def test_what_has_lost_a_file_is_computed_again(copied: Warehouse, table: str) -> None:
    before = stored(copied)
    copied.files(TABLES[table], date=DAY)[0].path.unlink()
    assert stored(copied) != before
    transform(copied)
    assert stored(copied) == before
    assert transform(copied).dates == ()


def test_a_night_finds_what_was_lost_long_ago_when_its_turn_comes(copied: Warehouse) -> None:
    lost = copied.files(TABLES["acceptance"], date=DAY)[0].path
    for back, found in ((TURNS - 1, True), (TURNS + 9, False), (2 * TURNS, True)):
        write(copied, rows(DAY + dt.timedelta(back), ["a"]))
        transform(copied)
        lost.unlink()
        assert run(copied, DEFAULT_SETTINGS, every_file=False).dates == ((DAY,) if found else ())
        assert lost.exists() is found
        transform(copied)
        assert lost.exists()


def test_every_date_has_its_turn_within_as_many_nights() -> None:
    nights = [DAY + dt.timedelta(number) for number in range(1000, 1000 + TURNS)]
    for back in range(1100):
        day = nights[-1] - dt.timedelta(back)
        assert any(has_its_turn(day, last) for last in nights if last >= day)


def test_computing_again_writes_the_same_bytes(copied: Warehouse) -> None:
    before = digests(copied)
    shutil.rmtree(copied.root / "_state")
    assert transform(copied).computed == (Partition(DAY, "d"), Partition(NEXT, "d"))
    assert digests(copied) == before
    transform(copied, force=True)
    assert digests(copied) == before


def test_new_files_change_their_partition_and_the_one_that_carries_them_in(copied: Warehouse) -> None:
    write(copied, rows(NEXT, ["c"]), "late")
    assert transform(copied).computed == (Partition(NEXT, "d"),)
    write(copied, rows(DAY, ["c"]), "later")
    assert transform(copied).computed == (Partition(DAY, "d"), Partition(NEXT, "d"))


def test_a_night_changes_the_ledgers_of_others_only_where_ordinary_decode_ran_in_it(copied: Warehouse) -> None:
    def ledger() -> tuple[str, int]:
        (file,) = copied.files(TABLES["ledger"], date=DAY)
        return file.path.read_bytes().hex(), file.path.stat().st_mtime_ns

    def starts(date: dt.date, *, speculative: bool) -> Rows:
        start = {"started_at": at(-60, date), "model": "target", "speculative": speculative}
        return {"deployments": [{**start, "instance": name} for name in ("a", "b")]}

    write(copied, starts(DAY, speculative=True), "start")
    transform(copied)
    before = ledger()
    write(copied, rows(NEXT + dt.timedelta(1)), "drafted")
    transform(copied)
    assert ledger() == before
    drafting = {"rounds", "drafted", "accepted", "accepted_at", "draft_limit"}
    date = NEXT + dt.timedelta(2)
    ordinary = {
        table: [{key: value for key, value in row.items() if key not in drafting} for row in told]
        for table, told in rows(date).items()
    }
    write(copied, {**ordinary, **starts(date, speculative=False)}, "plain", "plain")
    transform(copied)
    assert ledger()[0] != before[0]
    found = digests(copied)
    shutil.rmtree(copied.root / "_state")
    transform(copied)
    assert digests(copied) == found


def test_only_the_dates_asked_for_are_computed(copied: Warehouse) -> None:
    write(copied, rows(DAY, ["c"]), "late")
    summary = transform(copied, dates=[NEXT])
    assert (summary.computed, summary.dates) == ((Partition(NEXT, "d"),), (NEXT,))


def test_cells_and_marts_go_when_their_raw_rows_have_gone(copied: Warehouse) -> None:
    for name in rows():
        shutil.rmtree(copied.partition(TABLES[name], DAY, "d"))
    summary = transform(copied)
    assert (summary.removed, summary.dates) == ((Partition(DAY, "d"),), (DAY, NEXT))
    assert not [name for name in stored(copied) if f"{DAY}" in name]
    assert transform(copied) == Summary((), (), ())


def test_a_band_of_load_changes_marts_only_and_a_limit_changes_cells(copied: Warehouse) -> None:
    other_bands = Settings(parse_load_bands(["1-2", "3+"]))
    summary = transform(copied, other_bands)
    assert (summary.computed, summary.dates) == ((), (DAY, NEXT))
    bands = {row["load_band"] for name, told in stored(copied, "mart").items() if "acceptance " in name for row in told}
    assert bands == {"0", "1-2", "3+"}  # 0: from one day to the next
    assert len(transform(copied, Settings(other_bands.load_bands, goodput=GoodputLimits(ttft_ms=5))).computed) == 2


def test_a_start_record_changes_what_it_bears_on_and_labels_change_marts(copied: Warehouse) -> None:
    start = {
        "instance": "a",
        "started_at": at(-60, NEXT),
        "speculative": True,
        "draft_method": "eagle",
        "draft_limit": 3,
    }
    write(copied, {"deployments": [start]}, "start")
    summary = transform(copied)
    assert (summary.computed, summary.dates) == ((Partition(NEXT, "d"),), (NEXT,))
    write(copied, {"deployments": [{"labels": [("gpus", "2")], "labelled_at": at(0)}]}, "labels")
    summary = transform(copied)
    assert (summary.computed, summary.dates) == ((), (DAY, NEXT))


def test_neither_files_nor_order_nor_neighbours_matter(plain: Warehouse, tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    draw = random.Random(3)
    for date in (DAY, NEXT):
        raw = rows(date)
        for number in range(3):
            write(
                warehouse,
                {name: draw.sample(told[number::3], len(told[number::3])) for name, told in raw.items()},
                f"{number}",
            )
    write(warehouse, rows(DAY, ["a", "z"]), deployment="other")
    transform(warehouse)
    found = {name: told for name, told in stored(warehouse, "cells").items() if name.endswith(" d")}
    assert found == stored(plain, "cells")


def test_dates_see_the_same_of_the_days_before_alone_or_together(tmp_path: Path) -> None:
    """A series may miss a night that others have, be away longer than anything is carried, and come late."""
    nights = {0: "ab", 1: "a", 2: "ab", 3: "b", 12: "ab"}
    found = []
    for number, order in enumerate((tuple(nights), (0, 2, 12, 3, 1))):
        warehouse = Warehouse(tmp_path / f"{number}")
        for day in order:
            write(warehouse, rows(DAY + dt.timedelta(day), nights[day], scrapes=2), f"{day}")
            if number:
                transform(warehouse)
        transform(warehouse)
        found.append(stored(warehouse))
    assert [name for name in found[0] if found[0][name] != found[1].get(name)] == []
    assert found[0].keys() == found[1].keys()


def test_rows_of_many_deployments_go_each_to_its_own(tmp_path: Path) -> None:
    warehouse, table = Warehouse(tmp_path), TABLES["rejects"]
    # Arrow groups these names in another order than that of the rows.
    names = ["baseline_nospec", "bench_baseline", "bench_spec", "bench_tools", "default_flags", "dp2_one_api_server"]
    names += ["dynamic_sd", "otel", "preemption", "quantized_bf16_spec", "spec_k3_draft"]
    found = [(dt.date(2026, 11, 29), name) for name in names]
    given = {"instance": "i", "source": "s", "format": "f", "reason": "r", "text": "t", "byte_offset": 0}
    rows = pa.Table.from_pylist(
        [given | {"date": day, "deployment": name, "instance": name} for day, name in found for _ in range(20)]
    )
    staged = stage(warehouse, table, rows, "x")
    assert [one.partition for one in staged] == [Partition(*place) for place in found]
    publish(warehouse, [table], [], staged)
    strays = f"SELECT * FROM ({warehouse.select(table)}) WHERE deployment <> instance"
    assert duckdb.sql(strays).fetchall() == []


@pytest.mark.parametrize(
    "limits",
    [
        {"BATCH_BYTES": 1},
        {"LARGE_FILE": 0, "LEAST_ROW_BYTES": 1 << 30},
        {"LARGE_FILE": 0, "LEAST_ELEMENT_BYTES": 1 << 30},
    ],
)
def test_a_large_partition_is_computed_by_instances_with_the_same_rows(
    plain: Warehouse, copied: Warehouse, monkeypatch: pytest.MonkeyPatch, limits: dict[str, int]
) -> None:
    for name, value in limits.items():
        monkeypatch.setattr(cells_run, name, value)
    transform(copied, force=True)
    assert len(copied.files(TABLES["cells_requests"], date=DAY)) == 2
    assert in_order(copied) == in_order(plain)
    monkeypatch.undo()
    transform(copied, force=True)
    assert digests(copied) == digests(plain)


def test_much_data_is_computed_by_several_connections_with_the_same_rows(
    plain: Warehouse, copied: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []

    def watched(*arguments: Any) -> list[Staged]:
        threads.append(threading.current_thread().name)
        return compute(*arguments)

    compute = cells_run.compute
    monkeypatch.setattr(cells_run, "compute", watched)
    monkeypatch.setattr(engines, "SHARED_BYTES", 1)
    run(copied, DEFAULT_SETTINGS, force=True, limits=Limits(threads=2))
    assert len(threads) > 1
    assert all(name.startswith("cells") for name in threads)
    assert in_order(copied) == in_order(plain)


@pytest.mark.parametrize(("little", "attempts"), [(300_000_000, [300_000_000]), (4_000_000, [4_000_000, None])])
def test_many_elements_are_computed_in_little_memory_where_that_is_enough(
    plain: Warehouse, copied: Warehouse, monkeypatch: pytest.MonkeyPatch, little: int, attempts: list[int | None]
) -> None:
    def watched(connection: duckdb.DuckDBPyConnection, *arguments: Any) -> list[Staged]:
        limits.append(allowed(connection))
        return compute(connection, *arguments)

    def allowed(connection: duckdb.DuckDBPyConnection) -> int:
        ((found,),) = connection.execute("SELECT parse_formatted_bytes(current_setting('memory_limit'))").fetchall()
        return int(found)

    usual, limits, compute = allowed(duckdb.connect()), [], cells_run._compute
    monkeypatch.setattr(cells_run, "LARGE_FILE", 0)
    monkeypatch.setattr(cells_run, "MANY_ELEMENTS", 0)
    monkeypatch.setattr(cells_run, "LITTLE_MEMORY", little)
    monkeypatch.setattr(cells_run, "_compute", watched)
    transform(copied, force=True)
    batches = len(limits) // len(attempts)
    assert batches > 0
    assert limits == pytest.approx([usual if limit is None else limit for limit in attempts] * batches, rel=0.1)
    assert digests(copied) == digests(plain)


@pytest.mark.parametrize("usual", [None, "30%", "3.3 GiB", "1GB", "12345678901 B"])
def test_memory_is_what_it_was_however_often_little_is_asked_for(plain: Warehouse, usual: str | None) -> None:
    def allowed() -> str:
        ((found,),) = connection.execute("SELECT current_setting('memory_limit')").fetchall()
        return str(found)

    with connect(plain, DEFAULT_SETTINGS, Limits(memory=usual)) as connection:
        before = allowed()
        for _ in range(20):
            with memory(connection, 300 << 20):
                assert allowed() == "300.0 MiB"
            assert allowed() == before


def test_a_connection_that_fails_ends_the_run_and_leaves_nothing_aside(
    plain: Warehouse, copied: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    other_done = threading.Event()

    def fails(connection: duckdb.DuckDBPyConnection, warehouse: Warehouse, batch: cells_run.Batch) -> list[Staged]:
        if (batch.partitions[0].date, batch.number) == (DAY, 0):
            assert other_done.wait(60)
            raise duckdb.IOException("the disk is gone")
        staged = compute(connection, warehouse, batch)
        other_done.set()
        return staged

    compute = cells_run.compute
    monkeypatch.setattr(cells_run, "compute", fails)
    monkeypatch.setattr(engines, "SHARED_BYTES", 1)
    with pytest.raises(duckdb.IOException, match="the disk is gone"):
        run(copied, DEFAULT_SETTINGS, force=True, limits=Limits(threads=2))
    monkeypatch.undo()
    assert other_done.is_set()
    assert not list((copied.root / "_tmp").glob("*.parquet"))
    transform(copied)
    assert in_order(copied) == in_order(plain)


def test_an_interrupt_ends_all_connections_before_what_they_staged_is_removed(
    copied: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, interrupted = threading.Event(), threading.Event()

    def waits(connection: duckdb.DuckDBPyConnection, warehouse: Warehouse, batch: cells_run.Batch) -> list[Staged]:
        if batch.partitions[0].date != DAY:  # whose parts are published together, first of all
            begun.set()
            assert interrupted.wait(60)
        return compute(connection, warehouse, batch)

    def ends(_: object, __: object, ___: object, staged: Sequence[Staged]) -> None:
        if staged:
            assert begun.wait(60)
            interrupted.set()
            raise KeyboardInterrupt

    compute = cells_run.compute
    monkeypatch.setattr(cells_run, "compute", waits)
    monkeypatch.setattr(runner, "publish", ends)
    monkeypatch.setattr(engines, "SHARED_BYTES", 1)
    with pytest.raises(KeyboardInterrupt) as told:
        run(copied, DEFAULT_SETTINGS, force=True, limits=Limits(threads=2))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("cells")]
    assert not list((copied.root / "_tmp").iterdir())
    assert told.traceback  # which holds on to what was left open


def test_what_a_try_staged_that_ran_out_of_memory_is_not_published(
    plain: Warehouse, copied: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_up: list[Path] = []

    def written(*arguments: Any) -> list[Staged]:
        staged = stage(*arguments)
        if not given_up:
            given_up.extend(one.path for one in staged)
            raise duckdb.OutOfMemoryException("too little")
        return staged

    monkeypatch.setattr(cells_run, "LARGE_FILE", 0)
    monkeypatch.setattr(cells_run, "MANY_ELEMENTS", 0)
    monkeypatch.setattr(cells_run, "stage", written)
    transform(copied, force=True)
    assert given_up
    assert digests(copied) == digests(plain)
    assert not list((copied.root / "_tmp").iterdir())


def test_a_unit_that_fails_leaves_nothing_aside(copied: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    def written(*arguments: Any) -> list[Staged]:
        if list((copied.root / "_tmp").glob("*.parquet")):
            raise duckdb.IOException("the disk is gone")
        return stage(*arguments)

    monkeypatch.setattr(cells_run, "stage", written)
    with pytest.raises(duckdb.IOException, match="the disk is gone"):
        transform(copied, force=True)
    assert not list((copied.root / "_tmp").glob("*.parquet"))


def test_a_run_that_fails_leaves_nothing_aside_nor_one_that_was_killed(
    copied: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[Path] = []

    def stored(*_: object) -> set[Partition]:
        left.extend((copied.root / "_tmp").glob("*.parquet"))
        raise KeyboardInterrupt

    killed, of_another = copied.aside(STAGED), copied.aside()
    killed.touch()
    of_another.touch()
    monkeypatch.setattr(marts_run, "stored", stored)
    with pytest.raises(KeyboardInterrupt):
        transform(copied, force=True)
    assert killed not in left
    assert len(left) > 2
    assert list((copied.root / "_tmp").iterdir()) == [of_another]


def test_an_interrupt_leaves_no_draft_of_the_database(copied: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[str] = []

    def interrupted(*_: object) -> None:
        left.extend(path.suffix for path in (copied.root / "_tmp").iterdir())
        raise KeyboardInterrupt

    (copied.root / DATABASE).unlink()
    monkeypatch.setattr(Warehouse, "publish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        publish_database(published(copied.root), DEFAULT_SETTINGS)
    assert left == [".duckdb"]
    assert not list((copied.root / "_tmp").iterdir())
    monkeypatch.undo()
    publish_database(published(copied.root), DEFAULT_SETTINGS)
    assert (copied.root / DATABASE).exists()


def test_the_views_by_hand_give_what_is_stored(plain: Warehouse, tmp_path: Path) -> None:
    with duckdb.connect(str(plain.root / DATABASE), read_only=True) as by_hand:
        from_views = by_hand.execute(
            "SELECT date, sum(rounds), sum(itl.sum) FROM intervals GROUP BY ALL ORDER BY ALL"
        ).fetchall()
        from_cells = by_hand.execute(
            "SELECT date, sum(rounds), sum(step_decode_ns) FROM cells_snapshots GROUP BY ALL ORDER BY ALL"
        ).fetchall()
        assert from_views == from_cells
        assert by_hand.execute("SELECT load_band(3), ratio(1, 4)").fetchall() == [("2-4", 0.25)]
        assert by_hand.execute("SELECT count(*) FROM quality").fetchall() == [(0,)]
        tables = by_hand.execute("SELECT count(*) FROM duckdb_tables()").fetchall()
    assert tables == [(0,)]


def test_nothing_is_left_aside(plain: Warehouse) -> None:
    assert list((plain.root / "_tmp").iterdir()) == []


def test_a_warehouse_without_rows_is_said_to_be_empty(tmp_path: Path) -> None:
    with pytest.raises(EmptyWarehouse, match="ingest something"):
        transform(Warehouse(tmp_path))
