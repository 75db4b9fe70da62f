"""What a night costs when a year of nights is there already: time and bytes read, against the first night.

``python -m tests.bench.bench_nights [FOLDER]``

A night is that of a small production deployment: a server with two engines that starts anew every day, scraped every
15 s over the whole UTC day, more than eight thousand logged requests, and the server's log at default flags. The nights
that are measured run as they would, each as a program of its own, over a folder that holds the files of a week. Those
between them are laid down: files of the first nights under later dates, which count as computed. Only start-up records,
records of inputs and columns that hold dates are written anew; inputs that still lie in the folder are really ingested.

Night 1 of a new warehouse has nothing that it could be held against: it compares nothing and draws hardly a chart. The
other first night is one with a pinned baseline: 14 nights of a reference deployment, as a team has them that measured
before it deployed. It does what night 365 does, but for looking back. So there are two rows of everything: nights with
the default baseline against the former, nights with the pinned one against the latter. First and last nights are run in
turn, so that what else the machine does falls on both.
"""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from specledger.ingest import ingest
from specledger.nightly import record
from specledger.reports import trend
from specledger.schemas import RAW_TABLES, TABLES
from specledger.schemas.config import DEFAULT_SETTINGS
from specledger.schemas.published import publish, published
from specledger.schemas.raw import DEPLOYMENTS, INGESTED_FILES
from specledger.schemas.table import Table
from specledger.schemas.warehouse import Warehouse
from specledger.transforms.database import connect, publish_database
from specledger.transforms.fingerprints import Fingerprints, StartRecords
from specledger.transforms.plan import Plan
from specledger.transforms.start_rows import bind_deployments, keep_together
from tests.bench.measure import ROOT
from tests.simulator import RoundCost, Task, World, text
from tests.simulator.engine import Trace, simulate

GOAL = 1.2
"""Times the first night that a later one may cost."""
NIGHTS = (30, 365)
SAMPLE = 3
"""Runs of each; the median counts. As many different nights are simulated."""
FILES_KEPT = 7
"""Nights whose files log rotation leaves in the folder."""
REFERENCE_NIGHTS = 14
WORLD = World(
    deployment="chat",
    tasks=(Task("chat", 0.7, output_tokens=100.0), Task("code", 0.3, (0.85, 0.8, 0.75), output_tokens=160.0)),
    cost=RoundCost(base=40.0),
    arrivals_per_s=0.05,
    wave=0.6,
)
ENGINES = 2
SECONDS = 86_000.0
"""Requests arrive for so long after midnight; the last of them is done by the next."""
EVERY_S = 15.0
START = "process_start_time_seconds"
SETTLED_S = 2.5
"""Inputs of a night are at least so much older than the moment in which they are read."""
LAST = dt.date(2026, 11, 20)
"""The date of night 365."""
CONFIG = """\
warehouse = "warehouse"
out = "{out}"

[[source]]
paths = ["input"]
deployment = "chat"
timezone = "UTC"

[[report]]
candidate = "deployment = 'chat'"
{more}
"""
BASELINES = {"default": "", "pinned": "baseline = \"deployment = 'reference'\""}
MEASURED = """
import os, sys, time
from specledger.__main__ import cli
code = cli.main(sys.argv[1:], standalone_mode=False)
with open("/proc/self/io") as file:
    read = int(file.readline().split()[1])
specs = [getattr(module, "__spec__", None) for module in list(sys.modules.values())]
files = {spec.cached for spec in specs if spec is not None and spec.has_location and spec.cached}
print(read, sum(os.path.getsize(file) for file in files if os.path.exists(file)), time.process_time())
sys.exit(code not in (0, 1))
"""
"""Runs the program and says what it read, how much of that was compiled Python, and its processor time."""


@dataclass(frozen=True)
class Cost:
    """Of one run, or the medians of several: seconds and MB."""

    wall: float
    processor: float
    read: float
    modules: float
    """Of that compiled Python."""
    inputs: float
    """Size of the files that came this night."""


MEASURES: Mapping[str, Callable[[Cost], float]] = {
    "wall time, s": lambda cost: cost.wall,
    "processor time, s": lambda cost: cost.processor,
    "read, MB": lambda cost: cost.read,
    "read but for Python's modules, MB": lambda cost: cost.read - cost.modules,
}
"""What the goal is about."""
REST = "read but for modules and the night's own inputs, MB"


def day(number: int) -> dt.date:
    """The date of a night, counted from 1."""
    return LAST + dt.timedelta(number - 365)


