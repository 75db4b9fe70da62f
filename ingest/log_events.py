"""Events of a log, and the sampling parameters that requests were sent with, counted by minute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from .log_messages import Message

MINUTE = 60_000_000
"""Microseconds over which requests with the same parameters are counted in one row."""

_SCHEMA = {
    "byte_offset": pl.Int64(),
    "logged_at": pl.Datetime("us"),
    "process": pl.String(),
    "level": pl.String(),
    "kind": pl.String(),
    "message": pl.String(),
    "records": pl.Int64(),
}


class Events:
    """Gathers rows of ``events``; ``state`` holds what is not finished at the end of a read."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self._rows: list[dict[str, Any]] = []
        self._tracebacks: dict[str, dict[str, Any]] = {row["process"] or "": row for row in state.get("tracebacks", ())}
        self._minute: int | None = state.get("minute")
        self._requests: dict[tuple[str | None, str | None, str], dict[str, Any]] = {}
        self._told: dict[str, int] = dict(state.get("told", {}))
        """Of the last minute, when rows of requests were told that were written at the end of a read."""

    @property
    def state(self) -> dict[str, Any]:
        return {"tracebacks": list(self._tracebacks.values()), "minute": self._minute, "told": self._told}

    def add(self, message: Message, process: str | None, level: str | None, instant: int, byte_offset: int) -> None:
        """Takes an event, a traceback or the exception that ends one."""
        row = {
            "byte_offset": byte_offset,
            "logged_at": instant,
            "process": process,
            "level": level,
            "kind": message.kind,
            "message": message.text,
            "records": 1,
        }
        if message.kind == "traceback":
            self._end_traceback(process)
            self._tracebacks[process or ""] = row
        elif message.kind == "exception" or (message.kind == "death" and (process or "") in self._tracebacks):
            self._end_traceback(process, message.text)
        if message.kind not in ("traceback", "exception"):
            self._rows.append(row)

    def _end_traceback(self, process: str | None, exception: str | None = None) -> None:
        """A traceback is one event, named after the exception that ends it."""
        row = self._tracebacks.pop(process or "", None)
        if row is not None:
            self._rows.append(row | {"message": exception} if exception else row)

    def request(self, parameters: str, process: str | None, level: str | None, instant: int, byte_offset: int) -> None:
        """Counts a request with its parameters."""
        minute = instant // MINUTE
        if minute != self._minute:
            self._write_requests()
            self._minute, self._told = minute, {}
        key = (process, level, parameters)
        row = self._requests.get(key)
        if row is None:
            told = self._told.get(f"{process}\t{parameters}")
            self._requests[key] = {
                "byte_offset": byte_offset,
                # Rows of one minute from two reads must not look like the same row.
                "logged_at": instant if told is None else max(instant, told + 1),
                "process": process,
                "level": level,
                "kind": "request_parameters",
                "message": parameters,
                "records": 1,
            }
        else:
            row["records"] += 1

    def _write_requests(self) -> None:
        for row in self._requests.values():
            self._told[f"{row['process']}\t{row['message']}"] = row["logged_at"]
        self._rows += self._requests.values()
        self._requests = {}

    def frame(self, *, last: bool, settled: bool) -> tuple[pl.DataFrame, int] | None:
        """The rows so far and how many records they came from; at the end of a read, the counts so far as well."""
        if last:
            self._write_requests()
        if last and settled:
            self._rows += self._tracebacks.values()
            self._tracebacks = {}
        if not self._rows:
            return None
        rows, self._rows = self._rows, []
        return pl.DataFrame(rows, schema=_SCHEMA), sum(row["records"] for row in rows)
