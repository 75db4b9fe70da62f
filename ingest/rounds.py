"""The number of rounds R behind a spec record, which prints everything but R.

Every printed figure is a rounding of an exact one, so R is one of the integers for which all of them round right:

- the length ``1 + C/R`` (``C/R`` in 0.8.5) to two decimals;
- the rates by position ``C_i/R`` to three decimals, for integers C_i that add up to C;
- ``D/K <= R <= D``, for a round proposes between one and K tokens.

The last gives way where nothing else fits: a round whose whole draft was voided is in R and not in D. vLLM rounds the
binary quotient, half to even; a quotient that lies exactly between two printed values is decided by printing it. All
other arithmetic is on integers, one element a record.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

ABSENT = -1
"""A figure that was not printed, or printed as nan; a result that is not known."""
_MOST = 1 << 40
"""No window holds more rounds; products with it stay below 2**63."""
_STEPS = 4_096
"""Candidates tried from either end of a range: for rates of 24 positions the ends of a range are never further off."""
_LENGTH_WIDTH, _RATE_WIDTH = 0.01, 0.001
"""What the length and the rates are rounded to."""


@dataclass(frozen=True)
class SpecFigures:
    """What spec records print; arrays of one length, ABSENT where a figure is missing."""

    accepted: Integers
    drafted: Integers
    length: Integers
    """Mean acceptance length, in hundredths."""
    bonus: Booleans
    """Whether the length counts the bonus token (all wordings but 0.8.5)."""
    rates: Integers
    """Rates by position in thousandths, one row a record, as many columns as the longest has."""
    draft_limit: Integers
    """K where it is known from elsewhere."""

    def of(self, rows: Booleans) -> SpecFigures:
        """The figures of some of the records."""
        if rows.all():
            return self
        return SpecFigures(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})


@dataclass(frozen=True)
class Rounds:
    """R of spec records with its bounds; ABSENT where unknown."""

    best: Integers
    least: Integers
    most: Integers


def recover_rounds(figures: SpecFigures) -> Rounds:
    """R of each record, and the least and greatest R for which every printed figure rounds right.

    The best estimate is D/K where that fits; else the fitting integer nearest to where length and rates, each weighted
    by the width of its rounding, are met with the least squared error; D/K rounded up where neither was printed. It is
    ABSENT where K is unknown as well, where no R fits (the bounds are then those of D and K), and where nothing was
    drafted: no rounds if the length is nan, else at least one, each with its whole draft voided.
    """
    count = len(figures.accepted)
    limit = np.maximum(figures.draft_limit, (figures.rates != ABSENT).sum(axis=1))
    floor = np.where(limit > 0, -(-figures.drafted // np.maximum(limit, 1)), 1)
    ceiling = np.maximum(figures.drafted, 1)
    least, most, best = floor.copy(), ceiling.copy(), np.full(count, ABSENT)
    printed = figures.length != ABSENT
    open_ = figures.drafted > 0
    for top, with_rates in ((ceiling, True), (np.full(count, _MOST), True), (ceiling, False)):
        rows = np.flatnonzero(open_)
        if not len(rows):
            break
        some = figures.of(open_)
        if not with_rates:
            some = _without_rates(some)
        low, high = _range(some, floor[rows], top[rows])
        fits = (low <= high) & (high < _MOST)
        least[rows[fits]], most[rows[fits]] = low[fits], high[fits]
        best[rows[fits]] = _best(some.of(fits), limit[rows[fits]], low[fits], high[fits])
        open_[rows[fits]] = False
    best[(limit <= 0) & ~printed] = ABSENT
    nothing = figures.drafted <= 0
    best[nothing], most[nothing] = ABSENT, ABSENT
    least[nothing] = np.where(printed[nothing], 1, ABSENT)
    return Rounds(best, least, most)


def _without_rates(figures: SpecFigures) -> SpecFigures:
    """For builds whose rates do not add up to C."""
    return SpecFigures(
        figures.accepted,
        figures.drafted,
        figures.length,
        figures.bonus,
        np.full_like(figures.rates, ABSENT),
        figures.draft_limit,
    )


def _range(figures: SpecFigures, floor: Integers, ceiling: Integers) -> tuple[Integers, Integers]:
    """The least and greatest fitting R between floor and ceiling; least > greatest where there is none."""
    accepted = figures.accepted
    low, high = floor.copy(), ceiling.copy()
    ratio = _length_ratio(figures)
    printed = figures.length != ABSENT
    low = np.where(printed, np.maximum(low, _up(200 * accepted, 2 * ratio + 1)), low)
    high = np.where(printed & (ratio > 0), np.minimum(high, 200 * accepted // np.maximum(2 * ratio - 1, 1)), high)
    # Necessary for the sum of C_i to be C; a rate of 0.000 adds nothing before R reaches 1000.
    there = figures.rates != ABSENT
    whole = _all_positions(figures)
    doubled = np.where(there, 2 * figures.rates, 0)
    low_sum = np.where(figures.rates > 0, doubled - 1, 0).sum(axis=1)
    high_sum = np.where(there, doubled + 1, 0).sum(axis=1)
    high_sum_small = np.where(figures.rates > 0, doubled + 1, 0).sum(axis=1)
    high = np.where(low_sum > 0, np.minimum(high, 2000 * accepted // np.maximum(low_sum, 1)), high)
    small = np.where(high_sum_small > 0, _up(2000 * accepted, np.maximum(high_sum_small, 1)), _MOST)
    large = np.maximum(_up(2000 * accepted, np.maximum(high_sum, 1)), 1000)
    low = np.where(whole & (accepted > 0), np.maximum(low, np.minimum(small, large)), low)
    low = _first_fitting(figures, low, high, 1)
    wide = high > low
    if wide.any():
        high[wide] = _first_fitting(figures.of(wide), high[wide], low[wide], -1)
    return low, high


def _first_fitting(figures: SpecFigures, start: Integers, stop: Integers, step: int) -> Integers:
    """The first R from start towards stop that fits; beyond stop where none does."""
    value = start.copy()
    searching = np.flatnonzero((stop - start) * step >= 0)
    beyond = np.where(step > 0, np.maximum(start, stop) + 1, np.minimum(start, stop) - 1)
    for _ in range(_STEPS):
        if not len(searching):
            return value
        mask = np.zeros(len(value), dtype=np.bool_)
        mask[searching] = True
        missed = searching[~_fits(figures.of(mask), value[searching])]
        value[missed] += step
        searching = missed[(stop[missed] - value[missed]) * step >= 0]
    value[searching] = beyond[searching]
    return value


def _fits(figures: SpecFigures, rounds: Integers) -> Booleans:
    """Whether every printed figure rounds right for R."""
    accepted = figures.accepted
    ratio = _length_ratio(figures)
    above, below = rounds * (2 * ratio + 1) - 200 * accepted, 200 * accepted - rounds * (2 * ratio - 1)
    fits: Booleans = (figures.length == ABSENT) | ((ratio >= 0) & (above >= 0) & (below >= 0))
    for row in np.flatnonzero((figures.length != ABSENT) & fits & ((above == 0) | (below == 0))).tolist():
        quotient = int(accepted[row]) / int(rounds[row])
        shown = f"{1 + quotient if figures.bonus[row] else quotient:.2f}"
        fits[row] = shown == f"{int(figures.length[row]) / 100:.2f}"
    there = figures.rates != ABSENT
    scaled = rounds[:, None] * (2 * figures.rates)
    least, over = np.divmod(scaled - rounds[:, None] + 1999, 2000)
    most, under = np.divmod(scaled + rounds[:, None], 2000)
    for rows, bound, step in ((over == 1999, least, 1), (under == 0, most, -1)):
        # C_i/R lies exactly between two printed rates.
        for row, column in np.argwhere(rows & there & fits[:, None]).tolist():
            shown = f"{int(bound[row, column]) / int(rounds[row]):.3f}"
            if shown != f"{int(figures.rates[row, column]) / 1000:.3f}":
                bound[row, column] += step
    least = np.where(there, np.maximum(least, 0), 0)
    most = np.where(there, np.minimum(most, rounds[:, None]), 0)
    enough = (most.sum(axis=1) >= accepted) | ~_all_positions(figures)
    fits &= (least <= most).all(axis=1) & (~there.any(axis=1) | ((least.sum(axis=1) <= accepted) & enough))
    return fits


def _best(figures: SpecFigures, limit: Integers, low: Integers, high: Integers) -> Integers:
    """The best estimate between two fitting integers."""
    best = low.copy()
    wide = high > low
    if wide.any():
        best[wide] = _best_of_many(figures.of(wide), limit[wide], low[wide], high[wide])
    return best


def _best_of_many(figures: SpecFigures, limit: Integers, low: Integers, high: Integers) -> Integers:
    by_limit = figures.drafted // np.maximum(limit, 1)
    whole = (limit > 0) & (figures.drafted % np.maximum(limit, 1) == 0) & (by_limit >= low) & (by_limit <= high)
    whole[whole] = _fits(figures.of(whole), by_limit[whole])
    count = (figures.rates != ABSENT).sum(axis=1)
    length_weight = np.where(figures.length != ABSENT, _LENGTH_WIDTH**-2, 0.0)
    rate_weight = np.where(_all_positions(figures), _RATE_WIDTH**-2 / np.maximum(count, 1), 0.0)
    summed = np.where(figures.rates != ABSENT, figures.rates, 0).sum(axis=1) / 1000
    weight = length_weight + rate_weight
    mean = (length_weight * _length_ratio(figures) / 100 + rate_weight * summed) / np.where(weight > 0, weight, 1.0)
    nearest = np.where(mean > 0, np.rint(figures.accepted / np.where(mean > 0, mean, 1.0)), low)
    best = np.clip(nearest, low, high).astype(np.int64)
    up, down = _first_fitting(figures, best, high, 1), _first_fitting(figures, best, low, -1)
    best = np.where((up <= high) & ((up - best <= best - down) | (down < low)), up, np.maximum(down, low))
    return np.where(whole, by_limit, best)


def _length_ratio(figures: SpecFigures) -> Integers:
    """C/R as printed in hundredths."""
    return np.asarray(figures.length - np.where(figures.bonus, 100, 0), dtype=np.int64)


def _all_positions(figures: SpecFigures) -> Booleans:
    """Whether the rates of all K positions were printed, so that their counts add up to C."""
    count = (figures.rates != ABSENT).sum(axis=1)
    return np.asarray((count > 0) & (count >= figures.draft_limit), dtype=np.bool_)


def _up(numerator: Integers, denominator: Integers) -> Integers:
    """The quotient rounded up; the denominator is positive where the result is used."""
    return -(-numerator // np.maximum(denominator, 1))
