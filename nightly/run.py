"""A night from its inputs to its reports. Each step can be ended at any moment; the next run goes on from there."""

from __future__ import annotations

import contextlib
import datetime as dt
import logging
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..ingest import IngestReport, ingest
from ..reports import trend_page
from ..reports.outcome import EXIT_FAILED_GATE, EXIT_UNANSWERED
from ..schemas.errors import NothingFound, SpecledgerError, WarehouseError
from ..schemas.lock import exclusive
from ..schemas.published import published
from ..schemas.spark import Cluster, cluster_of
from ..schemas.warehouse import Warehouse
from ..schemas.working_copy import opened, publish
from ..transforms import runner
from . import hook, housekeeping, metrics, record
from .config import Config, Source
from .judge import Nights, folder
from .record import Late, Record, SourceOutcome

logger = logging.getLogger(__name__)

LATE_NIGHTS = 60
"""Nights that are looked at for late rows; older ones are computed again and keep their reports."""
WAIT_S = 6 * 3600.0
"""How long a run waits for another that works on the same warehouse: longer than a night takes."""


class NightFailed(SpecledgerError):
    """Part of the night could not be done; what could was."""


def run(config: Config, dates: Sequence[dt.date]) -> int:
    """Take in all sources, compute what changed, judge the nights of the dates; the exit code.

    Nights that were judged before and got late rows are judged again. Raises SpecledgerError where the run failed,
    after everything that could be done was done.
    """
    with opened(config.warehouse, writing=True, wait_s=WAIT_S) as root, exclusive(root, "nightly", WAIT_S):
        warehouse = Warehouse(root)
        night = _Night(warehouse, config, record.new(dates[-1], _now()))
        try:
            with cluster_of(config.engine, warehouse) as cluster:
                night.take_in(cluster)
                night.compute(cluster)
            publish(root)  # so that reports rest on what everyone can read
            night.judge(dates)
            night.tidy()
        except BaseException as error:
            night.errors.append(_said(error))
            with contextlib.suppress(SpecledgerError):  # what ended the run is told, not what it kept from being noted
                night.close(dates)
            raise
        night.close(dates)
        if night.errors:
            raise NightFailed(" ".join(night.errors))
        return night.record.exit_code


