"""The ledger: what T0 is taken from, and what follows from it."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from tests.transforms.marts import DAY, House, only

MS = 1_000_000


def plain(**given: Any) -> dict[str, Any]:
    """A cell of ordinary decode: 1,000 steps of 10 ms."""
    tokens = given.pop("tokens", 1_000)
    time = given.pop("ms", 10) * MS * tokens
    return {
        "deployment": "plain", "requests": 10, "output_tokens": tokens + 10,
        "decode_ns": time, "decode_tokens": tokens, "steps": tokens, "step_tokens": tokens, "step_decode_ns": time,
        "step_rounds": 0, "step_accepted": 0, **given,
    }  # fmt: skip


def drafted(**given: Any) -> dict[str, Any]:
    """A cell of speculation: 400 rounds of 20 ms at K = 3 that return 1,000 tokens."""
    time = given.pop("ms", 20) * MS * 400
    return {
        "deployment": "drafted", "requests": 10, "output_tokens": 1_010,
        "rounds": 400, "drafted": 1_200, "accepted": 600,
        "decode_ns": time, "decode_tokens": 1_000, "steps": 400, "step_tokens": 1_000, "step_decode_ns": time,
        "step_rounds": 400, "step_accepted": 600, **given,
    }  # fmt: skip


def start(deployment: str, **given: Any) -> dict[str, Any]:
    return {
        "date": DAY - dt.timedelta(days=2), "deployment": deployment, "instance": "one",
        "started_at": dt.datetime(2026, 11, 27), "model": "target", "speculative": deployment == "drafted", **given,
    }  # fmt: skip


def house(*cells: dict[str, Any], starts: tuple[dict[str, Any], ...] | None = None) -> House:
    records = (start("plain"), start("drafted")) if starts is None else starts
    return House().put("cells_snapshots", *cells).put("deployments", *records)


def test_the_ledger_of_one_band() -> None:
    row = house(plain(), drafted()).one("ledger", deployment="drafted", load_band="5-8")
    assert only(row, "t0_ms", "t0_origin", "t0_deployments", "t0_date") == (10.0, "same_date", ["plain"], DAY)
    assert only(row, "round_time_ms", "effective_length", "acceptance_length", "coverage") == (20.0, 2.5, 2.5, 1.0)
    assert only(row, "tpot_ms", "speedup", "break_even_length") == (8.0, 1.25, 2.0)
    assert only(row, "draft_limit", "beyond_reach", "token_share", "evidence") == (3.0, False, 1.0, "measured")


def test_break_even_acceptance_is_the_equal_rate_that_reaches_the_break_even_length() -> None:
    row = house(plain(), drafted()).one("ledger", deployment="drafted", load_band="5-8")
    a = row["break_even_acceptance"]
    assert 1 + a + a**2 + a**3 == pytest.approx(2.0, abs=1e-12)


def test_break_even_acceptance_counts_steps_without_a_draft() -> None:
    row = house(plain(), drafted(step_rounds=320)).one("ledger", deployment="drafted", load_band="5-8")
    a = row["break_even_acceptance"]
    assert row["coverage"] == 0.8
    assert 1 + 0.8 * (a + a**2 + a**3) == pytest.approx(2.0, abs=1e-12)


@pytest.mark.parametrize(
    ("ms", "acceptance", "beyond_reach"),
    [(9, 0.0, False), (10, 0.0, False), (40, pytest.approx(1.0), False), (41, None, True)],
)
def test_a_round_no_longer_than_a_step_needs_no_acceptance_and_one_of_more_than_k_plus_1_cannot_pay(
    ms: int, acceptance: float | None, beyond_reach: bool
) -> None:
    row = house(plain(), drafted(ms=ms)).one("ledger", deployment="drafted", load_band="5-8")
    assert only(row, "break_even_acceptance", "beyond_reach") == (acceptance, beyond_reach)


def test_pooled_speedup_is_tokens_at_the_time_of_their_band_over_decode_time() -> None:
    # The baseline ran mostly at high load, the candidate mostly at low load: pooled times would flatter it.
    rows = house(
        plain(load=1, tokens=100, ms=10),
        plain(load=20, tokens=900, ms=30),
        drafted(load=1, ms=20),
        drafted(load=1, ms=20, block=49),
        drafted(load=20, ms=90),
    )
    row = rows.one("ledger", deployment="drafted", load_band="all")
    assert row["speedup"] == pytest.approx((2_000 * 10 + 1_000 * 30) / (800 * 20 + 400 * 90))
    assert row["t0_ms"] == pytest.approx(50 / 3)
    assert row["speedup"] == pytest.approx(row["t0_ms"] / row["tpot_ms"])
    assert row["break_even_length"] == pytest.approx(row["round_time_ms"] / row["t0_ms"])
    assert only(row, "steps", "tokens", "token_share", "context_band") == (1_200, 3_000, 1.0, None)


def test_bands_without_t0_are_left_out_of_the_pooled_speedup_and_their_share_is_said() -> None:
    rows = house(plain(load=1), drafted(load=1), drafted(load=20, ms=90), drafted(load=40, ms=90))
    assert only(rows.one("ledger", deployment="drafted", load_band="17-32"), "t0_ms", "speedup") == (None, None)
    row = rows.one("ledger", deployment="drafted", load_band="all")
    assert row["token_share"] == pytest.approx(1 / 3)
    assert only(row, "t0_ms", "speedup", "break_even_length") == (10.0, 1.25, 2.0)
    assert row["tpot_ms"] == pytest.approx((20 + 90 + 90) * 400 / 3_000)


def test_without_any_baseline_there_is_no_speedup() -> None:
    rows = house(drafted())
    for band in ("5-8", "all"):
        row = rows.one("ledger", load_band=band)
        assert only(row, "t0_ms", "t0_origin", "speedup", "break_even_length") == (None, None, None, None)
        assert only(row, "break_even_acceptance", "beyond_reach", "tpot_ms") == (None, None, 8.0)
    assert rows.one("ledger", load_band="all")["token_share"] == 0.0


def test_ordinary_decode_has_no_account_of_its_own() -> None:
    row = house(plain(), drafted()).one("ledger", deployment="plain", load_band="5-8")
    assert only(row, "t0_ms", "speedup", "round_time_ms", "effective_length", "tpot_ms") == (
        None,
        None,
        10.0,
        1.0,
        10.0,
    )


def test_several_baselines_of_one_date_are_pooled() -> None:
    rows = house(
        plain(),
        plain(deployment="other", tokens=3_000, ms=14),
        drafted(),
        starts=(start("plain"), start("other"), start("drafted")),
    )
    row = rows.one("ledger", deployment="drafted", load_band="5-8")
    assert only(row, "t0_ms", "t0_deployments") == (13.0, ["other", "plain"])


@pytest.mark.parametrize(
    ("days", "t0"),
    [
        ([0, 1], (10.0, "same_date", 0)),
        ([-3, 2, 9], (10.0, "other_date", 2)),
        ([-2, 2], (10.0, "other_date", -2)),
        ([30], (10.0, "other_date", 30)),
        ([31], (None, None, None)),
    ],
)
def test_t0_is_of_the_same_date_or_of_the_nearest_within_30_days(days: list[int], t0: tuple[Any, ...]) -> None:
    moved = [DAY + dt.timedelta(days=shift) for shift in days]
    early = dt.datetime(2026, 10, 1)
    rows = house(
        *(plain(date=date) for date in moved),
        drafted(),
        starts=(start("plain", started_at=early), start("drafted", started_at=early)),
    )
    row = rows.one("ledger", deployment="drafted", load_band="5-8")
    expected = None if t0[2] is None else DAY + dt.timedelta(days=t0[2])
    assert only(row, "t0_ms", "t0_origin", "t0_date") == (*t0[:2], expected)
    assert row["evidence"] == ("derived" if t0[1] == "other_date" else "measured")


@pytest.mark.parametrize(
    ("baseline", "candidate"),
    [
        ({"model": "another"}, {}),
        ({"quantization": "fp8"}, {}),
        ({"labels": {"quant": "fp8"}}, {"labels": {"quant": "none"}}),
        ({"dtype": "float32"}, {"dtype": "bfloat16"}),
        ({"tensor_parallel": 2}, {"tensor_parallel": 1}),
        ({"speculative": True}, {}),
    ],
)
def test_another_target_is_no_baseline(baseline: dict[str, Any], candidate: dict[str, Any]) -> None:
    labelled = {"labelled_at": dt.datetime(2026, 11, 27)}
    rows = house(
        plain(),
        drafted(),
        starts=(start("plain", **labelled, **baseline), start("drafted", **labelled, **candidate)),
    )
    assert rows.one("ledger", deployment="drafted", load_band="5-8")["t0_ms"] is None


def test_without_start_up_records_served_name_and_label_tell_that_two_targets_are_the_same() -> None:
    rows = house(plain(), drafted(), starts=())
    for deployment in ("plain", "drafted"):
        rows.put("snapshots", {"deployment": deployment, "model_name": "llama"})
        rows.put(
            "deployments",
            {"deployment": deployment, "labels": {"quant": "FP8"}, "labelled_at": dt.datetime(2026, 11, 29)},
        )
    assert rows.one("ledger", deployment="drafted", load_band="5-8")["t0_ms"] == 10.0


def test_a_served_name_alone_does_not_tell_that_two_targets_are_the_same() -> None:
    rows = house(plain(), drafted(), starts=())
    for deployment in ("plain", "drafted"):
        rows.put("snapshots", {"deployment": deployment, "model_name": "llama"})
    assert rows.one("ledger", deployment="drafted", load_band="5-8")["t0_ms"] is None


def test_a_band_of_unknown_load_has_no_t0() -> None:
    rows = house(plain(load=None), drafted(load=None))
    assert rows.one("ledger", deployment="drafted", load_band="unknown")["t0_ms"] is None


def test_origins_have_their_own_t0() -> None:
    rows = house(plain(), drafted())
    rows.put("cells_requests", plain(ms=12), drafted(ms=21))
    assert rows.one("ledger", deployment="drafted", load_band="5-8", origin="requests")["t0_ms"] == 12.0
    assert rows.one("ledger", deployment="drafted", load_band="5-8", origin="snapshots")["t0_ms"] == 10.0


def test_context_bands_have_their_own_t0_and_are_counted_once_in_the_pooled_row() -> None:
    rows = House().put("deployments", start("plain"), start("drafted"))
    for band, ms in (("<1k", 10), ("4-16k", 16)):
        rows.put("cells_requests", plain(ms=ms, context_band=band), drafted(context_band=band))
    account = [row for row in rows.mart("ledger") if row["deployment"] == "drafted"]
    assert [only(row, "load_band", "context_band", "t0_ms", "tokens") for row in account] == [
        ("5-8", "4-16k", 16.0, 1_000),
        ("5-8", "<1k", 10.0, 1_000),
        ("all", None, 13.0, 2_000),
    ]


def test_tasks_of_one_band_are_one_account() -> None:
    rows = House().put("deployments", start("plain"), start("drafted"))
    rows.put("cells_requests", plain(task="chat"), drafted(task="code"), drafted(task="chat"))
    assert rows.one("ledger", deployment="drafted", load_band="5-8")["tokens"] == 2_000


def test_dynamic_speculation_takes_t0_from_its_own_steps_without_a_draft() -> None:
    rows = house(drafted(), starts=(start("drafted"),))
    rows.put(
        "cells_draft_lengths",
        {
            "deployment": "drafted", "origin": "snapshots", "draft_length": 0,
            "steps": 50, "step_decode_ns": 600 * MS, "step_tokens": 50,
        },
    )  # fmt: skip
    row = rows.one("ledger", load_band="5-8")
    assert only(row, "t0_ms", "t0_origin", "t0_deployments") == (12.0, "zero_length", ["drafted"])


def test_a_measured_baseline_goes_before_the_deployment_itself() -> None:
    rows = house(plain(), drafted())
    rows.put(
        "cells_draft_lengths",
        {
            "deployment": "drafted", "origin": "snapshots", "draft_length": 0,
            "steps": 50, "step_decode_ns": 600 * MS, "step_tokens": 50,
        },
    )  # fmt: skip
    assert rows.one("ledger", deployment="drafted", load_band="5-8")["t0_origin"] == "same_date"


def test_time_length_and_tpot_are_of_one_population() -> None:
    unknown_steps = {"steps": None, "step_tokens": None, "step_decode_ns": None, "step_rounds": None}
    few = {"decode_tokens": 40, "decode_ns": 400 * MS, "block": 49, **unknown_steps}
    row = house(drafted(), drafted(**few)).one("ledger", load_band="5-8")
    assert only(row, "tokens", "steps", "tpot_ms", "round_time_ms", "effective_length") == (1_000, 400, 8.0, 20.0, 2.5)
    many = {"decode_tokens": 1_000, "decode_ns": 12_000 * MS, "block": 49, **unknown_steps}
    row = house(drafted(), drafted(**many)).one("ledger", load_band="5-8")
    assert only(row, "tokens", "steps", "tpot_ms", "round_time_ms", "effective_length") == (
        2_000,
        None,
        10.0,
        None,
        None,
    )
