"""Latency by load band: p50, p95 and p99, each with the edges of the bucket that holds it, and the longest pause."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import altair as alt

from ..model import Report
from .chart import Rows, label
from .palette import TIME
from .parts import ROWS, Side, bands, beside, finish, interval, tips

LONGEST = "longest"
SHAPES = {"p50": "circle", "p95": "square", "p99": "triangle-up", LONGEST: "cross"}


def quantile_rows(measure: str) -> Callable[[Report], Rows]:
    """A function that takes the quantiles of one measure out of a report."""

    def rows(report: Report) -> list[dict[str, Any]]:
        order = {band: position for position, band in enumerate(report.load_bands)}
        found = [row for row in report.quantiles if row.measure == measure and row.load_band != "all"]
        found.sort(key=lambda row: (order.get(row.load_band, len(order)), row.side, row.share))
        longest = _longest(report) if measure == "itl_ms" else []
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
        ] + longest

    return rows


def _longest(report: Report) -> list[dict[str, Any]]:
    """The longest pause at each load, as its gate has it."""
    return [
        {
            "side": side,
            "load_band": label(gate.stratum.load_band),
            "origin": gate.origin,
            "share": LONGEST,
            "value": value,
            "lower": value,
            "upper": value,
        }
        for gate in report.gates
        if gate.measure == "longest_pause_ms" and gate.stratum is not None
        for side, value in (("baseline", gate.baseline), ("candidate", gate.candidate))
        if value is not None
    ]


def quantiles(rows: Rows) -> alt.LayerChart:
    """p50, p95 and p99 by load band on a logarithmic axis; the line through each point spans its bucket."""
    side = Side(rows, TIME, symbol="square")
    shares = [share for share in SHAPES if any(row["share"] == share for row in rows)]
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
            scale=alt.Scale(domain=shares, range=[SHAPES[share] for share in shares]),
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
