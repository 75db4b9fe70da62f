"""Evaluation figures are judged by the interval of their difference."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pytest

from specledger.reports.gates import Gate
from specledger.reports.model import GateResult, Verdict
from specledger.reports.quality import Figure, Key, quality_results

ALL = Gate("quality", "*", -0.01, "difference", banded=False)
MMLU: Key = ("mmlu", "acc")


def figure(value: float, stderr: float | None = 0.002, deployment: str = "a", n: int | None = None) -> Figure:
    return Figure(value, stderr, n, True, dt.datetime(2026, 9, 14), deployment)


def judged(before: Figure | None, after: Figure | None, gates: tuple[Gate, ...] = (ALL,)) -> GateResult:
    sides = [{} if side is None else {MMLU: side} for side in (before, after)]
    return quality_results(gates, sides[0], sides[1], required=False)[0]


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (figure(0.80), figure(0.80, deployment="b"), "pass"),
        (figure(0.80), figure(0.78, deployment="b"), "fail"),
        (figure(0.80), figure(0.795, deployment="b"), "inconclusive"),
        (figure(80.0, 0.2), figure(78.0, 0.2, "b"), "fail"),
        (figure(80.0, 0.2), figure(79.9, 0.2, "b"), "pass"),
        (figure(0.80, None), figure(0.70, None, "b"), "inconclusive"),
        (figure(0.80, None, n=40_000), figure(0.70, None, "b", 40_000), "fail"),
        (figure(0.80), None, "no_data"),
        (figure(0.80), figure(0.80), "no_data"),
    ],
)
def test_a_figure_may_lose_one_point_at_most(before: Figure, after: Figure | None, verdict: Verdict) -> None:
    assert judged(before, after).verdict == verdict


def test_where_lower_is_better_a_rise_is_the_loss() -> None:
    before, after = (replace(figure(v, 0.01, d), higher_is_better=False) for v, d in ((6.0, "a"), (7.5, "b")))
    assert judged(before, after).verdict == "fail"
    assert judged(after, before).verdict == "pass"


def test_a_gate_of_one_figure_goes_before_the_one_for_all() -> None:
    lenient = Gate("quality", "mmlu/acc", -0.05, "difference", banded=False)
    assert judged(figure(0.80), figure(0.78, deployment="b"), (ALL, lenient)).verdict == "pass"
    assert quality_results((ALL, lenient), {}, {}, required=False)[0].measure == "mmlu/acc"


def test_a_changed_target_makes_quality_required_even_without_any_figure() -> None:
    (result,) = quality_results((ALL,), {}, {}, required=True)
    assert (result.measure, result.verdict, result.required) == ("quality", "no_data", True)
    (result,) = quality_results((ALL,), {MMLU: figure(0.8)}, {MMLU: figure(0.8, deployment="b")}, required=True)
    assert result.required
