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
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, BinaryIO

import polars as pl

from .lines import BLOCK_BYTES, MAX_LINE_BYTES, Block, Overlong
from .plausible import refusal
from .reader import BatchOfOne, BatchSink, Input, InputContext, Progress, Sink
from .response_fields import Shape, shape_of
from .response_json import decode_file, decode_lines
from .response_lines import DOCUMENT_BYTES, Document, Lines, add_documents, whole_blocks
from .response_repair import as_line, redacted, repaired
from .response_rows import rows_of
from .text_hashes import text_hashes

THREADS = 2
SAMPLE = 100
"""Lines of a block by which the places of its facts are told."""


_CUT = "The last line is cut: its end never came."
_OVERLONG = (
    f"The line is longer than {MAX_LINE_BYTES >> 20} MiB, or the document than {DOCUMENT_BYTES >> 20} MiB: "
    "log responses one a line, without their text."
)
_NOTHING = "This is JSON but no response: it has no usage, metrics, status, error or finish reason."
_FAULTS = ("nothing", "elsewhere", "impossible", "disagrees", "doubtful", "known")


@dataclass
class _Read:
    """What became of lines."""

    rows: pl.DataFrame
    rejects: list[tuple[int, str]]
    """Number of the line, and why it was refused."""
    lines: Lines
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
    for block in whole_blocks(one.stream, one.context):
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
        self._lines = Lines()
        self._shapes = _Shapes()
        self._disagreeing = self._elsewhere = 0

    def __enter__(self) -> _Readers:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self._start(Lines())
                self._hand_on(0)
                self._tell()
        finally:
            self._pool.shutdown(cancel_futures=True)

    def take(self, position: int, block: Block | Document) -> None:
        """Read a block, together with others if it is small."""
        if isinstance(block, Document):
            for offset, reason, text in add_documents(position, block.data, self._lines):
                self.sink.reject(position, offset, reason, redacted(text))
            return
        self._lines.add(position, block.offset, block.data, terminated=block.terminated)
        if self._lines.size >= BLOCK_BYTES // 2:
            self._start(Lines())

    def _start(self, following: Lines) -> None:
        lines, self._lines = self._lines, following
        self._submit(lines)

    def _submit(self, lines: Lines) -> None:
        if lines.size:
            hashed = self.context is not None and self.context.hash_text
            self._running.append(self._pool.submit(_read_lines, lines, self._shapes, hashed=hashed))
            self._hand_on(THREADS)

    def _hand_on(self, at_most: int) -> None:
        while len(self._running) > at_most:
            found = self._running.popleft().result()
            lines = found.lines
            self._disagreeing += found.disagreeing
            self._elsewhere += found.elsewhere
            if found.rows.height:
                self.sink.rows("requests", found.rows)
            for number, reason in found.rejects:
                inputs, offsets = lines.origins
                self.sink.reject(int(inputs[number]), int(offsets[number]), reason, redacted(lines.text(number)))

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


