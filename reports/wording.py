"""A report in words: the sentence at its top and the few that follow, made from verdicts and figures alone.

A direction is claimed only where a gate has judged it or an interval lies wholly on one side; otherwise the sentence
gives figures and leaves the judgement out.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from .benefit import benefit, boundary
from .format import (
    change,
    factor,
    figure,
    in_sentence,
    in_text,
    interval,
    listed,
    number,
    percent,
    plural,
    tolerance,
    verdict_counts,
    verdict_label,
)
from .model import Effect, GateResult, LoadRange, Report, SplitRow, Verdict
from .terms import effect, switched, terms

MOST_MEASURES = 3
"""Measures that the headline names; the others are counted."""
NOTABLE = 0.02
"""A relative change below this is not worth a sentence."""
TOLD_OF_TRAFFIC = ("acceptance_length", "tpot_ms")
"""Measures that a change of traffic is told by; others only where it moved neither of these."""
MOST_SHIFTED = 2
DIVISIBLE = 0.05
"""A step's time over its tokens may differ from TPOT by so much and still be told as what makes it."""
MOVED = 0.1
"""Share of the tokens from which their move to a load is told."""
LEAST_TERM = 0.0005
"""A term of Δ ln TPOT below this is nothing, to the digits that are told."""


def headline(report: Report) -> str:
    """One sentence: where speculation pays, if the sides differ by it, then the verdict and what it rests on.

    Only the gains where only those were asked for.
    """
    gains = grid(report) if grid_only(report) else None
    if gains is not None:
        return gains
    opening = {
        "fail": lambda: f"Failed: {_measures(report, 'fail')}.",
        "warn": lambda: f"No gate failed, but there is a warning: {_measures(report, 'warn')}.",
        "inconclusive": lambda: _inconclusive(report),
        "acknowledged": lambda: f"Only regressions that were accepted before: {_measures(report, 'acknowledged')}.",
        "pass": lambda: _passed(report),
        "no_data": lambda: f"Nothing to judge: {_reason(report, 'there is no data to compare')}.",
        "not_comparable": lambda: f"Not comparable: {_reason(report, 'the two sides have too little in common')}.",
    }
    dead = any(gate.verdict == "fail" and _goes_first(gate) for gate in report.gates)
    said, lead = opening[report.verdict](), "" if dead else boundary(report)
    return f"{lead}; {in_text(said)}" if lead else said


def findings(report: Report) -> tuple[str, ...]:
    """Further sentences, each on its own; those without data are left out."""
    told = (benefit,) if grid_only(report) else (switch, benefit, loads, pressure, mix, split, grid)
    return tuple(sentence for tell in told if (sentence := tell(report)))


def grid_only(report: Report) -> bool:
    """Whether four deployments were looked at and no comparison was asked for."""
    return report.grid is not None and not report.gates


def verdict(report: Report) -> str:
    """The verdict in words."""
    return "not judged" if grid_only(report) else verdict_label(report.verdict)


def pressure(report: Report) -> str | None:
    """Preemptions that rose by more than is allowed, whether or not there are enough data to judge them by."""
    overall = {gate.measure: gate for gate in report.gates if gate.stratum is None}
    gate, cache = overall.get("per_1k_requests"), overall.get("kv_usage_max")
    if gate is None or gate.verdict == "pass" or not gate.evidence_baseline or not gate.evidence_candidate:
        return None
    before, after = gate.evidence_baseline.figure, gate.evidence_candidate.figure
    if before is None or after is None or after - before <= (gate.tolerance or 0.0):
        return None
    judged = (gate.baseline, gate.candidate)
    told = f"{number(before)} to {number(after)}"
    like = f"{number(judged[0])} to {number(judged[1])}"
    weighed = "" if None in judged or like == told else f" ({like} at the baseline's mix of loads, as the gate judges)"
    share = None if cache is None else cache.candidate
    full = "" if share is None else f"; the KV cache was {percent(share)} full at most"
    return f"Preemptions went from {told} per 1,000 requests in all traffic{weighed}{full}."


def loads(report: Report) -> str | None:
    """Loads at which the sides were compared though they ran at other ones inside the band; None without any."""
    if not report.load_gaps:
        return None
    told = [
        f"{gap.load_band} (on average {_ran(gap.baseline)} in the baseline and {_ran(gap.candidate)} in the candidate)"
        for gap in report.load_gaps
    ]
    return f"Inside load {listed(told)} the sides ran at other loads: there only the band is alike, not the load."


def _ran(loads: LoadRange) -> str:
    mean = number(loads.mean, 3)
    return mean if loads.low == loads.high else f"{mean}, from {loads.low} to {loads.high},"


def _like(report: Report) -> str:
    """Within what the sides were compared."""
    return "within the same load bands" if report.load_gaps else "within like traffic"


def mix(report: Report) -> str | None:
    """What a change of traffic did to the measures that it moved most; None where it moved none notably."""
    shifted = _shifted(report)
    if not shifted or report.verdict == "pass":
        return None  # a report without failures says it in its first sentence
    return f"The traffic changed: {_traffic(report, shifted)}."


