"""A small calibration: nothing changed raises no alarm, what changed is found; ``make calibrate`` is the large one."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from specledger.reports.cells_read import CellReader
from specledger.schemas.warehouse import Warehouse
from tests import captures
from tests.calibrate import BASELINE_NIGHTS, DETECTED, SAME, Judged, Rate, Size, pairs, rates
from tests.reports.fleet import WORLD
from tests.reports.halves import Halves, failed
from tests.reports.halves import judged as judged_halves
from tests.reports.pool import Pool, gates, judged, selection
from tests.scale import scaled


@pytest.fixture(scope="module")
def found() -> list[Judged]:
    size = Size(same=BASELINE_NIGHTS + 1, changed=1, per_hour=12.0)
    return [one for pool in range(scaled(1)) for one in pairs((1, pool), 1.0, size)]


def test_nothing_changed_and_a_mere_shift_raise_no_alarm(found: list[Judged]) -> None:
    alarms = [rate for rate in rates(found) if rate.what.startswith("false alarms")]
    assert len(alarms) == 4
    assert all(rate.hits <= 0.05 * rate.of for rate in alarms)


def test_acceptance_and_times_that_are_twice_the_tolerance_worse_fail(found: list[Judged]) -> None:
    sure = {measure for measures in DETECTED.values() for measure in measures} - {"itl_ms_p99"}
    named = [rate for rate in rates(found) if rate.what.split(" ")[0] in sure and " fails, " in rate.what]
    assert named
    assert all(rate.share >= 0.8 for rate in named)


def test_the_true_change_lies_in_nearly_every_interval(found: list[Judged]) -> None:
    coverages = [rate for rate in rates(found) if rate.what.startswith("coverage")]
    assert sum(rate.hits for rate in coverages) >= 0.9 * sum(rate.of for rate in coverages)


def test_a_rate_is_held_against_its_bounds() -> None:
    assert Rate("detection", 95, 100, least=0.95).kept
    assert not Rate("detection", 94, 100, least=0.95).kept
    assert not Rate("alarms", 6, 100, most=0.05).kept
    assert "**out**" in Rate("alarms", 6, 100, most=0.05).row()


def test_a_pool_judges_a_pair_as_a_report_does(tmp_path: Path) -> None:
    days = [dt.date(2026, 1, 1) + dt.timedelta(days=day) for day in range(3)]
    pool = Pool(tmp_path, [(WORLD, day) for day in days], (3,), per_hour=6.0)
    for origin in ("requests", "snapshots"):
        alone = gates(CellReader(Warehouse(tmp_path)), selection(days[:2]), selection(days[2:]), origin)
        assert judged(pool, days[:2], days[2], origin) == alone
    assert SAME


@pytest.mark.parametrize("name", captures.FOLDERS)
def test_halves_of_a_real_night_do_not_fail_each_other(name: str, tmp_path: Path) -> None:
    halves = Halves(captures.inputs(name), tmp_path / "warehouse")
    found = judged_halves(halves, splits=scaled(2))
    assert {kind: [failed(results) for results in splits] for kind, splits in found.items()} == {
        kind: [[]] * scaled(2) for kind in ("random halves", "alternate stretches")
    }
    assert any(result.verdict == "pass" for splits in found.values() for results in splits for result in results)
