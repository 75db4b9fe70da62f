"""The linearised variance of a standardised ratio, over units or over single observations.

With w the baseline's shares of its own denominator, B = Σ w·r_base (its pooled ratio) and T = Σ w·r_cand. Each unit's
influence on ln(T / B), or on T − B, is squared and added up over units; baseline units also move the weights.
Residuals are divided by √(1 − leverage). A stratum of the candidate that hangs on one unit has no residual about its
own ratio; there the ratio to be expected from the baseline's and the overall change stands in.

Requests that run together share their rounds, and so what a round took: the times of n at once say as much as those of
one. Over single requests, what their times add to a variance counts n times; what their own tokens add counts once.
Requests that follow each other share more where single rounds do not explain how their times scatter (see compare.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .interval import MIN_UNITS, event_floor, satterthwaite
from .sums import OBSERVATIONS, Sums, Vector, add_up, divide

MAX_LEVERAGE = 0.5
"""A unit that holds more of its stratum than this leaves no residual to judge by."""


@dataclass(frozen=True)
class Shared:
    """What observations that run together, or follow each other, have in common, by stratum."""

    together: Vector
    """How many observations say as much as one."""
    scatter: tuple[Vector, Vector] | None = None
    """Of each side: what part of the numerator's scatter is shared, as Σ squared residuals over single observations;
    None where all of it is.
    """


@dataclass(frozen=True)
class Pair:
    """Both sides over the strata that both have."""

    baseline: Sums
    candidate: Sums
    relative: bool
    weight: Vector
    """w of each stratum."""
    den_candidate: Vector
    ratio_baseline: Vector
    ratio_candidate: Vector
    pooled: float
    """B."""
    standardized: float
    """T."""
    shared: Shared | None

    @classmethod
    def of(cls, baseline: Sums, candidate: Sums, strata: int, *, relative: bool, shared: Shared | None = None) -> Pair:
        """The pair of two sides whose rows all lie in common strata; by default observations share nothing."""
        den_b, den_c = (side.by_stratum(side.den, strata) for side in (baseline, candidate))
        ratio_b = divide(baseline.by_stratum(baseline.num, strata), den_b)
        ratio_c = divide(candidate.by_stratum(candidate.num, strata), den_c)
        weight = den_b / den_b.sum()
        pooled = float(baseline.num.sum() / baseline.den.sum())
        standardized = float((weight * ratio_c).sum())
        return cls(baseline, candidate, relative, weight, den_c, ratio_b, ratio_c, pooled, standardized, shared)

    @property
    def expected(self) -> Vector:
        """Each stratum's ratio over the overall one: as the candidate has it, else as the baseline has it."""
        if self.standardized > 0:
            return self.ratio_candidate / self.standardized
        return self.ratio_baseline / self.pooled

    @property
    def predicted(self) -> Vector:
        """The candidate's ratio to be expected from the baseline's and the overall change."""
        return self.ratio_baseline * (self.standardized / self.pooled if self.pooled > 0 else 1.0)

    @property
    def factor(self) -> Vector:
        """What a residual of the candidate's numerator in a stratum adds to T."""
        return divide(self.weight, self.den_candidate)


def variances(pair: Pair, unit: str, quantum: tuple[float, float] | None) -> list[tuple[float, float]]:
    """Each side's part of the variance of ln(T / B), or of T − B, with its degrees of freedom.

    ``quantum`` is the size of a counted event.
    """
    sides = (pair.baseline, pair.candidate)
    if unit in OBSERVATIONS:
        parts = [_by_observation(pair, index) for index in (0, 1)]
    else:
        raw = (_baseline_by_unit(pair), _candidate_by_unit(pair))
        parts = [(part, degrees_of_freedom(side, unit)) for part, side in zip(raw, sides, strict=True)]
    scales = (pair.pooled, pair.standardized) if pair.relative else (1.0, 1.0)
    found = []
    for index, (side, (variance, df)) in enumerate(zip(sides, parts, strict=True)):
        floor = 0.0
        if quantum is not None and scales[index] > 0:
            floor = (event_floor(quantum[index]) / (float(side.den.sum()) * scales[index])) ** 2
        found.append((max(variance, floor), df))
    return found


