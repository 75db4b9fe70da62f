"""Many runs over one warehouse at once, with readers: ``python -m tests.nightly.concurrent_runs RUNS``."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

from specledger.schemas.published import published
from specledger.schemas.warehouse import DATABASE
from tests.nightly.killed import HOUSEKEEPING, child, contents, finished, nightly
from tests.nightly.simulated import day, started, trace, write_config, write_night
from tests.simulator import text

QUESTIONS = (
    "SELECT count(*) = count(DISTINCT (request_id, finished_at)) FROM requests",
    "SELECT count(*) = count(DISTINCT (instance, engine, scraped_at)) FROM snapshots",
    "SELECT count(*) = count(DISTINCT (date, deployment, origin, load_band, context_band)) FROM band_totals",
    "SELECT bool_and(verdict <> 'fail') FROM reconciliation",
    "SELECT count(*) = count(DISTINCT (date, deployment, origin, load_band)) FROM ledger WHERE context_band IS NULL",
)
"""Each is true at any moment."""
PAUSE_S = 0.05
"""Between two questions, so that readers leave the processors to the runs."""


def answer(connect: Callable[[], duckdb.DuckDBPyConnection], question: str) -> tuple[object, ...] | None:
    with connect() as connection:
        return connection.execute(question).fetchone()


def session(connect: Callable[[], duckdb.DuckDBPyConnection]) -> Callable[[], duckdb.DuckDBPyConnection]:
    """Another cursor of the same session, however often it is asked for."""
    sessions: list[duckdb.DuckDBPyConnection] = []

    def cursor() -> duckdb.DuckDBPyConnection:
        if not sessions:
            sessions.append(connect())
        return sessions[0].cursor()

    return cursor


def read(connect: Callable[[], duckdb.DuckDBPyConnection], done: Path, said: Path) -> None:
    """Ask all questions again and again until a file appears; what was wrong goes to another, with how often asked."""
    asked, wrong = 0, []
    while not done.exists():
        for question in QUESTIONS:
            try:
                if answer(connect, question) != (True,):
                    wrong.append(f"{question}: not true")
            except duckdb.Error as error:
                wrong.append(f"{question}: {error}")
            asked += 1
            time.sleep(PAUSE_S)
    said.write_text(json.dumps({"asked": asked, "wrong": wrong}))


def main(runs: int) -> int:
    """Print what happened; the number of things that were wrong."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        scene, kept, warehouse = folder / "scene", folder / "kept", folder / "scene" / "warehouse"
        for number in range(2):
            write_night(scene / "input" / "chat", number)
        write_config(scene, HOUSEKEEPING)
        finished(child(lambda: nightly(scene, 1)))
        write_night(scene / "input" / "chat", 2)
        (scene / "input" / "chat" / "late.jsonl").write_text(text.responses(trace(4), started(day(0)) + 3600))
        shutil.copytree(scene, kept)
        finished(child(lambda: nightly(scene, 2)))
        finished(child(lambda: (folder / "truth").write_text(contents(warehouse))))
        shutil.rmtree(scene)
        shutil.copytree(kept, scene)

        done = folder / "done"
        connects = (
            lambda: published(warehouse).connect(),
            lambda: duckdb.connect(str(warehouse / DATABASE), read_only=True),
            session(lambda: duckdb.connect(str(warehouse / DATABASE), read_only=True)),
        )
        readers = [
            child(lambda connect=connect, number=number: read(connect, done, folder / f"reader{number}"))
            for number, connect in enumerate(connects)
        ]
        codes = [finished(process) for process in [child(lambda: nightly(scene, 2)) for _ in range(runs)]]
        done.touch()
        for reader in readers:
            finished(reader)
        said = [json.loads((folder / f"reader{number}").read_text()) for number in range(len(readers))]
        finished(child(lambda: (folder / "found").write_text(contents(warehouse))))
        same = (folder / "found").read_text() == (folder / "truth").read_text()
    wrong = [line for one in said for line in one["wrong"]]
    print(f"{runs} runs at once ended with {codes}, same content: {same}")
    print(f"{sum(one['asked'] for one in said)} questions meanwhile, {len(wrong)} wrong")
    for line in dict.fromkeys(wrong):
        print(f"  {wrong.count(line)} times {line}")
    return len(wrong) + sum(code != 0 for code in codes) + (not same)


if __name__ == "__main__":
    sys.exit(1 if main(*map(int, sys.argv[1:])) else 0)
