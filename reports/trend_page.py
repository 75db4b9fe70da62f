"""The page of all nights: for each deployment what every nightly report said, and the course of its measures."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from ..schemas.config import Settings
from ..schemas.measures import MEASURES
from ..schemas.warehouse import Warehouse
from . import page, tables
from .charts.palette import ACCEPTANCE, ROUND, TIME
from .course import HEIGHT, WIDTH, Course, Step, course
from .format import listed, measure_label, number, percent, plural, verdict_label
from .glossary import glossary
from .groups import URGENCY
from .history import MEASURED
from .model import Night
from .selection import Selector
from .trend import INDEX, NightlyReport, Trend, build, index
from .writers import publish

PAGE = "index.html"
COLOURS = {"acceptance_length": ACCEPTANCE, "effective_length": ACCEPTANCE, "round_time_ms": ROUND, "tpot_ms": TIME}
SAID = {
    "fail": "failed",
    "warn": "warned",
    "inconclusive": "undecided",
    "not_comparable": "not comparable",
    "no_data": "without data",
    "acknowledged": "acknowledged",
    "pass": "passed",
}
RECENT_DAYS = 14
"""A new level that began so many days before the last night, or fewer, is named at the top."""
LONGEST = 240
"""Characters of a report's sentence that are told at its night."""


@dataclass(frozen=True)
class Day:
    """One night of a strip: its day, and what was said of it; without a report it has no verdict."""

    date: str
    verdict: str | None = None
    href: str | None = None
    title: str = ""


@dataclass(frozen=True)
class Row:
    """One deployment."""

    name: str
    anchor: str
    verdict: str | None
    """Of its last report."""
    last: str
    months: tuple[tuple[str, tuple[Day, ...]], ...]
    courses: tuple[Course, ...]
    steps: tuple[str, ...]
    """New levels in words."""
    numbers: tables.Table


def write(
    warehouse: Warehouse,
    folder: Path,
    settings: Settings,
    now: dt.datetime,
    where: str | None = None,
    selector: Selector | None = None,
) -> tuple[Path, ...]:
    """Write index.html and index.json into the folder of the nightly reports, and give their paths.

    ``where`` is a predicate over deployments and dates, ``selector`` that of the warehouse, where the caller has it.
    UsageError if ``where`` is no predicate, SpecledgerError if a file cannot be written.
    """
    trend = build(warehouse, folder, settings, now, where, selector)
    targets = ((folder / PAGE, render(trend)), (folder / INDEX, index(trend.known)))
    for target, text in targets:
        publish(target, text.encode())
    return tuple(target for target, _ in targets)


def render(trend: Trend) -> str:
    """The page of all nights as HTML."""
    rows = _rows(trend)
    return page.render(
        "trend.html.j2",
        trend=trend,
        rows=rows,
        summary=summary(trend, rows),
        recent=[text for row in rows for text in _recent(row, trend.span[1])],
        worst=next((row.verdict for row in rows if row.verdict), "no_data"),
        glossary={name: term for name, term in glossary().items() if name in MEASURED},
        units={name: MEASURES[name].unit for name in MEASURED},
        colours=COLOURS,
        labels={name: measure_label(name) for name in MEASURED},
        size=(WIDTH, HEIGHT),
        span=tuple(date.isoformat() for date in trend.span),
    )


def summary(trend: Trend, rows: Sequence[Row]) -> str:
    """One sentence: how the last night of each deployment was judged."""
    if not rows:
        return "There are no nights yet: ingest some, transform them, and write reports into this folder."
    dates = sorted({night.date for night in trend.nights} | {report.date for report in trend.reports})
    judged = [row for row in rows if row.verdict]
    said = f"{plural(len(rows), 'deployment')}, {plural(len(dates), 'night')} up to {dates[-1]}"
    if not judged:
        return f"{said}. No report lies in this folder yet."
    told = []
    for verdict in URGENCY:
        found = [row.name for row in judged if row.verdict == verdict]
        names = f" ({listed(found)})" if verdict in {"fail", "warn"} else ""
        told += [f"{len(found)} {SAID[verdict]}{names}"] if found else []
    return f"{said}. By their last reports {listed(told)}."


def _rows(trend: Trend) -> list[Row]:
    """The deployments, the most urgent last verdict first."""
    found = [_row(trend, name, number) for number, name in enumerate(trend.deployments)]
    return sorted(found, key=lambda row: (URGENCY.index(row.verdict) if row.verdict else len(URGENCY), row.name))


def _row(trend: Trend, deployment: str, position: int) -> Row:
    nights = [night for night in trend.nights if night.deployment == deployment]
    reports = {report.date: report for report in trend.reports if deployment in report.deployments}
    series = {name: [night for night in nights if night.measure == name] for name in MEASURED}
    courses = tuple(course(found, *trend.span) for found in series.values() if found)
    dates = sorted({*reports, *(night.date for night in nights)})
    last = reports[max(reports)] if reports else None
    return Row(
        deployment,
        f"deployment-{position}",
        last.verdict if last else None,
        max(reports) if reports else dates[-1],
        _months([_day(date, reports.get(date)) for date in dates]),
        courses,
        tuple(_words(found.measure, step) for found in courses for step in found.steps),
        _numbers(deployment, dates, reports, series),
    )


def _day(date: str, report: NightlyReport | None) -> Day:
    if report is None:
        return Day(date, title=f"{date}: no report")
    sentence = report.sentence if len(report.sentence) <= LONGEST else f"{report.sentence[: LONGEST - 1]}…"
    target = quote(report.path.removesuffix("report.json") + "report.html")
    return Day(date, report.verdict, target, f"{date}: {sentence}")


def _months(days: Sequence[Day]) -> tuple[tuple[str, tuple[Day, ...]], ...]:
    return tuple((month, tuple(found)) for month, found in itertools.groupby(days, key=lambda day: day.date[:7]))


def _words(measure: str, step: Step) -> str:
    better = MEASURES[measure].higher_is_better
    good = None if better is None else (step.change > 0) == better
    judged = "" if good is None else ", better" if good else ", worse"
    return f"{measure_label(measure)} has a new level from {step.date}: {percent(step.change, signed=True)}{judged}."


def _recent(row: Row, last: dt.date) -> list[str]:
    return [
        f"{row.name}: {_words(found.measure, step)}"
        for found in row.courses
        for step in found.steps
        if (last - dt.date.fromisoformat(step.date)).days < RECENT_DAYS
    ]


def _numbers(
    deployment: str,
    dates: Sequence[str],
    reports: Mapping[str, NightlyReport],
    series: Mapping[str, Sequence[Night]],
) -> tables.Table:
    shown = [name for name, found in series.items() if found]
    values = {name: {night.date: night for night in series[name]} for name in shown}
    columns = (
        tables.Column("Night"),
        tables.Column("Report"),
        *(tables.Column(f"{measure_label(name)} ({MEASURES[name].unit})", name, numeric=True) for name in shown),
    )
    return tables.Table(
        f"Nights of {deployment}",
        columns,
        tuple(
            (
                tables.Cell(date),
                tables.Cell(verdict_label(reports[date].verdict), verdict=reports[date].verdict)
                if date in reports
                else tables.Cell("–"),
                *(_value(values[name].get(date)) for name in shown),
            )
            for date in reversed(dates)
        ),
    )


def _value(night: Night | None) -> tables.Cell:
    return tables.Cell("–") if night is None else tables.Cell(number(night.value), night.value)
