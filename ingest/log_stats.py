"""Stats records with the spec records that belong to them: rows of ``log_stats``.

A spec record names no engine. vLLM prints it right behind the stats record of its engine, so it belongs to the stats
record of the same process just before it; where several stats records are followed by as many spec records, they belong
together in order; what is left over belongs to no engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from .log_program import Integers
from .log_table import (
    MISSING,
    Booleans,
    Columns,
    Floats,
    Group,
    Records,
    group_as_json,
    group_from_json,
)
from .rounds import Rounds, SpecFigures, recover_rounds

NEAR = 2_000_000
"""Microseconds that may lie between a stats record and its spec record; both are printed in one call."""
CLOSE = 16 << 10
"""Bytes within which a spec record follows its stats record, whatever other processes print between them."""

UNATTRIBUTED_NOTE = (
    "Some spec records belong to no engine, because no stats record of their process stands right before them or their "
    "order leaves it open: they are kept with engine null."
)
WORDINGS = (None, "0.8.3", "0.8.5", "0.9", "0.10.2", "V0")
KINDS = ("stats", "spec", "speculative", "stages")
_STATS, _SPEC, _STAGES = 0, 1, 2
_CODES = {"stats": _STATS, "spec": _SPEC, "speculative": _SPEC, "stages": _STAGES}


@dataclass(frozen=True)
class ReadTo:
    """How far the log was read when records are paired."""

    end: int
    """Byte behind the last whole line."""
    last: int
    """Instant of the last record."""
    more: bool
    """Whether more of the log is at hand and follows."""
    settled: bool
    """Whether the log has stopped growing."""
    speculative: bool | None
    """What the start-up record says."""


class StatsPairing:
    """Pairs stats and spec records block by block; ``state`` holds the records whose partner may still come."""

    def __init__(self, note: Callable[[str], None], state: Mapping[str, Any]) -> None:
        self._note = note
        self._held = [group_from_json(kept) for kept in state.get("held", ())]
        self._speaking = set(state.get("speaking", ()))
        self._silent = set(state.get("silent", ()))
        """Processes that have printed a spec record, and those that have printed a stats record without one."""

    @property
    def state(self) -> dict[str, Any]:
        return {
            "held": [group_as_json(group) for group in self._held],
            "speaking": sorted(self._speaking),
            "silent": sorted(self._silent),
        }

    def pair(
        self, groups: Sequence[Group], draft_limits: Callable[[Integers], Integers], upto: ReadTo
    ) -> tuple[pl.DataFrame, int] | None:
        """The rows of all records whose partner is known, and how many records they came from.

        ``draft_limits`` gives K at byte offsets, MISSING where it is not known.
        """
        everything = [group for group in (*self._held, *groups) if len(group)]
        records = Records(everything)
        if not len(records):
            return None
        kinds = records.constants([_CODES[group.form.kind] for group in everything])
        kind = np.array(kinds[1])[kinds[0]]
        partner, held = self._partners(records, kind, upto)
        self._held = [group.take(rows) for group, rows in records.positions(held) if len(rows)]
        specs = np.flatnonzero((kind == _SPEC) & ~held)
        spec_of = np.full(len(records), MISSING)
        spec_of[partner[specs][partner[specs] != MISSING]] = specs[partner[specs] != MISSING]
        alone = specs[partner[specs] == MISSING]
        spec_of[alone] = alone
        if len(alone):
            self._note(UNATTRIBUTED_NOTE)
        rows = np.flatnonzero(~held & ((kind != _SPEC) | (partner == MISSING)))
        if not len(rows):
            return None
        return _frame(records, kind, rows, spec_of[rows], draft_limits), int((~held).sum())

    def _partners(self, records: Records, kind: Integers, upto: ReadTo) -> tuple[Integers, Booleans]:
        """The stats record of each spec record, and which records wait for a partner."""
        processes, names = records.processes()
        times, offsets, engines = records.instants(), records.offsets, records.integers("engine")
        partner = np.full(len(records), MISSING)
        held = np.zeros(len(records), dtype=np.bool_)
        for code, name in enumerate(names):
            own = np.flatnonzero((processes == code) & (kind != _STAGES))
            if not len(own):
                continue
            is_spec = kind[own] == _SPEC
            following = np.flatnonzero(is_spec[1:]) + 1
            if is_spec[following - 1].any():
                partner[own] = _in_order(own, is_spec, times[own])
            else:
                near = np.abs(times[own[following]] - times[own[following - 1]]) <= NEAR
                partner[own[following[near]]] = own[following[near] - 1]
            tail = own[_open_tail(is_spec, times[own], engines[own]) :]
            waits = len(tail) > 0 and self._may_wait(name or "", offsets[tail], times[tail], upto)
            if waits:
                held[tail] = True
                partner[tail] = MISSING
            self._remember(name or "", is_spec, waits, len(tail))
        return partner, held

    def _may_wait(self, process: str, offsets: Integers, times: Integers, upto: ReadTo) -> bool:
        """Whether a spec record may still come for the stats records at the end of a process's records."""
        if upto.settled and not upto.more:
            return False
        if upto.end - offsets[-1] > CLOSE or upto.last - times[-1] > NEAR:
            return False
        if upto.more or process in self._speaking or upto.speculative:
            return True
        return upto.speculative is None and process not in self._silent

    def _remember(self, process: str, is_spec: Booleans, waits: bool, tail: int) -> None:
        if is_spec.any():
            self._speaking.add(process)
        elif len(is_spec) > (tail if waits else 0):
            self._silent.add(process)