def switch(report: Report) -> str | None:
    """What it did to a step that speculation was switched on or off; None where it was not."""
    way, found = switched(report), {effect.measure: effect.within for effect in report.effects}
    if way is None:
        return None
    opening = f"Speculation is {way} in the candidate and {'off' if way == 'on' else 'on'} in the baseline"
    if not {"round_time_ms", "effective_length"} <= set(found):
        return f"{opening}."
    step, tokens = 1 + found["round_time_ms"], 1 + found["effective_length"]
    whole = found.get("tpot_ms")
    if whole is not None and abs(step / tokens - 1 - whole) > DIVISIBLE:
        # Where the length changes with the load, ratios of means are no ratio of the times of tokens.
        return f"{opening}: {_like(report)} TPOT {percent(whole, signed=True)}."
    return f"{opening}: {_like(report)} a step takes {step:.2f}× as long and returns {tokens:.2f}× as many tokens."


def split(report: Report) -> str | None:
    """The change of TPOT and its terms, the largest first; None where it hardly changed, or a switch tells it."""
    overall = _overall(report)
    if overall is None or abs(overall.d_ln_tpot) < NOTABLE or switched(report) is not None:
        return None
    if overall.largest == "mix" and _shifted(report):
        return None  # told as a change of traffic
    found = sorted(terms(overall, switch=False), key=lambda term: -abs(term.value))
    told = [
        f"{in_text(term.label)}{'' if position else ' made tokens'} {percent(abs(math.expm1(term.value)))} "
        f"{'slower' if term.value > 0 else 'faster'}"
        for position, term in enumerate(found)
        if abs(term.value) >= LEAST_TERM
    ]
    return f"TPOT {effect(overall.d_ln_tpot, factors=False)} in all traffic: {listed(told)}."


def weighed_apart(report: Report) -> str | None:
    """Why split and effects name another share of the mix, where they do."""
    overall, effects = _overall(report), {effect.measure: effect for effect in report.effects}
    if overall is None or "tpot_ms" not in effects or abs(overall.mix - effects["tpot_ms"].mix) < NOTABLE:
        return None
    return (
        "The first table weighs loads by their decode time on both sides, the second by the baseline's tokens: where "
        "speed and mix changed at once, they give the mix another share of the same whole change. Gates judge what "
        f"happened {_like(report)}."
    )


def _goes_first(gate: GateResult) -> bool:
    """Whether a result is told before all others: one on correctness, unless it is no more than a caveat."""
    return gate.gate == "correctness" and not _caveat(gate)


def _caveat(gate: GateResult) -> bool:
    """Whether a result is told after all others: identities that do not hold, where nobody requires that they do."""
    return gate.measure == "identities" and not gate.required


def grid(report: Report) -> str | None:
    """What quantization and speculation gained alone and together."""
    if report.grid is None or report.grid.interaction is None:
        return None
    gains = [f"{cell.name} {figure(cell.gain, measure='gain')}" for cell in report.grid.cells]
    sentence = f"Against the original: {listed(gains)}; interaction {factor(report.grid.interaction, 3)}"
    bounds = report.grid.interaction_interval
    if bounds is not None:
        sentence += f" ({factor(bounds[0], 3)} to {factor(bounds[1], 3)})"
        if bounds[1] < 1:
            sentence += ", less than the product of the two"
        elif bounds[0] > 1:
            sentence += ", more than the product of the two"
    return f"{sentence}."


def _overall(report: Report) -> SplitRow | None:
    return next((row for row in report.split if row.stratum is None), None)


def _measures(report: Report, verdict: Verdict) -> str:
    judged = sorted(
        (gate for gate in report.gates if gate.verdict == verdict),
        key=lambda gate: (gate.gate != "correctness", gate.measure),
    )
    if not judged:
        return _reason(report, verdict_label(verdict))
    groups = [list(group) for _, group in itertools.groupby(judged, key=lambda gate: (gate.gate, gate.measure))]
    groups.sort(key=lambda group: (not _goes_first(group[0]), -max(abs(gate.change or 0) for gate in group)))
    caveats = [group for group in groups if _caveat(group[0])]
    groups = [group for group in groups if not _caveat(group[0])]
    told = groups[:MOST_MEASURES]
    places = {_places(group) for group in told}
    alike = len(told) > 1 and len(places) == 1 and all(_everywhere(group) for group in told)
    apart = {effect.measure for effect in report.effects if abs(effect.mix) >= NOTABLE}
    like = {measure: f" {_like(report)}" for measure in apart}
    sentences = [_group(group, places=not alike, like=like.get(group[0].measure, "")) for group in told]
    if len(groups) > MOST_MEASURES:
        sentences.append(plural(len(groups) - MOST_MEASURES, "more measure"))
    if alike and any(places):
        sentences[-1] += f"; each also at load {listed(next(iter(places)))}"
    return "; ".join([*sentences, *(_group(group, places=False, like="") for group in caveats)])


