"""Ratios are compared at the baseline's weights, with intervals that a bootstrap agrees with."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from specledger.reports.interval import Estimate, critical, relative_interval, satterthwaite
from specledger.reports.nights import MIN_NIGHTS, Between
from specledger.reports.ratio import RatioRule, compare
from specledger.reports.sums import Sums, Vector
from specledger.reports.variance import Shared
from tests.reports import drawn

RELATIVE = RatioRule()


def rows(*given: tuple[int, int, float, float], n: float = 10.0) -> Sums:
    """(unit, stratum, numerator, denominator) each, all in one night."""
    unit, stratum, num, den = (np.array(column) for column in zip(*given, strict=True))
    return Sums(unit, np.zeros(len(unit), int), stratum, num.astype(float), den.astype(float), np.full(len(unit), n))


def hours(ratio_by_stratum: dict[int, float], count: int = 10, den: float = 100.0) -> Sums:
    """``count`` equal hours."""
    return rows(*((hour, s, ratio * den, den) for hour in range(count) for s, ratio in ratio_by_stratum.items()))


def ends(estimate: Estimate) -> tuple[float, float]:
    assert estimate.interval is not None
    assert estimate.interval[1] is not None
    return estimate.interval[0], estimate.interval[1]


def test_weights_are_the_baselines_and_the_mix_is_told_apart() -> None:
    before = rows(*((h, 0, 320, 100) for h in range(9)), *((h, 1, 20, 10) for h in range(9)))
    after = rows(*((h, 0, 32, 10) for h in range(9)), *((h, 1, 200, 100) for h in range(9)))
    found = compare(before, after, 2, "hour", RELATIVE)
    assert found.change == pytest.approx(0)
    assert found.effect_within == pytest.approx(0)
    assert found.effect_total == pytest.approx((232 / 110) / (340 / 110) - 1)
    assert found.baseline.figure == pytest.approx(340 / 110)
    assert found.candidate.standardized == pytest.approx(340 / 110)


def test_a_stratum_of_one_side_is_left_out_and_lowers_the_common_share() -> None:
    before = hours({0: 2.0, 1: 9.0}, den=100.0)
    found = compare(before, hours({0: 2.2, 2: 50.0}), 3, "hour", RELATIVE)
    assert found.common_share == pytest.approx(0.5)
    assert found.change == pytest.approx(0.1)
    assert found.problem is None


def test_less_than_half_in_common_is_no_comparison() -> None:
    before = rows(*((h, 0, 2, 1) for h in range(9)), *((h, 1, 2.2, 1.1) for h in range(9)))
    found = compare(before, hours({0: 2.0}), 2, "hour", RELATIVE)
    assert found.common_share == pytest.approx(1 / 2.1)
    assert (found.problem, found.change, found.interval) == ("common_share", None, None)


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        (hours({0: 2.0}, den=0.0), hours({0: 2.0}), "no_baseline"),
        (hours({0: 2.0}), hours({0: 2.0}, den=0.0), "no_candidate"),
        (hours({0: 2.0}, den=0.0), hours({0: 2.0}, den=0.0), "no_data"),
    ],
)
def test_a_side_without_data_has_no_ratio(before: Sums, after: Sums, problem: str) -> None:
    found = compare(before, after, 1, "hour", RELATIVE)
    assert found.problem == problem
    assert found.interval is None


def test_events_count_where_nothing_that_they_are_divided_by_fell_together_with_them() -> None:
    quiet = rows(*((hour, 0, 0.0, 100.0) for hour in range(9)), *((hour, 1, 0.0, 50.0) for hour in range(9)))
    events = rows(*((hour, 0, 0.0, 100.0) for hour in range(9)), *((hour, 1, 4.0, 0.0) for hour in range(9)))
    found = compare(quiet, events, 2, "hour", RELATIVE)
    assert (found.baseline.figure, found.candidate.figure) == (0.0, pytest.approx(0.04))
    assert found.common_share == pytest.approx(2 / 3)
    only = compare(rows((0, 0, 4.0, 0.0)), events, 2, "hour", RELATIVE)
    assert (only.baseline.figure, only.problem) == (None, "no_baseline")


def test_seven_hours_are_too_few_to_judge_by() -> None:
    assert compare(hours({0: 2.0}, 7), hours({0: 2.0}, 20), 1, "hour", RELATIVE).problem == "few_units"
    assert compare(hours({0: 2.0}, 8), hours({0: 2.0}, 8), 1, "hour", RELATIVE).problem is None


def test_the_interval_of_one_stratum_is_that_of_the_textbook() -> None:
    rng = np.random.default_rng(1)
    den = [rng.uniform(50, 150, 12), rng.uniform(50, 150, 12)]
    num = [d * rng.normal(2.0, 0.1, 12) for d in den]
    sides = [rows(*((h, 0, n[h], d[h]) for h in range(12))) for n, d in zip(num, den, strict=True)]
    variance = 0.0
    for n, d in zip(num, den, strict=True):
        ratio = n.sum() / d.sum()
        residual = (n - ratio * d) / np.sqrt(1 - d / d.sum())
        variance += (residual**2).sum() / n.sum() ** 2
    found = compare(sides[0], sides[1], 1, "hour", RELATIVE)
    assert found.error == pytest.approx(math.sqrt(variance))
    assert found.df is not None
    log = math.log(num[1].sum() / den[1].sum()) - math.log(num[0].sum() / den[0].sum())
    half = critical(found.df) * math.sqrt(variance)
    assert ends(found) == pytest.approx((math.expm1(log - half), math.expm1(log + half)))
    assert 9 < found.df < 22  # between the lesser side alone and both together


def test_an_interval_wider_than_any_number_has_no_upper_end() -> None:
    """A night of one unit has next to no degrees of freedom, and its t quantile is beyond all bounds."""
    assert relative_interval(0.1, 1.0, 0.2) == (-1.0, None)
    assert relative_interval(0.1, 1.0, math.inf)[1] == pytest.approx(math.expm1(0.1 + critical(math.inf)))


def test_a_stratum_that_hangs_on_one_unit_is_not_taken_for_certain() -> None:
    before = hours({0: 2.0, 1: 3.0}, 10)
    steady = [(h, 0, 200.0, 100.0) for h in range(10)]
    certain = compare(before, rows(*steady, *((h, 1, 30.0, 10.0) for h in range(10))), 2, "hour", RELATIVE)
    one = compare(before, rows(*steady, (0, 1, 400.0, 100.0)), 2, "hour", RELATIVE)
    assert certain.error == pytest.approx(0, abs=1e-9)
    assert one.error is not None
    assert one.error > 0.05


@pytest.mark.parametrize("unit", ["hour", "request"])
def test_a_bootstrap_over_the_same_units_gives_the_same_width(unit: str) -> None:
    rng = np.random.default_rng(5)
    sides = [drawn.lengths(rng, per_hour=60 if unit == "hour" else 12) for _ in range(2)]
    if unit == "request":
        sides = [one_request_a_row(rng, side) for side in sides]
    found = compare(sides[0], sides[1], drawn.STRATA, unit, RELATIVE)
    logs = [resampled(rng, *sides) for _ in range(5000)]
    low, high = np.expm1(np.quantile(logs, [0.025, 0.975]))
    width = ends(found)[1] - ends(found)[0]
    assert width == pytest.approx(high - low, rel=0.10)


def one_request_a_row(rng: np.random.Generator, side: Sums) -> Sums:
    """Requests that are rows of their own: what a bootstrap can resample and moments must match."""
    count = side.n.astype(int)
    stratum = side.stratum.repeat(count)
    den = rng.poisson(30, len(stratum)) + 1.0
    num = den + den * (drawn.BASE[stratum] - 1) * rng.gamma(8, 1 / 8, len(stratum))
    unit = np.arange(len(stratum))
    ones = np.ones(len(stratum))
    return Sums(unit, unit * 0, stratum, num, den, ones, (num**2, num * den, den**2))


def test_requests_that_share_their_rounds_are_not_taken_for_independent() -> None:
    """Eight requests at a time through the same rounds: the mean time of a round is as uncertain as that of one."""
    rng = np.random.default_rng(8)
    together, rounds = 8, 30

    def side(groups: int) -> Sums:
        time = rng.normal(20.0, 2.0, (groups, rounds)).sum(axis=1).repeat(together)
        unit, ones = np.arange(len(time)), np.ones(len(time))
        return Sums(unit, unit * 0, unit * 0, time, ones * rounds, ones, (time**2, time * rounds, ones * rounds**2))

    rule = replace(RELATIVE, shared=Shared(np.array([float(together)])))
    found = [compare(side(40), side(40), 1, "request", rule) for _ in range(300)]
    covered = sum(low <= 0 <= high for low, high in map(ends, found))
    assert 274 <= covered <= 296  # 95 % of 300 is 285; three standard errors are 11
    alone = compare(side(40), side(40), 1, "request", RELATIVE)
    assert (alone.error or 0) < 0.5 * (found[0].error or 0)


def test_what_requests_do_not_share_counts_once() -> None:
    """Eight requests at a time through rounds that take the same time for all, with an acceptance of each one's own."""
    rng = np.random.default_rng(9)
    together, rounds, groups = 8, 30, 40

    def side() -> tuple[Sums, Vector]:
        time = rng.normal(20.0, 1.0, (groups, rounds)).sum(axis=1).repeat(together)
        tokens = rng.normal(60.0, 6.0, len(time))
        unit, ones = np.arange(len(time)), np.ones(len(time))
        sums = Sums(unit, unit * 0, unit * 0, time, tokens, ones, (time**2, time * tokens, tokens**2))
        return sums, np.array([((time - time.mean()) ** 2).sum()])

    found, cautious = [], []
    for _ in range(300):
        (before, scatter), (after, scatter_after) = side(), side()
        shared = Shared(np.array([float(together)]), (scatter, scatter_after))
        found.append(compare(before, after, 1, "request", replace(RELATIVE, shared=shared)))
        cautious.append(compare(before, after, 1, "request", replace(RELATIVE, shared=replace(shared, scatter=None))))
    covered = sum(low <= 0 <= high for low, high in map(ends, found))
    assert 274 <= covered <= 296
    assert np.mean([one.error or 0 for one in found]) < 0.5 * np.mean([one.error or 0 for one in cautious])