def midnight(date: dt.date) -> float:
    return dt.datetime.combine(date, dt.time(), dt.UTC).timestamp()


# --- inputs -----------------------------------------------------------------------------------------------------------


@functools.cache
def traces(seed: int) -> tuple[Trace, ...]:
    """A day of the engines of one server."""
    return tuple(
        simulate(WORLD, SECONDS, np.random.default_rng([seed, engine]), engine=engine) for engine in range(ENGINES)
    )


@functools.cache
def scraped(seed: int) -> tuple[tuple[float, bytes], ...]:
    """The scrapes of a day, each with its second, without what says when the process started."""
    return tuple(
        (moment, scrape.replace(f"{START} {text.number(0.0)}\n", "", 1).encode())
        for moment, scrape in text.scrapes(list(traces(seed)), 0.0, EVERY_S)
    )


@functools.cache
def logged(seed: int) -> str:
    """The log of a day that begins at second 0: start-up of the server, and what its engines say every 10 s."""
    first, *others = (text.log(trace, 0.0, details=False).splitlines(keepends=True) for trace in traces(seed))
    said = [line for lines in others for line in lines if "loggers.py" in line]
    return "".join(sorted([*first, *said], key=lambda line: line.split("INFO ")[1][:14]))


@functools.cache
def answered(seed: int) -> tuple[tuple[float, list[str]], ...]:
    """The responses of a day without detailed arrays, as a client logs them: each with its second, cut around it."""
    found = []
    for line in "".join(text.responses(trace, 0.0) for trace in traces(seed)).splitlines():
        response = json.loads(line)
        for name in ("chunk_times_s", "chunk_tokens"):
            del response[name]
        for name in ("per_step_accepted", "per_step_drafted"):
            del response["response"]["metrics"]["speculative_decoding"][name]
        start = response["start_unix"]
        found.append((start, [*json.dumps(response | {"start_unix": "cut"}).split('"cut"'), "\n"]))
    return tuple(found)


def write(folder: Path, date: dt.date, seed: int) -> Path:
    """The folder of inputs after a night, with those of the week before it that were there."""
    inputs = folder / "input"
    inputs.mkdir(parents=True, exist_ok=True)
    begin = midnight(date)
    with (inputs / f"{date}.prom").open("wb") as file:
        for moment, scrape in scraped(seed):
            file.write(f"# scraped_at {begin + moment}\n{START} {text.number(begin)}\n".encode())
            file.write(scrape)
    (inputs / f"{date}.log").write_text(logged(seed).replace("INFO 01-01 ", f"INFO {date:%m-%d} "))
    with (inputs / f"{date}.jsonl").open("w") as file:
        for start, (before, after, end) in answered(seed):
            file.write(f"{before}{begin + start}{after}{end}")
    for path in inputs.iterdir():
        if path.name <= str(date - dt.timedelta(FILES_KEPT)):
            path.unlink()
        elif path.name.startswith(str(date)):
            os.utime(path, (begin + 27 * 3600,) * 2)  # a log prints no year
    return inputs


# --- nights that are run ----------------------------------------------------------------------------------------------


