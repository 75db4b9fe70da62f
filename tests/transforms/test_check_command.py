"""``specledger check``: faults first, then findings, and an exit code that a nightly run can stop on."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pyarrow as pa
import pytest

from specledger.schemas import TABLES
from specledger.schemas.warehouse import Warehouse
from specledger.transforms.check_command import Check, render
from tests.command_line import CommandLine

DAY = dt.date(2026, 11, 29)


def row(check_name: str, verdict: str = "ok", detail: str | None = None, **given: Any) -> dict[str, Any]:
    return {
        "date": DAY, "deployment": "llama", "instance": "llama", "engine": 0, "check_name": check_name,
        "origin": "snapshots", "expected": 3_613.0, "found": 3_613.0, "difference": 0.0,
        "verdict": verdict, "detail": detail, **given,
    }  # fmt: skip


FAULT = row("positions_add_up", "fail", "The positions hold 1,782 accepted tokens.", found=1_782.0, difference=-1_831.0)
FINDING = row("rounds_within_steps", detail="52 returns after a resume from preemption carried no draft.")
OPEN = row("rounds_agree", "no_data", "The requests do not tell this.", origin="requests/snapshots", engine=None)


def lines(*rows: dict[str, Any], rejects: list[tuple[str, str, int]] | None = None, width: int = 100) -> list[str]:
    return list(render([Check(**each) for each in rows], rejects or [], width))


def publish(warehouse: Warehouse, *rows: dict[str, Any]) -> None:
    table = TABLES["reconciliation"]
    for date, deployment in {(each["date"], each["deployment"]) for each in rows}:
        chosen = [
            {name: value for name, value in each.items() if name not in ("date", "deployment")}
            for each in rows
            if (each["date"], each["deployment"]) == (date, deployment)
        ]
        warehouse.write(table, date, deployment, "part", pa.Table.from_pylist(chosen, schema=table.arrow_schema()))


def test_a_block_shows_faults_then_findings_then_what_could_not_be_checked_and_counts_the_rest() -> None:
    assert lines(FAULT, FINDING, OPEN, row("truncated_not_negative")) == [
        "llama, 2026-11-29",
        "  fault    positions_add_up [snapshots, engine 0]: The positions hold 1,782 accepted tokens.",
        "           Expected 3,613, found 1,782.",
        "  finding  rounds_within_steps [snapshots, engine 0]: 52 returns after a resume from preemption",
        "           carried no draft.",
        "  no data  rounds_agree [requests/snapshots]: The requests do not tell this.",
        "  2 of 4 identities hold.",
        "",
        "1 fault, 1 finding; 2 of 4 identities hold, 1 could not be checked.",
    ]


def test_the_same_of_many_engines_is_counted_after_a_few() -> None:
    shown = lines(*({**FINDING, "engine": engine, "instance": "pod-1"} for engine in range(9)))
    assert sum("rounds_within_steps [snapshots, pod-1, engine" in line for line in shown) == 4
    assert "           … and 5 more of rounds_within_steps." in shown


def test_rejected_records_are_shown_by_reason() -> None:
    assert lines(row("truncated_not_negative"), rejects=[("llama", "The line is cut.", 3), ("qwen", "No JSON.", 1)])[
        3:
    ] == [
        "llama: 3 records rejected (table rejects)",
        "  3 × The line is cut.",
        "",
        "qwen: 1 record rejected (table rejects)",
        "  1 × No JSON.",
        "",
        "0 faults, 0 findings; 1 of 1 identities hold, 0 could not be checked.",
    ]


def test_no_line_is_wider_than_asked_and_control_characters_stay_inert() -> None:
    shown = lines({**FAULT, "deployment": "a\x1b[31mb", "detail": "words " * 40 + "\x07"}, width=72)
    assert max(map(len, shown)) <= 72
    assert not any("\x1b" in line or "\x07" in line for line in shown)


@pytest.mark.parametrize(("rows", "code"), [((FINDING, OPEN), 0), ((FINDING, FAULT), 1)])
def test_only_a_fault_ends_with_exit_code_1(cli: CommandLine, rows: tuple[dict[str, Any], ...], code: int) -> None:
    publish(Warehouse(cli.warehouse), *rows)
    result = cli.run("check")
    assert result.exit_code == code
    assert "52 returns after a resume" in result.stdout


def test_json_holds_the_rows_of_the_mart_faults_first(cli: CommandLine) -> None:
    publish(Warehouse(cli.warehouse), OPEN, FINDING, FAULT)
    answer = json.loads(cli.run("check", "--format", "json").stdout)
    assert [each["check_name"] for each in answer] == ["positions_add_up", "rounds_within_steps", "rounds_agree"]
    assert answer[0] == {**FAULT, "date": "2026-11-29"}


def test_deployment_and_date_restrict_what_is_shown(cli: CommandLine) -> None:
    later = DAY + dt.timedelta(days=1)
    publish(Warehouse(cli.warehouse), FAULT, {**FINDING, "deployment": "qwen"}, {**FINDING, "date": later})
    shown = cli.ok("check", "--deployment", "qwen")
    assert "qwen, 2026-11-29" in shown
    assert "llama, 2026" not in shown
    shown = cli.ok("check", "--date", "2026-11-30")
    assert "llama, 2026-11-30" in shown
    assert "2026-11-29" not in shown


def test_a_selection_that_matches_nothing_is_no_fault(cli: CommandLine) -> None:
    publish(Warehouse(cli.warehouse), FAULT)
    assert "There is nothing to check in this selection." in cli.ok("check", "--deployment", "other")


def test_a_warehouse_without_marts_is_wrong_use(cli: CommandLine) -> None:
    Warehouse(cli.warehouse).write(
        TABLES["quality"], DAY, "llama", "part", TABLES["quality"].arrow_schema().empty_table()
    )
    result = cli.run("check")
    assert result.exit_code == 2
    assert "run 'specledger transform' first" in result.stderr
