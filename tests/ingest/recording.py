"""A sink that keeps what a reader gives, and contexts to read with."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import polars as pl

from specledger.ingest.reader import Input, InputContext, Progress

MODIFIED_AT = dt.datetime(2026, 11, 29, 12, 0, 0)


@dataclass(frozen=True)
class Reject:
    position: int
    byte_offset: int | None
    reason: str
    text: str
    records: int


@dataclass
class RecordingSink:
    """Keeps frames by table, and rejects; a Sink and a BatchSink."""

    frames: dict[str, list[pl.DataFrame]] = field(default_factory=dict)
    rejects: list[Reject] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def rows(self, table: str, frame: pl.DataFrame) -> None:
        self.frames.setdefault(table, []).append(frame)

    def reject(self, position: int, byte_offset: int | None, reason: str, text: str | bytes, records: int = 1) -> None:
        shown = text if isinstance(text, str) else text.decode("utf-8", "replace")
        self.rejects.append(Reject(position, byte_offset, reason, shown, records))

    def note(self, message: str) -> None:
        self.notes.append(message)

    def table(self, name: str) -> list[dict[str, Any]]:
        """All rows of a table, in an order that does not depend on how they were batched."""
        if name not in self.frames:
            return []
        frame = pl.concat(self.frames[name], how="diagonal")
        order = [
            column
            for column in ("input", "instance", "engine", "model_name", "scraped_at", "metric", "byte_offset")
            if column in frame.columns
        ]
        rows = frame.sort(order, maintain_order=True).to_dicts()
        for row in rows:
            for column in ("finished", "waiting_by_reason", "labels"):
                if row.get(column) is not None:
                    row[column] = {item["key"]: item["value"] for item in row[column]}
        return rows

    @property
    def snapshots(self) -> list[dict[str, Any]]:
        return self.table("snapshots")

    @property
    def others(self) -> list[dict[str, Any]]:
        return self.table("other_samples")

    @property
    def reasons(self) -> list[str]:
        return [reject.reason for reject in self.rejects]


def context(**known: Any) -> InputContext:
    """The context of an input of deployment ``d`` on server ``one``."""
    given: Mapping[str, Any] = {"source": "x.prom", "deployment": "d", "instance": "one", "modified_at": MODIFIED_AT}
    return InputContext(**{**given, **known})


def read_many(
    reader: Callable[..., list[Progress]], *texts: str | bytes, **known: Any
) -> tuple[RecordingSink, list[Progress]]:
    """Read texts as the inputs of one batch."""
    sink = RecordingSink()
    inputs = [Input(stream(text), context(**known)) for text in texts]
    return sink, reader(inputs, sink)


def stream(text: str | bytes) -> BinaryIO:
    return io.BytesIO(text.encode() if isinstance(text, str) else text)
