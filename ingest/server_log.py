"""stdout and stderr of ``vllm serve``, behind whatever prefix it was kept with.

Rows of ``log_stats`` (stats and spec records), ``iterations``, ``deployments`` (start-up records) and ``events``. Lines
that hold no record of interest are passed over; a record that can be recognised and not read is rejected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import polars as pl

from .log_events import MINUTE, Events
from .log_iterations import iterations_of
from .log_lines import LONGEST_LINE, Block, LineSource, Torn
from .log_messages import STARTUP, Message
from .log_program import Integers
from .log_scan import Harvest, Reject, Scanner, Singles
from .log_stamps import stamps_of
from .log_stats import KINDS, ReadTo, StatsPairing
from .log_table import MISSING, Group, Records
from .log_text import clean
from .log_time import UNKNOWN, Clock
from .reader import InputContext, Progress, Sink
from .startup import Start, Starts

STATE_VERSION = 1


def read(stream: BinaryIO, context: InputContext, sink: Sink) -> Progress:
    """Read a log from ``context.offset`` on.

    The resume state holds the clock, the last start, records that wait for a partner, and offsets; no text of a
    request. UsageError if the time zone of the context is not known.
    """
    return _Reader(stream, context, sink).read()


@dataclass(frozen=True)
class _Said:
    """A text record with its time."""

    message: Message
    process: str | None
    level: str | None
    instant: int
    offset: int


class _Reader:
    def __init__(self, stream: BinaryIO, context: InputContext, sink: Sink) -> None:
        state = context.resume if context.resume.get("version") == STATE_VERSION else {}
        # What a rotated set carries over from the file before knows no offset in this one.
        here = state.get("at") == context.offset
        self._context = context
        self._sink = sink
        self._settled = context.settled and not context.followed
        self._lines = LineSource(stream, context.offset, state.get("lines", {}) if here else {}, context.torn)
        self._clock = Clock(context.year, context.timezone, context.modified_at, sink.note, state.get("clock", {}))
        self._pairing = StatsPairing(sink.note, _before_this_file(state.get("pairing", {}), here))
        self._starts = Starts(state.get("starts", {}))
        self._events = Events(state.get("events", {}))
        self._scanner = Scanner()
        self._before = self._clock.last
        """The instant of the last record before the block at hand."""

    def read(self) -> Progress:
        for block, harvest in self._harvests():
            if block.too_long:
                self._sink.reject(
                    block.offset,
                    f"A line of more than {LONGEST_LINE >> 20} MiB; only its beginning was searched for records.",
                    "",
                )
            self._take(harvest, block.offset + block.size, more=True)
        self._take(Harvest(), self._lines.end, more=False)
        if self._settled:
            self._finish_start()
            return self._stopped(self._reject_rest())
        self._write_start(self._starts.so_far())
        if self._context.followed:
            return self._stopped(self._lines.end + len(self._lines.rest), self._lines.torn)
        return self._stopped(self._lines.offset)

    def _harvests(self) -> Iterator[tuple[Block, Harvest]]:
        """What is in each block, in order; while one is taken in, the next is searched and the one after it read.

        No further ahead: NumPy and Polars leave Python's lock only for so long.
        """
        blocks = self._lines.blocks()
        with ThreadPoolExecutor(1) as reader, ThreadPoolExecutor(1) as searcher:
            searched: tuple[Block, Future[Harvest]] | None = None
            block = next(blocks, None)
            while block is not None:
                following = reader.submit(next, blocks, None)
                before, searched = searched, (block, searcher.submit(self._scanner.scan, block))
                if before is not None:
                    yield before[0], before[1].result()
                block = following.result()
            if searched is not None:
                yield searched[0], searched[1].result()

    def _stopped(self, offset: int, torn: Torn | None = None) -> Progress:
        state = {
            "version": STATE_VERSION,
            "at": offset,
            "lines": self._lines.state,
            "clock": self._clock.state,
            "pairing": self._pairing.state,
            "starts": self._starts.state,
            "events": self._events.state,
        }
        return Progress(offset, state, torn=torn)

    def _reject_rest(self) -> int:
        """Rejects records in lines that never got an end; gives the end of the input."""
        singles = Singles()
        for line in self._lines.unfinished():
            singles.cut(clean(line.text), line.offset, "A line whose last piece never came")
        rest = self._lines.rest
        if rest:
            singles.cut(clean(rest), self._lines.end, "A last line without its end")
        harvest = Harvest()
        singles.into(harvest)
        self._reject(harvest.rejects)
        return self._lines.end + len(rest)

    def _take(self, harvest: Harvest, end: int, *, more: bool) -> None:
        self._reject(harvest.rejects)
        groups = self._timed(harvest.groups)
        limits = self._texts(groups, harvest, end)
        iterations = iterations_of([group for group in groups if group.form.kind == "iteration"])
        if iterations is not None:
            self._sink.rows("iterations", iterations)
        self._requests([group for group in groups if group.form.kind == "request"], harvest.parameters)
        upto = ReadTo(
            end,
            self._clock.last or 0,
            more=more,
            settled=self._settled,
            speculative=self._starts.speculative,
        )
        stats = self._pairing.pair([group for group in groups if group.form.kind in KINDS], limits, upto)
        if stats is not None:
            self._sink.rows("log_stats", *stats)
        events = self._events.frame(last=not more, settled=self._settled)
        if events is not None:
            self._sink.rows("events", *events)

    def _reject(self, rejects: Sequence[Reject]) -> None:
        for reject in sorted(rejects, key=lambda reject: reject.offset):
            self._sink.reject(reject.offset, reject.reason, reject.text)

    # --- times ---------------------------------------------------------------------------------------------------

    def _timed(self, groups: Sequence[Group]) -> list[Group]:
        """The groups with the instant of each record; records without a possible time are rejected."""
        untimed = [group for group in groups if "month" not in group.form.names]
        timed = [group for group in groups if "month" in group.form.names and len(group)]
        for group in untimed:
            for offset in group.offsets.tolist():
                self._sink.reject(offset, "A record without a time; give the log with its times.", "")
        records = Records(timed)
        if not len(records):
            return []
        times, bad = self._clock.instants(stamps_of(records, timed))
        records.set_instants(times)
        if not bad.any():
            return timed
        kept = []
        for group in timed:
            wrong = group.instants == UNKNOWN
            for offset in group.offsets[wrong].tolist():
                self._sink.reject(
                    offset, "A record with a date that does not exist in its year; check --year and the log.", ""
                )
            kept.append(group.take(np.flatnonzero(~wrong)))
        return [group for group in kept if len(group)]

    # --- text records --------------------------------------------------------------------------------------------

    def _texts(self, groups: Sequence[Group], harvest: Harvest, end: int) -> _Limits:
        """Handles start-up records, requests and events in order; gives K along the way."""
        serving = np.sort(_joined([group.offsets for group in groups if group.form.kind != "text"]))
        limits = _Limits(self._starts.draft_limit)
        seen = MISSING  # the last start-up record: what is numeric behind it ends the start
        for said in self._said(groups, harvest):
            message = said.message
            if message.kind == "ready":
                self._finish_start()
            elif message.kind in STARTUP:
                if self._starts.open and _between(serving, seen, said.offset):
                    self._finish_start()
                self._start(said)
                limits.set(said.offset, self._starts.draft_limit)
                seen = said.offset
            else:
                self._events.add(message, said.process, said.level, said.instant, said.offset)
        if self._starts.open and _between(serving, seen, end + 1):
            self._finish_start()
        return limits

    def _said(self, groups: Sequence[Group], harvest: Harvest) -> list[_Said]:
        """The text records of a block in order; a line without a header has the time of the record before it."""
        timed = Records(groups)
        texts_ = [group for group in groups if group.form.kind == "text"]
        records = Records(texts_)
        forms, distinct = records.forms()
        result = [
            _Said(message, distinct[form].process, distinct[form].level, instant, offset)
            for message, form, instant, offset in zip(
                records.messages(), forms.tolist(), records.instants().tolist(), records.offsets.tolist(), strict=True
            )
        ]
        if harvest.bare:
            times = timed.instants()
            for offset, message, process in harvest.bare:
                before = int(np.searchsorted(timed.offsets, offset)) - 1
                instant = int(times[before]) if before >= 0 else self._before
                if instant is None and message.kind != "ready":
                    self._sink.reject(offset, "An event before any record with a time; it was left out.", message.text)
                else:
                    result.append(_Said(message, process, None, instant or 0, offset))
            result.sort(key=lambda said: said.offset)
        self._before = self._clock.last
        return result

    def _start(self, said: _Said) -> None:
        message = said.message
        ended, trouble = self._starts.add(message, said.process, said.instant)
        self._write_start(ended)
        if trouble:
            self._sink.reject(said.offset, f"{trouble}; what it says further on is missing.", "")

    def _finish_start(self) -> None:
        self._write_start(self._starts.finish())

    def _write_start(self, start: Start | None) -> None:
        if start is not None:
            frame = pl.DataFrame([start.row()], schema_overrides=_START_TYPES)
            self._sink.rows(
                "deployments",
                frame.with_columns(pl.col("started_at").cast(pl.Datetime("us"))),
                start.records - start.told,
            )
            start.told = start.records

    # --- requests ------------------------------------------------------------------------------------------------

    def _requests(self, groups: Sequence[Group], parameters: Sequence[str]) -> None:
        records = Records(groups)
        if not len(records):
            return
        codes, names = records.processes()
        chosen, times = records.integers("parameters"), records.instants()
        minute = times // MINUTE
        kinds = np.stack([minute - minute.min(), codes, chosen])
        key = np.ravel_multi_index(tuple(kinds - kinds.min(axis=1, keepdims=True)), tuple(np.ptp(kinds, axis=1) + 1))
        _, first, counts = np.unique(key, return_index=True, return_counts=True)
        for row, count in sorted(zip(first.tolist(), counts.tolist(), strict=True)):
            if chosen[row] != MISSING:
                self._events.requests(
                    parameters[chosen[row]], names[codes[row]], int(times[row]), int(records.offsets[row]), count
                )


_START_TYPES: dict[str, pl.DataType] = {"capture_sizes": pl.List(pl.Int32), "started_at": pl.Int64()}


class _Limits:
    """K along a block."""

    def __init__(self, limit: int | None) -> None:
        self._offsets = [np.iinfo(np.int64).min]
        self._limits = [MISSING if limit is None else limit]

    def set(self, offset: int, limit: int | None) -> None:
        """K from a byte on."""
        self._offsets.append(offset)
        self._limits.append(MISSING if limit is None else limit)

    def __call__(self, offsets: Integers) -> Integers:
        return np.array(self._limits)[np.searchsorted(self._offsets, offsets, side="right") - 1]


def _between(offsets: Integers, after: int, before: int) -> bool:
    """Whether an offset lies between two bytes."""
    return bool(np.searchsorted(offsets, before) > np.searchsorted(offsets, after, side="right"))


def _joined(pieces: Sequence[Integers]) -> Integers:
    return np.concatenate(pieces) if pieces else np.empty(0, dtype=np.int64)


def _before_this_file(state: Mapping[str, Any], here: bool) -> Mapping[str, Any]:
    """Records that wait from the file before stand before all of this one."""
    if here or not state.get("held"):
        return state
    held = [{**group, "offsets": [offset - (1 << 62) for offset in group["offsets"]]} for group in state["held"]]
    return {**state, "held": held}
