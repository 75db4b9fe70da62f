"""What a step costs: round time by load band against ordinary decoding."""

from __future__ import annotations

import altair as alt

from ..model import Report
from .boundary import band_rows
from .chart import Rows
from .palette import INK, MUTED, ROUND
from .parts import ROWS, Side, bands, beside, finish, holds, joined, tips


def round_time_rows(report: Report) -> Rows:
    """Load bands with a step time; the T0 of the last that has one bears its name."""
    rows = band_rows(report, "round_time_ms")
    named = next((row for row in reversed(rows) if row["t0_ms"] is not None), None)
    return [{**row, "named": row is named} for row in rows]


def round_time(rows: Rows) -> alt.LayerChart:
    """Time of one step by load band, and T0, the time of an ordinary step at the same load, as a bar across."""
    side = Side(rows, ROUND)
    base = alt.Chart(ROWS).encode(x=bands(rows), xOffset=beside(rows))
    y = alt.Y("round_time_ms:Q", title="Time of a step (ms)")
    points = base.mark_point(size=80, strokeWidth=2, opacity=1).encode(
        y=y,
        tooltip=tips(
            ("side:N", "Side", None),
            ("load_band:N", "Load", None),
            ("round_time_ms:Q", "Round time, ms", ".2f"),
            ("t0_ms:Q", "T0, ms", ".2f"),
            ("t0_origin:N", "T0 from", None),
            ("steps:Q", "Steps", ",d"),
            ("origin:N", "Origin", None),
        ),
        **side.points(),
    )
    has_t0 = base.transform_filter("isValid(datum.t0_ms)")
    ordinary = has_t0.mark_tick(thickness=3, color=INK, width={"band": 0.9}).encode(y=alt.Y("t0_ms:Q"))
    name = has_t0.transform_filter("datum.named").mark_text(dy=12, color=MUTED, text="T0").encode(y=alt.Y("t0_ms:Q"))
    t0 = [ordinary, name] if holds(rows, "t0_ms") else []
    return finish(rows, joined(base, side, y=y), *t0, points)
