"""Acceptance, positions and draft lengths: small cells in, figures out."""

from __future__ import annotations

import pytest

from tests.transforms.marts import House, only


def test_lengths_are_totals_over_totals_and_never_means_of_lengths() -> None:
    house = House().put(
        "cells_snapshots",
        {"block": 48, "rounds": 100, "drafted": 300, "accepted": 200},
        {"block": 49, "rounds": 900, "drafted": 2_700, "accepted": 450},
    )
    row = house.one("acceptance")
    assert only(row, "rounds", "drafted", "accepted") == (1_000, 3_000, 650)
    assert row["acceptance_length"] == 1.65
    assert row["acceptance_rate"] == pytest.approx(650 / 3_000)
    assert only(row, "mean_draft_length", "verified_nodes") == (3.0, 4.0)


def test_effective_length_coverage_and_truncation_are_over_observations_whose_steps_are_known() -> None:
    house = House().put(
        "cells_requests",
        {
            "requests": 10, "output_tokens": 130, "rounds": 40, "drafted": 120, "accepted": 80,
            "steps": 50, "step_tokens": 120, "step_rounds": 40, "step_accepted": 80,
        },
        {"block": 49, "requests": 5, "output_tokens": 60, "rounds": 20, "drafted": 60, "accepted": 30},
    )  # fmt: skip
    row = house.one("acceptance")
    assert only(row, "requests", "rounds", "steps", "truncated") == (15, 60, 50, 50 + 80 - 120)
    assert row["truncated_share"] == 10 / 80
    assert row["effective_length"] == 120 / 50
    assert row["coverage"] == 40 / 50
    assert row["acceptance_length"] == 1 + 110 / 60


def test_without_speculation_there_is_no_acceptance_and_a_step_returns_one_token() -> None:
    house = House().put(
        "cells_snapshots",
        {"requests": 2, "output_tokens": 52, "steps": 50, "step_tokens": 50, "step_rounds": 0, "step_accepted": 0},
    )
    row = house.one("acceptance")
    assert only(row, "acceptance_length", "acceptance_rate", "mean_draft_length") == (None, None, None)
    assert only(row, "effective_length", "coverage", "truncated") == (1.0, 0.0, 0)


def test_rounds_recovered_from_a_log_are_derived_where_the_bounds_meet_and_estimated_where_they_do_not() -> None:
    house = House().put(
        "cells_log_stats",
        {"load": 1, "rounds": 100, "rounds_min": 100, "rounds_max": 100, "drafted": 300, "accepted": 150},
        {"load": 6, "rounds": 100, "rounds_min": 99, "rounds_max": 102, "drafted": 290, "accepted": 150},
    )
    assert [only(row, "load_band", "evidence") for row in house.mart("acceptance")] == [
        ("1", "derived"),
        ("5-8", "estimated"),
    ]


def test_bands_hold_their_loads_and_an_unknown_load_is_a_band_of_its_own() -> None:
    loads = (0, 1, 2, 4, 5, 64, 65, 300, None)
    house = House().put("cells_snapshots", *({"load": load, "rounds": 1} for load in loads))
    assert {row["load_band"]: row["rounds"] for row in house.mart("acceptance")} == {
        "0": 1, "1": 1, "2-4": 2, "5-8": 1, "33-64": 1, "65-128": 1, "257+": 1, "unknown": 1,
    }  # fmt: skip


def test_origins_stand_side_by_side_and_are_never_added() -> None:
    house = House()
    for table in ("cells_snapshots", "cells_requests", "cells_log_stats"):
        house.put(table, {"rounds": 10, "accepted": 5})
    assert [only(row, "origin", "rounds") for row in house.mart("acceptance")] == [
        ("log_stats", 10),
        ("requests", 10),
        ("snapshots", 10),
    ]


def test_counters_of_a_fixed_length_give_survival_conditional_and_predicted_length() -> None:
    house = House().put(
        "cells_snapshots",
        {"rounds": 100, "drafted": 300, "accepted": 150, "accepted_at": [80, 50, 20]},
        {"block": 49, "rounds": 100, "drafted": 300, "accepted": 150, "accepted_at": [80, 50, 20]},
    )
    rows = house.mart("positions")
    assert [only(row, "position", "rounds", "accepted", "censored") for row in rows] == [
        (1, 200, 160, False),
        (2, 200, 100, False),
        (3, 200, 40, False),
    ]
    assert [row["survival"] for row in rows] == [0.8, 0.5, 0.2]
    assert [row["conditional"] for row in rows] == pytest.approx([0.8, 0.5 / 0.8, 0.2 / 0.5])
    assert [row["predicted_length"] for row in rows] == pytest.approx([1.8, 2.3, 2.5])
    assert [row["marginal_gain"] for row in rows] == pytest.approx([0.5, 0.2, 0.2 * 0.4])
    assert [row["extrapolated"] for row in rows] == [False, False, True]