def resampled(rng: np.random.Generator, before: Sums, after: Sums) -> float:
    """ln(T / B) of one bootstrap draw of the units of both sides; strata lost in a draw are left out of both."""
    totals = []
    for side in (before, after):
        drawn_units = np.bincount(rng.integers(0, side.units, side.units), minlength=side.units)[side.unit]
        totals.append([np.bincount(side.stratum, c * drawn_units, drawn.STRATA) for c in (side.num, side.den)])
    (num_b, den_b), (num_c, den_c) = totals
    both = (den_b > 0) & (den_c > 0)
    weight = den_b[both] / den_b[both].sum()
    return math.log((weight * num_c[both] / den_c[both]).sum() / (num_b[both].sum() / den_b[both].sum()))


@pytest.mark.parametrize(
    ("nights", "unit", "options"),
    [
        (1, "hour", {"per_hour": 40.0}),
        (1, "request", {"per_hour": 20.0, "hours": 8, "hour_sd": 0.0}),
        (7, "hour", {"per_hour": 30.0, "night_sd": 0.005}),
    ],
)
def test_the_interval_covers_the_truth_as_often_as_it_says(nights: int, unit: str, options: dict[str, float]) -> None:
    rng = np.random.default_rng(11)
    covered, repetitions = 0, 400
    for _ in range(repetitions):
        before = drawn.lengths(rng, nights, **options)  # type: ignore[arg-type]
        after = drawn.lengths(rng, effect=-0.05, first_night=100, **options)  # type: ignore[arg-type]
        low, high = ends(compare(before, after, drawn.STRATA, unit, RELATIVE))
        covered += low <= -0.05 <= high
    # 95 % of 400 is 380; three standard errors of a true 95 % are 13.
    assert 367 <= covered <= 395


