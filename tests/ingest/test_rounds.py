"""R from what a spec record prints: exact where the figures leave one integer, bounded by exactly those they allow."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specledger.ingest.rounds import ABSENT, Rounds, SpecFigures, recover_rounds
from tests.ingest.log_writer import Window, window
from tests.scale import scaled, tried

Printed = tuple[int, int, int, bool, list[int], int]
"""Accepted, drafted, length in hundredths, bonus, rates in thousandths, K."""


def printed(rounds: Window, limit: int, *, bonus: bool = True) -> Printed:
    """What vLLM prints of a window."""
    ratio = rounds.accepted / rounds.rounds
    length = round(float(f"{1 + ratio if bonus else ratio:.2f}") * 100)
    rates = [round(float(f"{count / rounds.rounds:.3f}") * 1000) for count in rounds.accepted_at]
    return rounds.accepted, rounds.drafted, length, bonus, rates, limit


def recover(*records: Printed) -> Rounds:
    longest = max(len(record[4]) for record in records)
    rates = [record[4] + [ABSENT] * (longest - len(record[4])) for record in records]
    return recover_rounds(
        SpecFigures(
            np.array([record[0] for record in records]),
            np.array([record[1] for record in records]),
            np.array([record[2] for record in records]),
            np.array([record[3] for record in records]),
            np.array(rates, dtype=np.int64).reshape(len(records), longest),
            np.array([record[5] for record in records]),
        )
    )


def one(record: Printed) -> tuple[int, int, int]:
    found = recover(record)
    return int(found.best[0]), int(found.least[0]), int(found.most[0])


def fitting(record: Printed) -> Iterator[int]:
    """Every R for which all printed figures round right, by printing them."""
    accepted, drafted, length, bonus, rates, limit = record
    for rounds in range(max(1, -(-drafted // max(limit, len(rates)))), drafted + 1):
        ratio = accepted / rounds
        if f"{1 + ratio if bonus else ratio:.2f}" != f"{length / 100:.2f}":
            continue
        choices = []
        for rate in rates:
            shown = f"{rate / 1000:.3f}"
            near = range(max(0, rounds * (rate - 1) // 1000 - 1), min(rounds, rounds * (rate + 1) // 1000 + 1) + 1)
            choices.append([count for count in near if f"{count / rounds:.3f}" == shown])
        if all(choices) and sum(map(min, choices)) <= accepted <= sum(map(max, choices)):
            yield rounds


def test_a_fixed_length_gives_r_exactly() -> None:
    assert one((580, 1185, 247, True, [714, 504, 251], 3)) == (395, 395, 395)


def test_the_length_of_0_8_5_leaves_the_bonus_token_out() -> None:
    assert one((580, 1185, 147, False, [714, 504, 251], 3)) == (395, 395, 395)


def test_0_8_3_prints_no_length_so_that_only_k_tells() -> None:
    assert one((580, 1185, ABSENT, True, [], 3)) == (395, 395, 1185)


def test_without_k_and_without_a_length_r_is_not_known() -> None:
    assert one((580, 1185, ABSENT, True, [], ABSENT)) == (ABSENT, 1, 1185)


def test_a_varying_length_is_recovered_from_the_roundings() -> None:
    # 173 rounds of a suffix drafter; drafted / 24 would be 20.75.
    rates = [595, 225, 104, 12] + [0] * 20
    best, least, most = one((162, 498, 194, True, rates, 24))
    assert (least, most) == (173, 173)
    assert best == 173


def test_voided_drafts_lower_d_and_do_not_make_d_over_k_the_answer() -> None:
    # 100 rounds of three drafts, ten of which were cut to one: D = 280, and 280 / 3 is no integer.
    assert one((150, 280, 250, True, [800, 500, 200], 3)) == (100, 100, 100)


def test_rounds_whose_whole_draft_was_voided_are_counted_beyond_d() -> None:
    # 6 rounds with three drafts, 34 with none left: R = 40 although D = 18.
    assert one((12, 18, 130, True, [150, 100, 50], 3)) == (40, 40, 40)


def test_nothing_drafted_with_a_length_is_at_least_one_round() -> None:
    assert one((0, 0, 100, True, [0, 0, 0], 3)) == (ABSENT, 1, ABSENT)


def test_nan_is_no_rounds() -> None:
    assert one((0, 0, ABSENT, True, [ABSENT, ABSENT, ABSENT], 3)) == (ABSENT, ABSENT, ABSENT)


def test_nothing_accepted_leaves_everything_from_d_over_k_to_d() -> None:
    assert one((0, 30, 100, True, [0, 0, 0], 3)) == (10, 10, 30)


def test_figures_that_no_r_fits_give_no_estimate() -> None:
    assert one((580, 1185, 390, True, [714, 504, 251], 3)) == (ABSENT, 395, 1185)


def test_rates_that_do_not_add_up_to_c_are_left_out_of_it() -> None:
    # Rates at drafted positions only, as some builds print them: the length alone decides.
    assert one((580, 1185, 247, True, [714, 705, 499], 3)) == (395, 395, 395)


def test_a_tie_is_decided_as_it_is_printed() -> None:
    # 1 + 1/8 = 1.125 is exact in binary and rounds half to even, to 1.12.
    assert one((1, 8, 112, True, [125], 1)) == (8, 8, 8)
    assert one((1, 8, 113, True, [125], 1))[0] == ABSENT


@settings(max_examples=scaled(25), deadline=None)
@given(st.integers(0, 2**64), st.booleans())
def test_the_bounds_are_those_that_printing_every_r_gives(seed: int, bonus: bool) -> None:
    random = Random(seed)
    limit = random.randint(1, 24)
    record = printed(window(random, limit, 150), limit, bonus=bonus)
    _, least, most = one(record)
    found = list(fitting(record))
    assert (least, most) == (found[0], found[-1])


@pytest.mark.parametrize("limit", range(1, 25))
@pytest.mark.parametrize("fixed", [True, False])
def test_the_truth_lies_within_the_bounds(limit: int, fixed: bool) -> None:
    random = Random(f"{limit} {fixed}")
    windows = [window(random, limit, 1_000, fixed=fixed) for _ in range(scaled(5))]
    found = recover(*(printed(one, limit, bonus=random.random() < 0.5) for one in windows))
    truth = np.array([one.rounds for one in windows])
    assert ((found.least <= truth) & (truth <= found.most)).all()
    assert ((found.least <= found.best) & (found.best <= found.most)).all()
    if fixed:
        assert (found.best == truth).all()
    tried("windows with the truth within the bounds", len(windows))


@pytest.mark.parametrize("limit", [1, 3, 8, 24])
def test_the_bounds_are_no_looser_than_the_length_alone_allows(limit: int) -> None:
    random = Random(limit)
    for rounds in (window(random, limit, 2_000) for _ in range(scaled(4))):
        record = printed(rounds, limit)
        _, least, most = one(record)
        alone = one((*record[:4], [], limit))
        assert alone[1] <= least <= most <= alone[2]


def test_many_windows_are_recovered_as_each_one_alone() -> None:
    random = Random(5)
    records = [printed(window(random, limit), limit) for limit in (1, 2, 5, 24, 3)]
    together = recover(*records)
    assert [
        (int(best), int(least), int(most))
        for best, least, most in zip(together.best, together.least, together.most, strict=True)
    ] == [one(record) for record in records]
