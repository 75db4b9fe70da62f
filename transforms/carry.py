"""What a partition takes over from before it: the last scrapes and log records, and the requests around midnight.

The rows are written to files aside and read together with the partition's own. A UNION of both would do as well, but
DuckDB then reads whole structs where a query needs one field of them.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..schemas import TABLES
from ..schemas.table import literal
from ..schemas.warehouse import DataFile, Warehouse, scan

if TYPE_CHECKING:
    import duckdb

CARRY_DAYS = {"snapshots": 7, "requests": 1, "log_stats": 7}
"""How many days back the last rows of a series are looked for; requests are carried over midnight only."""

CARRIED = "-carried"
"""Ending of the folders under ``_tmp`` that hold carried rows."""

_SERIES = {
    "snapshots": ("scraped_at", ("deployment", "instance", "engine", "model_name")),
    "log_stats": ("logged_at", ("deployment", "instance", "engine")),
}
"""Tables of which the last hour of each series is carried: enough to bridge scrapes that miss a value."""

Files = Mapping[str, Sequence[DataFile]]
"""Files by table."""


@contextlib.contextmanager
def carried(
    connection: duckdb.DuckDBPyConnection, warehouse: Warehouse, own: Files, before: Files
) -> Iterator[dict[str, list[Path]]]:
    """Files with what partitions take over, by table; they exist inside the block.

    ``own`` are the partitions' files, ``before`` those of CARRY_DAYS before each, but for those that are its own.
    """
    folder = warehouse.aside(CARRIED)
    try:
        yield {name: _written(connection, name, own[name], before[name], folder / name) for name in before}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _written(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    own: Sequence[DataFile],
    before: Sequence[DataFile],
    folder: Path,
) -> list[Path]:
    if not own or not before:
        return []
    select = _last_hours(connection, name, own, before) if name in _SERIES else _around_midnight(_rows(name, before))
    if select is None:
        return []
    folder.mkdir(parents=True, mode=0o700)
    connection.execute(f"COPY ({select}) TO {literal(str(folder))} (FORMAT parquet, PARTITION_BY (date, deployment))")
    return sorted(folder.glob("*/*/*.parquet"))


def _last_hours(
    connection: duckdb.DuckDBPyConnection, name: str, own: Sequence[DataFile], before: Sequence[DataFile]
) -> str | None:
    """The last hour of each series before each date that has rows of it.

    Days are looked at one after the other, back from each partition, until all its series are found: mostly the day
    before holds them all.
    """
    moment, series = _SERIES[name]
    columns, same = ", ".join(series), _same("earlier", "later", series)
    ends = f"SELECT date, {columns}, max({moment}) AS last"
    connection.execute(f"CREATE OR REPLACE TEMP TABLE own AS {ends} FROM ({_rows(name, own)}) GROUP BY ALL")
    connection.execute("CREATE OR REPLACE TEMP TABLE found AS FROM own LIMIT 0")
    looking = {(file.date, file.deployment) for file in own}
    unread = list(before)
    for back in range(1, CARRY_DAYS[name] + 1):
        days = {(date - dt.timedelta(back), deployment) for date, deployment in looking}
        if files := [file for file in unread if (file.date, file.deployment) in days]:
            connection.execute(f"INSERT INTO found {ends} FROM ({_rows(name, files)}) GROUP BY ALL")
            unread = [file for file in unread if file not in files]
        looking = set(
            connection.execute(
                "SELECT DISTINCT date, deployment FROM own AS later "
                "ANTI JOIN (FROM own UNION ALL FROM found) AS earlier "
                f"ON {same} AND earlier.date < later.date AND earlier.date >= later.date - {back}"
            ).fetchall()
        )
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE latest AS SELECT DISTINCT date, {columns}, last - INTERVAL 1 HOUR AS since "
        "FROM found AS earlier SEMI JOIN own AS later "
        f"ON {same} AND earlier.date < later.date AND earlier.date >= later.date - {CARRY_DAYS[name]}"
    )
    wanted = connection.execute("SELECT DISTINCT date, deployment FROM latest").fetchall()
    files = [file for file in before if (file.date, file.deployment) in wanted]
    if not files:
        return None
    # The constant lets whole row groups be skipped, which a join does not.
    ((since,),) = connection.execute("SELECT min(since) FROM latest").fetchall()
    return (
        f"SELECT taken.* FROM ({_rows(name, files)}) AS taken "
        f"INNER JOIN latest ON taken.date = latest.date AND {_same('taken', 'latest', series)} "
        f"WHERE taken.{moment} >= TIMESTAMP '{since}' AND taken.{moment} >= latest.since"
    )


def _same(one: str, other: str, columns: Iterable[str]) -> str:
    return " AND ".join(f"{one}.{column} IS NOT DISTINCT FROM {other}.{column}" for column in columns)


def _rows(name: str, files: Iterable[DataFile]) -> str:
    return scan(TABLES[name], [str(file.path.resolve()) for file in files])


def _around_midnight(rows: str) -> str:
    return f"SELECT * FROM ({rows}) WHERE coalesce(finished_at >= CAST(date + 1 AS TIMESTAMP) - INTERVAL 1 HOUR, true)"
