"""What a comparison adds up: the rows of one side of a ratio, unit by stratum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]

OBSERVATIONS = frozenset({"request", "interval"})
"""Units that cells do not hold one by one: their variance comes from second moments."""

SPARSE = 1 << 20
"""Codes beyond so many that have few rows are sorted rather than counted."""


@dataclass(frozen=True)
class Sums:
    """One side of a ratio, all arrays of one length, one element for each row of unit × stratum.

    ``unit`` and ``stratum`` count from 0; ``night`` is the UTC date as days; ``n`` are observations; ``second`` holds
    Σ N², Σ N·D and Σ D² over the single observations of a row, where the cells have them.
    """

    unit: Index
    night: Index
    stratum: Index
    num: Vector
    den: Vector
    n: Vector
    second: tuple[Vector, Vector, Vector] | None = None

    def where(self, mask: Mask) -> Sums:
        """The rows that a mask keeps, units renumbered."""
        if mask.all():
            return self
        unit = distinct(self.unit[mask])[1]
        second = None
        if self.second is not None:
            nn, nd, dd = self.second
            second = (nn[mask], nd[mask], dd[mask])
        return Sums(unit, self.night[mask], self.stratum[mask], self.num[mask], self.den[mask], self.n[mask], second)

    @property
    def units(self) -> int:
        return int(self.unit.max(initial=-1)) + 1

    @property
    def nights(self) -> int:
        return len(np.unique(self.night))

    def count(self, unit: str) -> int:
        """How many units of a kind there are."""
        return int(self.n.sum()) if unit in OBSERVATIONS else self.units

    def by_stratum(self, column: Vector, strata: int) -> Vector:
        """A column added up by stratum."""
        return add_up(self.stratum, column, strata)

    def residuals(self, ratio: Vector, strata: int) -> Vector:
        """Σ (N − ratio · D)² over the single observations of each stratum; ValueError without second moments."""
        if self.second is None:
            raise ValueError("there are no second moments")
        return squared_residuals([self.by_stratum(column, strata) for column in self.second], ratio)

    def by_unit(self, column: Vector) -> Vector:
        """A column added up by unit."""
        return add_up(self.unit, column, self.units)


def distinct(codes: Index) -> tuple[Index, Index]:
    """The different codes, rising, and which of them each one is; codes count from 0.

    What np.unique gives, without its sorting where codes are not far more than rows.
    """
    highest = int(codes.max(initial=-1))
    if highest > SPARSE + 8 * len(codes):
        found, which = np.unique(codes, return_inverse=True)
        return found, which.astype(np.int64)
    seen = np.zeros(highest + 1, dtype=np.bool_)
    seen[codes] = True
    return np.flatnonzero(seen), (np.cumsum(seen) - 1)[codes]


def add_up(codes: Index, values: Vector, length: int) -> Vector:
    """Σ values for each code from 0 to length − 1."""
    return cast(Vector, np.bincount(codes, values, length))


def squared_residuals(second: Sequence[Vector], ratio: Vector) -> Vector:
    """Σ (N − ratio · D)² from Σ N², Σ N·D and Σ D²; not below 0, where rounding would take it."""
    nn, nd, dd = second
    return np.maximum(0.0, nn - 2 * ratio * nd + ratio**2 * dd)


def divide(numerator: Vector, denominator: Vector) -> Vector:
    """The quotient, 0 where the denominator is not positive."""
    quotient = np.zeros(len(numerator))
    np.divide(numerator, denominator, out=quotient, where=denominator > 0)
    return quotient
