"""What a round would take at a load and draft length that did not run there, from a row of the mart ``round_cost``.

The model is T = c0 + c1·requests + c2·verified tokens + c3·prefill tokens + c4·draft passes, where a round verifies
requests·(draft length + 1) tokens. It answers only what its observations determine, and only where they lie.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import datetime as dt

LENGTHS_FOR_PASSES = 3
"""With fewer lengths the draft passes are not told apart, and a length beyond those that ran is not foretold."""
BLIND = 1e-6
"""A combination of costs counts as determined where its share in a direction without data is below this."""
EDGE = 0.05
"""Loads are kept in steps of 5 %: work so far beyond what was observed still counts as observed."""
NORMAL_QUANTILE = 1.96
MEDIAN_TO_DEVIATION = 1.4826
"""A median of absolute residuals times this is a standard deviation under normal errors."""


@dataclass(frozen=True)
class CostModel:
    """One row of ``round_cost``, as far as predictions need it; times in ms.

    ``solution`` is in the order c0 … c4, ``covariance`` the same row by row, ``blind`` the directions of the costs that
    the observations do not determine, five numbers each. ``requests_from`` and ``requests_to`` belong to ``lengths``.
    """

    lengths: Sequence[int]
    requests_from: Sequence[float]
    requests_to: Sequence[float]
    verified_min: float
    verified_max: float
    relative_error: float
    solution: Sequence[float]
    covariance: Sequence[float]
    blind: Sequence[float]
    quantile: float
    date: dt.date | None = None
    deployment: str | None = None
    origin: str | None = None
    deployments: Sequence[str] = ()


@dataclass(frozen=True)
class Predicted:
    """A round time in ms with its 95 % interval, which holds the error of the costs and the misfit of the model."""

    value_ms: float
    lower_ms: float
    upper_ms: float


@dataclass(frozen=True)
class NotPredicted:
    """Why there is no value."""

    reason: str


def predict(model: CostModel, requests: float, length: int, prefill_tokens: float = 0.0) -> Predicted | NotPredicted:
    """The time of one round of ``requests`` requests with ``length`` draft tokens each (0: ordinary decode).

    ``prefill_tokens`` are computed in the same iteration: at one load and mix of requests they grow with the tokens that a
    round returns, so another length has L_eff(length) / L_eff times those of the length that ran. Multiply with a measured round time over its own prediction
    where clocks differ: iterations are timed inside the engine, steps as they are returned.
    """
    verified = requests * (length + 1)
    outside = _outside(model, requests, length, verified)
    if outside:
        return NotPredicted(outside)
    work = (1.0, requests, verified, prefill_tokens, float(length))
    for direction in _rows(model.blind):
        parts = [weight * amount for weight, amount in zip(direction, work, strict=True)]
        if abs(sum(parts)) > BLIND * sum(map(abs, parts)):
            return NotPredicted(
                f"what {length} draft tokens cost at {requests:g} requests is not told apart by the data"
            )
    value = _dot(model.solution, work)
    if value <= 0:
        return NotPredicted("the model gives no positive time here")
    variance = sum(weight * _dot(row, work) for weight, row in zip(work, _rows(model.covariance), strict=True))
    misfit = NORMAL_QUANTILE * MEDIAN_TO_DEVIATION * model.relative_error * value
    half = math.hypot(model.quantile * math.sqrt(max(variance, 0.0)), misfit)
    return Predicted(value, value - half, value + half)


def _outside(model: CostModel, requests: float, length: int, verified: float) -> str | None:
    """Why the work lies outside of what was observed; None where it does not."""
    shortest, longest = min(model.lengths), max(model.lengths)
    low, high = min(model.requests_from), max(model.requests_to)
    if len(model.lengths) < LENGTHS_FOR_PASSES:
        if not shortest <= length <= longest:
            return f"only draft lengths {_listed(model.lengths)} ran, and three are needed to foretell others"
        # Two lengths are two lines, each known only where its own rounds ran.
        beside = [at for at, ran in enumerate(model.lengths) if ran == length] or range(len(model.lengths))
        low = max(model.requests_from[at] for at in beside)
        high = min(model.requests_to[at] for at in beside)
    if not low * (1 - EDGE) <= requests <= high * (1 + EDGE):
        return f"{requests:g} requests are outside of the {low:g} to {high:g} that the model was fitted on"
    if not model.verified_min * (1 - EDGE) <= verified <= model.verified_max * (1 + EDGE):
        return (
            f"{verified:g} verified tokens are outside of the {model.verified_min:g} to {model.verified_max:g} "
            "that the model was fitted on"
        )
    return None


def _rows(flat: Sequence[float]) -> list[Sequence[float]]:
    return [flat[at : at + 5] for at in range(0, len(flat), 5)]


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def _listed(lengths: Sequence[int]) -> str:
    return ", ".join(map(str, lengths))
