"""What a chart is: rows of a report, a function that draws them, and the columns of the table beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..model import Report
from ..plain import one_line

if TYPE_CHECKING:
    import altair as alt

Rows = Sequence[Mapping[str, Any]]
"""Plain values only: text, numbers, booleans and None, never NaN."""

LONGEST_LABEL = 160
MAX_ROWS = 5_000
"""More rows than this are no chart: they are aggregated before they get here."""


def label(text: str) -> str:
    """Text from outside as the name of a category.

    Vega-Lite puts names of categories into expressions that it generates, so nothing may be in them that its own
    quoting leaves as it is: line separators and control characters.
    """
    line = one_line(text)
    return line if len(line) <= LONGEST_LABEL else f"{line[: LONGEST_LABEL - 1]}…"


@dataclass(frozen=True)
class Shown:
    """One column of the table beside a chart: field, heading, unit, and the measure that defines it."""

    field: str
    heading: str
    units: str | None = None
    measure: str | None = None


@dataclass(frozen=True)
class Chart:
    """One chart: ``draw`` is a function from rows to an Altair chart, and is never given an empty list."""

    name: str
    title: str
    reading: str
    """One sentence: how to read it."""
    rows: Callable[[Report], Rows]
    draw: Callable[[Rows], alt.LayerChart]
    columns: tuple[Shown, ...]
    missing: str
    """One sentence for when there are no rows: what is lacking and what would provide it."""
    value: str
    """Field of the figure that the text alternative reads out."""
    point: str = "load_band"
    """Field that names a point."""
    series: str | None = "side"
    """Field that names the series of a point; None for a single one."""
