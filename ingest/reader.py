"""What a reader of one input format gets and gives: the contract between the formats and the rest of ingest.

A format module has a function ``read(stream, context, sink)``. It takes bytes, gives frames, and does no other I/O.
Where inputs of a format are many and small it also has ``read_many(inputs, sink)`` (see BatchReader), which the rest of
ingest prefers. Where a format is fetched from a server its module has ``read_url(url, context, sink)`` (see UrlReader).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Protocol

import polars as pl


@dataclass(frozen=True)
class InputContext:
    """What is known of an input from outside: where it is, what it belongs to, and where an earlier read ended."""

    source: str
    """Path or URL, as it is stored in the column ``source``."""
    deployment: str
    instance: str
    """Server the rows belong to where the input does not name it; the deployment's name unless given."""
    modified_at: dt.datetime
    """Last change of the input, naive UTC."""
    named_at: dt.datetime | None = None
    """The instant in the file's name (unix s or ms), naive UTC; None without one."""
    year: int | None = None
    timezone: str | None = None
    hash_text: bool = False
    """Whether prompt and output hashes were asked for; text itself is never kept."""
    offset: int = 0
    """Decompressed byte at which the stream starts: the end of what an earlier ingest read."""
    resume: Mapping[str, Any] = field(default_factory=dict)
    """What the reader returned when it stopped at ``offset``."""
    instance_given: bool = False
    """Whether ``instance`` was given by the user: it then stands above what the input calls its server."""
    settled: bool = True
    """True when the input has stopped growing: an unterminated last line is then a reject, else it waits."""
    followed: bool = False
    """Whether the next file of a rotated set goes on where this one ends, which settles whether it grows."""
    torn: Any = None
    """What the reader of the file before handed over as ``Progress.torn``; it precedes this one's first byte."""


@dataclass(frozen=True)
class Progress:
    """Where a reader stopped: everything before ``offset`` became rows or rejects."""

    offset: int
    resume: Mapping[str, Any] = field(default_factory=dict)
    waiting: bool = False
    """Whether ``resume`` holds records from before ``offset`` that wait for what may follow them: an input that is
    found unchanged is then read once more from there, settled."""
    torn: Any = None
    """Of a file that is followed: what goes on in the next one. Never stored, as it may be anybody's text."""


class Sink(Protocol):
    """Takes what a reader finds, adds the columns that every row has, and writes it to the warehouse."""

    def rows(self, table: str, frame: pl.DataFrame, records: int | None = None) -> None:
        """Rows of a raw table; ``records`` is how many records they came from (default: one a row).

        The frame may leave out nullable columns and any of date, deployment, instance and source; it may carry
        ``instance`` where the input names it.
        """

    def reject(self, byte_offset: int | None, reason: str, text: str | bytes, records: int = 1) -> None:
        """A record that could not be read; ``reason`` says what was wrong and what to do, in one sentence."""

    def note(self, message: str) -> None:
        """Something the user should be told once, for example that the time zone was assumed."""


class Reader(Protocol):
    """A format's ``read`` function."""

    def __call__(self, stream: BinaryIO, context: InputContext, sink: Sink) -> Progress: ...


@dataclass(frozen=True)
class Input:
    """One opened input of a batch."""

    stream: BinaryIO
    context: InputContext


class BatchSink(Protocol):
    """A sink for a batch: it is told of every row and reject which input it came from, by position in the batch."""

    def rows(self, table: str, frame: pl.DataFrame) -> None:
        """Rows as for Sink.rows, each one record; one more column ``input`` (UInt32): the position of its input."""

    def reject(self, position: int, byte_offset: int | None, reason: str, text: str | bytes, records: int = 1) -> None:
        """As Sink.reject, for the input at ``position``."""

    def note(self, message: str) -> None:
        """As Sink.note."""


class BatchOfOne:
    """A batch whose one input goes to a plain sink."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def rows(self, table: str, frame: pl.DataFrame) -> None:
        self._sink.rows(table, frame.drop("input"))

    def reject(self, position: int, byte_offset: int | None, reason: str, text: str | bytes, records: int = 1) -> None:
        del position
        self._sink.reject(byte_offset, reason, text, records)

    def note(self, message: str) -> None:
        self._sink.note(message)


class BatchReader(Protocol):
    """A format's ``read_many`` function.

    Inputs are taken one after the other, each stream to its end, so they may be opened lazily; what was read is kept
    in bounded memory. One Progress for each input, in order.
    """

    def __call__(self, inputs: Iterable[Input], sink: BatchSink) -> list[Progress]: ...


class UrlReader(Protocol):
    """A format's ``read_url`` function: fetches and reads; SpecledgerError where the server cannot be asked.

    ``context.source`` is the URL without credentials. The Progress has how far in time the read went: its ``resume``
    lets a later read of the same URL go on there.
    """

    def __call__(self, url: str, context: InputContext, sink: Sink) -> Progress: ...
