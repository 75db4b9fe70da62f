"""Many nights with all that happens to files, taken in night by night or all at once."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import random
import shutil
from pathlib import Path

import pytest

from specledger.nightly import record, run
from specledger.nightly.config import load
from specledger.reports import trend_page
from specledger.schemas import CELL_TABLES, MART_TABLES
from specledger.schemas.warehouse import Warehouse
from tests.command_line import CommandLine
from tests.ingest.contents import WHEN, WHERE, contents
from tests.nightly.simulated import day, started, trace, write_config, write_night
from tests.scale import SCALE
from tests.simulator import text

NIGHTS = 30
SECONDS = 12.0
JUDGING_NOTHING = """
[[report]]
candidate = "deployment = 'other'"
"""
"""Judging, and drawing the page of all nights, take as long as the rest, and have tests of their own."""


def nightly(config: Path, *dates: dt.date) -> dict[str, set[str]]:
    """Run nights; the tables of which rows came late, by their date."""
    run.run(load(config), dates)
    found = json.loads((config.parent / "nights" / record.LAST_RUN).read_text())
    return {late["date"]: late["rows"] for late in found["late"]}


def configured(folder: Path, inputs: Path) -> Path:
    folder.mkdir()
    config = write_config(folder, JUDGING_NOTHING)
    config.write_text(config.read_text().replace("input/chat", str(inputs)))
    return config


def results(warehouse: Path) -> dict[str, list[str]]:
    """All rows of all cells and marts."""
    with Warehouse(warehouse).connect() as connection:
        return {
            table.name: sorted(map(repr, connection.execute(f"FROM {table.name}").fetchall()))
            for table in (*CELL_TABLES, *MART_TABLES)
        }


def rotate(folder: Path) -> None:
    """What logrotate does to server.log, compressing the older ones."""
    for number in range(NIGHTS, 0, -1):
        for path in folder.glob(f"server.log.{number}*"):
            path.rename(path.with_name(path.name.replace(f".log.{number}", f".log.{number + 1}")))
    if (second := folder / "server.log.2").exists():
        second.with_name("server.log.2.gz").write_bytes(gzip.compress(second.read_bytes()))
        second.unlink()
    if (folder / "server.log").exists():
        (folder / "server.log").rename(folder / "server.log.1")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(max(1, SCALE // 10)))
def test_nights_taken_in_one_by_one_are_those_taken_in_at_once(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files come late, twice, in two parts, rotated, or never; the last night brings what is still outstanding."""
    monkeypatch.setattr(trend_page, "write", lambda *_, **__: ())
    rng = random.Random(seed)
    folder = tmp_path / "input"
    folder.mkdir()
    config = configured(tmp_path / "one by one", folder)
    outstanding: list[tuple[int, int, Path, Path]] = []
    reported, expected_late = [], []
    for number in range(NIGHTS):
        files = write_night(tmp_path / "emitted", number, seconds=SECONDS)
        rotate(folder)
        shutil.move(files["log"], folder / "server.log")
        for kind in ("metrics", "responses"):
            path, target = files[kind], folder / files[kind].name
            fate = rng.choice(("late", "twice", "in parts", "never", "as is"))
            if fate == "late":
                outstanding.append((number + rng.randint(1, 9), number, path, target))
            elif fate == "in parts":
                content = path.read_bytes()
                target.write_bytes(content[: len(content) // 2])
                outstanding.append((number + 1, number, path, target))
            elif fate != "never":
                shutil.copy(path, target)
            if fate == "twice":
                (folder / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        arrived = [one for one in outstanding if one[0] <= number or number == NIGHTS - 1]
        for one in arrived:
            shutil.copy(one[2], one[3])
            outstanding.remove(one)
        expected_late.append({str(day(night)) for _, night, _, _ in arrived if night < number})
        reported.append(set(nightly(config, day(number))))
    assert reported == expected_late
    at_once = configured(tmp_path / "at once", folder)
    assert nightly(at_once, *map(day, range(NIGHTS))) == {}
    found, expected = results(tmp_path / "one by one" / "warehouse"), results(tmp_path / "at once" / "warehouse")
    assert len(expected["acceptance"]) > NIGHTS
    assert {name for name in expected if found[name] != expected[name]} == set()
    raw = [
        contents(tmp_path / name / "warehouse", leave_out=WHEN + WHERE + ("byte_offset",))
        for name in ("one by one", "at once")
    ]
    for told_of_files in ("ingested_files", "rejects"):  # half a file is an input of its own, and may end within a line
        for one in raw:
            one.pop(told_of_files, None)
    assert raw[0] == raw[1]


OLD_NAMES = {
    "vllm:inter_token_latency_seconds": "vllm:time_per_output_token_seconds",
    "vllm:kv_cache_usage_perc": "vllm:gpu_cache_usage_perc",
}


def test_an_exporter_that_is_upgraded_in_the_middle_of_a_day_is_one_series(cli: CommandLine, tmp_path: Path) -> None:
    before, after = trace(1), trace(2)
    upgraded = started(day(0)) + 600
    count = 0
    for found, begin, names in ((before, started(day(0)), OLD_NAMES), (after, upgraded, {})):
        for moment, scrape in text.scrapes([found], begin, 5.0):
            for name, old in names.items():
                assert name in scrape
                scrape = scrape.replace(name, old)  # noqa: PLW2901
            (tmp_path / f"{round(moment * 1000)}.prom").write_text(scrape)
            count += 1
    cli.ok("ingest", *sorted(tmp_path.glob("*.prom")), "--deployment", "chat")
    cli.ok("transform")
    (row,) = cli.rows(
        "SELECT sum(rounds) AS rounds, sum(accepted) AS accepted, sum(steps) AS steps, sum(output_tokens) AS tokens"
        " FROM acceptance WHERE origin = 'snapshots'"
    )
    served = [*before.requests, *after.requests]
    assert row == {
        "rounds": sum(request.rounds for request in served),
        "accepted": sum(request.accepted for request in served),
        "steps": sum(len(request.steps) for request in served),
        "tokens": sum(request.output for request in served),
    }
    assert cli.rows("SELECT count(kv_usage) AS usage, count(itl) AS itl FROM snapshots") == [
        {"usage": count, "itl": count}
    ]
    assert cli.rows("SELECT * FROM reconciliation WHERE verdict = 'fail'") == []
