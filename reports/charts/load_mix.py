"""Where the traffic was: share of tokens by load band, and by context band."""

from __future__ import annotations

from typing import Any

import altair as alt

from ..model import Report
from .boundary import band_rows
from .chart import Rows
from .palette import LOAD
from .parts import ROWS, Side, bands, beside, finish, in_order, tips


def mix_rows(report: Report) -> Rows:
    """Load bands with a share of tokens."""
    return band_rows(report, "token_share")


def context_rows(report: Report) -> list[dict[str, Any]]:
    """Context bands of both sides, the shortest first, side by side."""
    order = in_order(share.context_band for share in report.contexts)
    found = [dict(vars(share)) for share in report.contexts]
    return sorted(found, key=lambda row: (order.index(row["context_band"]), row["side"]))


def load_mix(rows: Rows) -> alt.LayerChart:
    """Share of each side's output tokens by load band."""
    return _shares(rows, bands(rows), ("load_band:N", "Load", None))


def context_mix(rows: Rows) -> alt.LayerChart:
    """Share of each side's output tokens by context band."""
    axis = alt.Axis(title="Context (tokens)", labelAngle=0, grid=False)
    place = alt.X("context_band:N", sort=in_order(row["context_band"] for row in rows), axis=axis)
    return _shares(rows, place, ("context_band:N", "Context", None))


def _shares(rows: Rows, place: alt.X, name: tuple[str, str, str | None]) -> alt.LayerChart:
    side = Side(rows, LOAD)
    bars = (
        alt.Chart(ROWS)
        .mark_bar(strokeWidth=1.5)
        .encode(
            x=place,
            xOffset=beside(rows),
            y=alt.Y("token_share:Q", title="Output tokens (%)", axis=alt.Axis(format=".0%")),
            tooltip=tips(
                ("side:N", "Side", None),
                name,
                ("token_share:Q", "Tokens", ".1%"),
                ("requests:Q", "Requests", ",d"),
            ),
            stroke=side.stroke,
            fill=side.fill,
        )
    )
    return finish(rows, bars)
