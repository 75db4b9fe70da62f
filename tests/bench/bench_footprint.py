"""Memory of whole programs at two sizes, bytes on disk against bytes read, and the time until help is there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from specledger.ingest.run import ingest
from tests.bench import inputs
from tests.bench.measure import PROGRAM, Row, megabytes, program

SMALL_MB, LARGER = 30.0, 10
MOST_MB, MOST_GROWTH = 1_500.0, 1.2
START_UP_S = 0.3


def rows(scale: float, folder: Path) -> Iterator[Row]:
    """Sizes, memory, start-up."""
    yield from _sizes(scale, folder)
    yield from _memory(scale, folder)
    yield _start_up()


def _sizes(scale: float, folder: Path) -> Iterator[Row]:
    made = {
        "scrapes": (inputs.scrapes(folder / "metrics.prom", SMALL_MB * scale), 0.03),
        "responses with arrays": (inputs.responses(folder / "responses.jsonl", SMALL_MB * scale), 0.25),
    }
    for name, (path, goal) in made.items():
        warehouse = folder / f"size-{path.stem}"
        ingest(warehouse, [path], deployment="d")
        size, raw = megabytes(warehouse), megabytes(path)
        yield Row(
            f"warehouse, {name}", f"{raw:.0f} MB", f"{size:.2f} MB", f"{raw:.0f} MB", size / raw, goal, False, "input"
        )


def _memory(scale: float, folder: Path) -> Iterator[Row]:
    makers = {
        "scrapes": inputs.scrapes,
        "responses": inputs.responses,
        "server log": lambda path, size: inputs.server_log(path, "dynamic_sd", size),
    }
    for name, make in makers.items():
        peaks = []
        for times in (1, LARGER):
            path = make(folder / f"memory-{times}-{name.replace(' ', '-')}", SMALL_MB * scale * times)
            house = folder / f"memory-{name.replace(' ', '-')}-{times}"
            command = [*PROGRAM, "ingest", path, "--warehouse", house, "--deployment", "d", "--timezone", "UTC"]
            peaks.append(program(command).peak_mb)
            peaks[-1] = max(peaks[-1], program([*PROGRAM, "transform", "--warehouse", house]).peak_mb)
            path.unlink()
        size = f"{SMALL_MB * scale:.0f} and {SMALL_MB * scale * LARGER:.0f} MB"
        told = f"{peaks[0]:.0f} and {peaks[1]:.0f} MB"
        yield Row(f"peak memory, {name}", size, told, f"{MOST_MB:.0f} MB", max(peaks) / MOST_MB, 1.0, False, "limit")
        yield Row(
            f"memory at 10 times, {name}",
            size,
            told,
            f"{peaks[0]:.0f} MB",
            peaks[1] / peaks[0],
            MOST_GROWTH,
            False,
            "the smaller size",
        )


def _start_up() -> Row:
    ours = sorted(program([*PROGRAM, "--help"]).seconds for _ in range(7))[3]
    theirs = sorted(program([sys.executable, "-c", "import duckdb"]).seconds for _ in range(7))[3]
    return Row(
        "specledger --help",
        "",
        f"{ours:.2f} s",
        f"{theirs:.2f} s",
        ours - theirs,
        START_UP_S,
        False,
        "import duckdb, seconds over it",
    )
