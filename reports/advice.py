"""What to try: the largest term of the split, and the causes that the data support; never one that they do not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .findings import ContextChange
from .format import listed, number, percent, plural, span
from .history import History
from .model import (
    Advice,
    BandFigures,
    Change,
    GateResult,
    PositionFigures,
    ReconciliationRow,
    SideName,
    SplitRow,
)
from .stalls import stalled

WORTH_NAMING = 0.01
"""A term of Δ ln TPOT below this explains nothing that a gate would judge."""
PROPORTIONAL = 0.05
"""Conditional acceptances that fell by amounts this close together fell alike."""
DEAD_FIRST = 0.30
"""Fall of the first position's survival, relative, from which the drafter itself is in question."""
ROOM = (
    "The KV cache is too small for this load with its candidates: lower max_num_seqs or the draft length, or give the "
    "cache more memory."
)
BAD = frozenset({"fail", "warn", "inconclusive", "acknowledged"})
TPOT_FAMILY = (
    "tpot_ms",
    "e2e_ms_p95",
    "request_tpot_ms_p95",
    "request_tpot_ms_p99",
    "output_tps",
    "gpu_s_per_1k_tokens",
)
EXPLAINS = {
    "acceptance": (*TPOT_FAMILY, "acceptance_length", "effective_length"),
    "coverage": (*TPOT_FAMILY, "effective_length", "coverage"),
    "truncation": (*TPOT_FAMILY, "effective_length"),
    "round_time": (*TPOT_FAMILY, "round_time_ms", "itl_ms_p99", "itl_ms_p95", "itl_over"),
    "mix": (),
}
"""Measures that each term of the split moves."""
OWN = {"acceptance": "acceptance_length", "coverage": "coverage", "round_time": "round_time_ms"}
"""The measure that is the term itself."""


@dataclass(frozen=True)
class Clues:
    """What the causes are looked for in."""

    results: Sequence[GateResult]
    split: Sequence[SplitRow]
    bands: Sequence[BandFigures]
    positions: Sequence[PositionFigures]
    reconciliation: Sequence[ReconciliationRow]
    changes: Sequence[Change]
    histories: Sequence[History] = ()
    contexts: Sequence[ContextChange] = ()
    """Acceptance length by context band, shortest first."""

    def bad(self, *measures: str) -> list[GateResult]:
        """Failures and warnings of these measures, overall or at a band."""
        return [r for r in self.results if r.verdict in {"fail", "warn", "acknowledged"} and r.measure in measures]

    def speculates(self, side: SideName) -> bool:
        """Whether a side ran any rounds."""
        return any(band.rounds for band in self.bands if band.side == side)


def advise(clues: Clues) -> tuple[Advice, ...]:
    """All advice for a report, the most general first."""
    found = [
        *_dead(clues),
        *_implausible(clues),
        *_metrics(clues),
        *_terms(clues),
        *_preemption(clues),
        *_prefill(clues),
        *_drifts(clues),
    ]
    return tuple(found)


def attach(results: Sequence[GateResult], advice: Sequence[Advice]) -> list[GateResult]:
    """The results, each that did not pass with the actions of the advice about its measure and place."""
    return [
        replace(
            result,
            advice=tuple(
                dict.fromkeys(
                    item.action
                    for item in advice
                    if result.measure in item.measures and item.stratum in {None, result.stratum}
                )
            ),
        )
        if result.verdict in BAD
        else result
        for result in results
    ]


def _dead(clues: Clues) -> list[Advice]:
    return [
        Advice(
            "drafter_dead",
            "The drafter proposes tokens that the target never accepts.",
            result.reason,
            "Check that drafter and target belong together (checkpoint, tokenizer, quantization)"
            f"{_named_changes(clues.changes, 'draft', 'target')}; until then switch speculation off: rounds only cost.",
            None,
            ("acceptance_length", "effective_length", "tpot_ms"),
        )
        for result in clues.results
        if result.reason_code == "dead"
    ]


def _implausible(clues: Clues) -> list[Advice]:
    return [
        Advice(
            "implausible",
            "Acceptance is better than this drafter can be on ordinary text.",
            result.reason,
            "Look at outputs for repetition (ingest with --hash-text tells distinct 4-grams) and at the load generator "
            "before booking a gain.",
            None,
            ("acceptance_length",),
        )
        for result in clues.results
        if result.reason_code == "implausible"
    ]


