"""Quantiles compared within strata, through the histogram (Woodruff).

Each side's distribution is F(v) = Σ w·F_stratum(v) over the strata that both sides have, at the baseline's shares of
observations. The interval of the share below the quantile, linearised over units as for ratios, is read back through
F; both sides' intervals of ln(value) are then joined by the method of variance estimates recovery (MOVER). One night
against several is taken to scatter at least as much as these: in a tail its own few units understate that (measured on
one night against seven: 90 % of 95 % intervals held the truth).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from .interval import MIN_UNITS, Estimate, Sided, critical
from .nights import Between, between_nights
from .ratio import MIN_COMMON_SHARE, common_strata, missing
from .sums import OBSERVATIONS, Index, Mask, Sums, Vector, add_up, divide
from .variance import MAX_LEVERAGE, degrees_of_freedom

GROWTH = 1.02
"""Ratio of the edges of a log-spaced bucket."""
BETTER_WITNESS = 2.0
"""Times the effective units that a side must have to speak for the other's scatter too."""


@dataclass(frozen=True)
class Histogram:
    """One side's log-spaced histograms: one element for each row of unit × stratum × bucket.

    ``seen`` has a row for each unit × stratum, with ``den`` the observations in the histogram, ``n`` the requests or
    intervals, and in ``second[2]`` Σ observations² of single requests where one request has several observations.
    """

    row: Index
    """The row of ``seen`` that an element belongs to."""
    bucket: Index
    count: Vector
    seen: Sums

    def where(self, mask: Mask) -> Histogram:
        """The rows of ``seen`` that a mask keeps."""
        if mask.all():
            return self
        kept = np.flatnonzero(mask)
        place = np.full(len(mask), -1, dtype=np.int64)
        place[kept] = np.arange(len(kept))
        elements = mask[self.row]
        return Histogram(place[self.row[elements]], self.bucket[elements], self.count[elements], self.seen.where(mask))


@dataclass(frozen=True)
class Curve:
    """A standardised distribution: shares at the lower edges of consecutive buckets, the last one at 1."""

    first: int
    """Number of the lowest bucket."""
    shares: Vector
    """Share below the lower edge of bucket ``first`` + i."""

    def bucket(self, share: float) -> int:
        """The number of the bucket in which a share is reached."""
        return self.first + self._position(share)

    def _position(self, share: float) -> int:
        return int(np.clip(np.searchsorted(self.shares, share, side="right") - 1, 0, len(self.shares) - 2))

    def value(self, share: float) -> float:
        """The value below which a share lies, interpolated on the log scale inside a bucket."""
        position = self._position(share)
        low, high = float(self.shares[position]), float(self.shares[position + 1])
        inside = min(1.0, max(0.0, (share - low) / (high - low))) if high > low else 0.0
        return edge(self.first + position + inside)


def edge(bucket: float) -> float:
    """The lower edge of a bucket; a fraction lies inside it. The bucket of zeros ends at 1 ns."""
    return max(0.0, bucket + 1) if bucket < 0 else float(GROWTH**bucket)


def bucket_of(value: float) -> float:
    """The bucket that holds a value, with the part of the bucket below it as a fraction."""
    return math.log(value) / math.log(GROWTH) if value >= 1 else value - 1


def compare(
    baseline: Histogram,
    candidate: Histogram,
    strata: int,
    unit: str,
    share: float,
    scale: float,
    shared: Vector | None = None,
) -> Estimate:
    """The relative change of a quantile; values in the unit of the histogram times ``scale``.

    ``shared`` says how many observations of each stratum say as much as one.
    """
    sides = [side.where(side.seen.den > 0) for side in (baseline, candidate)]
    figures = [scale * whole(side).value(share) if len(side.seen.den) else None for side in sides]
    estimate = Estimate(Sided(figures[0], None), Sided(figures[1], None), "quantile", unit)
    if None in figures:
        return replace(estimate, problem=missing(figures[0] is None, figures[1] is None))
    common, common_share = common_strata(sides[0].seen, sides[1].seen, strata)
    estimate = replace(estimate, common_share=common_share)
    if common_share < MIN_COMMON_SHARE:
        return replace(estimate, problem="common_share")
    sides = [side.where(common[side.seen.stratum]) for side in sides]
    weight = sides[0].seen.by_stratum(sides[0].seen.den, strata)
    weight = weight / weight.sum()
    curves = [_standardized(side, weight) for side in sides]
    values = [curve.value(share) for curve in curves]
    if values[0] <= 0:
        return replace(estimate, problem="baseline_zero")
    estimate = _described(estimate, sides, [scale * value for value in values], unit)
    estimate = replace(estimate, change=values[1] / values[0] - 1)
    if unit in OBSERVATIONS and any(side.seen.second is None for side in sides):
        return replace(estimate, problem="no_moments")
    below = [_below(side, value) for side, value in zip(sides, values, strict=True)]
    shared = np.ones(strata) if shared is None else shared
    return _with_interval(estimate, below, curves, values, weight, share, unit, scale, shared)