def test_counters_of_a_varying_length_are_censored_and_give_no_conditional() -> None:
    house = House().put(
        "cells_snapshots",
        {"rounds": 100, "drafted": 300, "accepted": 150, "accepted_at": [80, 50, 20]},
        {"block": 49, "rounds": 100, "drafted": 170, "accepted": 90, "accepted_at": [60, 25, 5]},
    )
    rows = house.mart("positions")
    assert [only(row, "rounds", "survival", "conditional", "censored") for row in rows] == [
        (200, 0.7, None, True),
        (200, 0.375, None, True),
        (200, 0.125, None, True),
    ]
    assert [only(row, "marginal_gain", "extrapolated") for row in rows] == [
        (0.375, False),
        (0.125, False),
        (None, False),
    ]


def test_servers_of_different_fixed_lengths_tell_the_rounds_of_every_position() -> None:
    house = House().put(
        "cells_snapshots",
        {"instance": "short", "rounds": 100, "drafted": 100, "accepted": 60, "accepted_at": [60]},
        {"instance": "long", "rounds": 50, "drafted": 100, "accepted": 60, "accepted_at": [40, 20]},
    )
    rows = house.mart("positions")
    assert [only(row, "position", "rounds", "accepted", "censored") for row in rows] == [
        (1, 150, 100, False),
        (2, 50, 20, False),
    ]
    assert rows[1]["survival"] == 0.4


def test_a_build_that_counts_drafts_by_position_is_never_censored() -> None:
    house = House().put(
        "cells_snapshots",
        {"rounds": 100, "drafted": 170, "accepted": 90, "accepted_at": [60, 25, 5], "drafted_at": [100, 50, 20]},
    )
    rows = house.mart("positions")
    assert [only(row, "rounds", "survival", "censored") for row in rows] == [
        (100, 0.6, False),
        (50, 0.5, False),
        (20, 0.25, False),
    ]


def test_positions_that_miss_part_of_the_accepted_tokens_give_no_survival() -> None:
    house = House().put(
        "cells_snapshots", {"rounds": 200, "drafted": 600, "accepted": 300, "accepted_at": [80, 50, 20]}
    )
    rows = house.mart("positions")
    assert [only(row, "rounds", "accepted", "survival", "predicted_length", "censored") for row in rows] == [
        (None, 80, None, None, True),
        (None, 50, None, None, True),
        (None, 20, None, None, True),
    ]


def test_requests_tell_the_rounds_that_drafted_each_position() -> None:
    lengths = [
        {"draft_length": 0, "rounds": 0},
        {"draft_length": 1, "rounds": 40, "accepted": 30, "accepted_at": [30, 0, 0]},
        {"draft_length": 3, "rounds": 60, "accepted": 75, "accepted_at": [45, 20, 10]},
    ]
    house = House().put("cells_draft_lengths", *({"origin": "requests", "task": "chat", **row} for row in lengths))
    rows = house.mart("positions")
    assert [only(row, "task", "position", "rounds", "accepted") for row in rows] == [
        ("chat", 1, 100, 75),
        ("chat", 2, 60, 20),
        ("chat", 3, 60, 10),
    ]
    assert [row["survival"] for row in rows] == pytest.approx([0.75, 20 / 60, 10 / 60])


def test_one_group_of_rounds_of_unknown_length_censors_the_whole_row() -> None:
    house = House().put(
        "cells_draft_lengths",
        {"origin": "requests", "draft_length": 2, "rounds": 50, "accepted": 50, "accepted_at": [30, 20]},
        {"origin": "requests", "draft_length": None, "rounds": 50, "accepted": 20, "accepted_at": [20]},
    )
    rows = house.mart("positions")
    assert [only(row, "rounds", "survival", "conditional", "censored") for row in rows] == [
        (100, 0.5, None, True),
        (100, 0.2, None, True),
    ]