def _everywhere(gates: Sequence[GateResult]) -> bool:
    """Whether the results of one measure hold overall and have a change."""
    return any(gate.stratum is None and gate.change is not None and gate.kind != "limit" for gate in gates)


def _places(gates: Sequence[GateResult]) -> tuple[str, ...]:
    return tuple(gate.stratum.load_band for gate in gates if gate.stratum is not None)


def _group(gates: Sequence[GateResult], *, places: bool, like: str) -> str:
    """The results of one measure that share a verdict, with the loads where they hold too.

    ``like`` says within what the change was judged, where traffic moved the measure too.
    """
    overall = next((gate for gate in gates if gate.stratum is None), None)
    first = overall or gates[0]
    label = in_sentence(first.measure)
    if first.change is None or first.kind == "limit":
        reason = first.reason.rstrip(".")
        speaks = first.measure == "identities" or reason.lower().startswith(label.split()[0].lower())
        return in_text(reason) if speaks else f"{label}: {reason}"
    allowed = f" (allowed {tolerance(first)})" if first.tolerance is not None else ""
    if overall is not None:
        also = f", also at load {listed(_places(gates))}" if places and _places(gates) else ""
        return f"{label} {moved(overall)}{like}{allowed}{also}"
    told = [f"{gate.stratum.load_band} ({change(gate)})" for gate in gates if gate.stratum]
    return f"{label} at load {listed(told)}{f', allowed {tolerance(first)}' if allowed else ''}"


def moved(gate: GateResult) -> str:
    """The change of a gate as a verb and its size."""
    if not gate.change:
        return "did not change"
    return f"{'rose' if gate.change > 0 else 'fell'} by {change(gate).lstrip('+−')}"


def _inconclusive(report: Report) -> str:
    counts = verdict_counts(report.gates)
    judged = f"{counts.get('inconclusive', 0)} of {plural(len(report.gates), 'gate')}"
    warned = f" A warning: {_measures(report, 'warn')}." if counts.get("warn") else ""
    others = ((counts.get("not_comparable", 0), "cannot be compared"), (counts.get("no_data", 0), "without data"))
    rest = "".join(f"; {n} more {words}" for n, words in others if n)
    names = _names(report, "inconclusive")
    return f"Undecided: no gate failed, but the data cannot tell for {judged} ({names}){rest}.{warned}"


def _passed(report: Report) -> str:
    counts = verdict_counts(report.gates)
    passed, others = counts.get("pass", 0), len(report.gates) - counts.get("pass", 0)
    told = [f"{n} {verdict_label(verdict)}" for verdict, n in counts.items() if verdict != "pass"]
    rest = f" ({listed(told)})" if others else ""
    main = next(
        (gate for gate in report.gates if gate.measure == "tpot_ms" and gate.stratum is None and gate.interval), None
    )
    figures = f"; TPOT {change(main)} ({interval(main)})" if main is not None else ""
    shifted = _shifted(report)
    if shifted:
        figures = f"; the traffic changed: {_traffic(report, shifted)}"
    return f"No gate failed: {passed} of {plural(len(report.gates), 'gate')} passed{rest}{figures}."


def _shifted(report: Report) -> list[Effect]:
    """Measures that another mix of traffic moved notably and more than anything within like traffic did."""
    found = [effect for effect in report.effects if abs(effect.mix) >= NOTABLE and abs(effect.mix) > abs(effect.within)]
    named = [effect for effect in found if effect.measure in TOLD_OF_TRAFFIC] or found
    return sorted(named, key=lambda effect: -abs(effect.mix))[:MOST_SHIFTED]


def _traffic(report: Report, shifted: Sequence[Effect]) -> str:
    told = [
        f"{in_sentence(effect.measure)} {percent(effect.total, signed=True)} in all, "
        f"{percent(effect.within, signed=True)} {_like(report)}"
        for effect in shifted
    ]
    return "; ".join([*told, *_moved(report)])


def _moved(report: Report) -> list[str]:
    """The load to which most of the traffic moved, with its share of the tokens on both sides."""
    shares: dict[str, dict[str, float]] = {"baseline": {}, "candidate": {}}
    for band in report.bands:
        if band.load_band != "all" and band.token_share is not None:
            shares[band.side][band.load_band] = band.token_share
    before, after = shares["baseline"], shares["candidate"]
    grown = {load: share - before.get(load, 0.0) for load, share in after.items()}
    most = max(grown, key=lambda load: grown[load], default="")
    if not before or not most or grown[most] < MOVED:
        return []
    return [f"load {most} holds {percent(after[most])} of the tokens, before {percent(before.get(most, 0.0))}"]


def _names(report: Report, verdict: Verdict) -> str:
    names = dict.fromkeys(in_sentence(gate.measure) for gate in report.gates if gate.verdict == verdict)
    return listed(list(names), most=MOST_MEASURES) or _reason(report, "too few data")


def _reason(report: Report, otherwise: str) -> str:
    return in_text(report.reason.strip().rstrip(".")) or otherwise
