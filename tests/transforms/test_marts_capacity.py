"""What was served, preemption and capacity: small cells in, figures out."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from tests.transforms.marts import DAY, House, only

SECOND = 1_000_000_000


def start(**given: Any) -> dict[str, Any]:
    return {"date": DAY, "started_at": dt.datetime(2026, 11, 29, 7), **given}


def labels(at: int = 7, **given: str) -> dict[str, Any]:
    return {"date": DAY, "labels": given, "labelled_at": dt.datetime(2026, 11, 29, at)}


def test_the_last_start_before_the_end_of_the_day_says_what_was_served() -> None:
    house = House().put("cells_snapshots", {})
    house.put(
        "deployments",
        start(started_at=dt.datetime(2026, 11, 28), model="old", draft_limit=5, speculative=True),
        start(
            model="new", quantization="FP8", speculative=False, draft_limit=3, tensor_parallel=2, pipeline_parallel=2
        ),
        start(started_at=dt.datetime(2026, 11, 30), model="later"),
    )
    row = house.one("deployment_days")
    assert only(row, "model", "quantization", "speculative", "draft_limit") == ("new", "fp8", False, 0)
    assert only(row, "gpus_per_engine", "gpus_from", "instances", "engines") == (4.0, "parallel sizes", 1, 1)


def test_instances_that_differ_leave_open_what_was_served() -> None:
    house = House().put("cells_snapshots", {"instance": "a"}, {"instance": "b"})
    house.put("deployments", start(instance="a", model="llama", dtype="bfloat16"), start(instance="b", model="qwen"))
    assert only(house.one("deployment_days"), "model", "quantization", "dtype") == (None, "none", "bfloat16")


@pytest.mark.parametrize(
    ("cell", "speculative"),
    [
        ({"rounds": 5}, True),
        ({"rounds": 0, "steps": 50, "step_tokens": 50, "step_rounds": 0}, False),
        ({"steps": 50, "step_tokens": 120, "step_rounds": 0}, None),
        ({}, None),
    ],
)
def test_without_a_start_up_record_the_counts_tell_of_speculation(
    cell: dict[str, Any], speculative: bool | None
) -> None:
    assert House().put("cells_snapshots", cell).one("deployment_days")["speculative"] is speculative


def test_the_latest_value_of_a_label_holds() -> None:
    house = House().put("cells_snapshots", {"instance": "a"}, {"instance": "a", "engine": 1})
    house.put("deployments", labels(7, gpus="8", quant="FP8"), labels(9, gpus="4"))
    row = house.one("deployment_days")
    # Two engines share the four GPUs of their instance.
    assert only(row, "gpus_per_engine", "gpus_from", "quantization_label") == (2.0, "label", "fp8")


def test_a_served_name_is_that_of_the_scrapes_and_not_of_an_adapter() -> None:
    house = House().put("cells_snapshots", {}).put("snapshots", {"model_name": "llama"})
    house.put("requests", {"model_name": "llama-sql-adapter"})
    assert house.one("deployment_days")["served_model_name"] == "llama"


def test_kv_size_is_that_of_all_engines_or_not_known() -> None:
    house = House().put("cells_snapshots", {"instance": "a"}, {"instance": "b"})
    house.put("deployments", start(instance="a", kv_tokens=9_600, data_parallel=1))
    assert only(house.one("deployment_days"), "kv_tokens_per_engine", "kv_tokens") == (9_600.0, None)
    house.put("snapshots", {"instance": "b", "kv_tokens": 10_400})
    assert only(house.one("deployment_days"), "kv_tokens_per_engine", "kv_tokens") == (10_000.0, 20_000)


def test_preemptions_stand_beside_kv_use_by_load() -> None:
    house = House().put(
        "cells_snapshots",
        {
            "load": 40, "requests": 500, "steps": 4_000, "preemptions": 60, "kv_n": 20, "kv_ppm": 18_000_000,
            "kv_max_ppm": 985_000, "kv_hist": {850: 19, 985: 1}, "waiting_n": 20, "waiting": 30, "waiting_max": 7,
        },
        {"load": 6, "requests": 100, "steps": 900, "preemptions": 0},
    )  # fmt: skip
    row = house.one("preemption", load_band="33-64")
    assert only(row, "preemptions", "per_1k_requests", "per_1k_steps") == (60, 120.0, 15.0)
    assert only(row, "kv_usage_mean", "kv_usage_p95", "kv_usage_max") == (0.9, 0.85, 0.985)
    assert only(row, "waiting_mean", "waiting_max") == (1.5, 7.0)
    assert only(house.one("preemption", load_band="5-8"), "preemptions", "per_1k_requests") == (0, 0.0)


def test_silence_of_a_log_is_no_zero() -> None:
    house = House().put("cells_log_stats", {"kv_n": 2, "kv_ppm": 1_500_000, "kv_max_ppm": 988_000})
    row = house.one("preemption", origin="log_stats")
    assert only(row, "preemptions", "per_1k_requests", "kv_usage_mean", "kv_usage_max") == (None, None, 0.75, 0.988)


def test_iterations_show_what_was_computed_again_after_a_resume() -> None:
    house = House().put("deployments", start(speculative=True, draft_limit=3))
    house.put(
        "cells_iterations",
        {
            "load": 5, "scheduled_tokens": 20, "n": 10, "generation_requests": 50, "generation_tokens": 200,
            "elapsed_n": 10, "elapsed_sum": SECOND,
        },
        {
            "load": 5, "scheduled_tokens": 166, "n": 1, "generation_requests": 5, "generation_tokens": 166,
            "elapsed_n": 1, "elapsed_sum": SECOND,
        },
        {"load": 5, "prefill": True, "n": 2, "generation_requests": 10, "generation_tokens": 90, "context_tokens": 7},
    )  # fmt: skip
    row = house.one("preemption", origin="iterations")
    assert only(row, "load_band", "steps", "recomputed_tokens", "evidence") == ("5-8", 65, 146 + 50, "estimated")
    assert row["recompute_ms"] == 900.0


@pytest.mark.parametrize(("steps", "found"), [(5, 146 + 2 * 3), (6, 146)])
def test_scrapes_of_the_same_steps_count_the_positions_that_resumes_hide(steps: int, found: int) -> None:
    house = House().put("deployments", start(speculative=True, draft_limit=3))
    house.put(
        "cells_iterations",
        {"load": 5, "scheduled_tokens": 166, "n": 1, "generation_requests": 5, "generation_tokens": 166},
    )
    house.put("cells_snapshots", {"load": 5, "steps": steps, "preemptions": 2})
    assert house.one("preemption", origin="iterations")["recomputed_tokens"] == found


def test_without_a_known_draft_limit_nothing_is_said_of_recomputed_tokens() -> None:
    house = House().put("cells_iterations", {"n": 1, "generation_requests": 5, "generation_tokens": 166})
    assert house.one("preemption", origin="iterations")["recomputed_tokens"] is None


def test_throughput_and_cost_are_per_engine_second() -> None:
    house = House().put(
        "cells_snapshots",
        *(
            {
                "engine": engine, "duration_ns": 50 * SECOND, "output_tokens": 5_000, "prompt_tokens": 20_000,
                "succeeded": 9, "failed": 1, "rounds": 100, "drafted": 300, "running_n": 10, "running_milli": 60_000,
            }
            for engine in (0, 1)
        ),
    )  # fmt: skip
    house.put("deployments", start(tensor_parallel=2, pipeline_parallel=1, kv_tokens=3_600, data_parallel=2))
    row = house.one("capacity")
    assert only(row, "seconds", "output_tps", "prompt_tps", "succeeded", "failed") == (100.0, 100.0, 400.0, 18, 2)
    assert only(row, "gpus", "gpus_from", "gpu_s_per_1k_tokens", "evidence") == (2.0, "parallel sizes", 20.0, "derived")
    # Six requests with three candidates each in the 1,800 tokens of one engine.
    assert only(row, "kv_tokens", "candidate_kv_share") == (3_600, 0.01)
    assert only(row, "goodput_tps", "gpu_s_per_1k_qualified_tokens") == (None, None)


def test_requests_share_their_engine_with_those_that_run_beside_them() -> None:
    cell = {
        "load": 4, "n": 8, "e2e_n": 8, "queue_n": 8, "e2e_sum": 18 * SECOND, "queue_sum": 2 * SECOND,
        "output_tokens": 400, "qualified_tokens": 300,
    }  # fmt: skip
    house = House().put("cells_requests", cell).put("deployments", labels(gpus="1"))
    row = house.one("capacity")
    assert only(row, "seconds", "output_tps", "goodput_tps", "evidence") == (4.0, 100.0, 75.0, "estimated")
    assert row["gpu_s_per_1k_qualified_tokens"] == pytest.approx(4 / 0.3)
    house.put("cells_requests", {**cell, "load": 3, "queue_n": 7})
    assert only(house.one("capacity"), "seconds", "output_tps") == (None, None)
