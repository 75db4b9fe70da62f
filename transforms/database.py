"""DuckDB as the transforms and ``specledger.duckdb`` see it: one macro for each conversion, one view for each table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..schemas import TABLES
from ..schemas.config import Settings
from ..schemas.table import quote
from ..schemas.warehouse import DATABASE, Warehouse
from .catalog import query, transforms
from .macros import create_macros

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class Limits:
    """What a connection may use: threads, and memory as DuckDB writes it (for example 1GB); None means its default."""

    threads: int | None = None
    memory: str | None = None


def connect(warehouse: Warehouse, settings: Settings, limits: Limits = Limits()) -> duckdb.DuckDBPyConnection:
    """A connection in memory with every macro and a view for every raw, staging, cell and mart table."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET preserve_insertion_order = false")
    connection.execute("SET TimeZone = 'UTC'")
    spill = warehouse.root / "_tmp"
    spill.mkdir(parents=True, exist_ok=True, mode=0o700)
    connection.execute(f"SET temp_directory = '{str(spill.resolve()).replace(chr(39), chr(39) * 2)}'")
    if limits.threads is not None:
        connection.execute(f"SET threads = {int(limits.threads)}")
    if limits.memory is not None:
        connection.execute("SET memory_limit = ?", [limits.memory])
    create_views(connection, warehouse, settings)
    return connection


def create_views(connection: duckdb.DuckDBPyConnection, warehouse: Warehouse, settings: Settings) -> None:
    """Create macros and views in the current database of the connection; a table without files is an empty view."""
    create_macros(connection, settings)
    for table in TABLES.values():
        connection.execute(f"CREATE OR REPLACE VIEW {quote(table.name)} AS {warehouse.select(table)}")
    for table in transforms("staging"):
        connection.execute(f"CREATE OR REPLACE VIEW {quote(table.name)} AS {query('staging', table.name)}")


def publish_database(warehouse: Warehouse, settings: Settings) -> None:
    """Write ``specledger.duckdb`` aside and put it in place in one step; it holds views and macros, no rows."""
    import duckdb

    aside = warehouse.aside(".duckdb")
    with duckdb.connect(str(aside)) as connection:
        create_views(connection, warehouse, settings)
    warehouse.publish(aside, warehouse.root / DATABASE)
