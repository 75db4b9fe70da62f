"""What holds for every mart: it has its declared columns, reads what it declares, and adds up any partition alike."""

from __future__ import annotations

import duckdb
import pytest

from specledger.schemas import MART_TABLES, TABLES, Table
from specledger.schemas.config import DEFAULT_SETTINGS
from specledger.transforms.catalog import query
from specledger.transforms.macros import create_macros

EVERY_MART = pytest.mark.parametrize("table", MART_TABLES, ids=lambda table: table.name)


def _with_tables(names: tuple[str, ...]) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    create_macros(connection, DEFAULT_SETTINGS)
    for name in names:
        connection.execute(TABLES[name].ddl())
    return connection


def _described(connection: duckdb.DuckDBPyConnection, what: str) -> list[tuple[str, str]]:
    return [(name, kind) for name, kind, *_ in connection.execute(f"DESCRIBE {what}").fetchall()]


@EVERY_MART
def test_a_mart_has_exactly_the_declared_columns_and_reads_only_what_it_declares(table: Table) -> None:
    with _with_tables((*table.reads, table.name)) as connection:
        connection.execute(f"ALTER TABLE {table.name} RENAME TO declared")
        assert _described(connection, query("marts", table.name)) == _described(connection, "declared")


@EVERY_MART
def test_a_mart_needs_every_table_that_it_declares_to_read(table: Table) -> None:
    for left_out in table.reads:
        rest = tuple(name for name in table.reads if name != left_out)
        with _with_tables(rest) as connection, pytest.raises(duckdb.CatalogException):
            connection.execute(f"DESCRIBE {query('marts', table.name)}")


@EVERY_MART
def test_a_mart_of_nothing_is_empty(table: Table) -> None:
    with _with_tables(table.reads) as connection:
        assert connection.execute(query("marts", table.name)).fetchall() == []
