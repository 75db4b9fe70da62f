"""The marts of changed dates, from the cells of those dates; the ledger also from the dates around them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..schemas import TABLES
from ..schemas.marts import LEDGER
from ..schemas.table import Table, quote
from ..schemas.warehouse import Warehouse, scan
from .catalog import query, transforms
from .partitions import Partition
from .results import publish, remove, select_sorted

if TYPE_CHECKING:
    import duckdb

LEDGER_REACH = dt.timedelta(30)
"""T0 may be taken from a date this far away."""


def compute(connection: duckdb.DuckDBPyConnection, warehouse: Warehouse, dates: Iterable[dt.date]) -> None:
    """Compute and publish every mart of the dates but the ledger."""
    days = sorted(dates)
    for table in TABLES.values():
        if table.kind in ("raw", "cells") and table.name != "deployments":
            _bind(connection, warehouse, table, days)
    for table in transforms("marts"):
        if table is LEDGER:
            continue
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {quote(table.name)} AS {query('marts', table.name)}")
        _publish(connection, warehouse, table, f"FROM {quote(table.name)}", days)
    for table in transforms("marts"):
        if table is not LEDGER:
            connection.execute(f"DROP TABLE {quote(table.name)}")


def compute_ledger(connection: duckdb.DuckDBPyConnection, warehouse: Warehouse, dates: Iterable[dt.date]) -> None:
    """Compute and publish the ledger of the dates, from what is published of them and of 30 days around."""
    days = sorted(dates)
    reach = {day + dt.timedelta(n) for day in days for n in range(-LEDGER_REACH.days, LEDGER_REACH.days + 1)}
    for name in LEDGER.reads:
        if name != "deployments":
            _bind(connection, warehouse, TABLES[name], sorted(reach))
    wanted = ", ".join(f"DATE '{day}'" for day in days)
    select = f"SELECT * FROM ({query('marts', LEDGER.name)}) WHERE date IN ({wanted})"
    _publish(connection, warehouse, LEDGER, select, days)


def _bind(connection: duckdb.DuckDBPyConnection, warehouse: Warehouse, table: Table, days: list[dt.date]) -> None:
    paths = [str(file.path.resolve()) for day in days for file in warehouse.files(table, date=day)]
    select = scan(table, paths) if paths else table.empty_select()
    connection.execute(f"CREATE OR REPLACE TEMP VIEW {quote(table.name)} AS {select}")


def _publish(
    connection: duckdb.DuckDBPyConnection, warehouse: Warehouse, table: Table, select: str, days: list[dt.date]
) -> None:
    written = set(publish(warehouse, table, select_sorted(connection, table, select), "part"))
    stored = {Partition(file.date, file.deployment) for day in days for file in warehouse.files(table, date=day)}
    for partition in stored - written:
        remove(warehouse, table, partition, keep=())
