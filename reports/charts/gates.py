"""The gates at a glance: every relative change with its interval and what was allowed."""

from __future__ import annotations

from typing import Any

import altair as alt

from ..format import gate_title, percent, verdict_label
from ..groups import by_urgency
from ..model import VERDICTS, Report
from .chart import Rows, label
from .palette import INK, MUTED, VERDICT_COLOURS, VERDICT_SHAPES
from .parts import ROWS, alone, finish, holds, in_order, tips

MOST = 20
"""Gates drawn, the failing ones first; the table has them all."""
FARTHEST = 100.0
"""Changes beyond this (%) are drawn at the edge: one wild figure must not flatten the others."""
ROW_HEIGHT = 38


def change_rows(report: Report) -> list[dict[str, Any]]:
    """The gates that have a relative change, failing ones first, in percent."""
    judged = [gate for gate in report.gates if gate.kind == "relative" and gate.change is not None]
    rows = []
    for gate in by_urgency(judged)[:MOST]:
        lower, upper = gate.interval or (None, None)
        rows.append(
            {
                "label": label(gate_title(gate)),
                "verdict": gate.verdict,
                "verdict_label": verdict_label(gate.verdict),
                "change": _percent(gate.change),
                "lower": _percent(lower),
                "upper": _percent(upper),
                "tolerance": _percent(gate.tolerance),
                "shown": _clamped(gate.change),
                "shown_lower": _clamped(lower),
                "shown_upper": _clamped(upper) if upper is not None or lower is None else FARTHEST,
                "shown_tolerance": _clamped(gate.tolerance),
                "beyond": percent(gate.change, signed=True) if abs(gate.change or 0) > FARTHEST / 100 else "",
                "unit": gate.unit,
                "n_baseline": gate.n_baseline,
                "n_candidate": gate.n_candidate,
                "origin": gate.origin,
            }
        )
    return rows


def changes(rows: Rows) -> alt.LayerChart:
    """One line a gate: the change, its interval, and a bar where the tolerance lies."""
    verdicts = [verdict for verdict in VERDICTS if any(row["verdict"] == verdict for row in rows)]
    names = [verdict_label(verdict) for verdict in verdicts]
    legend = alt.Legend(title=None, columns=3)
    colour = alt.Scale(domain=names, range=[VERDICT_COLOURS[verdict] for verdict in verdicts])
    shape = alt.Scale(domain=names, range=[VERDICT_SHAPES[verdict] for verdict in verdicts])
    order = in_order(row["label"] for row in rows)
    base = alt.Chart(ROWS).encode(y=alt.Y("label:N", sort=order, axis=None))
    # The name stands above its line, not beside it: beside it would leave no room to draw on a phone.
    names_of_gates = base.mark_text(align="left", dy=-13, limit=300).encode(x=alt.value(2), text="label:N")
    x = alt.X("shown:Q", title="Change from baseline (%)", axis=alt.Axis(grid=True))
    spans = (
        base.transform_filter("isValid(datum.lower)")
        .mark_rule(strokeWidth=2)
        .encode(
            x=alt.X("shown_lower:Q"),
            x2="shown_upper:Q",
            color=alt.Color("verdict_label:N", scale=colour, legend=legend),
        )
    )
    allowed = (
        base.transform_filter("isValid(datum.tolerance)")
        .mark_tick(thickness=2, size=16, color=INK, orient="vertical")
        .encode(x=alt.X("shown_tolerance:Q"))
    )
    points = base.mark_point(size=80, filled=True, opacity=1).encode(
        x=x,
        color=alt.Color("verdict_label:N", scale=colour, legend=legend),
        shape=alt.Shape("verdict_label:N", scale=shape, legend=legend),
        tooltip=tips(
            ("label:N", "Gate", None),
            ("verdict_label:N", "Verdict", None),
            ("change:Q", "Change, %", "+.2f"),
            ("lower:Q", "from, %", "+.2f"),
            ("upper:Q", "to, %", "+.2f"),
            ("tolerance:Q", "Allowed, %", "+.2f"),
            ("n_baseline:Q", "n baseline", ",d"),
            ("n_candidate:Q", "n candidate", ",d"),
            ("unit:N", "unit", None),
        ),
    )
    beyond = base.mark_text(align="right", dx=6, dy=-13).encode(x=alt.X("shown:Q"), text="beyond:N")
    zero = alone().mark_rule(color=MUTED, strokeDash=[2, 2]).encode(x=alt.datum(0))
    layers = [layer for layer, field in ((allowed, "tolerance"), (spans, "lower")) if holds(rows, field)]
    return finish(rows, zero, *layers, points, beyond, names_of_gates, height=ROW_HEIGHT * len(order))


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _clamped(share: float | None) -> float | None:
    return None if share is None else max(-FARTHEST, min(FARTHEST, 100 * share))
