"""Dead and implausible acceptance, identities, comparability and paired outputs."""

from __future__ import annotations

import pytest

from specledger.reports.changes import deployment_facts, draft_changed, lossy, start_up_changes, target_changed
from specledger.reports.correctness import (
    Acceptance,
    acceptance_gate,
    comparability_gate,
    difference_of_shares,
    identities_gate,
    paired_gate,
)
from specledger.reports.gates import DEFAULT_GATES, Gate
from specledger.reports.interval import Estimate, Sided
from specledger.reports.model import Change, Habits, ReconciliationRow, Verdict
from specledger.reports.requests_read import Pairs

GATES = {gate.measure: gate for gate in DEFAULT_GATES if gate.gate == "correctness"}
SILENT = Habits(None, None, None, None)
ALIVE = Acceptance(10_000, 30_000, 17_000, 8_000)


def acceptance(
    candidate: Acceptance,
    change: float | None = 0.0,
    *,
    habits: Habits = SILENT,
    changed: bool = False,
    gate: Gate = GATES["acceptance_length"],
) -> tuple[Verdict, str | None]:
    interval = None if change is None else (change - 0.02, change + 0.02)
    estimate = Estimate(Sided(2.7, 2.7), Sided(2.7, 2.7), "ratio", "hour", change, interval)
    result = acceptance_gate(
        gate, ALIVE, candidate, estimate, (SILENT, habits), draft_changed=changed, origin="requests"
    )
    assert result.reason.endswith(".")
    return result.verdict, result.reason_code


@pytest.mark.parametrize(
    ("counts", "verdict"),
    [
        (Acceptance(20_016, 60_048, 0, 0), "fail"),
        (Acceptance(20_016, 60_048, 0, None), "fail"),
        (Acceptance(300, 900, 0, 0), "fail"),
        (Acceptance(9, 27, 0, 0), "inconclusive"),
        (Acceptance(299, 897, 0, 0), "inconclusive"),
        (Acceptance(40, 120, 71, 30), "pass"),
        (Acceptance(5000, 15_000, 400, 240), "pass"),
        (Acceptance(5000, 15_000, 200, 199), "fail"),
        (Acceptance(0, 0, 0, None), "no_data"),
    ],
)
def test_dead_acceptance_is_a_claim_about_evidence(counts: Acceptance, verdict: Verdict) -> None:
    assert acceptance(counts)[0] == verdict


@pytest.mark.parametrize(
    ("counts", "change", "changed", "verdict"),
    [
        (Acceptance(8_142, 32_568, 31_911, 8_100), None, False, ("inconclusive", "implausible")),
        (Acceptance(8_000, 24_000, 18_000, 7_000), 0.2, False, ("inconclusive", "implausible")),
        (Acceptance(8_000, 24_000, 18_000, 7_000), 0.2, True, ("pass", None)),
        (Acceptance(8_000, 24_000, 18_000, 7_000), 0.1, False, ("pass", None)),
    ],
)
def test_acceptance_too_good_for_an_unchanged_drafter_is_held_back(
    counts: Acceptance, change: float | None, changed: bool, verdict: tuple[Verdict, str | None]
) -> None:
    assert acceptance(counts, change, changed=changed) == verdict


@pytest.mark.parametrize("habits", [Habits(None, None, 0.05, None), Habits(None, None, None, 0.3)])
def test_shown_repetition_turns_too_good_into_a_failure(habits: Habits) -> None:
    counts = Acceptance(8_142, 32_568, 31_911, 8_100)
    assert acceptance(counts, habits=habits) == ("fail", "implausible")


