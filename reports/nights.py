"""The variance between nights: what differs from one night to the next although nothing was changed.

Algorithm: each baseline night's numerator over the one expected from its own mix of strata; the variance of these over
nights, less what the variance inside nights explains, is that of a night. It is known no better than the variance it
was taken from, which has one degree of freedom less than there are nights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .interval import satterthwaite
from .sums import Sums, Vector, add_up, divide, squared_residuals

MIN_NIGHTS = 5
"""With fewer baseline nights a variance between them is a guess, and is not given."""


@dataclass(frozen=True)
class Between:
    """Variance of one night's relative deviation, and the nights it was estimated from."""

    variance: float
    seen: float
    """Variance of the nights' deviations as seen, what lies inside nights included."""
    nights: int

    def spread(self, candidate_nights: int) -> float:
        """What multiplies the variance of one night in the difference of two means of nights."""
        return 1 / self.nights + 1 / max(1, candidate_nights)

    def degrees_of_freedom(self, inside: Sequence[tuple[float, float]], candidate_nights: int, scale: float) -> float:
        """Those of the variances inside nights, each with its own, and this one times ``scale``, together.

        Where nights differ no more than what lies inside them explains, these alone are left; else there are at least
        as many as nights less one.
        """
        if self.variance <= 0:
            return satterthwaite(inside)
        total = sum(variance for variance, _ in inside) + self.variance * scale * self.spread(candidate_nights)
        known = (self.seen * scale * self.spread(candidate_nights)) ** 2 / (self.nights - 1)
        both = total**2 / (known + sum(variance**2 / df for variance, df in inside))
        return max(both, self.nights - 1.0)


def between_nights(side: Sums, ratio: Vector, *, by_observation: bool) -> Between | None:
    """The between-night variance of a side whose strata have these ratios; None with fewer than MIN_NIGHTS nights."""
    dates, night = np.unique(side.night, return_inverse=True)
    nights = len(dates)
    rate = ratio[side.stratum]
    expected = add_up(night, side.den * rate, nights)
    known = expected > 0
    if known.sum() < MIN_NIGHTS:
        return None
    deviation = divide(add_up(night, side.num, nights), expected)
    if by_observation and side.second is not None:
        squares = add_up(night, squared_residuals(side.second, deviation[night] * rate), nights)
        counts = add_up(night, side.n, nights)
    else:
        home = np.zeros(side.units, dtype=np.int64)  # an hour or a block lies in one night only
        home[side.unit] = night
        residual = side.by_unit(side.num) - deviation[home] * side.by_unit(side.den * rate)
        squares = add_up(home, residual**2, nights)
        counts = add_up(home, np.ones(side.units), nights)
    inside = divide(squares * counts, np.maximum(1.0, counts - 1) * expected**2)
    total = float(np.var(deviation[known], ddof=1))
    return Between(max(0.0, total - float(inside[known].mean())), total, int(known.sum()))