def whole(side: Histogram) -> Curve:
    """The distribution of a side, unweighted."""
    return _curve(add_up(side.bucket - side.bucket.min(), side.count, int(np.ptp(side.bucket)) + 1), side.bucket)


def squared_deviations(side: Histogram, strata: int) -> Vector:
    """Σ (value − mean)² over the values of each stratum, every one taken to lie in the middle of its bucket."""
    stratum = side.seen.stratum[side.row]
    value = np.where(side.bucket < 0, 0.0, GROWTH ** (side.bucket + 0.5))
    count, total, squares = (add_up(stratum, side.count * value**power, strata) for power in (0, 1, 2))
    return np.maximum(0.0, squares - divide(total**2, count))


def _standardized(side: Histogram, weight: Vector) -> Curve:
    stratum = side.seen.stratum[side.row]
    share = divide(weight, side.seen.by_stratum(side.seen.den, len(weight)))
    scaled = side.count * share[stratum]
    return _curve(add_up(side.bucket - side.bucket.min(), scaled, int(np.ptp(side.bucket)) + 1), side.bucket)


def _curve(counts: Vector, buckets: Index) -> Curve:
    cumulative = np.concatenate(([0.0], np.cumsum(counts)))
    return Curve(int(buckets.min()), cumulative / cumulative[-1])


def _below(side: Histogram, value: float) -> Sums:
    """The observations below a value as the numerator of a ratio, row by row of ``seen``."""
    threshold = bucket_of(value)
    part = np.clip(threshold - side.bucket, 0.0, 1.0)
    return replace(side.seen, num=add_up(side.row, side.count * part, len(side.seen.den)))


def _described(estimate: Estimate, sides: list[Histogram], values: list[float], unit: str) -> Estimate:
    described = [
        replace(
            sided,
            standardized=value,
            denominator=float(side.seen.den.sum()),
            units=side.seen.count(unit),
            strata=len(np.unique(side.seen.stratum)),
            nights=side.seen.nights,
        )
        for sided, side, value in zip((estimate.baseline, estimate.candidate), sides, values, strict=True)
    ]
    whole = (estimate.baseline.figure or 0.0, estimate.candidate.figure or 0.0)
    return replace(
        estimate,
        baseline=described[0],
        candidate=described[1],
        effect_within=(values[1] - values[0]) / whole[0] if whole[0] else None,
        effect_total=(whole[1] - whole[0]) / whole[0] if whole[0] else None,
    )


