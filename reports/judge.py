"""From an estimate to a verdict.

fail: the whole 95 % interval is worse than the tolerance. pass: it is wholly better. Everything else is inconclusive,
no_data or not_comparable, with the reason in a sentence and as a code.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from ..schemas.measures import MEASURES
from .compare import Found
from .gates import Gate
from .interval import LARGEST_LOG, Estimate, Sided, around, critical, detectable, p_not_worse
from .model import Evidence, Factor, GateResult, Severity, Stratum, Verdict, finite
from .multiplicity import survivors

PROBLEMS: Mapping[str, tuple[Verdict, str]] = {
    "no_data": ("no_data", "Neither side has this figure."),
    "no_baseline": ("no_data", "The baseline does not have this figure."),
    "no_candidate": ("no_data", "The candidate does not have this figure."),
    "common_share": (
        "not_comparable",
        "Less than half of the baseline lies in strata that the candidate has too: the traffic is not the same.",
    ),
    "edges": ("not_comparable", "The servers of the two sides have different bucket edges."),
    "baseline_zero": ("inconclusive", "The baseline is zero, so there is no relative change."),
    "no_moments": ("inconclusive", "There are fewer than 8 ten-minute blocks on a side, and this figure needs them."),
    "few_units": ("inconclusive", "There are fewer than 8 units on a side: too few to judge by."),
    "no_interval": ("inconclusive", "A part of this figure has no interval."),
    "unbounded": ("inconclusive", "The quantile lies where no bucket edge bounds it."),
}
"""What keeps a verdict from being made: the verdict it leads to, and why."""
WITH_INTERVAL = frozenset({"few_units", "few_tail"})
"""Problems of figures that have an interval none the less."""
FEW_TAIL = "Worse than the tolerance, but so few values do not say what lies beyond the largest of them."
BANDED: Mapping[str, tuple[Verdict, str]] = {
    "no_baseline": ("not_comparable", "At this load only the candidate has this figure."),
    "no_candidate": ("not_comparable", "At this load only the baseline has this figure."),
}
"""The same at one load band, where one side was simply never there."""
INTERVAL_METHODS = frozenset({"ratio", "difference", "quantile", "bucket share", "product"})
"""Methods whose intervals rest on a variance, and so have a p value."""
WIDER_THAN_JUDGED = "The quantile is known only to its bucket, which is wider than the change being judged."


def judge(gate: Gate, band: str | None, found: Found, note: str = "") -> GateResult:
    """The result of a gate with a tolerance, from the estimate of its measure; ``note`` is added to the reason."""
    estimate = found.estimate
    result = _described(blank(gate, band, "no_data", ""), found)
    tolerance = gate.tolerance
    if tolerance is None:
        return replace(result, reason="No tolerance is set.")
    if estimate.problem is not None and (estimate.problem not in WITH_INTERVAL or estimate.interval is None):
        verdict, reason = _problem(estimate.problem, band)
        return replace(result, verdict=verdict, reason=_noted(reason, note), reason_code=estimate.problem)
    result = replace(
        result,
        p_value=finite(p_not_worse(estimate, tolerance)) if estimate.problem != "few_units" else None,
        detectable=_detectable(estimate),
    )
    if estimate.problem == "few_units":
        verdict, reason = _problem("few_units", band)
        return replace(result, verdict=verdict, reason=_noted(reason, note), reason_code="few_units")
    if estimate.interval is None:
        verdict, reason = _problem("unbounded", band)
        return replace(result, verdict=verdict, reason=_noted(reason, note), reason_code="unbounded")
    decided = decide(estimate.interval, tolerance)
    if decided == "fail" and estimate.problem == "few_tail":
        verdict, reason, code = "inconclusive", FEW_TAIL, "few_tail"
    elif decided == "fail":
        verdict, reason, code = failed(gate.severity), "The whole 95 % interval is worse than the tolerance.", None
    elif decided == "pass":
        verdict, reason, code = "pass", "The whole 95 % interval is better than the tolerance.", None
    elif estimate.method == "buckets":
        verdict, reason, code = "inconclusive", WIDER_THAN_JUDGED, "bucket_width"
    else:
        verdict, reason, code = "inconclusive", "The tolerance lies inside the 95 % interval.", "tolerance_inside"
    return replace(result, verdict=verdict, reason=_noted(reason, note), reason_code=code)


def judge_limit(gate: Gate, band: str | None, found: Found, note: str = "") -> GateResult:
    """The result of a gate with a limit of the candidate's figure; ``found`` compares the candidate with itself."""
    estimate, limit = found.estimate, gate.tolerance
    alone = estimate.baseline
    result = replace(
        blank(gate, band, "no_data", "The candidate does not have this figure."),
        candidate=finite(alone.standardized),
        n_candidate=alone.units,
        unit=estimate.unit,
        origin=found.origin,
        method=estimate.method,
        degrees_of_freedom=finite(estimate.df),
        evidence_candidate=_evidence(alone, gate.measure),
    )
    if limit is None or alone.standardized is None:
        return result
    interval = _own_interval(estimate)
    if interval is None or estimate.problem not in {None, "few_tail"}:
        verdict, reason = _problem(estimate.problem or "unbounded", band)
        return replace(result, verdict=verdict, reason=_noted(reason, note), reason_code=estimate.problem)
    result = replace(result, interval=interval)
    higher = MEASURES[gate.measure].higher_is_better
    decided = decide(interval, limit, upwards=not higher)
    if decided == "fail":
        return replace(
            result,
            verdict=failed(gate.severity),
            reason=_noted("The whole 95 % interval is worse than the limit.", note),
        )
    if decided == "pass":
        return replace(result, verdict="pass", reason=_noted("The whole 95 % interval is better than the limit.", note))
    return replace(
        result,
        verdict="inconclusive",
        reason=_noted("The limit lies inside the 95 % interval.", note),
        reason_code="tolerance_inside",
    )


