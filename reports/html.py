"""The report as one HTML file that needs nothing else: no network, no other file, and no trust in the text it shows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from . import format as form
from . import page, pictures, tables, wording
from .charts import CHARTS, Chart, Rows
from .glossary import glossary
from .groups import needs_a_look, remedies, results
from .model import GATE_NAMES, GateResult, Report

MOST_CARDS = 12
"""Measures that get a card of their own at the top; the table has them all."""
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
    svg: Markup | None = None
    table: tables.Table | None = None


@dataclass(frozen=True)
class GateCard:
    """One of the four gates at the top of the page."""

    name: str
    verdict: str
    counts: str


def render(report: Report) -> str:
    """The HTML page of a report."""
    figures = {name: figure(chart, report) for name, chart in CHARTS.items()}
    drawn = any(shown.spec for shown in figures.values())
    attention = results(gate for gate in report.gates if needs_a_look(gate))
    given = {advice.action for advice in report.advice}
    return page.render(
        "report.html.j2",
        bundle=pictures.vega_bundle() if drawn else None,
        report=report,
        sections=[section for section in SECTIONS if section[0] != "grid" or report.grid],
        headline=wording.headline(report),
        findings=wording.findings(report),
        benefit=wording.benefit(report),
        grid=wording.grid(report),
        gate_cards=[gate_card(name, report.gates) for name in GATE_NAMES],
        attention=attention[:MOST_CARDS],
        given=given,
        remedies=remedies(report.advice),
        more_attention=max(0, len(attention) - MOST_CARDS),
        figures=figures,
        glossary=glossary(),
        tables={
            "gates": tables.gate_table(report.gates),
            "effects": tables.effect_table(report.effects),
            "splits": tables.split_table(report.split),
            "differences": tables.difference_table(report.changes),
            "origins": tables.origin_table(report),
            "reconciliation": tables.reconciliation_table(report.reconciliation),
            "facts": tables.fact_table(report),
        },
    )


def chart_page(chart: Chart, rows: Rows, *, dark: bool = False) -> str:
    """One chart as a page of its own."""
    return page.render(
        "chart.html.j2",
        bundle=pictures.vega_bundle(),
        name=chart.name,
        figures={chart.name: _figure(chart, rows)},
        glossary={},
        theme="dark" if dark else "light",
    )


def figure(chart: Chart, report: Report) -> Figure:
    """A chart with its data, its text alternative, a picture for readers without scripts, and its table."""
    rows = chart.rows(report)
    return _figure(chart, rows) if rows else Figure(chart.title, chart.reading, chart.missing, ())


def _figure(chart: Chart, rows: Rows) -> Figure:
    measures = tuple(dict.fromkeys(shown.measure for shown in chart.columns if shown.measure))
    spec = pictures.specification(chart, rows)
    return Figure(
        chart.title,
        chart.reading,
        chart.missing,
        measures,
        basis(rows),
        embedded_json(spec),
        Markup(pictures.svg_text(spec)),  # noqa: S704
        tables.chart_table(chart, rows),
    )


def basis(rows: Rows) -> str:
    """What a chart rests on: the origin of its figures and how many steps or requests they hold."""
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
    return f"{': '.join(told)}." if told else ""


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
