"""Stalls of preemption inside round times.

A request that is thrown out of a full KV cache waits, and is computed again; the server counts all of that as the time
of its next step. Where much was preempted, round time and TPOT therefore tell of the cache and not of the draft.
"""

from __future__ import annotations

from .model import BandFigures

STALLED = 1e-4
"""Preemptions a step from which round times are not those of rounds: a stall is worth some 40 rounds where it was
measured (requests of 70 tokens, 3 drafted), and of 100 rounds this would be a hundredth of the time."""

UNDRAFTED = 0.01
"""Share of steps that may have no draft, beside those after preemptions, where a drafter is said to draft always."""


def stalled(band: BandFigures) -> bool:
    """Whether the round times of a band hold the stalls of many preemptions, as far as its preemptions are known."""
    steps = band.steps or band.output_tokens  # no more steps than tokens
    return bool(band.preemptions and steps and band.preemptions > STALLED * steps)
