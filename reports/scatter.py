"""How far the time per token of one length at one load may be off, and how much it moves from hour to hour.

The unit is the night where there are 5, else the hour where there are 8, else the 10-minute block where there are 8,
else the single observation; its residuals are those of decode time about tokens · TPOT. Observations that run together
share the times of their rounds, which then count as those of one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .interval import MIN_UNITS, critical
from .nights import MIN_NIGHTS
from .sums import Index, Vector, add_up

UNKNOWN_ERROR = 0.05
"""Relative error of 100 steps, when no group of observations tells the scatter."""
OBSERVATION = "observation"
HOURS_A_NIGHT = 24
BLOCKS_AN_HOUR = 6


@dataclass(frozen=True)
class Sample:
    """What one length did at one load band, one element an hour's 10-minute block; times in ms.

    ``night`` and ``block`` (of the night) are numbers. ``squares`` is Σ over observations of the squared residual of
    decode time about steps · mean step time at their load, ``observations`` their number, ``freedom`` that number less
    the loads that there are.
    """

    length: int
    night: Index
    block: Index
    steps: Vector
    tokens: Vector
    decode_ms: Vector
    squares: float
    observations: float
    freedom: float
    together: float = 1.0
    """How many observations share their rounds."""

    def units(self) -> list[tuple[str, Index, int]]:
        """Units from the largest to the smallest: name, number of each element's unit, and how many must be there."""
        blocks_a_night = HOURS_A_NIGHT * BLOCKS_AN_HOUR
        block = self.night * blocks_a_night + self.block
        return [
            ("night", self.night, MIN_NIGHTS),
            ("hour", block // BLOCKS_AN_HOUR, MIN_UNITS),
            ("block", block, MIN_UNITS),
        ]


def step_variance(samples: Sequence[Sample]) -> tuple[float, float]:
    """Relative variance of the time of one step, pooled over all samples, and its degrees of freedom.

    A sample of two observations says next to nothing of its own scatter, all samples together say enough.
    """
    freedom = effective = squares = 0.0
    for sample in samples:
        time, steps = float(sample.decode_ms.sum()), float(sample.steps.sum())
        if sample.freedom > 0 and time > 0:
            freedom += sample.freedom
            effective += sample.freedom / sample.together
            squares += sample.observations * sample.squares / time**2 * steps
    return (squares / freedom, max(effective, 1.0)) if freedom else (UNKNOWN_ERROR**2 * 100, math.inf)


def margin(sample: Sample, step: tuple[float, float]) -> tuple[float, str]:
    """Half the width of the 95 % interval of TPOT, relative, and the unit that it rests on.

    ``step`` is the pooled variance of a step with its degrees of freedom, for samples of too few units.
    """
    for name, unit, least in sample.units():
        error, units = _error(sample, unit)
        if units >= least:
            return critical(units - 1) * error, name
    steps, tokens = float(sample.steps.sum()), float(sample.tokens.sum())
    # The accepted tokens of a step lie between 0 and its length, which bounds their variance.
    accepted = max(tokens / steps - 1, 0.0)
    of_length = max(accepted * (sample.length - accepted), 0.0) / steps / (tokens / steps) ** 2
    variance, freedom = step
    return critical(freedom) * math.sqrt(variance * sample.together / steps + of_length), OBSERVATION


def _error(sample: Sample, unit: Index) -> tuple[float, int]:
    """Relative standard error of the ratio of time to tokens over units, and how many there are."""
    names, code = np.unique(unit, return_inverse=True)
    units, time = len(names), float(sample.decode_ms.sum())
    if units < 2:
        return math.inf, units
    residual = add_up(code, sample.decode_ms - time / sample.tokens.sum() * sample.tokens, units)
    return math.sqrt(units / (units - 1) * float(residual @ residual)) / time, units


@dataclass(frozen=True)
class Hourly:
    """How much the TPOT of a deployment moves from one hour to the next at equal load and length.

    ``between`` is the relative variance that all requests of an hour share, ``steps`` what an hour holds on average,
    ``step`` the relative variance of a single step.
    """

    between: float
    step: float
    steps: float
    unit: str

    def variance(self, share: float) -> float:
        """Relative variance of the TPOT of one hour in which only a share of the traffic is seen."""
        return self.between + self.step / (self.steps * share)


def hourly(samples: Sequence[Sample]) -> Hourly | None:
    """The scatter of hours; from blocks where there are fewer than 8 hours. None with fewer than 8 blocks."""
    if not samples:
        return None
    steps = np.concatenate([sample.steps for sample in samples])
    tokens, time = (np.concatenate([getattr(sample, name) for sample in samples]) for name in ("tokens", "decode_ms"))
    expected = np.concatenate([s.tokens * float(s.decode_ms.sum() / s.tokens.sum()) for s in samples])
    night, block = (np.concatenate([getattr(sample, name) for sample in samples]) for name in ("night", "block"))
    whole = Sample(0, night, block, steps, tokens, time, 0.0, 0.0, 0.0)
    step = step_variance(samples)[0]
    for name, unit, least in whole.units()[1:]:
        names, code = np.unique(unit, return_inverse=True)
        units = len(names)
        if units < least:
            continue
        residual = add_up(code, time - expected, units)
        seen = units / (units - 1) * float(residual @ residual) / (float(time.sum()) / units) ** 2 / units
        in_hour = 1 if name == "hour" else BLOCKS_AN_HOUR
        inside = step * units / float(steps.sum())
        return Hourly(max(seen - inside, 0.0) / in_hour, step, float(steps.sum()) / units * in_hour, name)
    return None
