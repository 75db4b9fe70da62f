"""What a night costs when a year of nights is there already: time and bytes read, against the first nights.

``python -m tests.bench.bench_nights [NIGHTS]``

The first and the last nights run as they would, each a program of its own. The warehouse between them is made as those
nights would have made it, rows night by night and cells at once; their reports are copies of one with other dates. The
input folder holds the files of a week, as log rotation leaves it.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from specledger.ingest import ingest, session
from specledger.schemas.config import DEFAULT_SETTINGS
from specledger.schemas.warehouse import Warehouse
from specledger.transforms.runner import run
from tests.nightly.simulated import day, write_config, write_night

GOAL = 1.2
"""Times the first nights that the last ones may cost."""
SAMPLE = 3
"""Nights measured at either end; the median counts. The first has nothing yet that it could be held against."""
FILES_KEPT = 7
ROOT = Path(__file__).resolve().parents[2]
MEASURED = """
import sys, time
from specledger.__main__ import cli
cli.main(sys.argv[1:], standalone_mode=False)
with open("/proc/self/io") as file:
    print(int(file.readline().split()[1]), time.process_time())
"""


class Clock(dt.datetime):
    """Three in the morning after the night that is taken in."""

    moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> dt.datetime:  # type: ignore[override]
        return cls.moment


def write(folder: Path, number: int) -> Path:
    """The inputs after a night, last changed in it: a log prints no year."""
    written = dt.datetime.combine(day(number), dt.time(4), dt.UTC).timestamp()
    for path in write_night(folder / "input" / "chat", number).values():
        os.utime(path, (written, written))
    for path in (folder / "input" / "chat").glob(f"{day(number - FILES_KEPT)}.*"):
        path.unlink()
    return folder / "input" / "chat"


def nightly(folder: Path, number: int) -> tuple[float, float, float]:
    """Wall time in s, processor time in s and MB read of one night."""
    write(folder, number)
    arguments = ["nightly", "--config", str(folder / "specledger.toml"), "--date", str(day(number))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    call = [sys.executable, "-c", MEASURED, *arguments]
    begin = time.monotonic()
    done = subprocess.run(call, check=True, capture_output=True, text=True, env=environment, cwd=ROOT)
    read, processor = done.stdout.splitlines()[-1].split()
    return time.monotonic() - begin, float(processor), int(read) / 1e6


def nights_between(folder: Path, first: int, last: int) -> None:
    """Make the nights from ``first`` to before ``last`` as if they had been run."""
    warehouse = Warehouse(folder / "warehouse")
    real = session.dt.datetime
    session.dt.datetime = Clock  # type: ignore[misc]
    for number in range(first, last):
        Clock.moment = dt.datetime.combine(day(number + 1), dt.time(3), dt.UTC)
        ingest(warehouse, [write(folder, number)], deployment="chat", timezone="UTC")
    session.dt.datetime = real  # type: ignore[misc]
    run(warehouse, DEFAULT_SETTINGS)
    model = folder / "nights" / str(day(first - 1))
    for number in range(first, last):
        copy = shutil.copytree(model, model.with_name(str(day(number))))
        report = (model / "report.json").read_text().replace(f'"{day(first - 1)}"', f'"{day(number)}"')
        (copy / "report.json").write_text(report)
        judged = json.loads((model / "run.json").read_text())
        judged |= {"date": str(day(number)), "newest_ns": time.time_ns()}
        (copy / "run.json").write_text(json.dumps(judged))


def main(nights: int = 365) -> float:
    """Print what nights cost at both ends of a year; the worst ratio."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = write_config(folder)
        config.write_text(config.read_text().replace("year = 2026\n", ""))
        begin = -nights  # so that all of them are past
        first = [nightly(folder, begin + number) for number in range(SAMPLE)]
        nights_between(folder, begin + SAMPLE, -SAMPLE - 1)
        nightly(folder, -SAMPLE - 1)  # writes the index of the reports that were copied
        last = [nightly(folder, number - SAMPLE) for number in range(SAMPLE)]
    worst = 0.0
    for index, (title, unit) in enumerate((("wall time", "s"), ("processor time", "s"), ("read", "MB"))):
        before, after = (statistics.median(cost[index] for cost in costs) for costs in (first, last))
        worst = max(worst, after / before)
        print(
            f"nights, {title}: night 1 {first[0][index]:.2f} {unit}, first {SAMPLE} {before:.2f} {unit}, "
            f"night {nights} {after:.2f} {unit}: {after / before:.2f} times (goal at most {GOAL:.1f})"
        )
    return worst


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
