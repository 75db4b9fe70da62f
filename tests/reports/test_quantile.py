"""Quantiles from histograms: points, Woodruff intervals, and what a bucket edge leaves open."""

from __future__ import annotations

import math

import numpy as np
import pytest

from specledger.reports import buckets, quantile
from specledger.reports.buckets import Buckets, bracket
from specledger.reports.interval import Estimate
from specledger.reports.quantile import GROWTH, Histogram
from specledger.reports.sums import Sums
from tests.reports import drawn

NS_TO_MS = 1e-6


def ends(estimate: Estimate) -> tuple[float, float]:
    assert estimate.interval is not None
    assert estimate.interval[1] is not None
    return estimate.interval[0], estimate.interval[1]


def one_stratum(histogram: Histogram) -> Histogram:
    seen = histogram.seen
    flat = Sums(seen.unit, seen.night, seen.stratum * 0, seen.num, seen.den, seen.n, seen.second)
    return Histogram(histogram.row, histogram.bucket, histogram.count, flat)


@pytest.mark.parametrize("share", [0.5, 0.95, 0.99])
def test_the_point_is_that_of_the_sorted_values_within_a_bucket(share: float) -> None:
    histogram, _, value = drawn.times(np.random.default_rng(1), per_hour=200)
    found = quantile.compare(histogram, histogram, drawn.STRATA, "hour", share, NS_TO_MS)
    assert found.baseline.figure == pytest.approx(np.quantile(value, share) * NS_TO_MS, rel=GROWTH - 1)
    assert found.change == pytest.approx(0)


def test_zeros_lie_in_a_bucket_of_their_own() -> None:
    seen = Sums(np.arange(9), np.zeros(9, int), np.zeros(9, int), np.zeros(9), np.full(9, 10.0), np.full(9, 10.0))
    zeros = Histogram(np.arange(9), np.full(9, -1), np.full(9, 10.0), seen)
    assert quantile.compare(zeros, zeros, 1, "hour", 0.5, 1.0).baseline.figure == pytest.approx(0.5)


def test_a_bootstrap_over_hours_gives_the_same_width() -> None:
    rng = np.random.default_rng(7)
    sides = [drawn.times(rng, per_hour=120) for _ in range(2)]
    found = quantile.compare(*(one_stratum(side[0]) for side in sides), 1, "hour", 0.95, NS_TO_MS)  # type: ignore[arg-type]
    by_hour = [[np.sort(value[hour == h]) for h in range(24)] for _, hour, value in sides]
    logs = []
    for _ in range(5000):
        values = [np.concatenate([side[h] for h in rng.integers(0, 24, 24)]) for side in by_hour]
        logs.append(math.log(np.partition(values[1], k := int(0.95 * len(values[1])))[k]))
        logs[-1] -= math.log(np.partition(values[0], k := int(0.95 * len(values[0])))[k])
    low, high = np.expm1(np.quantile(logs, [0.025, 0.975]))
    # The t quantile of 23 hours is 5 % above the normal one that percentiles amount to.
    assert ends(found)[1] - ends(found)[0] == pytest.approx(high - low, rel=0.10)


@pytest.mark.parametrize(
    ("nights", "share", "unit", "options"),
    [
        (1, 0.95, "hour", {"per_hour": 60.0}),
        (1, 0.95, "request", {"per_hour": 40.0, "hours": 7, "hour_sd": 0.0}),
        (7, 0.99, "hour", {"per_hour": 60.0, "night_sd": 0.005}),
    ],
)
def test_the_interval_covers_the_truth_as_often_as_it_says(
    nights: int, share: float, unit: str, options: dict[str, float]
) -> None:
    rng = np.random.default_rng(13)
    covered, repetitions = 0, 200
    for _ in range(repetitions):
        before, _, _ = drawn.times(rng, nights, **options)  # type: ignore[arg-type]
        after, _, _ = drawn.times(rng, effect=0.1, first_night=100, **options)  # type: ignore[arg-type]
        low, high = ends(quantile.compare(before, after, drawn.STRATA, unit, share, NS_TO_MS))
        covered += low <= 0.1 <= high
    assert covered >= 181  # 95 % less three standard errors


def test_gaps_of_one_request_count_as_one_where_cells_cannot_tell_them_apart() -> None:
    seen = Sums(
        np.arange(9),
        np.zeros(9, int),
        np.zeros(9, int),
        np.zeros(9),
        np.full(9, 1000.0),
        np.full(9, 10.0),
        (np.zeros(9), np.zeros(9), np.full(9, 10 * 100.0**2)),
    )
    row = np.arange(9).repeat(40)
    side = Histogram(row, np.tile(np.arange(40), 9), np.full(360, 25.0), seen)
    found = quantile.compare(side, side, 1, "request", 0.5, 1.0)
    # 90 requests of 100 gaps each: the share has the error of 90 observations, not of 9,000.
    assert found.baseline.variance == pytest.approx(0.25 / 90, rel=0.02)


def test_squared_deviations_of_values_are_those_of_their_buckets_within_a_percent_or_two() -> None:
    histogram, _, value = drawn.times(np.random.default_rng(6), hour_sd=0.0)
    found = quantile.squared_deviations(one_stratum(histogram), 1)
    assert found == pytest.approx([((value - value.mean()) ** 2).sum()], rel=0.02)


def test_hours_without_the_tail_count_for_nothing_in_it() -> None:
    """Twenty hours of short times and four of long ones: the p95 rests on the four."""
    hours = np.arange(24)
    den = np.full(24, 100.0)
    long = hours % 6 == 0
    seen = Sums(hours, hours * 0, long.astype(np.int64), den * 0, den, den)
    bucket = np.where(long, 500, 400).repeat(2) + np.tile([0, 40], 24)
    spread = Histogram(hours.repeat(2), bucket, np.tile([50.0, 50.0], 24), seen)
    tail, middle = (quantile.compare(spread, spread, 2, "hour", share, 1.0).df or 0 for share in (0.95, 0.3))
    assert tail == pytest.approx(3)
    assert middle == pytest.approx(19)


