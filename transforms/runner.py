"""Runs the transforms: staging and cells of every partition that changed, then the marts of its date."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from ..schemas.config import Settings
from ..schemas.table import Table
from ..schemas.warehouse import Warehouse
from .catalog import query, transforms
from .database import connect, publish_database

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


def run(warehouse: Warehouse, settings: Settings) -> None:
    """Bring cells, marts and ``specledger.duckdb`` up to date with the raw tables."""
    connection = connect(warehouse.require(), settings)
    for table in transforms("cells"):
        _store(connection, warehouse, table, query("cells", table.name))
    for table in transforms("marts"):
        connection.execute(f"CREATE OR REPLACE VIEW {table.name} AS {warehouse.select(table)}")
        _store(connection, warehouse, table, query("marts", table.name))
        connection.execute(f"CREATE OR REPLACE VIEW {table.name} AS {warehouse.select(table)}")
    publish_database(warehouse, settings)


def _store(connection: duckdb.DuckDBPyConnection, warehouse: Warehouse, table: Table, select: str) -> None:
    rows: pa.Table = connection.sql(f"SELECT * FROM ({select}) ORDER BY ALL").to_arrow_table()
    partitions = sorted(set(zip(rows["date"].to_pylist(), rows["deployment"].to_pylist(), strict=True)))
    for date, deployment in partitions:
        _store_partition(warehouse, table, rows, date, deployment)


def _store_partition(warehouse: Warehouse, table: Table, rows: pa.Table, date: dt.date, deployment: str) -> None:
    import pyarrow.compute as pc

    chosen = pc.and_(pc.equal(rows["date"], date), pc.equal(rows["deployment"], deployment))
    warehouse.write(table, date, deployment, "part", rows.filter(chosen))
