"""Every table is declared once; DuckDB, Arrow and the documentation agree with the declaration."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from specledger.schemas import CELL_TABLES, MART_TABLES, RAW_TABLES, TABLES, Table
from specledger.schemas.cells import MOMENTS
from specledger.schemas.raw import REQUESTS
from specledger.schemas.warehouse import Warehouse

EVERY_TABLE = pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
NUMBER = re.compile(r"(TINYINT|SMALLINT|INTEGER|BIGINT|UBIGINT|HUGEINT|FLOAT|DOUBLE)(\[\])?")
HAVE_NO_UNIT = {
    "block", "edges", "engine", "iteration", "position",  # numbers that name something
    "output_prefix_hashes", "sequences", "status_code", "temperature", "top_p",
    "stderr", "value",  # in the unit of the metric that the row names
    "elapsed_elapsed", *(column.name for column in MOMENTS),  # products: the unit follows from the factors
}  # fmt: skip


def described(connection: duckdb.DuckDBPyConnection, what: str) -> list[tuple[str, str]]:
    return [(name, kind) for name, kind, *_ in connection.execute(f"DESCRIBE {what}").fetchall()]


def declared(table: Table) -> list[tuple[str, str]]:
    """Names and types in DuckDB's own spelling."""
    with duckdb.connect() as connection:
        connection.execute(table.ddl())
        return described(connection, table.name)


@EVERY_TABLE
def test_the_ddl_makes_exactly_the_declared_columns(table: Table) -> None:
    assert [name for name, _ in declared(table)] == list(table.names)
    with duckdb.connect() as connection:
        connection.execute(table.ddl())
        nullable = [row[2] == "YES" for row in connection.execute(f"DESCRIBE {table.name}").fetchall()]
    assert nullable == [column.nullable for column in table.columns]


@EVERY_TABLE
def test_the_view_of_an_empty_warehouse_has_the_declared_types(table: Table, tmp_path: Path) -> None:
    with Warehouse(tmp_path).connect() as connection:
        assert described(connection, table.name) == declared(table)
        assert connection.execute(f"SELECT count(*) FROM {table.name}").fetchone() == (0,)


@EVERY_TABLE
def test_the_view_of_a_stored_row_has_the_declared_types(table: Table, tmp_path: Path) -> None:
    schema = table.arrow_schema()
    row = pa.table({field.name: pa.array([_some(field.type)], field.type) for field in schema}, schema=schema)
    warehouse = Warehouse(tmp_path)
    warehouse.write(table, dt.date(2026, 11, 29), "a/b c", "part", row)
    with warehouse.connect() as connection:
        assert described(connection, table.name) == declared(table)
        found = connection.execute(f"SELECT date, deployment FROM {table.name}").fetchall()
    assert found == [(dt.date(2026, 11, 29), "a/b c")]


def _some(kind: pa.DataType) -> object:
    if pa.types.is_boolean(kind):
        return True
    if pa.types.is_string(kind):
        return "text"
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return dt.datetime(2026, 11, 29, 15, 10, 1) if pa.types.is_timestamp(kind) else dt.date(2026, 11, 29)
    if pa.types.is_list(kind):
        return [_some(kind.value_type)]
    if pa.types.is_map(kind):
        return [(_some(kind.key_type), _some(kind.item_type))]
    if pa.types.is_struct(kind):
        return {field.name: _some(field.type) for field in kind}
    return 7


@EVERY_TABLE
def test_every_column_has_a_sentence_and_every_number_a_unit(table: Table) -> None:
    assert table.grain
    for column in table.columns:
        assert re.fullmatch(r"\S.{2,}\.", column.doc), f"{table.name}.{column.name} lacks a sentence"
        if NUMBER.fullmatch(column.type) and column.name not in HAVE_NO_UNIT:
            assert column.unit, f"{table.name}.{column.name} lacks a unit"


@EVERY_TABLE
def test_keys_moments_and_sources_name_things_that_exist(table: Table) -> None:
    names = {*table.names, "date", "deployment"}
    assert set(table.key) <= names
    assert set(table.moment) <= names
    assert len(set(table.names)) == len(table.names)


def test_cells_and_marts_say_what_they_read_and_never_read_what_comes_later() -> None:
    order = list(TABLES)
    for table in (*CELL_TABLES, *MART_TABLES):
        assert table.reads, f"{table.name} reads nothing"
        for name in table.reads:
            assert name not in order or order.index(name) < order.index(table.name)


def test_raw_rows_know_where_they_come_from() -> None:
    for table in RAW_TABLES:
        assert table.names[:4] == ("date", "deployment", "instance", "source")


def test_a_table_names_the_column_it_lacks() -> None:
    with pytest.raises(KeyError, match="requests has no column 'nonsense'"):
        REQUESTS.column("nonsense")
