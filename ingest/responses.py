"""Reads logged responses of an OpenAI-style server: one JSON object a line, bare or in an envelope.

Algorithm: blocks of whole lines go to DuckDB's JSON reader, which knows where to look from a sample of each block. Rows
in which a fact is missing are read again, from every place where a fact can stand; lines that are no JSON then are
repaired one by one or refused. Blocks are read by several threads and handed on in order.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import polars as pl
import pyarrow as pa

from .lines import MAX_LINE_BYTES, Block, Overlong, blocks
from .reader import InputContext, Progress, Sink
from .response_fields import Shape, shape_of
from .response_query import MACROS, query_file, query_lines
from .response_repair import documents, redacted, repaired
from .text_hashes import text_hashes

if TYPE_CHECKING:
    import duckdb

THREADS = 2
SAMPLE = 100
"""Lines of a block by which the places of its facts are told."""
DOCUMENT_BYTES = 256 << 20
"""Longest input that is read although it is not one object a line."""
_SMALLEST_OBJECT = 1 << 20

_CUT = "The last line is cut: its end never came."
_OVERLONG = f"The line is longer than {MAX_LINE_BYTES >> 20} MiB: log the response without its text."
_NOTHING = "This is JSON but no response: it has no usage, metrics, status, error or finish reason."
_NEGATIVE = "A count is negative: whatever wrote this record is wrong."
_HELPERS = ("_times", "_in_seconds", "_differ", "known", "nothing", "negative", "disagrees", "elsewhere", "doubtful")


@dataclass
class _Lines:
    """Lines of the input and the byte where each begins."""

    texts: list[bytes]
    offsets: list[int]


@dataclass
class _Read:
    """What became of a block."""

    rows: pl.DataFrame
    records: int
    rejects: list[tuple[int, str, bytes]] = field(default_factory=list)
    disagreeing: int = 0
    elsewhere: int = 0


def read(stream: BinaryIO, context: InputContext, sink: Sink) -> Progress:
    """Read logged responses into ``requests``.

    An unterminated last line is read if it is whole, waits while the input may grow, and is refused otherwise.
    """
    offset, disagreeing, elsewhere = context.offset, 0, 0
    shapes = _Shapes()
    with ThreadPoolExecutor(THREADS) as pool:
        running: deque[Future[_Read]] = deque()

        def hand_on(at_most: int) -> None:
            nonlocal disagreeing, elsewhere
            while len(running) > at_most:
                found = running.popleft().result()
                disagreeing += found.disagreeing
                elsewhere += found.elsewhere
                sink.rows("requests", found.rows, found.records)
                for start, reason, line in found.rejects:
                    sink.reject(start, reason, redacted(line))

        for block in _whole(stream, context):
            if isinstance(block, Overlong):
                hand_on(0)
                sink.reject(block.offset, _OVERLONG, redacted(block.head))
                offset = block.offset + block.size
                continue
            offset = block.offset + len(block.data)
            running.append(pool.submit(_read_block, block, context, shapes))
            hand_on(THREADS)
        hand_on(0)
    if disagreeing:
        sink.note(
            f"In {disagreeing:,} responses generation_time_ms and mean_itl_ms contradict each other; "
            "decode_ms is generation_time_ms."
        )
    if elsewhere:
        sink.note(f"{elsewhere:,} calls of other endpoints, such as health checks, are no requests and were left out.")
    return Progress(offset)


def _whole(stream: BinaryIO, context: InputContext) -> Iterator[Block | Overlong]:
    """The blocks of the stream that are to be read: without a last line that waits, and with other JSON made lines."""
    first = True
    for block in blocks(stream, context.offset):
        if first and isinstance(block, Block) and context.offset == 0 and _is_document(block):
            data = block.data + stream.read(DOCUMENT_BYTES)
            yield Block(0, data, terminated=False)
            return
        first = False
        if not block.terminated and not context.settled and not _is_complete(block):
            return
        yield block


def _is_complete(block: Block | Overlong) -> bool:
    if isinstance(block, Overlong):
        return False
    try:
        return isinstance(json.loads(block.data), dict)
    except (ValueError, RecursionError):
        return False


def _is_document(block: Block) -> bool:
    """Whether the input is one array, or an object over several lines."""
    start = block.data[:4_096].removeprefix(b"\xef\xbb\xbf").split()
    return bool(start) and (start[0][:1] == b"[" or (start[0] == b"{" and b"\n" in block.data.strip()))


def _read_block(block: Block, context: InputContext, shapes: _Shapes) -> _Read:
    if block.offset == 0 and not block.terminated and _is_document(block):
        return _read_documents(block, context)
    lines = _split(block)
    if not lines.texts:
        return _Read(pl.DataFrame(), 0)
    shape = shapes.after(lines)
    found = _from_file(block.data, lines, shape)
    offsets = pl.Series("byte_offset", lines.offsets, pl.Int64)
    found = found.with_columns(offsets, pl.int_range(found.height, dtype=pl.Int64).alias("_line"))
    doubtful = found["_line"].filter(found["doubtful"] | found["nothing"]).to_list()
    rejects: list[tuple[int, str, bytes]] = []
    if doubtful:
        again = _read_again(lines, doubtful, rejects, cut=not block.terminated)
        plain = found.filter(~(pl.col("doubtful") | pl.col("nothing")))
        found = pl.concat([plain, again], how="vertical_relaxed").sort("_line", maintain_order=True)
    return _finish(found, lines, context, rejects)


def _split(block: Block) -> _Lines:
    """The lines of a block that are not blank."""
    newlines = np.flatnonzero(np.frombuffer(block.data, np.uint8) == 10)
    starts = np.concatenate([[0], newlines + 1]).tolist()
    ends = [*newlines.tolist(), len(block.data)]
    texts, offsets = [], []
    for start, end in zip(starts, ends, strict=True):
        line = block.data[start:end]
        if line and not line.isspace():
            texts.append(line)
            offsets.append(block.offset + start)
    return _Lines(texts, offsets)


class _Shapes:
    """The shape of the records seen so far, which only grows."""

    def __init__(self) -> None:
        self._shape: Shape | None = None
        self._lock = threading.Lock()

    def after(self, lines: _Lines) -> Shape:
        """The shape once a sample of these lines is taken into account."""
        step = max(1, len(lines.texts) // SAMPLE)
        records = []
        for line in lines.texts[::step]:
            with contextlib.suppress(ValueError, RecursionError):
                records.append(json.loads(line))
        sampled = shape_of(records)
        with self._lock:
            self._shape = sampled if self._shape is None else self._shape.joined(sampled)
            return self._shape


def _from_file(data: bytes, lines: _Lines, shape: Shape) -> pl.DataFrame:
    longest = max(_SMALLEST_OBJECT, max(map(len, lines.texts)) + 2)
    with _memory_file(data) as path, _connection() as connection:
        found: pl.DataFrame = connection.sql(query_file(shape, path, longest)).pl()
    if found.height == len(lines.texts):
        return found
    # The JSON reader counts lines in another way, for example where bytes are zero: leave it no choice.
    return _from_lines(lines.texts, shape)


def _from_lines(texts: list[bytes], shape: Shape) -> pl.DataFrame:
    given = pa.array(texts, pa.large_binary())
    lines = pa.table({"line": pa.LargeStringArray.from_buffers(len(given), *given.buffers()[1:])})
    with _connection() as connection:
        connection.register("lines", lines)
        try:
            found: pl.DataFrame = connection.sql(query_lines(shape)).pl()
        finally:
            connection.unregister("lines")
        return found


def _read_again(lines: _Lines, numbers: list[int], rejects: list[tuple[int, str, bytes]], *, cut: bool) -> pl.DataFrame:
    """Rows of the lines with these numbers, looked for everywhere and repaired where needed."""
    place = pl.Series("_line", numbers, pl.Int64)
    offsets = pl.Series("byte_offset", [lines.offsets[number] for number in numbers], pl.Int64)
    found = _from_lines([lines.texts[number] for number in numbers], Shape.everywhere()).with_columns(offsets, place)
    unread = ~pl.col("known") | pl.col("nothing") | pl.col("doubtful")
    parts = [found.filter(~unread)]
    texts: list[bytes] = []
    places: list[int] = []
    for number in found.filter(unread)["_line"].to_list():
        plain = repaired(lines.texts[number])
        if isinstance(plain, str):
            last = cut and number == len(lines.texts) - 1
            rejects.append((lines.offsets[number], _CUT if last else plain, lines.texts[number]))
        else:
            texts += plain
            places += [number] * len(plain)
    if texts:
        offsets = pl.Series("byte_offset", [lines.offsets[number] for number in places], pl.Int64)
        place = pl.Series("_line", places, pl.Int64)
        parts.append(_from_lines(texts, Shape.everywhere()).with_columns(offsets, place))
    return pl.concat(parts, how="vertical_relaxed")


def _read_documents(block: Block, context: InputContext) -> _Read:
    """Rows of one array of records, or of records that span lines."""
    text = block.data.decode("utf-8", "replace")
    lines, rejects = _Lines([], []), list[tuple[int, str, bytes]]()
    position = offset = 0
    for start, reason, record in documents(text):
        offset += len(text[position:start].encode())
        position = start
        if record is None:
            rejects.append((offset, reason or "", text[start : start + 500].encode()))
        else:
            lines.texts.append(json.dumps(record).encode())
            lines.offsets.append(offset)
    if not lines.texts:
        return _Read(pl.DataFrame(), 0, rejects)
    found = _from_lines(lines.texts, Shape.everywhere())
    numbers = pl.int_range(found.height, dtype=pl.Int64).alias("_line")
    found = found.with_columns(pl.Series("byte_offset", lines.offsets, pl.Int64), numbers)
    return _finish(found, lines, context, rejects)


def _finish(found: pl.DataFrame, lines: _Lines, context: InputContext, rejects: list[tuple[int, str, bytes]]) -> _Read:
    """Rows of the table ``requests``, and a reject for each record that is none."""
    elsewhere = found["elsewhere"]
    found = found.filter(~elsewhere)
    wrong = found.filter(~pl.col("known") | pl.col("nothing") | pl.col("negative"))
    for line, negative in wrong.select("_line", "negative").iter_rows():
        rejects.append((lines.offsets[line], _NEGATIVE if negative else _NOTHING, lines.texts[line]))
    rows = found.filter(pl.col("known") & ~pl.col("nothing") & ~pl.col("negative"))
    disagreeing = int(rows["disagrees"].sum())
    if context.hash_text:
        rows = rows.with_columns(_hashes([lines.texts[line] for line in rows["_line"].to_list()]))
    rows = _with_gaps(rows).drop(*_HELPERS, "_line").with_columns(format=pl.lit("responses"))
    rejects.sort(key=lambda reject: reject[0])
    return _Read(rows, rows.height, rejects, disagreeing, int(elsewhere.sum()))


def _with_gaps(rows: pl.DataFrame) -> pl.DataFrame:
    """Gaps between returns in ms, from the times of chunks or as given; none if any of them is impossible."""
    times = pl.col("_times")
    factor = pl.when("_in_seconds").then(1e3).otherwise(1.0)
    gaps = pl.when("_differ").then(times.list.diff(null_behavior="drop")).otherwise(times) * factor
    rows = rows.with_columns(gaps_ms=gaps)
    possible = (pl.col("gaps_ms").list.min() >= 0) & pl.col("gaps_ms").list.sum().is_finite()
    rows = rows.with_columns(gaps_ms=pl.when(possible).then("gaps_ms").cast(pl.List(pl.Float32)))
    return rows.with_columns(gaps_from=pl.when(pl.col("gaps_ms").is_not_null()).then(pl.lit("client")))


def _hashes(texts: list[bytes]) -> list[pl.Series]:
    found = []
    for line in texts:
        plain = repaired(line)
        found.append(text_hashes(json.loads(plain[0])) if isinstance(plain, list) and plain else text_hashes({}))
    return [
        pl.Series("prompt_hash", [one.prompt_hash for one in found], pl.String),
        pl.Series("output_hash", [one.output_hash for one in found], pl.String),
        pl.Series("output_prefix_hashes", [one.output_prefix_hashes for one in found], pl.List(pl.UInt64)),
        pl.Series("distinct_4gram_share", [one.distinct_4gram_share for one in found], pl.Float64),
    ]


_idle: deque[duckdb.DuckDBPyConnection] = deque()
"""Connections that no thread uses; they keep nothing between queries but the macros."""


@contextlib.contextmanager
def _connection() -> Iterator[duckdb.DuckDBPyConnection]:
    try:
        connection = _idle.pop()
    except IndexError:
        connection = _connect()
    yield connection
    _idle.append(connection)


def _connect() -> duckdb.DuckDBPyConnection:
    import duckdb

    connection = duckdb.connect(config={"threads": 1, "preserve_insertion_order": True})
    for macro in MACROS:
        connection.execute(f"CREATE MACRO {macro}")
    return connection


@contextlib.contextmanager
def _memory_file(data: bytes) -> Iterator[str]:
    """A path under which the bytes can be read; in memory where the system can do that."""
    if hasattr(os, "memfd_create"):
        file = os.memfd_create("specledger")
        try:
            with open(file, "wb", closefd=False) as writer:
                writer.write(data)
            yield f"/proc/self/fd/{file}"
        finally:
            os.close(file)
    else:
        with tempfile.NamedTemporaryFile(suffix=".jsonl") as copy:
            copy.write(data)
            copy.flush()
            yield copy.name
