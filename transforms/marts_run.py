"""The marts of changed dates, from the cells of those dates; round costs and ledger also from the dates around them."""

from __future__ import annotations

import datetime as dt
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..schemas import TABLES
from ..schemas.cost_marts import ROUND_COST, ROUND_SPLIT
from ..schemas.marts import DEPLOYMENT_DAYS, LEDGER
from ..schemas.table import Table, quote
from ..schemas.warehouse import DataFile, Warehouse, scan
from .catalog import query, transforms
from .partitions import Partition
from .results import Staged, select_sorted, stage

if TYPE_CHECKING:
    import duckdb

LEDGER_REACH = dt.timedelta(30)
"""Ordinary decode may be taken from a date this far away."""
REACHING = (ROUND_COST, ROUND_SPLIT, LEDGER)
"""The marts that reach so far, or read one that does; in order."""


OWN = tuple(table for table in transforms("marts") if table not in REACHING)
"""All others, in order."""


@dataclass(frozen=True)
class Dates:
    """Dates whose marts are computed together, and those of which something is read."""

    days: tuple[dt.date, ...]
    reach: tuple[dt.date, ...]
    share: int = 0
    shares: int = 1
    """Into how many parts the deployments are divided, and which of them this is; ledgers look at all."""

    def files(self, warehouse: Warehouse, table: Table) -> list[DataFile]:
        """The files of a table that are read."""
        found = (file for day in self.reach for file in warehouse.files(table, date=day))
        return [file for file in found if zlib.crc32(file.deployment.encode()) % self.shares == self.share]


def compute(connection: duckdb.DuckDBPyConnection, warehouse: Warehouse, unit: Dates) -> list[Staged]:
    """Every mart of the dates but those that reach to other dates, written aside."""
    for table in TABLES.values():
        if table.kind in ("raw", "cells") and table.name != "deployments":
            _bind(connection, table, unit.files(warehouse, table))
    return _computed(connection, warehouse, OWN, "true")


def plain_days(connection: duckdb.DuckDBPyConnection, warehouse: Warehouse, dates: Iterable[dt.date]) -> set[dt.date]:
    """Those of the dates on which a deployment ran without speculation, by the marts that are published."""
    marts = warehouse.select_dates(DEPLOYMENT_DAYS, set(dates))
    rows = connection.execute(f"SELECT DISTINCT date FROM ({marts}) WHERE NOT speculative").fetchall()
    return {date for (date,) in rows}


def compute_ledger(connection: duckdb.DuckDBPyConnection, warehouse: Warehouse, unit: Dates) -> list[Staged]:
    """Round costs and the ledger of the dates, from what is published of those they reach to, written aside."""
    for name in sorted({name for table in REACHING for name in table.reads} - {"deployments"}):
        if TABLES[name] not in REACHING:
            within = replace(unit, reach=unit.days) if TABLES[name].kind == "raw" else unit
            _bind(connection, TABLES[name], within.files(warehouse, TABLES[name]))
    wanted = ", ".join(f"DATE '{day}'" for day in unit.days)
    return _computed(connection, warehouse, REACHING, f"date IN ({wanted})")


def stored(warehouse: Warehouse, tables: Iterable[Table], days: Iterable[dt.date]) -> set[Partition]:
    """The partitions of these dates that have files of one of the tables."""
    return {
        Partition(file.date, file.deployment)
        for day in days
        for table in tables
        for file in warehouse.files(table, date=day)
    }


def _computed(
    connection: duckdb.DuckDBPyConnection, warehouse: Warehouse, tables: Sequence[Table], where: str
) -> list[Staged]:
    """Tables of which each may read those before it."""
    staged: list[Staged] = []
    for table in tables:
        select = f"SELECT * FROM ({query('marts', table.name)}) WHERE {where}"
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {quote(table.name)} AS {select}")
        staged += stage(warehouse, table, select_sorted(connection, table, f"FROM {quote(table.name)}"), "part")
    for table in tables:
        connection.execute(f"DROP TABLE {quote(table.name)}")
    return staged


def _bind(connection: duckdb.DuckDBPyConnection, table: Table, files: Iterable[DataFile]) -> None:
    paths = [str(file.path.resolve()) for file in files]
    select = scan(table, paths) if paths else table.empty_select()
    connection.execute(f"CREATE OR REPLACE TEMP VIEW {quote(table.name)} AS {select}")