def _with_interval(
    estimate: Estimate,
    below: list[Sums],
    curves: list[Curve],
    values: list[float],
    weight: Vector,
    share: float,
    unit: str,
    scale: float,
    shared: Vector,
) -> Estimate:
    shares = [divide(b.by_stratum(b.num, len(weight)), b.by_stratum(b.den, len(weight))) for b in below]
    variances = [share_variance(below[i], weight, shares[i], shares[1 - i], unit, shared) for i in (0, 1)]
    own = [share_degrees_of_freedom(side, weight, of, unit, shared) for side, of in zip(below, shares, strict=True)]
    lesser = [i for i in (0, 1) if BETTER_WITNESS * (own[i] + 1) <= own[1 - i] + 1]
    if unit not in OBSERVATIONS:
        # A night that by chance holds few of the largest values holds few of their differences too.
        per_unit = [variance * (of + 1) for variance, of in zip(variances, own, strict=True)]
        variances = [max(per_unit) / (own[i] + 1) if i in lesser else variances[i] for i in (0, 1)]
    df = min(own)
    between = between_nights(below[0], shares[0], by_observation=False)
    if between is not None:
        terms = list(zip(variances, own, strict=True))
        df = min(df, between.degrees_of_freedom(terms, below[1].nights, share**2))
        variances = _with_nights(variances, between, share, below[1].nights)
    half = [critical(df) * math.sqrt(variance) for variance in variances]
    bounds = [
        tuple(curve.value(share + sign * width) for sign in (-1, 1)) for curve, width in zip(curves, half, strict=True)
    ]
    log = [math.log(max(value, 1.0)) for value in values]
    low, high = ([math.log(max(bound[end], 1.0)) for bound in bounds] for end in (0, 1))
    change = log[1] - log[0]
    lower = change - math.hypot(log[1] - low[1], high[0] - log[0])
    upper = change + math.hypot(high[1] - log[1], log[0] - low[0])
    sides = [
        replace(side, variance=variance, bounds=(scale * bound[0], scale * bound[1]))
        for side, variance, bound in zip((estimate.baseline, estimate.candidate), variances, bounds, strict=True)
    ]
    return replace(
        estimate,
        baseline=sides[0],
        candidate=sides[1],
        interval=(math.expm1(lower), math.expm1(upper)),
        error=(change - lower) / critical(df),
        df=df,
        between_night=between.variance if between is not None else None,
        problem="few_units" if min(side.units for side in sides) < MIN_UNITS else _beyond(share, max(half)),
    )


def _beyond(share: float, half: float) -> str | None:
    """Whether the true quantile may lie beyond the least or the largest value that was seen."""
    return None if half < min(share, 1 - share) else "few_tail"


def _with_nights(variances: list[float], between: Between, share: float, candidate_nights: int) -> list[float]:
    """The variances of both shares with that of their nights; ``between`` is relative to the share."""
    night = between.variance * share**2
    return [variances[0] + night / between.nights, variances[1] + night / max(1, candidate_nights)]


def share_variance(
    below: Sums, weight: Vector, share: Vector, other: Vector, unit: str, shared: Vector | float = 1.0
) -> float:
    """Variance of Σ w·share over strata; ``other`` is the other side's share in each stratum.

    Where the units are requests each with several observations, all observations of one are taken as one: cells do
    not tell how they hang together, and this cannot understate.
    """
    strata = len(weight)
    if unit not in OBSERVATIONS:
        return _by_unit(below, weight, share, other)
    den, n = below.by_stratum(below.den, strata), below.by_stratum(below.n, strata)
    squares = below.by_stratum(below.second[2], strata) if below.second is not None else den
    thin = n < MIN_UNITS
    spread = np.where(thin, np.maximum(share * (1 - share), other * (1 - other)), share * (1 - share))
    correction = np.where(thin, 1.0, n / np.maximum(1.0, n - 1))
    return float((divide(weight, den) ** 2 * squares * spread * correction * shared).sum())


def share_degrees_of_freedom(below: Sums, weight: Vector, share: Vector, unit: str, shared: Vector) -> float:
    """One less than the effective number of units that a share rests on.

    Units count by the variance that they should have: those without strata near the quantile tell nothing of it.
    """
    if unit in OBSERVATIONS:
        return degrees_of_freedom(below, unit, shared)
    factor = divide(weight, below.by_stratum(below.den, len(weight))) ** 2 * share * (1 - share)
    part = below.by_unit(below.den * factor[below.stratum])
    squares = float((part**2).sum())
    return max(1.0, float(part.sum()) ** 2 / squares - 1) if squares > 0 else degrees_of_freedom(below, unit)


def _by_unit(below: Sums, weight: Vector, share: Vector, other: Vector) -> float:
    strata = len(weight)
    den = below.by_stratum(below.den, strata)
    cells, row = np.unique(below.unit * strata + below.stratum, return_inverse=True)
    num, seen = add_up(row, below.num, len(cells)), add_up(row, below.den, len(cells))
    unit, stratum = cells // strata, cells % strata
    leverage = seen / den[stratum]
    greatest = np.zeros(strata)
    np.maximum.at(greatest, stratum, leverage)
    thin = greatest[stratum] > MAX_LEVERAGE
    expected = np.where(thin, other[stratum], share[stratum])
    residual = (num - expected * seen) / np.sqrt(np.where(thin, 1.0, 1 - leverage))
    influence = add_up(unit, divide(weight, den)[stratum] * residual, below.units)
    return float((influence**2).sum())