def _open_tail(is_spec: Booleans, times: Integers, engines: Integers) -> int:
    """Where the last stats records start, one an engine, that have fewer spec records behind them than they are."""
    position = len(is_spec)
    specs = 0
    while position and is_spec[position - 1]:
        position -= 1
        specs += 1
    start = position
    seen: set[int] = set()
    while start and not is_spec[start - 1] and (start == position or times[start] - times[start - 1] <= NEAR):
        engine = int(engines[start - 1])
        if engine in seen:
            break
        seen.add(engine)
        start -= 1
    return start if position - start > specs else len(is_spec)


def _in_order(own: Integers, is_spec: Booleans, times: Integers) -> Integers:
    """Partners where spec records follow each other: as many as there are stats records before them, in order."""
    partner = np.full(len(own), MISSING)
    stats: list[int] = []
    specs: list[int] = []

    def close() -> None:
        if len(specs) == len(stats):
            partner[specs] = own[stats]
        elif len(specs) == 1 and stats:
            partner[specs[0]] = own[stats[-1]]
        stats.clear()
        specs.clear()

    for position, spec in enumerate(is_spec.tolist()):
        near = bool(stats) and abs(times[position] - times[stats[-1]]) <= NEAR
        if spec and near:
            specs.append(position)
            if len(specs) == len(stats):
                close()
        elif spec:
            close()
        else:
            if specs or not near:
                close()
            stats.append(position)
    close()
    return partner


def _frame(
    records: Records, kind: Integers, rows: Integers, specs: Integers, draft_limits: Callable[[Integers], Integers]
) -> pl.DataFrame:
    columns = Columns()
    process = records.processes()
    has_stats = kind[rows] == _STATS
    engine, engines = records.integers("engine")[rows], records.integers("engines")[rows]
    one_engine = (has_stats & (engines == MISSING)) | (kind[rows] == _STAGES)
    columns.whole("byte_offset", np.maximum(records.offsets[rows], MISSING))
    columns.moment("logged_at", records.instants()[rows])
    columns.whole("engine", np.where((engine == MISSING) & one_engine, 0, engine), pl.Int32)
    columns.whole("engines", engines, pl.Int32)
    columns.text("process", process[0][rows], process[1])
    for name in ("prompt_tps", "generation_tps", "running", "waiting"):
        columns.real(name, records.floats(name)[rows])
    for name in ("kv_usage", "prefix_hit_rate"):
        columns.real(name, records.floats(name, percent=True)[rows])
    columns.whole("preemptions", np.where(has_stats, records.integers("preemptions")[rows], MISSING))
    for name in ("proposal_ms", "scoring_ms", "verification_ms"):
        columns.real(name, records.floats(name)[rows])
    _spec_columns(columns, records, specs, draft_limits)
    return columns.frame()


