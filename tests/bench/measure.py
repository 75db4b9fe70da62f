"""What every benchmark measures alike: medians of repeated runs, whole programs with their memory, and one table."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = (sys.executable, "-m", "specledger")
LEAST, MOST, ENOUGH_S = 3, 11, 10.0
"""A pair is measured as often as fits into so many seconds, so that what is short is not measured at one moment."""
LAUNCH = """
import os, sys
told, *arguments = sys.argv[1:]
_, status, usage = os.wait4(os.posix_spawnp(arguments[0], arguments, os.environ), 0)
with open(told, "w") as file:
    file.write(str(usage.ru_maxrss))
sys.exit(abs(os.waitstatus_to_exitcode(status)))
"""
"""Runs a program and writes down its peak memory. On Linux that of a process counts what the one that started it held
at that moment, so this small one stands between a benchmark with its data and the program that it measures."""


@dataclass(frozen=True)
class Row:
    """One line of the table: a figure of ours, its anchor, and what their ratio should be."""

    work: str
    size: str
    ours: str
    anchor: str
    ratio: float
    goal: float
    at_least: bool = False
    """Whether the ratio should be at least the goal; at most otherwise."""
    anchor_name: str = ""
    kept: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kept", self.ratio >= self.goal if self.at_least else self.ratio <= self.goal)

    def cells(self) -> list[str]:
        """The line as texts, in the order of ``HEAD``."""
        goal = f"{'≥' if self.at_least else '≤'} {self.goal:g}"
        state = "" if self.kept else "missed"
        return [self.work, self.size, self.ours, self.anchor_name, self.anchor, f"{self.ratio:.3g}", goal, state]


HEAD = ["work", "size", "specledger", "anchor", "anchor's figure", "ratio", "goal", ""]


def table(rows: Iterable[Row]) -> str:
    """All lines as a Markdown table."""
    lines = [HEAD, ["---"] * len(HEAD), *(row.cells() for row in rows)]
    widths = [max(len(line[place]) for line in lines if line[0] != "---") for place in range(len(HEAD))]
    padded = (
        [("-" * width if text == "---" else text.ljust(width)) for text, width in zip(line, widths, strict=True)]
        for line in lines
    )
    return "\n".join("| " + " | ".join(line) + " |" for line in padded)


def pair(ours: Callable[[], object], theirs: Callable[[], object]) -> tuple[float, float]:
    """Median wall times of two pieces of work run in turn, so that a machine that slows down slows both."""
    ours(), theirs()
    times: tuple[list[float], list[float]] = ([], [])
    while len(times[0]) < LEAST or (len(times[0]) < MOST and sum(map(sum, times)) < ENOUGH_S):
        for work, found in zip((ours, theirs), times, strict=True):
            begin = time.perf_counter()
            work()
            found.append(time.perf_counter() - begin)
    return statistics.median(times[0]), statistics.median(times[1])


@dataclass(frozen=True)
class Ran:
    """What a whole program took."""

    seconds: float
    peak_mb: float
    output: str


def program(arguments: Sequence[str], may_exit: Sequence[int] = (0,)) -> Ran:
    """Run a program and wait for it; RuntimeError where it ends otherwise than it may."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with tempfile.NamedTemporaryFile() as told:
        begin = time.perf_counter()
        ended = subprocess.run(
            [sys.executable, "-S", "-c", LAUNCH, told.name, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            cwd=ROOT,
            check=False,
        )
        seconds, peak = time.perf_counter() - begin, told.read()
    if ended.returncode not in may_exit:
        raise RuntimeError(f"{' '.join(map(str, arguments))} ended with {ended.returncode}: {ended.stdout[-2_000:]}")
    return Ran(seconds, int(peak) / 1024, ended.stdout)


def megabytes(path: Path) -> float:
    """Size of a file, or of all files below a folder, each of which counts once however many links it has."""
    files = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
    sizes = {status.st_ino: status.st_size for status in map(Path.stat, files)}
    return sum(sizes.values()) / 1e6
