"""How single requests differ: lengths, and their own acceptance."""

from __future__ import annotations

import numpy as np

from .world import Task, padded


def tokens(rng: np.random.Generator, mean: float, count: int) -> np.ndarray:
    """Whole token counts of at least 1 around a mean, spread like real lengths (gamma, shape 2)."""
    return np.maximum(1, np.rint(rng.gamma(2.0, mean / 2.0, count))).astype(np.int64)


def conditional(rng: np.random.Generator, task: Task, length: int, count: int) -> np.ndarray:
    """The conditional acceptance of single requests: an array of requests × positions."""
    mean = np.broadcast_to(padded(task.conditional, length), (count, length))
    if not np.isfinite(task.concentration):
        return mean.copy()
    inside = np.clip(mean, 1e-6, 1 - 1e-6)
    return rng.beta(inside * task.concentration, (1 - inside) * task.concentration)
