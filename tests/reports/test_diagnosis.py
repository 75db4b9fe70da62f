"""A failure names the causes that the data support, and never one that they do not."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path

import pytest

from specledger.reports import terminal
from specledger.reports.advice import Clues, advise
from specledger.reports.findings import ContextChange
from specledger.reports.groups import remedies
from specledger.reports.history import Drift, History
from specledger.reports.model import (
    Advice,
    BandFigures,
    GateResult,
    PositionFigures,
    ReconciliationRow,
    Report,
    SplitRow,
    Stratum,
)
from specledger.schemas.warehouse import Warehouse
from tests.reports.fleet import FIRST, LAST, WORLD, put_requests, report
from tests.sample_reports import gate
from tests.sample_reports import report as report_of
from tests.simulator.world import Task, World

FELL = SplitRow(None, 0.12, 0.0, 0.12, 0.0, 0.0, 0.0, "requests", 1.0, "acceptance")
SLOWER = SplitRow(None, 0.12, 0.12, 0.0, 0.0, 0.0, 0.0, "requests", 1.0, "round_time")
SHORTER = gate("acceptance_length", gate="capacity")


def advice(*results: GateResult, **clues: object) -> list[Advice]:
    given: dict[str, object] = {"split": (), "bands": (), "positions": (), "reconciliation": (), "changes": (), **clues}
    return list(advise(Clues(results, **given)))  # type: ignore[arg-type]


def survivals(before: tuple[float, ...], after: tuple[float, ...]) -> list[PositionFigures]:
    sides = (("baseline", before), ("candidate", after))
    return [
        PositionFigures(side, "requests", place, 10_000, round(10_000 * value), value, None, 1.0, False)
        for side, values in sides
        for place, value in enumerate(values, 1)
    ]


@pytest.mark.parametrize(
    ("after", "says"),
    [
        ((0.35, 0.25, 0.18), "The first position fell"),
        ((0.77, 0.40, 0.20), "Only later positions fell"),
        ((0.68, 0.49, 0.35), "Every position fell"),
    ],
)
def test_positions_tell_where_acceptance_was_lost(after: tuple[float, ...], says: str) -> None:
    (found,) = advice(SHORTER, split=(FELL,), positions=survivals((0.78, 0.56, 0.40), after))
    assert (found.cause, found.action.startswith(says)) == ("acceptance", True)


def test_positions_that_moved_apart_are_no_fall_of_every_one() -> None:
    (found,) = advice(SHORTER, split=(FELL,), positions=survivals((0.78, 0.56, 0.40), (0.70, 0.57, 0.41)))
    assert found.action.startswith("Acceptance fell, and no position alone tells why")


def test_gaps_that_grew_with_the_rounds_are_no_prefill() -> None:
    pauses = gate("longest_pause_ms"), gate("round_time_ms", "pass", gate="capacity")
    assert [item.cause for item in advice(*pauses)] == ["prefill"]
    slower = gate("round_time_ms", gate="capacity", stratum=Stratum("1"))
    assert [item.cause for item in advice(*pauses, slower)] == []


@pytest.mark.parametrize(("length", "named"), [(1.5, True), (2.95, False)])
def test_drafts_that_got_shorter_are_no_fault_of_the_drafter(length: float, named: bool) -> None:
    bands = [
        BandFigures(side, "all", "requests", mean_draft_length=drafted)
        for side, drafted in (("baseline", 3.0), ("candidate", length))
    ]
    (found,) = advice(SHORTER, split=(FELL,), bands=bands, positions=survivals((0.78, 0.56), (0.68, 0.49)))
    assert found.action.startswith("Drafts got shorter" if named else "Every position fell")


def missing_positions() -> ReconciliationRow:
    return ReconciliationRow("candidate", "d", "2026-09-15", "positions_add_up", "snapshots", "fail", 5444.0, 3613.0)


def test_a_series_that_one_engine_lacks_is_a_fault_of_the_metrics_and_its_positions_say_nothing() -> None:
    positions = survivals((0.78, 0.56, 0.40), (0.39, 0.28, 0.20))
    found = advice(SHORTER, split=(FELL,), positions=positions, reconciliation=(missing_positions(),))
    assert [item.cause for item in found] == ["metrics", "acceptance"]
    assert "not of the model" in found[0].finding
    assert "position fell" not in found[1].action
    held = [replace(missing_positions(), verdict="ok")]
    assert [item.cause for item in advice(SHORTER, split=(FELL,), positions=positions, reconciliation=held)] == [
        "acceptance"
    ]


def test_rounds_that_take_longer_at_the_same_acceptance_point_to_their_cost() -> None:
    found = advice(gate(), gate("round_time_ms", gate="capacity"), split=(SLOWER,))
    assert [item.cause for item in found] == ["round_time"]
    assert "graph sizes" in found[0].action
    both = replace(SLOWER, d_ln_tpot=0.2, acceptance=0.08)
    assert [item.cause for item in advice(gate(), SHORTER, split=(both,))] == ["acceptance", "round_time"]


def switched(busy: float, *, on: bool = True) -> list[Advice]:
    """Speculation against none, or the other way round, slower at two busy loads; ``busy`` is T_round there."""
    plain, drafted = {"round_time_ms": 10.0}, {"round_time_ms": busy, "rounds": 900, "effective_length": 2.5}
    before, after = (plain, drafted) if on else (drafted, plain)
    coverage = {"coverage": 1.0 - on}, {"coverage": float(on)}
    places = [Stratum("17-32"), Stratum("33-64")]
    bands = [
        BandFigures(side, place.load_band, "requests", **facts, **share)  # type: ignore[arg-type]
        for place in places
        for side, facts, share in (("baseline", before, coverage[0]), ("candidate", after, coverage[1]))
    ]
    term = "round_time" if on else "coverage"
    split = [SplitRow(place, 0.2, 0.9 * on, 0.0, 0.9 * (not on), 0.0, 0.0, "requests", 0.5, term) for place in places]
    return advice(*(gate(stratum=place) for place in places), split=split, bands=bands)


def test_speculation_that_costs_more_than_it_returns_is_told_once_for_all_loads() -> None:
    (remedy,) = remedies(switched(30.0))
    assert remedy.where == "At load 17-32 (likewise at 33-64): "
    assert remedy.advice.evidence == "A round takes as long as 3.00 ordinary steps and returns 2.50 tokens."
    assert "does not pay" in remedy.advice.action
    assert remedy.where in terminal.render(report_of(advice=tuple(switched(30.0)), verdict="fail"))


def test_figures_that_one_origin_lacks_are_told_from_the_one_that_has_them() -> None:
    by_scrapes = replace(SLOWER, origin="snapshots")
    bands = [BandFigures(side, "all", "requests", tpot_ms=9.0) for side in ("baseline", "candidate")]
    counted = gate("round_time_ms", gate="capacity", baseline=20.0, candidate=22.5, origin="snapshots")
    (found,) = advice(gate(), counted, split=(by_scrapes,), bands=bands)
    assert found.evidence == "Round time went from 20.00 to 22.50 ms (from snapshots, at the baseline's mix)."
    (found,) = advice(gate(), split=(by_scrapes,), bands=bands)
    assert found.evidence == (
        "The split is from snapshots; the figures of each load are from requests, which do not tell round time on both "
        "sides."
    )


def test_stalls_of_preemption_are_not_laid_to_speculation() -> None:
    facts = {"round_time_ms": 50.0, "rounds": 900, "effective_length": 2.5, "steps": 900, "preemptions": 20}
    bands = [
        BandFigures("baseline", "all", "snapshots", round_time_ms=20.0, steps=2_000),
        BandFigures("candidate", "all", "snapshots", **facts),  # type: ignore[arg-type]
    ]
    (found,) = advice(gate(), split=(SLOWER,), bands=bands)
    assert found.evidence.startswith("20 preemptions stood between the steps of the candidate")
    assert found.action.startswith("The KV cache is too small for this load")


def test_speculation_that_was_switched_off_is_no_drafter_without_matches() -> None:
    (remedy,) = remedies(switched(15.0, on=False))
    assert "Speculation is off in the candidate" in remedy.advice.action


KEPT, LOST, OPEN = (0.0, (-0.02, 0.02)), (-0.2, (-0.25, -0.15)), (-0.05, (-0.15, 0.05))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ((KEPT, KEPT, LOST), "4-16k"),
        ((KEPT, LOST, LOST), "1-4k"),
        ((KEPT, OPEN, LOST), "4-16k"),
        ((LOST, LOST, LOST), None),
        ((LOST, KEPT, LOST), None),
        ((OPEN, OPEN, LOST), None),
        ((KEPT, KEPT, KEPT), None),
        ((), None),
    ],
)
def test_long_contexts_are_named_only_where_no_shorter_one_lost(
    changes: tuple[tuple[float, tuple[float, float]], ...], named: str | None
) -> None:
    contexts = [ContextChange(label, *change) for label, change in zip(("<1k", "1-4k", "4-16k"), changes, strict=False)]
    (found,) = advice(SHORTER, split=(FELL,), contexts=contexts)
    assert ("Only long contexts" in found.action) is (named is not None)
    assert named is None or f"({named} tokens)" in found.action


def test_drift_is_named_with_its_size() -> None:
    drift = Drift(-0.02, -0.08, 0.001, 160)
    (found,) = advice(histories=(History("d", (), drift),))
    assert (found.cause, "−8.0 %" in found.evidence) == ("drift", True)
    assert advice(histories=(History("d", (), None),)) == []


def nights(warehouse: Warehouse, before: World, after: World) -> Report:
    for world, date, seed in ((before, FIRST, 1), (after, LAST, 2)):
        put_requests(warehouse, world, [date], seed, per_hour=20.0, gaps=False)
    return report(warehouse)


@pytest.mark.parametrize("everywhere", [False, True])
def test_a_drafter_that_fails_beyond_its_length_is_told_from_one_that_fails(tmp_path: Path, everywhere: bool) -> None:
    short = Task("chat", 0.4, (0.75, 0.72, 0.70), prompt_tokens=300.0)
    long = Task("chat", 0.6, (0.75, 0.72, 0.70), prompt_tokens=9_000.0)
    lost = (0.5, 0.45, 0.4)
    worse = (replace(short, conditional=lost) if everywhere else short, replace(long, conditional=lost))
    found = nights(Warehouse(tmp_path), replace(WORLD, tasks=(short, long)), replace(WORLD, tasks=worse))
    (acceptance,) = [item for item in found.advice if item.cause == "acceptance" and item.stratum is None]
    assert ("Only long contexts" in acceptance.action) is not everywhere


@pytest.mark.parametrize("decays", [True, False])
def test_acceptance_that_decays_until_a_restart_is_drift(tmp_path: Path, decays: bool) -> None:
    warehouse = Warehouse(tmp_path)
    days = [dt.date(2026, 9, 7) + dt.timedelta(days=day) for day in range(9)]
    for number, day in enumerate(days):
        world = WORLD.with_length(1 - 0.02 * (number % 5) * decays)
        put_requests(warehouse, world, [day], number, per_hour=8.0, gaps=False)
    put_starts(warehouse, [days[0], days[5]])
    found = report(warehouse, f"date < DATE '{days[-1]}'", f"date = DATE '{days[-1]}'")
    assert ("drift" in {item.cause for item in found.advice}) is decays


def put_starts(warehouse: Warehouse, days: list[dt.date]) -> None:
    from tests.reports.fleet import put_row

    for day in days:
        put_row(warehouse, "deployments", day, WORLD.deployment, started_at=dt.datetime.combine(day, dt.time()))