def _metrics(clues: Clues) -> list[Advice]:
    broken = _broken_positions(clues)
    if not broken:
        return []
    row = broken[0]
    return [
        Advice(
            "metrics",
            "The counters by position do not add up to the accepted tokens: a fault of the metrics, not of the model.",
            f"{row.deployment} on {row.date}: expected {row.expected:,.0f}, found {row.found:,.0f}."
            if row.expected is not None and row.found is not None
            else f"{row.deployment} on {row.date}.",
            "Scrape every engine of the data-parallel group, or compare acceptance without positions.",
            None,
            ("identities",),
        )
    ]


def _broken_positions(clues: Clues) -> list[ReconciliationRow]:
    return [row for row in clues.reconciliation if row.verdict == "fail" and row.check_name == "positions_add_up"]


def _terms(clues: Clues) -> list[Advice]:
    """The terms of the split that explain failures, overall and at each band: the largest one, and any with its own."""
    found: list[Advice] = []
    for row in clues.split:
        for term, measures in EXPLAINS.items():
            size = getattr(row, term)
            failing = [result for result in clues.bad(*measures) if result.stratum == row.stratum]
            own = any(result.measure == OWN.get(term) for result in failing)
            leading = term == row.largest and row.d_ln_tpot >= WORTH_NAMING and (failing or term == "mix")
            if size < WORTH_NAMING or not (own or leading) or (term == "mix" and row.stratum is not None):
                continue
            finding = (
                f"TPOT changed by {_signed(math.expm1(row.d_ln_tpot))}; "
                f"{term.replace('_', ' ')} alone made it {_signed(math.expm1(size))}."
            )
            evidence, action = _CAUSES[term](clues, row)
            if any(item.action == action and item.stratum is None for item in found):
                continue  # said for all loads already
            found.append(Advice(term, finding, evidence, action, row.stratum, measures))
    if not clues.split and clues.bad("acceptance_length"):
        evidence, action = _acceptance_cause(clues, None)
        finding = "Acceptance length fell; decode times are not known, so its share of TPOT is not either."
        found.append(Advice("acceptance", finding, evidence, action, None, EXPLAINS["acceptance"]))
    return found


def _signed(change: float) -> str:
    return percent(change, signed=True)


def _acceptance_cause(clues: Clues, row: SplitRow | None) -> tuple[str, str]:
    named = _named_changes(clues.changes, "draft", "target")
    lost = _long_contexts(clues.contexts)
    if lost:
        evidence = "; ".join(
            f"{context.label} tokens: {_signed(context.change)} "
            f"({span(_signed(context.interval[0]), _signed(context.interval[1]), context.interval[1])})"
            for context in clues.contexts
        )
        return (
            f"Acceptance length by prompt and output so far: {evidence}.",
            f"Only long contexts ({lost} tokens) lost acceptance: check the length up to which the drafter was trained "
            f"or is allowed to see{named}.",
        )
    before, after = _band_pair(clues.bands, row)
    if before and after and before.mean_draft_length and after.mean_draft_length:
        lengths = before.mean_draft_length, after.mean_draft_length
        if lengths[1] < (1 - PROPORTIONAL) * lengths[0]:
            return (
                f"Mean draft length went from {lengths[0]:.2f} to {lengths[1]:.2f}.",
                f"Drafts got shorter, so fewer tokens could be accepted: judge by TPOT at each load{named}.",
            )
    falls = [] if _broken_positions(clues) else _falls(clues.positions)
    if not falls:
        return "Positions are not known on both sides.", f"Compare the drafter with the last good start{named}."
    evidence = "Survival by position changed by " + listed([_signed(fall) for fall in falls]) + "."
    if falls[0] <= -DEAD_FIRST:
        return evidence, f"The first position fell: check that the drafter fits this checkpoint or quantization{named}."
    if len(falls) > 1 and falls[0] > -PROPORTIONAL and falls[-1] < falls[0] - PROPORTIONAL:
        return evidence, f"Only later positions fell: a shorter draft loses little{named}."
    what = "Every position fell" if max(falls) < 0 else "Acceptance fell, and no position alone tells why"
    return evidence, f"{what}: compare draft checkpoint and quantization with the last good start{named}."


