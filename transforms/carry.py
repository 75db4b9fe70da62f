"""What a partition takes over from before it: the last scrapes and log records, and the requests around midnight.

The rows are written to files aside and read together with the partition's own. A UNION of both would do as well, but
DuckDB then reads whole structs where a query needs one field of them.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..schemas import TABLES
from ..schemas.table import literal
from ..schemas.warehouse import DataFile, Warehouse, scan

if TYPE_CHECKING:
    import duckdb

CARRY_DAYS = {"snapshots": 7, "requests": 1, "log_stats": 7}
"""How many days back the partition before is looked for; requests are carried over midnight only."""

CARRIED = "-carried"
"""Ending of the folders under ``_tmp`` that hold carried rows."""

_SERIES = {
    "snapshots": ("scraped_at", ("date", "deployment", "instance", "engine", "model_name")),
    "log_stats": ("logged_at", ("date", "deployment", "instance", "engine")),
}
"""Tables of which the last hour of each series is carried: enough to bridge scrapes that miss a value. Of each date, for
the partitions of a batch may have other ones before them."""


def sweep(warehouse: Warehouse) -> None:
    """Remove what runs that were killed have left; only one run at a time carries anything."""
    for folder in (warehouse.root / "_tmp").glob(f"*{CARRIED}"):
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def carried(
    connection: duckdb.DuckDBPyConnection, warehouse: Warehouse, files: Mapping[str, Iterable[DataFile]]
) -> Iterator[dict[str, list[Path]]]:
    """Files with what is carried out of the given ones, by table; they exist inside the block."""
    folder = warehouse.aside(CARRIED)
    try:
        yield {name: _written(connection, name, list(listed), folder / name) for name, listed in files.items()}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _written(connection: duckdb.DuckDBPyConnection, name: str, files: list[DataFile], folder: Path) -> list[Path]:
    if not files:
        return []
    rows = scan(TABLES[name], [str(file.path.resolve()) for file in files])
    select = _last_hour(connection, name, rows) if name in _SERIES else _around_midnight(rows)
    folder.mkdir(parents=True, mode=0o700)
    connection.execute(f"COPY ({select}) TO {literal(str(folder))} (FORMAT parquet, PARTITION_BY (date, deployment))")
    return sorted(folder.glob("*/*/*.parquet"))


def _last_hour(connection: duckdb.DuckDBPyConnection, name: str, rows: str) -> str:
    moment, series = _SERIES[name]
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE latest AS "
        f"SELECT {', '.join(series)}, max({moment}) - INTERVAL 1 HOUR AS since FROM ({rows}) GROUP BY ALL"
    )
    # The constant lets whole row groups be skipped, which a join does not.
    ((since,),) = connection.execute("SELECT min(since) FROM latest").fetchall()
    same = " AND ".join(f"found.{column} IS NOT DISTINCT FROM latest.{column}" for column in series)
    return (
        f"SELECT found.* FROM ({rows}) AS found INNER JOIN latest ON {same} "
        f"WHERE found.{moment} >= TIMESTAMP '{since}' AND found.{moment} >= latest.since"
    )


def _around_midnight(rows: str) -> str:
    return f"SELECT * FROM ({rows}) WHERE coalesce(finished_at >= CAST(date + 1 AS TIMESTAMP) - INTERVAL 1 HOUR, true)"
