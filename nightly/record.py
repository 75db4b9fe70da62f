"""What a run says of itself, for machines: ``run.json`` in the folder of each night it judged."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..reports.writers import publish
from ..schemas.engine import StageNumbers
from ..version import __version__

SCHEMA_VERSION = 1
RECORD = "run.json"
LAST_RUN = "last_run.json"
"""Beside the nights: the record of the run that ended last, whatever became of it."""
BAD = frozenset({"fail"})
"""Verdicts with which a night is no example for later ones."""


@dataclass
class SourceOutcome:
    """What became of one source."""

    deployment: str
    paths: Sequence[str]
    inputs: int = 0
    """Inputs read in this run."""
    known: int = 0
    """Inputs that the warehouse held already."""
    records: int = 0
    rejects: int = 0
    duplicates: int = 0
    """Rows left out because the warehouse held them."""
    rows: dict[str, int] = field(default_factory=dict)
    """Rows written, by table."""
    notes: list[str] = field(default_factory=list)
    error: str | None = None


@dataclass(frozen=True)
class Late:
    """Rows that came after their night had been judged."""

    date: str
    rows: Mapping[str, int]
    """By deployment, as far as this run took them in; a run before it may have been ended after it had."""


@dataclass(frozen=True)
class Judged:
    """One report of a night."""

    name: str | None
    verdict: str
    reason: str
    exit_code: int
    baseline: Mapping[str, Any]
    """``where``, ``deployments`` and ``dates`` of the side."""
    candidate: Mapping[str, Any]
    failed: Sequence[str]
    """Measures with a failed gate."""
    hook: str | None = None
    """What became of the hook: "done", why it failed, or None where it was not called."""


@dataclass
class Record:
    """One run as one night sees it."""

    date: str
    started_at: str
    sources: Sequence[SourceOutcome] = ()
    late: Sequence[Late] = ()
    partitions: int = 0
    """Partitions whose cells were computed or removed."""
    dates: Sequence[str] = ()
    """Dates whose marts were computed."""
    stages: Sequence[StageNumbers] = ()
    """What ingest and transform took on a cluster; nothing where this machine did it alone."""
    reports: Sequence[Judged] = ()
    fingerprint: str | None = None
    """Of everything the reports rest on: while it stays, the reports stay."""
    newest_ns: int = 0
    """When rows of the night were last written, as it was judged; later ones are late."""
    housekeeping: Mapping[str, int] = field(default_factory=dict)
    error: str | None = None
    exit_code: int = 0
    ended_at: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION


def new(date: dt.date, now: dt.datetime) -> Record:
    """An empty record of a run that starts now (naive UTC)."""
    import duckdb
    import polars as pl

    versions = {
        "specledger": __version__,
        "duckdb": duckdb.__version__,
        "polars": pl.__version__,
        "python": platform.python_version(),
    }
    return Record(date.isoformat(), stamp(now), versions=versions)


def stamp(moment: dt.datetime) -> str:
    """An instant (naive UTC) as ISO 8601 with seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def write(record: Record, path: Path) -> None:
    """Write the record in one step."""
    publish(path, (json.dumps(dataclasses.asdict(record), indent=2, ensure_ascii=False) + "\n").encode())


def note_newest(path: Path, newest_ns: int) -> None:
    """Note in a record that rows of its night were written later and changed nothing that it rests on."""
    found = json.loads(path.read_text(encoding="utf-8"))
    publish(path, (json.dumps(found | {"newest_ns": newest_ns}, indent=2, ensure_ascii=False) + "\n").encode())


def read(path: Path) -> dict[str, Any] | None:
    """A record as JSON has it; None where there is none that can be read, so that the night is judged again."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        whole = found["reports"] and all({"name", "verdict", "exit_code"} <= one.keys() for one in found["reports"])
        return {**found, "date": dt.date.fromisoformat(found["date"])} if whole else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def judged_dates(out: Path) -> list[dt.date]:
    """The nights that have a record, rising."""
    found = []
    for path in out.glob(f"[0-9]*/{RECORD}"):
        with contextlib.suppress(ValueError):
            found.append(dt.date.fromisoformat(path.parent.name))
    return sorted(found)


def nights(out: Path, dates: Iterable[dt.date]) -> dict[dt.date, dict[str, Any]]:
    """The records of those nights of these dates that were judged."""
    records = (read(out / date.isoformat() / RECORD) for date in sorted(set(dates)))
    return {record["date"]: record for record in records if record is not None}


def bad_dates(records: Iterable[Mapping[str, Any]], name: str | None) -> set[dt.date]:
    """The nights that a comparison has judged bad."""
    return {
        record["date"]
        for record in records
        for judged in record["reports"]
        if judged["name"] == name and judged["verdict"] in BAD
    }
