"""Many nights with all that happens to files, taken in night by night or all at once."""

from __future__ import annotations

import gzip
import random
import shutil
from pathlib import Path

from specledger.ingest import ingest
from specledger.schemas import CELL_TABLES, MART_TABLES
from specledger.schemas.config import DEFAULT_SETTINGS
from specledger.schemas.warehouse import Warehouse
from specledger.transforms.runner import run
from tests.command_line import CommandLine
from tests.ingest.contents import WHEN, WHERE, contents
from tests.nightly.simulated import day, started, trace, write_night
from tests.scale import SCALE
from tests.simulator import text

NIGHTS = 5 if SCALE == 1 else 30


def take_in(warehouse: Path, folder: Path) -> None:
    ingest(warehouse, [folder], deployment="chat", year=2026, timezone="UTC")
    run(Warehouse(warehouse), DEFAULT_SETTINGS)


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


def test_nights_taken_in_one_by_one_are_those_taken_in_at_once(tmp_path: Path) -> None:
    """Files come late, twice, in two parts, rotated, or never; the last night brings what is still outstanding."""
    rng = random.Random(7)
    folder = tmp_path / "input"
    outstanding: list[tuple[int, Path, Path]] = []
    for number in range(NIGHTS):
        files = write_night(tmp_path / "emitted", number)
        rotate(folder)
        folder.mkdir(exist_ok=True)
        shutil.move(files["log"], folder / "server.log")
        for kind in ("metrics", "responses"):
            path, target = files[kind], folder / files[kind].name
            fate = rng.choice(("late", "twice", "in parts", "never", "as is"))
            if fate == "late":
                outstanding.append((number + rng.randint(1, 3), path, target))
            elif fate == "in parts":
                content = path.read_bytes()
                target.write_bytes(content[: len(content) // 2])
                outstanding.append((number + 1, path, target))
            elif fate != "never":
                shutil.copy(path, target)
            if fate == "twice":
                (folder / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        for due, path, target in list(outstanding):
            if due <= number or number == NIGHTS - 1:
                shutil.copy(path, target)
                outstanding.remove((due, path, target))
        take_in(tmp_path / "one by one", folder)
    take_in(tmp_path / "at once", folder)
    found, expected = results(tmp_path / "one by one"), results(tmp_path / "at once")
    assert len(expected["acceptance"]) > NIGHTS
    assert {name for name in expected if found[name] != expected[name]} == set()
    tables = ("snapshots", "requests", "log_stats", "iterations", "events")
    raw = [
        contents(tmp_path / name, leave_out=WHEN + WHERE + ("byte_offset",), tables=tables)
        for name in ("one by one", "at once")
    ]
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
