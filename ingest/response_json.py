"""Lines of JSON as flat columns, one for each place that a shape names; DuckDB does the decoding.

A column has the path of its place as name. Places that hold a time or a status have two columns: the number, and under
``path@`` or ``path~`` the timestamp or the word.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import weakref
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, BinaryIO, cast

import polars as pl
import pyarrow as pa

from ..schemas.errors import is_interrupt
from .response_fields import LABELS, STATUSES, TIMES, Shape

if TYPE_CHECKING:
    import duckdb

LONGEST_TAG = 200
"""Characters of a tag's value; what is longer is text, not a label, and left out."""
_TEXT_KEYS = ("prompt", "messages", "input", "output", "content", "text", "completion", "response", "query", "answer")
_SMALLEST_OBJECT = 1 << 20
"""What DuckDB's JSON reader is told to expect at least; it reads a file in parts of twice that size."""
_KEPT_BYTES = 32 << 20
"""Up to so many bytes stay in the memory of a connection's file for the next to be written over; on disk none do."""
_IN_MEMORY = hasattr(os, "memfd_create")

_MACROS = (
    # A cast to TIMESTAMP would leave the offset of the text out of account.
    "utc(x) AS make_timestamp(epoch_us(TRY_CAST(x AS TIMESTAMPTZ)))",
    f"""short_tags(m) AS map_from_entries(list_filter(map_entries(m), lambda e:
        e.value IS NOT NULL AND length(e.value) <= {LONGEST_TAG} AND length(e.key) <= 64
        AND lower(e.key) NOT IN ({", ".join(repr(key) for key in _TEXT_KEYS)})))""",
    """dense(h) AS list_transform(
        range(0, 1 + list_max(list_transform(map_keys(h), lambda k: TRY_CAST(k AS INTEGER)))),
        lambda i: coalesce(h[CAST(i AS VARCHAR)], 0))""",
    """histogram(j) AS CASE
        WHEN json_type(j) = 'ARRAY' THEN TRY_CAST(j AS BIGINT[])
        WHEN json_type(j) = 'OBJECT' THEN dense(TRY_CAST(j AS MAP(VARCHAR, BIGINT))) END""",
    """by_length(j) AS map_from_entries(list_transform(
        list_filter(map_entries(TRY_CAST(j AS MAP(VARCHAR, JSON))), lambda e: TRY_CAST(e.key AS INTEGER) IS NOT NULL),
        lambda e: {'key': TRY_CAST(e.key AS INTEGER), 'value': histogram(e.value)}))""",
)


