"""Quantization × speculation: what each gained alone, together, and what the product would have been."""

from __future__ import annotations

from typing import Any

import altair as alt

from ..format import verdict_label
from ..model import Report
from .chart import Rows, label
from .palette import MUTED, SURFACE, TIME
from .parts import ROWS, alone, finish, holds, in_order, tips

PRODUCT = "Product of the two"


def grid_rows(report: Report) -> list[dict[str, Any]]:
    """Gain of every cell with its interval, and the product of the two single gains."""
    if report.grid is None:
        return []
    rows = [
        {
            "cell": label(cell.name.capitalize()),
            "kind": "measured",
            "gain": cell.gain,
            "lower": cell.interval[0] if cell.interval else None,
            "upper": cell.interval[1] if cell.interval else None,
            "common_share": cell.common_share,
            "quality": verdict_label(cell.quality),
            "quality_baseline": cell.quality_baseline,
            "origin": report.grid.origin,
        }
        for cell in report.grid.cells
    ]
    gains = report.grid.gains
    if "quantized" in gains and "speculative" in gains:
        product = gains["quantized"] * gains["speculative"]
        rows.append({"cell": PRODUCT, "kind": "product", "gain": product, "lower": None, "upper": None})
    return rows


def gains(rows: Rows) -> alt.LayerChart:
    """One line a cell: tokens faster than the original by this factor."""
    order = in_order(row["cell"] for row in rows)
    base = alt.Chart(ROWS).encode(y=alt.Y("cell:N", sort=order, title=None, axis=alt.Axis(grid=False, ticks=False)))
    spans = (
        base.transform_filter("isValid(datum.lower)")
        .mark_rule(strokeWidth=2, color=TIME)
        .encode(x=alt.X("lower:Q"), x2="upper:Q")
    )
    kinds = ["measured", "product"]
    points = base.mark_point(size=100, strokeWidth=2, opacity=1, stroke=TIME).encode(
        x=alt.X("gain:Q", title="Gain over the original (×)", scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=6)),
        fill=alt.Fill("kind:N", scale=alt.Scale(domain=kinds, range=[TIME, SURFACE]), legend=None),
        shape=alt.Shape("kind:N", scale=alt.Scale(domain=kinds, range=["diamond", "circle"]), legend=None),
        tooltip=tips(
            ("cell:N", "Cell", None), ("gain:Q", "Gain", ".3f"), ("lower:Q", "from", ".3f"), ("upper:Q", "to", ".3f")
        ),
    )
    labels = (
        base.transform_calculate(words="format(datum.gain, '.2f') + '×'")
        .mark_text(align="center", dy=-13, color="var(--ink)")
        .encode(x=alt.X("gain:Q"), text="words:N")
    )
    one = alone().mark_rule(color=MUTED, strokeDash=[2, 2]).encode(x=alt.datum(1))
    return finish(rows, one, *([spans] if holds(rows, "lower") else []), points, labels, height=44 * len(order))
