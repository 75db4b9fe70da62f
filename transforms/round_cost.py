"""The round-cost model, robust: T = c0 + c1·requests + c2·verified tokens + c3·prefill tokens + c4·draft passes.

Only what the observations tell apart is given: at one draft length requests and verified tokens move together, so
only their joint slope is known; draft passes need three lengths. A coefficient that is not identified is None.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

NAMES = ("c0", "c1", "c2", "c3", "c4")
LENGTHS_FOR_PASSES = 3
"""Two lengths can always be explained without draft passes; the third one is the first test of c4."""
HUBER = 1.345
"""Residuals beyond so many robust standard deviations lose weight; 95 % efficient under normal noise."""
ROUNDS_OF_REWEIGHTING = 50
RANK_TOLERANCE = 1e-9
CLUSTERS_FOR_SHOCKS = 8
"""With fewer clusters their common shocks cannot be estimated, and observations stand alone."""
LEAST_OBSERVATIONS = 8
"""Fewer distinct observations give no fit."""


@dataclass(frozen=True)
class Observations:
    """Mean round times under known work; all arrays have one element an observation.

    ``time_ms`` is the mean over ``weight`` rounds, ``verified`` and ``prefill`` are tokens of one round, ``passes`` is
    the draft length, ``cluster`` names what shares a shock (an hour of the deployment).
    """

    time_ms: Vector
    requests: Vector
    verified: Vector
    prefill: Vector
    passes: Vector
    weight: Vector
    cluster: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.time_ms)


@dataclass(frozen=True)
class Coefficient:
    """One identified coefficient in ms, with its 95 % interval."""

    value: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Fit:
    """What was identified, how well it fits, and where it holds."""

    coefficients: dict[str, Coefficient | None]
    slope: Coefficient | None
    """ms a request at the one draft length that ran, c1 + (K + 1)·c2; None where c1 and c2 are told apart."""
    lengths: tuple[int, ...]
    residual: float
    """Weighted median of |residual| / time: the typical relative error."""
    requests_range: tuple[float, float]
    verified_range: tuple[float, float]
    observations: int
    clusters: int
    _design: Vector
    _solution: Vector
    _covariance: Vector
    _quantile: float
    _columns: tuple[str, ...]

    def predict(self, requests: float, length: int, verified: float | None = None) -> Coefficient | None:
        """The time of a round without prefill work, in ms; None where the observations do not tell it."""
        tokens = requests * (length + 1) if verified is None else verified
        work = {"c0": 1.0, "c1": requests, "c2": tokens, "c3": 0.0, "c4": float(length)}
        if "c4" not in self._columns and self.lengths and not min(self.lengths) <= length <= max(self.lengths):
            return None
        row = np.array([work[name] for name in self._columns])
        return _estimate(row, self._design, self._solution, self._covariance, self._quantile)


def fit(data: Observations) -> Fit | None:
    """The model fitted to the observations; None where there are too few.

    Weighted least squares with Huber weights; the covariance is robust to shocks that a cluster shares (or, with fewer
    than eight clusters, to unequal variances). Source of the model: the definition of the round-cost model.
    """
    if len(data) < LEAST_OBSERVATIONS:
        return None
    lengths = tuple(int(length) for length in np.unique(data.passes))
    columns = ["c0", "c1", "c2"]
    columns += ["c3"] if np.any(data.prefill > 0) else []
    columns += ["c4"] if len(lengths) >= LENGTHS_FOR_PASSES else []
    source = {
        "c0": np.ones(len(data)), "c1": data.requests, "c2": data.verified, "c3": data.prefill, "c4": data.passes,
    }  # fmt: skip
    design = np.column_stack([source[name] for name in columns])
    solution, weight, slope_weight = _robust(design, data.time_ms, data.weight)
    residual = data.time_ms - design @ solution
    covariance, quantile = _covariance(design, weight * residual, slope_weight, data.cluster)

    def identified(row: Vector) -> Coefficient | None:
        return _estimate(row, design, solution, covariance, quantile)

    found = {name: identified(_unit(columns, name)) if name in columns else None for name in NAMES}
    slope = None
    if found["c2"] is None and len(lengths) == 1:
        slope = identified(_unit(columns, "c1") + (lengths[0] + 1) * _unit(columns, "c2"))
    return Fit(
        coefficients=found,
        slope=slope,
        lengths=lengths,
        residual=_weighted_median(np.abs(residual) / data.time_ms, data.weight),
        requests_range=(float(data.requests.min()), float(data.requests.max())),
        verified_range=(float(data.verified.min()), float(data.verified.max())),
        observations=len(data),
        clusters=len(np.unique(data.cluster)),
        _design=design,
        _solution=solution,
        _covariance=covariance,
        _quantile=quantile,
        _columns=tuple(columns),
    )


def _robust(design: Vector, time: Vector, weight: Vector) -> tuple[Vector, Vector, Vector]:
    """Coefficients of iteratively reweighted least squares, the final weights, and their slopes.

    The slope of an observation is how fast its weighted residual grows: its full weight, or nothing once it is held.

    Errors grow with the time itself, so residuals are judged relative to the fitted time: weighting by the observed
    one would favour the rounds that happened to be short.
    """
    solution = _least_squares(design, time, weight)
    used = slope = weight
    floor = float(np.min(time)) / 2
    for _ in range(ROUNDS_OF_REWEIGHTING):
        fitted = np.maximum(design @ solution, floor)
        relative = (time - design @ solution) / fitted * np.sqrt(weight)
        spread = 1.4826 * float(np.median(np.abs(relative - np.median(relative))))
        distance = np.abs(relative) / spread if spread > 0 else np.zeros_like(relative)
        full = weight / np.square(fitted)
        used = full * np.where(distance <= HUBER, 1.0, HUBER / np.maximum(distance, HUBER))
        slope = full * (distance <= HUBER)
        updated = _least_squares(design, time, used)
        settled = bool(np.allclose(updated, solution, rtol=1e-9, atol=1e-12))
        solution = updated
        if settled:
            break
    return solution, used, slope


def _least_squares(design: Vector, time: Vector, weight: Vector) -> Vector:
    root = np.sqrt(weight)
    scale = np.linalg.norm(design * root[:, None], axis=0)
    scale[scale == 0] = 1.0
    found: Vector = np.linalg.lstsq(design * root[:, None] / scale, time * root, rcond=RANK_TOLERANCE)[0] / scale
    return found


def _covariance(
    design: Vector, weighted_residual: Vector, slope: Vector, cluster: NDArray[np.int64]
) -> tuple[Vector, float]:
    """Covariance of the coefficients by leaving out one cluster at a time, and the t quantile of its 95 % interval."""
    from scipy.stats import t

    names, index = np.unique(cluster, return_inverse=True)
    if len(names) < CLUSTERS_FOR_SHOCKS:
        names, index = np.arange(len(slope)), np.arange(len(slope))
    scale = np.linalg.norm(design, axis=0)
    scale[scale == 0] = 1.0
    scaled = design / scale
    scores = np.zeros((len(names), design.shape[1]))
    np.add.at(scores, index, scaled * weighted_residual[:, None])
    parts = np.zeros((len(names), design.shape[1], design.shape[1]))
    np.add.at(parts, index, scaled[:, :, None] * scaled[:, None, :] * slope[:, None, None])
    left_out = np.linalg.pinv(parts.sum(axis=0) - parts, rcond=1e-10, hermitian=True)
    moves = np.einsum("gij,gj->gi", left_out, scores)
    covariance = (len(names) - 1) / len(names) * moves.T @ moves
    freedom = max(len(names) - int(np.linalg.matrix_rank(scaled)), 1)
    return covariance / np.outer(scale, scale), float(t.ppf(0.975, freedom))


def _estimate(row: Vector, design: Vector, solution: Vector, covariance: Vector, quantile: float) -> Coefficient | None:
    """A linear combination of the coefficients, if the observations determine it."""
    scale = np.linalg.norm(design, axis=0)
    scale[scale == 0] = 1.0
    _, singular, right = np.linalg.svd(design / scale, full_matrices=False)
    basis = right[singular > RANK_TOLERANCE * singular[0]]
    wanted = row / scale
    norm = float(np.linalg.norm(wanted))
    if norm > 0 and np.linalg.norm(wanted - basis.T @ (basis @ wanted)) > 1e-6 * norm:
        return None
    value = float(row @ solution)
    half = quantile * math.sqrt(max(float(row @ covariance @ row), 0.0))
    return Coefficient(value, value - half, value + half)


def _unit(columns: Sequence[str], name: str) -> Vector:
    return np.array([float(column == name) for column in columns])


def _weighted_median(values: Vector, weight: Vector) -> float:
    order = np.argsort(values)
    cumulative = np.cumsum(weight[order])
    return float(values[order][np.searchsorted(cumulative, cumulative[-1] / 2)])


@dataclass(frozen=True)
class Cliff:
    """A step in round time where the scheduled tokens pass a captured graph size."""

    size: int
    """Greatest number of scheduled tokens before the step."""
    first_beyond: int
    ratio: float
    """Time beyond the step over what the times before it foretell."""
    lower: float


CLIFF_RATIO = 1.25
"""Smaller steps are within what padding to the next captured size costs anyway."""
CLIFF_LEVELS = 3
"""So many distinct token counts are needed before the step, and one beyond."""


def find_cliff(verified: Vector, time_ms: Vector, weight: Vector, deviation: Vector) -> Cliff | None:
    """The largest step of round time over scheduled tokens; None without a clear one.

    All arrays have one element a distinct token count of iterations without prefill work: mean time, iterations behind
    it, and standard deviation of one iteration. The step must exceed CLIFF_RATIO with its whole 95 % interval.
    """
    order = np.argsort(verified)
    tokens, time, count, spread = verified[order], time_ms[order], weight[order], deviation[order]
    best: Cliff | None = None
    for split in range(CLIFF_LEVELS, len(tokens)):
        before = np.column_stack([np.ones(split), tokens[:split]])
        line = _least_squares(before, time[:split], count[:split])
        expected = line[0] + line[1] * tokens[split:]
        if np.any(expected <= 0):
            continue
        relative = time[split:] / expected
        share = count[split:] / count[split:].sum()
        ratio = float(share @ relative)
        noise = float(np.sqrt(np.sum(np.square(share * spread[split:] / expected) / np.maximum(count[split:], 1.0))))
        scatter = time[:split] / (before @ line) - 1.0
        noise = float(np.hypot(noise, np.sqrt(np.average(np.square(scatter), weights=count[:split]))))
        lower = ratio - 1.96 * noise
        immediate = float(time[split] / expected[0])
        if lower > CLIFF_RATIO and immediate > CLIFF_RATIO and (best is None or ratio > best.ratio):
            best = Cliff(int(tokens[split - 1]), int(tokens[split]), ratio, lower)
    return best
