"""The comparison of two selections of nights: any measure, overall or at one load band, with its interval.

The unit is the hour of a deployment; where a side has fewer than 8 of them the 10-minute block, then the single request
or scrape interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..schemas.config import LoadBand
from ..schemas.measures import ACCEPTANCE_LENGTH, MEASURES, ROUND_TIME, TPOT, Measure
from . import buckets, quantile, ratio
from .cells_read import FINER_KEYS, CellReader, Frame, Grain, Loads
from .interval import MIN_UNITS, Estimate, Sided, relative_interval
from .origins import OriginChoice
from .selection import Selection
from .strata import IDLE, NO_LOAD, UNKNOWN, Strata, band_order, stratify
from .sums import OBSERVATIONS, Index, Sums, Vector, add_up, divide
from .variance import Shared

SECONDS_TO_MS = 1e3
"""Server histograms keep their edges in seconds."""
LADDER: tuple[tuple[str, Grain], ...] = (("hour", "hour"), ("block", "block"), ("", "hour"))
"""Units from the largest to the smallest, and the grain at which the cells are read; the last is one observation."""
OBSERVATION = {"requests": "request", "snapshots": "interval", "log_stats": "interval"}
ABSENT = frozenset({"no_data", "no_baseline", "no_candidate"})
"""Problems of a product's part that go before all others."""
MOMENT_NS = 5e9
"""How long what slows a server for a moment lasts: measured on real captures, see docs/verdicts.md."""
LACKING = 0.01
"""Share of a numerator whose scatter may be unknown without a word."""
GO_ON = frozenset({"few_units"})
"""Problems that a smaller unit may cure."""


@dataclass(frozen=True)
class Found:
    """An estimate and the origin it is from."""

    estimate: Estimate
    origin: str | None
    factors: tuple[tuple[str, int, Found], ...] = ()
    """What a product is made of: measure, power, and its own estimate."""