def _long_contexts(contexts: Sequence[ContextChange]) -> str | None:
    """The shortest context band that surely lost what no shorter one can have lost; None unless both are known."""
    kept = [place for place, context in enumerate(contexts) if context.kept]
    lost = [place for place, context in enumerate(contexts) if context.lost]
    return contexts[lost[0]].label if kept and lost and max(kept) < min(lost) else None


def _coverage_cause(clues: Clues, row: SplitRow) -> tuple[str, str]:
    known = _on_both_sides(clues, row, "coverage")
    evidence = _untold(clues, row, "coverage")
    if known is not None:
        evidence = f"Coverage went from {percent(known.before)} to {percent(known.after)} of the steps{known.source}."
    if clues.speculates("baseline") and not clues.speculates("candidate"):
        return evidence, "Speculation is off in the candidate: switch it on again where it paid."
    return (
        evidence,
        (
            "Look for steps without a draft: a schedule that switches drafts off, n-gram lookups without a match, "
            "structured output that voids drafts, resumes after preemption."
        ),
    )


def _truncation_cause(clues: Clues, row: SplitRow) -> tuple[str, str]:
    return (
        "More accepted tokens fell behind the end of outputs.",
        "Shorter outputs or lower caps cut inside a round: a shorter draft costs less there.",
    )


def _round_time_cause(clues: Clues, row: SplitRow) -> tuple[str, str]:
    before, after = _band_pair(clues.bands, row)
    known = _on_both_sides(clues, row, "round_time_ms")
    if after is not None and stalled(after) and not (before is not None and stalled(before)):
        return (
            f"{plural(after.preemptions or 0, 'preemption')} stood between the steps of the candidate: the time of a "
            "step holds their stalls.",
            f"{ROOM} Then judge the round time again.",
        )
    if clues.speculates("candidate") and not clues.speculates("baseline"):
        length = _on_both_sides(clues, row, "effective_length")
        returned = after.effective_length if after is not None and after.effective_length else length and length.after
        evidence = _untold(clues, row, "what a round takes beside an ordinary step")
        if known is not None and returned is not None:
            evidence = (
                f"A round takes as long as {known.after / known.before:.2f} ordinary steps and returns "
                f"{returned:.2f} tokens{known.source}."
            )
        return (
            evidence,
            "Speculation does not pay at this load: switch it off there, or price shorter drafts with "
            "`specledger recommend`.",
        )
    evidence = _untold(clues, row, "round time")
    if known is not None:
        drafts, ordinary = (_on_both_sides(clues, row, name) for name in ("mean_draft_length", "t0_ms"))
        evidence = f"Round time went from {known.before:.2f} to {known.after:.2f} ms{known.source}"
        if drafts:
            evidence += f", draft length from {drafts.before:.2f} to {drafts.after:.2f}"
        if ordinary:
            evidence += f", ordinary decode from {ordinary.before:.2f} to {ordinary.after:.2f} ms"
        evidence += "."
        if drafts and drafts.after > drafts.before:
            return evidence, "Drafts got longer: price the lengths with `specledger recommend`."
        if ordinary and ordinary.after / ordinary.before > 1 + WORTH_NAMING:
            return (
                evidence,
                "Ordinary decode became slower too: look at the server and its hardware, not at the drafter.",
            )
    named = _named_changes(clues.changes, "draft", "server", "hardware")
    return evidence, (
        "Acceptance did not cause this: check graph sizes, unless it runs eagerly, against running x (K + 1), draft "
        f"and verify cost{named}."
    )


def _mix_cause(clues: Clues, row: SplitRow) -> tuple[str, str]:
    return (
        "Within strata there was less change than in total.",
        "The traffic changed, not the deployment: compare the load mix and the tasks before touching the drafter.",
    )


_CAUSES = {
    "acceptance": _acceptance_cause,
    "coverage": _coverage_cause,
    "truncation": _truncation_cause,
    "round_time": _round_time_cause,
    "mix": _mix_cause,
}


