"""Acceptance by draft position: how far drafts survive, and what length they predict."""

from __future__ import annotations

from typing import Any

import altair as alt

from ..format import listed
from ..model import Report
from .chart import Rows
from .palette import ACCEPTANCE, INK
from .parts import ROWS, Side, finish, holds, joined, tips


def position_rows(report: Report) -> list[dict[str, Any]]:
    """Positions of both sides, with the gain of one more candidate (the survival of the next position)."""
    best = _best_at(report)
    following = {(row.side, row.position - 1): row.survival for row in report.positions}
    return [
        {
            "side": row.side,
            "origin": row.origin,
            "position": row.position,
            "rounds": row.rounds,
            "accepted": row.accepted,
            "survival": row.survival,
            "conditional": row.conditional,
            "predicted_length": row.predicted_length,
            "marginal_gain": following.get((row.side, row.position)),
            "censored": row.censored,
            "best_at": best.get(row.position) if row.side == "candidate" else None,
        }
        for row in sorted(report.positions, key=lambda row: (row.position, row.side))
    ]


def _best_at(report: Report) -> dict[int, str]:
    """Loads at which each draft length is best, where one schedule is recommended; only loads that had a choice."""
    found: dict[int, list[str]] = {}
    for schedule in report.schedules if len(report.schedules) == 1 else ():
        for band in schedule.bands:
            if len(band.lengths) > 1:
                found.setdefault(band.length, []).append(band.load_band)
    return {length: listed(loads) for length, loads in found.items()}


def _position(title: str) -> alt.X:
    return alt.X("position:O", title=title, axis=alt.Axis(labelAngle=0, grid=False))


def survival(rows: Rows) -> alt.LayerChart:
    """Share of rounds in which each position was accepted."""
    side = Side(rows, ACCEPTANCE)
    base = alt.Chart(ROWS).encode(
        x=_position("Draft position"),
        y=alt.Y("survival:Q", title="Rounds accepted here (%)", axis=alt.Axis(format=".0%"), scale=_from_zero(rows)),
    )
    points = base.mark_point(size=80, strokeWidth=2, opacity=1).encode(
        tooltip=tips(
            ("side:N", "Side", None),
            ("position:O", "Position", None),
            ("survival:Q", "Survival", ".2%"),
            ("conditional:Q", "Conditional", ".2%"),
            ("rounds:Q", "Rounds", ",d"),
            ("censored:N", "Censored", None),
        ),
        **side.points(),
    )
    return finish(rows, joined(base, side), points)


def predicted_length(rows: Rows) -> alt.LayerChart:
    """Expected tokens a round by draft length; each step up is the marginal gain of that candidate."""
    side = Side(rows, ACCEPTANCE)
    base = alt.Chart(ROWS).encode(
        x=_position("Draft length (candidates a round)"),
        y=alt.Y("predicted_length:Q", title="Tokens a round", scale=alt.Scale(zero=False)),
    )
    points = base.mark_point(size=80, strokeWidth=2, opacity=1).encode(
        tooltip=tips(
            ("side:N", "Side", None),
            ("position:O", "Draft length", None),
            ("predicted_length:Q", "Predicted length", ".3f"),
            ("marginal_gain:Q", "One more adds", ".3f"),
            ("best_at:N", "Best at load", None),
        ),
        **side.points(),
    )
    rings = base.transform_filter("isValid(datum.best_at)").mark_point(
        size=420, strokeWidth=1.5, stroke=INK, aria=False
    )
    return finish(rows, joined(base, side), *([rings] if holds(rows, "best_at") else []), points)


def _from_zero(rows: Rows) -> alt.Scale:
    highest = max(row["survival"] for row in rows)
    return alt.Scale(domain=[0, max(highest, 0.1)], nice=True)
