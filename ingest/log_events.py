"""Events of a log, and the sampling parameters that requests were sent with, counted by minute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from .log_messages import Message

MINUTE = 60_000_000
"""Microseconds over which requests with the same parameters are counted in one row."""

_RequestKey = tuple[int, str | None, str]
"""Minute, process and parameters."""
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
        self._requests: dict[_RequestKey, dict[str, Any]] = {}
        self._told: dict[_RequestKey, int] = {(minute, *key): at for minute, *key, at in state.get("told", ())}
        """When the last row of a minute was told whose count was not known to be final."""

    @property
    def state(self) -> dict[str, Any]:
        return {
            "tracebacks": list(self._tracebacks.values()),
            "told": [[*key, at] for key, at in self._told.items()],
        }

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

    def requests(self, parameters: str, process: str | None, instant: int, byte_offset: int, count: int) -> None:
        """Counts requests of one minute with the same parameters, of which the first is given."""
        key = (instant // MINUTE, process, parameters)
        row = self._requests.get(key)
        if row is not None:
            row["records"] += count
            return
        told = self._told.get(key)
        self._requests[key] = {
            "byte_offset": byte_offset,
            # Rows of one minute from two reads must not look like the same row.
            "logged_at": instant if told is None else max(instant, told + 1),
            "process": process,
            "level": "INFO",
            "kind": "request_parameters",
            "message": parameters,
            "records": count,
        }

    def _write_requests(self, before: int | None) -> None:
        """Writes the counts of the minutes before one, or all of them as far as they are known."""
        for key in [key for key in self._requests if before is None or key[0] < before]:
            row = self._requests.pop(key)
            self._rows.append(row)
            self._told[key] = row["logged_at"]
        newest = max((key[0] for key in (*self._requests, *self._told)), default=0)
        self._told = {key: at for key, at in self._told.items() if key[0] >= newest - 1}

    def frame(self, *, last: bool, settled: bool) -> tuple[pl.DataFrame, int] | None:
        """The rows so far and how many records they came from; at the end of a read, the counts so far as well."""
        newest = max((key[0] for key in self._requests), default=0)
        # Several processes are out of order by seconds, so that a minute is over when the next one is.
        self._write_requests(None if last else newest - 1)
        if last and settled:
            self._rows += self._tracebacks.values()
            self._tracebacks = {}
        if not self._rows:
            return None
        rows, self._rows = self._rows, []
        return pl.DataFrame(rows, schema=_SCHEMA), sum(row["records"] for row in rows)
