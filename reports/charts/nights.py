"""The nights before the candidate's last one: the level of a measure, with its interval and the changes found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import altair as alt

from ..format import measure_label, verdict_label
from ..model import Report
from .chart import Rows, label
from .over_time import TIME_FORMAT
from .palette import BASELINE, INK, SURFACE
from .parts import LEGEND, ROWS, finish, holds, interval, tips

MOST_DEPLOYMENTS = 4
"""More lines than this cannot be told apart; the page of all nights has every deployment."""
LAST = "last night"
SHAPES = {"in the baseline": "circle", "not in the baseline": "square", LAST: "diamond"}
"""What a night is to the report, and its shape; only the last one is filled, in the colour of the measure."""


def night_rows(measure: str) -> Callable[[Report], Rows]:
    """A function that takes the nights of one measure, over all loads, out of a report."""

    def rows(report: Report) -> list[dict[str, Any]]:
        chosen = _chosen(report)
        nights = [
            night
            for night in report.history
            if night.measure == measure and night.load_band == "all" and night.deployment in chosen
        ]
        last = {night.deployment: night.date for night in sorted(nights, key=lambda night: night.date)}
        return [
            {
                "deployment": label(night.deployment),
                "date": night.date,
                "role": LAST
                if night.date == last[night.deployment]
                else "in the baseline"
                if night.used
                else "not in the baseline",
                "value": night.value,
                "lower": night.interval[0] if night.interval else None,
                "upper": night.interval[1] if night.interval else None,
                "change_point": night.change_point,
                "judged": verdict_label(night.judged) if night.judged else None,
            }
            for night in nights
        ]

    return rows


def _chosen(report: Report) -> set[str]:
    """The deployments that are shown: all of a few, else those with the latest change of level."""
    latest = {night.deployment: "" for night in report.history}
    for night in report.history:
        if night.change_point and night.load_band == "all":
            latest[night.deployment] = max(latest[night.deployment], night.date)
    return set(sorted(sorted(latest), key=lambda name: latest[name], reverse=True)[:MOST_DEPLOYMENTS])


def nights(measure: str, unit: str, colour: str) -> Callable[[Rows], alt.LayerChart]:
    """A function that draws the nights of one measure: a point each, and an upright line where a new level begins."""

    def draw(rows: Rows) -> alt.LayerChart:
        names = [role for role in SHAPES if any(row["role"] == role for row in rows)]
        title = f"{measure_label(measure)} ({unit})"
        time = alt.Axis(grid=False, tickCount=5, format=TIME_FORMAT, labelSeparation=10)
        y = alt.Y("value:Q", title=title, scale=alt.Scale(zero=False))
        base = alt.Chart(ROWS).encode(
            x=alt.X("date:T", title="Night (UTC)", scale=alt.Scale(type="utc"), axis=time), y=y
        )
        lines = base.mark_line(strokeWidth=1.5, opacity=0.8, stroke=BASELINE).encode(detail="deployment:N")
        fills = [colour if name == LAST else SURFACE for name in names]
        strokes = [colour if name == LAST else BASELINE for name in names]
        shapes = [SHAPES[name] for name in names]
        points = base.mark_point(size=60, strokeWidth=1.5, opacity=1).encode(
            stroke=alt.Stroke("role:N", scale=alt.Scale(domain=names, range=strokes), legend=LEGEND),
            fill=alt.Fill("role:N", scale=alt.Scale(domain=names, range=fills), legend=LEGEND),
            shape=alt.Shape("role:N", scale=alt.Scale(domain=names, range=shapes), legend=LEGEND),
            tooltip=tips(
                ("date:T", "Night", "%Y-%m-%d"),
                ("deployment:N", "Deployment", None),
                ("value:Q", title, ".4~g"),
                ("lower:Q", "from", ".4~g"),
                ("upper:Q", "to", ".4~g"),
                ("role:N", "This night is", None),
                ("judged:N", "Judged", None),
            ),
        )
        changes = (
            base.transform_filter("datum.change_point")
            .mark_rule(strokeDash=[4, 3], strokeWidth=1.5, color=INK)
            .encode(x="date:T", y=alt.value(0), y2=alt.value("height"))
        )
        found = any(row["change_point"] for row in rows)
        spans = [interval(base, "lower", "upper", stroke=alt.value(BASELINE))] if holds(rows, "lower") else []
        return finish(rows, *([changes] if found else []), lines, *spans, points)

    return draw
