"""The ledger from given numbers, against published tables and an independent sum."""

from __future__ import annotations

import json
import math

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from specledger.reports.estimate import RoundTime, break_even_acceptance, estimate, expected_length
from specledger.reports.estimate_command import estimate_command
from specledger.schemas.errors import UsageError

PUBLISHED = {
    0.5: (1.875, 1.969, 1.996),
    0.7: (2.533, 2.941, 3.199),
    0.8: (2.952, 3.689, 4.329),
    0.9: (3.439, 4.686, 6.126),
    0.95: (3.710, 5.298, 7.395),
}


@pytest.mark.parametrize("acceptance", PUBLISHED)
def test_expected_lengths_are_the_published_ones(acceptance: float) -> None:
    assert [round(expected_length([acceptance], gamma), 3) for gamma in (3, 5, 8)] == list(PUBLISHED[acceptance])


def test_the_worked_example_gives_both_speedups_under_their_own_names() -> None:
    row = estimate([0.8], [5], 5.2, {5: RoundTime(9.0, 2.5, 6.0, 0.5)}).best
    assert round(row.speedup or 0, 2) == 2.13
    assert round(row.conservative_speedup or 0, 2) == 1.40
    assert math.isclose(row.break_even_length or 0, 9.0 / 5.2)


@pytest.mark.parametrize(
    ("cost", "speedups", "best"),
    [
        (lambda g: 10 + 0.7 * g + 0.1 * g * g, (1.667, 2.068, 2.334, 1.968), 4),
        (lambda g: 10 + 5 * g + 0.8 * g * g, (1.139, 1.052, 0.785, 0.428), 1),
    ],
)
def test_the_demonstration_cost_models_have_their_published_speedups(cost, speedups, best) -> None:
    gammas = (1, 2, 4, 8)
    result = estimate([0.8], gammas, 10.0, {gamma: RoundTime(cost(gamma)) for gamma in gammas})
    assert [round(row.speedup or 0, 3) for row in result.table] == list(speedups)
    assert result.best.gamma == best


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.integers(0, 12))
def test_expected_length_equals_a_plain_sum_of_products(acceptance: list[float], gamma: int) -> None:
    padded = acceptance + [acceptance[-1]] * gamma
    plain = 1 + sum(math.prod(padded[:position]) for position in range(1, gamma + 1))
    assert math.isclose(expected_length(acceptance, gamma), plain, rel_tol=1e-12)


@given(st.floats(0.01, 1.0), st.integers(1, 12))
def test_break_even_acceptance_inverts_expected_length(acceptance: float, gamma: int) -> None:
    found = break_even_acceptance(expected_length([acceptance], gamma), gamma)
    assert found == pytest.approx(acceptance, abs=1e-6)


def test_break_even_acceptance_is_zero_below_one_step_and_none_beyond_reach() -> None:
    assert break_even_acceptance(0.8, 3) == 0.0
    assert break_even_acceptance(4.01, 3) is None
    assert break_even_acceptance(4.0, 3) == pytest.approx(1.0)


def test_lengths_beyond_the_given_positions_are_marked_extrapolated() -> None:
    table = estimate([0.9, 0.5], [2, 3]).table
    assert [row.extrapolated for row in table] == [False, True]
    assert table[1].expected_length == pytest.approx(1 + 0.9 + 0.45 + 0.225)


def test_no_draft_at_all_is_an_ordinary_step() -> None:
    row = estimate([0.8], [0], 10.0, {0: RoundTime(10.0)}).best
    assert (row.expected_length, row.speedup, row.break_even_acceptance) == (1.0, 1.0, 0.0)


@pytest.mark.parametrize(
    ("acceptance", "gammas", "t0", "time"),
    [([1.7], [3], None, None), ([math.nan], [3], None, None), ([], [3], None, None), ([0.5], [-1], None, None),
     ([0.5], [3], 0.0, 1.0), ([0.5], [3], math.inf, 1.0), ([0.5], [3], 5.0, 0.0), ([0.5], [100_000], None, None)],
)  # fmt: skip
def test_impossible_numbers_are_refused(acceptance, gammas, t0, time) -> None:
    times = {} if time is None else {gamma: RoundTime(time) for gamma in gammas}
    with pytest.raises(UsageError):
        estimate(acceptance, gammas, t0, times)


def test_the_checklist_leaves_open_what_the_numbers_do_not_tell() -> None:
    answers = {answer.question: answer.holds for answer in estimate([0.8], [5]).checklist}
    assert answers["Is acceptance above 0.6?"] is True
    assert answers["Is the load below 32 running requests?"] is None
    assert answers["Is the speedup at least 1.3?"] is None


def test_the_command_prints_one_json_object() -> None:
    arguments = "--acceptance 0.8 --gamma 5 --t0 5.2 --t-draft 2.5 --t-verify 6.0 --t-other 0.5 --format json"
    result = CliRunner().invoke(estimate_command, arguments.split())
    answer = json.loads(result.output)
    assert answer["expected_length"] == pytest.approx(3.68928)
    assert {"speedup", "conservative_speedup", "marginal_gain", "break_even_length", "break_even_acceptance"} <= set(
        answer
    )
    assert len(answer["table"]) == 1
    assert answer["checklist"][4] == {
        "question": "Does the draft cost less than 0.5 of an ordinary step?",
        "holds": True,
        "found": "draft / T0 = 0.48",
        "if_not": "Try a smaller draft, fewer candidates or a model-free method.",
    }


@pytest.mark.parametrize(
    "arguments",
    ["--gamma 3", "--acceptance 0.5", "--acceptance x --gamma 3", "--acceptance 0.5 --gamma x",
     "--acceptance 0.5 --gamma 3 --t0 5 --t-draft 1", "--acceptance 0.5 --gamma 3,4 --t0 5 --t-draft 1 --t-verify 2",
     "--acceptance 0.5 --t0 5 --round-time 3", "--acceptance 0.5 --t0 5 --round-time 3=4 --t-draft 2"],
)  # fmt: skip
def test_missing_or_contradictory_options_are_refused(arguments: str) -> None:
    result = CliRunner().invoke(estimate_command, arguments.split())
    assert isinstance(result.exception, UsageError)


def test_the_table_marks_the_best_length() -> None:
    result = CliRunner().invoke(
        estimate_command, ["--acceptance", "0.8", "--t0", "10", "--round-time", "1=10.8,4=14.4,8=22"]
    )
    assert next(line for line in result.output.splitlines() if "← best" in line).split()[0] == "4"


def test_the_checklist_compares_acceptance_with_its_break_even() -> None:
    costly = estimate([0.3], [4], 10.0, {4: RoundTime(60.0)})
    answer = next(answer for answer in costly.checklist if "break-even" in answer.question)
    assert (answer.holds, answer.found) == (False, "no acceptance pays: 6.000 tokens a round needed")
