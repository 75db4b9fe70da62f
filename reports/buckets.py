"""Quantiles and shares read from server histograms, which keep their own edges.

A quantile is known only to lie inside a bucket, so its interval is the bucket, moved outwards by what the share's own
uncertainty allows; the interval of a change is the worst case over both. A share over an edge is exact.
Servers with other edges never mix bucket by bucket: of a bucket that an edge cuts, the share below it is between none
and all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from .interval import MIN_UNITS, Estimate, Sided, critical
from .quantile import share_variance
from .ratio import MIN_COMMON_SHARE, common_strata, missing
from .sums import Index, Mask, Sums, Vector, add_up, divide
from .variance import degrees_of_freedom


@dataclass(frozen=True)
class Buckets:
    """One side's server histograms: one element for each row of unit × stratum × bucket.

    ``lower`` and ``upper`` are the edges of the bucket (upper may be infinite); ``seen`` has a row for each unit ×
    stratum with ``den`` the observations.
    """

    row: Index
    lower: Vector
    upper: Vector
    count: Vector
    seen: Sums

    def where(self, mask: Mask) -> Buckets:
        """The rows of ``seen`` that a mask keeps."""
        place = np.cumsum(mask) - 1
        elements = mask[self.row]
        return Buckets(
            place[self.row[elements]],
            self.lower[elements],
            self.upper[elements],
            self.count[elements],
            self.seen.where(mask),
        )

    def scaled(self, weight: Vector) -> Vector:
        """Each element's part of the distribution over strata at these weights."""
        total = self.seen.by_stratum(self.seen.den, len(weight))
        return self.count * divide(weight, total)[self.seen.stratum[self.row]]


@dataclass(frozen=True)
class Bracket:
    """Where a quantile lies: between two edges, with a point interpolated between them."""

    lower: float
    point: float
    upper: float


def bracket(lower: Vector, upper: Vector, mass: Vector, share: float) -> Bracket:
    """The bucket that holds a quantile of weighted buckets, whatever their edges."""
    edges = np.unique(np.concatenate((lower, upper)))
    total = float(mass.sum())
    # Of each bucket, all that can lie below an edge, and all that must.
    can = np.array([float(mass[lower < edge].sum()) for edge in edges]) / total
    must = np.array([float(mass[upper <= edge].sum()) for edge in edges]) / total
    share = min(max(share, 0.0), 1.0)
    tiny = 1e-12  # sums of shares do not reach 1 exactly
    surely_below = edges[can < share - tiny]
    surely_above = edges[must >= share - tiny]
    low = float(surely_below.max()) if len(surely_below) else float(edges[0])
    high = float(surely_above.min()) if len(surely_above) else math.inf
    if math.isinf(high):
        return Bracket(low, low, high)
    below, above = float(must[edges == low][0]), float(must[edges == high][0])
    inside = (share - below) / (above - below) if above > below else 1.0
    return Bracket(low, low + min(1.0, max(0.0, inside)) * (high - low), high)


