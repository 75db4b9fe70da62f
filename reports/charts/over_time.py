"""The two sides over time: acceptance with restarts, KV cache in use, preemptions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import altair as alt

from ..model import Report
from .chart import Rows
from .palette import ACCEPTANCE, MEMORY, MUTED
from .parts import ROWS, Side, finish, tips

RESTART = "restart"
TIME_FORMAT = {
    "year": "%Y",
    "month": "%b %Y",
    "week": "%b %d",
    "date": "%b %d",
    "hours": "%H:%M",
    "minutes": "%H:%M",
    "seconds": "%H:%M:%S",
}
"""How the axis writes an instant, by what it is a whole one of."""


AXES = {
    ".3f": alt.Axis(format=".2f"),
    ".1%": alt.Axis(format=".0%"),
    ",d": alt.Axis(format=",d", tickMinStep=1),
}
"""Axis of figures, by the format in which they are told one by one."""


def point_rows(field: str) -> Callable[[Report], Rows]:
    """A function that takes the stretches of time where ``field`` is known out of a report.

    Neighbouring stretches of a side share a ``segment``, so that no line is drawn across a gap.
    """

    def rows(report: Report) -> list[dict[str, Any]]:
        found = []
        segments: dict[str, int] = {}
        ended: dict[str, dt.datetime] = {}
        for point in report.timeline:
            if getattr(point, field) is None:
                continue
            start = dt.datetime.fromisoformat(point.start)
            if ended.get(point.side) != start:
                segments[point.side] = segments.get(point.side, 0) + 1
            ended[point.side] = start + dt.timedelta(minutes=point.minutes)
            row = {known.name: getattr(point, known.name) for known in fields(point)}
            found.append({**row, "segment": f"{point.side} {segments[point.side]}", "kind": "stretch"})
        return found

    return rows


def acceptance_rows(report: Report) -> list[dict[str, Any]]:
    """The stretches of time with rounds, and the restarts among them."""
    rows: list[Any] = list(point_rows("acceptance_length")(report))
    if not rows:
        return []
    starts: list[dict[str, Any]] = [
        {
            "side": restart.side,
            "start": restart.at,
            "kind": RESTART,
            "deployment": restart.deployment,
            "vllm_version": restart.vllm_version,
            "acceptance_length": None,
        }
        for restart in report.restarts
    ]
    return [*rows, *starts]


def acceptance_over_time(rows: Rows) -> alt.LayerChart:
    """Acceptance length over time; upright lines are starts of servers."""
    stretches = [row for row in rows if row["kind"] != RESTART]
    course = _course(stretches, "acceptance_length", "Acceptance length (tokens)", ACCEPTANCE, ".3f", from_zero=False)
    if len(stretches) == len(rows):
        return finish(rows, *course)
    starts = (
        alt.Chart(ROWS)
        .transform_filter(f"datum.kind === '{RESTART}'")
        .mark_rule(color=MUTED, strokeDash=[2, 3], strokeWidth=2)
        .encode(
            x=alt.X("start:T"),
            tooltip=tips(
                ("start:T", "Start of a server", "%Y-%m-%d %H:%M"),
                ("deployment:N", "Deployment", None),
                ("vllm_version:N", "vLLM", None),
            ),
        )
    )
    return finish(rows, starts, *course)


def kv_use(rows: Rows) -> alt.LayerChart:
    """Share of the KV cache in use: the mean as a line, the highest as a thin mark above it."""
    side = Side(rows, MEMORY)
    highest = (
        alt.Chart(ROWS)
        .mark_rule(strokeWidth=1, opacity=0.55)
        .encode(x=alt.X("start:T"), y=alt.Y("kv_usage_mean:Q"), y2="kv_usage_max:Q", stroke=side.stroke)
    )
    return finish(rows, highest, *_course(rows, "kv_usage_mean", "KV cache in use (%)", MEMORY, ".1%", from_zero=True))


def preemptions(rows: Rows) -> alt.LayerChart:
    """Preemptions in each stretch of time."""
    return finish(rows, *_course(rows, "preemptions", "Preemptions", MEMORY, ",d", from_zero=True))


def _course(rows: Rows, field: str, title: str, colour: str, form: str, *, from_zero: bool) -> tuple[alt.Chart, ...]:
    side = Side(rows, colour)
    time = alt.Axis(grid=False, tickCount=5, format=TIME_FORMAT, labelSeparation=10)
    base = (
        alt.Chart(ROWS)
        .transform_filter(f"isValid(datum.{field})")
        .encode(
            x=alt.X("start:T", title="Time (UTC)", scale=alt.Scale(type="utc"), axis=time),
            y=alt.Y(
                f"{field}:Q", title=title, scale=_scale(rows, field, from_zero=from_zero), axis=_axis(rows, field, form)
            ),
        )
    )
    lines = base.mark_line(strokeWidth=1.5, opacity=0.8).encode(**side.lines(), detail="segment:N")
    points = base.mark_point(size=28, strokeWidth=1.5, opacity=1).encode(
        tooltip=tips(
            ("side:N", "Side", None),
            ("start:T", "From", "%Y-%m-%d %H:%M"),
            ("minutes:Q", "Minutes", "d"),
            (f"{field}:Q", title, form),
            ("rounds:Q", "Rounds", ",d"),
            ("running_mean:Q", "Running", ".1f"),
            ("kv_usage_max:Q", "KV use, highest", ".1%"),
            ("origin:N", "Origin", None),
        ),
        **side.points(),
    )
    return lines, points


def _axis(rows: Rows, field: str, form: str) -> alt.Axis:
    """The axis of a figure; small counts have no ticks between whole numbers."""
    most = max((row[field] or 0 for row in rows), default=0)
    if form == ",d" and most < 4:
        return alt.Axis(format=form, values=list(range(int(most) + 2)))
    return AXES[form]


def _scale(rows: Rows, field: str, *, from_zero: bool) -> alt.Scale:
    """The scale of a figure; one that is zero all the time still gets an axis."""
    if from_zero and not any(row[field] for row in rows):
        return alt.Scale(domain=[0, 1])
    return alt.Scale(zero=from_zero)
