"""Where the traffic was: share of tokens by load band."""

from __future__ import annotations

import altair as alt

from ..model import Report
from .boundary import band_rows
from .chart import Rows
from .palette import LOAD
from .parts import ROWS, Side, bands, beside, finish, tips


def mix_rows(report: Report) -> Rows:
    """Load bands with a share of tokens."""
    return band_rows(report, "token_share")


def load_mix(rows: Rows) -> alt.LayerChart:
    """Share of each side's output tokens by load band."""
    side = Side(rows, LOAD)
    bars = (
        alt.Chart(ROWS)
        .mark_bar(strokeWidth=1.5)
        .encode(
            x=bands(rows),
            xOffset=beside(rows),
            y=alt.Y("token_share:Q", title="Output tokens (%)", axis=alt.Axis(format=".0%")),
            tooltip=tips(
                ("side:N", "Side", None),
                ("load_band:N", "Load", None),
                ("token_share:Q", "Tokens", ".1%"),
                ("requests:Q", "Requests", ",d"),
            ),
            stroke=side.stroke,
            fill=side.fill,
        )
    )
    return finish(rows, bars)
