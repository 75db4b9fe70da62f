"""Charts as Vega-Lite specifications and as pictures."""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any

from . import format as form
from .bundle import VEGA_LITE
from .charts import Chart, Rows
from .charts.palette import PALETTE, resolved

if TYPE_CHECKING:
    import altair as alt

STILL_WIDTH = 480
"""Pixels of a chart in the page before its script runs, when the width is not known."""
RECURRING = 8
"""A shape that a picture has more often than this is written once and referred to."""
ROWS = "rows"
"""Name of the data of a chart."""
MOST_POINTS = 40
"""Points of a series that a text alternative reads out."""


def specification(chart: Chart, rows: Rows) -> dict[str, Any]:
    """The Vega-Lite specification of a chart, with its text alternative as description."""
    drawn: alt.LayerChart = chart.draw(rows).properties(description=alternative(chart, rows))
    specified: dict[str, Any] = drawn.to_dict(validate=False)
    data = specified.pop("datasets")
    used = json.dumps(specified)
    fields = {field for field in {field for row in data[ROWS] for field in row} if field in used}
    data[ROWS] = [{field: value for field, value in row.items() if field in fields} for row in data[ROWS]]
    return {**specified, "datasets": data}


def alternative(chart: Chart, rows: Rows) -> str:
    """A chart in words: every point of every series."""
    series: dict[str, list[str]] = {}
    for row in rows:
        if row[chart.value] is None:
            continue
        name = str(row[chart.series]) if chart.series else ""
        point = [str(row[field]) for field in dict.fromkeys(("load_band", chart.point)) if field in row]
        series.setdefault(name, []).append(f"{' '.join(point)} {form.number(row[chart.value], 3)}")
    told = [f"{name + ': ' if name else ''}{form.listed(points, most=MOST_POINTS)}" for name, points in series.items()]
    return f"{chart.title}. {'; '.join(told)}."


def titled(chart: Chart, rows: Rows, *, dark: bool = False) -> dict[str, Any]:
    """The specification of a picture that stands alone: title, colours by value, a width of its own."""
    spec = resolved(specification(chart, rows), dark=dark)
    spec["title"] = {
        "text": chart.title,
        "subtitle": chart.reading,
        "anchor": "start",
        "frame": "bounds",
        "offset": 12,
        "color": PALETTE["ink"][dark],
        "subtitleColor": PALETTE["muted"][dark],
        "fontSize": 15,
        "subtitleFontSize": 12,
    }
    return spec


@cache
def start() -> None:
    """Get ready for the first picture, which takes a second of its own, no Python; done once, whoever asks first."""
    svg_text({"mark": "point"})


def svg(spec: dict[str, Any]) -> bytes:
    """The specification as SVG."""
    return svg_text(spec).encode()


def png(spec: dict[str, Any], scale: float = 2) -> bytes:
    """The specification as PNG, with that many pixels per unit."""
    import vl_convert

    picture: bytes = vl_convert.vegalite_to_png(spec, vl_version=VEGA_LITE, scale=scale)
    return picture


def still(spec: dict[str, Any], name: str) -> str:
    """A picture that stands in a page until a script draws the chart: one image with one description, and small.

    ``name`` is that of the chart, for names inside the picture that no other one in the page has.
    """
    plain = {**spec, "width": STILL_WIDTH, "config": {**spec["config"], "aria": False}}
    described = html.escape(spec["description"], quote=True)
    return _shared_shapes(svg_text(plain), name).replace("<svg ", f'<svg role="img" aria-label="{described}" ', 1)


def _shared_shapes(svg: str, name: str) -> str:
    """The picture with coordinates to a tenth of a pixel, and each shape that recurs written once."""
    short = _COORDINATES.sub(lambda found: _DECIMALS.sub(_tenth, found[0]), svg)
    counts = Counter(shape for _, shape in _PLACED.findall(short))
    shared = {shape: f"{name}-{number}" for number, (shape, n) in enumerate(counts.most_common()) if n > RECURRING}
    used = _PLACED.sub(
        lambda found: f'<use transform="{found[1]}" href="#{shared[found[2]]}"/>' if found[2] in shared else found[0],
        short,
    )
    shapes = "".join(f'<path id="{key}" {shape}/>' for shape, key in shared.items())
    return used.replace("<g ", f"<defs>{shapes}</defs><g ", 1) if shapes else used


def _tenth(found: re.Match[str]) -> str:
    return f"{float(found[0]):.1f}".removesuffix(".0")


def svg_text(spec: dict[str, Any]) -> str:
    """The specification as SVG text; colours that are CSS variables stay variables."""
    import vl_convert

    sized = {**spec, "width": STILL_WIDTH} if spec.get("width") == "container" else spec
    text: str = vl_convert.vegalite_to_svg(sized, vl_version=VEGA_LITE)
    return text


_COORDINATES = re.compile(r' (?:transform|d|x|y|x1|x2|y1|y2|width|height)="[^"]*"')
_DECIMALS = re.compile(r"-?\d+\.\d{2,}")
_PLACED = re.compile(r'<path transform="(translate\([^)"]*\))" (d="[^>]*?)/>')
