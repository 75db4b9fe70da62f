"""What a night costs when a year of nights is there already: time and bytes read, against the first nights.

``python -m tests.bench.bench_nights [FOLDER]``

Night 1 has nothing that it could be held against, and no week of inputs and of nights before it; night 8 is the first
that has all that. So the last night stands against both. The nights that are measured run as they would, each a program
of its own. Between them lie copies of those before with other dates: their rows, file by file, and their reports; cells
and marts are computed from the rows. The input folder holds the files of a week, as log rotation leaves it.
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
NIGHTS = (1, 8, 30, 100, 363)
"""The nights that are measured, each with those after it: SAMPLE in all, of which the median counts."""
SAMPLE = 3
FILES_KEPT = 7
ROOT = Path(__file__).resolve().parents[2]
MEASURED = """
import sys, time
from specledger.__main__ import cli
cli.main(sys.argv[1:], standalone_mode=False)
with open("/proc/self/io") as file:
    print(int(file.readline().split()[1]), time.process_time())
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


def main(folder: Path) -> float:
    """Print what nights cost over a year; the worst ratio of the last to the first."""
    config = write_config(folder)
    config.write_text(config.read_text().replace("year = 2026\n", ""))
    begin = -NIGHTS[-1] - SAMPLE  # so that all of them are past
    costs: list[tuple[float, ...]] = []
    for before, night in zip((0, *NIGHTS), NIGHTS, strict=False):
        if costs:
            nights_between(folder, begin + before + SAMPLE, begin + night - 1)
            nightly(folder, begin + night - 1)  # writes the index of the reports that were copied
        measured = [nightly(folder, begin + night + number) for number in range(SAMPLE)]
        costs.append(tuple(statistics.median(one) for one in zip(*measured, strict=True)))
        print(f"night {night}: wall time %.2f s, processor time %.2f s, read %.2f MB" % costs[-1], flush=True)
    worst = 0.0
    for title, *along in zip(("wall time", "processor time", "read"), *costs, strict=True):
        first, full, *_, last = along
        worst = max(worst, last / first)
        print(
            f"{title}: night {NIGHTS[-1] + SAMPLE - 1} takes {last / first:.2f} times what the first nights take "
            f"(goal at most {GOAL:.1f}), {last / full:.2f} times the first that have a week before them"
        )
    return worst


if __name__ == "__main__":
    if sys.argv[1:]:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as name:
            main(Path(name))
