"""Whole reports over simulated nights: each has one verdict that must come out."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from specledger.reports import html, wording
from specledger.reports.acknowledge import Acknowledgement
from specledger.reports.gates import load_gates
from specledger.reports.interval import critical
from specledger.reports.model import Report, Verdict, from_json, to_json
from specledger.reports.selection import NOTHING
from specledger.schemas.cells import CELLS_REQUESTS, CELLS_SNAPSHOTS
from specledger.schemas.errors import EmptyWarehouse, UsageError
from specledger.schemas.warehouse import Warehouse
from tests.reports.fleet import (
    BASELINE,
    CANDIDATE,
    FIRST,
    LAST,
    WORLD,
    filled,
    gate,
    put_requests,
    put_row,
    put_scrapes,
    report,
)
from tests.simulator import nights
from tests.simulator.world import Task, World

PER_HOUR = 12.0


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path)


def two_nights(warehouse: Warehouse, candidate: World, baseline: World = WORLD, *, scrapes: bool = False) -> Report:
    for world, date, seed in ((baseline, FIRST, 1), (candidate, LAST, 2)):
        frame = put_requests(warehouse, world, [date], seed, per_hour=PER_HOUR, gaps=True)
        if scrapes:
            put_scrapes(warehouse, world, frame)
    if scrapes:
        for path in (warehouse.root / "cells_requests").rglob("*.parquet"):
            path.unlink()
    return report(warehouse)


def test_the_same_world_again_passes_and_its_figures_can_be_computed_by_hand(warehouse: Warehouse) -> None:
    found = two_nights(warehouse, WORLD)
    assert not {result.verdict for result in found.gates} & {"fail", "warn"}
    length = gate(found, "capacity", "acceptance_length")
    assert (length.verdict, length.unit, length.n_baseline, length.night_variance) == (
        "pass",
        "hour",
        24,
        "not_estimated",
    )
    assert found.exit_code == 0
    before, after = length.evidence_baseline, length.evidence_candidate
    assert before is not None
    assert after is not None
    assert before.standardized == pytest.approx((before.numerator or 0) / (before.denominator or 1))
    assert length.change == pytest.approx((after.standardized or 0) / (before.standardized or 1) - 1)
    half = critical(length.degrees_of_freedom or 0) * math.sqrt((before.variance or 0) + (after.variance or 0))
    log = math.log1p(length.change or 0)
    assert length.interval == pytest.approx((math.expm1(log - half), math.expm1(log + half)))
    assert from_json(to_json(found)) == found


def at_loads(warehouse: Warehouse, date: dt.date, low: int, high: int, seed: int) -> None:
    """A night whose requests ran at these loads, each as often as the others."""
    frame = nights.requests(WORLD, [date], np.random.default_rng(seed), per_hour=PER_HOUR, gaps=False)
    load = low + pl.int_range(pl.len(), dtype=pl.Int64) % (high - low + 1)
    table = nights.cells(WORLD, frame.with_columns(load=load))
    warehouse.write(CELLS_REQUESTS, date, WORLD.deployment, "cells", table)


def test_a_band_inside_which_the_sides_ran_at_other_loads_is_told(warehouse: Warehouse) -> None:
    at_loads(warehouse, FIRST, 19, 24, 1)
    at_loads(warehouse, LAST, 24, 32, 2)
    found = report(warehouse)
    (gap,) = found.load_gaps
    before, after = gap.baseline, gap.candidate
    assert (gap.load_band, before.low, before.high, after.low, after.high) == ("17-32", 19, 24, 24, 32)
    assert (before.mean, after.mean) == (pytest.approx(21.5, abs=0.3), pytest.approx(28.0, abs=0.3))
    assert gap.difference == pytest.approx(28 / 21.5 - 1, abs=0.02)
    assert "from 19 to 24, in the baseline" in (wording.loads(found) or "")


@pytest.mark.parametrize("loads", [(19, 24), (17, 32)])
def test_loads_that_both_sides_have_make_no_gap(warehouse: Warehouse, loads: tuple[int, int]) -> None:
    at_loads(warehouse, FIRST, *loads, 1)
    at_loads(warehouse, LAST, 19, 24, 2)
    assert report(warehouse).load_gaps == ()


def test_a_drafter_that_lost_a_tenth_fails_and_acceptance_is_named(warehouse: Warehouse) -> None:
    found = two_nights(warehouse, WORLD.with_length(0.88))
    assert (found.verdict, found.exit_code) == ("fail", 1)
    assert gate(found, "capacity", "acceptance_length").verdict == "fail"
    assert gate(found, "capacity", "round_time_ms").verdict == "pass"
    assert found.split[0].largest == "acceptance"
    assert {item.cause for item in found.advice} == {"acceptance"}
    assert gate(found, "capacity", "acceptance_length").advice


@pytest.mark.parametrize("scrapes", [False, True])
def test_slower_rounds_fail_from_requests_alone_and_from_scrapes_alone(warehouse: Warehouse, scrapes: bool) -> None:
    found = two_nights(warehouse, WORLD.with_round_time(1.15), scrapes=scrapes)
    tpot = gate(found, "latency", "tpot_ms")
    assert (tpot.verdict, tpot.origin) == ("fail", "snapshots" if scrapes else "requests")
    assert gate(found, "capacity", "acceptance_length").verdict == "pass"
    assert found.split[0].largest == "round_time"
    assert "acceptance" not in {item.cause for item in found.advice}
    gaps = {result.measure for result in found.gates if result.measure in {"itl_over", "itl_ms_p99"}}
    assert gaps == ({"itl_over"} if scrapes else {"itl_ms_p99"})


def test_preemptions_count_at_loads_at_which_no_request_ended(warehouse: Warehouse) -> None:
    requests = []
    for date, seed, count in ((FIRST, 1, 2), (LAST, 2, 30)):
        frame = put_requests(warehouse, WORLD, [date], seed, per_hour=PER_HOUR)
        put_scrapes(warehouse, WORLD, frame)
        requests.append(len(frame))
        busy = {
            "hour": range(24),
            "load": [int(frame["load"].max()) + 1] * 24,  # type: ignore[arg-type]
            "instance": ["busy"] * 24,
            "origin": ["snapshots"] * 24,
            **{name: [0] * 24 for name in ("engine", "block", "requests", "duration_ns", "decode_ns", "decode_tokens")},
            **{name: [1] * 24 for name in ("n", "edges")},
            "preemptions": [count] * 24,
        }
        columns = {name: list(values) for name, values in busy.items()}
        warehouse.write(CELLS_SNAPSHOTS, date, WORLD.deployment, "busy", filled(CELLS_SNAPSHOTS, columns))
    found = gate(report(warehouse), "capacity", "per_1k_requests")
    sides = found.evidence_baseline, found.evidence_candidate
    assert [(side.numerator, side.denominator) for side in sides if side] == [
        (24 * count, whole) for count, whole in zip((2, 30), requests, strict=True)
    ]
    assert found.baseline == pytest.approx(1000 * 24 * 2 / requests[0])
    assert found.common_share == pytest.approx(1.0)


def test_a_limit_of_a_quantile_over_few_requests_is_judged_by_what_was_seen(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    for date, seed in ((FIRST, 1), (LAST, 2)):
        put_requests(warehouse, replace(WORLD, engines=1), [date], seed, per_hour=0.6)
    path = tmp_path / "gates.toml"
    path.write_text('[[gate]]\ngate = "latency"\nmeasure = "ttft_ms_p99"\nlimit = 1e9\n')
    found = gate(report(warehouse, gates=load_gates(path, ())), "latency", "ttft_ms_p99")
    assert (found.verdict, found.kind) == ("pass", "limit")


@pytest.mark.parametrize(("limit", "verdict"), [(1e9, "no_data"), (1e-3, "fail")])
def test_the_first_night_shows_what_it_has_and_is_held_to_limits(
    warehouse: Warehouse, tmp_path: Path, limit: float, verdict: Verdict
) -> None:
    put_scrapes(warehouse, WORLD, put_requests(warehouse, WORLD, [LAST], 1, per_hour=PER_HOUR))
    path = tmp_path / "gates.toml"
    path.write_text(f'[[gate]]\ngate = "latency"\nmeasure = "ttft_ms_p99"\nlimit = {limit}\n')
    found = report(warehouse, baseline=NOTHING, gates=load_gates(path, ()))
    assert (found.verdict, found.exit_code) == (verdict, int(verdict == "fail"))
    length = gate(found, "capacity", "acceptance_length")
    assert (length.verdict, length.baseline) == ("no_data", None)
    assert length.candidate is not None
    assert {figure.side for figure in found.bands} == {figure.side for figure in found.quantiles} == {"candidate"}
    assert sum(figure.rounds or 0 for figure in found.bands) > 1_000
    assert gate(found, "correctness", "comparability").verdict == "no_data"
    page = html.render(found)
    assert not [words for words in ("Load is not known", "has this quantile", "No step times") if words in page]


def test_requests_that_hold_more_than_their_servers_counted_are_a_warning(warehouse: Warehouse) -> None:
    for date, seed in ((FIRST, 1), (LAST, 2)):
        frame = put_requests(warehouse, WORLD, [date], seed, per_hour=PER_HOUR)
        put_scrapes(warehouse, WORLD, frame if date == FIRST else frame.head(len(frame) // 2))
    (note,) = [note for note in report(warehouse).notes if note.startswith("Figures are from requests")]
    assert "Those of the candidate hold 193.8 %" in note
    assert "baseline" not in note


def test_a_measure_of_one_side_says_which_side_lacks_it(warehouse: Warehouse) -> None:
    put_requests(warehouse, WORLD, [FIRST], 1, per_hour=PER_HOUR)
    put_scrapes(warehouse, WORLD, put_requests(warehouse, WORLD, [LAST], 2, per_hour=PER_HOUR))
    for path in (warehouse.root / "cells_requests").glob("date=2026-09-15/**/*.parquet"):
        path.unlink()
    found = gate(report(warehouse), "latency", "ttft_ms_p95")
    assert (found.verdict, found.reason) == ("no_data", "The candidate does not have this figure.")


def test_a_mere_shift_of_the_mix_raises_no_alarm(warehouse: Warehouse) -> None:
    found = two_nights(warehouse, WORLD.with_shares(0.25, 0.15, 0.6))
    assert found.exit_code == 0
    assert gate(found, "capacity", "acceptance_length").verdict == "pass"
    effect = next(effect for effect in found.effects if effect.measure == "acceptance_length")
    assert effect.mix < -0.05
    assert abs(effect.within) < 0.02
    assert found.split[0].largest == "mix"


def test_a_better_drafter_passes_when_the_records_say_that_it_changed(warehouse: Warehouse) -> None:
    for date, draft in ((FIRST, "old"), (LAST, "new")):
        put_row(
            warehouse,
            "deployments",
            date,
            WORLD.deployment,
            started_at=dt.datetime.combine(date, dt.time(1)),
            model="m",
            draft_method="eagle3",
            draft_model=draft,
            draft_limit=3,
        )
    found = two_nights(warehouse, WORLD.with_length(1.2))
    assert gate(found, "correctness", "acceptance_length").verdict == "pass"
    assert [(change.what, change.kind) for change in found.changes] == [("draft_model", "draft")]
    assert found.exit_code == 0


def test_the_same_gain_of_an_unchanged_drafter_is_held_back(warehouse: Warehouse) -> None:
    found = two_nights(warehouse, WORLD.with_length(1.2))
    assert gate(found, "correctness", "acceptance_length").reason_code == "implausible"
    assert found.verdict == "inconclusive"


def test_a_changed_target_makes_quality_required_and_without_figures_nothing_is_answered(warehouse: Warehouse) -> None:
    for date, quantization in ((FIRST, None), (LAST, "fp8")):
        started = dt.datetime.combine(date, dt.time(1))
        put_row(
            warehouse, "deployments", date, WORLD.deployment, started_at=started, model="m", quantization=quantization
        )
    found = two_nights(warehouse, WORLD)
    assert found.exit_code == 3
    assert gate(found, "quality", "quality").required
    assert gate(found, "correctness", "paired_outputs").verdict == "not_comparable"
    for date, value in ((FIRST, 0.80), (LAST, 0.801)):
        put_row(
            warehouse,
            "quality",
            date,
            WORLD.deployment,
            task="mmlu",
            metric="acc",
            value=value,
            stderr=0.002,
            n=10_000,
            evaluated_at=dt.datetime.combine(date, dt.time(2)),
        )
    answered = report(warehouse)
    assert gate(answered, "quality", "mmlu/acc").verdict == "pass"
    assert answered.exit_code == 0


def test_a_required_gate_without_data_ends_with_its_own_exit_code(warehouse: Warehouse, tmp_path: Path) -> None:
    path = tmp_path / "gates.toml"
    path.write_text('[[gate]]\ngate = "capacity"\nmeasure = "goodput_tps"\nrequired = true\n')
    two_nights(warehouse, WORLD)
    assert report(warehouse, gates=load_gates(path, ["1"])).exit_code == 3


@pytest.mark.parametrize(("until", "verdict", "code"), [(LAST, "acknowledged", 0), (FIRST, "fail", 1)])
def test_an_accepted_regression_does_not_fail_until_it_expires(
    warehouse: Warehouse, until: dt.date, verdict: str, code: int
) -> None:
    two_nights(warehouse, WORLD.with_round_time(1.15))
    accepted = tuple(
        Acknowledgement(measure, "New driver.", until)
        for measure in ("tpot_ms", "round_time_ms", "itl_ms_p99", "e2e_ms_p95", "ttft_ms_p95")
    )
    found = report(warehouse, acknowledged=accepted)
    assert gate(found, "latency", "tpot_ms").verdict == verdict
    assert found.exit_code == code


@pytest.mark.parametrize(("share", "verdict"), [(0.6, "pass"), (0.2, "not_comparable")])
def test_strata_of_one_side_count_until_they_are_most_of_the_baseline(
    warehouse: Warehouse, share: float, verdict: str
) -> None:
    both, alone = Task("both", 1.0, (0.7, 0.7, 0.7)), Task("alone", 1.0, (0.5, 0.5, 0.5))
    before = replace(WORLD, tasks=(replace(both, share=share), replace(alone, share=1 - share)))
    found = two_nights(warehouse, replace(WORLD, tasks=(both,)), before)
    length = gate(found, "capacity", "acceptance_length")
    assert length.verdict == verdict
    assert length.common_share == pytest.approx(share, abs=0.15)


def test_greedy_against_sampled_traffic_has_nothing_in_common(warehouse: Warehouse) -> None:
    sampled = replace(WORLD, tasks=tuple(replace(task, temperature=0.7) for task in WORLD.tasks))
    greedy = replace(WORLD, tasks=tuple(replace(task, temperature=0.0) for task in WORLD.tasks))
    found = two_nights(warehouse, sampled, greedy)
    assert gate(found, "capacity", "acceptance_length").verdict == "not_comparable"
    assert found.verdict == "not_comparable"


def test_a_dead_drafter_fails_correctness(warehouse: Warehouse) -> None:
    found = two_nights(warehouse, WORLD.with_acceptance(0.0))
    assert gate(found, "correctness", "acceptance_length").reason_code == "dead"
    assert "drafter_dead" in {item.cause for item in found.advice}


def test_a_selection_that_matches_nothing_is_no_data(warehouse: Warehouse) -> None:
    put_requests(warehouse, WORLD, [FIRST], 1, per_hour=2, gaps=False)
    found = report(warehouse)
    assert (found.verdict, found.exit_code) == ("no_data", 0)
    assert "candidate" in found.reason


def test_swapping_the_sides_negates_every_term_of_the_split(warehouse: Warehouse) -> None:
    forth = two_nights(warehouse, WORLD.with_length(0.9).with_round_time(1.1))
    back = report(warehouse, CANDIDATE, BASELINE)
    assert len(forth.split) == len(back.split) > 1
    for one, other in zip(forth.split, back.split, strict=True):
        for term in ("d_ln_tpot", "round_time", "acceptance", "coverage", "truncation", "mix"):
            assert getattr(one, term) == -getattr(other, term)


def test_verdicts_do_not_depend_on_the_order_of_rows_or_the_names_of_engines(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    from specledger.schemas.cells import CELLS_REQUESTS

    straight, mixed = Warehouse(tmp_path / "a"), Warehouse(tmp_path / "b")
    found = two_nights(straight, WORLD.with_length(0.93))
    for file in straight.files(CELLS_REQUESTS):
        rows = pq.ParquetFile(file.path).read()
        rows = rows.set_column(
            rows.schema.names.index("instance"), "instance", [[f"x{9 - int(v.as_py()[1:])}" for v in rows["instance"]]]
        )
        half = rows.num_rows // 2
        for name, part in (("second", rows.slice(half)), ("first", rows.slice(0, half))):
            reverse = part.take(list(range(part.num_rows - 1, -1, -1)))
            mixed.write(CELLS_REQUESTS, file.date, file.deployment, name, reverse)
    again = report(mixed)
    assert [(g.measure, g.stratum, g.verdict, g.n_baseline) for g in again.gates] == [
        (g.measure, g.stratum, g.verdict, g.n_baseline) for g in found.gates
    ]
    length, same = (gate(r, "capacity", "acceptance_length").interval for r in (found, again))
    assert same == pytest.approx(length, rel=1e-9)


def test_what_cannot_be_asked_is_refused(warehouse: Warehouse) -> None:
    with pytest.raises(EmptyWarehouse):
        report(warehouse)
    put_requests(warehouse, WORLD, [FIRST], 1, per_hour=1, gaps=False)
    with pytest.raises(UsageError, match="is not a predicate"):
        report(warehouse, "deployment == (")
    with pytest.raises(UsageError, match="The expression is empty"):
        report(warehouse, " ")


def test_a_warehouse_without_cells_says_what_to_do(warehouse: Warehouse) -> None:
    from specledger.schemas import TABLES

    put_row(warehouse, "deployments", FIRST, "d", model="m")
    assert filled(TABLES["deployments"], {"instance": ["d"], "source": ["x"]}).num_rows == 1
    with pytest.raises(EmptyWarehouse, match="transform"):
        report(warehouse)


def test_switching_speculation_on_is_judged_by_tpot_and_not_by_its_rounds(warehouse: Warehouse) -> None:
    found = two_nights(warehouse, WORLD, replace(WORLD, draft_length=0))
    assert gate(found, "latency", "tpot_ms").verdict == "pass"
    for measure in ("round_time_ms", "effective_length"):
        result = gate(found, "capacity", measure)
        assert (result.verdict, result.reason_code) == ("not_comparable", "speculation")
    assert [g.verdict for g in found.gates if g.measure == "acceptance_length" and g.gate == "capacity"] == ["no_data"]
    assert not [result for result in found.gates if result.gate == "capacity" and result.verdict == "fail"]


def test_speculation_that_does_not_pay_is_said_to_be_so(warehouse: Warehouse) -> None:
    slow = replace(WORLD, cost=replace(WORLD.cost, per_token=2.0))
    found = two_nights(warehouse, slow, replace(slow, draft_length=0))
    assert gate(found, "latency", "tpot_ms").verdict == "fail"
    (advice,) = [item for item in found.advice if item.stratum is None]
    assert advice.cause == "round_time"
    assert "does not pay" in advice.action


def test_sides_that_are_the_same_nights_or_share_some_say_so(warehouse: Warehouse) -> None:
    put_requests(warehouse, WORLD, [FIRST, LAST], 1, per_hour=PER_HOUR)
    both, same = "date >= DATE '2000-01-01'", "true"
    assert any("the same nights" in note for note in report(warehouse, both, same).notes)
    assert "Nights on both sides, which cannot differ: 1." in report(warehouse, BASELINE, same).notes
    assert not any("same nights" in note or "both sides" in note for note in report(warehouse).notes)