class _Night:
    def __init__(self, warehouse: Warehouse, config: Config, started: Record) -> None:
        self._warehouse = warehouse
        self._config = config
        self.record = started
        self.errors: list[str] = []
        self._nights: Nights | None = None
        self._written: Counter[tuple[dt.date, str]] = Counter()

    def take_in(self, cluster: Cluster | None) -> None:
        """Ingest every source; one that fails does not keep the others from it."""
        self.record.sources = [self._ingested(source, cluster) for source in self._config.sources]

    def _ingested(self, source: Source, cluster: Cluster | None) -> SourceOutcome:
        outcome = SourceOutcome(source.deployment, source.paths)
        paths = list(source.paths)
        while paths:
            try:
                report = ingest(
                    self._warehouse,
                    paths,
                    deployment=source.deployment,
                    instance=source.instance,
                    labels=source.labels,
                    format=source.format,
                    year=source.year,
                    timezone=source.timezone,
                    hash_text=source.hash_text,
                    cluster=cluster,
                )
            except WarehouseError:
                raise
            except NothingFound as error:
                paths.remove(error.argument)
                outcome.notes.append(str(error))
                if source.required:
                    self._fail(outcome, error)
            except SpecledgerError as error:
                self._fail(outcome, error)
                break
            else:
                _add(outcome, report)
                self._written += report.partitions
                break
        for note in outcome.notes:
            logger.info("%s: %s", source.deployment, note)
        return outcome

    def _fail(self, outcome: SourceOutcome, error: SpecledgerError) -> None:
        outcome.error = str(error)
        self.errors.append(str(error))

    def compute(self, cluster: Cluster | None) -> None:
        """Compute cells and marts of what changed."""
        summary = runner.run(self._warehouse, self._config.settings, cluster=cluster, every_file=False)
        if cluster is not None:
            self.record.stages = cluster.stages
            self.record.versions = {**self.record.versions, "spark": cluster.version}
        self.record.partitions = len(summary.computed) + len(summary.removed)
        self.record.dates = [date.isoformat() for date in summary.dates]

    def judge(self, dates: Iterable[dt.date]) -> None:
        """Judge the nights, and again those that late rows have changed; in order: each is an example to the next."""
        known = record.judged_dates(self._config.out)
        before = record.nights(self._config.out, known[-LATE_NIGHTS:])
        self._nights = nights = Nights(published(self._warehouse.root), self._config)
        late = {day for day in before if self._got_rows(day, before[day].get("newest_ns", 0), nights.newest(day))}
        for day in sorted(late):
            rows = {deployment: count for (date, deployment), count in self._written.items() if date == day}
            self.record.late = [*self.record.late, Late(day.isoformat(), rows)]
            logger.info("%s: rows came after it had been judged; it is judged again.", day)
        wanted = set(dates)
        earlier = nights.looked_at(wanted | late, known) - before.keys()
        before |= record.nights(self._config.out, earlier)
        for date in sorted(wanted | late):
            state = nights.fingerprint(date, before)
            told = before.get(date)
            if told is not None and told.get("fingerprint") == state:
                logger.info("%s: nothing has changed since it was judged: %s.", date, _verdicts(told))
                if date in late:
                    record.note_newest(self._record_of(date), nights.newest(date))
            else:
                before[date] = self._judged(nights, date, state, before)
            if date in wanted:
                self.record.exit_code = _worst(self.record.exit_code, before[date])

    def _got_rows(self, date: dt.date, judged_ns: int, newest_ns: int) -> bool:
        """Whether rows of a date were written after it was judged, also by a clock that was set back since."""
        ahead = judged_ns > time.time_ns()
        return newest_ns > judged_ns or (ahead and any(day == date for day, _ in self._written))

    def _judged(self, nights: Nights, date: dt.date, state: str, before: dict[dt.date, Any]) -> dict[str, Any]:
        reports = [nights.judge(comparison, date, before, _now()) for comparison in self._config.comparisons]
        required = self._config.hook is not None and self._config.hook.required
        self.errors += [one.hook for one in reports if required and one.hook not in (None, hook.DONE)]
        judged = replace(self.record, date=date.isoformat(), reports=reports, fingerprint=state)
        judged.newest_ns = nights.newest(date)
        judged.ended_at = record.stamp(_now())
        judged.exit_code = _worst(0, {"reports": [vars(one) for one in reports]})
        record.write(judged, self._record_of(date))
        found = record.read(self._record_of(date)) or {}
        level = logging.WARNING if judged.exit_code else logging.INFO
        logger.log(level, "%s: %s. %s", date, _verdicts(found), self._record_of(date).parent)
        return found

    def _record_of(self, date: dt.date) -> Path:
        return folder(self._config, date, None) / record.RECORD

    def tidy(self) -> None:
        """Write the page of all nights, then compact and remove what has had its time."""
        selector = self._nights.selector if self._nights else None
        readable = published(self._warehouse.root)
        trend_page.write(readable, self._config.out, self._config.settings, _now(), selector=selector)
        self.record.housekeeping = housekeeping.run(self._warehouse, self._config.housekeeping, self._config.settings)

    def close(self, dates: Sequence[dt.date]) -> None:
        """Write the record of the run and its metrics, whatever became of it."""
        if self.errors:
            self.record.error = " ".join(self.errors)
            self.record.exit_code = SpecledgerError.exit_code
        self.record.ended_at = record.stamp(_now())
        known = record.read(self._record_of(dates[-1])) or {}
        record.write(self.record, self._config.out / record.LAST_RUN)
        if self._config.metrics is not None:
            metrics.write(self._config.metrics, self.record, known)


def _said(error: BaseException) -> str:
    """What an error that ends the run says, in one sentence."""
    if isinstance(error, SpecledgerError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename or 'The run'}: {error.strerror or error}."
    return f"The run was ended by {type(error).__name__}."


def _add(outcome: SourceOutcome, report: IngestReport) -> None:
    for counts in report.formats.values():
        outcome.inputs += counts.files
        outcome.known += counts.known
        outcome.records += counts.records
        outcome.rejects += counts.rejects
        outcome.duplicates += counts.duplicates
    for table, rows in report.rows.items():
        outcome.rows[table] = outcome.rows.get(table, 0) + rows
    outcome.notes += report.notes


def _worst(code: int, night: dict[str, Any]) -> int:
    codes = {code, *(judged["exit_code"] for judged in night["reports"])}
    return next((code for code in (EXIT_FAILED_GATE, EXIT_UNANSWERED) if code in codes), 0)


def _verdicts(night: dict[str, Any]) -> str:
    return ", ".join(
        " ".join(filter(None, (judged["name"], judged["verdict"], _listed(judged["failed"]))))
        for judged in night["reports"]
    )


def _listed(measures: Sequence[str]) -> str:
    return f"({', '.join(measures)})" if measures else ""


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC).replace(tzinfo=None)