EDGES = (0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, math.inf)


def server(*hours: tuple[int, ...], edges: tuple[float, ...] = EDGES) -> Buckets:
    """One histogram an hour."""
    lower, upper = (0.0, *edges[:-1]), edges
    row = np.arange(len(hours)).repeat(len(edges))
    count = np.array(hours, dtype=float).ravel()
    den = np.array([sum(hour) for hour in hours], dtype=float)
    units = np.arange(len(hours))
    seen = Sums(units, units * 0, units * 0, den * 0, den, den)
    return Buckets(row, np.tile(lower, len(hours)), np.tile(upper, len(hours)), count, seen)


@pytest.mark.parametrize(("requests", "problem"), [(40, "few_tail"), (400, None)])
def test_a_few_values_do_not_bound_what_lies_beyond_them(requests: int, problem: str | None) -> None:
    def side(slower: int) -> Histogram:
        one = np.ones(requests)
        values = np.arange(requests)
        seen = Sums(values, values * 0, values * 0, one, one, one, (one, one, one))
        return Histogram(values, 100 + slower + values % 20, one, seen)

    found = quantile.compare(side(0), side(200), 1, "request", 0.95, 1.0)
    assert found.problem == problem
    assert found.interval is not None


def test_a_server_quantile_is_its_bucket_and_a_change_inside_it_is_open() -> None:
    calm, worse = server(*[(0, 10, 80, 5, 0, 5, 0, 0)] * 12), server(*[(0, 10, 78, 5, 0, 7, 0, 0)] * 12)
    found = buckets.compare(calm, worse, 1, "hour", 0.99, 1000.0)
    assert found.baseline.bounds == (500.0, 1000.0)
    assert ends(found) == pytest.approx((-0.5, 1.0))


def test_a_server_quantile_that_left_its_bucket_far_behind_is_surely_worse() -> None:
    calm, worse = server(*[(0, 10, 90, 0, 0, 0, 0, 0)] * 12), server(*[(0, 10, 40, 0, 0, 50, 0, 0)] * 12)
    low, high = ends(buckets.compare(calm, worse, 1, "hour", 0.95, 1000.0))
    assert low == pytest.approx(500 / 50 - 1)
    assert high == pytest.approx(1000 / 25 - 1)


def test_a_quantile_beyond_the_last_edge_has_no_upper_end() -> None:
    calm, worse = server(*[(0, 10, 90, 0, 0, 0, 0, 0)] * 12), server(*[(0, 10, 0, 0, 0, 0, 0, 90)] * 12)
    found = buckets.compare(calm, worse, 1, "hour", 0.95, 1000.0)
    assert found.interval == (pytest.approx(5000 / 50 - 1), None)


def test_servers_with_other_edges_are_bracketed_and_never_mixed() -> None:
    lower, upper = np.array([0.0, 25.0, 0.0, 40.0]), np.array([25.0, 50.0, 40.0, 80.0])
    found = bracket(lower, upper, np.array([10.0, 90.0, 10.0, 90.0]), 0.5)
    assert (found.lower, found.upper) == (25.0, 50.0)
    assert found.lower <= found.point <= found.upper


def test_the_edge_that_counts_long_gaps_lies_below_the_p99() -> None:
    assert buckets.edge_below(server((0, 10, 80, 5, 0, 5, 0, 0)), 0.99) == 0.5
    assert buckets.edge_below(server((100, 0, 0, 0, 0, 0, 0, 0)), 0.99) == 0.01
    assert buckets.edge_below(server((0, 0, 0, 0, 0, 0, 0, 100)), 0.99) == 5.0


def test_gaps_over_an_edge_are_counted_exactly_and_only_where_the_edge_exists() -> None:
    counted = buckets.over(server((0, 10, 80, 5, 0, 5, 0, 1)), 0.5)
    assert counted is not None
    assert (counted.num.sum(), counted.den.sum()) == (6.0, 101.0)
    assert buckets.over(server((5, 5), edges=(0.4, math.inf)), 0.5) is None


def test_a_night_that_shows_no_scatter_is_taken_to_scatter_as_seven_nights_do() -> None:
    rng = np.random.default_rng(12)
    seven, steady, steady_seven = (
        drawn.times(rng, nights, per_hour=60, hour_sd=sd)[0] for nights, sd in ((7, 0.3), (1, 0.0), (7, 0.0))
    )
    one, as_many = (
        ends(quantile.compare(seven, after, drawn.STRATA, "hour", 0.95, NS_TO_MS)) for after in (steady, steady_seven)
    )
    assert one[1] - one[0] == pytest.approx(math.sqrt(1 + 7) * (as_many[1] - as_many[0]), rel=0.25)


def test_swapped_sides_turn_the_interval_of_a_quantile_round() -> None:
    rng = np.random.default_rng(13)
    sides = [drawn.times(rng, nights, per_hour=60)[0] for nights in (4, 1)]
    found = [quantile.compare(a, b, drawn.STRATA, "hour", 0.95, NS_TO_MS) for a, b in (sides, sides[::-1])]
    (low, high), (back_low, back_high) = map(ends, found)
    # Weights are the baseline's, so that both are close and not equal.
    assert (math.log1p(low), math.log1p(high)) == pytest.approx(
        (-math.log1p(back_high), -math.log1p(back_low)), abs=0.02
    )
