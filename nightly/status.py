"""What a warehouse holds, how fresh it is, what came late, and what runs that ended in the middle have left."""

from __future__ import annotations

import datetime as dt
import fcntl
import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..ingest.publishing import ABANDONED_S
from ..schemas import TABLES, layout
from ..schemas.table import quote
from ..schemas.warehouse import DataFile, Warehouse, scan
from ..schemas.working_copy import OPEN
from ..transforms.partitions import INPUTS
from ..transforms.state import State

LATE_AFTER = dt.timedelta(days=1)
"""Rows written later than this after their day was over came late: a nightly run has judged the day by then."""
WORK = ("ingest", "transform", "nightly")


@dataclass(frozen=True)
class TableStatus:
    """One table that has files."""

    table: str
    kind: str
    files: int
    bytes: int
    first: str
    last: str


@dataclass(frozen=True)
class DeploymentStatus:
    """What is known of one deployment's measurements."""

    deployment: str
    nights: int
    first: str
    last: str
    newest: str | None
    """Moment (UTC) of its newest row."""
    missing: tuple[str, ...]
    """Dates between the first and the last without any row."""
    late: tuple[str, ...]
    """Dates of which rows were written more than a day after the date was over."""
    uncomputed: tuple[str, ...]
    """Dates with rows of which no cells were computed."""


@dataclass(frozen=True)
class Status:
    """Everything that ``specledger status`` tells."""

    warehouse: str
    working_copy: str | None
    """Where a run on this machine that wrote into an object store has left the warehouse, with its views."""
    layout: int
    bytes: int
    tables: tuple[TableStatus, ...]
    deployments: tuple[DeploymentStatus, ...]
    running: Mapping[str, Mapping[str, Any]]
    """Who holds which lock."""
    leftovers: int
    """Files and folders aside that are older than the lease of their run; the next ingest removes them."""
    unfinished: int
    """Batches that a run began to publish and did not end; the next ingest puts them right."""


def read(warehouse: Warehouse) -> Status:
    """The status of a warehouse; EmptyWarehouse where there is none."""
    warehouse.require()
    caches = OPEN.get(warehouse.root)
    cache = caches[-1] if caches else None
    files = {name: listed for name, table in TABLES.items() if (listed := warehouse.files(table))}
    return Status(
        cache.store.url if cache else str(warehouse.root),
        str(cache.copy) if cache and cache.copy.is_dir() else None,
        layout.found(warehouse.root),
        sum(file.size for listed in files.values() for file in listed),
        tuple(_table(name, listed) for name, listed in files.items()),
        tuple(_deployments(warehouse, files)),
        {work: owner for work in WORK if (owner := _owner(warehouse.root / f"_{work}.lock")) is not None},
        sum(_is_left_over(path) for path in (warehouse.root / "_tmp").glob("*")),
        len(list((warehouse.root / "_pending").glob("*.json"))),
    )


def _table(name: str, files: list[DataFile]) -> TableStatus:
    dates = [file.date.isoformat() for file in files]
    return TableStatus(name, TABLES[name].kind, len(files), sum(file.size for file in files), min(dates), max(dates))


def _deployments(warehouse: Warehouse, files: Mapping[str, list[DataFile]]) -> Iterator[DeploymentStatus]:
    held: dict[str, dict[dt.date, list[DataFile]]] = defaultdict(lambda: defaultdict(list))
    for name in INPUTS:
        for file in files.get(name, ()):
            held[file.deployment][file.date].append(file)
    state = State(warehouse)
    computed = {date: state.read(date).cells for date in state.dates()}
    for deployment, days in sorted(held.items()):
        first, last = min(days), max(days)
        between = (first + dt.timedelta(n) for n in range((last - first).days))
        yield DeploymentStatus(
            deployment,
            len(days),
            first.isoformat(),
            last.isoformat(),
            _newest(days[last]),
            tuple(day.isoformat() for day in between if day not in days),
            tuple(day.isoformat() for day in sorted(days) if any(_is_late(file) for file in days[day])),
            tuple(day.isoformat() for day in sorted(days) if deployment not in computed.get(day, ())),
        )


def _newest(files: list[DataFile]) -> str | None:
    """The newest moment in the files of one day."""
    import duckdb

    moments: list[dt.datetime | None] = []
    with duckdb.connect() as connection:
        for name in {file.table for file in files}:
            columns = ", ".join(f"max({quote(column)})" for column in TABLES[name].moment)
            rows = scan(TABLES[name], [str(file.path.resolve()) for file in files if file.table == name], merge=False)
            moments += connection.execute(f"SELECT {columns} FROM ({rows})").fetchone() or ()
    known = [moment for moment in moments if moment is not None]
    return max(known).isoformat(sep=" ", timespec="seconds") if known else None


def _is_late(file: DataFile) -> bool:
    over = dt.datetime.combine(file.date, dt.time(), dt.UTC) + dt.timedelta(1) + LATE_AFTER
    return file.path.stat().st_mtime > over.timestamp()


def _owner(path: Path) -> Mapping[str, Any] | None:
    """Who holds a lock; None where nobody does."""
    try:
        with path.open("r+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                owner: Mapping[str, Any] = json.loads(file.read(1000) or "{}")
                return owner
    except (OSError, ValueError):
        return None
    return None


def _is_left_over(path: Path) -> bool:
    try:
        return path.stat().st_mtime < time.time() - ABANDONED_S
    except OSError:
        return False
