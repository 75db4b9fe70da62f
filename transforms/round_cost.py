"""The round-cost model, robust: T = c0 + c1·requests + c2·verified tokens + c3·prefill tokens + c4·draft passes.

Only what the observations tell apart is given: at one draft length requests and verified tokens move together, so
only their joint slope is known; draft passes need three lengths. A coefficient that is not identified is None.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..schemas.cost_model import BLIND, LENGTHS_FOR_PASSES, MEDIAN_TO_DEVIATION

Vector = NDArray[np.float64]

NAMES = ("c0", "c1", "c2", "c3", "c4")
LEAST_SHARE = 0.01
"""A draft length of fewer rounds is an exception (a draft cut short), and what else it changed is not known."""
HUBER = 1.345
"""Residuals beyond so many robust standard deviations lose weight; 95 % efficient under normal noise."""
ROUNDS_OF_REWEIGHTING = 50
RANK_TOLERANCE = 1e-9
EXACT = 1e-6
"""Relative residuals below this are rounding: none of them is an outlier."""
FLAT = 1e-10
"""Curvature below this share of the greatest one tells nothing."""
TINY = 1e-300
"""Keeps sums of nothing from being divided by."""
CLUSTERS_FOR_SHOCKS = 8
"""With fewer clusters their common shocks cannot be estimated, and observations stand alone."""
LEAST_OBSERVATIONS = 8
"""Fewer distinct observations give no fit."""
TOLD = 0.2
"""A cost whose interval, over typical work, exceeds this share of a round on either side is not told apart."""


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

    def where(self, chosen: NDArray[np.bool_]) -> Observations:
        """The observations that are chosen."""
        return Observations(**{name: getattr(self, name)[chosen] for name in self.__dataclass_fields__})


@dataclass(frozen=True)
class Coefficient:
    """One identified coefficient in ms, with its 95 % interval."""

    value: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Fit:
    """What was identified, how well it fits, and where it holds: what ``CostModel`` asks for, and the single costs."""

    coefficients: dict[str, Coefficient | None]
    slope: Coefficient | None
    """ms a request at the one draft length that ran, c1 + (K + 1)·c2; None where c1 and c2 are told apart."""
    not_identified: str | None
    """In words, which costs are not and why."""
    lengths: list[int]
    requests_from: list[float]
    requests_to: list[float]
    verified_min: float
    verified_max: float
    relative_error: float
    """Median of |residual| / time over steps: the typical relative error."""
    observations: int
    clusters: int
    solution: list[float]
    """In the order of NAMES; 0 for what was not in the design."""
    covariance: list[float]
    """The same, row by row."""
    blind: list[float]
    """Directions of the costs that the observations do not determine, five numbers each."""
    quantile: float


def fit(data: Observations) -> Fit | None:
    """The model fitted to the observations; None where there are too few.

    Weighted least squares with Huber weights; the covariance is robust to shocks that a cluster shares (or, with fewer
    than eight clusters, to unequal variances). Draft passes have their own cost as soon as two lengths ran, for else it
    would go to verified tokens; but only with three lengths is it tested that it grows with the passes. At one length
    it is part of c0. Source of the model: the definition of the round-cost model.
    """
    data = _usual(data)
    if len(data) < LEAST_OBSERVATIONS:
        return None
    lengths = [int(length) for length in np.unique(data.passes)]
    ones, nothing = np.ones(len(data)), np.zeros(len(data))
    design = np.column_stack(
        [ones, data.requests, data.verified, data.prefill, data.passes if len(lengths) > 1 else nothing]
    )
    solution, weight, slope_weight = robust_line(design, data.time_ms, data.weight)
    residual = data.time_ms - design @ solution
    covariance, blind, quantile = _left_out(
        design, weight * residual, slope_weight, data.cluster, fitted=5 if len(lengths) > 1 else 4
    )
    typical = np.array([np.average(column, weights=data.weight * (column > 0) + TINY) for column in design.T])
    time = float(np.average(data.time_ms, weights=data.weight))

    def identified(row: Vector, work: float) -> Coefficient | None:
        parts = np.abs(blind * row).sum(axis=1)
        if np.any(np.abs(blind @ row) > BLIND * np.maximum(parts, TINY)):
            return None
        value = float(row @ solution)
        half = quantile * math.sqrt(max(float(row @ covariance @ row), 0.0))
        return Coefficient(value, value - half, value + half) if half * work <= TOLD * time else None

    found = {name: identified(row, typical[at]) for at, (name, row) in enumerate(zip(NAMES, np.eye(5), strict=True))}
    if len(lengths) < LENGTHS_FOR_PASSES:
        found["c4"] = None
        found["c0"] = found["c0"] if len(lengths) == 1 or 0 in lengths else None
    if found["c1"] is None or found["c2"] is None:
        found["c1"] = found["c2"] = None
    slope = None
    if len(lengths) == 1:
        slope = identified(np.array([0.0, 1.0, lengths[0] + 1.0, 0.0, 0.0]), typical[1])
    ran = [data.requests[data.passes == length] for length in lengths]
    return Fit(
        coefficients=found,
        slope=slope,
        not_identified=_words(found, lengths, typical[3] > 0),
        lengths=lengths,
        requests_from=[float(requests.min()) for requests in ran],
        requests_to=[float(requests.max()) for requests in ran],
        verified_min=float(data.verified.min()),
        verified_max=float(data.verified.max()),
        relative_error=weighted_median(np.abs(residual) / data.time_ms, data.weight * data.requests),
        observations=len(data),
        clusters=len(np.unique(data.cluster)),
        solution=solution.tolist(),
        covariance=covariance.ravel().tolist(),
        blind=blind.ravel().tolist(),
        quantile=quantile,
    )


def _usual(data: Observations) -> Observations:
    """The observations at draft lengths that are no exceptions."""
    lengths, index = np.unique(data.passes, return_inverse=True)
    share = np.bincount(index, data.weight, len(lengths)) / max(data.weight.sum(), TINY)
    return data.where(share[index] >= LEAST_SHARE)


def _words(found: dict[str, Coefficient | None], lengths: list[int], prefilled: bool) -> str | None:
    reasons = []
    if found["c0"] is None:
        few = len(lengths) > 1 and len(lengths) < LENGTHS_FOR_PASSES and 0 not in lengths
        reasons.append(
            "c0: needs ordinary decode or three draft lengths"
            if few
            else "c0: the loads and lengths do not tell it apart"
        )
    elif lengths[0] > 0 and len(lengths) == 1:
        reasons.append("c0 includes the draft passes")
    if found["c1"] is None:
        one = len(lengths) == 1
        reasons.append(
            f"c1 and c2: only draft length {lengths[0]} ran, so requests and verified tokens grow together"
            if one
            else "c1 and c2: the loads and lengths do not tell requests and verified tokens apart"
        )
    if found["c3"] is None:
        reasons.append(f"c3: {'too little' if prefilled else 'no'} prefill work was seen")
    if found["c4"] is None:
        few = len(lengths) < LENGTHS_FOR_PASSES
        reasons.append("c4: needs three draft lengths" if few else "c4: the loads and lengths do not tell it apart")
    return "; ".join(reasons) or None


def robust_line(design: Vector, time: Vector, weight: Vector) -> tuple[Vector, Vector, Vector]:
    """Coefficients of iteratively reweighted least squares, the final weights, and their slopes.

    The slope of an observation is how fast its weighted residual grows: its full weight, or nothing once it is held.

    Errors grow with the time itself, so residuals are judged relative to the fitted time: weighting by the observed
    one would favour the rounds that happened to be short.
    """
    solution = _least_squares(design, time, weight)
    used = slope = weight
    floor = float(np.min(time)) / 2
    least = EXACT * math.sqrt(float(np.max(weight)))
    for _ in range(ROUNDS_OF_REWEIGHTING):
        fitted = np.maximum(design @ solution, floor)
        relative = (time - design @ solution) / fitted * np.sqrt(weight)
        spread = MEDIAN_TO_DEVIATION * float(np.median(np.abs(relative - np.median(relative))))
        distance = np.abs(relative) / max(spread, least)
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


def _left_out(
    design: Vector, weighted_residual: Vector, slope: Vector, cluster: NDArray[np.int64], fitted: int
) -> tuple[Vector, Vector, float]:
    """What leaving out one cluster at a time tells of the costs, of which the first ``fitted`` are looked for.

    Gives their covariance; the directions, one a row, in which they can move without any fitted time moving, be it only
    after one cluster has been left out, for what a single one tells has no error; and the t quantile of 95 % intervals.
    """
    from scipy.special import stdtrit

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
    rest = parts.sum(axis=0) - parts
    moves = np.einsum("gij,gj->gi", np.linalg.pinv(rest, rcond=FLAT, hermitian=True), scores)
    covariance = (len(names) - 1) / len(names) * moves.T @ moves / np.outer(scale, scale)
    curvature, axes = np.linalg.eigh(rest[:, :fitted, :fitted])
    lost = np.swapaxes(axes, 1, 2)[curvature <= FLAT * curvature.max()]
    _, singular, basis = np.linalg.svd(lost, full_matrices=False)
    basis = basis[singular > BLIND]
    blind = np.zeros((len(basis), design.shape[1]))
    blind[:, :fitted] = np.where(np.abs(basis) > BLIND, basis, 0.0) / scale[:fitted]
    return covariance, blind, float(stdtrit(max(len(names) - fitted + len(basis), 1), 0.975))


def weighted_median(values: Vector, weight: Vector) -> float:
    order = np.argsort(values)
    cumulative = np.cumsum(weight[order])
    return float(values[order][np.searchsorted(cumulative, cumulative[-1] / 2)])
