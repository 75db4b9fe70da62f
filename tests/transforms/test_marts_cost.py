"""Round costs in marts: known work in, observations, fit, split and a T0 of the model out."""

from __future__ import annotations

from typing import Any

import pytest

from tests.transforms.marts import House, only
from tests.transforms.raw import Raw, at, histogram
from tests.transforms.test_marts_ledger import drafted, plain, start

MS = 1_000_000


def round_ms(load: int, length: int, prefill: int = 0) -> float:
    return 10 + 0.1 * load + 0.05 * load * (length + 1) + 0.02 * prefill + length


def iterations(load: int, length: int, prefill: int = 0, **given: Any) -> dict[str, Any]:
    """A cell of 100 equal iterations."""
    time = round(round_ms(load, length, prefill) * MS)
    tokens = load * (length + 1)
    return {
        "deployment": "drafted", "load": load, "prefill": prefill > 0, "scheduled_tokens": None if prefill else tokens,
        "n": 100, "generation_requests": 100 * load, "generation_tokens": 100 * tokens, "context_tokens": 100 * prefill,
        "context_requests": 100 * (prefill > 0), "elapsed_n": 100, "elapsed_sum": 100 * time,
        "elapsed_elapsed": 100 * time * time, **given,
    }  # fmt: skip


def house(*cells: dict[str, Any], draft_limit: int = 3) -> House:
    return (
        House()
        .put("cells_iterations", *cells)
        .put("cells_snapshots", plain(load=2), drafted(load=24))
        .put("deployments", start("plain"), start("drafted", draft_limit=draft_limit))
    )


THREE_LENGTHS = (
    *(iterations(load, length) for length in (0, 1, 3) for load in range(1, 9)),
    *(iterations(load, 3, prefill) for load, prefill in ((2, 100), (5, 300))),
    *(iterations(load, 3) for load in (12, 24)),
)


def test_iterations_are_observations_of_their_load_length_and_prefill_work() -> None:
    rows = house(iterations(6, 3), iterations(6, 3, hour=9), iterations(6, 3, 200)).mart("cost_observations")
    names = ("hour", "load", "draft_length", "prefill", "iterations", "requests", "verified_tokens", "prefill_tokens")
    assert [only(row, *names, "round_time_ms") for row in rows] == [
        (8, 6, 3, False, 100.0, 6.0, 24.0, 0.0, pytest.approx(14.8)),
        (8, 6, 3, True, 100.0, 6.0, 24.0, 200.0, pytest.approx(18.8)),
        (9, 6, 3, False, 100.0, 6.0, 24.0, 0.0, pytest.approx(14.8)),
    ]


@pytest.mark.parametrize(
    "odd",
    [
        iterations(6, 3, scheduled_tokens=25, generation_tokens=2_500),
        iterations(6, 3, scheduled_tokens=60, generation_tokens=6_000),
        iterations(6, 3, 200, generation_tokens=2_500),
    ],
    ids=["a draft cut short", "positions computed again", "mixed drafts beside prefill work"],
)
def test_iterations_of_no_single_length_within_the_limit_are_no_observations(odd: dict[str, Any]) -> None:
    assert house(odd).mart("cost_observations") == []


def test_steady_intervals_are_observations_of_their_decoding_requests() -> None:
    rows = House().put("deployments", start("drafted", draft_limit=3)).put("cells_snapshots", drafted())
    rows.put(
        "cells_draft_lengths",
        {
            "deployment": "drafted", "origin": "snapshots", "load": 6, "draft_length": 3, "n": 4, "steps": 800,
            "step_decode_ns": 12_000 * MS, "steady_steps": 600, "steady_decode_ns": 9_000 * MS,
            "steady_requests": 600 * 5_500, "steady_prefill": 1_000 * 5_500,
        },
    )  # fmt: skip
    row = rows.one("cost_observations")
    assert only(row, "origin", "n", "requests", "verified_tokens", "round_time_ms") == ("snapshots", 4, 5.5, 22.0, 15.0)
    assert row["prefill_tokens"] == pytest.approx(1_000 / (600 / 5.5))
    assert row["prefill"] is None


def test_intervals_are_steady_where_gauge_and_decode_time_agree_on_the_load() -> None:
    def scrape(seconds: int, decoding: float, running: float) -> dict[str, Any]:
        rounds = 100 * seconds
        return {
            "scraped_at": at(seconds), "running": running, "rounds": rounds, "drafted": 3 * rounds, "accepted": rounds,
            "accepted_at": [rounds, 0, 0], "generation_tokens": 2 * rounds, "prompt_tokens": 7 * seconds,
            "itl": histogram([0.1], [rounds, 0], decoding * seconds), "ttft": histogram([0.1], [0, 0], 0.0),
        }  # fmt: skip

    def steady(decoding: float, running: float) -> tuple[Any, ...]:
        raw = Raw().put("snapshots", scrape(10, decoding, running), scrape(20, decoding, running))
        return only(
            raw.one("cells_draft_lengths"), "steady_steps", "steady_decode_ns", "steady_requests", "steady_prefill"
        )

    assert steady(3.6, 4.0) == (1_000, 36_000 * MS, 3_600 * 1_000, 3_600 * 70)
    assert steady(2.0, 4.0) == (None, None, None, None), "half of the time nothing decoded, or the load changed"


