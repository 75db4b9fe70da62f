"""Taking the rows of a transform from DuckDB and putting them in their partitions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..schemas.table import Table, quote
from ..schemas.warehouse import Warehouse
from .partitions import Partition

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


def select_sorted(connection: duckdb.DuckDBPyConnection, table: Table, select: str) -> pa.Table:
    """The rows of a transform in the order of date, deployment and key, so that equal input gives equal files."""
    order = ", ".join(quote(name) for name in dict.fromkeys(("date", "deployment", *table.key)))
    rows: pa.Table = connection.sql(f"SELECT * FROM ({select}) ORDER BY {order}").to_arrow_table()
    return rows


def publish(warehouse: Warehouse, table: Table, rows: pa.Table, name: str) -> list[Partition]:
    """Write the rows of each partition as its file ``name``; gives the partitions that have rows.

    ``rows`` must be sorted by date and deployment.
    """
    found = _slices(rows)
    for partition, own in found.items():
        warehouse.write(table, partition.date, partition.deployment, name, own)
    return list(found)


def remove(warehouse: Warehouse, table: Table, partition: Partition, keep: Iterable[str]) -> None:
    """Remove the files of a partition but those named."""
    kept = {f"{name}.parquet" for name in keep}
    for file in warehouse.files(table, date=partition.date, deployment=partition.deployment):
        if file.path.name not in kept:
            file.path.unlink(missing_ok=True)


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
