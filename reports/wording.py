"""A report in words: the sentence at its top and the few that follow, made from verdicts and figures alone.

A direction is claimed only where a gate has judged it or an interval lies wholly on one side; otherwise the sentence
gives figures and leaves the judgement out.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from typing import Literal

from .format import (
    change,
    figure,
    in_sentence,
    in_text,
    interval,
    listed,
    number,
    percent,
    plural,
    span,
    tolerance,
    verdict_counts,
    verdict_label,
)
from .groups import remedies
from .model import BandFigures, Effect, GateResult, Report, Schedule, SplitRow, Verdict
from .terms import effect, switched, terms

MOST_MEASURES = 3
"""Measures that the headline names; the others are counted."""
NOTABLE = 0.02
"""A relative change below this is not worth a sentence."""
TOLD_OF_TRAFFIC = ("acceptance_length", "tpot_ms")
"""Measures that a change of traffic is told by; others only where it moved neither of these."""
MOST_SHIFTED = 2
LEAST_TERM = 0.0005
"""A term of Δ ln TPOT below this is nothing, to the digits that are told."""


def headline(report: Report) -> str:
    """One sentence: the verdict, and what it rests on."""
    opening = {
        "fail": lambda: f"Failed: {_measures(report, 'fail')}.",
        "warn": lambda: f"No gate failed, but there is a warning: {_measures(report, 'warn')}.",
        "inconclusive": lambda: _inconclusive(report),
        "acknowledged": lambda: f"Only regressions that were accepted before: {_measures(report, 'acknowledged')}.",
        "pass": lambda: _passed(report),
        "no_data": lambda: f"Nothing to judge: {_reason(report, 'there is no data to compare')}.",
        "not_comparable": lambda: f"Not comparable: {_reason(report, 'the two sides have too little in common')}.",
    }
    return opening[report.verdict]()


def findings(report: Report) -> tuple[str, ...]:
    """Further sentences, each on its own: switch, benefit, mix, split, grid; those without data are left out."""
    sentences = (switch(report), benefit(report), mix(report), split(report), grid(report))
    return tuple(sentence for sentence in sentences if sentence)


def mix(report: Report) -> str | None:
    """What a change of traffic did to the measures that it moved most; None where it moved none notably."""
    shifted = _shifted(report)
    if not shifted or report.verdict == "pass":
        return None  # a report without failures says it in its first sentence
    return f"The traffic changed: {_traffic(shifted)}."


def switch(report: Report) -> str | None:
    """What it did to a step that speculation was switched on or off; None where it was not."""
    way, overall = switched(report), _overall(report)
    if way is None:
        return None
    opening = f"Speculation is {way} in the candidate and {'off' if way == 'on' else 'on'} in the baseline"
    if overall is None:
        return f"{opening}."
    found = {term.name: term.value for term in terms(overall, switch=True)}
    return (
        f"{opening}: over all loads a step takes {effect(found['round_time'], factors=True)} as long and returns "
        f"{effect(-found['length'], factors=True)} as many tokens."
    )


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


def _other_lengths(report: Report) -> str | None:
    """Other draft lengths, where a schedule would surely have saved or speculation surely costs."""
    sure = [
        found
        for found in report.schedules
        if found.saved_interval is not None and found.saved_interval[0] > 0 and found.ranges != found.in_force
    ]
    if len(sure) == 1:
        return schedule(sure[0])
    costs = [band.load_band for band in _bands(report, "costs")]
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
    if recommended.ranges == recommended.in_force:
        return f"{recommended.deployment} runs the schedule that is recommended: {ranges(recommended.ranges)}."
    instead = f" in place of {ranges(recommended.in_force)}" if recommended.in_force else ""
    sentence = f"Recommended for {recommended.deployment}: {ranges(recommended.ranges)}{instead}"
    if recommended.saved is None or recommended.saved_interval is None or not recommended.spent:
        return f"{sentence}."
    low, high = (bound / recommended.spent for bound in recommended.saved_interval)
    saved = f"{percent(recommended.saved / recommended.spent)} ({span(percent(low), percent(high), high)})"
    sure = "would have saved" if low > 0 else "would perhaps have saved"
    return f"{sentence}; it {sure} {saved} of {figure(recommended.spent, recommended.saved_unit)}."


def ranges(given: Sequence[Sequence[int]]) -> str:
    """A schedule as vLLM takes it: [[from, to, length], …]."""
    return json.dumps([list(part) for part in given])


def weighed_apart(report: Report) -> str | None:
    """Why split and effects name another share of the mix, where they do."""
    overall, effects = _overall(report), {effect.measure: effect for effect in report.effects}
    if overall is None or "tpot_ms" not in effects or abs(overall.mix - effects["tpot_ms"].mix) < NOTABLE:
        return None
    return (
        "The first table weighs loads by their decode time on both sides, the second by the baseline's tokens: where "
        "speed and mix changed at once, they give the mix another share of the same whole change. Gates judge what "
        "happened within like traffic."
    )


def next_step(report: Report) -> str | None:
    """What to do now: the first advice, else what the verdict itself asks for; None where nothing is to be done."""
    advised = next(iter(remedies(report.advice)), None)
    if advised is not None and report.verdict in {"fail", "warn", "inconclusive"}:
        return advised.advice.action
    unexplained = "No cause of this stands out in the data: compare the loads and measures below."
    other = _other_lengths(report)
    if other is not None and report.verdict in {"fail", "warn"}:
        return f"{unexplained} {other}"
    if other is not None and report.verdict in {"pass", "inconclusive", "acknowledged"}:
        return other
    return {
        "fail": unexplained,
        "warn": unexplained,
        "inconclusive": _more_data(report),
        "not_comparable": "Choose nights with the same kind of traffic, at the same loads.",
        "no_data": "Check the two predicates, and with `specledger check` whether these nights were ingested.",
    }.get(report.verdict)


def benefit(report: Report) -> str | None:
    """Where speculation pays and where it costs, on the candidate if it speculates, else on the baseline."""
    side = speculating_side(report)
    if side is None:
        return None
    bands = [band for band in report.bands if band.side == side and band.speedup is not None]
    single = [band for band in bands if band.load_band != "all"]
    if not single:
        return None
    pays, costs = _bands(report, "pays"), _bands(report, "costs")
    rest = [band for band in single if band.speedup_interval and band not in pays and band not in costs]
    bare = [band for band in single if not band.speedup_interval]
    parts = [f"pays at {_speedups(pays)}"] if pays else []
    parts += [f"costs at {_speedups(costs)}"] if costs else []
    parts += [f"is undecided at {_speedups(rest)}"] if rest else []
    who = "Speculation" if side == "candidate" else "The baseline's speculation"
    parts += [f"has a speedup without interval at {_speedups(bare)}"] if bare else []
    sentence = f"{who} {listed(parts)}"
    hopeless = [band.load_band for band in single if band.beyond_reach]
    if hopeless:
        sentence += f"; at load {listed(hopeless)} not even full acceptance could pay"
    pooled = next((band for band in bands if band.load_band == "all"), None)
    if pooled is not None and costs and pays:
        sentence += f"; the pooled {figure(pooled.speedup, measure='speedup')} hides this"
    return f"{sentence}."


def grid(report: Report) -> str | None:
    """What quantization and speculation gained alone and together."""
    if report.grid is None or report.grid.interaction is None:
        return None
    gains = [f"{cell.name} {figure(cell.gain, measure='gain')}" for cell in report.grid.cells]
    sentence = f"Against the original: {listed(gains)}; interaction {number(report.grid.interaction, 3)}"
    bounds = report.grid.interaction_interval
    if bounds is not None:
        sentence += f" ({number(bounds[0], 3)} to {number(bounds[1], 3)})"
        if bounds[1] < 1:
            sentence += ", less than the product of the two"
        elif bounds[0] > 1:
            sentence += ", more than the product of the two"
    return f"{sentence}."


def speculating_side(report: Report) -> str | None:
    """The side whose speculation is looked at: the candidate, else the baseline; None where neither speculates."""
    with_rounds = {band.side for band in report.bands if band.rounds}
    return next((side for side in ("candidate", "baseline") if side in with_rounds), None)


def _bands(report: Report, kind: Literal["pays", "costs"]) -> list[BandFigures]:
    """Load bands where speculation surely pays or costs, on the side that is looked at."""
    side = speculating_side(report)
    return [
        band
        for band in report.bands
        if band.side == side
        and band.load_band != "all"
        and band.speedup_interval is not None
        and (band.speedup_interval[0] > 1 if kind == "pays" else band.speedup_interval[1] < 1)
    ]


def _overall(report: Report) -> SplitRow | None:
    return next((row for row in report.split if row.stratum is None), None)


def _more_data(report: Report) -> str:
    """What would decide: the largest changes that this much data could have shown."""
    open_ = [gate for gate in report.gates if gate.verdict == "inconclusive" and gate.stratum is None]
    known = [gate for gate in open_ if gate.detectable is not None and gate.kind == "relative"]
    if not known:
        return "Judge again with more nights: there is too little data for intervals."
    told = [f"{in_sentence(gate.measure)} {percent(gate.detectable)}" for gate in known[:MOST_MEASURES]]
    return f"Judge again with more nights: this much data would only have shown changes from {listed(told)} on."


def _measures(report: Report, verdict: Verdict) -> str:
    judged = sorted(
        (gate for gate in report.gates if gate.verdict == verdict),
        key=lambda gate: (gate.gate != "correctness", gate.measure),
    )
    if not judged:
        return _reason(report, verdict_label(verdict))
    groups = [list(group) for _, group in itertools.groupby(judged, key=lambda gate: (gate.gate, gate.measure))]
    groups.sort(key=lambda group: (group[0].gate != "correctness", -max(abs(gate.change or 0) for gate in group)))
    told = groups[:MOST_MEASURES]
    places = {_places(group) for group in told}
    alike = len(told) > 1 and len(places) == 1 and all(_everywhere(group) for group in told)
    sentences = [_group(group, places=not alike) for group in told]
    if len(groups) > MOST_MEASURES:
        sentences.append(plural(len(groups) - MOST_MEASURES, "more measure"))
    also = f"; each also at load {listed(next(iter(places)))}" if alike and any(places) else ""
    return "; ".join(sentences) + also


def _everywhere(gates: Sequence[GateResult]) -> bool:
    """Whether the results of one measure hold overall and have a change."""
    return any(gate.stratum is None and gate.change is not None and gate.kind != "limit" for gate in gates)


def _places(gates: Sequence[GateResult]) -> tuple[str, ...]:
    return tuple(gate.stratum.load_band for gate in gates if gate.stratum is not None)


def _group(gates: Sequence[GateResult], *, places: bool) -> str:
    """The results of one measure that share a verdict, with the loads where they hold too."""
    overall = next((gate for gate in gates if gate.stratum is None), None)
    first = overall or gates[0]
    label = in_sentence(first.measure)
    if first.change is None or first.kind == "limit":
        reason = first.reason.rstrip(".")
        return in_text(reason) if reason.lower().startswith(label.split()[0].lower()) else f"{label}: {reason}"
    allowed = f" (allowed {tolerance(first)})" if first.tolerance is not None else ""
    if overall is not None:
        also = f", also at load {listed(_places(gates))}" if places and _places(gates) else ""
        return f"{label} {moved(overall)}{allowed}{also}"
    told = [f"{gate.stratum.load_band} ({change(gate)})" for gate in gates if gate.stratum]
    return f"{label} at load {listed(told)}{allowed}"


def moved(gate: GateResult) -> str:
    """The change of a gate as a verb and its size."""
    if not gate.change:
        return "did not change"
    return f"{'rose' if gate.change > 0 else 'fell'} by {change(gate).lstrip('+−')}"


def _inconclusive(report: Report) -> str:
    counts = verdict_counts(report.gates)
    judged = f"{counts.get('inconclusive', 0)} of {plural(len(report.gates), 'gate')}"
    warned = f" A warning: {_measures(report, 'warn')}." if counts.get("warn") else ""
    return f"Undecided: the data cannot tell for {judged}, and none failed: {_names(report, 'inconclusive')}.{warned}"


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
        figures = f"; the traffic changed: {_traffic(shifted)}"
    return f"No gate failed: {passed} of {plural(len(report.gates), 'gate')} passed{rest}{figures}."


def _shifted(report: Report) -> list[Effect]:
    """Measures that another mix of traffic moved notably and more than anything within like traffic did."""
    found = [effect for effect in report.effects if abs(effect.mix) >= NOTABLE and abs(effect.mix) > abs(effect.within)]
    named = [effect for effect in found if effect.measure in TOLD_OF_TRAFFIC] or found
    return sorted(named, key=lambda effect: -abs(effect.mix))[:MOST_SHIFTED]


def _traffic(shifted: Sequence[Effect]) -> str:
    told = [
        f"{in_sentence(effect.measure)} {percent(effect.total, signed=True)} in all, of which "
        f"{percent(effect.within, signed=True)} within like traffic"
        for effect in shifted
    ]
    return "; ".join(told)


def _names(report: Report, verdict: Verdict) -> str:
    names = dict.fromkeys(in_sentence(gate.measure) for gate in report.gates if gate.verdict == verdict)
    return listed(list(names)) or _reason(report, "too few data")


def _speedups(bands: Sequence[BandFigures]) -> str:
    return "load " + listed([f"{band.load_band} ({figure(band.speedup, measure='speedup')})" for band in bands])


def _reason(report: Report, otherwise: str) -> str:
    return in_text(report.reason.strip().rstrip(".")) or otherwise
