"""Recommendations from given evidence: the right length at each load, its price, and nothing where nothing is known."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from specledger.reports.evidence import BandEvidence, Evidence, InForce
from specledger.reports.lengths import NO_MODEL, Acceptance, Load, Missing, Ran, options, round_times
from specledger.reports.recommend import BandAdvice, Recommendation, given, recommend
from specledger.reports.round_cost import CostModel
from specledger.reports.saving import canary_plan, hours_needed, price
from specledger.reports.scatter import Hourly
from specledger.reports.schedule import Limits, check_ranges, length_at
from specledger.schemas.config import DEFAULT_SETTINGS
from tests.scale import scaled

BANDS = DEFAULT_SETTINGS.load_bands
NO_LIMITS = Limits()
IN_FORCE = InForce(max_num_seqs=512, draft_limit=3, draft_schedule="[[1, 4, 3], [5, 512, 1]]", speculative=True)
HOURLY = Hourly(between=0.02**2, step=0.3**2, steps=100_000.0, unit="hour")


def ran(length: int, round_ms: float, effective: float | None = None, **facts: Any) -> Ran:
    """A length that ran for 10,000 steps; each draft token adds 0.6 to L_eff where it is not given."""
    tokens = 10_000 * (1 + 0.6 * length if effective is None else effective)
    return replace(Ran(length, 10_000, tokens, 10_000 * round_ms, 0.002, "hour"), **facts)


def known(*lengths: Ran, load: int, **facts: Any) -> BandEvidence:
    """A band in which these lengths ran, each at one load."""
    seconds = sum(one.decode_ms for one in lengths if one.own) / 1_000 / load
    about = Load(**{"seconds": seconds, "requests": float(load), **facts})
    choices, missing = options(lengths, about, Acceptance((0.6,), 1.0), None, 4)
    return BandEvidence(lengths, tuple(choices), missing, about, {load: 1.0})


def found(**bands: BandEvidence) -> Evidence:
    """Evidence by load band; ``_2_4`` stands for 2-4."""
    labelled = {name.strip("_").replace("_", "-"): band for name, band in bands.items()}
    return Evidence("d", ("2026-11-29",), labelled, IN_FORCE, HOURLY)


def answer(evidence: Evidence, limits: Limits = NO_LIMITS) -> Recommendation:
    return recommend(evidence, BANDS, limits)


def at(result: Recommendation, label: str) -> BandAdvice:
    return next(band for band in result.bands if band.choice.band.label == label)


def test_each_load_gets_its_own_length() -> None:
    low, high = known(ran(0, 8.0), ran(1, 9.6), ran(3, 12.4), load=3), known(ran(0, 16.0), ran(3, 80.0), load=100)
    result = answer(found(_2_4=low, _65_128=high))
    assert [length_at(result.schedule, load) for load in (1, 3, 50, 100, 512)] == [3, 3, 0, 0, 0]
    assert at(result, "33-64").choice.evidence == "neighbour"
    assert result.speculative_config == {
        "num_speculative_tokens": 3,
        "num_speculative_tokens_per_batch_size": result.schedule,
    }


def test_a_length_in_the_middle_may_be_better_than_both_its_neighbours() -> None:
    band = known(ran(0, 10.0), ran(1, 18.0), ran(2, 15.0), ran(3, 29.0), load=3)
    assert at(answer(found(_2_4=band)), "2-4").choice.length == 2


def test_the_choice_stands_beside_its_neighbours_and_the_schedule_in_force() -> None:
    result = answer(found(_2_4=known(ran(0, 8.0), ran(1, 9.6), ran(3, 12.4), load=3)))
    band = at(result, "2-4")
    shorter, longer = band.choice.neighbours
    assert (shorter.length, shorter.tpot_ms, longer) == (1, pytest.approx(6.0), None)
    assert (band.in_force, band.in_force_option.length) == (3, 3)
    assert (band.missing[2], band.missing[4]) == (Missing(NO_MODEL),) * 2
    assert at(result, "5-8").in_force == 1


def test_one_length_alone_is_no_evidence_of_gain() -> None:
    result = answer(found(_2_4=known(ran(3, 24.5), load=3)))
    assert "no evidence of gain" in at(result, "2-4").choice.reason
    assert any("no evidence of gain" in note for note in result.notes)


def test_without_evidence_there_is_no_schedule() -> None:
    result = answer(found(_2_4=known(ran(3, 20.0, steps=99), load=3)))
    assert (result.schedule, result.bands, result.saving, result.speculative_config) == ([], (), None, None)


def test_where_no_load_should_speculate_there_is_no_configuration() -> None:
    result = answer(found(_2_4=known(ran(0, 10.0), ran(3, 50.0), load=3)))
    assert (result.schedule, result.speculative_config) == ([[1, 512, 0]], None)


def model(*lengths: int, relative_error: float = 0.005) -> CostModel:
    """A round takes 10 ms and 2 ms a draft pass; these lengths ran at 1 to 64 requests."""
    each = len(lengths)
    return CostModel(
        lengths, [1.0] * each, [64.0] * each, 1.0, 640.0, relative_error, [10.0, 0.0, 0.0, 0.0, 2.0], [0.0] * 25, [],
        2.0, dt.date(2026, 11, 29), "d", "iterations", ["d"],
    )  # fmt: skip


def test_a_length_that_did_not_run_is_foretold_from_what_ran() -> None:
    acceptance = Acceptance((0.8, 0.5), 1e6, coverage=0.9, truncated_share=0.1)
    choices, missing = options([ran(2, 28.0, 1.9)], Load(requests=3.0), acceptance, round_times([model(0, 2, 4)]), 3)
    by_length = {option.length: option for option in choices}
    assert (by_length[2].evidence, by_length[1].evidence) == ("measured", "model")
    assert by_length[1].round_time_ms == pytest.approx(28.0 * 12 / 14)
    assert by_length[1].effective_length == pytest.approx(1 + 0.9 * 0.8 * 0.9)
    assert by_length[3].effective_length == pytest.approx(1 + 0.9 * (0.8 + 0.4 + 0.2) * 0.9)
    assert [by_length[length].extrapolated for length in (0, 1, 3)] == [False, False, True]
    assert by_length[0].tpot_ms == pytest.approx(28.0 * 10 / 14)
    assert by_length[1].margin_ms > 0.01 * by_length[1].tpot_ms
    assert missing == {}


def foretold(*lengths: int, **facts: float) -> dict[int, str]:
    """Why lengths up to 2 beside one of 2 are not foretold by a model of these lengths."""
    times = round_times([model(*lengths, **facts)])
    _, missing = options([ran(2, 28.0)], Load(requests=3.0), Acceptance((0.8,), 1e6), times, 2)
    return {length: str(why) for length, why in missing.items()}


def test_between_no_draft_and_one_length_nothing_is_foretold() -> None:
    assert set(foretold(0, 2)) == {1}
    assert "what drafting at all costs" in foretold(0, 2)[1]
    assert foretold(0, 1, 2) == {}


def test_what_is_foretold_too_roughly_is_no_evidence() -> None:
    assert "too roughly" in foretold(0, 1, 2, relative_error=0.2)[0]


def test_without_acceptance_by_position_only_ordinary_decode_is_foretold() -> None:
    choices, missing = options([ran(2, 28.0)], Load(requests=3.0), Acceptance(), round_times([model(0, 1, 2)]), 2)
    assert [option.length for option in choices] == [0, 2]
    assert "positions cannot be told" in str(missing[1])


def test_the_saving_prices_the_tokens_that_ran() -> None:
    band = known(ran(0, 10.0), ran(3, 42.0), load=4, gpus=8.0)
    saving = price(found(_2_4=band), [[1, 64, 0]])
    now = (10.0 + 42.0) / (1 + 2.8)
    assert saving.unit == "GPU-hours a night"
    assert saving.saved == pytest.approx(8 * band.load.seconds / 3_600 * (1 - 10.0 / now))
    assert saving.interval[0] < saving.saved < saving.interval[1]


def test_what_ran_saves_nothing_for_certain() -> None:
    saving = price(found(_2_4=known(ran(3, 24.5), load=3)), [[1, 64, 3]])
    assert (saving.saved, *saving.interval) == pytest.approx((0.0, 0.0, 0.0), abs=1e-12)


def test_a_length_without_evidence_is_left_out_of_the_price_and_said() -> None:
    saving = price(found(_2_4=known(ran(3, 24.5), load=3)), [[1, 64, 7]])
    assert (saving.saved, saving.share_without_evidence, saving.unit) == (0.0, 1.0, "engine-hours a night")


def test_a_schedule_that_changes_inside_a_band_prices_each_load_by_its_own_length() -> None:
    band = replace(known(ran(0, 10.0), ran(3, 42.0), load=5), times={5: 0.3, 8: 0.7})
    evidence = found(_5_8=band)
    off, on, split = (price(evidence, s).saved for s in ([[1, 64, 0]], [[1, 64, 3]], [[1, 6, 0], [7, 64, 3]]))
    assert split == pytest.approx(0.3 * off + 0.7 * on)


def test_a_given_schedule_is_answered_in_the_same_form() -> None:
    evidence = found(_2_4=known(ran(0, 10.0), ran(3, 42.0), load=3))
    document = json.loads(json.dumps(given(evidence, BANDS, [[1, 2, 3], [3, 512, 0]]).as_json()))
    band = next(band for band in document["bands"] if band["load_band"] == "2-4")
    assert document["num_speculative_tokens_per_batch_size"] == [[1, 2, 3], [3, 512, 0]]
    assert (band["k"], band["tpot_ms"], band["neighbours"]) == (3, pytest.approx(15.0), {"0": 10.0})
    assert "another length within the band" in band["reason"]
    assert document["saving"]["saved"] == pytest.approx(price(evidence, [[1, 512, 0]]).saved)


def test_the_gap_and_the_cache_of_other_lengths_are_moved_by_their_round_time_and_candidates() -> None:
    cache = {"kv_mean": 0.5, "kv_p95": 0.55, "kv_max": 0.6, "kv_tokens": 1_000.0}
    gap = {"gap_ms": 50.0, "gap_lower_ms": 40.0, "gap_upper_ms": None}
    band = known(ran(3, 40.0), ran(0, 10.0, of="plain"), load=4, **cache, **gap)
    off, on = band.options
    assert (on.gap_ms, on.gap_interval, off.gap_ms, off.gap_interval) == (50.0, (40.0, None), 20.0, (10.0, None))
    assert (on.kv_usage, on.kv_interval) == (0.55, (0.5, 0.6))
    assert (off.kv_usage, *off.kv_interval) == pytest.approx((0.538, 0.488, 0.588))


def test_limits_leave_out_what_breaks_them() -> None:
    evidence = found(_2_4=known(ran(0, 10.0), ran(3, 20.0), load=3))
    assert at(answer(evidence), "2-4").choice.length == 3
    assert at(answer(evidence, Limits(gap_ms=15.0)), "2-4").choice.length == 0
    assert "no drafts are left" in at(answer(evidence, Limits(gap_ms=5.0)), "2-4").choice.reason


def test_limits_of_vllm_are_said_only_where_they_apply() -> None:
    low, high = known(ran(0, 8.0), ran(3, 12.4), load=3), known(ran(0, 16.0), ran(3, 80.0), load=100)
    evidence = found(_2_4=low, _65_128=high)
    assert answer(evidence).notes == ()
    facts = replace(IN_FORCE, data_parallel=2, lora=True, pipeline_parallel=2, enforce_eager=True)
    parallel, adaptive = answer(replace(evidence, in_force=facts)).notes
    assert "falls back to one fixed length" in parallel
    assert "K = 3 would have cost least" in parallel
    assert all(word in adaptive for word in ("CUDA graphs", "LoRA", "pipeline parallelism"))


def test_a_canary_needs_more_hours_for_less_traffic_and_for_smaller_gains() -> None:
    hours = [hours_needed(0.02, HOURLY, share) for share in (0.05, 0.25, 0.5)]
    assert hours == sorted(hours, reverse=True)
    assert hours_needed(0.1, HOURLY, 0.05) < hours_needed(0.02, HOURLY, 0.05)
    assert hours_needed(0.0, HOURLY, 0.5) is None


def test_the_hours_of_a_canary_give_the_promised_power() -> None:
    rng, share, distance = np.random.default_rng(7), 0.1, 0.02
    hours = hours_needed(distance, HOURLY, share)
    deviations = [HOURLY.variance(part) ** 0.5 for part in (share, 1 - share)]
    sides = [rng.normal(0.0, deviation, (4_000, hours)) for deviation in deviations]
    change = sides[0].mean(axis=1) - sides[1].mean(axis=1) - distance
    error = np.sqrt(sum(side.var(axis=1, ddof=1) for side in sides) / hours)
    assert 0.77 < (change + 2.0 * error < 0).mean() < 0.86


def test_the_plan_takes_the_smallest_share_that_gets_there_in_a_day() -> None:
    plan = canary_plan(-0.04, HOURLY, 0.05)
    assert plan.passes_gate.share <= plan.shows_gain.share
    assert plan.shows_gain.hours == hours_needed(-np.log(0.96), HOURLY, plan.shows_gain.share)
    assert canary_plan(0.01, HOURLY, 0.05).shows_gain is None
    assert canary_plan(-0.04, None, 0.05) is None


def test_a_thousand_random_worlds_give_schedules_that_vllm_takes() -> None:
    rng = np.random.default_rng(20)
    for _ in range(scaled(1_000)):
        bands = {}
        for band in BANDS:
            lengths = np.flatnonzero(rng.random(9) < rng.random())
            if not len(lengths) or rng.random() < 0.3:
                continue
            rows = [
                ran(int(k), float(rng.uniform(5, 50)), float(rng.uniform(1, k + 1)), margin=float(rng.uniform(0, 0.1)))
                for k in lengths
            ]
            bands[band.label] = known(*rows, load=band.low, kv_tokens=1e5, kv_mean=0.2, kv_p95=0.4, kv_max=0.5)
        limit = int(rng.integers(1, 1_200)) if rng.random() < 0.8 else None
        facts = replace(IN_FORCE, max_num_seqs=limit, data_parallel=int(rng.integers(1, 3)))
        limits = Limits(*(float(rng.uniform(*ends)) if rng.random() < 0.3 else None for ends in ((5, 60), (0.3, 1))))
        result = recommend(Evidence("d", ("2026-11-29",), bands, facts, HOURLY), BANDS, limits)
        assert bool(result.schedule) == any(
            known.options for known in bands.values() if known.times.keys() & range(1, (limit or 999) + 1)
        )
        if result.schedule:
            assert check_ranges(result.schedule) == result.schedule
            assert result.schedule[0][0] == 1
            assert result.schedule[-1][1] >= (limit or 1)
            _fits(result)
        json.dumps(result.as_json(), allow_nan=False)


def _fits(result: Recommendation) -> None:
    """The schedule says what the bands say, and bands without evidence take the smaller of their neighbours."""
    lengths = [band.choice.length for band in result.bands]
    for band in result.bands:
        assert length_at(result.schedule, band.choice.band.low) == band.choice.length
    told = [at for at, band in enumerate(result.bands) if band.choice.evidence != "neighbour"]
    for place, band in enumerate(result.bands):
        if band.choice.evidence == "neighbour":
            beside = [
                max((at for at in told if at < place), default=None),
                min((at for at in told if at > place), default=None),
            ]
            assert band.choice.length == min(lengths[at] for at in beside if at is not None)
