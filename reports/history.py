"""The nightly series of the candidate's deployments: levels, change points, and drift inside a process life.

A night's level is its numerator over the one expected from its own mix of strata at the ratios of all nights together,
times the pooled ratio, so that a shift of the mix moves nothing.

Algorithm, change points: the cut of ln(level) into segments of constant level with the least sum of squares over the
noise, plus a penalty for each cut (optimal partitioning). The noise is the median step from night to night, which a few
changes of level do not move; the penalty is what chance would not reach at any place, with probability CHANGE_P.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ..schemas.config import LoadBand
from ..schemas.measures import MEASURES
from .cells_read import Frame
from .interval import around, critical, t_quantile, t_tail
from .model import Night, Verdict
from .selection import Night as Partition
from .selection import Selection, Selector
from .strata import Strata, stratify
from .sums import Sums, add_up, divide

MEASURED = ("acceptance_length", "effective_length", "round_time_ms", "tpot_ms")
MOST_NIGHTS = 60
"""Nights that are looked back on: longer than any drafter stays unchanged."""
LEAST_NIGHTS = 6
"""Nights that a series must have before a change can be told from chance."""
LEAST_SEGMENT = 3
"""Nights on either side of a change: one odd night is no new level."""
CHANGE_P = 0.01
"""Probability that a series without a change is cut."""
MEDIAN_STEP = 0.6745 * math.sqrt(2)
"""Median absolute difference of two values with a standard deviation of 1."""
ODD = 3.0
"""Standard deviations from the nights around it beyond which one night is odd, and counts for no more than this."""
LEAST_NOISE = 1e-3
"""Nights that agree better than this agree by chance."""
LEAST_CHANGE = 0.01
"""Relative change of level that is worth naming."""
LEAST_DRIFT_HOURS = 24
DRIFT_P = 0.01
LEAST_DRIFT = 0.03
"""Relative change of acceptance over a process life that is worth naming."""
EPOCH = dt.date(1970, 1, 1)


@dataclass(frozen=True)
class Level:
    """One night's level of a measure, with the standard error of its logarithm."""

    date: dt.date
    value: float
    error: float | None
    units: int

    @property
    def interval(self) -> tuple[float, float] | None:
        if self.error is None:
            return None
        lower, upper = around(self.value, critical(self.units - 1) * self.error)
        return None if upper is None else (lower, upper)


@dataclass(frozen=True)
class Drift:
    """How acceptance moved with the age of the process."""

    per_day: float
    """Relative change per day of life."""
    over_life: float
    """Relative change over the longest life seen."""
    p_value: float
    hours: int


@dataclass(frozen=True)
class History:
    """The nights of one deployment, and its drift where there is one."""

    deployment: str
    nights: tuple[Night, ...]
    drift: Drift | None


def looked_back_on(selector: Selector, last: Mapping[str, dt.date]) -> list[Selection]:
    """The nights of each deployment up to its last one, of those that have LEAST_NIGHTS; by deployment."""
    sides = []
    for deployment, date in sorted(last.items()):
        mine = [night for night in selector.nights if night.deployment == deployment and night.date <= date]
        if len(mine) >= LEAST_NIGHTS:
            sides.append(Selection(f"history of {deployment}", tuple(mine[-MOST_NIGHTS:])))
    return sides


def look_back(
    frame: Frame,
    side: Selection,
    starts: Sequence[dt.datetime],
    bands: Sequence[LoadBand],
    *,
    compared: Selection,
    judged: Mapping[str, Verdict],
) -> History:
    """The history of one deployment, overall and by load band, from the course of its nights.

    ``starts`` are those of its processes; ``compared`` is the baseline; ``judged`` are the overall verdicts on its last
    night by measure.
    """
    (deployment,), last = side.deployments, side.nights[-1].date
    strata = stratify(frame.observed(), frame.observed(), bands)
    used = frozenset(compared.nights)
    found: list[Night] = []
    for measure in MEASURED:
        for band in (None, *dict.fromkeys(key.load_band for key in strata.keys)):
            levels = nightly_levels(frame, strata, measure, band)
            found += [
                replace(
                    night,
                    load_band=band or "all",
                    judged=judged.get(measure) if band is None and level.date == last else None,
                    used=Partition(level.date, deployment) in used,
                )
                for night, level in zip(as_nights(measure, deployment, levels), levels, strict=True)
            ]
    return History(deployment, tuple(found), drift(frame, strata, starts))


def as_nights(measure: str, deployment: str, levels: Sequence[Level]) -> list[Night]:
    """The levels of a measure as nights of a deployment, marked where a new level begins."""
    changes = change_points([math.log(level.value) for level in levels])
    return [
        Night(
            measure,
            deployment,
            level.date.isoformat(),
            level.value,
            level.interval,
            change_point=number in changes,
        )
        for number, level in enumerate(levels)
    ]


