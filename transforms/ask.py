"""Questions in SQL over the views of a warehouse: read-only, without reach beyond it, and within a time limit."""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..schemas import TABLES
from ..schemas.config import Settings
from ..schemas.errors import UsageError, WarehouseError
from ..schemas.staging import STAGING_TABLES
from ..schemas.table import literal
from ..schemas.typed_sql import unreadable
from ..schemas.warehouse import Warehouse, damage_in
from .database import Limits, connect, create_views

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

ROWS_FETCHED = 10_000
READING = ("SELECT", "MULTI")
"""Statements that may run. DuckDB calls a PIVOT, which first asks for its columns, MULTI."""
_ALL = {table.name: table for table in (*TABLES.values(), *STAGING_TABLES)}
_CATALOG = re.compile(r"\bshow\b|\bduckdb_|\binformation_schema\b|\bsqlite_master\b|\bpg_catalog\b", re.IGNORECASE)


class Answer:
    """The rows of one SELECT, each of which is fetched once."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, question: str, parameters: Mapping[str, Any]) -> None:
        self._ask = connection, question, dict(parameters) or None

    def fetch(self) -> tuple[Sequence[str], Iterator[Sequence[Any]]]:
        """The names of the columns, each of them once, and the rows as Python values."""
        connection, question, parameters = self._ask
        cursor = connection.execute(question, parameters)
        return _unique(column[0] for column in cursor.description or ()), _rows(cursor)

    def arrow(self) -> pa.Table:
        """All rows as an Arrow table."""
        connection, question, parameters = self._ask
        rows: pa.Table = connection.sql(question, params=parameters).to_arrow_table()
        return rows.rename_columns(_unique(rows.column_names))


@contextlib.contextmanager
def asked(
    warehouse: Warehouse,
    settings: Settings,
    question: str,
    parameters: Mapping[str, Any],
    timeout_s: float | None = None,
    memory: str | None = None,
) -> Iterator[Answer]:
    """The answer to one SELECT, to be fetched inside the block.

    ``memory`` as DuckDB writes it (``4GB``); what sorts and joins need beyond it goes to disk. Raises UsageError if the
    question is not one SELECT, cannot be answered, or needs more than ``timeout_s`` or ``memory``.
    """
    import duckdb

    if why := unreadable(question):
        raise UsageError(f"The query {why}.")
    connection = _limited(warehouse, settings, memory)
    timer = threading.Timer(timeout_s or 0, connection.interrupt)
    try:
        statements = connection.extract_statements(question)
        if len(statements) != 1 or statements[0].type.name not in READING:
            raise UsageError("Only one SELECT can be asked: it may be written FROM …, WITH …, DESCRIBE … or PIVOT …")
        create_views(connection, warehouse, _named(question))
        _lock(connection, warehouse)
        if timeout_s is not None:
            timer.start()
        yield Answer(connection, question, parameters)
    except duckdb.InterruptException as error:
        raise UsageError(f"The query was stopped after {timeout_s:g} s: ask for less, or raise --timeout.") from error
    except duckdb.OutOfMemoryException as error:
        given = f" than {memory}" if memory is not None else " than there is"
        raise UsageError(f"The query needs more memory{given}: ask for less, or raise --memory.") from error
    except duckdb.Error as error:
        if said := damage_in(error, warehouse.root):
            raise WarehouseError(said) from error
        raise UsageError(f"The query failed: {_sentence(error)}") from error
    finally:
        timer.cancel()
        connection.close()


def _limited(warehouse: Warehouse, settings: Settings, memory: str | None) -> duckdb.DuckDBPyConnection:
    import duckdb

    try:
        return connect(warehouse, settings, Limits(memory=memory))
    except duckdb.ParserException as error:
        raise UsageError(f"The memory {memory!r} is not understood: write a size such as 4GB.") from error


def parameter(text: str) -> tuple[str, Any]:
    """Name and value of ``NAME=VALUE``: a JSON number, true, false, null or "text" is that value, the rest is text.

    Raises UsageError without a name.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise UsageError(f"The parameter {text!r} is not understood: write NAME=VALUE, and $NAME in the query.")
    try:
        parsed = json.loads(value)
    except ValueError:
        return name, value
    return name, value if isinstance(parsed, list | dict) else parsed


def _named(question: str) -> set[str]:
    """The tables whose views the question can need; each view costs a look at the footers of its files."""
    if _CATALOG.search(question):
        return set(_ALL)
    words = {word.lower() for word in re.findall(r"\w+", question)}
    needed: set[str] = set()
    pending = list(words & _ALL.keys())
    while pending:
        name = pending.pop()
        if name not in needed:
            needed.add(name)
            pending += [] if _ALL[name].kind != "staging" else _ALL[name].reads
    return needed


def _lock(connection: duckdb.DuckDBPyConnection, warehouse: Warehouse) -> None:
    connection.execute(f"SET allowed_directories = [{literal(str(warehouse.root.resolve()))}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _sentence(error: Exception) -> str:
    """What DuckDB says without the echo of the query, on one line."""
    text = str(error).split("\n\nLINE ")[0].strip()
    return " ".join(text.split()).rstrip(".") + "."


def _rows(cursor: duckdb.DuckDBPyConnection) -> Iterator[Sequence[Any]]:
    while rows := cursor.fetchmany(ROWS_FETCHED):
        yield from rows


def _unique(given: Iterable[str]) -> list[str]:
    """The names in order; one that comes again gets a number."""
    names: list[str] = []
    for name in given:
        unique, count = name, 0
        while unique in names:
            count += 1
            unique = f"{name}_{count}"
        names.append(unique)
    return names
