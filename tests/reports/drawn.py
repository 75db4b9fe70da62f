"""Hours of a drifting fleet, drawn with known truth, as the statistics take them."""

from __future__ import annotations

import numpy as np

from specledger.reports.quantile import GROWTH, Histogram
from specledger.reports.sums import Sums

STRATA = 8
BASE = np.linspace(1.8, 3.4, STRATA)
"""Mean acceptance length of each stratum."""


def _requests(
    rng: np.random.Generator, nights: int, hours: int, per_hour: float, night_sd: float, hour_sd: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hour, stratum and log shock of each request; traffic follows a daily wave and its mix drifts."""
    total = nights * hours
    shock = rng.normal(0, 1, nights).repeat(hours) * night_sd + rng.normal(0, 1, total) * hour_sd
    wave = 1 + 0.6 * np.sin(2 * np.pi * (np.arange(total) % hours) / hours)
    mix = rng.dirichlet(np.linspace(2, 10, STRATA), total)
    cells = np.arange(total * STRATA).repeat(rng.poisson(per_hour * wave[:, None] * mix).ravel())
    return cells // STRATA, cells % STRATA, shock[cells // STRATA]


def lengths(
    rng: np.random.Generator,
    nights: int = 1,
    hours: int = 24,
    per_hour: float = 60.0,
    effect: float = 0.0,
    night_sd: float = 0.0,
    hour_sd: float = 0.01,
    first_night: int = 0,
) -> Sums:
    """Acceptance length: N = rounds + accepted, D = rounds, requests of differing acceptance."""
    hour, stratum, shock = _requests(rng, nights, hours, per_hour, night_sd, hour_sd)
    rounds = rng.poisson(30, len(hour)) + 1.0
    accepted = rounds * (BASE[stratum] * (1 + effect) * np.exp(shock) - 1) * rng.gamma(8, 1 / 8, len(hour))
    num = rounds + accepted
    cell, row = np.unique(hour * STRATA + stratum, return_inverse=True)
    add = [np.bincount(row, value) for value in (num, rounds, np.ones(len(row)), num**2, num * rounds, rounds**2)]
    unit = np.unique(cell // STRATA, return_inverse=True)[1]
    night = first_night + cell // STRATA // hours
    return Sums(unit, night, cell % STRATA, add[0], add[1], add[2], (add[3], add[4], add[5]))


def times(
    rng: np.random.Generator,
    nights: int = 1,
    hours: int = 24,
    per_hour: float = 60.0,
    effect: float = 0.0,
    night_sd: float = 0.0,
    hour_sd: float = 0.01,
    first_night: int = 0,
) -> tuple[Histogram, np.ndarray, np.ndarray]:
    """Log-normal times in ns, one a request: their histogram, and hour and exact time of each."""
    hour, stratum, shock = _requests(rng, nights, hours, per_hour, night_sd, hour_sd)
    value = np.exp(np.log(2e7) + 0.2 * stratum + np.log1p(effect) + shock + rng.normal(0, 0.4, len(hour)))
    bucket = np.floor(np.log(value) / np.log(GROWTH)).astype(np.int64)
    cell, row = np.unique(hour * STRATA + stratum, return_inverse=True)
    den, zero = np.bincount(row).astype(float), np.zeros(len(cell))
    seen = Sums(
        np.unique(cell // STRATA, return_inverse=True)[1],
        first_night + cell // STRATA // hours,
        cell % STRATA,
        zero,
        den,
        den,
        (zero, zero, den),
    )
    element, place = np.unique(row * 10_000 + bucket, return_inverse=True)
    histogram = Histogram(element // 10_000, element % 10_000, np.bincount(place).astype(float), seen)
    return histogram, hour, value
