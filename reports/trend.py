"""The nights of all deployments together: how the measures went, what each nightly report said, and where it lies.

A nightly run calls ``trend_page.write(warehouse, folder, settings, now)`` once its report is written. ``folder`` is the
one in which the nightly reports lie, each in a folder of its own, one or two levels down
(``folder/2026-11-20/report.json``, ``folder/2026-11-20/llama70b/report.json``); it gets ``index.html`` and
``index.json``. A report that index.json knows and that has not changed since is not read again, so that a night costs
the same however many came before.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

from ..schemas.config import LoadBand, Settings
from ..schemas.warehouse import Warehouse
from ..version import __version__
from . import model
from .cells_read import CellReader
from .format import plural
from .history import MEASURED, as_nights, nightly_levels
from .model import Night, Verdict
from .origins import preferred
from .selection import Selection, Selector
from .strata import stratify
from .wording import headline

INDEX = "index.json"
MOST_NIGHTS = 90
"""Days that the page looks back on, from the last night of all."""
DEPTHS = ("*/report.json", "*/*/report.json")
EVERYTHING = "true"
NEVER = "1970-01-01"


@dataclass(frozen=True)
class NightlyReport:
    """What one report said of its candidate's last night."""

    path: str
    """Of its report.json, from the folder of the page, with slashes."""
    modified_ns: int
    date: str
    """Empty where the candidate has no night at all, so that there is none to show it at."""
    deployments: tuple[str, ...]
    verdict: Verdict
    sentence: str
    """The sentence at its top."""
    generated_at: str


@dataclass(frozen=True)
class Trend:
    """Everything that the page of all nights says."""

    nights: tuple[Night, ...]
    """Levels by deployment and measure, over all loads, by date."""
    reports: tuple[NightlyReport, ...]
    """By date; of each night and deployment the last one counts."""
    known: tuple[NightlyReport, ...] = ()
    """Every report in the folder, also those that the page does not look back to."""
    notes: tuple[str, ...] = ()
    tool_version: str = __version__
    generated_at: str = ""
    """ISO time (UTC)."""

    @cached_property
    def span(self) -> tuple[dt.date, dt.date]:
        """The first and the last night of all."""
        dates = {*(night.date for night in self.nights), *(report.date for report in self.reports)}
        return dt.date.fromisoformat(min(dates, default=NEVER)), dt.date.fromisoformat(max(dates, default=NEVER))

    @cached_property
    def deployments(self) -> tuple[str, ...]:
        told = (name for report in self.reports for name in report.deployments)
        return tuple(sorted({*told, *(night.deployment for night in self.nights)}))


def build(
    warehouse: Warehouse,
    folder: Path,
    settings: Settings,
    now: dt.datetime,
    where: str | None = None,
    selector: Selector | None = None,
) -> Trend:
    """The trend of the nights for which the predicate ``where`` is true, with the reports that lie in ``folder``.

    ``selector`` is that of the warehouse, where the caller has it. UsageError if it is no predicate.
    """
    selector = selector or Selector.of(warehouse, warehouse.connect(["deployments"]))
    chosen = selector.select(where or EVERYTHING)
    reports, notes = nightly_reports(folder)
    dated = (dt.date.fromisoformat(report.date) for report in reports if report.date)
    last = max((*chosen.dates, *dated), default=now.date())
    first = last - dt.timedelta(days=MOST_NIGHTS - 1)
    recent = [night for night in chosen.nights if night.date >= first]
    names = set(chosen.deployments) if where else None
    return Trend(
        _levels(CellReader(warehouse), Selection(chosen.where, tuple(recent)), settings.load_bands),
        tuple(
            replace(report, deployments=tuple(name for name in report.deployments if names is None or name in names))
            for report in reports
            if report.date >= first.isoformat() and (names is None or names & set(report.deployments))
        ),
        reports,
        notes,
        generated_at=now.strftime("%Y-%m-%dT%H:%M:%SZ"),
    )


def nightly_reports(folder: Path) -> tuple[tuple[NightlyReport, ...], tuple[str, ...]]:
    """What the reports in a folder say, by date and time of writing, and a note on those that cannot be read."""
    known = {report.path: report for report in _known(folder / INDEX)}
    found: list[NightlyReport] = []
    unreadable: list[str] = []
    for path in sorted(path for pattern in DEPTHS for path in folder.glob(pattern)):
        name, modified = path.relative_to(folder).as_posix(), path.stat().st_mtime_ns
        if name in known and known[name].modified_ns == modified:
            found.append(known[name])
            continue
        try:
            report = model.from_json(path.read_text(encoding="utf-8"))
        except (OSError, KeyError, TypeError, ValueError):
            unreadable.append(name)
            continue
        found.append(_told(report, name, modified))
    notes = (f"{plural(len(unreadable), 'report')} could not be read, {unreadable[0]} first.",) if unreadable else ()
    return tuple(sorted(found, key=lambda report: (report.date, report.generated_at, report.path))), notes


def index(reports: Sequence[NightlyReport]) -> str:
    """The text of index.json."""
    return json.dumps({"reports": [asdict(report) for report in reports]}, ensure_ascii=False, indent=1) + "\n"


def _known(path: Path) -> list[NightlyReport]:
    """The reports of an index.json; none if it is missing, damaged or of another version."""
    try:
        rows: list[Mapping[str, object]] = json.loads(path.read_text(encoding="utf-8"))["reports"]
        return [NightlyReport(**{**row, "deployments": tuple(row["deployments"])}) for row in rows]  # type: ignore[arg-type]
    except (OSError, KeyError, TypeError, ValueError):
        return []


def _told(report: model.Report, path: str, modified_ns: int) -> NightlyReport:
    return NightlyReport(
        path,
        modified_ns,
        max(report.candidate.dates, default=""),
        report.candidate.deployments,
        report.verdict,
        headline(report),
        report.generated_at,
    )


def _levels(reader: CellReader, chosen: Selection, bands: Sequence[LoadBand]) -> tuple[Night, ...]:
    """The levels of every measure and deployment that has any."""
    found: list[Night] = []
    for deployment in chosen.deployments:
        side = Selection(deployment, tuple(night for night in chosen.nights if night.deployment == deployment))
        origin = preferred(reader, side)
        if origin is None:
            continue
        frame = reader.course(side, origin, MEASURED)
        strata = stratify(frame.observed(), frame.observed(), bands)
        for measure in MEASURED:
            found += as_nights(measure, deployment, nightly_levels(frame, strata, measure, None))
    return tuple(found)
