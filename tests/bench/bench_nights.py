"""What a night costs when a year of nights is there already: time and bytes read, against the first nights.

``python -m tests.bench.bench_nights [FOLDER]``

Night 1 has nothing that it could be held against, and no week of inputs and of nights before it, which night 8 has; the
baseline takes 14 nights, the history 60. So the last night stands against both. The nights that are measured run as
they would, each a program of its own. Between them lie copies of those before with other dates: their rows, file by
file, and their reports; cells and marts are computed from the rows. The input folder holds the files of a week, as log
rotation leaves it.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from specledger.ingest import ingest
from specledger.schemas import RAW_TABLES
from specledger.schemas.config import DEFAULT_SETTINGS
from specledger.schemas.raw import INGESTED_FILES
from specledger.schemas.table import Table
from specledger.schemas.warehouse import Warehouse
from specledger.transforms.runner import run
from tests.nightly.simulated import day, write_config, write_night

GOAL = 1.2
"""Times the first nights that the last ones may cost."""
FIRST = (1, 8)
"""The nights that the last ones are held against, each with those after it."""
ON_THE_WAY = (30, 100)
"""Nights that are measured as the year goes on."""
NIGHTS = 365
SAMPLE = 3
"""Nights measured of each; the median counts."""
MEASURES = (("wall time", "s"), ("processor time", "s"), ("read", "MB"))
FILES_KEPT = 7
Cost = tuple[float, float, float]
"""Wall time and processor time in s, and MB read."""
ROOT = Path(__file__).resolve().parents[2]
MEASURED = """
import sys, time
from specledger.__main__ import cli
code = cli.main(sys.argv[1:], standalone_mode=False)
with open("/proc/self/io") as file:
    print(int(file.readline().split()[1]), time.process_time())
sys.exit(code not in (0, 1))
"""


def write(folder: Path, number: int) -> Path:
    """The inputs after a night, last changed in it: a log prints no year."""
    written = dt.datetime.combine(day(number), dt.time(4), dt.UTC).timestamp()
    for path in write_night(folder / "input" / "chat", number).values():
        os.utime(path, (written, written))
    for path in (folder / "input" / "chat").iterdir():
        if path.name <= str(day(number - FILES_KEPT + 1)):
            path.unlink()
    return folder / "input" / "chat"


def nightly(folder: Path, number: int) -> Cost:
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
    before = [day(first - SAMPLE + number) for number in range(SAMPLE)]
    models = {date: list(rows_of(warehouse, date)) for date in before}
    for number in range(first, last - FILES_KEPT):
        date = before[(number - first) % SAMPLE]
        for table, name, rows in models[date]:
            to = day(number + 1) if table is INGESTED_FILES else day(number)
            warehouse.write(table, to, "chat", name, shifted(rows, day(number) - date))
    for number in range(max(first, last - FILES_KEPT), last):
        ingest(warehouse, [write(folder, number)], deployment="chat", timezone="UTC")
    run(warehouse, DEFAULT_SETTINGS)
    model = folder / "nights" / str(day(first - 1))
    for number in range(first, last):
        copy = shutil.copytree(model, model.with_name(str(day(number))))
        report = (model / "report.json").read_text().replace(f'"{day(first - 1)}"', f'"{day(number)}"')
        (copy / "report.json").write_text(report)
        judged = json.loads((model / "run.json").read_text())
        judged |= {"date": str(day(number)), "newest_ns": time.time_ns()}
        (copy / "run.json").write_text(json.dumps(judged))


def rows_of(warehouse: Warehouse, date: dt.date) -> Iterator[tuple[Table, str, pa.Table]]:
    """The rows that a night gave to each raw table, with the names of their files."""
    for table in RAW_TABLES:
        when = None if table is INGESTED_FILES else date
        for file in warehouse.files(table, date=when):
            rows = pq.read_table(file.path, partitioning=None)
            if table is INGESTED_FILES:
                rows = rows.filter(pc.match_substring(rows["source"], str(date)))
            if rows:
                yield table, file.path.stem, rows


def shifted(rows: pa.Table, by: dt.timedelta) -> pa.Table:
    """The rows as many days later; the hashes of inputs become others, for so does what they hold."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type):
            rows = rows.set_column(place, field, pc.add(rows[field.name], pa.scalar(by, pa.duration("us"))))
        elif field.name in ("head_hash", "content_hash"):
            hashes = [
                hashlib.sha256(f"{by} {value}".encode()).hexdigest()[: len(value)]
                for value in rows[field.name].to_pylist()
            ]
            rows = rows.set_column(place, field, pa.array(hashes, field.type))
    return rows


class Year:
    """Nights of a folder of its own, of which some are run and those between are made."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        config = write_config(folder)
        config.write_text(config.read_text().replace("year = 2026\n", ""))
        self._folder = folder
        self._begin = -NIGHTS - 2 * SAMPLE  # so that all of them are past
        self._next = 1

    def up_to(self, night: int) -> None:
        """Make the nights before one."""
        if night > self._next:
            nights_between(self._folder, self._begin + self._next, self._begin + night - 1)
            self._next = night - 1
            self.run()  # writes the index of the reports that were copied

    def run(self) -> Cost:
        """What the next night costs."""
        self._next += 1
        return nightly(self._folder, self._begin + self._next - 1)


def median(costs: list[Cost]) -> Cost:
    wall, processor, read = (statistics.median(one) for one in zip(*costs, strict=True))
    return wall, processor, read


def main(folder: Path) -> float:
    """Print what nights cost over a year; the worst ratio of the last to the first."""
    year = Year(folder / "year")
    for night in (*FIRST, *ON_THE_WAY):
        year.up_to(night)
        print(
            f"night {night}: %.2f s, processor time %.2f s, read %.2f MB" % median([year.run() for _ in range(SAMPLE)])
        )
    year.up_to(NIGHTS)
    anew, worst = Year(folder / "anew"), 0.0
    for night in FIRST:
        anew.up_to(night)
        # In turn, so that what else the machine does falls on both.
        pairs = [(anew.run(), year.run()) for _ in range(SAMPLE)]
        first, last = (median(list(costs)) for costs in zip(*pairs, strict=True))
        for (title, unit), before, after in zip(MEASURES, first, last, strict=True):
            worst = max(worst, after / before)
            print(
                f"{title}: night {NIGHTS} {after:.2f} {unit}, night {night} {before:.2f} {unit}: "
                f"{after / before:.2f} times (goal at most {GOAL:.1f})"
            )
    return worst


if __name__ == "__main__":
    if sys.argv[1:]:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as name:
            main(Path(name))
