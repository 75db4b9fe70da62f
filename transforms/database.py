"""DuckDB as the transforms and ``specledger.duckdb`` see it: one macro for each conversion, one view for each table."""

from __future__ import annotations

import uuid
from collections.abc import Container
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..schemas import TABLES
from ..schemas.config import Settings
from ..schemas.table import literal, quote
from ..schemas.warehouse import DATABASE, Warehouse
from .catalog import query, transforms
from .macros import create_macros

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class Limits:
    """What a connection may use: threads, and memory as DuckDB writes it (``1GB``); None means DuckDB's default."""

    threads: int | None = None
    memory: str | None = None


NO_LIMITS = Limits()


def connect(warehouse: Warehouse, settings: Settings, limits: Limits = NO_LIMITS) -> duckdb.DuckDBPyConnection:
    """A connection in memory with every macro; what does not fit in memory goes to the warehouse's ``_tmp``."""
    import duckdb

    spill = warehouse.root.resolve() / "_tmp" / f"spill-{uuid.uuid4().hex}"
    connection = duckdb.connect(config={"python_enable_replacements": "false", "temp_directory": str(spill)})
    connection.execute("SET preserve_insertion_order = false")
    connection.execute("SET TimeZone = 'UTC'")
    if limits.threads is not None:
        connection.execute(f"SET threads = {limits.threads}")
    if limits.memory is not None:
        connection.execute(f"SET memory_limit = {literal(limits.memory)}")
    create_macros(connection, settings)
    return connection


def create_views(
    connection: duckdb.DuckDBPyConnection, warehouse: Warehouse, names: Container[str] | None = None
) -> None:
    """A view for every raw, staging, cell and mart table, or for those named; one without files is an empty view."""
    for table in TABLES.values():
        if names is None or table.name in names:
            connection.execute(f"CREATE OR REPLACE VIEW {quote(table.name)} AS {warehouse.select(table)}")
    for table in transforms("staging"):
        if names is None or table.name in names:
            connection.execute(f"CREATE OR REPLACE VIEW {quote(table.name)} AS {query('staging', table.name)}")


def publish_database(warehouse: Warehouse, settings: Settings) -> None:
    """Write ``specledger.duckdb`` aside and put it in place in one step; it holds views and macros, no rows."""
    import duckdb

    aside = warehouse.aside(".duckdb")
    with duckdb.connect(str(aside)) as connection:
        create_macros(connection, settings)
        create_views(connection, warehouse)
    warehouse.publish(aside, warehouse.root / DATABASE)
