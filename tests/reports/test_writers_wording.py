"""The sentence at the top says what the verdicts say, and no more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from specledger.reports import benefit, next_steps, plain, wording
from specledger.reports.format import change, figure, hundredths, interval, listed, number, percent, tolerance
from specledger.reports.gates import DEFAULT_SET
from specledger.reports.model import (
    Advice,
    Effect,
    Evidence,
    LoadGap,
    LoadRange,
    Origin,
    Report,
    Schedule,
    ScheduleBand,
    Side,
    SplitRow,
)
from specledger.reports.outcome import overall
from specledger.reports.selection import NOTHING
from tests.sample_reports import band, example, gate, no_data, not_comparable, one_request, report


def test_a_failed_measure_is_named_with_its_change_and_what_was_allowed() -> None:
    assert wording.headline(report(gate())) == "Failed: TPOT rose by 20.0 % (allowed +5 %)."


def test_bands_stand_behind_the_overall_figure() -> None:
    failed = report(gate(), gate(load_band="2-4"), gate(load_band="5-8"))
    assert wording.headline(failed) == "Failed: TPOT rose by 20.0 % (allowed +5 %), also at load 2-4 and 5-8."


def test_a_measure_that_failed_only_at_bands_is_told_with_each_change() -> None:
    failed = report(gate(verdict="pass"), gate(load_band="2-4"), gate(load_band="5-8", change=0.3))
    assert wording.headline(failed) == "Failed: TPOT at load 2-4 (+20.0 %) and 5-8 (+30.0 %), allowed +5 %."


def test_loads_that_several_measures_share_are_said_once() -> None:
    names = ("tpot_ms", "round_time_ms")
    failed = report(*(gate(name) for name in names), *(gate(name, load_band=band) for name in names for band in "12"))
    assert wording.headline(failed) == (
        "Failed: round time rose by 20.0 % (allowed +5 %); TPOT rose by 20.0 % (allowed +5 %); each also at load 1 "
        "and 2."
    )


def test_correctness_comes_first_and_in_the_words_of_its_gate() -> None:
    dead = gate(
        "acceptance_length",
        gate="correctness",
        kind="limit",
        change=None,
        interval=None,
        reason="Acceptance is dead: 0 of 20,016 rounds.",
    )
    assert wording.headline(report(gate(), dead)) == (
        "Failed: acceptance is dead: 0 of 20,016 rounds; TPOT rose by 20.0 % (allowed +5 %)."
    )


def test_measures_beyond_the_third_are_counted() -> None:
    names = ("tpot_ms", "ttft_ms_p95", "e2e_ms_p95", "round_time_ms", "output_tps")
    assert wording.headline(report(*(gate(name) for name in names))).endswith("; 2 more measures.")


def test_a_change_that_is_traffic_mix_is_told_as_such_where_nothing_failed() -> None:
    shifted = report(
        gate("acceptance_length", "pass", change=0.012, interval=(0.0, 0.02), gate="capacity"),
        verdict="pass",
        effects=(Effect("acceptance_length", 0.0116, -0.1933, -0.1817, 0.98, "requests", 4),),
    )
    assert wording.headline(shifted) == (
        "No gate failed: 1 of 1 gate passed; the traffic changed: acceptance length −18.2 % in all, +1.2 % "
        "within like traffic."
    )
    assert wording.mix(shifted) is None
    assert (wording.mix(replace(shifted, verdict="fail")) or "").startswith("The traffic changed: acceptance length")


def test_the_load_to_which_the_traffic_moved_is_named() -> None:
    shares = {"baseline": {"1": 0.78, "9-16": 0.22}, "candidate": {"1": 0.3, "5-8": 0.02, "9-16": 0.68}}
    bands = tuple(
        band(load, None, None, side=side, token_share=share)
        for side, loads in shares.items()
        for load, share in loads.items()
    )
    moved = (Effect("tpot_ms", 0.01, 0.21, 0.2, 1.0, "requests", 4),)
    assert wording.headline(report(gate(verdict="pass"), verdict="pass", effects=moved, bands=bands)).endswith(
        "TPOT +20.0 % in all, +1.0 % within like traffic; load 9-16 holds 68.0 % of the tokens, before 22.0 %."
    )
    assert "holds" not in wording.headline(report(gate(verdict="pass"), verdict="pass", effects=moved, bands=bands[:2]))


@pytest.mark.parametrize(
    ("verdict", "rates", "told"),
    [("inconclusive", (0.0, 702.7), True), ("pass", (0.0, 702.7), False), ("inconclusive", (700.0, 702.7), False)],
)
def test_preemptions_are_told_at_the_top_whether_or_not_they_can_be_judged(
    verdict: str, rates: tuple[float, float], told: bool
) -> None:
    before, after = map(Evidence, rates)
    preempted = gate(
        "per_1k_requests",
        verdict,
        tolerance=10.0,
        kind="difference",
        baseline=rates[0],
        candidate=1527.0,
        evidence_baseline=before,
        evidence_candidate=after,
    )
    full = gate("kv_usage_max", "warn", candidate=0.998, kind="limit")
    sentence = (
        "Preemptions went from 0 to 702.7 per 1,000 requests in all traffic (0 to 1,527 at the baseline's mix of "
        "loads, as the gate judges); the KV cache was 99.8 % full at most."
    )
    assert (sentence in wording.findings(report(preempted, full))) is told


def test_a_night_without_a_good_one_before_it_has_nothing_to_be_held_against() -> None:
    first = report(
        gate(verdict="no_data", baseline=None, change=None, interval=None),
        verdict="no_data",
        baseline=Side("baseline", NOTHING),
    )
    assert (next_steps.next_step(first) or "").startswith("Nothing is to be done")
    verdict, reason = overall([], DEFAULT_SET, first.baseline, first.candidate)
    assert (verdict, reason) == ("no_data", "There is no good night yet to hold the candidate against.")


def test_a_report_without_data_says_why() -> None:
    assert wording.headline(no_data()) == ("Nothing to judge: the candidate deployment = 'typo' selects no data.")


def test_sides_that_cannot_be_compared_are_not_judged() -> None:
    assert wording.headline(not_comparable()).startswith("Not comparable: only 12 %")


def test_one_request_is_undecided() -> None:
    assert wording.headline(one_request()) == (
        "Undecided: no gate failed, but the data cannot tell for 1 of 1 gate (TPOT)."
    )


def test_speculation_pays_only_where_the_whole_interval_lies_above_one() -> None:
    bands = (
        band("1", 1.5, (1.4, 1.6)),
        band("2-4", 1.02, (0.97, 1.07)),
        band("5-8", 0.8, (0.7, 0.9)),
        band("all", 1.2, (1.1, 1.3)),
    )
    assert benefit.benefit(report(bands=bands)) == (
        "Speculation pays at load 1 (1.50×, 95 % interval 1.40 to 1.60), costs at load 5-8 (0.80×, 0.70 to 0.90) and "
        "is undecided at load 2-4 (1.02×, 0.97 to 1.07); the pooled 1.20× (1.10 to 1.30) hides this."
    )
    bare = (*bands[:-1], band("all", 1.2, None))
    assert "; the pooled 1.20× (a point estimate without an interval) hides" in (
        benefit.benefit(report(bands=bare)) or ""
    )


def test_an_interval_that_ends_just_below_one_is_told_with_the_digits_that_decide() -> None:
    assert benefit.benefit(report(bands=(band("17-32", 0.82, (0.67, 0.99963)),))) == (
        "Speculation costs at load 17-32 (0.82×, 95 % interval 0.67 to 0.9996)."
    )


def test_where_rounds_hold_stalls_of_preemption_no_benefit_is_claimed() -> None:
    quiet, full = band("1", 1.5, (1.4, 1.6)), band("17-32", 0.7, (0.6, 0.8), preemptions=40)
    told = report(gate(verdict="inconclusive"), verdict="inconclusive", bands=(quiet, full))
    sentence = (
        "At load 17-32 (0.70×, 0.60 to 0.80) requests were preempted, and round times hold their stalls: whether "
        "speculation pays there cannot be told."
    )
    assert benefit.benefit(told) == f"Speculation pays at load 1 (1.50×, 95 % interval 1.40 to 1.60). {sentence}"
    assert benefit.benefit(replace(told, bands=(full,))) == sentence
    assert benefit.decided_bands(told, "costs") == []
    plain = band("17-32", None, None, side="baseline", rounds=0, preemptions=40)
    assert sentence in (benefit.benefit(replace(told, bands=(quiet, replace(full, preemptions=0), plain))) or "")


ON = (
    band("all", None, None, side="baseline", rounds=0, steps=9000),
    band("1", 1.5, (1.4, 1.6)),
    band("5-8", 0.8, (0.7, 0.9)),
    band("9-16", 1.01, (0.9, 1.1)),
)


def test_where_the_sides_differ_by_speculation_its_boundary_comes_first_and_identities_last() -> None:
    broken = gate(
        "identities",
        gate="correctness",
        kind="limit",
        change=None,
        interval=None,
        reason="The account does not close: buckets_add_up (2 times).",
    )
    names = ("tpot_ms", "e2e_ms_p95", "ttft_ms_p95", "output_tps")
    failed = report(broken, *(gate(name, load_band="5-8") for name in names), bands=ON)
    told = wording.headline(failed)
    assert told.startswith("Speculation pays at load 1 and costs at load 5-8; failed: end-to-end time p95 at load 5-8")
    assert told.endswith("; 1 more measure; the account does not close: buckets_add_up (2 times).")
    required = wording.headline(replace(failed, gates=(replace(broken, required=True), *failed.gates[1:])))
    assert required.startswith("Failed: the account does not close")
    dead = gate("acceptance_length", gate="correctness", kind="limit", change=None, reason="Acceptance is dead.")
    assert wording.headline(report(dead, bands=ON)) == "Failed: acceptance is dead."
    assert wording.headline(report(broken)) == "Failed: the account does not close: buckets_add_up (2 times)."


@pytest.mark.parametrize(
    ("few", "begins"),
    [
        (("5-8",), "Speculation pays at load 1; undecided: no gate failed"),
        (("1", "5-8"), "On little data, speculation pays at load 1 and costs at load 5-8; undecided: no gate failed"),
    ],
)
def test_a_boundary_behind_which_few_data_stand_is_told_as_such(few: tuple[str, ...], begins: str) -> None:
    gates = [gate(verdict="inconclusive", load_band=load, reason_code="few_units", unit="interval") for load in few]
    assert wording.headline(report(*gates, verdict="inconclusive", bands=ON)).startswith(begins)


def test_without_an_interval_no_direction_is_claimed() -> None:
    sentence = benefit.benefit(report(bands=(band("1", 3.0, None),)))
    assert sentence == "Speculation is undecided, without an interval, at load 1 (3.00×)."


def test_a_load_at_which_the_schedule_switches_drafts_off_is_no_benefit_of_theirs() -> None:
    bands = (
        band("1", 1.5, (1.4, 1.6), output_tokens=2800, accepted=1800),
        band("17-32", 0.8, (0.7, 0.9), output_tokens=9000, accepted=700),
    )
    told = report(bands=bands)
    assert benefit.benefit(told) == (
        "Speculation pays at load 1 (1.50×, 95 % interval 1.40 to 1.60); at load 17-32 most tokens came without a "
        "draft."
    )
    assert benefit.decided_bands(told, "costs") == []


def test_a_band_where_no_acceptance_could_pay_is_named() -> None:
    sentence = benefit.benefit(report(bands=(band("5-8", 0.5, (0.4, 0.6), beyond_reach=True),)))
    assert sentence is not None
    assert sentence.endswith("; at load 5-8 not even full acceptance could pay.")


def test_there_is_no_benefit_without_speculation() -> None:
    assert benefit.benefit(report(bands=(band("1", 1.0, (0.9, 1.1), rounds=0),))) is None


def test_the_split_names_its_terms_largest_first() -> None:
    row = SplitRow(None, 0.1141, 0.0078, 0.0901, 0.0, -0.0004, 0.0166, "requests", 1.0, "acceptance")
    assert wording.split(report(split=(row,))) == (
        "TPOT +12.1 % in all traffic: acceptance made tokens 9.4 % slower, traffic mix 1.7 % slower and round "
        "time 0.78 % slower."
    )


def test_a_split_of_hardly_any_change_is_left_out() -> None:
    row = SplitRow(None, 0.001, 0.05, -0.049, 0.0, 0.0, 0.0, "requests", 1.0, "round_time")
    assert wording.split(report(split=(row,))) is None


SWITCHED = {
    "bands": (
        band("all", None, None, side="baseline", rounds=0, steps=9000),
        band("all", 1.01, (0.98, 1.04), steps=4000),
    ),
    "effects": (
        Effect("round_time_ms", 1.61, 0.01, 1.63, 1.0, "requests", 30),
        Effect("effective_length", 1.76, 0.0, 1.76, 1.0, "requests", 30),
    ),
    "split": (SplitRow(None, -0.049, 0.936, 0.0, -0.93, -0.01, -0.045, "requests", 1.0, "coverage"),),
}


def test_speculation_that_was_switched_on_is_told_as_what_a_step_takes_and_returns() -> None:
    found = report(**SWITCHED)
    assert wording.switch(found) == (
        "Speculation is on in the candidate and off in the baseline: within like traffic a step takes 2.61× as long "
        "and returns 2.76× as many tokens."
    )
    assert wording.split(found) is None
    assert not [sentence for sentence in wording.findings(found) if "overage" in sentence]


@pytest.mark.parametrize(("within", "divided"), [(-0.05, True), (-0.128, False)])
def test_ratios_that_do_not_make_up_tpot_are_not_told_as_what_makes_it(within: float, divided: bool) -> None:
    tpot = Effect("tpot_ms", within, 0.0, within, 1.0, "requests", 30)
    told = wording.switch(report(**{**SWITCHED, "effects": (*SWITCHED["effects"], tpot)})) or ""  # type: ignore[misc]
    assert ("2.61× as long" in told) is divided
    assert told.endswith("within like traffic TPOT −12.8 %.") is not divided


def test_speculation_on_both_sides_is_no_switch() -> None:
    bands = (band("all", 1.2, None, side="baseline"), band("all", 1.1, None))
    assert wording.switch(report(bands=bands)) is None
    assert wording.switch(report(bands=bands[:1])) is None


def test_requests_that_tell_nothing_of_rounds_are_no_sign_that_speculation_is_off() -> None:
    found = report(**SWITCHED)
    counted = replace(found.baseline, origins=(Origin("requests", 9, rounds=0), Origin("snapshots", 9, rounds=500)))
    assert wording.switch(replace(found, baseline=counted)) is None


def test_the_next_step_is_the_first_advice_of_a_report_that_needs_one() -> None:
    advice = (Advice("round_time", "It rose.", "10 to 20 ms.", "Lower K."), Advice("mix", "a", "b", "Wait."))
    assert next_steps.next_step(report(gate(), advice=advice)) == "Lower K."
    assert next_steps.next_step(report(gate(verdict="pass"), verdict="pass", advice=advice)) is None


def test_a_failure_without_a_known_cause_gets_none() -> None:
    step = next_steps.next_step(report(gate())) or ""
    assert step.startswith("No cause of this stands out in the data")


def test_where_speculation_costs_shorter_drafts_are_the_next_step_whatever_the_verdict() -> None:
    bands = (band("1", 1.5, (1.4, 1.6)), band("5-8", 0.8, (0.7, 0.9)))
    step = next_steps.next_step(report(gate(verdict="pass"), verdict="pass", bands=bands)) or ""
    assert step.startswith("Draft less, or not at all, at load 5-8, where speculation costs")


def test_what_is_undecided_says_which_changes_so_much_data_would_have_shown() -> None:
    undecided = report(gate(verdict="inconclusive", detectable=0.083), verdict="inconclusive")
    assert next_steps.next_step(undecided) == (
        "Judge again with more nights: this much data would have shown no change below 8.3 % in TPOT."
    )
    assert "too little data" in (next_steps.next_step(one_request()) or "")


@pytest.mark.parametrize(("made", "word"), [(no_data, "predicates"), (not_comparable, "same kind of traffic")])
def test_a_report_that_judges_nothing_says_what_to_check(made: Callable[[], Report], word: str) -> None:
    assert word in (next_steps.next_step(made()) or "")


def recommended(**changed: Any) -> Schedule:
    settled: dict[str, Any] = {
        "ranges": ((1, 4, 3), (5, 64, 0)),
        "in_force": ((1, 64, 3),),
        "saved": 1.5,
        "saved_interval": (0.3, 2.7),
        "spent": 100.0,
        "saved_unit": "GPU-hours a night",
    }
    return Schedule(deployment="a", **{"bands": (choice(0, 3),), **settled, **changed})


def choice(*lengths: int) -> ScheduleBand:
    """A load band at which these lengths have evidence; the last one is the best."""
    return ScheduleBand("1", lengths[-1], 3, 9.4, (9.2, 9.6), 9.4, "measured", "The best.", lengths)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (
            {},
            "Recommended for a: [[1, 4, 3], [5, 64, 0]] in place of [[1, 64, 3]]; over these nights it would have "
            "saved 1.5 % (0.30 to 2.7 %) of 100.0 GPU-hours a night.",
        ),
        (
            {"saved_interval": (-0.3, 2.7), "in_force": None},
            "Recommended for a: [[1, 4, 3], [5, 64, 0]]; whether it saves is undecided: 1.5 % (−0.30 to 2.7 %) of "
            "100.0 GPU-hours a night. Where lengths tie within the error, the shorter one is named.",
        ),
        ({"ranges": ((1, 64, 3),)}, "a runs the schedule that is recommended: [[1, 64, 3]]."),
        (
            {"ranges": ((1, 1024, 3),), "in_force": None, "bands": (choice(3),)},
            "Nothing can be recommended for a: only K = 3 has evidence, and neither another length nor ordinary "
            "decoding is known beside it.",
        ),
        (
            {"ranges": ((1, 1024, 3),), "in_force": None, "bands": (choice(3), choice(0))},
            "Nothing can be recommended for a: no load has evidence of two lengths.",
        ),
        ({"ranges": ()}, "No load of a has evidence: nothing is recommended."),
    ],
)
def test_a_schedule_is_told_with_what_it_would_have_saved(changed: dict[str, Any], sentence: str) -> None:
    assert next_steps.schedule(recommended(**changed)) == sentence


def test_a_schedule_that_surely_saves_is_the_next_step() -> None:
    def step(**changed: Any) -> str:
        passed = report(gate(verdict="pass"), verdict="pass", schedules=(recommended(**changed),))
        return next_steps.next_step(passed) or ""

    assert step().startswith("Run a with num_speculative_tokens_per_batch_size [[1, 4, 3], [5, 64, 0]]: over these")
    assert step(saved_interval=(-0.3, 2.7)) == ""
    assert step(in_force=((1, 4, 3), (5, 64, 0))) == ""


def test_other_lengths_are_no_answer_to_a_failure_that_they_do_not_move() -> None:
    def step(measure: str) -> str:
        return next_steps.next_step(report(gate(measure), schedules=(recommended(),))) or ""

    assert step("tpot_ms").startswith("Run a with")
    assert step("ttft_ms_p95").startswith("No cause of this stands out in the data")


def test_a_failure_beside_a_change_of_traffic_says_that_it_leaves_it_out() -> None:
    moved = Effect("tpot_ms", 0.555, -0.996, -0.441, 1.0, "snapshots", 5)
    assert wording.headline(report(gate(change=0.555), effects=(moved,))) == (
        "Failed: TPOT rose by 55.5 % within like traffic (allowed +5 %)."
    )


def test_where_the_sides_ran_at_other_loads_only_the_bands_are_called_alike() -> None:
    moved = Effect("tpot_ms", 0.555, -0.996, -0.441, 1.0, "snapshots", 5)
    gaps = (
        LoadGap("17-32", LoadRange(21.5, 19, 24), LoadRange(28.0, 24, 32), 0.3, "snapshots"),
        LoadGap("33-64", LoadRange(40.0, 40, 40), LoadRange(55.0, 50, 60), 0.4, "snapshots"),
    )
    apart = report(gate(change=0.555), effects=(moved,), load_gaps=gaps)
    assert wording.headline(apart) == "Failed: TPOT rose by 55.5 % within the same load bands (allowed +5 %)."
    assert wording.loads(apart) == (
        "Inside load 17-32 (on average 21.5, from 19 to 24, in the baseline and 28.0, from 24 to 32, in the candidate) "
        "and 33-64 (on average 40.0 in the baseline and 55.0, from 50 to 60, in the candidate) the sides ran at other "
        "loads: there only the band is alike, not the load."
    )
    assert wording.loads(report(gate())) is None


def test_what_is_undecided_also_names_warnings() -> None:
    undecided = report(gate(verdict="inconclusive"), gate("e2e_ms_p95", "warn"), verdict="inconclusive")
    assert wording.headline(undecided).endswith("(TPOT). A warning: end-to-end time p95 rose by 20.0 % (allowed +5 %).")


def test_what_is_undecided_counts_what_cannot_be_compared_beside_it() -> None:
    gates = [
        gate(verdict=verdict) for verdict in ("inconclusive", "not_comparable", "not_comparable", "no_data", "pass")
    ]
    undecided = report(*gates, verdict="inconclusive")
    assert wording.headline(undecided) == (
        "Undecided: no gate failed, but the data cannot tell for 1 of 5 gates (TPOT); 2 more cannot be compared; 1 "
        "more without data."
    )
    assert overall(gates, DEFAULT_SET, undecided.baseline, undecided.candidate)[1] == (
        "No gate failed, and 1 of 5 gates could not be decided: tpot_ms; 2 more could not be compared."
    )


def test_two_shares_of_the_mix_are_explained_only_where_they_differ() -> None:
    row = SplitRow(None, -0.049, 0.0, -0.004, 0.0, 0.0, -0.045, "requests", 1.0, "mix")
    agree = Effect("tpot_ms", -0.004, -0.045, -0.048, 1.0, "requests", 3)
    differ = Effect("tpot_ms", -0.048, 0.0, -0.048, 1.0, "requests", 3)
    assert wording.weighed_apart(report(split=(row,), effects=(agree,))) is None
    assert "decode time" in (wording.weighed_apart(report(split=(row,), effects=(differ,))) or "")


def test_a_report_of_the_grid_alone_begins_with_its_gains() -> None:
    alone = replace(example(), gates=(), verdict="no_data", reason="Only the grid is answered.")
    assert wording.headline(alone) == wording.grid(example())
    assert wording.verdict(alone) == "not judged"
    assert wording.findings(alone) == (benefit.benefit(alone),)
    assert next_steps.next_step(alone) == "Name a baseline and a candidate too, to have gates judged."


def test_loads_that_no_gate_judges_are_named_beside_what_they_seem_to_say() -> None:
    bands = (band("1", 1.5, (1.4, 1.6)), band("5-8", 0.8, (0.7, 0.9)))
    few = [gate(verdict="inconclusive", load_band=name, reason_code="few_units", unit="block") for name in ("1", "5-8")]
    said = benefit.benefit(report(*few, bands=bands)) or ""
    assert said.endswith("Behind each of these loads stand fewer than 8 blocks a side: no gate judges by so few.")
    said = benefit.benefit(report(few[0], bands=bands)) or ""
    assert said.endswith("Behind load 1 stand fewer than 8 blocks a side: no gate judges by so few.")


def test_the_grid_says_less_than_the_product_only_where_its_interval_does() -> None:
    assert (wording.grid(example()) or "").endswith(
        "interaction 0.843 (0.820 to 0.866), less than the product of the two."
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (0, "0"),
        (0.0, "0"),
        (7, "7"),
        (7.0, "7.000"),
        (1234567, "1,234,567"),
        (1234.5678, "1,235"),
        (0.00012345, "0.000123"),
        (-12.345, "−12.35"),
    ],
)
def test_numbers_have_about_four_digits(value: float | None, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "signed", "text"),
    [(0.0999, True, "+10.0 %"), (-0.003, True, "−0.30 %"), (0.5, False, "50.0 %"), (None, False, "–")],
)
def test_shares_are_percent(value: float | None, signed: bool, text: str) -> None:
    assert percent(value, signed=signed) == text


def test_a_factor_is_no_share() -> None:
    assert figure(1.875, "ratio", "speedup") == "1.88×"


def test_a_length_is_not_shown_as_a_share_where_its_limit_is_one() -> None:
    assert figure(2.76, "ratio", "acceptance_length") == "2.760 tokens"


def test_differences_of_shares_are_points() -> None:
    judged = gate(
        "mmlu/acc", kind="difference", units="ratio", change=-0.003, interval=(-0.013, 0.007), tolerance=-0.01
    )
    assert (change(judged), interval(judged), tolerance(judged)) == ("−0.3 points", "−1.3 to +0.7 points", "−1 points")


def test_an_interval_without_an_upper_end_says_so() -> None:
    assert interval(gate(interval=(0.1, None))) == "+10.0 % or more"


def test_a_limit_has_no_change() -> None:
    judged = gate("kv_usage_max", kind="limit", units="ratio", change=None, interval=None, tolerance=0.98)
    assert (change(judged), tolerance(judged)) == ("", "98 %")


def test_a_term_that_rounds_to_nothing_has_no_sign() -> None:
    assert [hundredths(value) for value in (-0.0002, 0.0, 0.0166)] == ["0.0", "0.0", "+1.7"]


def test_long_lists_are_cut_and_counted() -> None:
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed(list("abcdefgh"), most=3) == "a, b, c and 5 more"


def test_figures_stay_on_the_line_of_their_unit_and_name() -> None:
    assert plain.unbroken("2 of 3 at K = 3 (9.1 ms)") == "2 of 3 at K_=_3 (9.1_ms)".replace("_", plain.NO_BREAK)
