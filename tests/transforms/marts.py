"""Small rows in, rows of a mart out: declared tables in memory, and the marts that a mart reads, computed in order."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import duckdb

from specledger.schemas import CELL_TABLES, MART_TABLES, RAW_TABLES, TABLES
from specledger.schemas.config import DEFAULT_SETTINGS
from specledger.schemas.table import Table, quote
from specledger.transforms.catalog import query
from specledger.transforms.macros import create_macros

DAY = dt.date(2026, 11, 29)
MARTS = {table.name for table in MART_TABLES}
GIVEN = {
    "date": DAY,
    "deployment": "d",
    "instance": "one",
    "source": "input",
    "engine": 0,
    "hour": 8,
    "block": 48,
    "load": 6,
    "edges": 1,
    "scraped_at": dt.datetime(2026, 11, 29, 8),
    "finished_at": dt.datetime(2026, 11, 29, 8),
    "format": "responses",
    "request_id": "r",
    "status": "ok",
    "tool": "aiperf",
}
"""What a row holds where the test does not say otherwise; ``origin`` follows from the table."""
ORIGINS = {
    "cells_snapshots": "snapshots",
    "cells_requests": "requests",
    "cells_log_stats": "log_stats",
    "cells_iterations": "iterations",
}
Row = Mapping[str, Any]


class House:
    """All raw and cell tables, empty at first; marts are computed from them."""

    def __init__(self) -> None:
        self.connection = duckdb.connect(config={"threads": 1})
        create_macros(self.connection, DEFAULT_SETTINGS)
        for table in (*RAW_TABLES, *CELL_TABLES):
            self.connection.execute(table.ddl())

    def put(self, table: str, *rows: Row) -> House:
        """Insert rows; columns that a row leaves out hold GIVEN, else null."""
        declared = TABLES[table]
        alike: dict[tuple[str, ...], list[Any]] = {}
        for row in rows:
            full = {**_given(declared), **row}
            unknown = set(full) - set(declared.names)
            assert not unknown, f"{table} has no {unknown}"
            alike.setdefault(tuple(full), []).extend(full.values())
        for names, values in alike.items():
            marks = f"({', '.join('?' * len(names))})"
            self.connection.execute(
                f"INSERT INTO {table} ({', '.join(map(quote, names))}) "
                f"VALUES {', '.join([marks] * (len(values) // len(names)))}",
                values,
            )
        return self

    def mart(self, name: str) -> list[dict[str, Any]]:
        """All rows of a mart, in order of all columns."""
        return self._computed(needed_marts(name))[name]

    def marts(self, *names: str) -> dict[str, list[dict[str, Any]]]:
        """All rows of some marts and of those that they read, by name."""
        return self._computed(needed_marts(*names))

    def every_mart(self) -> dict[str, list[dict[str, Any]]]:
        """All rows of all marts, by name."""
        return self._computed(MART_TABLES)

    def _computed(self, tables: Iterable[Table]) -> dict[str, list[dict[str, Any]]]:
        rows = {}
        for table in tables:
            self.connection.execute(f"DROP TABLE IF EXISTS {table.name}")
            self.connection.execute(table.ddl())
            self.connection.execute(f"INSERT INTO {table.name} BY NAME {query('marts', table.name)}")
            cursor = self.connection.execute(f"SELECT * FROM {table.name} ORDER BY ALL")
            rows[table.name] = [dict(zip(table.names, row, strict=True)) for row in cursor.fetchall()]
        return rows

    def one(self, name: str, **where: Any) -> dict[str, Any]:
        """The only row of a mart in which the given columns hold the given values."""
        rows = [row for row in self.mart(name) if all(row[key] == value for key, value in where.items())]
        assert len(rows) == 1, rows
        return rows[0]


def needed_marts(*names: str) -> Iterator[Table]:
    """The marts that these read, in order, and they themselves."""
    wanted = set(names)
    for table in reversed(MART_TABLES):
        if table.name in wanted:
            wanted |= MARTS & set(table.reads)
    return (table for table in MART_TABLES if table.name in wanted)


def _given(table: Table) -> dict[str, Any]:
    row = {name: GIVEN[name] for name in table.names if name in GIVEN and table.kind == "cells"}
    row |= {name: GIVEN[name] for name in table.names if name in GIVEN and not table.column(name).nullable}
    if table.name == "cells_iterations":
        row["prefill"] = False
    if table.name in ORIGINS:
        row["origin"] = ORIGINS[table.name]
    return row


def only(row: Row, *names: str) -> tuple[Any, ...]:
    """The values of some columns."""
    return tuple(row[name] for name in names)