def identity(side: str, verdict: str, name: str = "positions_add_up") -> ReconciliationRow:
    return ReconciliationRow(side, "d", "2026-09-14", name, "snapshots", verdict)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rows", "verdict"),
    [
        ([identity("baseline", "ok"), identity("candidate", "ok")], "pass"),
        ([identity("candidate", "fail"), identity("candidate", "ok", "other")], "fail"),
        ([identity("baseline", "fail"), identity("candidate", "ok")], "warn"),
        ([identity("baseline", "ok"), identity("candidate", "no_data")], "no_data"),
        ([], "no_data"),
    ],
)
def test_an_account_that_does_not_close_fails(rows: list[ReconciliationRow], verdict: Verdict) -> None:
    assert identities_gate(GATES["identities"], rows).verdict == verdict


def test_greedy_against_sampled_does_not_compare() -> None:
    gate = GATES["comparability"]
    greedy, sampled = Habits(1.0, None, None, None), Habits(0.0, None, None, None)
    assert comparability_gate(gate, [], (greedy, sampled), known=True, two_sided=True).verdict == "not_comparable"
    assert comparability_gate(gate, [], (greedy, greedy), known=True, two_sided=True).verdict == "pass"
    assert comparability_gate(gate, [], (SILENT, SILENT), known=False, two_sided=True).verdict == "no_data"
    shift = Change("cached prompt tokens", "traffic", "10.0%", "60.0%", "…")
    assert comparability_gate(gate, [shift], (greedy, greedy), known=True, two_sided=True).verdict == "warn"


@pytest.mark.parametrize(
    ("pairs", "itself", "target", "verdict"),
    [
        (Pairs(0, 0, None), Pairs(0, 0, None), False, "no_data"),
        (Pairs(500, 0, None), Pairs(0, 0, None), False, "pass"),
        (Pairs(500, 9, 48), Pairs(0, 0, None), False, "inconclusive"),
        (Pairs(2000, 20, 48), Pairs(2000, 22, None), False, "pass"),
        (Pairs(500, 200, 16), Pairs(500, 5, None), False, "fail"),
        (Pairs(30, 1, None), Pairs(30, 0, None), False, "inconclusive"),
        (Pairs(500, 200, 16), Pairs(500, 5, None), True, "not_comparable"),
    ],
)
def test_paired_outputs_are_held_against_what_the_baseline_does_to_itself(
    pairs: Pairs, itself: Pairs, target: bool, verdict: Verdict
) -> None:
    assert paired_gate(GATES["paired_outputs"], pairs, itself, target_changed=target).verdict == verdict


def test_the_difference_of_shares_is_newcombes() -> None:
    # Newcombe (1998), Statistics in Medicine 17:873, method 10: 56/70 − 48/80.
    assert difference_of_shares(48, 80, 56, 70) == pytest.approx((0.0524, 0.3339), abs=1e-4)


def test_what_changed_between_start_up_records_is_named_and_told_apart() -> None:
    before = [{"model": "m", "quantization": None, "draft_model": "a", "dtype": "bfloat16", "deployment": "x"}]
    after = [{"model": "m", "quantization": "fp8", "draft_model": "b", "dtype": None, "deployment": "x"}]
    changes = start_up_changes(before, after)
    assert [(c.what, c.kind, c.baseline, c.candidate) for c in changes] == [
        ("quantization", "target", "none", "fp8"),
        ("draft_model", "draft", "a", "b"),
    ]
    assert target_changed(changes)
    assert draft_changed(changes[1:])
    assert not target_changed(changes[1:])
    assert start_up_changes([{"model": None, "quantization": None}], after) == []


def test_an_acceptance_rule_that_is_not_known_to_be_lossless_is_lossy() -> None:
    assert lossy([{"acceptance_rule": "typical_acceptance_sampler"}])
    assert not lossy([{"acceptance_rule": "rejection_sampler"}, {"acceptance_rule": None}, {}])


def test_facts_take_what_a_row_has() -> None:
    facts = deployment_facts({"deployment": "x", "model": "m", "labels": None, "date": "ignored"})
    assert (facts.deployment, facts.model, facts.labels, facts.dtype) == ("x", "m", {}, None)