def test_a_position_beyond_every_draft_is_not_drafted_and_has_no_row() -> None:
    house = House().put(
        "cells_draft_lengths",
        {"origin": "requests", "draft_length": 1, "rounds": 50, "accepted": 30, "accepted_at": [30, 0, 0]},
    )
    assert [row["position"] for row in house.mart("positions")] == [1]


def test_a_dead_drafter_has_survival_zero_and_no_rate_on_condition_of_nothing() -> None:
    house = House().put("cells_snapshots", {"rounds": 9, "drafted": 18, "accepted": 0, "accepted_at": [0, 0]})
    rows = house.mart("positions")
    assert [only(row, "survival", "conditional", "predicted_length", "marginal_gain") for row in rows] == [
        (0.0, 0.0, 1.0, 0.0),
        (0.0, None, 1.0, 0.0),
    ]


def test_the_rates_that_a_log_prints_are_estimates() -> None:
    house = House().put("cells_log_stats", {"rounds": 100, "drafted": 200, "accepted": 121, "accepted_at": [80, 40]})
    assert [only(row, "survival", "conditional", "censored", "evidence") for row in house.mart("positions")] == [
        (0.8, 0.8, False, "estimated"),
        (0.4, 0.5, False, "estimated"),
    ]


def test_each_length_that_ran_has_its_own_acceptance_and_time() -> None:
    house = House().put(
        "cells_draft_lengths",
        {"origin": "requests", "draft_length": 0, "steps": 100, "step_decode_ns": 10**9, "step_tokens": 100},
        {
            "origin": "requests", "draft_length": 2, "rounds": 50, "accepted": 40,
            "steps": 40, "step_decode_ns": 800_000_000, "step_tokens": 72,
        },
        {"origin": "requests", "draft_length": 3, "rounds": 10, "accepted": 20},
        {"origin": "requests", "draft_length": None, "rounds": 7, "accepted": 3},
    )  # fmt: skip
    rows = house.mart("draft_lengths")
    assert [only(row, "draft_length", "acceptance_length", "round_time_ms", "tpot_ms") for row in rows] == [
        (0, 1.0, 10.0, 10.0),
        (2, 1.8, 20.0, pytest.approx(800 / 72)),
        (3, 3.0, None, None),
    ]


def test_each_property_of_requests_adds_up_to_the_same_totals() -> None:
    house = House().put(
        "cells_requests",
        {"task": "chat", "output_band": "1-20", "draft_limit": 3, "rounds": 10, "accepted": 5, "requests": 4},
        {
            "task": "code",
            "output_band": "21-100",
            "draft_limit": 3,
            "load": 1,
            "rounds": 30,
            "accepted": 45,
            "requests": 1,
        },
    )
    rows = house.mart("acceptance_by")
    assert {(row["dimension"], row["value"]): row["acceptance_length"] for row in rows} == {
        ("context_band", None): 2.25,
        ("draft_limit", "3"): 2.25,
        ("lora", None): 2.25,
        ("output_band", "1-20"): 1.5,
        ("output_band", "21-100"): 2.5,
        ("task", "chat"): 1.5,
        ("task", "code"): 2.5,
        ("temperature_class", None): 2.25,
    }
    assert [row["value"] for row in rows if row["short_outputs"]] == ["1-20"]


def test_each_property_of_requests_has_its_own_survival_under_a_varying_length() -> None:
    of_chat = {"origin": "requests", "task": "chat", "output_band": "1-20"}
    house = House().put("cells_requests", {"task": "chat", "rounds": 100}, {"task": "code", "rounds": 30})
    house.put(
        "cells_draft_lengths",
        {**of_chat, "draft_length": 1, "rounds": 40, "accepted": 30, "accepted_at": [30]},
        {**of_chat, "draft_length": 2, "rounds": 60, "accepted": 65, "accepted_at": [45, 20]},
        {"origin": "requests", "task": "code", "draft_length": None, "rounds": 30, "accepted": 9, "accepted_at": [9]},
    )
    rows = {(row["dimension"], row["value"]): row for row in house.mart("acceptance_by")}
    chat, code = rows["task", "chat"], rows["task", "code"]
    assert only(chat, "survival", "conditional", "censored") == ([0.75, 20 / 60], [0.75, 20 / 60 / 0.75], False)
    assert chat["predicted_length"] == pytest.approx([1.75, 1.75 + 20 / 60])
    assert only(code, "survival", "conditional", "censored") == ([0.3], None, True)
