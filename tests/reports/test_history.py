"""Levels of nights, change points, and drift inside a process life."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from specledger.reports.cells_read import CellReader, Frame
from specledger.reports.history import MEASURED, Drift, change_points, drift, nightly_levels
from specledger.reports.origins import choose, preferred, totals
from specledger.reports.selection import Night, Selection
from specledger.reports.strata import Strata, stratify
from specledger.schemas.config import DEFAULT_SETTINGS
from specledger.schemas.warehouse import Warehouse
from tests.reports.fleet import WORLD, put_requests, put_scrapes, report
from tests.simulator.world import Task

DAYS = [dt.date(2026, 9, 7) + dt.timedelta(days=day) for day in range(9)]


def test_a_new_level_is_found_where_it_begins() -> None:
    rng = np.random.default_rng(1)
    values = np.concatenate([rng.normal(1.0, 0.005, 12), rng.normal(0.95, 0.005, 5), rng.normal(1.0, 0.005, 8)])
    assert change_points(list(values)) == {12, 17}


def test_one_odd_night_is_no_new_level_and_chance_makes_none() -> None:
    rng = np.random.default_rng(2)
    odd = rng.normal(1.0, 0.005, 20)
    odd[10] = 0.8
    assert change_points(list(odd)) == set()
    alarms = sum(bool(change_points(list(rng.normal(1.0, 0.02, 30)))) for _ in range(300))
    assert alarms <= 9  # 1 % of 300, plus three standard errors


@pytest.mark.parametrize("values", [[], [1.0] * 5, [1.0] * 30])
def test_short_and_constant_series_have_no_change(values: list[float]) -> None:
    assert change_points(values) == set()


def test_steps_below_what_is_worth_naming_are_left_out() -> None:
    assert change_points([1.0] * 10 + [1.005] * 10) == set()
    assert change_points([1.0] * 10 + [1.05] * 10) == {10}


def nights_of(warehouse: Warehouse) -> tuple[Frame, Strata]:
    selection = Selection("all", tuple(Night(day, WORLD.deployment) for day in DAYS))
    frame = CellReader(warehouse).frame(selection, "requests")
    return frame, stratify(frame.observed(), frame.observed(), DEFAULT_SETTINGS.load_bands)


def test_a_shift_of_the_mix_moves_no_level(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    put_requests(warehouse, WORLD, DAYS[:5], 1, per_hour=6, gaps=False)
    put_requests(warehouse, WORLD.with_shares(0.1, 0.1, 0.8), DAYS[5:], 2, per_hour=6, gaps=False)
    frame, strata = nights_of(warehouse)
    levels = [level.value for level in nightly_levels(frame, strata, "acceptance_length", None)]
    assert len(levels) == len(DAYS)
    assert max(levels) / min(levels) < 1.05


@pytest.mark.parametrize("origin", ["requests", "snapshots"])
def test_few_columns_of_a_long_side_add_up_to_the_same(origin: str, tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    put_scrapes(warehouse, WORLD, put_requests(warehouse, WORLD, DAYS[:3], 1, per_hour=6, gaps=True))
    reader, side = CellReader(warehouse), Selection("all", tuple(Night(day, WORLD.deployment) for day in DAYS))
    whole, few = reader.frame(side, origin), reader.course(side, origin, MEASURED)
    assert whole.rows == few.rows > 3 * 24
    for name in ("unit", "hour", "load", "n"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(few, name))
    assert [whole.rests[code] for code in whole.rest] == [few.rests[code] for code in few.rest]
    assert few.columns.keys() == {f"{measure}.{part}" for measure in MEASURED for part in ("num", "den")}
    for name, values in few.columns.items():
        np.testing.assert_array_equal(whole.columns[name], values)


@pytest.mark.parametrize(("asked", "served"), [(6, 6), (3, 6), (6, 0), (0, 6), (0, 0)])
def test_the_origin_of_a_long_side_is_the_one_that_a_report_would_take(asked: int, served: int, tmp_path: Path) -> None:
    warehouse, other = Warehouse(tmp_path / "warehouse"), Warehouse(tmp_path / "other")
    if asked:
        put_requests(warehouse, WORLD, DAYS[:2], 1, per_hour=asked, gaps=False)
    if served:
        put_scrapes(warehouse, WORLD, put_requests(other, WORLD, DAYS[:2], 1, per_hour=served))
    reader, side = CellReader(warehouse), Selection("all", tuple(Night(day, WORLD.deployment) for day in DAYS))
    order = choose({"all": totals(reader, side)}).order
    assert preferred(reader, side) == (order[0] if order else None)
    assert order[:1] == {(6, 6): ("requests",), (6, 0): ("requests",), (0, 0): ()}.get((asked, served), ("snapshots",))


def drifting(tmp_path: Path, per_day: float) -> Drift | None:
    """One task without spread, whose length moves with the days since the only start."""
    warehouse, alike = Warehouse(tmp_path), replace(WORLD, tasks=(Task("chat", 1.0, concentration=float("inf")),))
    for age, day in enumerate(DAYS):
        world = alike.with_length((1 + per_day) ** age)
        put_requests(warehouse, world, [day], age, per_hour=6, gaps=False)
    return drift(*nights_of(warehouse), [dt.datetime.combine(DAYS[0], dt.time())])


def test_acceptance_that_decays_until_a_restart_is_drift(tmp_path: Path) -> None:
    found = drifting(tmp_path, -0.01)
    assert found is not None
    assert found.per_day == pytest.approx(-0.01, rel=0.2)
    assert found.over_life == pytest.approx(-0.085, rel=0.2)


def test_steady_acceptance_does_not_drift(tmp_path: Path) -> None:
    assert drifting(tmp_path, 0.0) is None


def test_a_report_looks_back_on_the_nights_of_its_deployment(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    put_requests(warehouse, WORLD, DAYS[:5], 1, per_hour=6, gaps=False)
    put_requests(warehouse, WORLD.with_length(0.9), DAYS[5:], 2, per_hour=6, gaps=False)
    found = report(warehouse, f"date < '{DAYS[5]}'", f"date = '{DAYS[-1]}'")
    pooled = [n for n in found.history if (n.measure, n.load_band) == ("acceptance_length", "all")]
    assert [night.date for night in pooled] == [day.isoformat() for day in DAYS]
    assert [night.date for night in pooled if night.change_point] == [DAYS[5].isoformat()]
    assert [night.used for night in pooled] == [True] * 5 + [False] * 4
    assert pooled[-1].judged == "fail"
    assert any(DAYS[5].isoformat() in note for note in found.notes)