def judge_point(
    gate: Gate, baseline: float | None, candidate: float | None, origin: str | None, method: str, n: tuple[int, int]
) -> GateResult:
    """The result of a gate over figures that have no interval: a maximum, or a constant of the deployment."""
    result = replace(
        blank(gate, None, "no_data", ""),
        baseline=finite(baseline),
        candidate=finite(candidate),
        origin=origin,
        method=method,
        n_baseline=n[0],
        n_candidate=n[1],
    )
    if candidate is None or (gate.kind != "limit" and baseline is None) or gate.tolerance is None:
        side = "Neither side has" if baseline is None and candidate is None else "One side does not have"
        return replace(result, reason=f"{side} this figure.")
    higher = MEASURES[gate.measure].higher_is_better
    if gate.kind == "limit":
        beyond = candidate < gate.tolerance if higher else candidate > gate.tolerance
        reason = "The limit was passed." if beyond else "The limit was kept."
        return replace(result, verdict=failed(gate.severity) if beyond else "pass", reason=reason)
    if not baseline:
        return replace(result, verdict="inconclusive", reason=PROBLEMS["baseline_zero"][1], reason_code="baseline_zero")
    change = candidate / baseline - 1
    beyond = change < gate.tolerance if gate.tolerance < 0 else change > gate.tolerance
    reason = "The change is worse than the tolerance." if beyond else "The change is within the tolerance."
    return replace(result, change=change, verdict=failed(gate.severity) if beyond else "pass", reason=reason)


def decide(interval: tuple[float, float | None], tolerance: float, *, upwards: bool | None = None) -> Verdict:
    """pass, fail or inconclusive; ``upwards`` says that larger is worse (else the tolerance's sign does)."""
    lower, upper = interval[0], math.inf if interval[1] is None else interval[1]
    if tolerance > 0 if upwards is None else upwards:
        return "fail" if lower > tolerance else "pass" if upper < tolerance else "inconclusive"
    return "fail" if upper < tolerance else "pass" if lower > tolerance else "inconclusive"


def hold_rate(results: Sequence[GateResult], rate: float) -> list[GateResult]:
    """The results after Benjamini–Hochberg: a failure that does not survive becomes inconclusive."""
    family = [index for index, result in enumerate(results) if _in_family(result)]
    kept = survivors([results[index].p_value or 0.0 for index in family], rate)
    held = list(results)
    for index, survives in zip(family, kept, strict=True):
        if results[index].verdict == "fail" and not survives:
            held[index] = replace(
                results[index],
                verdict="inconclusive",
                reason=f"Worse than the tolerance, but not surely so among {len(family)} gates judged together.",
                reason_code="multiplicity",
            )
    return held