class _Shapes:
    """The shape of the records seen so far, which only grows."""

    def __init__(self) -> None:
        self._shape: Shape | None = None
        self._lock = threading.Lock()

    def after(self, lines: Lines) -> Shape:
        """The shape once a sample of these lines is taken into account."""
        records = []
        for number in range(0, len(lines), max(1, len(lines) // SAMPLE)):
            with contextlib.suppress(ValueError, RecursionError):
                records.append(json.loads(lines.text(number)))
        sampled = shape_of(records)
        with self._lock:
            self._shape = sampled if self._shape is None else self._shape.joined(sampled)
            return self._shape


def _read_lines(lines: Lines, shapes: _Shapes, *, hashed: bool) -> _Read:
    if not len(lines):
        return _Read(pl.DataFrame(), [], lines)
    rejects: list[tuple[int, str]] = []
    shape = shapes.after(lines)
    decoded = decode_file(lines.data, lines.longest, shape)
    if decoded.height != len(lines):
        # The JSON reader counts lines in another way, for example where bytes are zero: leave it no choice.
        decoded = decode_lines(lines.texts(), shape).drop("known")
    found = rows_of(decoded).with_columns(pl.int_range(decoded.height, dtype=pl.Int64).alias("_line"))
    unclear = found["doubtful"] | found["nothing"]
    if unclear.any():
        again = _read_again(lines, found["_line"].filter(unclear).to_list(), rejects)
        found = pl.concat([found.filter(~unclear), *again], how="vertical_relaxed").sort("_line", maintain_order=True)
    return _finish(found, lines, rejects, hashed=hashed)


def _read_again(lines: Lines, numbers: list[int], rejects: list[tuple[int, str]]) -> list[pl.DataFrame]:
    """Rows of the lines with these numbers, repaired where needed and looked for wherever a fact can stand."""
    records: list[dict[str, Any]] = []
    places: list[int] = []
    for number in numbers:
        plain = repaired(lines.text(number))
        if isinstance(plain, str):
            rejects.append((number, _CUT if lines.is_cut(number) else plain))
        else:
            records += plain
            places += [number] * len(plain)
    if not records:
        return []
    decoded = decode_lines([as_line(record) for record in records], shape_of(records))
    found = rows_of(decoded).with_columns(decoded["known"], pl.Series("_line", places, pl.Int64))
    rejects += [(number, _NOTHING) for number in found["_line"].filter(~found["known"]).to_list()]
    return [found.filter("known").drop("known")]


def _finish(found: pl.DataFrame, lines: Lines, rejects: list[tuple[int, str]], *, hashed: bool) -> _Read:
    """Rows of the table ``requests``, and a reject for each record that is none."""
    wrong = found["nothing"] | found["impossible"].is_not_null()
    elsewhere = found["elsewhere"]
    for number, impossible in found.filter(wrong & ~elsewhere).select("_line", "impossible").iter_rows():
        rejects.append((number, refusal(impossible) if impossible else _NOTHING))
    rows = found.filter(~(wrong | elsewhere)) if (wrong | elsewhere).any() else found
    numbers = rows["_line"].to_numpy()
    inputs, offsets = lines.origins
    rows = rows.with_columns(
        pl.Series("input", inputs[numbers], pl.UInt32),
        pl.Series("byte_offset", offsets[numbers], pl.Int64),
        _tags(rows),
    )
    if rows["request_id"].null_count():
        nameless = rows["request_id"].is_null().to_list()
        own = [_own_id(lines.text(number)) if none else None for number, none in zip(numbers, nameless, strict=True)]
        rows = rows.with_columns(pl.col("request_id").fill_null(pl.Series(own, dtype=pl.String)))
    if hashed:
        rows = rows.with_columns(_hashes([lines.text(number) for number in numbers]))
    disagreeing = int(rows["disagrees"].sum())
    rows = rows.drop("_line", "labels", "response_id", *_FAULTS, strict=False)
    rejects.sort(key=lambda reject: reject[0])
    return _Read(rows, rejects, lines, disagreeing, int(elsewhere.sum()))


def _own_id(line: bytes) -> str:
    """The id of a request that has none: equal lines have equal ids wherever they stand."""
    return f"line-{hashlib.sha256(line.strip()).hexdigest()[:16]}"


def _tags(rows: pl.DataFrame) -> pl.Series:
    """The labels, and the server's own id where the client has another; null where there are none."""
    entries = pl.List(pl.Struct({"key": pl.String, "value": pl.String}))
    labels = rows["labels"].cast(entries)
    if labels.null_count() == rows["response_id"].null_count() == rows.height:
        return rows["labels"].alias("tags")
    if rows["response_id"].null_count() < rows.height:
        entry = pl.struct(key=pl.lit("response_id"), value="response_id")
        with_id = pl.concat_list(entry.reshape((-1, 1)).arr.to_list(), pl.col("labels").fill_null([]))
        chosen = pl.when(pl.col("response_id").is_not_null()).then(with_id).otherwise("labels")
        labels = rows.select("response_id", labels).select(chosen.alias("labels"))["labels"]
    given = pl.DataFrame({"tags": labels}).select(pl.when(pl.col("tags").list.len() > 0).then("tags"))
    return given["tags"].cast(pl.Map(pl.String, pl.String))


def _hashes(texts: list[bytes]) -> list[pl.Series]:
    found = []
    for text in texts:
        plain = repaired(text)
        found.append(text_hashes(plain[0] if isinstance(plain, list) and plain else {}))
    return [
        pl.Series("prompt_hash", [one.prompt_hash for one in found], pl.String),
        pl.Series("output_hash", [one.output_hash for one in found], pl.String),
        pl.Series("output_prefix_hashes", [one.output_prefix_hashes for one in found], pl.List(pl.UInt64)),
        pl.Series("distinct_4gram_share", [one.distinct_4gram_share for one in found], pl.Float64),
    ]
