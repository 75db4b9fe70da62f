"""What a schedule would have cost over past nights against what ran, and how long a canary takes to prove it."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from .evidence import BandEvidence, Evidence
from .interval import MIN_UNITS, POWER, critical, t_quantile
from .scatter import Hourly
from .schedule import length_at

SHARES = (0.05, 0.10, 0.25, 0.50)
"""Shares of the traffic that a canary may get."""
LONGEST_CANARY = 24
"""Hours after which the next larger share is tried."""
LIMIT_HOURS = 2_000
"""A canary of three months is none."""


@dataclass(frozen=True)
class Saving:
    """Engine time that a schedule would have saved, with its 95 % interval; negative where it would have cost more."""

    unit: str
    """GPU-hours a night, or engine-hours a night where the GPUs of an engine are not known."""
    spent: float
    """What ran, where the schedule's lengths have evidence."""
    saved: float
    interval: tuple[float, float]
    share_without_evidence: float | None
    """Share of engine time at which the schedule's length has no evidence."""
    nights: int

    @property
    def change(self) -> float:
        """Relative change of TPOT over all bands."""
        return -self.saved / self.spent if self.spent > 0 else 0.0


def price(found: Evidence, schedule: Sequence[Sequence[int]]) -> Saving:
    """What a schedule would have saved over the nights looked at.

    Engine time scales with the time per token of its band, so the same tokens are priced.
    """
    spent = saved = without = variance = 0.0
    gpus = {known.load.gpus for known in found.bands.values() if known.load.seconds and known.times}
    for known in found.bands.values():
        for length, share in _shares(known, schedule).items():
            seconds = known.load.seconds * share
            gain = _gain(known, length)
            if gain is None:
                without += seconds
                continue
            spent += seconds
            saved += seconds * gain[0]
            variance += (seconds * gain[1]) ** 2
    nights = len(found.dates)
    each = next(iter(gpus)) if len(gpus) == 1 else None
    factor = (each or 1.0) / 3_600 / nights
    half = math.sqrt(variance)
    return Saving(
        "engine-hours a night" if each is None else "GPU-hours a night",
        spent * factor,
        saved * factor,
        ((saved - half) * factor, (saved + half) * factor),
        without / (spent + without) if spent + without else None,
        nights,
    )


def _shares(known: BandEvidence, schedule: Sequence[Sequence[int]]) -> dict[int, float]:
    """Draft length → share of the band's time at the loads to which the schedule gives it."""
    shares: dict[int, float] = {}
    for load, share in known.times.items():
        length = length_at(schedule, load)
        shares[length] = shares.get(length, 0.0) + share
    return shares


def _gain(known: BandEvidence, length: int) -> tuple[float, float] | None:
    """Share of a band's time that a length saves against what ran, and half the width of its interval."""
    option = next((one for one in known.options if one.length == length), None)
    own = [one for one in known.ran if one.own]
    tokens = math.fsum(one.tokens for one in own)
    if option is None or not tokens:
        return None
    now = math.fsum(one.decode_ms for one in own) / tokens
    ratio = option.tpot_ms / now
    # What ran holds the length itself: that part of both moves together and saves nothing.
    terms = [ratio * one.tokens / tokens * one.tpot_ms / now * one.margin for one in own if one.length != length]
    itself = math.fsum(one.tokens / tokens for one in own if one.length == length)
    terms.append(option.margin_ms / now * abs(1 - ratio * itself))
    return 1 - ratio, math.hypot(*terms)


@dataclass(frozen=True)
class Canary:
    """A share of the traffic and the hours in which it proves something of TPOT with probability POWER."""

    share: float
    hours: int


@dataclass(frozen=True)
class CanaryPlan:
    """What it takes to prove a schedule beside the one in force."""

    expected_change: float
    """Relative change of TPOT that is foretold."""
    tolerance: float
    passes_gate: Canary | None
    """Proves that TPOT is not worse than the tolerance of its gate; None where that takes months."""
    shows_gain: Canary | None
    """Proves that TPOT is better at all; None where no gain is foretold or it takes months."""
    unit: str
    """What the scatter of hours was taken from; blocks understate what an hour can do."""


def canary_plan(change: float, scatter: Hourly | None, tolerance: float) -> CanaryPlan | None:
    """The plan for a foretold relative change of TPOT; None without the scatter of hours."""
    if scatter is None or change <= -1:
        return None
    log = math.log1p(change)
    return CanaryPlan(
        change,
        tolerance,
        _smallest(math.log1p(tolerance) - log, scatter),
        _smallest(-log, scatter),
        scatter.unit,
    )


def _smallest(distance: float, scatter: Hourly) -> Canary | None:
    """The smallest share that gets there within LONGEST_CANARY, else the largest share."""
    for share in SHARES:
        hours = hours_needed(distance, scatter, share)
        if hours is not None and (hours <= LONGEST_CANARY or share == SHARES[-1]):
            return Canary(share, hours)
    return None


def hours_needed(distance: float, scatter: Hourly, share: float) -> int | None:
    """Hours until the 95 % interval of ln(TPOT candidate / baseline) leaves out what lies ``distance`` away.

    Both sides run side by side, the candidate with ``share`` of the traffic; None beyond LIMIT_HOURS.
    """
    if distance <= 0:
        return None
    variance = scatter.variance(share) + scatter.variance(1 - share)

    def enough(hours: int) -> bool:
        freedom = 2.0 * (hours - 1)
        return (critical(freedom) + t_quantile(POWER, freedom)) * math.sqrt(variance / hours) <= distance

    found = MIN_UNITS + bisect_left(range(MIN_UNITS, LIMIT_HOURS + 1), True, key=enough)
    return found if found <= LIMIT_HOURS else None
