"""Nights that are killed at a random moment, each followed by a clean run: ``python -m tests.nightly.killed TRIALS``.

Every run is a process of its own, forked from one that has imported everything and started nothing, so that the moments
fall into the work and not into the imports.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from specledger.ingest.publishing import ABANDONED_S, recover
from specledger.nightly import config, run
from specledger.reports import model, writers
from specledger.schemas import TABLES
from specledger.schemas.published import GRACE_S, publish, published, state_of
from specledger.schemas.warehouse import READ, Warehouse
from tests.nightly.simulated import day, started, trace, write_config, write_night
from tests.simulator import text

HOUSEKEEPING = "\n[housekeeping]\ncompact_files = 2\n"
MOMENTS = ("ingested_at", "labelled_at", "tool_version")
"""Columns that say when or by what a row was taken in."""


def child(work: Callable[[], object]) -> int:
    """The process id of a fork that does the work and ends with 0, or 70 if it raises."""
    if process := os.fork():
        return process
    code = 70
    try:
        work()
        code = 0
    finally:
        os._exit(code)


def finished(process: int) -> int:
    """Wait for a process; its exit code, or the negative signal."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def nightly(folder: Path, number: int) -> None:
    """Judge a night as the command does, drawing no pages."""
    writers.WRITERS = (("report.json", model.to_json),)
    run.run(config.load(folder / "specledger.toml"), [day(number)])


def contents(warehouse: Path) -> str:
    """A hash of all rows as readers see them, whatever their order and files, and of whether they see all there are."""
    state = hashlib.sha256()
    with published(warehouse).connect() as connection, Warehouse(warehouse).connect() as kept:
        for table in TABLES.values():
            names = ", ".join(f'"{name}"' for name in table.names if name not in MOMENTS)
            rows = sorted(map(repr, connection.execute(f"SELECT {names} FROM {table.name}").fetchall()))
            count = kept.execute(f"SELECT count(*) FROM {table.name}").fetchone()
            state.update(repr((table.name, rows, count == (len(rows),))).encode())
    return state.hexdigest()


def leftovers(warehouse: Path) -> list[str]:
    """What lies aside after the lease of dead runs has passed and the next ingest has begun."""
    aside = [path for name in ("_tmp", "_pending") for path in (warehouse / name).glob("*")]
    for path in aside:
        long_ago = time.time() - ABANDONED_S - 60
        os.utime(path, (long_ago, long_ago))
    house = Warehouse(warehouse)
    recover(house)
    publish(house, TABLES.values(), now=time.time() + GRACE_S + 60)
    state = state_of(warehouse)
    needed = {"state.json", *(state.runs() if state else ())}
    unread = [str(path) for path in (warehouse / READ).glob("*") if path.name not in needed]
    unread += list(state.followed if state else ())
    return unread + [str(path) for name in ("_tmp", "_pending") for path in (warehouse / name).glob("*")]


class Trial(Protocol):
    """Something that can be tried again and again."""

    def one(self, trial: int) -> str:
        """A line on what happened, which starts with ok if well."""


class Trials:
    """Two scenes: an empty warehouse, and one with two nights into which a third and late rows come."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._random = random.Random(seed)
        self._scene = folder / "scene"
        self._kept = folder / "kept"
        self._truth: dict[str, tuple[str, float]] = {}
        for number in range(2):
            write_night(self._scene / "input" / "chat", number)
        self._configure()
        self._keep("empty")
        self._run_undisturbed("empty", 1)

    def one(self, trial: int) -> str:
        """Kill a run of a scene, run it again, and compare; a line on what happened, which starts with ok if well."""
        name, number = (("empty", 1), ("third", 2), ("third", 2))[trial % 3]
        if name not in self._truth:
            self._add_third()
        truth, seconds = self._truth[name]
        self._set(name)
        process = child(lambda: nightly(self._scene, number))
        moment = self._random.uniform(0, seconds)
        time.sleep(moment)
        os.kill(process, signal.SIGKILL)
        code = finished(process)
        after = "killed" if code == -signal.SIGKILL else f"ended with {code} before"
        again = finished(child(lambda: nightly(self._scene, number)))
        same = again == 0 and self._hashed() == truth
        left = self._left()
        said = f"{name}, {after} at {moment:.2f} of {seconds:.2f} s"
        if same and not left:
            return f"ok: {said}"
        return f"FAILED: {said}: clean run {again}, same content {same}, left {left}"

    def _add_third(self) -> None:
        """The scene that goes on where an undisturbed run of the first ended."""
        self._set("empty")
        self._must(lambda: nightly(self._scene, 1))
        write_night(self._scene / "input" / "chat", 2)
        (self._scene / "input" / "chat" / "late.jsonl").write_text(text.responses(trace(4), started(day(0)) + 3600))
        self._keep("third")
        self._run_undisturbed("third", 2)

    def _run_undisturbed(self, name: str, number: int) -> None:
        begin = time.monotonic()
        self._must(lambda: nightly(self._scene, number))
        self._truth[name] = self._hashed(), time.monotonic() - begin

    def _configure(self) -> None:
        write_config(self._scene, HOUSEKEEPING)

    def _keep(self, name: str) -> None:
        """Keep the scene as it is now under a name."""
        shutil.copytree(self._scene, self._kept / name)

    def _left(self) -> list[str]:
        return leftovers(self._scene / "warehouse")

    def _set(self, name: str) -> None:
        """Set a scene up, always in the same place, for rows say where they come from."""
        shutil.rmtree(self._scene)
        shutil.copytree(self._kept / name, self._scene)

    def _hashed(self) -> str:
        return self._told(lambda: contents(self._scene / "warehouse"))

    def _told(self, work: Callable[[], str]) -> str:
        """What a process of its own finds out."""
        target = self._folder / "told"
        self._must(lambda: target.write_text(work()))
        return target.read_text()

    @staticmethod
    def _must(work: Callable[[], object]) -> None:
        if code := finished(child(work)):
            raise RuntimeError(f"an undisturbed run ended with {code}")


def tried(scenes: Trial, trials: int) -> int:
    """Run trials and print a line of each; the number of those in which something was wrong."""
    wrong = 0
    for number in range(trials):
        line = scenes.one(number)
        print(f"{number + 1} {line}", flush=True)
        wrong += not line.startswith("ok: ")
    print(f"{trials} runs killed, {wrong} wrong")
    return wrong


def main(trials: int, seed: int = 1) -> int:
    """Try it in a folder; the number of trials in which something was wrong."""
    with tempfile.TemporaryDirectory() as name:
        return tried(Trials(Path(name), seed), trials)


if __name__ == "__main__":
    sys.exit(1 if main(*map(int, sys.argv[1:])) else 0)
