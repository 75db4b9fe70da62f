"""Latency by load band: p50, p95 and p99, each with the edges of the bucket that holds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import altair as alt

from ..model import Report
from .chart import Rows, label
from .palette import TIME
from .parts import ROWS, Side, bands, beside, finish, interval, tips

SHARES = ("p50", "p95", "p99")


def quantile_rows(measure: str) -> Callable[[Report], Rows]:
    """A function that takes the quantiles of one measure out of a report."""

    def rows(report: Report) -> list[dict[str, Any]]:
        order = {band: position for position, band in enumerate(report.load_bands)}
        found = [row for row in report.quantiles if row.measure == measure and row.load_band != "all"]
        found.sort(key=lambda row: (order.get(row.load_band, len(order)), row.side, row.share))
        return [
            {
                "side": row.side,
                "load_band": label(row.load_band),
                "origin": row.origin,
                "share": row.share,
                "value": row.value,
                "lower": row.lower,
                "upper": row.upper,
            }
            for row in found
        ]

    return rows


def quantiles(rows: Rows) -> alt.LayerChart:
    """p50, p95 and p99 by load band on a logarithmic axis; the line through each point spans its bucket."""
    side = Side(rows, TIME, symbol="square")
    base = (
        alt.Chart(ROWS)
        .transform_calculate(low="max(datum.lower, datum.value / 1000)")
        .encode(x=bands(rows), xOffset=beside(rows))
    )
    points = base.mark_point(size=60, strokeWidth=2, opacity=1).encode(
        y=alt.Y("value:Q", title="Milliseconds (log)", scale=alt.Scale(type="log", nice=False), axis=_axis()),
        stroke=side.stroke,
        fill=side.fill,
        shape=alt.Shape(
            "share:N",
            scale=alt.Scale(domain=list(SHARES), range=["circle", "square", "triangle-up"]),
            legend=alt.Legend(title=None, orient="bottom"),
        ),
        tooltip=tips(
            ("side:N", "Side", None),
            ("load_band:N", "Load", None),
            ("share:N", "Quantile", None),
            ("value:Q", "ms", ",.1f"),
            ("lower:Q", "from", ",.1f"),
            ("upper:Q", "to", ",.1f"),
            ("origin:N", "Origin", None),
        ),
    )
    spans = interval(base, "low", "upper", stroke=side.stroke)
    return finish([row for row in rows if row["value"] > 0], spans, points)


def _axis() -> alt.Axis:
    return alt.Axis(format="~s", tickCount=5)
