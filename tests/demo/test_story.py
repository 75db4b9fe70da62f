"""The demo's words follow from the figures."""

from __future__ import annotations

import pytest

from specledger.demo.story import Band, words


def band(load: str, speedup: float, tokens: int = 100) -> Band:
    return Band(load, 20.0 * speedup, 50.0, 2.5, 20.0, speedup, 2.5 / speedup, tokens)


def test_a_boundary_is_named_with_both_sides_of_it() -> None:
    said = words([band("1", 1.35, 300), band("2-4", 1.1, 300), band("17-32", 0.94, 400)], 1.05)
    assert said.startswith("Pooled over everything, speculation makes tokens 5% faster.")
    assert "speculation makes tokens 35% faster at 1 request running" in said
    assert "speculation makes tokens 6% slower at 17-32 requests running" in said
    assert "40% of the tokens were made where speculation did not pay (17-32 requests running)" in said


@pytest.mark.parametrize(("speedup", "effect"), [(1.2, "20% faster"), (0.8, "20% slower")])
def test_where_all_bands_agree_no_boundary_is_made_up(speedup: float, effect: str) -> None:
    said = words([band("1", speedup), band("2-4", speedup)], speedup)
    assert "boundary" not in said
    assert said.count(effect) == 2


def test_a_change_too_small_to_print_is_called_none() -> None:
    assert "speculation changes nothing" in words([band("1", 1.3), band("2-4", 0.9)], 1.001)
