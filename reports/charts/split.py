"""Why tokens got slower or faster: the change of ln TPOT taken apart, as a waterfall."""

from __future__ import annotations

from typing import Any

import altair as alt

from ..format import hundredths
from ..model import Report
from .chart import Rows
from .palette import ACCEPTANCE, BASELINE, INK, LOAD, MEMORY, MUTED, ROUND, TIME
from .parts import ROWS, alone, finish, in_order, tips

TERMS = {
    "round_time": ("Round time", ROUND),
    "acceptance": ("Acceptance", ACCEPTANCE),
    "coverage": ("Coverage", MEMORY),
    "truncation": ("Truncation", BASELINE),
    "mix": ("Traffic mix", LOAD),
    "total": ("TPOT, all terms", TIME),
}
"""Term of the split: what it is called and its colour."""


def split_rows(report: Report) -> list[dict[str, Any]]:
    """The terms of the overall split in order, each from where the last one ended, and their sum."""
    overall = next((row for row in report.split if row.stratum is None), None)
    if overall is None:
        return []
    rows: list[dict[str, Any]] = []
    reached = 0.0
    for name, (label, _) in TERMS.items():
        value = overall.d_ln_tpot if name == "total" else getattr(overall, name)
        start = 0.0 if name == "total" else reached
        reached = start + value
        rows.append(
            {
                "name": name,
                "term": label,
                "start": 100 * start,
                "end": 100 * reached,
                "value": 100 * value,
                "text": hundredths(value),
                "edge": 100 * max(start, reached),
                "origin": overall.origin,
            }
        )
    return rows


def waterfall(rows: Rows) -> alt.LayerChart:
    """One bar a term, to the right where it made tokens slower, to the left where it made them faster."""
    order = in_order(row["term"] for row in rows)
    colours = dict(TERMS.values())
    base = alt.Chart(ROWS).encode(y=alt.Y("term:N", sort=order, title=None, axis=alt.Axis(grid=False, ticks=False)))
    x = alt.X("start:Q", title="Δ ln TPOT × 100 (about %)")
    bars = base.mark_bar(height={"band": 0.62}, minBandSize=2).encode(
        x=x,
        x2="end:Q",
        color=alt.Color("term:N", scale=alt.Scale(domain=order, range=[colours[term] for term in order]), legend=None),
        tooltip=tips(("term:N", "Term", None), ("value:Q", "Δ ln TPOT × 100", "+.2f"), ("origin:N", "Origin", None)),
    )
    labels = base.mark_text(align="left", dx=6, color=INK).encode(x=alt.X("edge:Q"), text="text:N")
    zero = alone().mark_rule(color=MUTED).encode(x=alt.datum(0))
    return finish(rows, zero, bars, labels, height=36 * len(order))
