"""Which source of figures a comparison uses: one for both sides, the most exact one that covers what was served."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..schemas.measures import ALL_ORIGINS
from .cells_read import CellReader
from .format import percent
from .model import Origin
from .selection import Selection

COVERED_SHARE = 0.95
"""Requests stand for a side when they hold at least this share of the tokens its servers counted."""


@dataclass(frozen=True)
class OriginChoice:
    """The origins in the order in which they are asked; the first one that has a measure on both sides gives it."""

    order: tuple[str, ...]
    coverage: Mapping[str, float]
    """Share of the servers' tokens that each side's requests hold, by side, where there are counters."""
    note: str

    def partial(self, origin: str) -> float | None:
        """The least share of tokens that requests hold, where that is too little to stand for a side."""
        least = min(self.coverage.values(), default=1.0)
        return least if origin == "requests" and least < COVERED_SHARE else None


def totals(reader: CellReader, side: Selection) -> tuple[Origin, ...]:
    """What each origin holds of a side; origins without observations are left out."""
    found = []
    for origin in ALL_ORIGINS:
        frame = reader.frame(side, origin)
        if not frame.rows:
            continue
        tokens, rounds = frame.columns.get("output_tokens"), frame.columns["rounds"]
        found.append(
            Origin(
                origin,
                int(frame.n.sum()),
                None if tokens is None else int(tokens.sum()),
                int(rounds.sum()),
                int(frame.unit.max()) + 1,
            )
        )
    return tuple(found)


def preferred(reader: CellReader, side: Selection) -> str | None:
    """The origin that ``choose`` puts first for a side alone, told by few columns, for it may be long."""
    held = [origin for origin in ALL_ORIGINS if reader.holds(side, origin)]
    if len(held) < 2:
        return next(iter(held), None)
    return choose({"": [Origin(origin, 0, reader.tokens(side, origin), 0, 0) for origin in held]}).order[0]


def choose(sides: Mapping[str, Sequence[Origin]]) -> OriginChoice:
    """The order of origins for two sides (by name)."""
    held = {name: {origin.origin: origin for origin in origins} for name, origins in sides.items()}
    coverage = {}
    for name, origins in held.items():
        served = origins["snapshots"].output_tokens if "snapshots" in origins else None
        if served:
            coverage[name] = ((origins["requests"].output_tokens or 0) if "requests" in origins else 0) / served
    # A side without anything, as before the first night, is no reason to show nothing of the other.
    told = [origins for origins in held.values() if origins]
    on_both = [origin for origin in ALL_ORIGINS if told and all(origin in origins for origins in told)]
    covering = min(coverage.values(), default=1.0) >= COVERED_SHARE
    if "requests" in on_both and not covering:
        on_both = [*(origin for origin in on_both if origin != "requests"), "requests"]
    return OriginChoice(tuple(on_both), coverage, _note(on_both, coverage, held))


def _note(order: Sequence[str], coverage: Mapping[str, float], held: Mapping[str, Mapping[str, Origin]]) -> str:
    if not order:
        sides = "; ".join(f"{name}: {', '.join(origins) or 'nothing'}" for name, origins in held.items())
        return f"The two sides have no source of figures in common ({sides})."
    if order[0] == "requests" and coverage:
        least = percent(min(coverage.values()), brief=True)
        excess = {side: share for side, share in coverage.items() if share > 1 / COVERED_SHARE}
        more = "".join(
            f" Those of the {side} hold {percent(share, brief=True)}, more than their servers counted: scrapes are "
            "missing, or requests of other servers stand under the same name."
            for side, share in excess.items()
        )
        return f"Figures are from requests, which hold at least {least} of the servers' tokens.{more}"
    if order[0] == "requests":
        return "Figures are from requests; there are no server counters to hold them against."
    name = {"snapshots": "scrapes of the servers", "log_stats": "stats lines of the logs"}[order[0]]
    if "requests" in order:
        return f"Figures are from {name}: requests hold only {percent(min(coverage.values()))} of the servers' tokens."
    return f"Figures are from {name}."
