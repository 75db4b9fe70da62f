"""Verdicts follow from intervals, and many gates together do not cry wolf."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specledger.reports.compare import Found
from specledger.reports.gates import Gate
from specledger.reports.interval import (
    Estimate,
    Sided,
    around,
    detectable,
    lower_bound,
    p_not_worse,
    t_quantile,
    upper_bound,
)
from specledger.reports.judge import decide, hold_rate, judge, judge_point
from specledger.reports.model import GateResult, Verdict
from specledger.reports.multiplicity import survivors
from specledger.reports.outcome import exit_code

LENGTH = Gate("capacity", "acceptance_length", -0.05)
TPOT = Gate("latency", "tpot_ms", 0.05)


def found(change: float, half: float, units: int = 20, **more: object) -> Found:
    side = Sided(2.0, 2.0, 200.0, 100.0, 1e-4, units, 3, 1)
    estimate = Estimate(
        side,
        replace(side, standardized=2 * (1 + change)),
        "ratio",
        "hour",
        change,
        (change - half, change + half),
        half / 2,
        30.0,
        None,
        1.0,
    )
    return Found(replace(estimate, **more), "requests")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("gate", "change", "half", "verdict"),
    [
        (LENGTH, -0.10, 0.02, "fail"),
        (LENGTH, -0.06, 0.02, "inconclusive"),
        (LENGTH, -0.04, 0.02, "inconclusive"),
        (LENGTH, -0.02, 0.02, "pass"),
        (LENGTH, 0.30, 0.02, "pass"),
        (TPOT, 0.10, 0.02, "fail"),
        (TPOT, 0.06, 0.02, "inconclusive"),
        (TPOT, -0.30, 0.02, "pass"),
        (replace(TPOT, severity="warn"), 0.10, 0.02, "warn"),
    ],
)
def test_a_verdict_is_where_the_whole_interval_lies(gate: Gate, change: float, half: float, verdict: Verdict) -> None:
    assert judge(gate, None, found(change, half)).verdict == verdict


@settings(max_examples=60, deadline=None)
@given(st.floats(-0.5, 0.5), st.floats(1e-3, 0.3), st.floats(1e-3, 0.2))
def test_a_failure_has_a_p_value_below_what_its_interval_says(change: float, half: float, tolerance: float) -> None:
    estimate = found(change, half).estimate
    width = t_quantile(0.975, 30.0) * (estimate.error or 0)
    log = np.log1p(change)
    estimate = replace(estimate, interval=(float(np.expm1(log - width)), float(np.expm1(log + width))))
    assert estimate.interval is not None
    p = p_not_worse(estimate, tolerance)
    assert p is not None
    assert (decide(estimate.interval, tolerance) == "fail") == (p < 0.025)


@pytest.mark.parametrize(
    ("problem", "band", "verdict"),
    [
        ("no_data", None, "no_data"),
        ("no_candidate", None, "no_data"),
        ("no_candidate", "2-4", "not_comparable"),
        ("common_share", None, "not_comparable"),
        ("baseline_zero", None, "inconclusive"),
        ("no_moments", None, "inconclusive"),
        ("edges", None, "not_comparable"),
    ],
)
def test_what_keeps_an_interval_from_being_made_has_its_own_verdict(
    problem: str, band: str | None, verdict: Verdict
) -> None:
    result = judge(LENGTH, band, found(0.0, 0.1, problem=problem, interval=None, error=None))
    assert (result.verdict, result.reason_code) == (verdict, problem)
    assert result.reason.endswith(".")


def test_no_failure_rests_on_a_quantile_that_may_lie_beyond_what_was_seen() -> None:
    results = [judge(TPOT, None, found(change, 0.01, problem="few_tail")) for change in (0.5, 0.0)]
    said = [(result.verdict, result.reason_code) for result in results]
    assert said == [("inconclusive", "few_tail"), ("pass", None)]


def test_too_few_units_are_inconclusive_whatever_the_interval_says() -> None:
    result = judge(LENGTH, None, found(-0.5, 0.01, units=7, problem="few_units"))
    assert (result.verdict, result.interval, result.p_value) == ("inconclusive", (-0.51, -0.49), None)
    assert result.detectable is not None


def test_an_unbounded_interval_can_fail_and_cannot_pass() -> None:
    assert judge(TPOT, None, found(0.2, 0.1, interval=(0.1, None))).verdict == "fail"
    assert judge(TPOT, None, found(0.2, 0.1, interval=(-0.1, None), method="buckets")).reason_code == "bucket_width"


def test_an_inconclusive_bucket_says_what_would_have_left_it() -> None:
    open_ended = judge(TPOT, None, found(0.2, 0.1, interval=(-0.1, None), method="buckets", error=None))
    assert open_ended.detectable is None
    # Baseline within 50 to 75 ms and candidate within 60 to 90 ms: 90 / 50 over 60 / 75.
    bounded = judge(TPOT, None, found(0.2, 0.1, interval=(60 / 75 - 1, 90 / 50 - 1), method="buckets", error=None))
    assert bounded.verdict == "inconclusive"
    assert bounded.detectable == pytest.approx((90 / 60) * (75 / 50) - 1)


@pytest.mark.parametrize("error", [300.0, 1e6, 1e300])
def test_what_no_change_could_show_has_no_detectable_size(error: float) -> None:
    for gate in (LENGTH, TPOT):
        result = judge(gate, None, found(0.2, 0.1, interval=(-1.0, None), error=error))
        assert (result.verdict, result.detectable) == ("inconclusive", None)


@given(st.floats(1e-300, 1e300), st.floats(0, 1e4))
def test_an_interval_around_a_value_has_an_upper_end_where_that_is_a_number(value: float, half: float) -> None:
    lower, upper = around(value, half)
    assert 0 <= lower <= value
    assert upper is None or value <= upper < math.inf
    if half < 700 and math.log(value) + half < 700:
        assert upper == value * math.exp(half)
    assert around(0.0, 2.0) == (0.0, 0.0)


def test_the_detectable_change_is_seen_four_times_in_five() -> None:
    rng = np.random.default_rng(1)
    size = detectable(0.01, 30.0)
    estimates = size + 0.01 * rng.standard_t(30, 20_000)
    assert np.mean(estimates > t_quantile(0.975, 30.0) * 0.01) == pytest.approx(0.80, abs=0.02)


def test_benjamini_hochberg_rejects_up_to_the_last_rank_below_its_line() -> None:
    assert survivors([0.001, 0.04, 0.02, 0.5], 0.05) == [True, False, True, False]
    assert survivors([0.04, 0.03, 0.05], 0.05) == [True, True, True]
    assert survivors([0.06], 0.05) == [False]
    assert survivors([], 0.05) == []


def test_a_failure_that_does_not_survive_among_many_is_inconclusive() -> None:
    weak = judge(LENGTH, None, found(-0.10, 0.04))
    assert weak.verdict == "fail"
    others = [judge(TPOT, band, found(0.0, 0.01)) for band in ["1", "2-4", "5-8"]]
    assert [result.verdict for result in hold_rate([weak], 0.05)] == ["fail"]
    assert hold_rate([weak, *others * 5], 0.05)[0].reason_code == "multiplicity"


def test_warnings_and_checks_are_no_part_of_the_family() -> None:
    weak = judge(LENGTH, None, found(-0.10, 0.04))
    warnings = [judge(replace(TPOT, severity="warn"), None, found(0.0, 0.01))] * 50
    assert hold_rate([weak, *warnings], 0.05)[0].verdict == "fail"


def test_false_failures_among_null_gates_stay_below_the_rate() -> None:
    """60 gates whose true change is exactly the tolerance: any failure is a false one."""
    rng = np.random.default_rng(3)
    alarms = 0
    for _ in range(1000):
        p_values = rng.uniform(0, 1, 60)
        alarms += any(s and p < 0.025 for s, p in zip(survivors(list(p_values), 0.05), p_values, strict=True))
    assert alarms / 1000 < 0.07


@pytest.mark.parametrize(
    ("gate", "before", "after", "verdict"),
    [
        (Gate("capacity", "kv_usage_max", 0.98, "limit", "warn"), 0.5, 0.99, "warn"),
        (Gate("capacity", "kv_usage_max", 0.98, "limit", "warn"), None, 0.9, "pass"),
        (Gate("capacity", "kv_tokens", -0.1), 1000.0, 850.0, "fail"),
        (Gate("capacity", "kv_tokens", -0.1), 1000.0, 950.0, "pass"),
        (Gate("latency", "longest_pause_ms", 0.5, severity="warn"), 100.0, 151.0, "warn"),
        (Gate("latency", "longest_pause_ms", 0.5, severity="warn"), None, 151.0, "no_data"),
        (Gate("latency", "longest_pause_ms", 0.5, severity="warn"), 0.0, 151.0, "inconclusive"),
    ],
)
def test_figures_without_an_interval_are_judged_as_they_are(
    gate: Gate, before: float | None, after: float | None, verdict: Verdict
) -> None:
    assert judge_point(gate, before, after, "snapshots", "maximum", (9, 9)).verdict == verdict


def result(verdict: Verdict, *, required: bool = False) -> GateResult:
    return GateResult("latency", "tpot_ms", None, verdict, "fail", required)


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ([result("pass"), result("warn"), result("acknowledged"), result("inconclusive")], 0),
        ([result("fail"), result("no_data", required=True)], 1),
        ([result("pass"), result("no_data", required=True)], 3),
        ([result("inconclusive", required=True)], 3),
        ([result("not_comparable", required=True)], 3),
        ([result("acknowledged", required=True)], 0),
        ([], 0),
    ],
)
def test_the_exit_code_says_whether_a_gate_failed_or_a_required_one_is_open(
    results: list[GateResult], code: int
) -> None:
    assert exit_code(results) == code


def test_the_bounds_of_a_share_are_those_of_clopper_and_pearson() -> None:
    assert upper_bound(0, 9) == pytest.approx(1 - 0.05 ** (1 / 9))
    assert upper_bound(0, 20_000) == pytest.approx(3 / 20_000, rel=0.01)
    assert lower_bound(9, 9) == pytest.approx(0.05 ** (1 / 9))
    assert (upper_bound(5, 5), lower_bound(0, 5), upper_bound(0, 0)) == (1.0, 0.0, 1.0)
