"""The choice of draft lengths, and that every schedule keeps vLLM's rules."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specledger.reports.schedule import (
    Choice,
    Limits,
    Option,
    check_ranges,
    choose,
    fill,
    length_at,
    ranges,
)
from specledger.schemas.config import DEFAULT_SETTINGS
from specledger.schemas.errors import UsageError

BANDS = DEFAULT_SETTINGS.load_bands
NO_LIMITS = Limits()


def option(length: int, tpot: float, margin: float = 0.01, **facts) -> Option:
    return Option(length, tpot, margin, tpot * 2, 2.0, "measured", **facts)


def chosen(*options: Option, limits: Limits = NO_LIMITS) -> Choice:
    found = choose(BANDS[0], options, limits)
    assert found is not None
    return found


def test_the_lowest_time_per_token_wins() -> None:
    assert chosen(option(0, 10.0), option(1, 8.0), option(2, 7.0), option(3, 7.5)).length == 2


def test_a_tie_within_the_error_keeps_the_smaller_length() -> None:
    found = chosen(option(0, 10.0, 0.4), option(3, 9.5, 0.4))
    assert found.length == 0
    assert "ties with K = 3" in found.reason


def test_the_best_length_says_so_where_a_longer_one_ties_with_it() -> None:
    assert chosen(option(0, 9.5, 0.4), option(3, 10.0, 0.4)).reason == (
        "ties with K = 3 (10.00 ms, measured) within the error, so the smaller length is taken"
    )
    assert chosen(option(0, 9.5), option(3, 10.0)).reason == (
        "9.50 ms a token (measured) against 10.00 ms at K = 3 (measured)"
    )


def test_an_optimum_between_worse_neighbours_is_found() -> None:
    assert chosen(option(0, 10.0), option(1, 11.0), option(2, 8.0), option(3, 12.0)).length == 2


def test_a_faster_length_that_breaks_the_gap_limit_is_left_out() -> None:
    found = chosen(option(0, 10.0, gap_ms=12.0), option(3, 7.0, gap_ms=90.0), limits=Limits(gap_ms=50.0))
    assert found.length == 0
    assert "breaks a limit" in found.reason


def test_candidates_must_fit_into_the_kv_cache() -> None:
    options = (option(0, 10.0, kv_interval=(0.9, 0.97)), option(3, 7.0, kv_interval=(0.95, 0.99)))
    assert chosen(*options, limits=Limits(kv_usage=0.98)).length == 0
    assert chosen(*options, limits=Limits(kv_usage=0.995)).length == 3


def test_without_a_length_that_keeps_the_limits_nothing_is_drafted() -> None:
    found = chosen(option(1, 8.0), option(3, 7.0), limits=Limits(gap_ms=5.0))
    assert (found.length, found.option, found.evidence) == (0, None, "none")


def test_a_length_of_uncertain_time_ties_with_the_best_one() -> None:
    assert chosen(option(1, 8.0, 1.5), option(3, 7.0)).length == 1


def test_one_length_alone_is_no_comparison() -> None:
    assert "no evidence of gain: only K = 3" in chosen(option(3, 7.0)).reason
    assert choose(BANDS[0], [], Limits()) is None


def at(index: int, length: int) -> tuple[str, Choice]:
    return BANDS[index].label, Choice(BANDS[index], length, "measured", "")


def test_gaps_take_the_smaller_neighbour_and_the_top_keeps_the_last() -> None:
    choices = fill(BANDS, dict([at(1, 3), at(4, 1)]))
    assert [choice.length for choice in choices] == [3, 3, 1, 1, 1, 1, 1, 1, 1]
    assert [choice.evidence for choice in choices[:5]] == [
        "neighbour",
        "measured",
        "neighbour",
        "neighbour",
        "measured",
    ]


def test_without_any_evidence_there_is_no_schedule() -> None:
    assert (fill(BANDS, {}), ranges([])) == ([], [])


def test_ranges_merge_equal_neighbours_and_end_at_the_batch_limit() -> None:
    choices = fill(BANDS, dict([at(0, 3), at(1, 3), at(4, 1), at(6, 0)]))
    assert ranges(choices, 256) == [[1, 4, 3], [5, 32, 1], [33, 256, 0]]


@given(
    st.dictionaries(st.integers(0, len(BANDS) - 1), st.integers(0, 8), min_size=1),
    st.one_of(st.none(), st.integers(1, 2_000)),
)
@settings(max_examples=1_000)
def test_every_schedule_keeps_the_rules(lengths: dict[int, int], max_num_seqs: int | None) -> None:
    choices = fill(BANDS, dict(at(index, length) for index, length in lengths.items()))
    schedule = ranges(choices, max_num_seqs)
    assert check_ranges(schedule) == schedule
    assert schedule[0][0] == 1
    assert all(first[1] + 1 == second[0] for first, second in itertools.pairwise(schedule))
    for index, length in lengths.items():
        if max_num_seqs is None or BANDS[index].low <= max_num_seqs:
            assert length_at(schedule, BANDS[index].low) == length


@pytest.mark.parametrize(
    "schedule",
    [[], [[2, 4, 1]], [[1, 4, -1]], [[1, 4, 1], [4, 8, 0]], [[4, 1, 1]], [[1, 4]], "x", [[1, 4, 1.5]], [[1, True, 2]]],
)
def test_schedules_that_vllm_would_refuse_are_refused(schedule) -> None:
    with pytest.raises(UsageError):
        check_ranges(schedule)