class House:
    """A warehouse with its inputs and reports; its nights are run or laid down."""

    def __init__(self, folder: Path, models: House | None = None) -> None:
        self.folder = folder
        self.warehouse = Warehouse(folder / "warehouse")
        self.models = models or self
        self._files: dict[tuple[str, dt.date], list[tuple[str, Path, pa.Table | None]]] = {}
        folder.mkdir(parents=True)
        for name, more in BASELINES.items():
            (folder / f"{name}.toml").write_text(CONFIG.format(out=name, more=more))

    def run(self, date: dt.date, seed: int, baseline: str = "default") -> Cost:
        """What a night costs; RuntimeError where it did more or less than compute and judge that one."""
        write(self.folder, date, seed)
        time.sleep(SETTLED_S)
        arguments = ["nightly", "--config", str(self.folder / f"{baseline}.toml"), "--date", str(date)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        call = [sys.executable, "-c", MEASURED, *arguments]
        begin = time.monotonic()
        done = subprocess.run(call, check=False, capture_output=True, text=True, env=environment, cwd=ROOT)
        wall = time.monotonic() - begin
        told = json.loads((self.folder / baseline / record.LAST_RUN).read_text())
        if done.returncode or told["partitions"] != 1 or told["dates"] != [str(date)]:
            raise RuntimeError(f"night {date} computed {told['dates']} and said: {done.stderr[-2_000:]}")
        read, modules, processor = done.stdout.splitlines()[-1].split()
        inputs = sum(path.stat().st_size for path in (self.folder / "input").glob(f"{date}.*"))
        return Cost(wall, float(processor), int(read) / 1e6, int(modules) / 1e6, inputs / 1e6)

    # --- nights that are laid down ------------------------------------------------------------------------------------

    def lay(self, nights: Sequence[tuple[dt.date, int]], deployment: str = "chat", *, ingested: int = 0) -> None:
        """Make nights as if they had been run, of the models with the same seed; the last so many are ingested."""
        for date, seed in nights[: len(nights) - ingested]:
            for table in RAW_TABLES:
                self._lay(table, date, day(1 + seed), deployment)
        for date, seed in nights[len(nights) - ingested :]:
            write(self.folder, date, seed)
        if ingested:
            time.sleep(SETTLED_S)
            ingest(self.warehouse, [self.folder / "input"], deployment=deployment, timezone="UTC")
        if self.models is not self:  # without, the next run would write the views of all tables anew
            shutil.copytree(self.models.warehouse.root / "_schema", self.warehouse.root / "_schema", dirs_exist_ok=True)
        for date, seed in nights:
            for table in TABLES.values():
                if table.kind in ("cells", "mart"):
                    self._lay(table, date, day(1 + seed), deployment)
            publish(self.warehouse, TABLES.values(), days=[date], now=_noon(date))  # one by one, as nights do
        self._count_as_computed()

    def _lay(self, table: Table, date: dt.date, model: dt.date, deployment: str) -> None:
        for name, path, rows in self.models.files_of(table, model):
            if rows is not None:
                to = date + dt.timedelta(1) if table is INGESTED_FILES else date
                self.warehouse.write(table, to, deployment, f"{name}-{date}", shifted(rows, model, date))
            else:
                target = self.warehouse.partition(table, date, deployment) / path.name
                target.parent.mkdir(parents=True, exist_ok=True)
                os.link(path, target)

    def files_of(self, table: Table, date: dt.date) -> list[tuple[str, Path, pa.Table | None]]:
        """Name and path of the files that a night gave to a table; with their rows where these hold dates."""
        if (table.name, date) not in self._files:
            dated = table in (INGESTED_FILES, DEPLOYMENTS) or any(one.type == "DATE" for one in table.stored_columns)
            found = []
            for file in self.warehouse.files(table, date=None if table is INGESTED_FILES else date, deployment="chat"):
                rows = pq.read_table(file.path, partitioning=None) if dated else None
                if rows is not None and table is INGESTED_FILES:
                    rows = rows.filter(pc.match_substring(rows["source"], f"/{date}."))
                if rows is None or len(rows):
                    found.append((file.path.stem, file.path, rows))
            self._files[table.name, date] = found
        return self._files[table.name, date]

    def _count_as_computed(self) -> None:
        keep_together(self.warehouse)
        with connect(self.warehouse, DEFAULT_SETTINGS) as connection:
            bind_deployments(connection, self.warehouse)
            plan = Plan(self.warehouse, Fingerprints(DEFAULT_SETTINGS, StartRecords(connection)), None, force=False)
            plan.cells_computed([partition for partition, _ in plan.changed()])
            plan.marts_computed(plan.days_with_other_marts(), plain=())  # all of them speculate
            plan.ledgers_computed(plan.days_with_other_ledgers())
        publish_database(published(self.warehouse.root), DEFAULT_SETTINGS)

    def lay_reports(self, nights: Sequence[tuple[dt.date, int]], baseline: str, model: dt.date) -> None:
        """The reports of nights, copies of one with another date, in the index as well."""
        out = self.folder / baseline
        known = {report.path: report for report in trend.nightly_reports(out)[0]}
        pattern = known[f"{model}/report.json"]
        for date, _ in nights:
            folder = Path(shutil.copytree(out / str(model), out / str(date), copy_function=os.link))
            for name in ("report.json", record.RECORD):
                content = (folder / name).read_text().replace(f'"{model}"', f'"{date}"')
                (folder / name).unlink()
                (folder / name).write_text(content)
            judged = json.loads((folder / record.RECORD).read_text())
            (folder / record.RECORD).write_text(json.dumps(judged | {"newest_ns": time.time_ns()}))
            report = folder / "report.json"
            path = report.relative_to(out).as_posix()
            known[path] = replace(pattern, path=path, date=str(date), modified_ns=report.stat().st_mtime_ns)
        (out / trend.INDEX).write_text(trend.index(tuple(known.values())))


def shifted(rows: pa.Table, model: dt.date, date: dt.date) -> pa.Table:
    """Rows of one date as those of another; hashes of inputs become others, for so does what these hold."""
    by = date - model
    for place, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type):
            rows = rows.set_column(place, field, pc.add(rows[field.name], pa.scalar(by, pa.duration("us"))))
        elif pa.types.is_date(field.type):
            moved = [value + by if value else None for value in rows[field.name].to_pylist()]
            rows = rows.set_column(place, field, pa.array(moved, field.type))
        elif field.name == "source":
            rows = rows.set_column(place, field, pc.replace_substring(rows["source"], str(model), str(date)))
        elif field.name in ("head_hash", "content_hash"):
            hashes = [
                hashlib.sha256(f"{by} {value}".encode()).hexdigest()[: len(value)]
                for value in rows[field.name].to_pylist()
            ]
            rows = rows.set_column(place, field, pa.array(hashes, field.type))
    return rows


