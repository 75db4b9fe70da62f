"""Intervals and what follows from them: t quantiles, one-sided p values, detectable changes.

Everything here is on the scale on which an estimate is close to normal: ln(candidate / baseline) for relative changes,
plain differences otherwise.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

CONFIDENCE = 0.95
"""Two-sided level of every interval."""
POWER = 0.80
"""Detectable is the true change that would be seen in this share of repetitions."""
MIN_UNITS = 8
"""Below this many units on a side the variance itself is a guess: no verdict but inconclusive."""
NO_EVENT_BOUND = -math.log((1 - CONFIDENCE) / 2)
"""Events that zero seen ones cannot exclude (two-sided 95 %, exact for Poisson counts): 3.69."""
LARGEST_LOG = math.log(sys.float_info.max)


@lru_cache(maxsize=4096)
def t_quantile(probability: float, df: float) -> float:
    """The t quantile; the normal one for infinite ``df``."""
    from scipy import special

    return float(special.ndtri(probability) if math.isinf(df) else special.stdtrit(df, probability))


def t_tail(value: float, df: float) -> float:
    """P(t > value)."""
    from scipy import special

    return float(special.ndtr(-value) if math.isinf(df) else special.stdtr(df, -value))


def critical(df: float) -> float:
    """Half-width of the two-sided interval in standard errors."""
    return t_quantile((1 + CONFIDENCE) / 2, df)


def event_floor(quantum: float) -> float:
    """Smallest standard error of a sum that counts events of this size.

    Chosen so that zero events give the exact Poisson bound: a linearised variance of zero is no certainty.
    """
    return quantum * NO_EVENT_BOUND / t_quantile((1 + CONFIDENCE) / 2, math.inf)


def detectable(standard_error: float, df: float) -> float:
    """Smallest true change whose interval would leave out zero with probability POWER, on the scale of the error."""
    return (critical(df) + t_quantile(POWER, df)) * standard_error


def satterthwaite(terms: Sequence[tuple[float, float]]) -> float:
    """Degrees of freedom of a sum of variances, each with its own; infinite for a sum of zero."""
    total = sum(variance for variance, _ in terms)
    spread = sum(variance * variance / df for variance, df in terms if df > 0)
    return total * total / spread if spread > 0 else math.inf


def upper_bound(successes: float, trials: float, level: float = CONFIDENCE) -> float:
    """One-sided Clopper–Pearson upper bound of a share; 1 without trials."""
    from scipy import special

    if trials <= 0 or successes >= trials:
        return 1.0
    return float(special.betaincinv(successes + 1, trials - successes, level))


def lower_bound(successes: float, trials: float, level: float = CONFIDENCE) -> float:
    """One-sided Clopper–Pearson lower bound of a share; 0 without successes."""
    return 1.0 - upper_bound(trials - successes, trials, level)


@dataclass(frozen=True)
class Sided:
    """What one side of an estimate rests on."""

    figure: float | None
    """Over all strata, unweighted, in the unit of the measure."""
    standardized: float | None
    """Over the common strata at the baseline's weights."""
    numerator: float | None = None
    denominator: float | None = None
    """Sums over the common strata, in the units of the cells."""
    variance: float | None = None
    """Of this side's part of the change, on the scale of the change."""
    units: int = 0
    strata: int = 0
    nights: int = 0
    bounds: tuple[float, float | None] | None = None


@dataclass(frozen=True)
class Estimate:
    """A change with its interval, or the reason why there is none."""

    baseline: Sided
    candidate: Sided
    method: str
    unit: str | None = None
    change: float | None = None
    """On the reported scale: relative, or a difference."""
    interval: tuple[float, float | None] | None = None
    error: float | None = None
    """Standard error towards the bad side, on the ln scale (plain for differences)."""
    df: float | None = None
    between_night: float | None = None
    """Between-night variance of one night; None where it was not estimated."""
    common_share: float | None = None
    slack: float = 0.0
    """Added to the half-width on the ln scale."""
    effect_within: float | None = None
    effect_total: float | None = None
    relative: bool = True
    problem: str | None = None
    """Code of what keeps an interval from being made: no_baseline, no_candidate, common_share, few_units, …"""

    def scale(self, change: float) -> float:
        """A change on the scale on which ``error`` is."""
        return math.log1p(change) if self.relative else change


def relative_interval(log_change: float, error: float, df: float, slack: float = 0.0) -> tuple[float, float | None]:
    """exp(x) − 1 of log_change ± t · error, ``slack`` wider on both sides; no upper end where it is no number."""
    width = critical(df) * error + slack
    upper = log_change + width
    return math.expm1(log_change - width), math.expm1(upper) if upper < LARGEST_LOG else None


def around(value: float, half: float) -> tuple[float, float | None]:
    """``value`` times exp(∓half); no upper end where it is no number."""
    upper = math.log(value) + half if value > 0 else -math.inf
    return value * math.exp(-half), value * math.exp(half) if max(upper, half) < LARGEST_LOG else None


def p_not_worse(estimate: Estimate, tolerance: float) -> float | None:
    """One-sided p of «the change is not worse than the tolerance»; the tolerance's sign is that of the bad side."""
    if estimate.change is None or estimate.error is None or estimate.df is None:
        return None
    if estimate.relative and (estimate.change <= -1 or tolerance <= -1):
        return None
    beyond = (estimate.scale(estimate.change) - estimate.scale(tolerance)) * math.copysign(1.0, tolerance)
    if estimate.error <= 0:
        return 0.0 if beyond > 0 else 1.0
    return t_tail(beyond / estimate.error, estimate.df)
