"""Log windows: V1 records as printed, V0 running totals differenced, and what cells make of them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from tests.transforms.raw import Raw, at, values


def record(seconds: float, **columns: Any) -> dict[str, Any]:
    return {"logged_at": at(seconds), **columns}


def v0(seconds: float, rounds: int, emitted: int, **columns: Any) -> dict[str, Any]:
    """Running totals of a V0 engine with three draft tokens a round."""
    told = {"cumulative": True, "wording": "V0", "draft_limit": 3, "rounds": rounds, "drafted": 3 * rounds}
    return record(seconds, accepted=2 * rounds, emitted=emitted, **told, **columns)


def windows(*records: dict[str, Any]) -> list[dict[str, Any]]:
    return Raw().put("log_stats", *records).rows("log_windows", "instance, engine, logged_at")


def test_a_v1_record_is_its_own_window() -> None:
    (row,) = windows(
        record(
            25, spec_window_s=10.5, rounds=40, rounds_min=39, rounds_max=41, drafted=120, accepted=70,
            survival=[0.9, 0.6, 0.256], kv_usage=0.5, running=3.0, waiting=1.0,
        )
    )  # fmt: skip
    assert {name: row[name] for name in ("window_ns", "rounds", "rounds_min", "rounds_max", "drafted", "accepted")} == {
        "window_ns": 10_500_000_000, "rounds": 40, "rounds_min": 39, "rounds_max": 41, "drafted": 120, "accepted": 70,
    }  # fmt: skip
    assert values([row], "accepted_at", "kv_ppm", "running_milli", "waiting", "block") == [
        ([36, 24, 10], 500_000, 3000, 1, 48)
    ]


def test_load_is_the_mean_of_this_line_and_the_one_before_if_that_is_near() -> None:
    rows = windows(record(0, running=8.0), record(10, running=3.0), record(80, running=5.0))
    assert values(rows, "load") == [8, 6, 5]


def test_records_of_several_engines_or_of_none_have_no_load() -> None:
    rows = windows(record(0, running=8.0, engines=2), record(10, drafted=30, accepted=10, rounds=10))
    assert values(rows, "load") == [None, None]


def test_v0_totals_are_differenced_and_accepted_is_what_was_emitted_beyond_one_a_round() -> None:
    rows = windows(v0(0, 100, 260), v0(10, 150, 390))
    assert values(rows, "rounds", "drafted", "accepted", "window_ns") == [
        (None, None, None, None),
        (50, 150, 80, 10_000_000_000),
    ]
    assert values(rows[1:], "rounds_min", "rounds_max") == [(50, 50)]


@pytest.mark.parametrize("sign", ["drop", "process"])
def test_v0_totals_start_again_with_the_process(sign: str) -> None:
    names = ("a", "b") if sign == "process" else (None, None)
    rounds = 200 if sign == "process" else 20
    rows = windows(v0(0, 100, 260, process=names[0]), v0(10, rounds, 3 * rounds, process=names[1]))
    assert values(rows[1:], "rounds", "accepted", "window_ns") == [(rounds, 2 * rounds, None)]


def test_v0_totals_go_on_over_midnight() -> None:
    midnight = dt.datetime(2026, 11, 30)
    rows = windows(
        v0(0, 100, 260, logged_at=midnight - dt.timedelta(seconds=5)),
        v0(0, 110, 290, logged_at=midnight + dt.timedelta(seconds=5)),
    )
    assert values(rows, "date", "rounds") == [(dt.date(2026, 11, 29), None), (dt.date(2026, 11, 30), 10)]


def test_cells_add_records_of_one_block_and_load_and_keep_positions_apart() -> None:
    told = {"running": 4.0, "engine": 0, "spec_window_s": 10.0, "rounds_min": 9, "rounds_max": 11}
    raw = Raw().put(
        "log_stats",
        record(0, **told, rounds=10, drafted=30, accepted=18, survival=[0.9, 0.6, 0.3]),
        record(10, **told, rounds=10, drafted=20, accepted=14, survival=[0.9, 0.5]),
        record(20, running=4.0, engine=0, kv_usage=0.25),
    )
    row = raw.one("cells_log_stats")
    assert values(
        [row], "n", "rounds", "rounds_min", "rounds_max", "drafted", "accepted", "accepted_at", "duration_ns"
    ) == [(3, 20, 18, 22, 50, 32, [18, 11, 3], 20_000_000_000)]
    assert values([row], "rounds_rounds", "rounds_accepted", "accepted_accepted", "drafted_drafted") == [
        (200, 320, 18 * 18 + 14 * 14, 1300)
    ]
    assert values([row], "kv_n", "kv_ppm", "kv_hist", "running_n", "running_milli") == [
        (1, 250_000, {250: 1}, 3, 12_000)
    ]


def test_records_without_rounds_leave_them_unknown() -> None:
    row = Raw().put("log_stats", record(0, running=4.0, engine=0)).one("cells_log_stats")
    assert values([row], "rounds", "drafted", "accepted", "accepted_at", "rounds_rounds") == [(None,) * 5]