# --- the year ---------------------------------------------------------------------------------------------------------


def _noon(date: dt.date) -> float:
    return dt.datetime.combine(date, dt.time(12), dt.UTC).timestamp()


def seeded(first: int, last: int) -> list[tuple[dt.date, int]]:
    """The nights from the first to before the last, with their seeds."""
    return [(day(number), number % SAMPLE) for number in range(first, last)]


def first_nights(folder: Path, year: House, sample: int) -> dict[str, Cost]:
    """What night 1 costs, by baseline; the pinned one was measured before it."""
    costs = {}
    for baseline in BASELINES:
        new = House(folder / f"{baseline}-{sample}", year)
        if baseline == "pinned":
            new.lay(seeded(1 - REFERENCE_NIGHTS, 1), "reference")
        costs[baseline] = new.run(day(1), sample, baseline)
        shutil.rmtree(new.folder)
    return costs


def main(folder: Path) -> float:
    """Print what nights cost over a year; the worst ratio of the last to the first."""
    year = House(folder / "year")
    for seed in range(SAMPLE):
        year.run(day(1 + seed), seed)
    year.lay(seeded(1 - REFERENCE_NIGHTS, 1), "reference")
    judged = SAMPLE + 1
    year.run(day(judged), judged % SAMPLE, "pinned")
    reported = {"default": SAMPLE, "pinned": judged}
    costs: dict[tuple[str, int], list[Cost]] = {}
    for night in NIGHTS:
        between = seeded(judged + 1, night)
        year.lay(between, ingested=min(len(between), FILES_KEPT - 1))
        for baseline, number in reported.items():
            year.lay_reports(between, baseline, day(number))
        judged = night - 1
        for sample in range(SAMPLE):
            first = first_nights(folder, year, sample) if night == NIGHTS[-1] else {}
            for baseline in BASELINES:
                judged += 1
                reported[baseline] = judged
                costs.setdefault((baseline, night), []).append(year.run(day(judged), sample, baseline))
                if first:
                    costs.setdefault((baseline, 1), []).append(first[baseline])
    medians = {key: median(found) for key, found in costs.items()}
    print(told(medians))
    ends = [(medians[name, NIGHTS[-1]], medians[name, 1]) for name in BASELINES]
    return max(of(last) / of(first) for last, first in ends for of in MEASURES.values())


def median(costs: Sequence[Cost]) -> Cost:
    """The median of each figure."""
    return Cost(*(statistics.median(column) for column in zip(*map(astuple, costs), strict=True)))


def told(medians: Mapping[tuple[str, int], Cost]) -> str:
    """The table."""
    nights = (1, *NIGHTS)
    ratios_to = (f"{night} / 1" for night in NIGHTS)
    head = ["baseline", "measure", *(f"night {night}" for night in nights), *ratios_to, "goal"]
    lines = [head, ["---"] * len(head)]
    for baseline in BASELINES:
        for title, of in (*MEASURES.items(), (REST, lambda cost: cost.read - cost.modules - cost.inputs)):
            values = [of(medians[baseline, night]) for night in nights]
            ratios = (f"{value / values[0]:.2f}" for value in values[1:])
            goal = f"≤ {GOAL:g}" if title in MEASURES else ""
            lines.append([baseline, title, *(f"{value:.1f}" for value in values), *ratios, goal])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    if sys.argv[1:]:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as name:
            main(Path(name))
