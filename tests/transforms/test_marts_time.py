"""Latency, round time and the mix of load: small cells in, figures and bounds out."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.transforms.marts import House, only

INF = math.inf
MS = 1_000_000


def histogram(le: list[float], n: list[int]) -> dict[str, Any]:
    return {"le": le, "n": n}


def itl(cell: dict[str, Any]) -> dict[str, Any]:
    return {"decode_ns": 10**9, "decode_tokens": 100, **cell}


def test_a_quantile_is_a_point_inside_the_edges_of_its_bucket() -> None:
    house = House().put(
        "cells_snapshots",
        itl({"itl": histogram([0.01, 0.02, 0.04, INF], [10, 20, 70, 0])}),
    )
    row = house.one("latency")
    assert only(row, "itl_ms_p50_lower", "itl_ms_p50_upper") == (20.0, 40.0)
    assert row["itl_ms_p50"] == pytest.approx(20 + 20 * (50 - 30) / 70)


def test_a_rank_that_ends_a_bucket_belongs_to_it() -> None:
    house = House().put("cells_snapshots", itl({"itl": histogram([0.01, 0.02, INF], [95, 5, 0])}))
    row = house.one("latency")
    assert only(row, "itl_ms_p95", "itl_ms_p95_lower", "itl_ms_p95_upper") == (10.0, 0.0, 10.0)
    assert only(row, "itl_ms_p99_lower", "itl_ms_p99_upper") == (10.0, 20.0)


def test_above_the_last_finite_edge_only_the_lower_edge_is_known() -> None:
    house = House().put("cells_snapshots", itl({"itl": histogram([0.01, INF], [1, 9])}))
    row = house.one("latency")
    assert only(row, "itl_ms_p50", "itl_ms_p50_lower", "itl_ms_p50_upper") == (None, 10.0, None)
    assert row["burstiness"] is None


def test_histograms_of_different_edges_meet_on_the_edges_that_all_have() -> None:
    house = House().put(
        "cells_snapshots",
        itl({"edges": 1, "itl": histogram([0.01, 0.02, 0.05, 0.1, INF], [10, 20, 30, 0, 0])}),
        itl({"edges": 2, "itl": histogram([0.02, 0.04, 0.1, INF], [10, 10, 20, 0])}),
    )
    row = house.one("latency")
    # Common edges 20 and 100 ms hold 40 and 60 of 100.
    assert only(row, "itl_ms_p50_lower", "itl_ms_p50_upper") == (20.0, 100.0)
    assert row["itl_ms_p50"] == pytest.approx(20 + 80 * (50 - 40) / 60)
    assert row["tokens"] == 200


def test_histograms_without_a_common_edge_give_no_bound_above() -> None:
    house = House().put(
        "cells_snapshots",
        itl({"edges": 1, "itl": histogram([0.01, INF], [10, 0])}),
        itl({"edges": 2, "itl": histogram([0.02, INF], [10, 0])}),
    )
    assert only(house.one("latency"), "itl_ms_p50", "itl_ms_p50_lower", "itl_ms_p50_upper") == (None, 0.0, None)


def test_a_histogram_that_holds_nothing_does_not_coarsen_the_others() -> None:
    house = House().put(
        "cells_snapshots",
        itl({"edges": 1, "itl": histogram([0.01, INF], [0, 0])}),
        itl({"edges": 2, "itl": histogram([0.02, 0.03, INF], [10, 0, 0])}),
    )
    assert only(house.one("latency"), "itl_ms_p99_lower", "itl_ms_p99_upper") == (0.0, 20.0)


def test_quantiles_of_requests_lie_within_one_per_cent() -> None:
    bucket = math.floor(math.log(50e6) / math.log(1.02))
    house = House().put(
        "cells_requests",
        {
            "task": "chat",
            "itl": {bucket: 98, -1: 2},
            "longest_pause_ns": 70_000_000,
            "decode_ns": 10,
            "decode_tokens": 1,
        },
        {"task": "chat", "block": 49, "itl": {bucket: 2}, "longest_pause_ns": 50_000_000, "decode_ns": 10},
    )
    row = house.one("latency", task="chat")
    assert row["itl_ms_p50"] == pytest.approx(50.0, rel=0.02)
    assert row["itl_ms_p50_lower"] <= 50.0 <= row["itl_ms_p50_upper"]
    assert row["longest_pause_ms"] == 70.0


def test_tpot_is_token_weighted_and_bursts_are_measured_against_it() -> None:
    house = House().put(
        "cells_snapshots",
        {"decode_ns": 10**9, "decode_tokens": 100, "itl": histogram([0.02, INF], [50, 0])},
        {"block": 49, "decode_ns": 10**9, "decode_tokens": 400, "itl": histogram([0.02, INF], [50, 0])},
    )
    row = house.one("latency")
    assert row["tpot_ms"] == 4.0
    assert row["burstiness"] == pytest.approx(row["itl_ms_p99"] / 4.0)


def test_round_time_is_per_step_and_not_per_token() -> None:
    house = House().put(
        "cells_snapshots",
        {
            "steps": 100, "step_decode_ns": 3 * 10**9, "decode_ns": 3 * 10**9, "decode_tokens": 250,
            "itl": histogram([0.025, 0.05, INF], [0, 100, 0]),
        },
    )  # fmt: skip
    row = house.one("round_time")
    assert only(row, "n", "round_time_ms", "p50_lower", "p50_upper", "longest_ms") == (100, 30.0, 25.0, 50.0, None)


def test_iterations_with_prefill_are_kept_apart() -> None:
    bucket = math.floor(math.log(10e6) / math.log(1.02))
    decode = {"n": 10, "generation_requests": 60, "elapsed_n": 10, "elapsed_sum": 100 * MS, "elapsed_max": 12 * MS}
    prefill = {"prefill": True, "n": 2, "elapsed_n": 2, "elapsed_sum": 300 * MS, "elapsed_max": 200 * MS}
    house = House().put(
        "cells_iterations",
        {**decode, "elapsed": {bucket: 10}},
        {**prefill, "generation_requests": 12, "elapsed": {999: 2}},
        {**prefill, "load": 0, "generation_requests": 0, "elapsed": {900: 2}},
        {"load": 0, "n": 5, "generation_requests": 0, "elapsed_n": 5, "elapsed_sum": 100 * MS, "elapsed": {100: 5}},
    )
    idle, busy = house.mart("round_time")
    assert only(busy, "load_band", "n", "round_time_ms", "longest_ms", "prefill_share") == ("5-8", 10, 10.0, 12.0, 0.75)
    assert busy["p50"] == pytest.approx(10.0, rel=0.02)
    assert only(idle, "load_band", "n", "round_time_ms", "p50", "prefill_share") == ("0", 0, None, None, 0.75)


def test_prefill_interference_is_what_prefill_adds_to_a_step_at_the_same_load() -> None:
    alone = {"n": 10, "elapsed_n": 10, "elapsed": {100: 10}}
    mixed = {"prefill": True, "n": 2, "elapsed_n": 2, "elapsed": {100: 2}}
    house = House().put(
        "cells_iterations",
        {**alone, "load": 5, "generation_requests": 50, "elapsed_sum": 100 * MS},
        {**mixed, "load": 5, "generation_requests": 10, "elapsed_sum": 80 * MS},
        {**alone, "load": 8, "generation_requests": 80, "elapsed_sum": 200 * MS},
        {**mixed, "load": 7, "generation_requests": 14, "elapsed_sum": 90 * MS},
    )
    row = house.one("round_time")
    # 10 of 140 steps took 30 ms longer; at a load of 7 nothing tells how long decode alone takes.
    assert row["prefill_interference_ms"] == pytest.approx(10 * 30 / 140)


def test_shares_of_load_add_up_within_an_origin() -> None:
    house = House().put(
        "cells_snapshots",
        {"load": 1, "requests": 2, "output_tokens": 32, "steps": 20, "duration_ns": 10**10},
        {"load": 6, "requests": 8, "output_tokens": 98, "steps": 20, "duration_ns": 3 * 10**10},
    )
    house.put("cells_requests", {"requests": 1, "output_tokens": 5, "decode_ns": 2 * 10**9})
    rows = [row for row in house.mart("load_mix") if row["origin"] == "snapshots"]
    assert [only(row, "load_band", "token_share", "step_share", "seconds") for row in rows] == [
        ("1", 0.25, 0.5, 10.0),
        ("5-8", 0.75, 0.5, 30.0),
    ]
    assert only(house.one("load_mix", origin="requests"), "token_share", "seconds") == (1.0, 2.0)
