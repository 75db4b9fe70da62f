"""The report as one HTML file that needs nothing else: no network, no other file, and no trust in the text it shows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from markupsafe import Markup

from . import format as form
from . import next_steps, page, pictures, tables, wording
from .benefit import benefit
from .bundle import vega_bundle
from .charts import CHARTS, Chart, Rows
from .glossary import glossary
from .groups import needs_a_look, remedies, results
from .model import GATE_NAMES, GateResult, Report, Side
from .terms import switched

MOST_CARDS = 12
"""Measures that get a card of their own at the top; the table has them all."""
FEW = 12
"""So many results or fewer are all shown; of more, those that need no look are folded away."""
MOST_IDENTITIES = 300
"""Identities that stand one by one; more are added up."""
GATE_TITLES = {
    "correctness": "Correctness",
    "quality": "Quality",
    "latency": "Latency",
    "capacity": "Capacity and cost",
}
SECTIONS = (
    ("verdict", "Verdict"),
    ("why", "Why"),
    ("benefit", "Benefit"),
    ("grid", "Grid"),
    ("acceptance", "Acceptance"),
    ("time", "Time"),
    ("load", "Load"),
    ("nights", "Nights"),
    ("gates", "Gates"),
    ("data", "Data"),
    ("terms", "Terms"),
)


@dataclass(frozen=True)
class Figure:
    """One chart as the page shows it; without rows only ``title`` and ``missing`` are shown."""

    title: str
    reading: str
    missing: str
    measures: tuple[str, ...]
    basis: str = ""
    spec: Markup | None = None
    table: tables.Table | None = None
    svg: Markup | None = None
    """A picture for readers without scripts."""


@dataclass(frozen=True)
class Folded:
    """A table that can be folded away behind one line."""

    name: str
    title: str
    holds: str
    """What is in it, in a few words."""
    table: tables.Table
    open: bool


@dataclass(frozen=True)
class GateCard:
    """One of the four gates at the top of the page."""

    name: str
    verdict: str
    counts: str


def render(report: Report) -> str:
    """The HTML page of a report."""
    figures = _figures(report)
    drawn = any(shown.spec for shown in figures.values())
    attention = results(gate for gate in report.gates if needs_a_look(gate))
    given = {advice.action for advice in report.advice}
    return page.render(
        "report.html.j2",
        bundle=vega_bundle() if drawn else None,
        report=report,
        sections=[
            (name, title)
            for name, title in SECTIONS
            if (name != "grid" or report.grid) and (name != "nights" or report.history)
        ],
        nights=[name for name, shown in figures.items() if name.startswith("nights_") and shown.spec],
        weighed_apart=wording.weighed_apart(report),
        headline=wording.headline(report),
        findings=wording.findings(report),
        next_step=next_steps.next_step(report),
        verdict=wording.verdict(report),
        grid_only=wording.grid_only(report),
        benefit=benefit(report),
        grid=wording.grid(report),
        schedules=[
            (next_steps.schedule(found), tables.schedule_table(found) if next_steps.compared(found) else None, found)
            for found in report.schedules
        ],
        gate_cards=[gate_card(name, report.gates) for name in GATE_NAMES],
        attention=attention[:MOST_CARDS],
        given=given,
        remedies=remedies(report.advice),
        more_attention=max(0, len(attention) - MOST_CARDS),
        figures=figures,
        glossary=glossary(),
        gates=folded_gates(report.gates),
        identities=folded_identities(report),
        tables={
            "effects": tables.effect_table(report.effects),
            "splits": tables.split_table(report.split, switch=switched(report) is not None),
            "differences": tables.difference_table(report.changes),
            "grid": tables.grid_table(report.grid) if report.grid else None,
            "origins": tables.origin_table(report),
            "facts": tables.fact_table(report),
        },
    )


def chart_page(chart: Chart, rows: Rows, *, dark: bool = False) -> str:
    """One chart as a page of its own."""
    figure, spec = _figure(chart, rows)
    drawn = replace(figure, svg=_picture(chart, spec))
    return page.render(
        "chart.html.j2",
        bundle=vega_bundle(),
        name=chart.name,
        figures={chart.name: drawn},
        glossary={},
        theme="dark" if dark else "light",
    )


def _figures(report: Report) -> dict[str, Figure]:
    """Every chart by its name.

    Their pictures take as long as all else of a page, and no Python: they are drawn beside it.
    """
    rows = {name: chart.rows(report) for name, chart in CHARTS.items()}
    sides = (report.baseline, report.candidate)
    painter = ThreadPoolExecutor(1)
    try:
        if any(rows.values()):
            painter.submit(pictures.start)
        figures, stills = {}, {}
        for name, chart in CHARTS.items():
            if rows[name]:
                figures[name], spec = _figure(chart, rows[name], sides)
                stills[name] = painter.submit(_picture, chart, spec)
            else:
                figures[name] = Figure(chart.title, chart.reading, chart.missing, ())
        drawn = {name: still.result() for name, still in stills.items()}
    finally:
        painter.shutdown(cancel_futures=True)
    return {name: replace(figure, svg=drawn.get(name)) for name, figure in figures.items()}


def _figure(chart: Chart, rows: Rows, sides: Sequence[Side] = ()) -> tuple[Figure, dict[str, Any]]:
    """A chart with its data, its text alternative and its table, and the specification to draw its picture from."""
    measures = tuple(dict.fromkeys(shown.measure for shown in chart.columns if shown.measure))
    spec = pictures.specification(chart, rows)
    table = tables.chart_table(chart, rows)
    shown = Figure(chart.title, chart.reading, chart.missing, measures, basis(rows, sides), embedded_json(spec), table)
    return shown, spec


def _picture(chart: Chart, spec: dict[str, Any]) -> Markup:
    """The picture that stands in a page for a chart."""
    return Markup(pictures.still(spec, chart.name))  # noqa: S704


def basis(rows: Rows, sides: Sequence[Side] = ()) -> str:
    """What a chart rests on: the origin of its figures and how many steps or requests they hold.

    Where its rows do not count, the observations of ``sides`` are told.
    """
    origins = list(dict.fromkeys(str(row["origin"]) for row in rows if row.get("origin")))
    told = [f"From {form.listed(origins)}"] if origins else []
    for field in ("steps", "rounds", "requests"):
        totals: dict[str, int] = {}
        for row in rows:
            if row.get(field) and (field != "rounds" or row.get("position", 1) == 1):
                totals[row["side"]] = totals.get(row["side"], 0) + row[field]
        if totals:
            told.append(", ".join(f"{side} {form.plural(n, field[:-1])}" for side, n in totals.items()))
            break
    else:
        held = {side.name: found.observations for side in sides for found in side.origins if [found.origin] == origins}
        if held:
            told.append(", ".join(f"{side} {form.plural(n, 'observation')}" for side, n in held.items()))
    return f"{': '.join(told)}." if told else ""


def folded_gates(gates: Sequence[GateResult]) -> list[Folded]:
    """All gates, one table a verdict; open are those that need a look, and all of them where there are few."""
    folded = []
    for verdict in form.verdict_counts(gates):
        mine = [gate for gate in gates if gate.verdict == verdict]
        title = f"{form.verdict_label(verdict).capitalize()}: {form.plural(len(mine), 'result')}"
        names = form.listed(list(dict.fromkeys(form.measure_label(gate.measure) for gate in mine)), most=8)
        shown = len(gates) <= FEW or any(needs_a_look(gate) for gate in mine)
        folded.append(Folded(f"gates-{verdict}", title, names, tables.gate_table(mine, title), shown))
    return folded


def folded_identities(report: Report) -> list[Folded]:
    """The identities that were checked: those that do not hold open, the others folded away."""
    kinds = (("fail", "that do not hold"), ("no_data", "that could not be checked"), ("ok", "that hold"))
    folded = []
    for verdict, words in kinds:
        rows = [row for row in report.reconciliation if row.verdict == verdict]
        title = f"Identities {words}: {len(rows)}"
        checks = form.listed(list(dict.fromkeys(row.check_name.replace("_", " ") for row in rows)))
        told = tables.reconciliation_table if len(rows) <= MOST_IDENTITIES else tables.reconciliation_summary
        table = told(rows, title)
        folded.append(Folded(f"identities-{verdict}", title, checks, table, open=verdict == "fail"))
    return [found for found in folded if found.table]


def embedded_json(value: Any) -> Markup:
    """JSON that stays inert inside a script element, whatever text it holds."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704


def gate_card(name: str, gates: Sequence[GateResult]) -> GateCard:
    """One of the four gates: its most urgent verdict and how many results it has of each."""
    mine = [gate for gate in gates if gate.gate == name]
    counts = form.verdict_counts(mine)
    text = ", ".join(f"{n} {form.verdict_label(verdict)}" for verdict, n in counts.items())
    worst = "no_data"
    for verdict in ("fail", "warn", "acknowledged", "inconclusive", "not_comparable", "pass"):
        if counts.get(verdict):
            worst = verdict
            break
    return GateCard(GATE_TITLES[name], worst, text or "not judged")