def nightly_levels(frame: Frame, strata: Strata, measure: str, band: str | None) -> list[Level]:
    """The level of each night that has the measure, by date."""
    stratum = frame.strata(strata)
    if f"{measure}.den" not in frame.columns:
        return []
    side = frame.sums(measure, stratum, strata.in_band(band)[stratum] & (frame.columns[f"{measure}.den"] > 0))
    if not len(side.den):
        return []
    expected = _expected(side, len(strata.keys))
    pooled = MEASURES[measure].scale * float(side.num.sum() / side.den.sum())
    dates, night = np.unique(side.night, return_inverse=True)
    totals = add_up(night, side.num, len(dates)), add_up(night, expected, len(dates))
    level = divide(*totals)
    home = np.zeros(side.units, dtype=np.int64)
    home[side.unit] = night
    residual = side.by_unit(side.num) - level[home] * side.by_unit(expected)
    squares, units = add_up(home, residual**2, len(dates)), add_up(home, np.ones(side.units), len(dates))
    found = []
    for index, date in enumerate(dates):
        if level[index] <= 0:
            continue
        error = None
        if units[index] >= 2:
            spread = squares[index] * units[index] / (units[index] - 1)
            error = math.sqrt(spread) / totals[1][index] / level[index]
        found.append(
            Level(EPOCH + dt.timedelta(days=int(date)), pooled * float(level[index]), error, int(units[index]))
        )
    return found


def _expected(side: Sums, strata: int) -> np.ndarray:
    ratio = divide(side.by_stratum(side.num, strata), side.by_stratum(side.den, strata))
    return side.den * ratio[side.stratum]


def change_points(values: Sequence[float]) -> set[int]:
    """Positions at which a new level begins, in a series of logarithms."""
    n = len(values)
    if n < LEAST_NIGHTS:
        return set()
    series = np.asarray(values, dtype=np.float64)
    steps = np.abs(np.diff(series))
    noise = max(float(np.median(steps)) / MEDIAN_STEP, LEAST_NOISE)
    ends = [np.median(series[: i + 3]) for i in (0, 1)], [np.median(series[i - 2 :]) for i in (n - 2, n - 1)]
    near = np.concatenate((ends[0], np.median(sliding_window_view(series, 5), axis=1), ends[1]))
    clipped = near + np.clip(series - near, -ODD * noise, ODD * noise)
    scaled = (clipped - clipped.mean()) / noise
    sums, squares = (np.concatenate(([0.0], np.cumsum(column))) for column in (scaled, scaled**2))
    penalty = t_quantile(1 - CHANGE_P / (2 * n), n / 2) ** 2
    best, origin = np.full(n + 1, math.inf), np.zeros(n + 1, dtype=np.int64)
    best[0] = -penalty
    for end in range(LEAST_SEGMENT, n + 1):
        start = np.arange(end - LEAST_SEGMENT + 1)
        inside = squares[end] - squares[start] - (sums[end] - sums[start]) ** 2 / (end - start)
        cost = best[start] + inside + penalty
        origin[end] = np.argmin(cost)
        best[end] = cost[origin[end]]
    bounds = [n]
    while bounds[-1] > 0:
        bounds.append(int(origin[bounds[-1]]))
    edges = bounds[::-1]
    means = [float(clipped[start:end].mean()) for start, end in itertools.pairwise(edges)]
    return {
        place
        for place, (before, after) in zip(edges[1:-1], itertools.pairwise(means), strict=True)
        if abs(math.expm1(after - before)) >= LEAST_CHANGE
    }


def drift(frame: Frame, strata: Strata, starts: Sequence[dt.datetime]) -> Drift | None:
    """Whether acceptance moves with the age of the process; None where it cannot be told or does not.

    The slope of ln(level) on age is fitted over hours, with a level of its own for each life (from one of ``starts`` to
    the next); nights are the units of its error.
    """
    stratum = frame.strata(strata)
    rows = frame.columns["acceptance_length.den"] > 0
    side = frame.sums("acceptance_length", stratum, rows)
    if side.units < LEAST_DRIFT_HOURS or not starts:
        return None
    hour = np.zeros(side.units, dtype=np.int64)
    hour[side.unit] = frame.hour[rows]
    begun = np.array(sorted((start - dt.datetime(1970, 1, 1)).total_seconds() / 3600 for start in starts))
    life = np.searchsorted(begun, hour + 0.5, side="right") - 1
    level = divide(side.by_unit(side.num), side.by_unit(_expected(side, len(strata.keys))))
    usable = (life >= 0) & (level > 0)
    if usable.sum() < LEAST_DRIFT_HOURS:
        return None
    age = (hour + 0.5 - begun[np.maximum(life, 0)]) / 24
    weight = side.by_unit(side.den)
    return _slope(np.log(level[usable]), age[usable], weight[usable], life[usable], hour[usable] // 24)


def _slope(
    log_level: np.ndarray, age: np.ndarray, weight: np.ndarray, life: np.ndarray, night: np.ndarray
) -> Drift | None:
    _, group = np.unique(life, return_inverse=True)
    groups = int(group.max()) + 1
    total = np.bincount(group, weight, groups)
    x = age - (np.bincount(group, weight * age, groups) / total)[group]
    y = log_level - (np.bincount(group, weight * log_level, groups) / total)[group]
    moment = float((weight * x * x).sum())
    nights = len(np.unique(night))
    if moment <= 0 or nights < LEAST_SEGMENT + groups:
        return None
    slope = float((weight * x * y).sum()) / moment
    scores = np.bincount(np.unique(night, return_inverse=True)[1], weight * x * (y - slope * x))
    error = math.sqrt(float((scores**2).sum()) * nights / (nights - 1)) / moment
    p = 2 * t_tail(abs(slope) / error, nights - groups) if error > 0 else 0.0
    span = max(float(np.ptp(age[life == one])) for one in np.unique(life))
    over_life = math.expm1(slope * span)
    if p >= DRIFT_P or abs(over_life) < LEAST_DRIFT:
        return None
    return Drift(math.expm1(slope), over_life, p, len(age))
