"""The marts of changed dates, from the cells of those dates; round costs and ledger also from the dates around them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..schemas import TABLES
from ..schemas.cost_marts import ROUND_COST, ROUND_SPLIT
from ..schemas.marts import DEPLOYMENT_DAYS, LEDGER
from ..schemas.table import Table, quote
from ..schemas.warehouse import Warehouse, scan
from .catalog import query, transforms
from .partitions import Partition
from .results import publish, remove, select_sorted

if TYPE_CHECKING:
    import duckdb

LEDGER_REACH = dt.timedelta(30)
"""Ordinary decode may be taken from a date this far away."""
REACHING = (ROUND_COST, ROUND_SPLIT, LEDGER)
"""The marts that reach so far, or read one that does; in order."""


def compute(connection: duckdb.DuckDBPyConnection, warehouse: Warehouse, dates: Iterable[dt.date]) -> None:
    """Compute and publish every mart of the dates but those that reach to other dates."""
    days = sorted(dates)
    for table in TABLES.values():
        if table.kind in ("raw", "cells") and table.name != "deployments":
            _bind(connection, warehouse, table, days)
    own = [table for table in transforms("marts") if table not in REACHING]
    for table in own:
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {quote(table.name)} AS {query('marts', table.name)}")
        _publish(connection, warehouse, table, f"FROM {quote(table.name)}", days)
    for table in own:
        connection.execute(f"DROP TABLE {quote(table.name)}")


def plain_days(connection: duckdb.DuckDBPyConnection, warehouse: Warehouse, dates: Iterable[dt.date]) -> set[dt.date]:
    """Those of the dates on which a deployment ran without speculation, by the marts that are published."""
    _bind(connection, warehouse, DEPLOYMENT_DAYS, sorted(dates))
    rows = connection.execute("SELECT DISTINCT date FROM deployment_days WHERE NOT speculative").fetchall()
    return {date for (date,) in rows}


def compute_ledger(
    connection: duckdb.DuckDBPyConnection, warehouse: Warehouse, dates: Iterable[dt.date], reach: list[dt.date]
) -> None:
    """Compute and publish round costs and the ledger of the dates, from what is published of those they reach to."""
    days = sorted(dates)
    wanted = ", ".join(f"DATE '{day}'" for day in days)
    for name in sorted({name for table in REACHING for name in table.reads} - {"deployments"}):
        if TABLES[name] not in REACHING:
            _bind(connection, warehouse, TABLES[name], days if TABLES[name].kind == "raw" else reach)
    for table in REACHING:
        select = f"SELECT * FROM ({query('marts', table.name)}) WHERE date IN ({wanted})"
        _publish(connection, warehouse, table, select, days)
        _bind(connection, warehouse, table, days)


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