def _in_family(result: GateResult) -> bool:
    return (
        result.severity == "fail"
        and result.gate in {"latency", "capacity"}
        and result.method in INTERVAL_METHODS
        and result.p_value is not None
    )


def failed(severity: Severity) -> Verdict:
    """What a gate of this severity says when it is not met."""
    return "fail" if severity == "fail" else "warn"


def blank(gate: Gate, band: str | None, verdict: Verdict, reason: str) -> GateResult:
    """A result without figures."""
    measure = MEASURES.get(gate.measure)
    return GateResult(
        gate.gate,
        gate.measure,
        None if band is None else Stratum(band),
        verdict,
        gate.severity,
        gate.required,
        tolerance=gate.tolerance,
        kind=gate.kind,
        reason=reason,
        units=None if measure is None else measure.unit,
        higher_is_better=None if measure is None else measure.higher_is_better,
    )


def _described(result: GateResult, found: Found) -> GateResult:
    """The result with everything that comes straight from the estimate."""
    estimate = found.estimate
    night: Literal["estimated", "not_estimated"] | None = None
    if estimate.error is not None:
        night = "estimated" if estimate.between_night is not None else "not_estimated"
    return replace(
        result,
        baseline=finite(_shown(estimate.baseline)),
        candidate=finite(_shown(estimate.candidate)),
        change=finite(estimate.change),
        interval=estimate.interval,
        common_share=finite(estimate.common_share),
        n_baseline=estimate.baseline.units,
        n_candidate=estimate.candidate.units,
        unit=estimate.unit,
        night_variance=night,
        origin=found.origin,
        method=estimate.method,
        degrees_of_freedom=finite(estimate.df),
        between_night_variance=finite(estimate.between_night),
        slack=estimate.slack,
        factors=tuple(_factor(*factor) for factor in found.factors),
        evidence_baseline=_evidence(estimate.baseline, result.measure),
        evidence_candidate=_evidence(estimate.candidate, result.measure),
    )


def _factor(measure: str, power: int, found: Found) -> Factor:
    estimate = found.estimate
    return Factor(
        measure,
        power,
        finite(estimate.change),
        finite(estimate.error),
        finite(estimate.df),
        found.origin,
        _evidence(estimate.baseline, measure),
        _evidence(estimate.candidate, measure),
    )


def _shown(side: Sided) -> float | None:
    return side.standardized if side.standardized is not None else side.figure


def _evidence(side: Sided, measure: str) -> Evidence | None:
    if side.figure is None and side.standardized is None:
        return None
    return Evidence(
        finite(side.figure),
        finite(side.standardized),
        finite(side.numerator),
        finite(side.denominator),
        MEASURES[measure].scale,
        finite(side.variance),
        side.units,
        side.strata,
        side.nights,
        side.bounds,
    )


def _own_interval(estimate: Estimate) -> tuple[float, float | None] | None:
    """The interval of the baseline's own figure."""
    side = estimate.baseline
    if side.bounds is not None:
        return side.bounds
    if side.standardized is None or side.variance is None or estimate.df is None:
        return None
    width = critical(estimate.df) * math.sqrt(side.variance)
    if not estimate.relative:
        return side.standardized - width, side.standardized + width
    return around(side.standardized, width)


def _detectable(estimate: Estimate) -> float | None:
    if estimate.method == "buckets" and estimate.interval is not None:
        lower, upper = estimate.interval
        # Only a change by both buckets' widths surely leaves them.
        return finite((1 + upper) / (1 + lower) - 1) if upper is not None and lower > -1 else None
    if estimate.error is None or estimate.df is None:
        return None
    size = detectable(estimate.error, estimate.df)
    if estimate.relative:
        return math.expm1(size) if size < LARGEST_LOG else None
    return finite(size)


def _problem(code: str, band: str | None) -> tuple[Verdict, str]:
    return BANDED.get(code, PROBLEMS[code]) if band is not None else PROBLEMS[code]


def _noted(reason: str, note: str) -> str:
    return f"{reason} {note}" if note else reason
