"""The ledger and its checklist filled in from measured data, on real captures and on marts of known content."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specledger.schemas import TABLES
from specledger.schemas.warehouse import Warehouse
from tests import captures
from tests.command_line import CommandLine
from tests.oracle import count
from tests.reports.fleet import filled

Captured = Callable[..., CommandLine]
PAIR = ("spec_k3_draft", "baseline_nospec")


def estimated(cli: CommandLine, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        cli.ok("estimate", *arguments, "--format", "json", "--warehouse", str(cli.warehouse))
    )
    return found


def answers(found: dict[str, Any]) -> dict[str, bool | None]:
    return {answer["question"]: answer["holds"] for answer in found["checklist"]}


def test_the_checklist_is_answered_from_a_real_night(captured: Captured) -> None:
    cli = captured(*PAIR)
    found = estimated(cli, "--deployment", "spec_k3_draft")
    total = count.responses(captures.folder("spec_k3_draft") / "responses.jsonl.zst")
    assert found["gamma"] == 3
    assert found["expected_length"] == pytest.approx(1 + total.accepted / total.rounds, rel=1e-9)
    # Load bands of fewer than 100 steps are left out.
    assert found["round_time_ms"] == pytest.approx(total.server_decode_ms / total.rounds, rel=5e-3)
    assert found["speedup"] == pytest.approx(1.02, abs=0.02)
    assert answers(found) == {
        "Is decode the bottleneck?": True,
        "Is the load below 32 running requests?": True,
        "Is acceptance above 0.6?": True,
        "Is acceptance above its break-even?": True,
        "Does the draft cost less than 0.5 of an ordinary step?": None,
        "Are outputs longer than 20 tokens?": True,
        "Is verification within 1.0 to 1.5 of an ordinary step?": None,
        "Is the speedup at least 1.3?": False,
    }
    said = {answer["question"]: answer["found"] for answer in found["checklist"]}
    assert said["Are outputs longer than 20 tokens?"] == f"{total.output_tokens / total.requests:.0f} output tokens"


def test_what_is_given_goes_before_what_was_measured(captured: Captured) -> None:
    cli = captured(*PAIR)
    given = ("--acceptance", "0.9", "--load", "100", "--output-tokens", "10", "--t0", "100")
    found = estimated(cli, "--deployment", "spec_k3_draft", *given)
    assert found["expected_length"] == pytest.approx(1 + 0.9 + 0.81 + 0.729)
    assert answers(found)["Is the load below 32 running requests?"] is False
    assert answers(found)["Are outputs longer than 20 tokens?"] is False
    assert found["break_even_length"] == pytest.approx(found["round_time_ms"] / 100)


def test_lengths_that_ran_at_other_loads_are_not_compared(captured: Captured) -> None:
    found = estimated(captured("dynamic_sd"), "--deployment", "dynamic_sd")
    assert len(found["table"]) == 1
    assert found["speedup"] is None


def test_a_deployment_without_drafts_needs_a_length(captured: Captured) -> None:
    cli = captured(*PAIR)
    found = estimated(cli, "--deployment", "baseline_nospec", "--acceptance", "0.8", "--gamma", "3")
    assert found["expected_length"] == pytest.approx(2.952)
    assert answers(found)["Is decode the bottleneck?"] is True
    assert (
        "Give --acceptance"
        in cli.run("estimate", "--deployment", "baseline_nospec", "--warehouse", cli.warehouse).stderr
    )


def test_an_unknown_deployment_is_wrong_use(captured: Captured) -> None:
    cli = captured(*PAIR)
    result = cli.run("estimate", "--deployment", "x", "--warehouse", cli.warehouse)
    assert (result.exit_code, "nothing of deployment 'x'" in result.stderr) == (2, True)


def test_what_a_round_is_made_of_answers_for_draft_and_verification(tmp_path: Path) -> None:
    cli, night = CommandLine(tmp_path), dt.date(2026, 9, 14)
    band = {"origin": "snapshots", "load_band": "2-4"}
    told = {"steps": 1_000, "rounds": 1_000, "draft_length": 5, "evidence": "derived"}
    sums = {"n": 1, "requests": 10, "output_tokens": 500, "decode_tokens": 490, "decode_ns": 10**9}
    rows: list[tuple[str, dict[str, Any]]] = [
        ("draft_lengths", {**band, **told, "round_time_ms": 9.0}),
        ("round_split", {**band, **told, "draft_ms": 2.5, "ordinary_ms": 5.2, "verify_ms": 0.8}),
        ("ledger", {**band, "tokens": 490, "t0_ms": 5.2, "evidence": "measured"}),
        ("band_totals", {**band, **sums}),
    ]
    positions = {"rounds": 100_000, "censored": False, "extrapolated": False, "evidence": "measured"}
    rows += [
        ("positions", {**band, **positions, "position": at, "accepted": round(100_000 * 0.8**at)}) for at in range(1, 6)
    ]
    for number, (table, row) in enumerate(rows):
        columns = {name: [value] for name, value in row.items() if name in TABLES[table].names}
        Warehouse(tmp_path).write(TABLES[table], night, "d", f"row{number}", filled(TABLES[table], columns))
    found = estimated(cli, "--deployment", "d")
    assert (round(found["speedup"], 2), round(found["conservative_speedup"], 2)) == (2.13, 1.40)
    said = {answer["question"]: answer["found"] for answer in found["checklist"]}
    assert said["Does the draft cost less than 0.5 of an ordinary step?"] == "draft / T0 = 0.48"
    assert said["Is verification within 1.0 to 1.5 of an ordinary step?"] == "verify / T0 = 1.15"