def test_between_night_variance_is_added_from_five_nights_on() -> None:
    rng = np.random.default_rng(2)
    after = drawn.lengths(rng, first_night=100)
    four, five = (
        compare(drawn.lengths(rng, nights, night_sd=0.05), after, drawn.STRATA, "hour", RELATIVE)
        for nights in (MIN_NIGHTS - 1, MIN_NIGHTS)
    )
    assert four.between_night is None
    assert five.between_night == pytest.approx(0.05**2, rel=0.9)
    assert five.df == pytest.approx(MIN_NIGHTS - 1, rel=0.02)
    assert (ends(five)[1] - ends(five)[0]) > 3 * (ends(four)[1] - ends(four)[0])


def test_nights_that_do_not_differ_leave_the_degrees_of_freedom_of_their_hours() -> None:
    alike, unlike = Between(0.0, 1e-4, 7), Between(3e-4, 4e-4, 7)
    hours_alone = [(2e-5, 140.0), (1e-4, 20.0)]
    assert alike.degrees_of_freedom(hours_alone, 1, 1.0) == pytest.approx(satterthwaite(hours_alone))
    spread = 1 / 7 + 1
    inside = sum(variance for variance, _ in hours_alone)
    by_hand = (inside + spread * 3e-4) ** 2 / ((spread * 4e-4) ** 2 / 6 + (2e-5) ** 2 / 140 + (1e-4) ** 2 / 20)
    assert unlike.degrees_of_freedom(hours_alone, 1, 1.0) == pytest.approx(by_hand)


