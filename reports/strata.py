"""Strata: the like that is compared with like, on the finest load grid that both sides cover.

Algorithm: inside each load band and for each combination of the finer keys, loads are walked upwards and gathered
until both sides have COVERED effective observations; what is left over at the top joins the group below it. A side's
observations count for less where the other side has a greater share of its traffic: they would have to stand for it.
Eight requests at a load that is rare on one side and common on the other would otherwise decide the band.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..schemas.config import LoadBand
from .interval import MIN_UNITS
from .sums import distinct

COVERED = MIN_UNITS
"""Effective observations a side must have in a group of loads: a ratio of fewer says little and is biased."""
IDLE = "0"
UNKNOWN = "unknown"
Rest = tuple[str | None, ...]
"""Values of the finer keys."""
NO_LOAD = -1
"""Load of a row whose load is not known."""


@dataclass(frozen=True, order=True)
class StratumKey:
    """Loads from ``low`` up to ``high`` inside one band, with one combination of the finer keys."""

    load_band: str
    low: int
    high: int
    rest: Rest


@dataclass(frozen=True)
class Strata:
    """All strata of a comparison, and the way from a row to its stratum."""

    keys: tuple[StratumKey, ...]
    codes: Mapping[tuple[int, Rest], int]
    """(load, finer keys) → position in ``keys``."""

    def assign(self, load: NDArray[np.int64], rest: NDArray[np.int64], rests: Sequence[Rest]) -> Codes:
        """The stratum of each row, from its load and the number of its finer keys in ``rests``."""
        span = int(load.max(initial=0)) + 2
        pairs, inverse = distinct(rest * span + (load + 1))
        found = [self.codes[(int(pair % span) - 1, rests[int(pair // span)])] for pair in pairs]
        return np.asarray(found, dtype=np.int64)[inverse]

    def pooled(self) -> Strata:
        """One stratum for each load band, whatever the load inside it and the finer keys."""
        bands: dict[str, list[StratumKey]] = {}
        for key in self.keys:
            bands.setdefault(key.load_band, []).append(key)
        place = {band: number for number, band in enumerate(bands)}
        keys = tuple(
            StratumKey(band, min(key.low for key in inside), max(key.high for key in inside), ())
            for band, inside in bands.items()
        )
        return Strata(keys, {row: place[self.keys[code].load_band] for row, code in self.codes.items()})

    def together(self) -> NDArray[np.float64]:
        """How many requests ran at once in each stratum, at most: 1 where the load is not known."""
        return np.array([max(1.0, float(key.high)) for key in self.keys])

    def in_band(self, load_band: str | None) -> NDArray[np.bool_]:
        """Which strata belong to a band; all of them for None."""
        return np.array([load_band is None or key.load_band == load_band for key in self.keys], dtype=np.bool_)


Codes = NDArray[np.int64]


def band_of(load: int, bands: Sequence[LoadBand]) -> str:
    """The label of the band that holds a load."""
    if load == NO_LOAD:
        return UNKNOWN
    if load <= 0:
        return IDLE
    return next(band.label for band in bands if load >= band.low and (band.high is None or load <= band.high))


def band_order(bands: Sequence[LoadBand]) -> dict[str, int]:
    """Position of every band label, idle first, unknown last."""
    labels = [IDLE, *(band.label for band in bands), UNKNOWN]
    return {label: position for position, label in enumerate(labels)}


Observed = Iterable[tuple[int, Rest, float]]
"""(load, finer keys, observations), each combination at most once."""


def stratify(baseline: Observed, candidate: Observed, bands: Sequence[LoadBand]) -> Strata:
    """The strata of two sides."""
    seen: dict[tuple[str, Rest], dict[int, list[float]]] = {}
    for side, rows in enumerate((baseline, candidate)):
        for load, rest, observations in rows:
            loads = seen.setdefault((band_of(load, bands), rest), {})
            loads.setdefault(load, [0.0, 0.0])[side] += observations
    order = band_order(bands)
    keys: list[StratumKey] = []
    codes: dict[tuple[int, Rest], int] = {}
    for (band, rest), loads in sorted(seen.items(), key=lambda item: (order[item[0][0]], _sortable(item[0][1]))):
        for group in _gather(loads):
            for load in group:
                codes[(load, rest)] = len(keys)
            keys.append(StratumKey(band, group[0], group[-1], rest))
    return Strata(tuple(keys), codes)


def _gather(loads: Mapping[int, Sequence[float]]) -> list[list[int]]:
    groups: list[list[int]] = []
    open_group: list[int] = []
    totals = [sum(side) for side in zip(*loads.values(), strict=True)]
    counts = [0.0, 0.0]
    for load in sorted(loads):
        open_group.append(load)
        counts = [count + more for count, more in zip(counts, loads[load], strict=True)]
        if _effective(counts, totals) >= COVERED:
            groups.append(open_group)
            open_group, counts = [], [0.0, 0.0]
    if open_group and groups:
        groups[-1] += open_group
    elif open_group:
        groups.append(open_group)
    return groups


def _effective(counts: Sequence[float], totals: Sequence[float]) -> float:
    """Observations of the side that has fewer, once those of the rarer side are divided by their greater weight."""
    shares = [count / total if total else 0.0 for count, total in zip(counts, totals, strict=True)]
    greatest = max(shares)
    return (
        min(count * min(1.0, share / greatest) for count, share in zip(counts, shares, strict=True))
        if greatest
        else 0.0
    )


def _sortable(rest: Rest) -> tuple[tuple[bool, str], ...]:
    return tuple((value is None, value or "") for value in rest)