def test_a_model_stands_in_for_ordinary_decode_that_nobody_ran() -> None:
    row = house(*THREE_LENGTHS).one("ledger", deployment="drafted", load_band="17-32", origin="snapshots")
    share = round_ms(24, 0) / round_ms(24, 3)
    assert only(row, "t0_origin", "t0_deployments", "evidence") == ("model", ["drafted"], "estimated")
    assert row["t0_ms"] == pytest.approx(20 * share)
    assert row["speedup"] == pytest.approx(20 * share / 8)


def test_a_round_that_returns_fewer_tokens_has_less_prefill_work_at_the_same_load() -> None:
    row = house(*THREE_LENGTHS, iterations(24, 3, 240)).one(
        "ledger", deployment="drafted", load_band="17-32", origin="snapshots"
    )
    share = (round_ms(24, 0) + 0.02 * 120 / 2.5) / (round_ms(24, 3) + 0.02 * 120)
    assert row["t0_ms"] == pytest.approx(20 * share)


def test_measured_ordinary_decode_comes_before_the_model() -> None:
    rows = house(*THREE_LENGTHS).put("cells_snapshots", plain(load=24, ms=11))
    row = rows.one("ledger", deployment="drafted", load_band="17-32", origin="snapshots")
    assert only(row, "t0_origin", "t0_ms", "evidence") == ("same_date", 11.0, "measured")


@pytest.mark.parametrize(
    "cells",
    [
        tuple(iterations(load, 3) for load in (*range(1, 9), 12, 24)),
        tuple(iterations(load, length) for length in (1, 3) for load in (*range(1, 9), 24)),
        tuple(cell for cell in THREE_LENGTHS if cell["load"] < 12),
    ],
    ids=["one length", "two lengths without ordinary decode", "beyond the loads that ran"],
)
def test_no_model_speaks_of_what_its_observations_do_not_tell(cells: tuple[dict[str, Any], ...]) -> None:
    row = house(*cells).one("ledger", deployment="drafted", load_band="17-32", origin="snapshots")
    assert only(row, "t0_ms", "t0_origin", "speedup") == (None, None, None)


def test_a_round_is_split_into_what_the_fit_tells() -> None:
    row = house(*THREE_LENGTHS).one("round_split", load_band="17-32", draft_length=3)
    assert only(row, "requests", "prefill_tokens", "not_identified") == (24.0, 0.0, None)
    assert row["round_time_ms"] == pytest.approx(round_ms(24, 3))
    assert row["model_ms"] == pytest.approx(round_ms(24, 3))
    assert row["ordinary_ms"] == pytest.approx(round_ms(24, 0))
    assert (row["draft_ms"], row["verify_ms"]) == (pytest.approx(3.0), pytest.approx(3.6))


def test_a_round_of_one_length_is_not_split_and_says_why() -> None:
    rows = house(*(iterations(load, 3) for load in (*range(1, 9), 12, 24)))
    row = rows.one("round_split", load_band="17-32")
    assert row["model_ms"] == pytest.approx(round_ms(24, 3))
    assert only(row, "ordinary_ms", "draft_ms", "verify_ms", "prefill_ms") == (None, None, None, None)
    assert row["not_identified"].startswith("a round without a draft at this load; c0 includes the draft passes")


def test_stage_times_of_the_old_engine_split_a_round() -> None:
    record = {"proposal_ms": 1.5, "scoring_ms": 12.0, "verification_ms": 0.5, "draft_limit": 4, "running": 6.0}
    row = House().put("log_stats", record | {"logged_at": at(0), "wording": "V0"}).one("round_split")
    assert only(row, "origin", "load_band", "draft_length", "evidence") == ("log_stats", "5-8", 4, "measured")
    assert only(row, "draft_ms", "verify_ms", "other_ms", "model_ms") == (6.0, 12.0, 0.5, 18.5)


def test_engines_have_fits_of_their_own_where_there_are_several() -> None:
    cells = (
        iterations(load, length, engine=engine) for engine in (0, 1) for length in (0, 1, 3) for load in range(1, 9)
    )
    rows = house(*cells).mart("round_cost")
    assert [row["engine"] for row in rows] == [0, 1, None]
    for row in rows:
        assert row["c0"] == pytest.approx(10.0)
        assert (row["lengths"], row["observations"]) == ([0, 1, 3], 24)
