"""The split of Δ ln TPOT adds up, changes sign with the sides, and names the right term."""

from __future__ import annotations

import math
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specledger.reports.split import Account, Terms, log_mean, split

NOTHING = Account(0.0, 0.0, 0.0, 0.0, 0.0)


def account(steps: float, length: float, coverage: float = 1.0, cut: float = 0.0, step_time: float = 20.0) -> Account:
    """A stratum of ``steps`` steps: L, coverage, share of accepted tokens cut off, and time of a step."""
    rounds = steps * coverage
    accepted = rounds * (length - 1)
    return Account(steps * step_time, steps + accepted * (1 - cut), steps, rounds, accepted)


def d_ln_tpot(before: list[Account], after: list[Account]) -> float:
    tpot = [sum(a.time for a in side) / sum(a.tokens for a in side) for side in (before, after)]
    return math.log(tpot[1] / tpot[0])


@st.composite
def sides(draw: st.DrawFn) -> tuple[list[Account], list[Account]]:
    def one() -> Account:
        if draw(st.booleans()) and draw(st.booleans()):
            return NOTHING
        steps = draw(st.integers(1, 10_000))
        rounds = draw(st.integers(0, steps))
        accepted = draw(st.integers(0, 5 * rounds))
        tokens = steps + draw(st.integers(-accepted // 2, accepted))  # counts may contradict each other
        return Account(draw(st.integers(1, 10**12)), max(1, tokens), steps, rounds, accepted)

    strata = draw(st.integers(1, 4))
    before, after = ([one() for _ in range(strata)] for _ in range(2))
    return [account(10, 2.0), *before], [account(7, 2.5), *after]


@settings(max_examples=60, deadline=None)
@given(sides())
def test_the_terms_add_up_and_change_sign_exactly_when_the_sides_are_swapped(
    pair: tuple[list[Account], list[Account]],
) -> None:
    forth, back = split(*pair), split(*reversed(pair))
    assert forth is not None
    assert back is not None
    assert forth.total == pytest.approx(d_ln_tpot(*pair), abs=1e-9)
    assert forth == Terms(*(-value for value in vars(back).values()))


@pytest.mark.parametrize(
    ("after", "term"),
    [
        (account(100, 2.5), "acceptance"),
        (account(100, 3.0, step_time=25.0), "round_time"),
        (account(100, 3.0, coverage=0.6), "coverage"),
        (account(100, 3.0, cut=0.3), "truncation"),
    ],
)
def test_one_change_is_one_term(after: Account, term: str) -> None:
    terms = split([account(300, 3.0)], [after])
    assert terms is not None
    assert terms.largest == term
    assert getattr(terms, term) == pytest.approx(terms.total, abs=1e-12)
    assert terms.total > 0


def test_a_shift_between_strata_that_stay_as_they_are_is_mix_alone() -> None:
    terms = split([account(900, 3.2), account(100, 2.0)], [account(100, 3.2), account(900, 2.0)])
    assert terms is not None
    assert terms.mix == pytest.approx(terms.total, abs=1e-12)
    assert terms.round_time == terms.acceptance == terms.coverage == terms.truncation == 0


def test_a_stratum_of_one_side_only_moves_the_mix() -> None:
    before, after = [account(100, 3.0), NOTHING], [account(100, 3.0), account(100, 1.2, step_time=50.0)]
    terms = split(before, after)
    assert terms is not None
    assert terms.mix == pytest.approx(d_ln_tpot(before, after), abs=1e-12)


def test_speculation_against_none_is_coverage_and_round_time() -> None:
    terms = split([account(100, 1.0, coverage=0.0, step_time=15.0)], [account(100, 2.8, step_time=30.0)])
    assert terms is not None
    assert terms.acceptance == terms.truncation == 0
    assert terms.coverage == pytest.approx(-math.log(2.8))
    assert terms.round_time == pytest.approx(math.log(2))


def test_acceptance_coverage_and_truncation_share_as_the_mean_over_all_orders() -> None:
    before, after = account(100, 3.0, 0.9, 0.1), account(100, 2.2, 0.5, 0.3)
    values = {"acceptance": (3.0, 2.2), "coverage": (0.9, 0.5), "truncation": (0.1, 0.3)}
    gains: dict[str, list[float]] = {name: [] for name in values}
    for order in permutations(values):
        now = {name: pair[0] for name, pair in values.items()}
        for name in order:
            length = [1 + now["coverage"] * (now["acceptance"] - 1) * (1 - now["truncation"])]
            now[name] = values[name][1]
            length.append(1 + now["coverage"] * (now["acceptance"] - 1) * (1 - now["truncation"]))
            gains[name].append(-math.log(length[1] / length[0]))
    terms = split([before], [after])
    assert terms is not None
    for name, found in gains.items():
        assert getattr(terms, name) == pytest.approx(sum(found) / len(found), abs=1e-12)


def test_a_side_without_time_has_no_split() -> None:
    assert split([NOTHING], [account(10, 2.0)]) is None


@pytest.mark.parametrize(("a", "b", "mean"), [(2.0, 2.0, 2.0), (0.0, 3.0, 0.0), (1.0, math.e, math.e - 1)])
def test_the_logarithmic_mean(a: float, b: float, mean: float) -> None:
    assert log_mean(a, b) == log_mean(b, a) == pytest.approx(mean)


def test_the_logarithmic_mean_of_neighbours_is_stable() -> None:
    assert log_mean(1.0, 1.0 + 1e-15) == pytest.approx(1.0, abs=1e-12)
