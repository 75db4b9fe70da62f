"""What a table is: one frozen declaration from which DDL, Arrow schema and documentation are derived."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pyarrow as pa

Kind = Literal["raw", "staging", "cells", "mart"]

PARTITION_COLUMNS = ("date", "deployment")
"""Hive partition columns of every table; their values are in the path, not in the file."""


@dataclass(frozen=True)
class Column:
    """One column: DuckDB type, unit (None for text and keys), and a sentence that says what it holds."""

    name: str
    type: str
    doc: str
    unit: str | None = None
    nullable: bool = True
    source: str | None = None


@dataclass(frozen=True)
class Table:
    """One table: what a row is, its columns in order, and the columns that identify a row.

    ``key`` names the columns that make two raw rows the same fact; for cells and marts it is the grain.
    ``moment`` names the columns (first known wins) whose UTC date is the partition of a raw row.
    """

    name: str
    kind: Kind
    grain: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    reads: tuple[str, ...] = ()
    moment: tuple[str, ...] = ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Column:
        """The column of that name; KeyError if there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(f"{self.name} has no column {name!r}")

    @property
    def stored_columns(self) -> tuple[Column, ...]:
        """The columns that are inside the Parquet file (all but the hive partition columns)."""
        return tuple(column for column in self.columns if column.name not in PARTITION_COLUMNS)

    def ddl(self) -> str:
        """The CREATE TABLE statement of the declaration, as DuckDB would describe the table."""
        lines = [
            f"    {quote(column.name)} {column.type}{'' if column.nullable else ' NOT NULL'}" for column in self.columns
        ]
        return f"CREATE TABLE {quote(self.name)} (\n" + ",\n".join(lines) + "\n)"

    def empty_select(self) -> str:
        """A SELECT of no rows with exactly the declared names and types."""
        columns = ", ".join(f"CAST(NULL AS {column.type}) AS {quote(column.name)}" for column in self.columns)
        return f"SELECT {columns} WHERE false"

    def arrow_schema(self) -> pa.Schema:
        """The Arrow schema of the Parquet files of this table (partition columns left out)."""
        import pyarrow as pa

        from .arrow_types import arrow_type

        return pa.schema(
            [pa.field(column.name, arrow_type(column.type), nullable=column.nullable) for column in self.stored_columns]
        )


def quote(identifier: str) -> str:
    """The identifier in double quotes, safe in SQL."""
    return '"' + identifier.replace('"', '""') + '"'


def literal(text: str) -> str:
    """The text as an SQL string literal."""
    return "'" + text.replace("'", "''") + "'"
