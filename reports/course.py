"""The course of one measure over nights as a small picture: pure SVG geometry, drawn without a script.

A page of many nights has one for each deployment and measure; a full chart each would make it slow to open.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from .format import number
from .model import Night

WIDTH, HEIGHT = 260, 96
LEFT, RIGHT, TOP, BOTTOM = 44, 8, 8, 18
"""Room around the plot, for the numbers beside it and the dates below it."""
OUTLYING = 1.5
"""Intervals are shown up to that many ranges of the figures beyond them: a night of few data flattens no other."""
LEAST_RANGE = 0.04
"""Least height of the plot, as a share of the figures: noise below it shall not look like a change."""


@dataclass(frozen=True)
class Mark:
    """One night: where it lies, and what it says."""

    x: float
    y: float
    title: str


@dataclass(frozen=True)
class Step:
    """The night from which a new level holds, and the relative change of the mean level."""

    date: str
    change: float
    x: float


@dataclass(frozen=True)
class Course:
    """One measure of one deployment over nights, as coordinates in a box of WIDTH × HEIGHT."""

    measure: str
    last: float
    marks: tuple[Mark, ...]
    lines: tuple[str, ...]
    """Points of polylines; nights that follow each other are joined."""
    areas: tuple[str, ...]
    """Points of polygons: the intervals of such nights."""
    steps: tuple[Step, ...]
    scale: tuple[tuple[float, str], ...]
    """Heights that are named beside the plot."""


def course(nights: Sequence[Night], first: dt.date, last: dt.date) -> Course:
    """The course of nights of one measure and deployment, by date; the axis goes from first to last."""
    low, high = _range(nights)
    days = max(1, (last - first).days)

    def x(night: Night) -> float:
        place = (dt.date.fromisoformat(night.date) - first).days / days
        return round(LEFT + place * (WIDTH - LEFT - RIGHT), 1)

    def y(value: float) -> float:
        place = (min(max(value, low), high) - low) / (high - low)
        return round(HEIGHT - BOTTOM - place * (HEIGHT - TOP - BOTTOM), 1)

    pieces = _pieces(nights)
    return Course(
        nights[-1].measure,
        nights[-1].value,
        tuple(Mark(x(night), y(night.value), _title(night)) for night in nights),
        tuple(_points((x(night), y(night.value)) for night in piece) for piece in pieces if len(piece) > 1),
        tuple(
            _points(
                [(x(night), y(night.interval[0])) for night in piece if night.interval]
                + [(x(night), y(night.interval[1])) for night in reversed(piece) if night.interval]
            )
            for piece in pieces
            if sum(night.interval is not None for night in piece) > 1
        ),
        tuple(
            Step(after[0].date, fmean(n.value for n in after) / fmean(n.value for n in before) - 1, x(after[0]))
            for before, after in itertools.pairwise(_levels(nights))
        ),
        tuple((y(value), number(value, 3)) for value in (low, high)),
    )


def _range(nights: Sequence[Night]) -> tuple[float, float]:
    values = [night.value for night in nights]
    low, high = min(values), max(values)
    reach = OUTLYING * max(high - low, LEAST_RANGE * high / OUTLYING)
    ends = [end for night in nights if night.interval for end in night.interval]
    low, high = (
        min([low, *(end for end in ends if end >= low - reach)]),
        max([high, *(end for end in ends if end <= high + reach)]),
    )
    missing = max(0.0, LEAST_RANGE * high - (high - low)) / 2
    return low - missing, high + missing if high + missing > low - missing else low + 1.0


def _pieces(nights: Sequence[Night]) -> list[list[Night]]:
    """Nights that follow each other."""
    pieces: list[list[Night]] = []
    for night in nights:
        date = dt.date.fromisoformat(night.date)
        if pieces and (date - dt.date.fromisoformat(pieces[-1][-1].date)).days == 1:
            pieces[-1].append(night)
        else:
            pieces.append([night])
    return pieces


def _levels(nights: Sequence[Night]) -> list[list[Night]]:
    """Nights that share a level, cut where a new one begins."""
    levels: list[list[Night]] = []
    for night in nights:
        if night.change_point or not levels:
            levels.append([])
        levels[-1].append(night)
    return levels


def _title(night: Night) -> str:
    bounds = "" if night.interval is None else f" ({number(night.interval[0])} to {number(night.interval[1])})"
    return f"{night.date}: {number(night.value)}{bounds}"


def _points(points: object) -> str:
    return " ".join(f"{x},{y}" for x, y in points)  # type: ignore[attr-defined]
