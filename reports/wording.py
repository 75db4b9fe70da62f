"""A report in words: the sentence at its top and the few that follow, made from verdicts and figures alone.

A direction is claimed only where a gate has judged it or an interval lies wholly on one side; otherwise the sentence
gives figures and leaves the judgement out.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from .format import (
    change,
    figure,
    hundredths,
    in_sentence,
    interval,
    listed,
    measure_label,
    number,
    percent,
    plural,
    tolerance,
    verdict_counts,
    verdict_label,
)
from .model import BandFigures, Effect, GateResult, Report, Verdict

MOST_MEASURES = 3
"""Measures that the headline names; the others are counted."""
NOTABLE = 0.02
"""A relative change below this is not worth a sentence."""
TERMS = {
    "round_time": "round time",
    "acceptance": "acceptance",
    "coverage": "coverage",
    "truncation": "truncation",
    "mix": "traffic mix",
}


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
    """Further sentences, each on its own: benefit, mix, split, grid; those without data are left out."""
    sentences = (benefit(report), mix(report), split(report), grid(report))
    return tuple(sentence for sentence in sentences if sentence)


def mix(report: Report) -> str | None:
    """What a change of traffic did, for the measure it moved most; None where it moved none notably."""
    moved = [effect for effect in report.effects if abs(effect.mix) >= NOTABLE and abs(effect.mix) > abs(effect.within)]
    if not moved:
        return None
    effect = max(moved, key=lambda effect: abs(effect.mix))
    return f"{measure_label(effect.measure)} moved by {percent(effect.total, signed=True)} in all: {_parts(effect)}."


def split(report: Report) -> str | None:
    """The change of TPOT and its terms, the largest first; None where it hardly changed."""
    overall = next((row for row in report.split if row.stratum is None), None)
    if overall is None or abs(overall.d_ln_tpot) < NOTABLE:
        return None
    terms = sorted(((getattr(overall, name), words) for name, words in TERMS.items()), key=lambda term: -abs(term[0]))
    told = [f"{words} {hundredths(value)}" for value, words in terms if abs(value) >= 0.0005]
    return f"The whole change of ln TPOT × 100 is {hundredths(overall.d_ln_tpot)}: {listed(told)}."


def benefit(report: Report) -> str | None:
    """Where speculation pays and where it costs, on the candidate if it speculates, else on the baseline."""
    side = speculating_side(report)
    if side is None:
        return None
    bands = [band for band in report.bands if band.side == side and band.speedup is not None]
    single = [band for band in bands if band.load_band != "all"]
    if not single:
        return None
    pays = [band for band in single if band.speedup_interval and band.speedup_interval[0] > 1]
    costs = [band for band in single if band.speedup_interval and band.speedup_interval[1] < 1]
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


def _measures(report: Report, verdict: Verdict) -> str:
    judged = sorted(
        (gate for gate in report.gates if gate.verdict == verdict),
        key=lambda gate: (gate.gate != "correctness", gate.measure),
    )
    if not judged:
        return _reason(report, verdict_label(verdict))
    groups = [list(group) for _, group in itertools.groupby(judged, key=lambda gate: (gate.gate, gate.measure))]
    groups.sort(key=lambda group: (group[0].gate != "correctness", -max(abs(gate.change or 0) for gate in group)))
    told = [_group(group) for group in groups[:MOST_MEASURES]]
    if len(groups) > MOST_MEASURES:
        told.append(plural(len(groups) - MOST_MEASURES, "more measure"))
    return "; ".join(told)


def _group(gates: Sequence[GateResult]) -> str:
    """The results of one measure that share a verdict."""
    first = gates[0]
    label = in_sentence(first.measure)
    if first.change is None or first.kind == "limit":
        return f"{label}: {first.reason.rstrip('.')}"
    allowed = f" (allowed {tolerance(first)})" if first.tolerance is not None else ""
    overall = next((gate for gate in gates if gate.stratum is None), None)
    bands = [gate for gate in gates if gate.stratum is not None]
    if overall is not None:
        also = f", also at load {listed([gate.stratum.load_band for gate in bands if gate.stratum])}" if bands else ""
        return f"{label} {change(overall)}{allowed}{also}"
    places = [f"{gate.stratum.load_band} ({change(gate)})" for gate in bands if gate.stratum]
    return f"{label} at load {listed(places)}{allowed}"


def _inconclusive(report: Report) -> str:
    counts = verdict_counts(report.gates)
    judged = f"{counts.get('inconclusive', 0)} of {plural(len(report.gates), 'gate')}"
    return f"Undecided: the data cannot tell for {judged}, and none failed: {_names(report, 'inconclusive')}."


def _passed(report: Report) -> str:
    counts = verdict_counts(report.gates)
    passed, others = counts.get("pass", 0), len(report.gates) - counts.get("pass", 0)
    told = [f"{n} {verdict_label(verdict)}" for verdict, n in counts.items() if verdict != "pass"]
    rest = f" ({listed(told)})" if others else ""
    main = next(
        (gate for gate in report.gates if gate.measure == "tpot_ms" and gate.stratum is None and gate.interval), None
    )
    figures = f"; TPOT {change(main)} ({interval(main)})" if main is not None else ""
    shifted = [
        effect for effect in report.effects if abs(effect.mix) >= NOTABLE and abs(effect.mix) > abs(effect.within)
    ]
    if shifted:
        effect = max(shifted, key=lambda effect: abs(effect.mix))
        figures = f"; {in_sentence(effect.measure)} {percent(effect.total, signed=True)} in all, {_parts(effect)}"
    return f"No gate failed: {passed} of {plural(len(report.gates), 'gate')} passed{rest}{figures}."


def _parts(effect: Effect) -> str:
    return (
        f"{percent(effect.mix, signed=True)} from another traffic mix and "
        f"{percent(effect.within, signed=True)} within like traffic"
    )


def _names(report: Report, verdict: Verdict) -> str:
    names = dict.fromkeys(in_sentence(gate.measure) for gate in report.gates if gate.verdict == verdict)
    return listed(list(names)) or _reason(report, "too few data")


def _speedups(bands: Sequence[BandFigures]) -> str:
    return "load " + listed([f"{band.load_band} ({figure(band.speedup, measure='speedup')})" for band in bands])


def _reason(report: Report, otherwise: str) -> str:
    return report.reason.strip().rstrip(".") or otherwise
