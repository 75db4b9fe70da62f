"""DuckDB as the transforms and ``specledger.duckdb`` see it: one macro for each conversion, one view for each table."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..schemas import TABLES
from ..schemas.config import Settings
from ..schemas.published import Published
from ..schemas.table import literal, quote
from ..schemas.warehouse import DATABASE, VIEWS, Warehouse
from .catalog import query, transforms
from .fingerprints import digest
from .macros import create_macros, macro_sql

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class Limits:
    """What a connection may use: threads, and memory as DuckDB writes it (``1GB``); None means DuckDB's default."""

    threads: int | None = None
    memory: str | None = None


NO_LIMITS = Limits()
MEMORY = "memory_given"
"""Variable of a connection with the memory that it was given, for DuckDB tells what it has in tenths, rounded down."""


def connect(warehouse: Warehouse, settings: Settings, limits: Limits = NO_LIMITS) -> duckdb.DuckDBPyConnection:
    """A connection in memory with every macro; what does not fit in memory goes to the warehouse's ``_tmp``."""
    import duckdb

    spill = warehouse.root.resolve() / "_tmp" / f"spill-{uuid.uuid4().hex}"
    connection = duckdb.connect(config={"python_enable_replacements": "false", "temp_directory": str(spill)})
    connection.execute("SET parquet_metadata_cache = true")
    connection.execute("SET preserve_insertion_order = false")
    connection.execute("SET TimeZone = 'UTC'")
    if limits.threads is not None:
        connection.execute(f"SET threads = {limits.threads}")
    if limits.memory is not None:
        connection.execute(f"SET memory_limit = {literal(limits.memory)}")
        connection.execute(f"SET VARIABLE {MEMORY} = {literal(limits.memory)}")
    create_macros(connection, settings)
    return connection


@contextlib.contextmanager
def memory(connection: duckdb.DuckDBPyConnection, most: int) -> Iterator[None]:
    """Inside the block a connection uses no more bytes of memory than this: what does not fit goes to the disk."""
    ((allowed, given),) = connection.execute(
        f"SELECT parse_formatted_bytes(current_setting('memory_limit')), getvariable('{MEMORY}')"
    ).fetchall()
    try:
        connection.execute(f"SET memory_limit = '{min(most, allowed)} B'")
        yield
    finally:
        connection.execute("RESET memory_limit" if given is None else f"SET memory_limit = {literal(given)}")


def create_views(
    connection: duckdb.DuckDBPyConnection, warehouse: Warehouse, names: Container[str] | None = None
) -> None:
    """Create the views of all tables, or of those named."""
    for statement in view_statements(warehouse, names):
        connection.execute(statement)


def view_statements(warehouse: Warehouse, names: Container[str] | None = None) -> Iterator[str]:
    """A CREATE VIEW for every raw, cell, mart and staging table, or for those named; no files make an empty view."""
    for table in TABLES.values():
        if names is None or table.name in names:
            yield f"CREATE OR REPLACE VIEW {quote(table.name)} AS {warehouse.select(table)}"
    for table in transforms("staging"):
        if names is None or table.name in names:
            yield f"CREATE OR REPLACE VIEW {quote(table.name)} AS {query('staging', table.name)}"


def comment_statements() -> Iterator[str]:
    """The declared sentences as comments of the views and their columns, units included."""
    for table in (*TABLES.values(), *transforms("staging")):
        yield f"COMMENT ON VIEW {quote(table.name)} IS {literal(f'One row per {table.grain}.')}"
        for column in table.columns:
            unit = f" [{column.unit}]" if column.unit else ""
            yield f"COMMENT ON COLUMN {quote(table.name)}.{quote(column.name)} IS {literal(column.doc + unit)}"


def publish_database(warehouse: Warehouse, settings: Settings) -> None:
    """Write ``specledger.duckdb`` aside and put it in place in one step; it holds views and macros, no rows.

    Views name folders, not files, so that one written earlier mostly still says the same and stays.
    """
    import duckdb

    target, known = warehouse.root / DATABASE, warehouse.root / VIEWS
    statements = [macro_sql(settings), *view_statements(warehouse), *comment_statements()]
    folders = warehouse.folders() if isinstance(warehouse, Published) else []
    content = json.dumps({"content": digest(duckdb.__version__, statements), "folders": folders})
    if target.exists() and known.exists() and known.read_bytes() == content.encode():
        return
    with warehouse.draft(".duckdb") as draft:
        with duckdb.connect(str(draft)) as connection:
            connection.begin()
            for statement in statements:
                connection.execute(statement)
            connection.commit()
        warehouse.publish(draft, target)
    with warehouse.draft(".json") as draft:
        draft.write_text(content, encoding="utf-8")
        warehouse.publish(draft, known)