def decode_file(data: bytes, longest: int, shape: Shape) -> pl.DataFrame:
    """A row for each line of ``data`` that is not blank, in order; all null where the line is broken."""
    # Rounded up, so that the question is the same for most blocks.
    size = _SMALLEST_OBJECT * (1 + (longest + 1) // _SMALLEST_OBJECT)
    with _connection() as connection:
        return connection.decode(data, size, shape)


def decode_lines(texts: list[bytes], shape: Shape) -> pl.DataFrame:
    """A row for each text, and in ``known`` whether it is JSON."""
    given = pa.array(texts, pa.large_binary())
    lines = pa.table({"line": pa.LargeStringArray.from_buffers(len(given), *given.buffers()[1:])})
    source = f"(SELECT TRY(from_json(line, '{shape.structure()}')) AS r FROM lines)"
    with _connection() as connection:
        connection.duckdb.register("lines", lines)
        try:
            sql = f"SELECT r IS NOT NULL AS known, {_columns(shape)} FROM {source}"
            found: pl.DataFrame = connection.duckdb.sql(sql).pl()
        finally:
            connection.duckdb.unregister("lines")
    return found


@lru_cache(maxsize=64)
def _columns(shape: Shape) -> str:
    columns = []
    for place, kind in shape.types.items():
        field = _field(place)
        if place in LABELS:
            columns += [f"{field}['{key}'] AS \"{place}:{key}\"" for key in ("task", "lora", "adapter")]
        elif place.endswith("choices.finish_reason"):
            choices = _field(place.removesuffix(".finish_reason"))
            columns += [f'{choices}[1]."finish_reason" AS "{place}"', f'len({choices}) AS "{place}#"']
        elif kind == "JSON":
            columns.append(
                f'{"by_length" if place.endswith("_by_draft_length") else "histogram"}({field}) AS "{place}"'
            )
        elif place in TIMES | STATUSES and kind == "VARCHAR":
            columns.append(f'TRY_CAST({field} AS DOUBLE) AS "{place}"')
            columns.append(f'utc({field}) AS "{place}@"' if place in TIMES else f'lower({field}) AS "{place}~"')
        else:
            columns.append(f'{field} AS "{place}"')
    return ", ".join([*columns, f"{_tags(shape)} AS tags"])


def _field(place: str) -> str:
    return ".".join(["r", *(f'"{word}"' for word in place.split("."))])


def _tags(shape: Shape) -> str:
    """The labels of the record, those of the first place going before the others."""
    parts = [f"coalesce({_field(name)}, MAP {{}})" for name in reversed(LABELS) if name in shape.types]
    if not parts:
        return "CAST(NULL AS MAP(VARCHAR, VARCHAR))"
    return f"short_tags({parts[0] if len(parts) == 1 else 'map_concat(' + ', '.join(parts) + ')'})"


class _Connection:
    """A connection to DuckDB, and the file through which it is given bytes to decode."""

    def __init__(self) -> None:
        import duckdb

        self.duckdb = duckdb.connect(config={"threads": 1, "preserve_insertion_order": True})
        self.duckdb.execute("SET TimeZone = 'UTC'")
        for macro in _MACROS:
            self.duckdb.execute(f"CREATE MACRO {macro}")
        self._path, self._file = _memory_file()
        weakref.finalize(self, self._file.close)
        self._asked: tuple[int, Shape] | None = None
        self._answer: duckdb.DuckDBPyRelation | None = None

    def decode(self, data: bytes, size: int, shape: Shape) -> pl.DataFrame:
        """The rows of JSON lines none of which is longer than ``size``."""
        self._file.seek(0)
        self._file.write(data)
        self._file.truncate()
        self._file.flush()
        if self._answer is None or self._asked != (size, shape):
            # Kept, as planning it takes as long as reading some hundred lines; it reads the file again each time.
            source = (
                f"read_json('{self._path}', format = 'newline_delimited', ignore_errors = true, "
                f"maximum_object_size = {size}, columns = {shape.columns()}) AS r"
            )
            self._answer = self.duckdb.sql(f"SELECT {_columns(shape)} FROM {source}")
            self._asked = size, shape
        found: pl.DataFrame = self._answer.pl()
        if not _IN_MEMORY or len(data) > _KEPT_BYTES:
            self._file.truncate(0)
        return found


_idle: deque[_Connection] = deque()
"""Connections that no thread uses; they keep nothing that matters between queries."""
_of_the_parent: list[_Connection] = []
"""In a forked process, connections that must neither be used, as both would write the same file, nor be ended."""


def _leave_to_the_parent() -> None:
    _of_the_parent.extend(_idle)
    _idle.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_the_parent)


@contextlib.contextmanager
def _connection() -> Iterator[_Connection]:
    try:
        connection = _idle.pop()
    except IndexError:
        connection = _Connection()
    try:
        yield connection
    except RuntimeError as error:
        if not is_interrupt(error):
            raise
        # It must end the run, not pass for an input that cannot be read.
        raise KeyboardInterrupt from error
    _idle.append(connection)


def _memory_file() -> tuple[str, BinaryIO]:
    """A file that goes with its last reference, and its path; in memory where the system can do that."""
    if _IN_MEMORY:
        number = os.memfd_create("specledger")
        return f"/proc/self/fd/{number}", os.fdopen(number, "wb")
    copy = tempfile.NamedTemporaryFile(suffix=".jsonl")  # noqa: SIM115 (it is as long in use as its connection)
    return copy.name, cast("BinaryIO", copy)
