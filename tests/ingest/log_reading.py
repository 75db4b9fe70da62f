"""Reads logs in tests: at once, or in parts as they grow, and counts what was read."""

from __future__ import annotations

import datetime as dt
import io
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from specledger.ingest import server_log
from specledger.ingest.reader import InputContext, Progress

MODIFIED_AT = dt.datetime(2026, 12, 31, 23, 59)


@dataclass
class LogSink:
    """Keeps what the reader gives."""

    frames: dict[str, list[pl.DataFrame]] = field(default_factory=dict)
    rejects: list[tuple[int | None, str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    records: int = 0

    def rows(self, table: str, frame: pl.DataFrame, records: int | None = None) -> None:
        self.frames.setdefault(table, []).append(frame)
        self.records += frame.height if records is None else records

    def reject(self, byte_offset: int | None, reason: str, text: str | bytes, records: int = 1) -> None:
        self.rejects.append((byte_offset, reason, text if isinstance(text, str) else text.decode()))
        self.records += records

    def note(self, message: str) -> None:
        self.notes.append(message)

    def table(self, name: str) -> list[dict[str, Any]]:
        """The rows of a table as they came, in the order of the log."""
        frames = self.frames.get(name, [])
        rows = pl.concat(frames, how="diagonal_relaxed").to_dicts() if frames else []
        return sorted(rows, key=lambda row: row.get("byte_offset") or 0)

    @property
    def stats(self) -> list[dict[str, Any]]:
        return self.table("log_stats")

    @property
    def events(self) -> list[tuple[str, str]]:
        return [(row["kind"], row["message"]) for row in self.table("events")]


def read(content: str | bytes, **facts: Any) -> LogSink:
    """What is read of a log that has stopped growing."""
    sink = LogSink()
    _read(sink, _bytes(content), Progress(0), **facts)
    return sink


def read_in_parts(content: str | bytes, ends: Iterable[int], **facts: Any) -> LogSink:
    """What is read of a log that was seen at several lengths, and at last whole and at rest."""
    data = _bytes(content)
    sink = LogSink()
    progress = Progress(0)
    for end in ends:
        progress = _read(sink, data[:end], progress, settled=False, **facts)
    _read(sink, data, progress, **facts)
    return sink


def read_rotated(*contents: str | bytes, **facts: Any) -> LogSink:
    """What is read of the files of a rotated log, in order; each is read with what the one before it left."""
    sink = LogSink()
    progress = Progress(0)
    for number, content in enumerate(contents, 1):
        before = Progress(0, progress.resume, torn=progress.torn)
        settled = number == len(contents)
        progress = _read(sink, _bytes(content), before, followed=not settled, settled=settled, **facts)
    return sink


def _read(sink: LogSink, data: bytes, before: Progress, **facts: Any) -> Progress:
    kept = json.loads(json.dumps(dict(before.resume)))
    known = {"source": "x.log", "deployment": "d", "instance": "i", "modified_at": MODIFIED_AT, **facts}
    context = InputContext(**known, offset=before.offset, resume=kept, torn=before.torn)
    return server_log.read(io.BytesIO(data[before.offset :]), context, sink)


def _bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content
