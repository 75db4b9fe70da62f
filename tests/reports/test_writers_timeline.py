"""The two sides over time: stretches, origins, restarts."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from specledger.reports.cells_read import CellReader
from specledger.reports.model import Restart, TimePoint
from specledger.reports.selection import Night, Selection
from specledger.reports.timeline import restarts, timeline
from specledger.schemas import TABLES
from specledger.schemas.warehouse import Warehouse

DAY = dt.date(2026, 11, 20)


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path)


def write(warehouse: Warehouse, table: str, date: dt.date, deployment: str, *rows: dict[str, Any]) -> None:
    schema = TABLES[table].arrow_schema()
    given = {"instance": "i", "origin": table.removeprefix("cells_"), "hour": 0, "edges": 0, "source": "s"}
    full = [{name: {**given, **row}.get(name) for name in schema.names} for row in rows]
    warehouse.write(TABLES[table], date, deployment, "test", pa.Table.from_pylist(full, schema=schema))


def nights(deployment: str, *dates: dt.date) -> Selection:
    return Selection("true", tuple(Night(date, deployment) for date in dates or (DAY,)))


def test_cells_of_a_stretch_add_up_to_one_point(warehouse: Warehouse) -> None:
    row = {"block": 6, "rounds": 10, "accepted": 12, "requests": 2, "preemptions": 1, "kv_n": 2, "kv_ppm": 800_000}
    busier = {**row, "load": 2, "kv_max_ppm": 700_000, "running_n": 4, "running_milli": 6_000, "waiting_max": 3}
    write(warehouse, "cells_snapshots", DAY, "a", {**row, "load": 1, "kv_max_ppm": 500_000}, busier)
    assert timeline(CellReader(warehouse), {"candidate": nights("a")}) == (
        TimePoint(
            "candidate",
            "2026-11-20T01:00:00Z",
            10,
            "snapshots",
            requests=4,
            rounds=20,
            accepted=24,
            acceptance_length=2.2,
            running_mean=1.5,
            waiting_max=3,
            kv_usage_mean=0.4,
            kv_usage_max=0.7,
            preemptions=2,
        ),
    )


def test_more_dates_make_longer_stretches(warehouse: Warehouse) -> None:
    dates = [DAY + dt.timedelta(days=n) for n in range(20)]
    for date in dates:
        write(
            warehouse, "cells_requests", date, "a", *({"block": block, "rounds": 1, "accepted": 1} for block in (0, 7))
        )
    assert [point.minutes for point in timeline(CellReader(warehouse), {"candidate": nights("a", *dates[:2])})] == [
        10
    ] * 4
    assert [point.minutes for point in timeline(CellReader(warehouse), {"candidate": nights("a", *dates[:5])})] == [
        60
    ] * 10
    assert [point.minutes for point in timeline(CellReader(warehouse), {"candidate": nights("a", *dates)})] == [
        1440
    ] * 20


def test_both_sides_are_from_one_origin(warehouse: Warehouse) -> None:
    row = {"block": 0, "rounds": 10, "accepted": 10}
    write(warehouse, "cells_snapshots", DAY, "a", row)
    write(warehouse, "cells_requests", DAY, "a", row)
    write(warehouse, "cells_requests", DAY, "b", row)
    points = timeline(CellReader(warehouse), {"baseline": nights("a"), "candidate": nights("b")})
    assert [(point.side, point.origin) for point in points] == [("baseline", "requests"), ("candidate", "requests")]


def test_what_an_origin_cannot_tell_is_not_known(warehouse: Warehouse) -> None:
    write(warehouse, "cells_log_stats", DAY, "a", {"block": 0, "rounds": 0, "accepted": 0})
    (point,) = timeline(CellReader(warehouse), {"candidate": nights("a")})
    assert (point.acceptance_length, point.preemptions, point.requests, point.kv_usage_mean) == (None,) * 4


def test_a_side_without_data_has_no_points(warehouse: Warehouse) -> None:
    assert timeline(CellReader(warehouse), {"baseline": nights("none"), "candidate": Selection("false", ())}) == ()


def test_starts_of_servers_are_those_of_the_dates_of_each_side(warehouse: Warehouse) -> None:
    started = dt.datetime(2026, 11, 20, 4, 5, 6)
    for date, day in ((DAY, 0), (DAY + dt.timedelta(days=1), 1)):
        at = started + dt.timedelta(days=day)
        write(
            warehouse, "deployments", date, "a", {"started_at": at, "vllm_version": "0.32.0"}, {"labels": [("k", "v")]}
        )
    assert restarts(warehouse, {"candidate": nights("a")}) == (
        Restart("candidate", "a", "2026-11-20T04:05:06Z", "0.32.0"),
    )