def _falls(positions: Sequence[PositionFigures]) -> list[float]:
    """Relative change of survival, position by position, where both sides have it."""
    before = {p.position: p.survival for p in positions if p.side == "baseline"}
    after = {p.position: p.survival for p in positions if p.side == "candidate"}
    return [after[i] / before[i] - 1 for i in sorted(before) if i in after and before[i] > 0]


def _band_pair(bands: Sequence[BandFigures], row: SplitRow | None) -> tuple[BandFigures | None, BandFigures | None]:
    label = "all" if row is None or row.stratum is None else row.stratum.load_band
    return (
        next((band for band in bands if band.side == "baseline" and band.load_band == label), None),
        next((band for band in bands if band.side == "candidate" and band.load_band == label), None),
    )


@dataclass(frozen=True)
class _Known:
    """A measure on both sides at one place, and where it is from, as part of a sentence: empty where that is plain."""

    before: float
    after: float
    source: str


def _on_both_sides(clues: Clues, row: SplitRow, measure: str) -> _Known | None:
    """A measure of both sides at the place of a row: of the figures by load, else as a gate found it elsewhere."""
    before, after = (getattr(band, measure, None) for band in _band_pair(clues.bands, row))
    if before and after is not None:
        return _Known(before, after, "")
    for result in clues.results:
        if result.measure == measure and result.stratum == row.stratum and result.baseline and result.candidate:
            return _Known(result.baseline, result.candidate, f" (from {result.origin}, at the baseline's mix)")
    return None


def _untold(clues: Clues, row: SplitRow, what: str) -> str:
    """That the figures by load do not tell what the split tells, with the origins of the two."""
    origins = {band.origin for band in _band_pair(clues.bands, row) if band is not None} - {row.origin}
    if not origins:
        return f"{what.capitalize()} is not known by itself; the split is from {row.origin}."
    return (
        f"The split is from {row.origin}; the figures of each load are from {listed(sorted(origins))}, which do not "
        f"tell {what} on both sides."
    )


def _named_changes(changes: Sequence[Change], *kinds: str) -> str:
    named = [f"{c.what} went from {c.baseline} to {c.candidate}" for c in changes if c.kind in kinds]
    return f" ({'; '.join(named)})" if named else ""


def _preemption(clues: Clues) -> list[Advice]:
    return [
        Advice(
            "preemption",
            "More requests were preempted and computed again.",
            f"{number(result.baseline or 0.0)} to {number(result.candidate or 0.0)} per 1,000 requests, at the "
            "baseline's mix of loads.",
            ROOM,
            result.stratum,
            ("per_1k_requests",),
        )
        for result in clues.bad("per_1k_requests")
    ]


def _prefill(clues: Clues) -> list[Advice]:
    """Pauses that grew although the round time did not: prefill work of other requests stands between the rounds."""
    pauses = clues.bad("longest_pause_ms", "itl_ms_p99", "itl_over")
    steady = any(r.measure == "round_time_ms" and r.stratum is None and r.verdict == "pass" for r in clues.results)
    if not pauses or not steady or clues.bad("round_time_ms"):
        return []
    return [
        Advice(
            "prefill",
            "Long gaps grew while the round time held.",
            "; ".join(
                f"{r.measure}: {r.baseline:,.1f} to {r.candidate:,.1f}"
                for r in pauses[:3]
                if r.baseline and r.candidate
            ),
            "Prefill of other requests may stand between the rounds: lower max_num_batched_tokens, and look at the "
            "prefill share of the iterations.",
            None,
            ("longest_pause_ms", "itl_ms_p99", "itl_over"),
        )
    ]


def _drifts(clues: Clues) -> list[Advice]:
    return [
        Advice(
            "drift",
            f"Acceptance of {history.deployment} moves with the age of the process.",
            f"{_signed(drift.per_day)} a day over {drift.hours} hours, "
            f"{_signed(drift.over_life)} over the longest life.",
            "Look for what accumulates in the process (cache, adapters, shifting prompts); a restart would show it.",
            None,
            ("acceptance_length", "effective_length", "tpot_ms"),
        )
        for history in clues.histories
        if (drift := history.drift) is not None
    ]
