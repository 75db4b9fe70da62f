"""Quantization × speculation on simulated fleets whose gains and interaction are known."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path

import pytest

from specledger.reports.build import Question, build
from specledger.reports.model import Grid
from specledger.schemas.warehouse import Warehouse
from tests.reports.fleet import put_requests
from tests.simulator import RoundCost, Task, World

NOW = dt.datetime(2026, 9, 30)
SIDES = ("original", "quantized", "speculative", "both")
COST = RoundCost(base=20.0, per_request=0.0, per_token=0.0, per_draft_pass=1.0)
QUANTIZED = replace(COST, base=12.0)
PLAIN = World(engines=2, draft_length=0, cost=COST, hour_shock=0.01, tasks=(Task(concentration=float("inf")),))
WORLDS = {
    "original": PLAIN,
    "quantized": replace(PLAIN, cost=QUANTIZED),
    "speculative": replace(PLAIN, draft_length=3),
    "both": replace(PLAIN, draft_length=3, cost=QUANTIZED),
}
"""An ordinary step takes 20 ms, quantized 12 ms; three draft passes add 3 ms to both."""
INTERACTION = (12 * 23) / (15 * 20)


def grid(root: Path, nights: int, night_shock: float = 0.0) -> Grid:
    warehouse = Warehouse(root)
    dates = [dt.date(2026, 9, 1) + dt.timedelta(days=night) for night in range(nights)]
    for seed, (name, world) in enumerate(WORLDS.items()):
        shaken = replace(world, deployment=name, night_shock=night_shock)
        put_requests(warehouse, shaken, dates, seed, per_hour=10.0, gaps=False)
    found = build(warehouse, Question(grid={name: f"deployment = '{name}'" for name in SIDES}), NOW).grid
    assert found is not None
    return found


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Grid:
    return grid(tmp_path_factory.mktemp("one_night"), 1)


def test_gains_and_interaction_lie_within_their_intervals(found: Grid) -> None:
    assert found.gains["quantized"] == pytest.approx(20 / 12, rel=0.02)
    assert found.gains["speculative"] / found.gains["both"] == pytest.approx(15 / 23, rel=0.02)
    assert found.interaction == pytest.approx(INTERACTION, rel=0.03)
    low, high = found.interaction_interval or (0.0, 0.0)
    assert low < INTERACTION < high < 1.0
    for cell in found.cells:
        assert cell.interval is not None
        assert cell.interval[0] < cell.gain < cell.interval[1]
    assert {cell.name: cell.quality_baseline for cell in found.cells} == {
        "quantized": "original",
        "speculative": "original",
        "both": "quantized",
    }


def test_every_load_band_has_gains_and_interaction_with_their_intervals(found: Grid) -> None:
    band = found.by_band["5-8"]
    assert band["interaction"] == pytest.approx(band["both"] / (band["quantized"] * band["speculative"]))
    for name, value in band.items():
        low, high = found.by_band_intervals["5-8"][name]
        assert low < value < high


def test_the_interaction_holds_what_nights_differ_by(tmp_path: Path) -> None:
    found = grid(tmp_path, 6, night_shock=0.05)
    low, high = found.interaction_interval or (0.0, 0.0)
    assert low < INTERACTION < high
    # Four means of six nights, each night off by 5 %: 0.05 · √(4/6) on the ln scale, times t(5).
    assert 0.05 < high / low - 1 < 0.5
