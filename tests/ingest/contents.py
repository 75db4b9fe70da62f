"""What a warehouse holds, as plain values that can be compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from specledger.schemas import RAW_TABLES
from specledger.schemas.warehouse import Warehouse

WHEN = ("ingested_at", "labelled_at", "tool_version")
"""Columns that say when or by what something was ingested."""
WHERE = ("source",)
"""Columns that say from which file."""


def rows(warehouse: Path, sql: str) -> list[tuple[Any, ...]]:
    """The rows a query gives."""
    with Warehouse(warehouse).connect() as connection:
        return connection.execute(sql).fetchall()


def contents(
    warehouse: Path, *, leave_out: tuple[str, ...] = WHEN, tables: tuple[str, ...] = ()
) -> dict[str, list[str]]:
    """Every row of every raw table that has any, as sorted text, without some columns."""
    found = {}
    with Warehouse(warehouse).connect() as connection:
        for table in RAW_TABLES:
            if tables and table.name not in tables:
                continue
            names = ", ".join(f'"{name}"' for name in table.names if name not in leave_out)
            text = sorted(map(repr, connection.execute(f"SELECT {names} FROM {table.name}").fetchall()))
            if text:
                found[table.name] = text
    return found
