"""Steps of round time: beyond a captured graph size an iteration runs without its graph and takes far longer."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..schemas.cost_model import MEDIAN_TO_DEVIATION
from .round_cost import EXACT, Vector, robust_line, weighted_median


@dataclass(frozen=True)
class Cliff:
    """A step in round time where the scheduled tokens pass a captured graph size, with its 95 % interval."""

    size: int
    """Greatest number of scheduled tokens before the step."""
    first_beyond: int
    ratio: float
    """Time beyond the step over what the times before it foretell."""
    jump_ms: float
    """Time beyond the step less what the times before it foretell."""
    jump_ms_lower: float
    jump_ms_upper: float


CLIFF_RATIO = 1.25
"""Smaller steps are within what padding to the next captured size costs anyway."""
CLIFF_LEVELS = 3
"""So many distinct token counts are needed before the step, and one beyond."""
CLIFF_REACH = 2
CLIFF_OBSERVATIONS = 30
"""So many iterations (or intervals) are needed beyond the step: a stalled one must not make it."""


def find_cliff(verified: Vector, time_ms: Vector, weight: Vector, deviation: Vector) -> Cliff | None:
    """The step of round time over scheduled tokens that explains it best; None without a clear one.

    All arrays have one element an observation of rounds of one draft length without prefill work: mean time, iterations
    behind it, and standard deviation of one iteration. The step must exceed CLIFF_RATIO with its whole 95 % interval.
    Medians are taken throughout, for a stalled iteration is no step.
    """
    # All observations together tell what one iteration may be off by: a single one shows no spread of its own, and
    # where a mean shows far more, a stalled iteration is in it.
    single = max(weighted_median(deviation / time_ms, weight), EXACT)
    usual = single * time_ms
    trusted = weight * np.square(usual / np.maximum(deviation, usual))
    tokens, index = np.unique(np.rint(verified), return_inverse=True)
    held = [index == level for level in range(len(tokens))]
    time = np.array([weighted_median(time_ms[level], trusted[level]) for level in held])
    seen = np.array([weight[level].sum() for level in held])
    count = np.array([trusted[level].sum() for level in held])
    spread = np.array([math.sqrt(np.average(np.square(deviation[level]), weights=trusted[level])) for level in held])
    best: Cliff | None = None
    least = math.inf
    for split in range(CLIFF_LEVELS, len(tokens)):
        # Further out than twice the tokens before the step, the line through these says little.
        beyond = slice(split, int(np.searchsorted(tokens, CLIFF_REACH * tokens[split - 1], "right")))
        weights = count[beyond]
        if (
            seen[beyond].sum() < CLIFF_OBSERVATIONS
            or time[split] <= CLIFF_RATIO * time[split - CLIFF_LEVELS : split].min()
        ):
            continue
        before = np.column_stack([np.ones(split), tokens[:split]])
        line = robust_line(before, time[:split], count[:split])[0]
        expected = line[0] + line[1] * tokens[beyond]
        if np.any(expected <= 0):
            continue
        relative = time[beyond] / expected
        ratio = weighted_median(relative, weights)
        at_once = min(relative[0], weighted_median(relative[:CLIFF_LEVELS], weights[:CLIFF_LEVELS]))
        deviations = np.maximum(spread[beyond], single * time[beyond]) / expected
        noise = math.sqrt(np.sum(weights * np.square(deviations))) / weights.sum()
        centre = np.average(tokens[:split], weights=count[:split])
        width = math.sqrt(np.average(np.square(tokens[:split] - centre), weights=count[:split]))
        stretch = math.hypot(1.0, float(np.average(tokens[beyond], weights=weights) - centre) / width)
        scatter = MEDIAN_TO_DEVIATION * weighted_median(np.abs(time[:split] / (before @ line) - 1.0), count[:split])
        misfit = math.hypot(scatter, single / math.sqrt(count[:split].sum()))
        half = 1.96 * math.hypot(noise, misfit * stretch)
        if min(ratio - half, at_once) <= CLIFF_RATIO:
            continue
        step = np.column_stack([np.ones(len(tokens)), tokens, np.arange(len(tokens)) >= split])
        error = float(count @ np.abs(time - step @ robust_line(step, time, count)[0]))
        if error < least:
            least = error
            jump = weighted_median(time[beyond] - expected, weights)
            half *= float(np.average(expected, weights=weights))
            best = Cliff(int(tokens[split - 1]), int(tokens[split]), ratio, jump, jump - half, jump + half)
    return best
