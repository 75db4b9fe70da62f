"""How the two sides went over time: acceptance, load and pressure on the KV cache, and when servers started."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from ..schemas.raw import DEPLOYMENTS
from ..schemas.warehouse import Warehouse, reading
from .cells_read import CELLS, CellReader
from .model import Restart, SideName, TimePoint
from .selection import Selection, select_nights

ORIGINS = ("snapshots", "log_stats", "requests")
"""Origins in the order in which they are asked: only the first two know the KV cache."""
STEPS = ((2, 10), (14, 60))
"""Up to that many dates, stretches of that many minutes; above, a day: a side has at most some 340, or one a night."""
DAY = 24 * 60
MOST_RESTARTS = 200
_COUNTS = ("requests", "rounds", "accepted", "preemptions", "kv_n", "kv_ppm", "running_n", "running_milli")
_LARGEST = ("kv_max_ppm", "waiting_max")


def timeline(reader: CellReader, sides: Mapping[SideName, Selection]) -> tuple[TimePoint, ...]:
    """Both sides over time, rising, from one origin where both have it; a side without data has no points."""
    dates = {date for side in sides.values() for date in side.dates}
    minutes = next((step for most, step in STEPS if len(dates) <= most), DAY)
    origins = {name: [origin for origin in ORIGINS if reader.holds(side, origin)] for name, side in sides.items()}
    shared = [origin for origin in ORIGINS if all(origin in found for found in origins.values() if found)]
    points = [
        point
        for name, side in sides.items()
        if origins[name]
        for point in _points(reader, shared[0] if shared else origins[name][0], side, name, minutes)
    ]
    return tuple(sorted(points, key=lambda point: (point.start, point.side)))


def restarts(warehouse: Warehouse, sides: Mapping[SideName, Selection]) -> tuple[Restart, ...]:
    """Starts of servers on the dates of each side, rising; the latest where there are very many."""
    connection = reading()
    found = [
        Restart(name, deployment, _iso(started_at), version)
        for name, side in sides.items()
        for deployment, started_at, version in connection.execute(
            f"""
            SELECT DISTINCT deployment, started_at, vllm_version
            FROM ({select_nights(warehouse, DEPLOYMENTS, side)})
            WHERE started_at IS NOT NULL
            ORDER BY ALL
            """
        ).fetchall()
    ]
    return tuple(sorted(found, key=lambda restart: (restart.at, restart.side))[-MOST_RESTARTS:])


def _points(reader: CellReader, origin: str, side: Selection, name: SideName, minutes: int) -> list[TimePoint]:
    sums = [f"sum({column if column in CELLS[origin].names else 'NULL'})" for column in _COUNTS]
    largest = [f"max({column if column in CELLS[origin].names else 'NULL'})" for column in _LARGEST]
    names = ("date", "stretch", *_COUNTS, *_LARGEST)
    rows = reader.stretches(side, origin, minutes, sums + largest)
    return [_point(dict(zip(names, row, strict=True)), name, origin, minutes) for row in rows]


def _point(row: Mapping[str, Any], side: SideName, origin: str, minutes: int) -> TimePoint:
    start = dt.datetime.combine(row["date"], dt.time()) + dt.timedelta(minutes=row["stretch"] * minutes)
    rounds, accepted = row["rounds"], row["accepted"]
    return TimePoint(
        side=side,
        start=_iso(start),
        minutes=minutes,
        origin=origin,
        requests=_whole(row["requests"]),
        rounds=_whole(rounds),
        accepted=_whole(accepted),
        acceptance_length=1 + accepted / rounds if rounds and accepted is not None else None,
        running_mean=_mean(row["running_milli"], row["running_n"], 1_000),
        waiting_max=_whole(row["waiting_max"]),
        kv_usage_mean=_mean(row["kv_ppm"], row["kv_n"], 1_000_000),
        kv_usage_max=None if row["kv_max_ppm"] is None else row["kv_max_ppm"] / 1_000_000,
        preemptions=_whole(row["preemptions"]),
    )


def _mean(total: int | None, count: int | None, parts: int) -> float | None:
    """Mean of values held as that many parts of one."""
    return total / (count * parts) if count and total is not None else None


def _whole(value: int | None) -> int | None:
    return None if value is None else int(value)


def _iso(moment: dt.datetime) -> str:
    return moment.isoformat(timespec="seconds") + "Z"
