"""Reads logged responses of an OpenAI-style server: one JSON object a line, bare or in an envelope.

Algorithm: blocks of whole lines go to DuckDB's JSON reader, which knows where to look from a sample of each block. Rows
in which a fact is missing are read again, one by one and wherever a fact can stand; what is no JSON then is refused.
Blocks are read by several threads and handed on in order.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np
import polars as pl

from .lines import BLOCK_BYTES, MAX_LINE_BYTES, Block, Overlong, blocks
from .reader import BatchOfOne, BatchSink, Input, InputContext, Progress, Sink
from .response_fields import Shape, shape_of
from .response_json import decode_file, decode_lines
from .response_repair import as_line, documents, redacted, repaired
from .response_rows import rows_of
from .text_hashes import text_hashes

THREADS = 2
SAMPLE = 100
"""Lines of a block by which the places of its facts are told."""
DOCUMENT_BYTES = 256 << 20
"""Longest input that is read although it is not one object a line."""

_BEGINNING = 4_096

_CUT = "The last line is cut: its end never came."
_OVERLONG = (
    f"The line is longer than {MAX_LINE_BYTES >> 20} MiB, or the document than {DOCUMENT_BYTES >> 20} MiB: "
    "log responses one a line, without their text."
)
_NOTHING = "This is JSON but no response: it has no usage, metrics, status, error or finish reason."
_NEGATIVE = "A count is negative: whatever wrote this record is wrong."
_FAULTS = ("nothing", "elsewhere", "negative", "disagrees", "doubtful", "known")


@dataclass(frozen=True)
class _Document:
    """An input that is one array, or objects over several lines."""

    data: bytes


@dataclass
class _Lines:
    """Lines that are read together: each with its input and the byte where it begins."""

    texts: list[bytes] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    cut: set[int] = field(default_factory=set)
    """Which of them have no end."""
    records: dict[int, dict[str, Any]] = field(default_factory=dict)
    """What was read of those that are not plain JSON lines."""
    data: list[bytes] = field(default_factory=list)
    """The same lines as blocks."""
    size: int = 0

    def add(self, position: int, block: Block) -> None:
        """Take the lines of a block that are not blank."""
        newlines = np.flatnonzero(np.frombuffer(block.data, np.uint8) == 10)
        starts = np.concatenate([[0], newlines + 1]).tolist()
        for start, end in zip(starts, [*newlines.tolist(), len(block.data)], strict=True):
            line = block.data[start:end]
            if line and not line.isspace():
                self.texts.append(line)
                self.offsets.append(block.offset + start)
        self.inputs += [position] * (len(self.texts) - len(self.inputs))
        if not block.terminated:
            self.cut.add(len(self.texts) - 1)
        self.data.append(block.data if block.terminated else block.data + b"\n")
        self.size += len(block.data)


@dataclass
class _Read:
    """What became of lines."""

    rows: pl.DataFrame
    rejects: list[tuple[int, str]]
    """Number of the line, and why it was refused."""
    lines: _Lines
    disagreeing: int = 0
    elsewhere: int = 0


def read(stream: BinaryIO, context: InputContext, sink: Sink) -> Progress:
    """Read logged responses into ``requests``; see ``read_many``."""
    (progress,) = read_many([Input(stream, context)], BatchOfOne(sink))
    return progress


def read_many(inputs: Iterable[Input], sink: BatchSink) -> list[Progress]:
    """Read logged responses into ``requests``.

    An unterminated last line is read if it is whole, waits while its input may grow, and is refused otherwise.
    """
    with _Readers(sink) as readers:
        ends = []
        for position, one in enumerate(inputs):
            readers.context = one.context
            ends.append(_take(position, one, readers))
    return [Progress(end) for end in ends]


def _take(position: int, one: Input, readers: _Readers) -> int:
    """Hand the blocks of an input to the readers; returns where it ended."""
    end = one.context.offset
    for block in _whole(one.stream, one.context):
        if isinstance(block, Overlong):
            readers.sink.reject(position, block.offset, _OVERLONG, redacted(block.head))
            end = block.offset + block.size
        else:
            readers.take(position, block)
            end = (block.offset if isinstance(block, Block) else 0) + len(block.data)
    return end


class _Readers:
    """Threads that read blocks, and what they found, handed to the sink in order."""

    def __init__(self, sink: BatchSink) -> None:
        self.sink = sink
        self.context: InputContext | None = None
        self._pool = ThreadPoolExecutor(THREADS)
        self._running: deque[Future[_Read]] = deque()
        self._lines = _Lines()
        self._shapes = _Shapes()
        self._disagreeing = self._elsewhere = 0

    def __enter__(self) -> _Readers:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self._start(_Lines())
                self._hand_on(0)
                self._tell()
        finally:
            self._pool.shutdown(cancel_futures=True)

    def take(self, position: int, block: Block | _Document) -> None:
        """Read a block, together with others if it is small."""
        if isinstance(block, _Document):
            lines, refused = _from_documents(position, block.data)
            for offset, reason, text in refused:
                self.sink.reject(position, offset, reason, redacted(text))
            self._submit(lines)
            return
        self._lines.add(position, block)
        if self._lines.size >= BLOCK_BYTES // 2:
            self._start(_Lines())

    def _start(self, following: _Lines) -> None:
        lines, self._lines = self._lines, following
        self._submit(lines)

    def _submit(self, lines: _Lines) -> None:
        if lines.texts:
            hashed = self.context is not None and self.context.hash_text
            self._running.append(self._pool.submit(_read_lines, lines, self._shapes, hashed=hashed))
            self._hand_on(THREADS)

    def _hand_on(self, at_most: int) -> None:
        while len(self._running) > at_most:
            found = self._running.popleft().result()
            lines = found.lines
            self._disagreeing += found.disagreeing
            self._elsewhere += found.elsewhere
            self.sink.rows("requests", found.rows)
            for number, reason in found.rejects:
                text = redacted(lines.texts[number])
                self.sink.reject(lines.inputs[number], lines.offsets[number], reason, text)

    def _tell(self) -> None:
        if self._disagreeing:
            self.sink.note(
                f"In {self._disagreeing:,} responses generation_time_ms and mean_itl_ms contradict each other; "
                "decode_ms is generation_time_ms."
            )
        if self._elsewhere:
            self.sink.note(
                f"{self._elsewhere:,} calls of other endpoints, such as health checks, are no requests and were left "
                "out."
            )


def _whole(stream: BinaryIO, context: InputContext) -> Iterator[Block | _Document | Overlong]:
    """The blocks of the stream that are to be read: without a last line that waits, and with other JSON made lines."""
    begun = stream.read(_BEGINNING)
    if context.offset == 0 and _is_document(begun):
        yield _document(begun, stream)
        return
    for block in blocks(stream, context.offset, begun):
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


def _is_document(beginning: bytes) -> bool:
    """Whether an input that begins so is one array, or an object over several lines."""
    text = beginning.removeprefix(b"\xef\xbb\xbf").lstrip()
    return text.startswith(b"[") or (text.startswith(b"{") and text[1:].lstrip(b" \t\r").startswith(b"\n"))


def _document(begun: bytes, stream: BinaryIO) -> _Document | Overlong:
    data = begun + stream.read(DOCUMENT_BYTES)
    size = len(data)
    while chunk := stream.read(BLOCK_BYTES):
        size += len(chunk)
    return _Document(data) if size == len(data) else Overlong(0, size, begun, terminated=False)


def _from_documents(position: int, data: bytes) -> tuple[_Lines, list[tuple[int, str, bytes]]]:
    """The records of one array, or of objects that span lines, as lines; and what could not be read."""
    text = data.decode("utf-8", "replace")
    lines, refused = _Lines(), list[tuple[int, str, bytes]]()
    place = offset = 0
    for start, reason, record in documents(text):
        offset += len(text[place:start].encode())
        place = start
        if record is None:
            refused.append((offset, reason or "", text[start : start + 500].encode()))
            continue
        line = as_line(record)
        lines.texts.append(line)
        lines.inputs.append(position)
        lines.offsets.append(offset)
        lines.data.append(line + b"\n")
    return lines, refused


class _Shapes:
    """The shape of the records seen so far, which only grows."""

    def __init__(self) -> None:
        self._shape: Shape | None = None
        self._lock = threading.Lock()

    def after(self, lines: _Lines) -> Shape:
        """The shape once a sample of these lines is taken into account."""
        records = []
        for line in lines.texts[:: max(1, len(lines.texts) // SAMPLE)]:
            with contextlib.suppress(ValueError, RecursionError):
                records.append(json.loads(line))
        sampled = shape_of(records)
        with self._lock:
            self._shape = sampled if self._shape is None else self._shape.joined(sampled)
            return self._shape


def _read_lines(lines: _Lines, shapes: _Shapes, *, hashed: bool) -> _Read:
    rejects: list[tuple[int, str]] = []
    shape = shapes.after(lines)
    decoded = decode_file(b"".join(lines.data), max(map(len, lines.texts)), shape)
    if decoded.height != len(lines.texts):
        # The JSON reader counts lines in another way, for example where bytes are zero: leave it no choice.
        decoded = decode_lines(lines.texts, shape).drop("known")
    found = rows_of(decoded).with_columns(pl.int_range(decoded.height, dtype=pl.Int64).alias("_line"))
    unclear = found["doubtful"] | found["nothing"]
    if unclear.any():
        again = _read_again(lines, found["_line"].filter(unclear).to_list(), rejects)
        found = pl.concat([found.filter(~unclear), *again], how="vertical_relaxed").sort("_line", maintain_order=True)
    return _finish(found, lines, rejects, hashed=hashed)


def _read_again(lines: _Lines, numbers: list[int], rejects: list[tuple[int, str]]) -> list[pl.DataFrame]:
    """Rows of the lines with these numbers, repaired where needed and looked for wherever a fact can stand."""
    records: list[dict[str, Any]] = []
    places: list[int] = []
    for number in numbers:
        plain = repaired(lines.texts[number])
        if isinstance(plain, str):
            rejects.append((number, _CUT if number in lines.cut else plain))
            continue
        records += plain
        places += [number] * len(plain)
        if plain:
            lines.records[number] = plain[0]
    if not records:
        return []
    decoded = decode_lines([as_line(record) for record in records], shape_of(records))
    found = rows_of(decoded).with_columns(decoded["known"], pl.Series("_line", places, pl.Int64))
    rejects += [(number, _NOTHING) for number in found["_line"].filter(~found["known"]).to_list()]
    return [found.filter("known").drop("known")]


def _finish(found: pl.DataFrame, lines: _Lines, rejects: list[tuple[int, str]], *, hashed: bool) -> _Read:
    """Rows of the table ``requests``, and a reject for each record that is none."""
    elsewhere = int(found["elsewhere"].sum())
    found = found.filter(~found["elsewhere"])
    wrong = found.filter(pl.col("nothing") | pl.col("negative"))
    for number, negative in wrong.select("_line", "negative").iter_rows():
        rejects.append((number, _NEGATIVE if negative else _NOTHING))
    rows = found.filter(~(pl.col("nothing") | pl.col("negative")))
    numbers = rows["_line"].to_list()
    rows = rows.with_columns(
        pl.Series("input", [lines.inputs[number] for number in numbers], pl.UInt32),
        pl.Series("byte_offset", [lines.offsets[number] for number in numbers], pl.Int64),
        _tags(rows),
    )
    if rows["request_id"].null_count():
        own = [_own_id(lines.texts[number]) for number in numbers]
        rows = rows.with_columns(pl.col("request_id").fill_null(pl.Series(own, dtype=pl.String)))
    if hashed:
        rows = rows.with_columns(_hashes(lines, numbers))
    disagreeing = int(rows["disagrees"].sum())
    rows = rows.drop("_line", "labels", "response_id", *_FAULTS, strict=False)
    rejects.sort(key=lambda reject: reject[0])
    return _Read(rows, rejects, lines, disagreeing, elsewhere)


def _own_id(line: bytes) -> str:
    """The id of a request that has none: equal lines have equal ids wherever they stand."""
    return f"line-{hashlib.sha256(line.strip()).hexdigest()[:16]}"


def _tags(rows: pl.DataFrame) -> pl.Series:
    """The labels, and the server's own id where the client has another; null where there are none."""
    entries = pl.List(pl.Struct({"key": pl.String, "value": pl.String}))
    labels = rows["labels"].cast(entries)
    if rows["response_id"].null_count() < rows.height:
        entry = pl.struct(key=pl.lit("response_id"), value="response_id")
        with_id = pl.concat_list(entry.reshape((-1, 1)).arr.to_list(), pl.col("labels").fill_null([]))
        chosen = pl.when(pl.col("response_id").is_not_null()).then(with_id).otherwise("labels")
        labels = rows.select("response_id", labels).select(chosen.alias("labels"))["labels"]
    given = pl.DataFrame({"tags": labels}).select(pl.when(pl.col("tags").list.len() > 0).then("tags"))
    return given["tags"].cast(pl.Map(pl.String, pl.String))


def _hashes(lines: _Lines, numbers: list[int]) -> list[pl.Series]:
    found = []
    for number in numbers:
        record = lines.records.get(number)
        found.append(text_hashes(json.loads(lines.texts[number]) if record is None else record))
    return [
        pl.Series("prompt_hash", [one.prompt_hash for one in found], pl.String),
        pl.Series("output_hash", [one.output_hash for one in found], pl.String),
        pl.Series("output_prefix_hashes", [one.output_prefix_hashes for one in found], pl.List(pl.UInt64)),
        pl.Series("distinct_4gram_share", [one.distinct_4gram_share for one in found], pl.Float64),
    ]
