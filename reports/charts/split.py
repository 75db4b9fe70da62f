"""Why tokens got slower or faster: the change of TPOT taken apart, as a waterfall of factors."""

from __future__ import annotations

import math
from typing import Any

import altair as alt

from ..model import Report
from ..terms import Term, effect, large, switched, terms
from .chart import Rows
from .palette import ACCEPTANCE, BASELINE, INK, LOAD, MEMORY, MUTED, ROUND, TIME
from .parts import ROWS, alone, finish, in_order, tips

COLOURS = {
    "round_time": ROUND,
    "acceptance": ACCEPTANCE,
    "length": ACCEPTANCE,
    "coverage": MEMORY,
    "truncation": BASELINE,
    "mix": LOAD,
    "total": TIME,
}
TOTAL = "TPOT, all terms"


def split_rows(report: Report) -> list[dict[str, Any]]:
    """The terms of the overall split in order, each from where the last one ended, and their product."""
    overall = next((row for row in report.split if row.stratum is None), None)
    if overall is None:
        return []
    switch = switched(report) is not None
    factors = large(overall, switch=switch)
    rows: list[dict[str, Any]] = []
    reached = 0.0
    for term in (*terms(overall, switch=switch), Term("total", TOTAL, overall.d_ln_tpot)):
        start = 0.0 if term.name == "total" else reached
        reached = start + term.value
        rows.append(
            {
                "name": term.name,
                "term": term.label,
                "start": math.exp(start),
                "end": math.exp(reached),
                "value": math.exp(term.value),
                "log": 100 * term.value,
                "text": effect(term.value, factors=factors),
                "edge": math.exp(max(start, reached)),
                "origin": overall.origin,
            }
        )
    return rows


def waterfall(rows: Rows) -> alt.LayerChart:
    """One bar a term, to the right where it made tokens slower, to the left where it made them faster."""
    order = in_order(row["term"] for row in rows)
    colours = {row["term"]: COLOURS[row["name"]] for row in rows}
    base = alt.Chart(ROWS).encode(y=alt.Y("term:N", sort=order, title=None, axis=alt.Axis(grid=False, ticks=False)))
    ends = [end for row in rows for end in (row["start"], row["end"])]
    # Room on the right for the words behind the longest bar.
    room = (max(ends) / min(ends)) ** 0.35 * 1.005
    scale = alt.Scale(type="log", domain=[min(ends) / room**0.1, max(ends) * room], nice=False)
    axis = alt.Axis(format="~g", tickCount=6, labelOverlap=True)
    x = alt.X("start:Q", title="TPOT (× baseline, log)", scale=scale, axis=axis)
    bars = base.mark_bar(height={"band": 0.62}, minBandSize=2).encode(
        x=x,
        x2="end:Q",
        color=alt.Color("term:N", scale=alt.Scale(domain=order, range=[colours[term] for term in order]), legend=None),
        tooltip=tips(
            ("term:N", "Term", None),
            ("value:Q", "Factor of TPOT", ".3f"),
            ("log:Q", "Δ ln TPOT × 100", "+.2f"),
            ("origin:N", "Origin", None),
        ),
    )
    labels = base.mark_text(align="left", dx=6, color=INK).encode(x=alt.X("edge:Q"), text="text:N")
    one = alone().mark_rule(color=MUTED).encode(x=alt.datum(1))
    return finish(rows, one, bars, labels, height=36 * len(order))
