"""What to do about a report, in words: the advice of its findings, other draft lengths, or more data."""

from __future__ import annotations

import json
from collections.abc import Sequence

from .benefit import decided_bands
from .format import figure, in_sentence, listed, percent, span
from .groups import remedies
from .model import Report, Schedule
from .selection import NOTHING
from .wording import MOST_MEASURES, grid_only

MOVED_BY_LENGTH = frozenset(
    {"tpot_ms", "request_tpot_ms_p95", "request_tpot_ms_p99", "e2e_ms_p95", "output_tps", "gpu_s_per_1k_tokens"}
)
"""Measures that another draft length answers for: what a step takes against what it returns."""


def next_step(report: Report) -> str | None:
    """What to do now: the first advice, else what the verdict itself asks for; None where nothing is to be done."""
    if grid_only(report):
        return "Name a baseline and a candidate too, to have gates judged."
    advised = next(iter(remedies(report.advice)), None)
    if advised is not None and report.verdict in {"fail", "warn", "inconclusive"}:
        return f"{advised.where}{advised.advice.action}"
    unexplained = "No cause of this stands out in the data: compare the loads and measures below."
    other = _other_lengths(report)
    if other is not None and report.verdict not in {"no_data", "not_comparable"}:
        bad = {gate.measure for gate in report.gates if gate.verdict in {"fail", "warn"}}
        return other if bad <= MOVED_BY_LENGTH else f"{unexplained} {other}"
    if report.baseline.where == NOTHING and report.verdict != "fail":
        return "Nothing is to be done: the nights that follow are held against this one."
    return {
        "fail": unexplained,
        "warn": unexplained,
        "inconclusive": _more_data(report),
        "not_comparable": "Choose nights with the same kind of traffic, at the same loads.",
        "no_data": "Check the two predicates, and with `specledger check` whether these nights were ingested.",
    }.get(report.verdict)


def _other_lengths(report: Report) -> str | None:
    """Other draft lengths, where a schedule would surely have saved or speculation surely costs."""
    sure = [
        found
        for found in report.schedules
        if found.saved_interval is not None and found.saved_interval[0] > 0 and found.ranges != found.in_force
    ]
    if len(sure) == 1:
        lengths = f"num_speculative_tokens_per_batch_size {ranges(sure[0].ranges)}"
        return f"Run {sure[0].deployment} with {lengths}: {_saved(sure[0])}."
    costs = [band.load_band for band in decided_bands(report, "costs")]
    if not costs:
        return None
    return (
        f"Draft less, or not at all, at load {listed(costs)}, where speculation costs; `specledger recommend` names a "
        "length for every load."
    )


def schedule(recommended: Schedule) -> str:
    """What draft lengths are recommended for a deployment, and what they would have saved."""
    if not recommended.ranges:
        return f"No load of {recommended.deployment} has evidence: nothing is recommended."
    if not compared(recommended):
        ran = [f"K = {length}" for length in sorted({band.length for band in recommended.bands})]
        beside = "neither another length nor ordinary decoding is known beside it"
        known = f"only {ran[0]} has evidence, and {beside}" if len(ran) == 1 else "no load has evidence of two lengths"
        return f"Nothing can be recommended for {recommended.deployment}: {known}."
    if recommended.ranges == recommended.in_force:
        return f"{recommended.deployment} runs the schedule that is recommended: {ranges(recommended.ranges)}."
    instead = f" in place of {ranges(recommended.in_force)}" if recommended.in_force else ""
    sentence = f"Recommended for {recommended.deployment}: {ranges(recommended.ranges)}{instead}"
    saved = _saved(recommended)
    return f"{sentence}; {saved}." if saved else f"{sentence}."


def compared(recommended: Schedule) -> bool:
    """Whether a load has two lengths with evidence, ordinary decoding included."""
    return any(len(band.lengths) > 1 for band in recommended.bands)


def _saved(recommended: Schedule) -> str:
    """What a schedule would have saved, as a part of a sentence; empty where that is not known."""
    if recommended.saved is None or recommended.saved_interval is None or not recommended.spent:
        return ""
    low, high = (bound / recommended.spent for bound in recommended.saved_interval)
    share = f"{percent(recommended.saved / recommended.spent)} ({span(percent(low), percent(high), high)})"
    of = f"{share} of {figure(recommended.spent, recommended.saved_unit)}"
    if low > 0:
        return f"over these nights it would have saved {of}"
    return f"whether it saves is undecided: {of}. Where lengths tie within the error, the shorter one is named"


def ranges(given: Sequence[Sequence[int]]) -> str:
    """A schedule as vLLM takes it: [[from, to, length], …]."""
    return json.dumps([list(part) for part in given])


def _more_data(report: Report) -> str:
    """What would decide: the largest changes that this much data could have shown."""
    open_ = [gate for gate in report.gates if gate.verdict == "inconclusive" and gate.stratum is None]
    known = [gate for gate in open_ if gate.detectable and gate.kind == "relative" and gate.reason_code != "few_units"]
    if not known:
        return "Judge again with more nights: there is too little data for intervals."
    told = [f"{percent(gate.detectable)} in {in_sentence(gate.measure)}" for gate in known[:MOST_MEASURES]]
    return f"Judge again with more nights: this much data would have shown no change below {listed(told)}."