class Comparison:
    """Two sides, their cells and their strata."""

    def __init__(
        self,
        reader: CellReader,
        baseline: Selection,
        candidate: Selection,
        bands: Sequence[LoadBand],
        choice: OriginChoice,
        *,
        pooled: bool = False,
    ) -> None:
        """``pooled`` puts everything inside a band into one stratum."""
        self.reader = reader
        self.sides = (baseline, candidate)
        self.choice = choice
        self._bands = tuple(bands)
        self._pooled = pooled
        self._strata: dict[str, Strata] = {}
        self._histograms: dict[tuple[Selection, str, Grain, Loads], quantile.Histogram] = {}
        self._server: dict[tuple[Selection, str, Grain, Loads], buckets.Buckets] = {}
        self._edges: dict[float, float | None] = {}
        self._origins: dict[str, str | None] = {}
        self._found: dict[tuple[str, str | None, bool], Found] = {}

    @cached_property
    def load_bands(self) -> tuple[str, ...]:
        """Bands in which either side has anything, from any origin that is used."""
        seen = {key.load_band for origin in self.choice.order for key in self.strata(origin).keys}
        order = band_order(self._bands)
        return tuple(sorted(seen - {IDLE, UNKNOWN}, key=order.__getitem__))

    def strata(self, origin: str) -> Strata:
        """The strata of an origin."""
        if origin not in self._strata:
            observed = [self.reader.frame(side, origin).observed() for side in self.sides]
            found = stratify(observed[0], observed[1], self._bands)
            self._strata[origin] = found.pooled() if self._pooled else found
        return self._strata[origin]

    def origin_of(self, measure: Measure) -> str | None:
        """The origin that gives a measure: the first in order that has it on both sides, else on one."""
        if measure.name not in self._origins:
            able = [origin for origin in self.choice.order if origin in measure.origins]
            held = {origin: sum(self._has(side, origin, measure) for side in self.sides) for origin in able}
            both = (origin for origin in able if held[origin] == len(self.sides))
            one = (origin for origin in able if held[origin])
            self._origins[measure.name] = next(both, next(one, None))
        return self._origins[measure.name]

    def estimate(self, name: str, band: str | None = None, *, relative: bool = True) -> Found:
        """The change of a measure overall or at one load band; ``relative`` False gives a difference."""
        key = (name, band, relative)
        if key not in self._found:
            self._found[key] = self._estimate(name, band, relative=relative)
        return self._found[key]

    def _estimate(self, name: str, band: str | None, *, relative: bool) -> Found:
        measure = MEASURES[name]
        if measure.form == "composite":
            return self._composite(measure, band)
        origin = self.origin_of(measure)
        if origin is None:
            problem = "no_data" if band else self._absent(measure)
            return Found(Estimate(Sided(None, None), Sided(None, None), measure.form, problem=problem), None)
        return Found(
            self._climb(origin, lambda unit, grain: self._at(measure, origin, band, unit, grain, relative=relative)),
            origin,
        )

    def _absent(self, measure: Measure) -> str:
        """Which side lacks a measure that no origin tells of both."""
        told = [any(self._has(side, origin, measure) for origin in measure.origins) for side in self.sides]
        return ratio.missing(not told[0], not told[1]) if not all(told) else "no_data"

    def _climb(self, origin: str, at: Callable[[str, Grain], Estimate]) -> Estimate:
        """The estimate by the largest unit of which there are enough, else by the smallest."""
        found = Estimate(Sided(None, None), Sided(None, None), "", problem="no_data")
        for unit, grain in LADDER:
            if grain == "block" and min(self.reader.units(s, origin, grain) for s in self.sides) < MIN_UNITS:
                continue
            found = at(unit or OBSERVATION[origin], grain)
            if found.problem not in GO_ON:
                break
        return found

    def alone(self, name: str, band: str | None = None) -> Found:
        """The candidate's own figure, unweighted, as the baseline of an estimate of no change."""
        candidate = self.sides[1]
        itself = Comparison(self.reader, candidate, candidate, self._bands, self.choice, pooled=True)
        return itself.estimate(name, band)

    def in_context(self, label: str) -> Estimate:
        """The change of acceptance length of the requests of one context band."""
        strata, place = self.strata("requests"), FINER_KEYS.index("context_band")
        wanted = np.array([len(key.rest) > place and key.rest[place] == label for key in strata.keys], dtype=np.bool_)

        def at(unit: str, grain: Grain) -> Estimate:
            frames = [self._frame(side, "requests", unit, grain) for side in self.sides]
            codes = [frame.strata(strata) for frame in frames]
            sums = [frame.sums(ACCEPTANCE_LENGTH.name, c, wanted[c]) for frame, c in zip(frames, codes, strict=True)]
            return ratio.compare(sums[0], sums[1], len(strata.keys), unit, ratio.RatioRule())

        return self._climb("requests", at)

    def maximum(self, name: str, band: str | None = None) -> tuple[list[float | None], list[int], str | None]:
        """Both sides' greatest value of a measure, how many observations each has, and the origin."""
        measure = MEASURES[name]
        column = measure.numerator[0]
        for origin in self.choice.order:
            if origin not in measure.origins:
                continue
            values = [self.reader.scalar(side, origin, f"max({column})", self._loads(band)) for side in self.sides]
            if any(value is not None for value in values):
                counts = [int(self.reader.scalar(s, origin, "sum(n)", self._loads(band)) or 0) for s in self.sides]
                return [None if v is None else v * measure.scale for v in values], counts, origin
        return [None, None], [0, 0], None

    def edge_over(self, share: float = 0.99) -> float | None:
        """The bucket edge in seconds below which ``itl_over`` does not count; None without a finite one."""
        if share not in self._edges:
            self._edges[share] = buckets.edge_below(self.buckets(self.sides[0], "itl", "hour", None), share)
        return self._edges[share]

    def together(self, frames: Sequence[Frame], codes: Sequence[Index]) -> Vector:
        """How many requests of each stratum say as much as one of the times of rounds: at least those that run at once.

        Where the times of requests scatter more than their single rounds explain, rounds that follow each other are
        alike. That part outlasts a request, and is taken to hold for all that run in MOMENT_NS.
        """
        strata = self.strata("requests")
        bands, band = np.unique([key.load_band for key in strata.keys], return_inverse=True)
        requests, decoded, seen, explained = (np.zeros(len(bands)) for _ in range(4))
        for side, frame, code in zip(self.sides, frames, codes, strict=True):
            times = frame.sums(ROUND_TIME.name, code, np.ones(frame.rows, dtype=np.bool_))
            num, den, n = (times.by_stratum(column, len(band)) for column in (times.num, times.den, times.n))
            rounds = quantile.squared_deviations(self.histogram(side, "itl", "hour", None), len(band))
            requests += add_up(band, n, len(bands))
            decoded += add_up(band[code], frame.columns[f"{TPOT.name}.num"], len(bands))
            seen += add_up(band, times.residuals(divide(num, den), len(band)), len(bands))
            explained += add_up(band, rounds * divide(n - 1, n), len(bands))
        lasting = 1 - np.minimum(1.0, divide(explained, seen))
        moment = np.maximum(1.0, divide(MOMENT_NS * requests, decoded))
        alike: Vector = (1 + lasting * (moment - 1))[band]
        return strata.together() * alike

    def _at(
        self, measure: Measure, origin: str, band: str | None, unit: str, grain: Grain, *, relative: bool
    ) -> Estimate:
        strata = self.strata(origin).pooled() if measure.by_band else self.strata(origin)
        wanted = strata.in_band(band)
        loads = self._loads(band)
        if measure.name == "itl_over":
            return self._over(measure, unit, grain, band, relative=relative)
        if measure.form == "quantile":
            return self._quantile(measure, origin, unit, grain, band)
        frames = [self._frame(side, origin, unit, grain, loads) for side in self.sides]
        codes = [frame.strata(strata) for frame in frames]
        masks = [wanted[code] for code in codes]
        sums = [frame.sums(measure.name, code, mask) for frame, code, mask in zip(frames, codes, masks, strict=True)]
        rule = ratio.RatioRule(
            measure.scale,
            relative,
            _quantum(measure, frames, masks),
            _slack(measure, frames, masks) if origin == "log_stats" else 0.0,
            self._shared(measure, frames, codes, masks) if unit == "request" and measure.timed else None,
        )
        return ratio.compare(sums[0], sums[1], len(strata.keys), unit, rule)

    def _frame(self, side: Selection, origin: str, unit: str, grain: Grain, loads: Loads = None) -> Frame:
        """The sums of a side by units of a kind; of single observations second moments stand in."""
        if unit in OBSERVATIONS:
            return self.reader.with_moments(side, origin)
        return self.reader.frame(side, origin, grain, loads if grain == "block" else None)

    def _shared(
        self, measure: Measure, frames: Sequence[Frame], codes: Sequence[Index], masks: Sequence[np.ndarray]
    ) -> Shared:
        """What requests that run together, or follow each other at once, have in common of a measure."""
        together = self.together(frames, codes)
        scatter = [
            _scatter(frame.sums(measure.scatter_of, code, mask), frame.sums(measure.name, code, mask), len(together))
            for frame, code, mask in zip(frames, codes, masks, strict=True)
            if measure.scatter_of and frame.has(measure.scatter_of)
        ]
        return Shared(together, (scatter[0], scatter[1]) if len(scatter) == len(frames) else None)

    def _quantile(self, measure: Measure, origin: str, unit: str, grain: Grain, band: str | None) -> Estimate:
        strata, share = len(self.strata(origin).keys), measure.share or 0.5
        if origin == "requests":
            sides = [self.histogram(side, measure.histogram, grain, band) for side in self.sides]
            shared = self.strata(origin).together() if unit == "request" else None
            return quantile.compare(sides[0], sides[1], strata, unit, share, measure.scale, shared)
        edged = [self.buckets(side, measure.histogram, grain, band) for side in self.sides]
        return buckets.compare(edged[0], edged[1], strata, unit, share, SECONDS_TO_MS)

    def histogram(self, side: Selection, name: str, grain: Grain, band: str | None) -> quantile.Histogram:
        """Histograms of a side's requests, inside a band or everywhere."""
        strata, loads = self.strata("requests"), self._loads(band) if grain == "block" else None
        key = (side, name, grain, loads)
        if key not in self._histograms:
            self._histograms[key] = self.reader.histogram(side, name, grain, strata, loads)
        found = self._histograms[key]
        return found.where(strata.in_band(band)[found.seen.stratum])

    def buckets(self, side: Selection, name: str, grain: Grain, band: str | None) -> buckets.Buckets:
        """Histograms of a side's servers, inside a band or everywhere."""
        strata, loads = self.strata("snapshots"), self._loads(band) if grain == "block" else None
        key = (side, name, grain, loads)
        if key not in self._server:
            self._server[key] = self.reader.buckets(side, name, grain, strata, loads)
        found = self._server[key]
        return found.where(strata.in_band(band)[found.seen.stratum])

    def _over(self, measure: Measure, unit: str, grain: Grain, band: str | None, *, relative: bool) -> Estimate:
        empty = Estimate(Sided(None, None), Sided(None, None), "bucket share", unit)
        edge = self.edge_over(measure.share or 0.99)
        if edge is None:
            return replace(empty, problem="no_baseline")
        sides = [self.buckets(side, "itl", grain, band) for side in self.sides]
        sums = [buckets.over(side, edge) for side in sides]
        if sums[0] is None or sums[1] is None:
            return replace(empty, problem="edges" if all(len(side.count) for side in sides) else "no_data")
        rule = ratio.RatioRule(1.0, relative, (1.0, 1.0))
        strata = len(self.strata("snapshots").keys)
        return replace(ratio.compare(sums[0], sums[1], strata, unit, rule), method="bucket share")

    def _composite(self, measure: Measure, band: str | None) -> Found:
        """A product of measures: changes of logarithms add up, and so do their variances."""
        factors = tuple((name, power, self.estimate(name, band)) for name, power in measure.factors.items())
        parts = [(found, power) for _, power, found in factors]
        origin = ", ".join(dict.fromkeys(part.origin for part, _ in parts if part.origin))
        problems = [part.estimate.problem for part, _ in parts if part.estimate.problem]
        problem = next((code for code in problems if code in ABSENT), next(iter(problems), None))
        sides = [_product([(_side(part.estimate, index), power) for part, power in parts]) for index in (0, 1)]
        units = {part.estimate.unit for part, _ in parts}
        estimate = Estimate(
            sides[0],
            sides[1],
            "product",
            units.pop() if len(units) == 1 else None,
            common_share=min(
                (p.estimate.common_share for p, _ in parts if p.estimate.common_share is not None), default=None
            ),
            problem=problem,
        )
        changes = [part.estimate.change for part, _ in parts]
        errors = [part.estimate.error for part, _ in parts]
        if any(change is None or change <= -1 for change in changes) or any(error is None for error in errors):
            return Found(replace(estimate, problem=problem or "no_interval"), origin or None, factors)
        log = sum(power * math.log1p(change or 0.0) for change, (_, power) in zip(changes, parts, strict=True))
        error = math.sqrt(sum((power * (e or 0.0)) ** 2 for e, (_, power) in zip(errors, parts, strict=True)))
        df = min(part.estimate.df or 1.0 for part, _ in parts)
        return Found(
            replace(estimate, change=math.expm1(log), interval=relative_interval(log, error, df), error=error, df=df),
            origin or None,
            factors,
        )

    def _loads(self, band: str | None) -> Loads:
        """The loads of a band, as the reader wants them."""
        if band is None:
            return None
        if band in {IDLE, UNKNOWN}:
            return (0, 0) if band == IDLE else (NO_LOAD, NO_LOAD)
        found = next(item for item in self._bands if item.label == band)
        return found.low, found.high if found.high is not None else 2**31 - 1

    def _has(self, side: Selection, origin: str, measure: Measure) -> bool:
        if measure.form == "ratio" and measure.histogram == "":
            return self.reader.frame(side, origin).has(measure.name)
        if not self.reader.frame(side, origin).rows:
            return False
        return bool(self.reader.scalar(side, origin, f"sum({measure.histogram}_n)"))


