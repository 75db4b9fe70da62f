"""How the two sides went over time: acceptance, load and pressure on the KV cache, and when servers started."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .model import Restart, SideName, TimePoint
from .selection import Selection

if TYPE_CHECKING:
    import duckdb

ORIGINS = ("snapshots", "log_stats", "requests")
"""Origins in the order in which they are asked: only the first two know the KV cache."""
STEPS = ((2, 10), (14, 60))
"""Up to that many dates, stretches of that many minutes; above, a day: a side has at most some 340, or one a night."""
DAY = 24 * 60
MOST_RESTARTS = 200
_COUNTS = ("requests", "rounds", "accepted", "preemptions", "kv_n", "kv_ppm", "running_n", "running_milli")
_LARGEST = ("kv_max_ppm", "waiting_max")
_LACKING = {
    "snapshots": (),
    "log_stats": ("requests", "preemptions"),
    "requests": ("kv_n", "kv_ppm", "running_n", "running_milli", "kv_max_ppm", "waiting_max"),
}
"""Columns that the cells of an origin do not have."""


def timeline(connection: duckdb.DuckDBPyConnection, sides: Mapping[SideName, Selection]) -> tuple[TimePoint, ...]:
    """Both sides over time, rising, from one origin where both have it; a side without data has no points."""
    dates = {date for side in sides.values() for date in side.dates}
    minutes = next((step for most, step in STEPS if len(dates) <= most), DAY)
    origins = {name: [origin for origin in ORIGINS if _has(connection, origin, side)] for name, side in sides.items()}
    shared = [origin for origin in ORIGINS if all(origin in found for found in origins.values() if found)]
    points = [
        point
        for name, side in sides.items()
        if origins[name]
        for point in _points(connection, name, side, shared[0] if shared else origins[name][0], minutes)
    ]
    return tuple(sorted(points, key=lambda point: (point.start, point.side)))


def restarts(connection: duckdb.DuckDBPyConnection, sides: Mapping[SideName, Selection]) -> tuple[Restart, ...]:
    """Starts of servers on the dates of each side, rising; the latest where there are very many."""
    found = [
        Restart(name, deployment, _iso(started_at), version)
        for name, side in sides.items()
        for deployment, started_at, version in connection.execute(
            f"""
            SELECT DISTINCT deployment, started_at, vllm_version
            FROM deployments
            WHERE started_at IS NOT NULL AND (CAST(started_at AS DATE), deployment) IN ({_NIGHTS})
            ORDER BY started_at, deployment
            """,
            _nights(side),
        ).fetchall()
    ]
    return tuple(sorted(found, key=lambda restart: (restart.at, restart.side))[-MOST_RESTARTS:])


_NIGHTS = "SELECT unnest($dates), unnest($deployments)"


def _nights(side: Selection) -> dict[str, Any]:
    return {
        "dates": [night.date for night in side.nights],
        "deployments": [night.deployment for night in side.nights],
    }


def _has(connection: duckdb.DuckDBPyConnection, origin: str, side: Selection) -> bool:
    query = f"SELECT 1 FROM cells_{origin} WHERE (date, deployment) IN ({_NIGHTS}) LIMIT 1"
    return bool(side.nights) and connection.execute(query, _nights(side)).fetchone() is not None


def _points(
    connection: duckdb.DuckDBPyConnection, name: SideName, side: Selection, origin: str, minutes: int
) -> list[TimePoint]:
    lacking = _LACKING[origin]
    sums = [f"sum({'NULL' if column in lacking else column}) AS {column}" for column in _COUNTS]
    largest = [f"max({'NULL' if column in lacking else column}) AS {column}" for column in _LARGEST]
    cursor = connection.execute(
        f"""
        SELECT date, (block * 10) // {minutes} AS stretch, {", ".join(sums + largest)}
        FROM cells_{origin}
        WHERE (date, deployment) IN ({_NIGHTS})
        GROUP BY ALL
        ORDER BY ALL
        """,
        _nights(side),
    )
    names = [column[0] for column in cursor.description or ()]
    return [_point(dict(zip(names, row, strict=True)), name, origin, minutes) for row in cursor.fetchall()]


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
        running_mean=_ratio(row["running_milli"], row["running_n"], 1e-3),
        waiting_max=_whole(row["waiting_max"]),
        kv_usage_mean=_ratio(row["kv_ppm"], row["kv_n"], 1e-6),
        kv_usage_max=None if row["kv_max_ppm"] is None else row["kv_max_ppm"] * 1e-6,
        preemptions=_whole(row["preemptions"]),
    )


def _ratio(numerator: int | None, denominator: int | None, scale: float) -> float | None:
    return numerator * scale / denominator if denominator and numerator is not None else None


def _whole(value: int | None) -> int | None:
    return None if value is None else int(value)


def _iso(moment: dt.datetime) -> str:
    return moment.isoformat(timespec="seconds") + "Z"
