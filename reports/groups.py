"""What belongs together in a report: results of one measure at several loads, advice that says the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .format import listed
from .model import Advice, GateResult

URGENCY = ("fail", "warn", "inconclusive", "not_comparable", "no_data", "acknowledged", "pass")
"""Verdicts in the order in which they are shown: what needs a look comes first."""


@dataclass(frozen=True)
class Results:
    """The results of one measure that share a verdict: the overall one, else the first, and the others by load."""

    first: GateResult
    others: tuple[GateResult, ...]


@dataclass(frozen=True)
class Remedy:
    """One thing to try: the advice where it holds most widely, and the other loads where it holds too."""

    advice: Advice
    also: tuple[str, ...]

    @property
    def where(self) -> str:
        """The load that its finding is about, with the others, as the beginning of a sentence; empty overall."""
        if self.advice.stratum is None:
            return ""
        likewise = f" (likewise at {listed(self.also, most=12)})" if self.also else ""
        return f"At load {self.advice.stratum.load_band}{likewise}: "


def by_urgency(gates: Iterable[GateResult]) -> list[GateResult]:
    """Gates, what needs a look first, otherwise as they come."""
    return sorted(gates, key=lambda gate: URGENCY.index(gate.verdict))


def needs_a_look(gate: GateResult) -> bool:
    """Whether a result should be seen before all others: failed, warned of, or required and not decided."""
    return gate.verdict in {"fail", "warn"} or (gate.required and gate.verdict not in {"pass", "acknowledged"})


def results(gates: Iterable[GateResult]) -> list[Results]:
    """Results by measure and verdict, what needs a look first."""
    found: dict[tuple[str, str, str], list[GateResult]] = {}
    for gate in by_urgency(gates):
        found.setdefault((gate.gate, gate.measure, gate.verdict), []).append(gate)
    return [_joined(group) for group in found.values()]


def remedies(advice: Sequence[Advice]) -> list[Remedy]:
    """Advice by cause and action, in the order in which it comes."""
    found: dict[tuple[str, str], list[Advice]] = {}
    for item in advice:
        found.setdefault((item.cause, item.action), []).append(item)
    return [
        Remedy(
            (first := next((item for item in same if item.stratum is None), same[0])),
            tuple(item.stratum.load_band for item in same if item is not first and item.stratum is not None),
        )
        for same in found.values()
    ]


def _joined(group: Sequence[GateResult]) -> Results:
    first = next((gate for gate in group if gate.stratum is None), group[0])
    return Results(first, tuple(gate for gate in group if gate is not first))