def _quantum(measure: Measure, frames: Sequence[Frame], masks: Sequence[np.ndarray]) -> tuple[float, float] | None:
    if not isinstance(measure.quantum, tuple):
        return None if measure.quantum is None else (measure.quantum, measure.quantum)
    over, under = measure.quantum
    sizes = []
    for frame, mask in zip(frames, masks, strict=True):
        below = float(frame.columns[under][mask].sum())
        sizes.append(float(frame.columns[over][mask].sum()) / below if below > 0 else 1.0)
    return sizes[0], sizes[1]


def _scatter(of: Sums, whole: Sums, strata: int) -> Vector:
    """Σ squared residuals of a measure about its own ratio in each stratum; infinite where it does not tell all.

    It does not where some of the observations lack it, and where they are too few to have a ratio.
    """
    if of.second is None:
        return np.full(strata, np.inf)
    num, den, n = (of.by_stratum(column, strata) for column in (of.num, of.den, of.n))
    told = (n >= MIN_UNITS) & (num >= (1 - LACKING) * whole.by_stratum(whole.num, strata))
    return np.where(told, of.residuals(divide(num, den), strata), np.inf)


def _slack(measure: Measure, frames: Sequence[Frame], masks: Sequence[np.ndarray]) -> float:
    """Half of what the bounds of R leave open, on the ln scale; both sides may be off in opposite directions."""
    if measure.name != "acceptance_length":
        return 0.0
    total = 0.0
    for frame, mask in zip(frames, masks, strict=True):
        low, high, accepted = (
            float(frame.columns[name][mask].sum()) for name in ("rounds_min", "rounds_max", "accepted")
        )
        if low > 0:
            total += (math.log1p(accepted / low) - math.log1p(accepted / high)) / 2
    return total


def _side(estimate: Estimate, index: int) -> Sided:
    return (estimate.baseline, estimate.candidate)[index]


def _product(parts: Sequence[tuple[Sided, int]]) -> Sided:
    def times(values: Sequence[tuple[float | None, int]]) -> float | None:
        if any(value is None or value <= 0 for value, _ in values):
            return None
        return math.prod((value or 0.0) ** power for value, power in values)

    return Sided(
        times([(side.figure, power) for side, power in parts]),
        times([(side.standardized, power) for side, power in parts]),
        units=min(side.units for side, _ in parts),
        strata=min(side.strata for side, _ in parts),
        nights=min(side.nights for side, _ in parts),
    )
