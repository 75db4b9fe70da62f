"""A Prometheus server: answers of its HTTP API saved as JSON (``query_range``, ``query``), and the server itself.

A file holds one answer, or one a line. A span may be saved metric by metric: what a server said of one target at one
time is one scrape, whether its parts are ingested together or one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO

from .prometheus_answer import take_answer
from .prometheus_server import read_url
from .reader import BatchOfOne, BatchSink, Input, InputContext, Progress, Sink
from .series_points import PointCollector

__all__ = ["read", "read_many", "read_url"]

MAX_BYTES = 256 << 20
"""Longest input that is read: half a day of scrapes of one server."""


def read(stream: BinaryIO, context: InputContext, sink: Sink) -> Progress:
    """Rows of ``snapshots`` and ``other_samples`` from saved answers; what cannot be read becomes rejects."""
    return read_many([Input(stream, context)], BatchOfOne(sink))[0]


def read_many(inputs: Iterable[Input], sink: BatchSink) -> list[Progress]:
    """As ``read``, for many inputs at once; samples of one scrape may be in several of them."""
    contexts: list[InputContext] = []
    collector = PointCollector(sink, contexts)
    ends = []
    for position, one in enumerate(inputs):
        contexts.append(one.context)
        raw = one.stream.read(MAX_BYTES)
        end = one.context.offset + len(raw)
        if rest := one.stream.read(1):
            reason = f"the answer is longer than {MAX_BYTES >> 20} MiB and was not read: ask for shorter spans"
            sink.reject(position, one.context.offset, reason, raw[:200])
            while rest:
                end += len(rest)
                rest = one.stream.read(1 << 20)
        else:
            for offset, text in _answers(raw):
                take_answer(text, position, one.context.offset + offset, collector, sink)
                collector.relieve()
        ends.append(Progress(end))
    collector.flush()
    return ends


def _answers(raw: bytes) -> Iterator[tuple[int, str]]:
    """The answers in an input and where they begin: one in all, or one a line."""
    lines = [line.strip() for line in raw.split(b"\n", 2)[:2]]
    if len(lines) == 2 and lines[0].endswith(b"}") and lines[1].startswith(b"{"):
        offset = 0
        for line in raw.splitlines(keepends=True):
            if line.strip():
                yield offset, line.decode("utf-8", "replace")
            offset += len(line)
    else:
        yield 0, raw.decode("utf-8-sig", "replace")
