"""The benchmarks run and compare like with like; how fast is measured by ``make bench`` alone."""

from __future__ import annotations

import functools
import json
import math
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specledger.ingest.run import ingest
from specledger.schemas.config import DEFAULT_SETTINGS
from specledger.schemas.raw import SNAPSHOTS
from specledger.schemas.warehouse import Warehouse
from specledger.transforms.catalog import query
from specledger.transforms.database import connect, view_statements
from tests.bench import bench_ingest, bench_nights, inputs
from tests.bench.__main__ import BENCHES, main
from tests.bench.measure import Row, table
from tests.scale import SCALE


def test_a_row_says_whether_its_goal_was_kept() -> None:
    fast, slow = (Row("a", "", "", "", ratio, 50.0, at_least=True) for ratio in (51.0, 49.0))
    small, large = (Row("a", "", "", "", ratio, 3.0) for ratio in (2.0, 4.0))
    assert [row.kept for row in (fast, slow, small, large)] == [True, False, True, False]
    assert table([slow]).splitlines()[2].endswith("| 49    | ≥ 50 | missed |")


@pytest.mark.parametrize("name", ["ingest", "transforms"] if SCALE == 1 else BENCHES)
def test_a_benchmark_runs(name: str, tmp_path: Path) -> None:
    out = tmp_path / "bench.json"
    main(["--only", name, "--scale", "0.01", "--out", str(out)])
    rows = json.loads(out.read_text())["rows"]
    assert rows or name == "spark"
    assert all(math.isfinite(row["ratio"]) and row["goal"] > 0 for row in rows)


@pytest.mark.slow
def test_a_short_year_of_short_nights_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It fails where a measured night computes more than itself: those laid down count as computed."""
    small: dict[str, Any] = {"NIGHTS": (9,), "SAMPLE": 1, "FILES_KEPT": 2, "REFERENCE_NIGHTS": 6, "SECONDS": 60.0}
    small["WORLD"] = replace(bench_nights.WORLD, arrivals_per_s=4.0)
    for name, value in small.items():
        monkeypatch.setattr(bench_nights, name, value)
    for cached in (bench_nights.traces, bench_nights.scraped, bench_nights.logged, bench_nights.answered):
        cached.cache_clear()
    bench_nights.main(tmp_path)
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["baseline", "measure", "night 1", "night 9", "9 / 1", "goal"]
    ratios = {(line[0], line[1]): float(line[4]) for line in lines[2:]}
    assert len(ratios) == 2 * (len(bench_nights.MEASURES) + 1)
    assert ratios["pinned", "read, MB"] < bench_nights.GOAL  # bytes do not depend on what else the machine does


@pytest.mark.parametrize(
    "make",
    [
        inputs.scrapes,
        inputs.responses,
        *(functools.partial(inputs.server_log, capture=capture) for capture in bench_ingest.LOGS),
    ],
    ids=["scrapes", "responses", *bench_ingest.LOGS],
)
def test_lines_are_read_many_at_once(make: Callable[..., Path], tmp_path: Path) -> None:
    """A line that is read by itself takes ten calls of Python functions at least."""
    small, large = (make(tmp_path / f"{size}", size=size) for size in (1, 4))

    def calls(path: Path, name: str) -> int:
        return _calls(lambda: ingest(tmp_path / f"warehouse-{name}", [path], deployment="d", timezone="UTC"))

    calls(small, "first")  # imports what is needed
    more = calls(large, "large") - calls(small, "small")
    lines = large.read_bytes().count(b"\n") - small.read_bytes().count(b"\n")
    assert more / lines < 2


def _calls(work: Callable[[], object]) -> int:
    """How many calls of Python functions the work takes, in all threads."""
    count = 0

    def profile(_frame: object, event: str, _argument: Any) -> None:
        nonlocal count
        count += event == "call"

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return count


def test_a_scrape_passes_few_windows_and_is_never_multiplied(tmp_path: Path) -> None:
    """Counted rows of the query's plan: a window over all scrapes costs as much as all that is done with them after."""
    warehouse = Warehouse(tmp_path / "warehouse")
    count = inputs.fleet(warehouse, 2, 2)
    with connect(warehouse, DEFAULT_SETTINGS) as connection:
        for statement in view_statements(warehouse):
            connection.execute(statement)
        plan = json.loads(
            connection.execute(f"EXPLAIN (ANALYZE, FORMAT json) {query('staging', 'intervals')}").fetchall()[0][1]
        )
    rows = Counter[str]()
    for operator in _operators(plan["operator"]):
        assert operator["intermediate_rows"] <= count
        rows[operator["type"]] += operator["intermediate_rows"]
    assert count * 3 <= rows["WINDOW"] < count * 6
    assert count <= rows["TABLE_SCAN"] < count * 7


def _operators(tops: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for operator in tops:
        yield operator
        yield from _operators(operator.get("children", []))


def test_repeated_responses_are_requests_of_their_own(tmp_path: Path) -> None:
    path = inputs.responses(tmp_path / "responses.jsonl", 3.0)
    report = ingest(tmp_path / "warehouse", [path], deployment="d")
    assert report.rows["requests"] == len(path.read_text().splitlines())
    assert report.formats["responses"].duplicates == report.formats["responses"].rejects == 0


def test_counters_of_a_fleet_rise_all_day(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "warehouse")
    count = inputs.fleet(warehouse, 3, 2)
    with warehouse.connect(["snapshots"]) as connection:
        (found,) = connection.execute(
            "SELECT count(*), count(DISTINCT instance), count(*) FILTER (grown < 0) FROM (SELECT instance, "
            "generation_tokens - lag(generation_tokens) OVER (PARTITION BY instance ORDER BY scraped_at) AS grown "
            "FROM snapshots)"
        ).fetchall()
    assert found == (count, 2, 0)
    assert len(warehouse.files(SNAPSHOTS)) == 1


def test_the_anchor_of_responses_reads_what_ingest_keeps(tmp_path: Path) -> None:
    import duckdb

    path = inputs.responses(tmp_path / "responses.jsonl", 0.1)
    columns = ", ".join(f"{name}: '{kind}'" for name, kind in bench_ingest.COLUMNS.items())
    with duckdb.connect() as connection:
        (found,) = connection.execute(
            f"SELECT count(*), sum(num_spec_steps), sum(list_sum(per_step_accepted)) FROM (SELECT {bench_ingest.FLAT} "
            f"FROM read_json('{path}', format = 'newline_delimited', columns = {{{columns}}}))"
        ).fetchall()
    ingest(tmp_path / "warehouse", [path], deployment="d")
    with Warehouse(tmp_path / "warehouse").connect(["requests"]) as connection:
        kept = connection.execute("SELECT count(*), sum(rounds), sum(list_sum(step_accepted)) FROM requests").fetchall()
    assert kept == [found]
