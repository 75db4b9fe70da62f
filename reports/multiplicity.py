"""Many gates at once: Benjamini–Hochberg over all that could fail, so that the rate of false failures is held."""

from __future__ import annotations

from collections.abc import Sequence

FALSE_DISCOVERY_RATE = 0.05
"""Accepted share of false failures among all failures of interval gates."""


def survivors(p_values: Sequence[float], rate: float) -> list[bool]:
    """Which hypotheses are rejected by Benjamini–Hochberg at a rate.

    The largest k with p_(k) <= k / m · rate, and all with a p value up to that one.
    """
    ordered = sorted(p_values)
    cutoff = max(
        (p for rank, p in enumerate(ordered, start=1) if p <= rank / len(ordered) * rate),
        default=-1.0,
    )
    return [p <= cutoff for p in p_values]
