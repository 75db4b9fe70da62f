"""Parts that several charts are made of: the axis of load bands, the two sides, intervals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import altair as alt

from .chart import MAX_ROWS, Rows
from .palette import BASELINE, INK, LINE, MUTED, SURFACE

SIDES = ("baseline", "candidate")
BAND_TITLE = "Load (requests running on an engine)"
FONT = "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
HEIGHT = 250
"""Pixels of the plot of a chart with a vertical value axis."""
ROWS = alt.NamedData("rows")
"""The data of every mark but reference lines: said once a chart."""
LEGEND = alt.Legend(title=None)
CROWDED = 6
"""With more bands than this their labels are turned, so that they fit on a phone."""


def finish(rows: Rows, *layers: alt.Chart, height: int = HEIGHT) -> alt.LayerChart:
    """The layers as one chart over ``rows``, with the lines and fonts that all charts share, as wide as its container.

    ValueError above the number of rows that keeps a report small.
    """
    if len(rows) > MAX_ROWS:
        raise ValueError(f"{len(rows)} rows are too many for a chart: aggregate them to {MAX_ROWS} or fewer.")
    config = alt.Config(
        background="transparent",
        font=FONT,
        view={"stroke": None},
        axis={
            "domainColor": LINE,
            "gridColor": LINE,
            "tickColor": LINE,
            "labelColor": INK,
            "titleColor": MUTED,
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "titlePadding": 8,
            "labelLimit": 150,
            "titleLimit": 600,
        },
        legend={
            "orient": "top",
            "direction": "horizontal",
            "labelColor": INK,
            "titleColor": MUTED,
            "labelFontSize": 12,
            "labelLimit": 260,
            "symbolSize": 90,
            "title": None,
            "columnPadding": 14,
            "symbolBaseFillColor": INK,
            "symbolBaseStrokeColor": INK,
        },
        text={"color": INK, "fontSize": 12, "aria": False},
        # Readers that cannot see get the points, each with its figures; lines would only be empty pictures.
        rule={"aria": False},
        tick={"aria": False},
        line={"aria": False},
        padding={"left": 4, "right": 8, "top": 4, "bottom": 4},
    )
    # All in one call, for each of a chart's methods copies the whole chart with its rows.
    datasets = {ROWS.name: [dict(row) for row in rows]}
    return alt.LayerChart(layer=list(layers), datasets=datasets, width="container", height=height, config=config)


def alone() -> alt.Chart:
    """The base of a mark that stands for itself: a reference line or a word."""
    return alt.Chart(alt.Data(values=[{}]))  # type: ignore[no-untyped-call]


def in_order(values: Iterable[Any]) -> list[Any]:
    """The different values in the order in which they come."""
    return list(dict.fromkeys(values))


def bands(rows: Rows) -> alt.X:
    """The axis of load bands, in the order of the rows."""
    order = in_order(row["load_band"] for row in rows)
    turned = len(order) > CROWDED
    axis = alt.Axis(title=BAND_TITLE, labelAngle=-40 if turned else 0, grid=False, labelOverlap=False)
    return alt.X("load_band:N", sort=order, axis=axis)


def beside(rows: Rows) -> alt.XOffset:
    """Places the two sides of one band next to each other."""
    return alt.XOffset("side:N", sort=sides(rows), scale=alt.Scale(paddingOuter=0.3))


def sides(rows: Rows) -> list[str]:
    """The sides that have rows, baseline first."""
    present = {row["side"] for row in rows}
    return [side for side in SIDES if side in present]


class Side:
    """How the two sides look: the baseline grey, hollow and dashed, the candidate filled in the measure's colour.

    Every encoding carries the same legend, so that Vega-Lite makes one of them all.
    """

    def __init__(self, rows: Rows, colour: str, *, symbol: str | None = None) -> None:
        self._names = sides(rows)
        self._legend = LEGEND if symbol is None else alt.Legend(title=None, symbolType=symbol)
        self._looks = {
            "baseline": {"stroke": BASELINE, "fill": SURFACE, "shape": "circle"},
            "candidate": {"stroke": colour, "fill": colour, "shape": "diamond"},
        }

    def _look(self, look: str) -> dict[str, Any]:
        scale = alt.Scale(domain=self._names, range=self._range(look))
        return {"shorthand": "side:N", "scale": scale, "legend": self._legend}

    def _range(self, look: str) -> list[Any]:
        return [self._looks[name][look] for name in self._names]

    @property
    def stroke(self) -> alt.Stroke:
        return alt.Stroke(**self._look("stroke"))

    @property
    def fill(self) -> alt.Fill:
        return alt.Fill(**self._look("fill"))

    def points(self) -> dict[str, Any]:
        """Encodings of points."""
        return {"stroke": self.stroke, "fill": self.fill, "shape": alt.Shape(**self._look("shape"))}

    def lines(self) -> dict[str, Any]:
        """Encodings of lines."""
        dashed = alt.condition("datum.side === 'baseline'", alt.value([5, 3]), alt.value([1, 0]))
        return {"stroke": self.stroke, "strokeDash": dashed}


def joined(base: alt.Chart, side: Side, **encodings: Any) -> alt.Chart:
    """Thin lines through the points of each side."""
    lines: alt.Chart = base.mark_line(strokeWidth=1.5, opacity=0.8).encode(**side.lines(), **encodings)
    return lines


def holds(rows: Rows, field: str) -> bool:
    """Whether any row has the field: a layer without data would leave its axis without an extent."""
    return any(row.get(field) is not None for row in rows)


def interval(base: alt.Chart, lower: str, upper: str, **encodings: Any) -> alt.Chart:
    """A vertical line from ``lower`` to ``upper`` where a row has both."""
    line: alt.Chart = (
        base.transform_filter(f"isValid(datum.{lower}) && isValid(datum.{upper})")
        .mark_rule(strokeWidth=2, opacity=0.75)
        .encode(y=alt.Y(f"{lower}:Q"), y2=alt.Y2(f"{upper}:Q"), **encodings)
    )
    return line


def tips(*fields: tuple[str, str, str | None]) -> list[alt.Tooltip]:
    """Tooltips from field (with its type), title and d3 format."""
    return [
        alt.Tooltip(field, title=title) if form is None else alt.Tooltip(field, title=title, format=form)
        for field, title, form in fields
    ]
