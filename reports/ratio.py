"""Ratios compared within strata: the change at the baseline's weights, its interval, and what the mix did.

Figure of a side = scale · Σ numerator / Σ denominator. Over the strata that both sides have, at the baseline's weights,
the change is T / B − 1 on the relative scale, else T − B (see variance.py for T and B).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from .interval import MIN_UNITS, NO_EVENT_BOUND, Estimate, Sided, critical, relative_interval, satterthwaite
from .nights import between_nights
from .sums import OBSERVATIONS, Mask, Sums
from .variance import Pair, Shared, variances

MIN_COMMON_SHARE = 0.5
"""Below this share of the baseline's weight in common strata there is no comparison."""


@dataclass(frozen=True)
class RatioRule:
    """How a ratio is read."""

    scale: float = 1.0
    relative: bool = True
    quantum: tuple[float, float] | None = None
    """Size of one event in the numerator of each side, for numerators that count events."""
    slack: float = 0.0
    """Added to the half-width on the ln scale, for figures that are known only within bounds."""
    shared: Shared | None = None
    """What observations have in common; None where each stands for itself."""


def compare(baseline: Sums, candidate: Sums, strata: int, unit: str, rule: RatioRule) -> Estimate:
    """The change of a ratio, over rows in ``strata`` strata; ``unit`` is hour, block, request or interval."""
    # Events count as well where nothing of what they are divided by fell together with them.
    baseline, candidate = (side.where((side.den > 0) | (side.num > 0)) for side in (baseline, candidate))
    figures = [
        rule.scale * float(s.num.sum() / s.den.sum()) if s.den.sum() > 0 else None for s in (baseline, candidate)
    ]
    estimate = Estimate(Sided(figures[0], None), Sided(figures[1], None), method(rule), unit, relative=rule.relative)
    if figures[0] is None or figures[1] is None:
        return replace(estimate, problem=missing(figures[0] is None, figures[1] is None))
    common, share = common_strata(baseline, candidate, strata)
    estimate = replace(estimate, common_share=share)
    if share < MIN_COMMON_SHARE:
        return replace(estimate, problem="common_share")
    baseline, candidate = baseline.where(common[baseline.stratum]), candidate.where(common[candidate.stratum])
    pair = Pair.of(baseline, candidate, strata, relative=rule.relative, shared=rule.shared)
    estimate = _with_effects(estimate, pair, rule)
    if rule.relative and pair.pooled <= 0:
        return replace(estimate, problem="baseline_zero")
    if unit in OBSERVATIONS and (baseline.second is None or candidate.second is None):
        return replace(estimate, problem="no_moments")
    return _with_interval(estimate, pair, unit, rule)


def method(rule: RatioRule) -> str:
    """How the interval of a rule is made, in a word."""
    return "ratio" if rule.relative else "difference"


def missing(baseline: bool, candidate: bool) -> str:
    """The code of data that are missing on one side or both."""
    return "no_data" if baseline and candidate else "no_baseline" if baseline else "no_candidate"


def common_strata(baseline: Sums, candidate: Sums, strata: int) -> tuple[Mask, float]:
    """The strata that both sides have, and the share of the baseline's weight in them."""
    den = baseline.by_stratum(baseline.den, strata)
    common = (den > 0) & (candidate.by_stratum(candidate.den, strata) > 0)
    return common, float(den[common].sum() / den.sum())


def _with_effects(estimate: Estimate, pair: Pair, rule: RatioRule) -> Estimate:
    """The estimate with the figures of both sides, its change and the effects within and in total."""
    whole = (estimate.baseline.figure or 0.0, estimate.candidate.figure or 0.0)
    within = rule.scale * (pair.standardized - pair.pooled)
    change: float | None = within
    if rule.relative:
        change = pair.standardized / pair.pooled - 1 if pair.pooled > 0 else None
    unit = estimate.unit or ""
    sides = [
        Sided(
            figure,
            rule.scale * standardized,
            float(sums.num.sum()),
            float(sums.den.sum()),
            units=sums.count(unit),
            strata=int((pair.weight > 0).sum()),
            nights=sums.nights,
        )
        for figure, standardized, sums in zip(
            whole, (pair.pooled, pair.standardized), (pair.baseline, pair.candidate), strict=True
        )
    ]
    return replace(
        estimate,
        baseline=sides[0],
        candidate=sides[1],
        change=change,
        effect_within=within / whole[0] if whole[0] else None,
        effect_total=(whole[1] - whole[0]) / whole[0] if whole[0] else None,
    )


def _with_interval(estimate: Estimate, pair: Pair, unit: str, rule: RatioRule) -> Estimate:
    """The estimate with variances, degrees of freedom and interval."""
    scale = 1.0 if rule.relative else rule.scale**2
    terms = [(variance * scale, df) for variance, df in variances(pair, unit, rule.quantum)]
    parts = [variance for variance, _ in terms]
    between = between_nights(pair.baseline, pair.ratio_baseline, by_observation=unit in OBSERVATIONS)
    error, df = math.sqrt(sum(variance for variance, _ in terms)), satterthwaite(terms)
    night = None
    if between is not None:
        squared = 1.0 if rule.relative else (rule.scale * pair.pooled) ** 2
        night = between.variance * squared
        error = math.hypot(error, math.sqrt(night * between.spread(pair.candidate.nights)))
        df = between.degrees_of_freedom(terms, pair.candidate.nights, squared)
    return replace(
        estimate,
        baseline=replace(estimate.baseline, variance=parts[0]),
        candidate=replace(estimate.candidate, variance=parts[1]),
        interval=_interval(estimate.change or 0.0, pair, error, df, parts[0], rule),
        error=error,
        df=df,
        between_night=night,
        slack=rule.slack,
        problem="few_units" if min(estimate.baseline.units, estimate.candidate.units) < MIN_UNITS else None,
    )


def _interval(
    change: float, pair: Pair, error: float, df: float, variance: float, rule: RatioRule
) -> tuple[float, float | None]:
    if not rule.relative:
        return change - critical(df) * error, change + critical(df) * error
    if pair.standardized > 0:
        return relative_interval(math.log1p(change), error, df, rule.slack)
    # Nothing was counted on the candidate: what zero events cannot exclude, over the least the baseline can be.
    quantum = rule.quantum[1] if rule.quantum else 0.0
    most = NO_EVENT_BOUND * quantum / float(pair.candidate.den.sum())
    least = pair.pooled * math.exp(-critical(df) * math.sqrt(variance))
    return -1.0, most / least - 1 if least > 0 and math.isfinite(most / least) else None