@pytest.mark.parametrize("night_sd", [0.0, 0.002, 0.01])
def test_intervals_over_nights_are_neither_too_narrow_nor_too_wide(night_sd: float) -> None:
    """However much nights differ: the variance inside a night is known well, the one between them from seven nights."""
    rng = np.random.default_rng(17)
    covered, repetitions = 0, 400
    for _ in range(repetitions):
        before, after = (drawn.lengths(rng, nights, per_hour=6.0, night_sd=night_sd) for nights in (7, 1))
        low, high = ends(compare(before, after, drawn.STRATA, "hour", RELATIVE))
        covered += low <= 0 <= high
    # The truth lies between 95 and 97 %; three standard errors of 400 are 3 %.
    assert 368 <= covered <= 399


def test_swapping_the_sides_of_one_stratum_turns_the_logarithm_round() -> None:
    rng = np.random.default_rng(3)
    sides = [replace(side, stratum=side.stratum * 0) for side in (drawn.lengths(rng), drawn.lengths(rng))]
    forth, back = (compare(a, b, 1, "hour", RELATIVE) for a, b in (sides, sides[::-1]))
    assert math.log1p(forth.change or 0) == pytest.approx(-math.log1p(back.change or 0))
    assert forth.error == pytest.approx(back.error or 0)


def test_no_events_are_no_certainty() -> None:
    """0 preemptions in 400 requests on both sides: up to 3.69 on either are not excluded."""
    side = rows(*((h, 0, 0.0, 50.0) for h in range(8)))
    found = compare(side, side, 1, "hour", RatioRule(scale=1000.0, relative=False, quantum=(1.0, 1.0)))
    assert found.change == 0
    assert ends(found)[1] == pytest.approx(math.sqrt(2) * 1000 * 3.69 / 400, rel=0.1)


def test_a_share_that_fell_to_nothing_keeps_an_upper_end() -> None:
    before = rows(*((h, 0, 10.0 + h % 3, 1000.0) for h in range(24)))
    after = rows(*((h, 0, 0.0, 1000.0) for h in range(24)))
    found = compare(before, after, 1, "hour", RatioRule(quantum=(1.0, 1.0)))
    low, high = ends(found)
    assert low == -1.0
    assert -1.0 < high < -0.95


def test_a_baseline_of_zero_has_no_relative_change() -> None:
    zero, some = rows(*((h, 0, 0.0, 10.0) for h in range(9))), hours({0: 1.0}, 9)
    assert compare(zero, some, 1, "hour", RELATIVE).problem == "baseline_zero"
    difference = compare(zero, some, 1, "hour", replace(RELATIVE, relative=False))
    assert difference.change == pytest.approx(1.0)


def test_requests_without_moments_have_no_interval() -> None:
    assert compare(hours({0: 2.0}), hours({0: 2.0}), 1, "request", RELATIVE).problem == "no_moments"


def test_the_order_of_rows_changes_nothing() -> None:
    rng = np.random.default_rng(4)
    before, after = drawn.lengths(rng), drawn.lengths(rng)
    order = rng.permutation(len(after.den))
    second = after.second
    assert second is not None
    shuffled = Sums(
        after.unit[order],
        after.night[order],
        after.stratum[order],
        after.num[order],
        after.den[order],
        after.n[order],
        (second[0][order], second[1][order], second[2][order]),
    )
    straight, mixed = (compare(before, side, drawn.STRATA, "hour", RELATIVE) for side in (after, shuffled))
    assert ends(mixed) == pytest.approx(ends(straight), rel=1e-12)
