"""Runs over an object store that are killed, each followed by a clean run.

``python -m tests.remote.killed nights TRIALS`` kills whole nights, ``publications`` small runs that mostly publish.

All that asks the store happens in processes of their own: one that has asked it cannot be forked.
"""

from __future__ import annotations

import os
import pickle
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from specledger.schemas.machine import ENVIRONMENT
from specledger.schemas.object_store import Store, together
from specledger.schemas.working_copy import read
from tests.nightly.killed import HOUSEKEEPING, Trials, child, contents, finished, tried
from tests.nightly.simulated import CONFIG
from tests.remote import seaweed
from tests.remote.test_publishing import found, left_over, published


def make(place: str) -> None:
    """Make the bucket, which comes with its first object."""
    store = Store(place)
    store.put("first", b"")
    store.delete(["first"])


def save(place: str, path: Path) -> None:
    """Write all objects of a place to a file."""
    store = Store(place)
    path.write_bytes(pickle.dumps({key: found.body for key in store.below("") if (found := store.get(key))}))


def restore(place: str, path: Path) -> None:
    """Make the objects of a place those that a file holds."""
    store, kept = Store(place), pickle.loads(path.read_bytes())
    store.delete(list(store.below("")))
    together(lambda item: store.put(*item), list(kept.items()))


class RemoteTrials(Trials):
    """The same scenes with the warehouse in a store."""

    def __init__(self, folder: Path, seed: int, place: str) -> None:
        self._place = place
        self._must(lambda: make(place))
        super().__init__(folder, seed)

    def _configure(self) -> None:
        text = CONFIG.replace('"warehouse"', f'"{self._place}"') + HOUSEKEEPING
        (self._scene / "specledger.toml").write_text(text)

    def _keep(self, name: str) -> None:
        super()._keep(name)
        self._must(lambda: save(self._place, self._folder / f"{name}.objects"))

    def _set(self, name: str) -> None:
        super()._set(name)
        self._must(lambda: restore(self._place, self._folder / f"{name}.objects"))
        if self._random.random() < 0.3:
            shutil.rmtree(os.environ[ENVIRONMENT], ignore_errors=True)

    def _hashed(self) -> str:
        return self._told(lambda: read(self._place, contents))

    def _left(self) -> list[str]:
        return self._told(lambda: "\n".join(sorted(left_over(self._place)))).split()


class Publications:
    """Small files that all hold the number of the run that published them: a kill mostly meets the publishing."""

    def __init__(self, seed: int, place: str) -> None:
        self._random = random.Random(seed)
        self._place = place
        self._number = 0
        self._finished(self._publish)
        begin = time.monotonic()
        self._finished(self._publish)
        self._seconds = time.monotonic() - begin

    def one(self, trial: int) -> str:
        """Kill a run, look what others see, run it again; a line on what happened, which starts with ok if well."""
        self._number = trial + 1
        process = child(self._publish)
        moment = self._random.uniform(0, self._seconds)
        time.sleep(moment)
        os.kill(process, signal.SIGKILL)
        code = finished(process)
        seen = self._finished(lambda: self._check({str(trial), str(trial + 1)}))
        again = self._finished(lambda: (self._publish(), self._check({str(trial + 1)}), self._check_left()))
        said = f"ended with {code} at {moment:.2f} of {self._seconds:.2f} s"
        return f"ok: {said}" if seen == again == 0 else f"FAILED: {said}: seen {seen}, clean run {again}"

    def _publish(self) -> None:
        published(self._place, **{f"file{n}": str(self._number) for n in range(6)}, **{f"only{self._number}": "1"})

    def _check(self, expected: set[str]) -> None:
        states = {content for name, content in found(self._place).items() if name.startswith("file")}
        if len(states) != 1 or not states <= expected:
            raise AssertionError(f"{states} instead of {expected}")

    def _check_left(self) -> None:
        if left := left_over(self._place):
            raise AssertionError(f"{left} is left over")

    @staticmethod
    def _finished(work: Callable[[], object]) -> int:
        return finished(child(work))


def main(kind: str, trials: int, seed: int = 1) -> int:
    """Try ``nights`` or ``publications`` on a server of its own; the number of trials in which something was wrong."""
    with tempfile.TemporaryDirectory() as name, seaweed.serve(Path(name) / "server") as port:
        os.environ |= {**seaweed.ENVIRONMENT, ENVIRONMENT: str(Path(name) / "cache")}
        place = seaweed.url(port, f"specledger/{kind}")
        scenes = RemoteTrials(Path(name), seed, place) if kind == "nights" else Publications(seed, place)
        return tried(scenes, trials)


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1], *map(int, sys.argv[2:])) else 0)
