"""Evidence for draft lengths from small marts: what ran, what a twin without drafts took, and how sure that is."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from specledger.reports.evidence import Evidence, Stalls
from specledger.reports.lengths import STALLS
from specledger.reports.recommend import recommend
from specledger.reports.schedule import Limits, Option
from specledger.schemas.errors import UsageError
from tests.reports.deployment_house import BANDS, Deployments

SCHEDULE = {"draft_limit": 3, "draft_schedule": "[[1, 4, 3], [5, 512, 1]]", "max_num_seqs": 512}


def options(found: Evidence, band: str = "2-4") -> dict[int, Option]:
    return {option.length: option for option in found.bands[band].options}


def test_every_length_that_ran_is_measured_over_hours() -> None:
    house = Deployments().start(**SCHEDULE, tensor_parallel=4, pipeline_parallel=1)
    house.ran(3, 0, 8.0, 1.0).ran(3, 3, 12.4, 2.8).ran(6, 1, 11.0, 1.6)
    found = house.evidence()
    assert {length: round(option.tpot_ms, 6) for length, option in options(found).items()} == {
        0: 8.0,
        3: round(12.4 / 2.8, 6),
    }
    assert {option.unit for option in options(found).values()} == {"hour"}
    # Ten hours, odd and even ones 0.2 % apart to either side: t(9) · 0.002 / √9.
    assert options(found)[3].margin_ms / options(found)[3].tpot_ms == pytest.approx(2.262 * 0.002 / 3, rel=1e-3)
    assert found.in_force.schedule(1_024) == [[1, 4, 3], [5, 512, 1]]
    assert found.bands["5-8"].times == {6: 1.0}
    assert found.bands["2-4"].load.gpus == 4.0
    assert found.hourly.unit == "hour"


def test_ordinary_decode_of_a_twin_stands_in_for_length_zero() -> None:
    house = Deployments().start(draft_limit=3).start("plain", speculative=False)
    house.ran(3, 3, 40.0, 2.5).ran(3, 0, 10.0, 1.0, name="plain")
    found = house.evidence()
    assert options(found)[0].tpot_ms == pytest.approx(10.0)
    assert [(ran.length, ran.own) for ran in found.bands["2-4"].ran] == [(3, True), (0, False)]


def test_a_fixed_length_counts_the_steps_for_which_the_drafter_found_nothing() -> None:
    house = Deployments().start(draft_method="ngram", draft_limit=3)
    house.ran(3, 3, 20.0, 1.5, step_rounds=400)
    option = options(house.evidence())[3]
    assert (option.effective_length, option.tpot_ms) == (1.5, pytest.approx(20 / 1.5))


def test_servers_of_other_limits_in_one_deployment_keep_their_own_lengths() -> None:
    house = Deployments().start(draft_limit=3).ran(3, 3, 20.0, 2.0).ran(3, 1, 15.0, 1.6, instance="two")
    assert set(options(house.evidence())) == {1, 3}


def preempting(length: int, **facts: Any) -> Deployments:
    """Two loads, of which the upper one fills the cache: 20 of 1,000 steps follow a preemption and its stall of 2 s."""
    house = Deployments().start(draft_limit=3, **facts).start("plain", speculative=False)
    house.ran(3, length, 20.0, 2.0).ran(6, length, 26.0, 2.0, preempted=20, stall_ms=2_000.0)
    return house.ran(3, 0, 15.0, 1.0, name="plain").ran(6, 0, 16.0, 1.0, name="plain")


def test_rounds_are_priced_without_the_stalls_of_preemption_and_that_is_said() -> None:
    found = preempting(3).evidence()
    assert {length: round(option.tpot_ms, 3) for length, option in options(found, "5-8").items()} == {0: 16.0, 3: 13.0}
    assert {option.source for option in options(found, "5-8").values()} == {"measured", "measured on plain"}
    assert found.bands["5-8"].stalls == Stalls(200, pytest.approx((26e3 + 40e3) / 2_020), apart=True)
    assert (found.bands["2-4"].stalls, options(found)[3].tpot_ms) == (None, pytest.approx(10.0))
    assert found.said == (
        "Round times hold stalls of preemption at load 5-8 (200 preemptions, 32.67 ms a token with their stalls): "
        "lengths are priced by rounds without a stall.",
    )


def test_where_stalls_cannot_be_told_from_rounds_there_is_not_enough_data() -> None:
    house = Deployments().start(draft_method="ngram", draft_limit=3).start("plain", speculative=False)
    house.ran(6, 3, 26.0, 1.5, step_rounds=400, preempted=20, stall_ms=2_000.0).ran(6, 0, 16.0, 1.0, name="plain")
    found = house.evidence()
    assert options(found, "5-8") == {}
    assert {why.reason for why in found.bands["5-8"].missing.values()} == {STALLS}
    assert "not enough data to price a length" in found.said[0]
    assert recommend(found, BANDS, Limits()).schedule == []


def test_ordinary_decode_that_was_preempted_is_no_measure_of_it() -> None:
    house = Deployments().start(draft_limit=3).start("plain", speculative=False).ran(6, 3, 26.0, 2.0)
    house.ran(6, 0, 16.0, 1.0, name="plain", preempted=20, stall_ms=2_000.0)
    found = house.evidence()
    assert set(options(found, "5-8")) == {3}
    assert found.bands["5-8"].missing[0].reason == STALLS


def test_a_preemption_now_and_then_changes_nothing() -> None:
    house = Deployments().start(draft_limit=3).ran(6, 3, 26.0, 2.0, steps=20_000, preempted=1, stall_ms=2_000.0)
    found = house.evidence()
    assert (found.said, found.bands["5-8"].stalls) == ((), None)


def test_few_steps_are_no_evidence() -> None:
    found = Deployments().start(draft_limit=3).ran(3, 3, 20.0, 2.0, steps=9, hours=2).evidence()
    assert options(found) == {}
    assert found.bands["2-4"].missing[3].reason == "nothing ran here long enough"


def test_few_hours_rest_on_single_observations() -> None:
    found = Deployments().start(**SCHEDULE).ran(3, 3, 20.0, 2.0, hours=2).evidence()
    assert options(found)[3].unit == "observation"
    assert found.hourly is None


def test_load_of_a_generator_and_short_outputs_are_said() -> None:
    house = Deployments().start(**SCHEDULE).ran(3, 3, 20.0, 2.0)
    alike = {"n": 40, "rounds": 8_000, "drafted": 24_000, "accepted": 0, "output_band": "1-20", "requests": 40}
    house.house.put(
        "cells_requests", {**alike, "drafted_drafted": 40 * 600**2, "drafted_accepted": 0, "accepted_accepted": 0}
    )
    synthetic, short = house.evidence().said
    assert "synthetic load" in synthetic
    assert "100 % of the requests return up to 20 tokens" in short


def test_only_the_nights_asked_for_count() -> None:
    house = Deployments().start(**SCHEDULE).ran(3, 3, 20.0, 2.0)
    assert house.evidence(dates=[dt.date(2026, 11, 29)]).dates == (dt.date(2026, 11, 29),)
    with pytest.raises(UsageError, match="nothing of deployment"):
        house.evidence(dates=[dt.date(2026, 11, 30)])


def test_an_unknown_deployment_is_wrong_use() -> None:
    with pytest.raises(UsageError, match="nothing of deployment"):
        Deployments().evidence("x")
