"""One night's reports: what each is held against, and what came of it."""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..reports import writers
from ..reports.build import Question, build
from ..reports.model import Report, Side
from ..reports.selection import NOTHING, Selector
from ..schemas import TABLES
from ..schemas.warehouse import Warehouse, reading
from ..transforms.partitions import INPUTS
from ..transforms.start_rows import bind_deployments
from ..transforms.state import State
from ..version import __version__
from . import hook
from .config import Comparison, Config
from .record import Judged, bad_dates

Records = Mapping[dt.date, Mapping[str, Any]]
"""The records of the nights judged so far, by date."""


def folder(config: Config, date: dt.date, name: str | None) -> Path:
    """Where a report of a night lies."""
    night = config.out / date.isoformat()
    return night if name is None else night / name


class Nights:
    """Judges nights of one warehouse in its present state."""

    def __init__(self, warehouse: Warehouse, config: Config) -> None:
        self._warehouse = warehouse
        self._config = config
        state = State(warehouse)
        self._computed = [(day, state.read(day)) for day in sorted(state.dates())]
        self._evaluated = [(file.date, file.path.name, file.size) for file in warehouse.files(TABLES["quality"])]

    @functools.cached_property
    def selector(self) -> Selector:
        """Of everything that was measured in the warehouse."""
        with reading() as connection:
            bind_deployments(connection, self._warehouse)
            return Selector.of(self._warehouse, connection)

    def looked_at(self, dates: Collection[dt.date], judged: Iterable[dt.date]) -> set[dt.date]:
        """Those of the judged nights whose records matter where nights of these dates are judged."""
        first = {date: min(comparison.reach(date) for comparison in self._config.comparisons) for date in dates}
        return {day for day in judged if any(first[date] <= day <= date for date in dates)}

    def fingerprint(self, date: dt.date, records: Records) -> str:
        """Of everything the reports of a night rest on: cells, marts, evaluations, configuration, earlier verdicts."""
        computed = [(str(day), state.cells, state.marts) for day, state in self._computed if day <= date]
        evaluated = [str(file) for file in self._evaluated if file[0] <= date]
        bad = [
            sorted(
                str(day) for day in bad_dates(records.values(), comparison.name) if comparison.reach(date) <= day < date
            )
            for comparison in self._config.comparisons
        ]
        said = repr((__version__, self._config.fingerprint, str(date), computed, evaluated, bad))
        return hashlib.sha256(said.encode()).hexdigest()[:32]

    def newest(self, date: dt.date) -> int:
        """When rows of a date were last written, in ns since 1970; 0 without any. Compaction does not move it."""
        files = (file for name in INPUTS for file in self._warehouse.files(TABLES[name], date=date))
        return max((file.path.stat().st_mtime_ns for file in files), default=0)

    def judge(self, comparison: Comparison, date: dt.date, records: Records, now: dt.datetime) -> Judged:
        """Build and write one report, and call the hook if a gate failed, unless it knows of that night already."""
        question = Question(
            self.baseline(comparison, date, bad_dates(records.values(), comparison.name)),
            on(comparison.candidate, [date]),
            gates=comparison.gates,
            acknowledged=comparison.acknowledged,
            settings=self._config.settings,
        )
        report = build(self._warehouse, question, now, self.selector, meanwhile=writers.prepare)
        target = folder(self._config, date, comparison.name)
        writers.write_all(report, target)
        judged = _judged(comparison.name, report)
        if self._config.hook is None or report.verdict != "fail":
            return judged
        if any(one["name"] == comparison.name and one.get("hook") == hook.DONE for one in _reports(records, date)):
            return dataclasses.replace(judged, hook=hook.DONE)
        facts = {"DATE": date.isoformat(), "REPORT": comparison.name or "", "FOLDER": str(target)}
        said = hook.call(self._config.hook, target / "report.json", facts)
        return dataclasses.replace(judged, hook=said)

    def baseline(self, comparison: Comparison, date: dt.date, bad: Collection[dt.date]) -> str:
        """The predicate of what the night is held against.

        The rolling baseline is the last nights before it that have data and that no gate failed.
        """
        if comparison.baseline is not None:
            return comparison.baseline.replace("$night", f"DATE '{date}'")
        measured = self.selector.select(comparison.candidate).dates
        good = [day for day in measured if comparison.reach(date) <= day < date and day not in bad]
        return on(comparison.candidate, good[-comparison.nights :])


def on(where: str, dates: Collection[dt.date]) -> str:
    """The predicate restricted to these dates."""
    listed = ", ".join(f"'{date}'" for date in dates)
    if not dates:
        return NOTHING
    days = f"date IN ({listed})" if len(dates) > 1 else f"date = {listed}"
    # The closing bracket stands on a line of its own, so that a comment in the predicate cannot swallow it.
    return days if where == "true" else f"(\n{where}\n) AND {days}"


def _reports(records: Records, date: dt.date) -> Sequence[Mapping[str, Any]]:
    reports: Sequence[Mapping[str, Any]] = records.get(date, {}).get("reports", ())
    return reports


def _judged(name: str | None, report: Report) -> Judged:
    failed = dict.fromkeys(gate.measure for gate in report.gates if gate.verdict == "fail")
    return Judged(
        name,
        report.verdict,
        report.reason,
        report.exit_code,
        _side(report.baseline),
        _side(report.candidate),
        list(failed),
    )


def _side(side: Side) -> dict[str, Any]:
    return {"where": side.where, "deployments": list(side.deployments), "dates": list(side.dates)}
