"""Δ ln TPOT taken apart exactly: round time, acceptance, coverage, truncation and mix.

Algorithm: TPOT of a side is Σ v over strata, v = the stratum's decode time over all tokens = token share · TPOT. With
logarithmic means as weights (LMDI) Σ w·Δ ln v is the whole change. Δ ln v is that of the token share (mix) and that of
TPOT = T_round / L_eff; L_eff = 1 + coverage · (L − 1) · (1 − φ) is shared between its three parts as the Shapley mean
over their orders. A stratum of one side only moves nothing but the mix. Every term changes sign exactly with the sides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from .cells_read import Frame
from .sums import Index, Mask, add_up

ACCOUNT = ("step_decode_ns", "step_tokens", "steps", "step_rounds", "step_accepted")


@dataclass(frozen=True)
class Terms:
    """The parts of Δ ln TPOT; positive ones made tokens slower."""

    round_time: float
    acceptance: float
    coverage: float
    truncation: float
    mix: float

    @property
    def total(self) -> float:
        return math.fsum(getattr(self, field.name) for field in fields(self))

    @property
    def largest(self) -> str:
        """Name of the largest term by magnitude."""
        return max((field.name for field in fields(self)), key=lambda name: abs(getattr(self, name)))


@dataclass(frozen=True)
class Account:
    """Decode time, tokens, steps, rounds and accepted tokens of one stratum on one side."""

    time: float
    tokens: float
    steps: float
    rounds: float
    accepted: float

    @property
    def present(self) -> bool:
        return self.time > 0 and self.tokens > 0 and self.steps > 0

    @property
    def length(self) -> float | None:
        return 1 + self.accepted / self.rounds if self.rounds > 0 else None

    @property
    def truncated_share(self) -> float | None:
        """φ; at most 1, beyond which the counts contradict each other."""
        if self.accepted <= 0:
            return None
        return min(1.0, (self.steps + self.accepted - self.tokens) / self.accepted)


def accounts(frame: Frame, stratum: Index, strata: int) -> list[Account]:
    """The accounts of a side, by stratum."""
    columns = [add_up(stratum, frame.columns[name], strata) for name in ACCOUNT]
    return [Account(*(float(value) for value in row)) for row in np.stack(columns, axis=1)]


def split(baseline: Sequence[Account], candidate: Sequence[Account]) -> Terms | None:
    """The terms of ln(TPOT candidate / TPOT baseline) over strata in the same order; None without time on a side."""
    tokens = [math.fsum(account.tokens for account in side) for side in (baseline, candidate)]
    times = [math.fsum(account.time for account in side) for side in (baseline, candidate)]
    if min(*tokens, *times) <= 0:
        return None
    whole = log_mean(times[0] / tokens[0], times[1] / tokens[1])
    parts: dict[str, list[float]] = {field.name: [] for field in fields(Terms)}
    for before, after in zip(baseline, candidate, strict=True):
        values = before.time / tokens[0], after.time / tokens[1]
        if not (before.present and after.present):
            parts["mix"].append((values[1] - values[0]) / whole)
            continue
        weight = log_mean(*values) / whole
        shares = before.tokens / tokens[0], after.tokens / tokens[1]
        parts["mix"].append(weight * (math.log(shares[1]) - math.log(shares[0])))
        times_per_step = before.time / before.steps, after.time / after.steps
        parts["round_time"].append(weight * (math.log(times_per_step[1]) - math.log(times_per_step[0])))
        for name, term in _length_terms(before, after).items():
            parts[name].append(-weight * term)
    return Terms(**{name: math.fsum(values) for name, values in parts.items()})


def log_mean(a: float, b: float) -> float:
    """The logarithmic mean (a − b) / (ln a − ln b), the same for both orders; 0 if one of them is 0."""
    low, high = min(a, b), max(a, b)
    if low <= 0:
        return 0.0
    growth = (high - low) / low
    return low if growth == 0 else (high - low) / math.log1p(growth)


def _length_terms(before: Account, after: Account) -> dict[str, float]:
    """Δ ln L_eff shared between acceptance, coverage and truncation.

    What a side cannot have (the length of rounds it did not run) is taken as the other side's: it moves nothing.
    What the three do not explain, because the counts contradict each other, goes to truncation.
    """
    lengths = _filled(before.length, after.length, 1.0)
    truncated = _filled(before.truncated_share, after.truncated_share, 0.0)
    coverages = before.rounds / before.steps, after.rounds / after.steps

    def log_length(length: int, coverage: int, truncation: int) -> float:
        gain = coverages[coverage] * (lengths[length] - 1) * (1 - truncated[truncation])
        return math.log1p(max(gain, -0.5))

    f = {(i, j, k): log_length(i, j, k) for i in (0, 1) for j in (0, 1) for k in (0, 1)}
    terms = {name: _shapley(f, axis) for axis, name in enumerate(("acceptance", "coverage", "truncation"))}
    rest = [
        math.log(account.tokens / account.steps) - f[key] for account, key in ((before, (0, 0, 0)), (after, (1, 1, 1)))
    ]
    terms["truncation"] = math.fsum((terms["truncation"], rest[1], -rest[0]))
    return terms


def _filled(before: float | None, after: float | None, neither: float) -> tuple[float, float]:
    """Both values, a missing one taken as the other."""
    return (
        before if before is not None else after if after is not None else neither,
        after if after is not None else before if before is not None else neither,
    )


def _shapley(values: Mapping[tuple[int, int, int], float], axis: int) -> float:
    """The mean gain of one of three parts over all orders in which they can change.

    The sum is exact, so that swapping the sides only flips its sign.
    """
    terms = []
    for key, value in values.items():
        others = {flag for place, flag in enumerate(key) if place != axis}
        weight = 2 if len(others) == 1 else 1
        terms.append(weight * value if key[axis] else -weight * value)
    return math.fsum(terms) / 6


def decode_share(side: Sequence[Account], part: Mask) -> float | None:
    """The share of a side's decode time in the strata of a mask; None without any."""
    total = math.fsum(account.time for account in side)
    inside = math.fsum(account.time for account, chosen in zip(side, part, strict=True) if chosen)
    return inside / total if total > 0 else None