def compare(baseline: Buckets, candidate: Buckets, strata: int, unit: str, share: float, scale: float) -> Estimate:
    """The relative change of a quantile that is known up to its bucket."""
    sides = [side.where(side.seen.den > 0) for side in (baseline, candidate)]
    figures = [
        scale * bracket(side.lower, side.upper, side.count, share).point if len(side.seen.den) else None
        for side in sides
    ]
    estimate = Estimate(Sided(figures[0], None), Sided(figures[1], None), "buckets", unit)
    if None in figures:
        return replace(estimate, problem=missing(figures[0] is None, figures[1] is None))
    common, common_share = common_strata(sides[0].seen, sides[1].seen, strata)
    estimate = replace(estimate, common_share=common_share)
    if common_share < MIN_COMMON_SHARE:
        return replace(estimate, problem="common_share")
    sides = [side.where(common[side.seen.stratum]) for side in sides]
    weight = sides[0].seen.by_stratum(sides[0].seen.den, strata)
    weight = weight / weight.sum()
    df = min(degrees_of_freedom(side.seen, unit) for side in sides)
    brackets, described = [], []
    for index, side in enumerate(sides):
        mass = side.scaled(weight)
        whole = bracket(side.lower, side.upper, mass, share)
        error = _share_error(side, sides[1 - index], weight, whole, unit)
        spread = critical(df) * error
        low = bracket(side.lower, side.upper, mass, share - spread).lower
        high = bracket(side.lower, side.upper, mass, share + spread).upper if share + spread < 1 else math.inf
        brackets.append(Bracket(low, whole.point, high))
        described.append(
            replace(
                (estimate.baseline, estimate.candidate)[index],
                standardized=scale * whole.point,
                denominator=float(side.seen.den.sum()),
                variance=error**2,
                units=side.seen.count(unit),
                strata=len(np.unique(side.seen.stratum)),
                nights=side.seen.nights,
                bounds=(scale * low, scale * high if math.isfinite(high) else None),
            )
        )
    return replace(
        estimate,
        baseline=described[0],
        candidate=described[1],
        change=brackets[1].point / brackets[0].point - 1 if brackets[0].point > 0 else None,
        interval=_worst_case(brackets[0], brackets[1]),
        df=df,
        problem="few_units" if min(side.units for side in described) < MIN_UNITS else None,
    )


def _worst_case(baseline: Bracket, candidate: Bracket) -> tuple[float, float | None] | None:
    """From the candidate's least over the baseline's most to the candidate's most over the baseline's least."""
    lower = candidate.lower / baseline.upper - 1 if baseline.upper > 0 else -1.0
    upper = candidate.upper / baseline.lower - 1 if baseline.lower > 0 else math.inf
    return lower, upper if math.isfinite(upper) else None


def _share_error(side: Buckets, other: Buckets, weight: Vector, whole: Bracket, unit: str) -> float:
    """Standard error of the share below the quantile, at whichever edge of its bucket it is greater.

    Cells do not hold counts by bucket for single scrape intervals; all observations of one are then taken as one.
    """
    errors = [0.0]
    for edge in (whole.lower, whole.upper):
        below, reference = (_below(buckets, edge) for buckets in (side, other))
        shares = [
            divide(b.by_stratum(b.num, len(weight)), b.by_stratum(b.den, len(weight))) for b in (below, reference)
        ]
        errors.append(math.sqrt(share_variance(below, weight, shares[0], shares[1], unit)))
    return max(errors)


def _below(side: Buckets, edge: float) -> Sums:
    """The observations that surely lie at or below an edge."""
    num = add_up(side.row, np.where(side.upper <= edge, side.count, 0.0), len(side.seen.den))
    seen = side.seen
    squares = seen.den**2 / np.maximum(1.0, seen.n)
    return replace(seen, num=num, second=(num, num, squares) if seen.second is None else seen.second)


def edge_below(side: Buckets, share: float) -> float | None:
    """The lower edge of the bucket that holds a quantile; its upper one where that is the first bucket."""
    if not len(side.count) or side.count.sum() <= 0:
        return None
    found = bracket(side.lower, side.upper, side.count, share)
    edge = found.lower if found.lower > 0 else found.upper
    return edge if math.isfinite(edge) else None


def over(side: Buckets, edge: float) -> Sums | None:
    """The observations over an edge as the numerator of a ratio; rows whose histogram lacks the edge are left out.

    None if no row has it.
    """
    straddled = add_up(side.row, ((side.lower < edge) & (side.upper > edge)).astype(np.float64), len(side.seen.den)) > 0
    num = add_up(side.row, np.where(side.lower >= edge, side.count, 0.0), len(side.seen.den))
    kept = replace(side.seen, num=num, second=None).where(~straddled)
    return kept if len(kept.den) else None