def degrees_of_freedom(side: Sums, unit: str, together: Vector | None = None) -> float:
    """One less than the effective number of units (Kish): quiet hours count for less, and shared observations."""
    if unit in OBSERVATIONS:
        return max(1.0, float((side.n if together is None else side.n / together[side.stratum]).sum()) - 1)
    den = side.by_unit(side.den)
    return max(1.0, float(den.sum() ** 2 / (den**2).sum()) - 1)


def _by_observation(pair: Pair, index: int) -> tuple[float, float]:
    """The variance of one side over its single observations, and its degrees of freedom."""
    side = (pair.baseline, pair.candidate)[index]
    whole, shared = (_baseline_by_observation, _candidate_by_observation)[index](pair)
    together = pair.shared.together if pair.shared else np.ones(len(whole))
    terms = [
        (float((whole - shared).sum()), degrees_of_freedom(side, "request")),
        (float((shared * together).sum()), degrees_of_freedom(side, "request", together)),
    ]
    return sum(variance for variance, _ in terms), satterthwaite(terms)


def _shared_scatter(pair: Pair, index: int, whole: Vector) -> Vector:
    """The part of the squared residuals of each stratum that is shared."""
    if pair.shared is None:
        return np.zeros(len(whole))
    if pair.shared.scatter is None:
        return whole
    return np.minimum(pair.shared.scatter[index], whole)


def _baseline_by_unit(pair: Pair) -> float:
    side = pair.baseline
    den = side.by_unit(side.den)
    total = float(den.sum())
    if pair.relative:
        influence = side.by_unit(side.den * pair.expected[side.stratum]) - side.by_unit(side.num) / pair.pooled
    else:
        moved = side.den * (pair.ratio_candidate[side.stratum] - pair.standardized + pair.pooled)
        influence = side.by_unit(moved) - side.by_unit(side.num)
    leverage = np.minimum(den / total, MAX_LEVERAGE)
    return float((influence**2 / (1 - leverage)).sum()) / total**2


def _candidate_by_unit(pair: Pair) -> float:
    side, strata = pair.candidate, len(pair.weight)
    if pair.relative and pair.standardized <= 0:
        return 0.0
    cells, row = np.unique(side.unit * strata + side.stratum, return_inverse=True)
    num, den = add_up(row, side.num, len(cells)), add_up(row, side.den, len(cells))
    unit, stratum = cells // strata, cells % strata
    leverage = den / pair.den_candidate[stratum]
    greatest = np.zeros(strata)
    np.maximum.at(greatest, stratum, leverage)
    thin = greatest[stratum] > MAX_LEVERAGE
    ratio = np.where(thin, pair.predicted[stratum], pair.ratio_candidate[stratum])
    residual = (num - ratio * den) / np.sqrt(np.where(thin, 1.0, 1 - leverage))
    influence = add_up(unit, pair.factor[stratum] * residual, side.units)
    return float((influence**2).sum()) / (pair.standardized**2 if pair.relative else 1.0)


def _baseline_by_observation(pair: Pair) -> tuple[Vector, Vector]:
    """The variance by stratum, and the part of it that observations share."""
    side, strata = pair.baseline, len(pair.weight)
    if side.second is None:
        return np.zeros(strata), np.zeros(strata)
    if pair.relative:
        ratio, scale = pair.expected * pair.pooled, pair.pooled
    else:
        ratio, scale = pair.ratio_candidate - pair.standardized + pair.pooled, 1.0
    whole = side.residuals(ratio, strata)
    n = float(side.n.sum())
    factor = n / max(1.0, n - 1) / (scale * float(side.den.sum())) ** 2
    return factor * whole, factor * _shared_scatter(pair, 0, whole)


def _candidate_by_observation(pair: Pair) -> tuple[Vector, Vector]:
    """The variance by stratum, and the part of it that observations share."""
    side, strata = pair.candidate, len(pair.weight)
    if side.second is None or (pair.relative and pair.standardized <= 0):
        return np.zeros(strata), np.zeros(strata)
    n = side.by_stratum(side.n, strata)
    thin = n < MIN_UNITS
    ratio = np.where(thin, pair.predicted, pair.ratio_candidate)
    correction = np.where(thin, 1.0, n / np.maximum(1.0, n - 1))
    whole = side.residuals(ratio, strata)
    factor = pair.factor**2 * correction / (pair.standardized**2 if pair.relative else 1.0)
    return factor * whole, factor * _shared_scatter(pair, 1, whole)
