"""Recommendations from small marts: the right length at each load, and nothing where nothing is known."""

from __future__ import annotations

import datetime as dt
import json

import duckdb
import pytest

from specledger.reports.recommend import evidence, price, recommend
from specledger.reports.schedule import Limits, length_at
from specledger.schemas import TABLES
from specledger.schemas.config import DEFAULT_SETTINGS
from specledger.schemas.errors import UsageError

NIGHT = dt.date(2026, 9, 14)
NO_LIMITS = Limits()


@pytest.fixture
def marts() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for name in ("draft_lengths", "ledger", "capacity", "preemption", "deployments", "band_totals"):
        connection.execute(TABLES[name].ddl().replace(" NOT NULL", ""))
    return connection


def put(marts: duckdb.DuckDBPyConnection, table: str, **row) -> None:
    row = {"date": NIGHT, "deployment": "d", "origin": "snapshots"} | row
    row = {name: value for name, value in row.items() if name in TABLES[table].names}
    names, marks = ", ".join(row), ", ".join("?" * len(row))
    marts.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(row.values()))


def ran(
    marts, band: str, length: int, time: float, effective: float, error: float = 0.001, deployment: str = "d"
) -> None:
    steps = 10_000
    rounds = steps if length else 0
    put(marts, "draft_lengths", deployment=deployment, load_band=band, draft_length=length, rounds=rounds,
        accepted=round((effective - 1) * steps), n=50, steps=steps, tokens=round(effective * steps),
        round_time_ms=time, round_time_error=error)  # fmt: skip
    put(marts, "band_totals", deployment=deployment, load_band=band)


def answer(marts, limits: Limits = NO_LIMITS):
    return recommend(evidence(marts, "d"), DEFAULT_SETTINGS.load_bands, limits)


def test_each_load_gets_its_own_length(marts) -> None:
    for length, low, high in ((0, 8.0, 16.0), (1, 9.6, 36.0), (3, 12.4, 80.0)):
        ran(marts, "2-4", length, low, 1 + 0.6 * length)
        ran(marts, "65-128", length, high, 1 + 0.6 * length)
    schedule = answer(marts).schedule
    assert [length_at(schedule, load) for load in (1, 3, 50, 100, 1_000)] == [3, 3, 0, 0, 0]


def test_ordinary_decode_of_a_twin_stands_in_for_length_zero(marts) -> None:
    ran(marts, "2-4", 3, 40.0, 2.5)
    ran(marts, "2-4", 0, 10.0, 1.0, deployment="plain")
    put(marts, "ledger", load_band="2-4", t0_origin="same_date", t0_date=NIGHT, t0_deployments=["plain"], t0_ms=10.0)
    choice = answer(marts).choices[1]
    assert (choice.length, choice.option.tpot_ms) == (0, 10.0)
    assert [option.length for option in choice.options] == [0, 3]


def test_a_difference_within_the_error_keeps_the_smaller_length(marts) -> None:
    ran(marts, "2-4", 0, 10.0, 1.0, error=0.05)
    ran(marts, "2-4", 3, 24.5, 2.5, error=0.05)
    assert answer(marts).choices[1].length == 0


def test_one_length_alone_is_said_to_be_no_comparison(marts) -> None:
    ran(marts, "2-4", 3, 24.5, 2.5)
    result = answer(marts)
    assert "no evidence of gain" in result.notes[-1]
    assert "only K = 3 has evidence" in result.choices[1].reason


def test_nothing_is_recommended_from_a_handful_of_steps(marts) -> None:
    put(marts, "draft_lengths", load_band="2-4", draft_length=3, rounds=9, accepted=9, n=2, steps=9, tokens=18,
        round_time_ms=20.0, round_time_error=0.1)  # fmt: skip
    put(marts, "band_totals", load_band="2-4")
    result = answer(marts)
    assert (result.schedule, result.choices, result.saving) == ([], (), None)


def test_the_saving_prices_the_tokens_that_ran(marts) -> None:
    ran(marts, "2-4", 0, 10.0, 1.0)
    ran(marts, "2-4", 3, 40.0, 2.0)
    put(marts, "capacity", load_band="2-4", seconds=3_600.0, gpus=8.0)
    found = evidence(marts, "d")
    now = (10.0 * 10_000 + 40.0 * 10_000) / 30_000
    saving = price(found, [[1, 64, 0]])
    assert saving["saved"] == pytest.approx(8 * (1 - 10.0 / now))
    assert saving["interval"][0] < saving["saved"] < saving["interval"][1]
    assert saving["unit"] == "GPU-hours a night"


def test_a_length_without_evidence_is_left_out_of_the_price_and_said(marts) -> None:
    ran(marts, "2-4", 3, 40.0, 2.0)
    put(marts, "capacity", load_band="2-4", seconds=60.0)
    saving = price(evidence(marts, "d"), [[1, 64, 7]])
    assert (saving["saved"], saving["share_without_evidence"], saving["unit"]) == (0.0, 1.0, "engine-hours a night")


def test_limits_of_vllm_are_said_only_where_they_apply(marts) -> None:
    ran(marts, "2-4", 3, 40.0, 2.0)
    assert not any("data parallel" in note.lower() for note in answer(marts).notes)
    put(marts, "deployments", data_parallel=2, draft_limit=3, max_num_seqs=64, started_at=dt.datetime(2026, 9, 14))
    result = answer(marts)
    assert any("data parallel" in note.lower() for note in result.notes)
    assert (result.in_force, result.schedule[-1][1]) == ([[1, 64, 3]], 64)


def test_the_answer_is_plain_json(marts) -> None:
    ran(marts, "2-4", 3, 40.0, 2.0)
    assert json.loads(json.dumps(answer(marts).as_json()))["bands"][1]["load_band"] == "2-4"


def test_an_unknown_deployment_is_wrong_use(marts) -> None:
    with pytest.raises(UsageError, match="nothing of deployment"):
        evidence(marts, "x")
