"""Where speculation pays: speedup by load band, and the length a round needs beside the length it got."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import altair as alt

from ..benefit import speculating_side
from ..format import factor
from ..model import BandFigures, Report
from .chart import Rows, label
from .palette import ACCEPTANCE, INK, MUTED, ROUND, SURFACE, TIME
from .parts import LEGEND, ROWS, Side, alone, bands, beside, finish, holds, interval, joined, tips

USUAL = 3
"""Times the usual reach of an interval beyond the points that is still shown."""


def band_rows(report: Report, field: str) -> list[dict[str, Any]]:
    """The figures of both sides at every load band where ``field`` is known, bands in their order."""
    order = {band: position for position, band in enumerate(report.load_bands)}
    known = [band for band in report.bands if band.load_band != "all" and getattr(band, field) is not None]
    known.sort(key=lambda band: (order.get(band.load_band, len(order)), band.side))
    return [_row(band) for band in known]


def speedup_rows(report: Report) -> Rows:
    """Load bands with a speedup, of the sides that speculate."""
    with_rounds = {band.side for band in report.bands if band.rounds}
    rows = [row for row in band_rows(report, "speedup") if row["side"] in with_rounds]
    low, high = _shown(rows)
    return [
        {**row, "words": factor(row["speedup"], 3), **_clipped(row["speedup_lower"], row["speedup_upper"], low, high)}
        for row in rows
    ]


def _shown(rows: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """What the axis of speedups shows: all points, the line at 1, and of the intervals what leaves these legible.

    An interval may stick out by half the distance of the points, or by some times what is usual; a wider one would
    press everything else together.
    """
    points = [1.0, *(row["speedup"] for row in rows)]
    low, high = min(points), max(points)
    known = [row for row in rows if row["speedup_lower"] is not None]
    beyond = [max(low - row["speedup_lower"], row["speedup_upper"] - high, 0.0) for row in known]
    room = max((high - low) / 2, USUAL * statistics.median_low(beyond)) if beyond else 0.0
    return max(0.0, low - room), high + room


def _clipped(lower: float | None, upper: float | None, low: float, high: float) -> dict[str, Any]:
    """An interval in words and as far as it is shown, and which of its ends lie beyond."""
    if lower is None or upper is None:
        return {"interval": None, "shown_lower": None, "shown_upper": None, "below": None, "above": None}
    return {
        "interval": f"{factor(lower)} to {factor(upper)}",
        "shown_lower": max(lower, low),
        "shown_upper": min(upper, high),
        "below": low if lower < low else None,
        "above": high if upper > high else None,
    }


def break_even_rows(report: Report) -> Rows:
    """Load bands with a break-even length, of the side whose speculation is looked at."""
    side = speculating_side(report)
    return [row for row in band_rows(report, "break_even_length") if row["side"] == side]


def _row(band: BandFigures) -> dict[str, Any]:
    lower, upper = band.speedup_interval or (None, None)
    figures = {field.name: getattr(band, field.name) for field in fields(band) if field.name != "speedup_interval"}
    return {**figures, "load_band": label(band.load_band), "speedup_lower": lower, "speedup_upper": upper}


def speedup(rows: Rows) -> alt.LayerChart:
    """Speedup by load band with its interval; below the line at 1 speculation costs."""
    side = Side(rows, TIME)
    base = alt.Chart(ROWS).encode(x=bands(rows), xOffset=beside(rows))
    title = "Speedup (× ordinary decoding)"
    points = base.mark_point(size=80, strokeWidth=2, opacity=1).encode(
        y=alt.Y("speedup:Q", title=title, scale=alt.Scale(zero=False)),
        tooltip=tips(
            ("side:N", "Side", None),
            ("load_band:N", "Load", None),
            ("words:N", "Speedup", None),
            ("interval:N", "95 % interval", None),
            ("tpot_ms:Q", "TPOT, ms", ".2f"),
            ("t0_ms:Q", "T0, ms", ".2f"),
            ("t0_origin:N", "T0 from", None),
        ),
        **side.points(),
    )
    lines = joined(base, side, y=alt.Y("speedup:Q", title=title))
    even = alone().encode(y=alt.datum(1))
    line = even.mark_rule(color=INK, strokeWidth=1.5)
    words = even.mark_text(align="left", baseline="bottom", dx=4, dy=-3, color=MUTED, text="1: no gain").encode(
        x=alt.value(0)
    )
    spans = [interval(base, "shown_lower", "shown_upper", stroke=side.stroke)] if holds(rows, "shown_lower") else []
    for field, shape in (("above", "triangle-up"), ("below", "triangle-down")):
        if holds(rows, field):
            ends = base.transform_filter(f"isValid(datum.{field})").mark_point(shape=shape, size=60, aria=False)
            spans.append(ends.encode(y=alt.Y(f"{field}:Q"), stroke=side.stroke))
    return finish(rows, line, words, *spans, lines, points)


def break_even(rows: Rows) -> alt.LayerChart:
    """Effective length beside break-even length; where the first lies below the second, speculation costs."""
    kinds = {"effective_length": "Effective length", "break_even_length": "Break-even length"}
    long = [
        {**row, "kind": name, "length": row[field]}
        for row in rows
        for field, name in kinds.items()
        if row[field] is not None
    ]
    names = list(kinds.values())
    base = alt.Chart(ROWS).encode(x=bands(rows))
    gap = base.mark_line(strokeWidth=2, opacity=0.5, color=MUTED).encode(
        y=alt.Y("length:Q", title="Tokens a step"), detail="load_band:N"
    )
    look = {
        "stroke": alt.Stroke("kind:N", scale=alt.Scale(domain=names, range=[ACCEPTANCE, ROUND]), legend=LEGEND),
        "fill": alt.Fill("kind:N", scale=alt.Scale(domain=names, range=[ACCEPTANCE, SURFACE]), legend=LEGEND),
        "shape": alt.Shape("kind:N", scale=alt.Scale(domain=names, range=["diamond", "square"]), legend=LEGEND),
    }
    points = base.mark_point(size=90, strokeWidth=2, opacity=1).encode(
        y=alt.Y("length:Q", title="Tokens a step", scale=alt.Scale(zero=False)),
        tooltip=tips(
            ("load_band:N", "Load", None),
            ("effective_length:Q", "Effective length", ".3f"),
            ("break_even_length:Q", "Break-even length", ".3f"),
            ("acceptance_length:Q", "Acceptance length", ".3f"),
            ("round_time_ms:Q", "Round time, ms", ".2f"),
            ("t0_ms:Q", "T0, ms", ".2f"),
        ),
        **look,
    )
    return finish(long, gap, points)
