"""Small raw rows in, rows of staging or cells out: declared tables in memory under the staging views."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import duckdb

from specledger.schemas import RAW_TABLES, TABLES
from specledger.schemas.config import DEFAULT_SETTINGS, Settings
from specledger.schemas.staging import STAGING_TABLES
from specledger.transforms.catalog import query, transforms
from specledger.transforms.macros import create_macros

DAY = dt.date(2026, 11, 29)
MORNING = dt.datetime(2026, 11, 29, 8)
GIVEN = {
    "deployment": "d",
    "instance": "one",
    "source": "input",
    "engine": 0,
    "model_name": "m",
    "scraped_at": MORNING,
    "logged_at": MORNING,
    "finished_at": MORNING,
    "format": "responses",
    "request_id": "r",
    "status": "ok",
    "tool": "aiperf",
    "wording": "0.10.2",
}
"""What a row holds where a test does not say otherwise; the date follows from the row's moment."""
Row = Mapping[str, Any]


def at(seconds: float, day: dt.date = DAY) -> dt.datetime:
    """A moment some seconds after eight in the morning."""
    return dt.datetime.combine(day, dt.time(8)) + dt.timedelta(seconds=seconds)


def histogram(edges: Iterable[float], counts: Iterable[int], total: float = 0.0) -> dict[str, Any]:
    """A server histogram with +Inf as last edge, from counts by bucket."""
    cumulative: list[int] = []
    for count in counts:
        cumulative.append(count + (cumulative[-1] if cumulative else 0))
    return {"le": [*edges, float("inf")], "n": cumulative, "sum": total, "count": cumulative[-1]}


def full_row(table: str, row: Row) -> dict[str, Any]:
    """All columns of a raw row: what the test says, else GIVEN, else null."""
    declared = TABLES[table]
    unknown = set(row) - set(declared.names)
    assert not unknown, f"{table} has no {unknown}"
    full = {name: row.get(name, GIVEN.get(name)) for name in declared.names}
    if full["date"] is None:
        moment = next((full[name] for name in declared.moment if full[name] is not None), MORNING)
        full["date"] = moment.date()
    return full


@cache
def _house(settings: Settings) -> tuple[duckdb.DuckDBPyConnection, set[str]]:
    """All raw tables under the staging views, and the names of those that hold rows."""
    connection = duckdb.connect(config={"threads": "1"})  # planning dominates; threads would only wait for each other
    create_macros(connection, settings)
    for table in RAW_TABLES:
        connection.execute(table.ddl())
    for table in transforms("staging"):
        connection.execute(f"CREATE VIEW {table.name} AS {query('staging', table.name)}")
    return connection, set()


class Raw:
    """All raw tables, empty at first, with the staging views over them; making one empties the one before."""

    def __init__(self, settings: Settings = DEFAULT_SETTINGS) -> None:
        self.connection, self._filled = _house(settings)
        while self._filled:
            self.connection.execute(f"DELETE FROM {self._filled.pop()}")

    def put(self, table: str, *rows: Row) -> Raw:
        """Insert rows; columns that a row leaves out hold GIVEN, else null."""
        full = [list(full_row(table, row).values()) for row in rows]
        places = ", ".join(f"({', '.join('?' * len(row))})" for row in full)
        if full:
            self._filled.add(table)
            self.connection.execute(f"INSERT INTO {table} VALUES {places}", [value for row in full for value in row])
        return self

    def rows(self, name: str, order: str = "ALL") -> list[dict[str, Any]]:
        """All rows of a staging or cell table."""
        staging = {table.name for table in STAGING_TABLES}
        select = name if name in staging else f"({query('cells', name)})"
        cursor = self.connection.execute(f"SELECT * FROM {select} ORDER BY {order}")
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def one(self, name: str) -> dict[str, Any]:
        """The only row of a staging or cell table."""
        rows = self.rows(name)
        assert len(rows) == 1, rows
        return rows[0]


def values(rows: Iterable[Row], *names: str) -> list[Any]:
    """One column of rows as a list, or several as tuples."""
    return [row[names[0]] if len(names) == 1 else tuple(row[name] for name in names) for row in rows]
