"""Taking the rows of a transform from DuckDB, writing them aside, and putting them in their partitions.

Rows are written where they are computed and put in their places by the one who ordered it: what is computed twice, or
by somebody who was given up, is never seen.
"""

from __future__ import annotations

import contextlib
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..schemas import TABLES
from ..schemas.table import Table, quote
from ..schemas.warehouse import Warehouse
from .carry import CARRIED
from .partitions import Partition

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


STAGED = "-derived.parquet"
"""How the names of files end that are written aside here: only one run at a time has such."""


def select_sorted(connection: duckdb.DuckDBPyConnection, table: Table, select: str) -> pa.Table:
    """The rows of a transform in the order of date, deployment and key, so that equal input gives equal files."""
    order = ", ".join(quote(name) for name in dict.fromkeys(("date", "deployment", *table.key)))
    rows: pa.Table = connection.sql(f"SELECT * FROM ({select}) ORDER BY {order}").to_arrow_table()
    return rows


@dataclass(frozen=True)
class Staged:
    """The rows of one partition, written to a file aside, and the name that this is to have."""

    table: str
    partition: Partition
    name: str
    path: Path
    size: int
    """Bytes of the file."""


def stage(warehouse: Warehouse, table: Table, rows: pa.Table, name: str) -> list[Staged]:
    """Write the rows of each partition aside, to become its file ``name``; one for each partition that has rows.

    ``rows`` must be sorted by date and deployment.
    """
    found = []
    for partition, own in _slices(rows).items():
        path = warehouse.stage(table, own, STAGED)
        found.append(Staged(table.name, partition, name, path, path.stat().st_size))
    return found


def publish(
    warehouse: Warehouse, tables: Iterable[Table], partitions: Iterable[Partition], staged: Iterable[Staged]
) -> None:
    """Put files in their places, and remove what else these partitions have of these tables."""
    named: dict[tuple[str, Partition], list[str]] = defaultdict(list)
    for one in staged:
        folder = warehouse.partition(TABLES[one.table], one.partition.date, one.partition.deployment)
        warehouse.publish(one.path, folder / f"{one.name}.parquet")
        named[one.table, one.partition].append(one.name)
    for partition in partitions:
        for table in tables:
            remove(warehouse, table, partition, keep=named[table.name, partition])


def remove(warehouse: Warehouse, table: Table, partition: Partition, keep: Iterable[str]) -> None:
    """Remove the files of a partition but those named."""
    kept = {f"{name}.parquet" for name in keep}
    for file in warehouse.files(table, date=partition.date, deployment=partition.deployment):
        if file.path.name not in kept:
            file.path.unlink(missing_ok=True)


@contextlib.contextmanager
def swept(warehouse: Warehouse) -> Iterator[None]:
    """Remove what was carried or staged and not published: before the block by runs that were killed, after it by it.

    Only one run at a time does either.
    """
    _sweep(warehouse)
    try:
        yield
    finally:
        _sweep(warehouse)


def _sweep(warehouse: Warehouse) -> None:
    for folder in (warehouse.root / "_tmp").glob(f"*{CARRIED}"):
        shutil.rmtree(folder, ignore_errors=True)
    for file in (warehouse.root / "_tmp").glob(f"*{STAGED}"):
        file.unlink(missing_ok=True)


def _slices(rows: pa.Table) -> dict[Partition, pa.Table]:
    # Arrow gives groups in the order of a hash table, which is mostly, not always, the order of the rows.
    counts = rows.group_by(["date", "deployment"]).aggregate([([], "count_all")])
    counts = counts.sort_by([("date", "ascending"), ("deployment", "ascending")])
    slices: dict[Partition, pa.Table] = {}
    start = 0
    for date, deployment, count in zip(*(counts[name].to_pylist() for name in _COUNTED), strict=True):
        slices[Partition(date, deployment)] = rows.slice(start, count)
        start += count
    return slices


_COUNTED = ("date", "deployment", "count_all")
