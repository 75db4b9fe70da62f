"""What holds for every staging and cell table: declared columns, declared reads, nothing out of nothing."""

from __future__ import annotations

import duckdb
import pytest

from specledger.schemas import CELL_TABLES, RAW_TABLES, TABLES, Table
from specledger.schemas.config import DEFAULT_SETTINGS
from specledger.schemas.staging import STAGING_TABLES
from specledger.transforms.catalog import ORDER, query
from specledger.transforms.macros import create_macros

KNOWN = TABLES | {table.name: table for table in STAGING_TABLES}
EVERY = pytest.mark.parametrize("table", [*STAGING_TABLES, *CELL_TABLES], ids=lambda table: table.name)


def _with_tables(names: tuple[str, ...]) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": "1"})
    create_macros(connection, DEFAULT_SETTINGS)
    for name in names:
        connection.execute(KNOWN[name].ddl())
    return connection


def _described(connection: duckdb.DuckDBPyConnection, what: str) -> list[tuple[str, str]]:
    return [(name, kind) for name, kind, *_ in connection.execute(f"DESCRIBE {what}").fetchall()]


@EVERY
def test_it_has_exactly_the_declared_columns_and_reads_only_what_it_declares(table: Table) -> None:
    with _with_tables(table.reads) as connection:
        connection.execute(f"CREATE SCHEMA declared; USE declared; {table.ddl()}; USE main")
        assert _described(connection, query(table.kind, table.name)) == _described(connection, f"declared.{table.name}")
        assert connection.execute(query(table.kind, table.name)).fetchall() == []


@EVERY
def test_it_needs_every_table_that_it_declares_to_read(table: Table) -> None:
    for left_out in table.reads:
        rest = tuple(name for name in table.reads if name != left_out)
        with _with_tables(rest) as connection, pytest.raises(duckdb.CatalogException):
            connection.execute(f"DESCRIBE {query(table.kind, table.name)}")


def test_the_order_has_every_transform_after_what_it_reads() -> None:
    made = {table.name for table in RAW_TABLES}
    for path in ORDER:
        table = KNOWN[path.partition("/")[2]]
        assert set(table.reads) <= made, table.name
        made.add(table.name)
    assert made == KNOWN.keys()
