"""Every case that is written when it is wanted comes out as it must, through the command line."""

from __future__ import annotations

import datetime as dt
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import acceptance
from tests.command_line import CommandLine
from tests.reports.written_cases import AFTER, BEFORE, CASES, LOG, RESPONSES, WORLD, Case


@pytest.mark.parametrize("write", CASES, ids=lambda write: write.__name__)
def test_written_case(write: Callable[[Case], None], cli: CommandLine, tmp_path: Path) -> None:
    case = Case(tmp_path / "case")
    write(case)
    case.write()
    assert acceptance.failures(case.folder, cli, tmp_path / "out") == []


TOKYO = dt.timedelta(hours=9)
INSTANT = re.compile(r"\d\d-\d\d \d\d:\d\d:\d\d")


def in_tokyo(log: str) -> str:
    """The log with its times as a server in Tokyo prints them."""

    def moved(match: re.Match[str]) -> str:
        return f"{dt.datetime.strptime(f'2026-{match[0]}', '%Y-%m-%d %H:%M:%S') + TOKYO:%m-%d %H:%M:%S}"

    return INSTANT.sub(moved, log)


def rearranged(case: Case, to: Path) -> Case:
    """The same facts: lines shuffled and spread over three files, another name of the server, another time zone."""
    other = Case(to)
    shuffle = random.Random(3)
    for step in case.steps:
        source = case.folder / step["paths"][0]
        target = to / "input" / step["deployment"]
        target.mkdir(parents=True)
        lines = (source / "responses0.jsonl").read_text().splitlines(keepends=True)
        shuffle.shuffle(lines)
        for part in range(3):
            (target / f"part{part}.jsonl").write_text("".join(lines[part::3]))
        (target / "renamed.log").write_text(in_tokyo((source / "server.log").read_text()))
        other.ingest(step["deployment"], target, instance="renamed", year=2026, timezone="Asia/Tokyo")
    other.write()
    return other


def told(case: Case, cli: CommandLine, out: Path) -> list[Any]:
    assert acceptance.failures(case.folder, cli, out) == []
    document = json.loads((out / "report.json").read_text())
    kept = ("gate", "measure", "stratum", "verdict", "n_baseline", "n_candidate", "unit", "origin", "reason_code")
    return [[gate[name] for name in kept] for gate in document["gates"]]


def test_order_files_names_and_time_zones_change_no_verdict(tmp_path: Path) -> None:
    case = Case(tmp_path / "case")
    case.side(BEFORE, WORLD, RESPONSES, LOG, seconds=40.0)
    case.side(AFTER, WORLD.with_length(0.85), RESPONSES, LOG, seconds=40.0)
    case.expect({"verdict": "fail"})
    case.write()
    other = rearranged(case, tmp_path / "other")
    other.expected = case.expected
    other.write()
    one, two = (
        told(which, CommandLine(tmp_path / f"{name}-warehouse"), tmp_path / name)
        for name, which in (("straight", case), ("mixed", other))
    )
    assert one == two
