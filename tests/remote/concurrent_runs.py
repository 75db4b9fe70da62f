"""Many nights over one warehouse in a store at once, with readers: ``python -m tests.remote.concurrent_runs RUNS``."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb

from specledger.schemas import lease
from specledger.schemas.machine import ENVIRONMENT
from specledger.schemas.warehouse import Warehouse
from specledger.schemas.working_copy import opened, read
from tests.nightly.concurrent_runs import read as ask
from tests.nightly.killed import HOUSEKEEPING, child, contents, finished, nightly
from tests.nightly.simulated import CONFIG, day, started, trace, write_config, write_night
from tests.remote import seaweed
from tests.remote.test_publishing import left_over
from tests.simulator import text

LONGEST_POLL_S = 0.5


def on(machine: Path, work: Callable[[], object]) -> int:
    """The process that does the work on a machine, which is a folder with a cache."""

    def there() -> None:
        os.environ[ENVIRONMENT] = str(machine)
        lease.LONGEST_POLL_S = LONGEST_POLL_S
        work()

    return child(there)


@contextlib.contextmanager
def connected(place: str) -> Iterator[duckdb.DuckDBPyConnection]:
    with opened(place) as root, Warehouse(root).connect() as connection:
        yield connection


def main(runs: int) -> int:
    """Print what happened; the number of things that were wrong."""
    with tempfile.TemporaryDirectory() as name, seaweed.serve(Path(name) / "server") as port:
        os.environ |= seaweed.ENVIRONMENT
        folder, place = Path(name), seaweed.url(port, "specledger/warehouse")
        scene, done = folder / "scene", folder / "done"
        for number in range(2):
            write_night(scene / "input" / "chat", number)
        configure(scene, place)
        finished(on(folder / "first", lambda: nightly(scene, 1)))
        write_night(scene / "input" / "chat", 2)
        (scene / "input" / "chat" / "late.jsonl").write_text(text.responses(trace(4), started(day(0)) + 3600))
        truth = undisturbed(folder, scene)

        configure(scene, place)
        readers = [
            on(folder / machine, lambda said=folder / f"{machine}.said": ask(lambda: connected(place), done, said))
            for machine in ("first", "reader")
        ]
        nights = [
            on(folder / ("first" if run % 2 else f"machine{run}"), lambda: nightly(scene, 2)) for run in range(runs)
        ]
        codes = [finished(process) for process in nights]
        done.touch()
        for reader in readers:
            finished(reader)
        said = [json.loads((folder / f"{machine}.said").read_text()) for machine in ("first", "reader")]
        same = told(folder, lambda: read(place, contents)) == truth
        left = told(folder, lambda: " ".join(left_over(place)))
    wrong = [line for one in said for line in one["wrong"]]
    print(f"{runs} runs at once ended with {codes}, same content: {same}, left over: {left or 'nothing'}")
    print(f"{sum(one['asked'] for one in said)} questions meanwhile, {len(wrong)} wrong")
    for line in dict.fromkeys(wrong):
        print(f"  {wrong.count(line)} times {line}")
    return len(wrong) + sum(code != 0 for code in codes) + (not same) + bool(left)


def configure(scene: Path, place: str) -> None:
    """Let the nights of the scene go into a store."""
    (scene / "specledger.toml").write_text(CONFIG.replace('"warehouse"', f'"{place}"') + HOUSEKEEPING)


def undisturbed(folder: Path, scene: Path) -> str:
    """What one run over the same inputs gives on disk, with reports of its own."""
    write_config(scene, HOUSEKEEPING)
    text = (scene / "specledger.toml").read_text().replace('"nights"', '"other"')
    (scene / "specledger.toml").write_text(text)
    finished(child(lambda: nightly(scene, 2)))
    return told(folder, lambda: contents(scene / "warehouse"))


def told(folder: Path, work: Callable[[], str]) -> str:
    """What a process of its own finds out."""
    target = folder / "told"
    finished(on(folder / "asking", lambda: target.write_text(work())))
    return target.read_text()


if __name__ == "__main__":
    sys.exit(1 if main(*map(int, sys.argv[1:])) else 0)
