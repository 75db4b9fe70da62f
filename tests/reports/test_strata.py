"""Strata are the finest load grid that both sides cover."""

from __future__ import annotations

import numpy as np

from specledger.reports.strata import NO_LOAD, stratify
from specledger.schemas.config import DEFAULT_SETTINGS

BANDS = DEFAULT_SETTINGS.load_bands
CHAT, CODE = ("chat",), ("code",)


def groups(before: dict[int, float], after: dict[int, float]) -> list[tuple[str, int, int]]:
    strata = stratify(*([(load, CHAT, n) for load, n in side.items()] for side in (before, after)), BANDS)
    return [(key.load_band, key.low, key.high) for key in strata.keys]


def test_loads_that_both_sides_cover_stay_apart() -> None:
    assert groups({9: 20, 10: 30}, {9: 10, 10: 15}) == [("9-16", 9, 9), ("9-16", 10, 10)]


def test_neighbours_are_merged_inside_their_band_where_one_side_has_too_little() -> None:
    assert groups({9: 20, 10: 20, 11: 20}, {9: 4, 11: 20}) == [("9-16", 9, 11)]
    assert groups({8: 20, 9: 20}, {8: 20, 9: 3}) == [("5-8", 8, 8), ("9-16", 9, 9)]


def test_a_load_that_is_rare_on_one_side_is_covered_only_by_what_it_can_stand_for() -> None:
    rare = {31: 61, 32: 100}, {31: 8, 32: 200}
    assert groups(*rare) == groups(*reversed(rare)) == [("17-32", 31, 32)]
    assert groups({31: 61, 32: 100}, {31: 40, 32: 200}) == [("17-32", 31, 31), ("17-32", 32, 32)]
    assert groups({31: 6100, 32: 10000}, {31: 800, 32: 20000}) == [("17-32", 31, 31), ("17-32", 32, 32)]


def test_what_is_left_at_the_top_joins_the_group_below() -> None:
    assert groups({9: 20, 10: 20, 16: 1}, {9: 20, 10: 20, 15: 2}) == [("9-16", 9, 9), ("9-16", 10, 16)]


def test_idle_and_unknown_loads_have_bands_of_their_own() -> None:
    assert groups({0: 9, 1: 9, NO_LOAD: 9}, {0: 9, 1: 9, NO_LOAD: 9}) == [
        ("0", 0, 0),
        ("1", 1, 1),
        ("unknown", NO_LOAD, NO_LOAD),
    ]


def test_finer_keys_never_merge_and_rows_find_their_stratum() -> None:
    before = [(3, CHAT, 9.0), (3, CODE, 9.0), (400, CODE, 1.0)]
    strata = stratify(before, before, BANDS)
    rests = (CODE, CHAT)
    codes = strata.assign(np.array([3, 400, 3]), np.array([1, 0, 0]), rests)
    assert [strata.keys[code] for code in codes] == [strata.keys[0], strata.keys[2], strata.keys[1]]
    assert [key.rest for key in strata.keys] == [CHAT, CODE, CODE]
    assert strata.in_band("2-4").tolist() == [True, True, False]
    assert strata.in_band(None).all()
    assert [(key.load_band, key.rest) for key in strata.pooled().keys] == [("2-4", ()), ("257+", ())]
    assert strata.together().tolist() == [3.0, 3.0, 400.0]
    assert strata.pooled().together().tolist() == [3.0, 400.0]
    unknown = [(load, CHAT, 9.0) for load in (NO_LOAD, 0)]
    assert stratify(unknown, unknown, BANDS).together().tolist() == [1.0, 1.0]
