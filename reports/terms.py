"""The terms of the split of TPOT as people read them.

Where speculation was switched on or off between the sides, acceptance, coverage and truncation have no meaning on one
of them: together they are the tokens that a step returns, and are told as that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from .format import percent
from .model import Report, SplitRow

LENGTH = ("acceptance", "coverage", "truncation")
"""Terms that are parts of the effective length."""
NAMES = {
    "round_time": "Round time",
    "acceptance": "Acceptance",
    "coverage": "Coverage",
    "truncation": "Truncation",
    "mix": "Traffic mix",
}
SWITCHED_NAMES = {"round_time": "Time of a step", "length": "Tokens of a step", "mix": "Traffic mix"}
LARGE = 0.4
"""From a term of that size on (ln), factors are read more easily than percent."""


@dataclass(frozen=True)
class Term:
    """One term of Δ ln TPOT: its name in the split (length: the three of it together) and what it is called."""

    name: str
    label: str
    value: float


def switched(report: Report) -> Literal["on", "off"] | None:
    """Whether speculation was switched on or off from baseline to candidate; None where it was not, or is not known."""
    sides = {band.side for band in report.bands}
    speculating = {band.side for band in report.bands if band.rounds}
    # Requests that tell nothing of rounds leave the bands without any: the counters of the same side may know better.
    known = {side.name for side in (report.baseline, report.candidate) if any(origin.rounds for origin in side.origins)}
    if not {"baseline", "candidate"} <= sides or len(speculating) != 1 or known - speculating:
        return None
    return "on" if speculating == {"candidate"} else "off"


def terms(row: SplitRow, *, switch: bool) -> tuple[Term, ...]:
    """The terms of a row, in their order; they add up to its whole change."""
    if not switch:
        return tuple(Term(name, label, getattr(row, name)) for name, label in NAMES.items())
    values = {
        "round_time": row.round_time,
        "length": math.fsum(getattr(row, name) for name in LENGTH),
        "mix": row.mix,
    }
    return tuple(Term(name, label, values[name]) for name, label in SWITCHED_NAMES.items())


def effect(value: float, *, factors: bool) -> str:
    """What a term alone would have made of TPOT: a factor, or a change in percent."""
    return f"{math.exp(value):.2f}×" if factors else percent(math.expm1(value), signed=True)


def large(row: SplitRow, *, switch: bool) -> bool:
    """Whether the terms of a row are told as factors."""
    return any(abs(term.value) >= LARGE for term in terms(row, switch=switch))