def _spec_columns(
    columns: Columns, records: Records, specs: Integers, draft_limits: Callable[[Integers], Integers]
) -> None:
    """The columns of spec records; ``specs`` has MISSING for a row without one."""
    there = specs != MISSING
    at = specs[there]

    def spread(values: Integers, missing: int = MISSING) -> Integers:
        result = np.full(len(specs), missing)
        result[there] = values
        return result

    def spread_real(values: Floats) -> Floats:
        result = np.full((len(specs), *values.shape[1:]), np.nan)
        result[there] = values
        return result

    accepted, drafted = records.integers("accepted")[at], records.integers("drafted")[at]
    printed_limit = records.integers("draft_limit")[at]
    old = printed_limit != MISSING
    limit = np.where(old, printed_limit, draft_limits(records.offsets[at]))
    length = records.integers("printed_length")[at]
    rates = _rates(records, at)
    wording = _wordings(records, at, old, length, rates)
    figures = SpecFigures(accepted, drafted, length, wording != WORDINGS.index("0.8.5"), rates, limit)
    rounds = _rounds_of_totals(drafted, limit, old, recover_rounds(figures))
    rate = records.floats("drafted_tps")[at]
    window = np.divide(drafted, rate, out=np.full(len(at), np.nan), where=(rate > 0) & (drafted > 0))
    columns.real("spec_window_s", spread_real(window))
    columns.whole("rounds", spread(rounds.best))
    columns.whole("rounds_min", spread(rounds.least))
    columns.whole("rounds_max", spread(rounds.most))
    columns.whole("drafted", spread(drafted))
    columns.whole("accepted", spread(accepted))
    columns.whole("emitted", spread(records.integers("emitted")[at]))
    columns.list("survival", spread_real(np.where(rates != MISSING, rates / 1000, np.nan)))
    columns.real("printed_length", spread_real(np.where(length != MISSING, length / 100, np.nan)))
    columns.whole("draft_limit", spread(limit), pl.Int32)
    columns.text("wording", spread(wording, 0), WORDINGS)
    columns.flag("cumulative", spread(1 + old, 0), (None, False, True))


def _wordings(records: Records, at: Integers, old: Booleans, length: Integers, rates: Integers) -> Integers:
    """Which of WORDINGS each spec record has."""
    codes, words = records.marks("wording")
    wording = np.array([WORDINGS.index(word) for word in words], dtype=np.int64)[codes[at]]
    # 0.8.5 printed the words of 0.9 with a length that leaves the bonus token out; nan does not tell them apart.
    later = wording == WORDINGS.index("0.9")
    summed = np.where(rates != MISSING, rates, 0).sum(axis=1) / 10
    without_bonus = np.abs(length - summed) < np.abs(length - 100 - summed)
    wording[later & without_bonus] = WORDINGS.index("0.8.5")
    wording[later & (length == MISSING)] = WORDINGS.index(None)
    wording[old] = WORDINGS.index("V0")
    return wording


def _rates(records: Records, at: Integers) -> Integers:
    """Rates by position in thousandths, one row a spec record."""
    count = max((int(number) for number in records.marks("positions")[1] if number), default=0)
    columns = [records.integers(f"position_{number}")[at] for number in range(1, count + 1)]
    return np.stack(columns, axis=1) if columns else np.empty((len(at), 0), dtype=np.int64)


def _rounds_of_totals(drafted: Integers, limit: Integers, old: Booleans, rounds: Rounds) -> Rounds:
    """The old engine prints totals and K, and always drafts K tokens."""
    divisor = np.maximum(limit, 1)
    return Rounds(
        np.where(old, np.rint(drafted / divisor).astype(np.int64), rounds.best),
        np.where(old, drafted // divisor, rounds.least),
        np.where(old, -(-drafted // divisor), rounds.most),
    )
