"""A sink that keeps what a reader gives, and a way to run a reader on literal bytes."""

from __future__ import annotations

import datetime as dt
import importlib
import io
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from specledger.ingest.reader import InputContext, Progress

NOON = dt.datetime(2026, 9, 14, 12)


@dataclass
class FakeSink:
    frames: dict[str, list[pl.DataFrame]] = field(default_factory=dict)
    rejects: list[tuple[int | None, str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def rows(self, table: str, frame: pl.DataFrame, records: int | None = None) -> None:
        self.frames.setdefault(table, []).append(frame)

    def reject(self, byte_offset: int | None, reason: str, text: Any, records: int = 1) -> None:
        self.rejects.append((byte_offset, reason, text))

    def note(self, message: str) -> None:
        self.notes.append(message)

    def table(self, name: str) -> list[dict[str, Any]]:
        frames = self.frames.get(name, [])
        return pl.concat(frames, how="diagonal_relaxed").to_dicts() if frames else []


def run(format_name: str, content: bytes, **facts: Any) -> tuple[FakeSink, Progress]:
    """What the reader of a format makes of literal bytes."""
    context = InputContext(**{"source": "input", "deployment": "d", "instance": "i", "modified_at": NOON, **facts})
    sink = FakeSink()
    reader = importlib.import_module(f"specledger.ingest.{format_name}")
    return sink, reader.read(io.BytesIO(content), context, sink)
