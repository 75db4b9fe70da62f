"""The figures behind a report: the ledger, quantiles and positions of each side, added up over its dates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

import numpy as np

from ..schemas import TABLES
from ..schemas.measures import MEASURES
from ..schemas.warehouse import Warehouse, reading
from .buckets import Buckets, bracket
from .cells_read import Frame
from .compare import SECONDS_TO_MS, Comparison
from .model import BandFigures, ContextShare, PositionFigures, QuantileFigures, ReconciliationRow, SideName, finite
from .quantile import Histogram, edge, whole
from .selection import Selection
from .small_files import SmallFiles
from .sums import Mask

ALL = "all"
"""Label of the pooled row."""
QUANTILES = ("ttft_ms", "itl_ms", "request_tpot_ms", "e2e_ms")
SHARES: tuple[tuple[Literal["p50", "p95", "p99"], float], ...] = (("p50", 0.50), ("p95", 0.95), ("p99", 0.99))
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "ledger": ("origin", "load_band", "tokens", "t0_ms", "t0_origin", "tpot_ms"),
    "positions": ("origin", "position", "rounds", "accepted", "censored"),
    "reconciliation": (
        "deployment",
        "date",
        "check_name",
        "origin",
        "verdict",
        "expected",
        "found",
        "difference",
        "instance",
        "engine",
        "detail",
    ),
    "deployment_days": ("date", "deployment", "kv_tokens"),
}
"""What is read of each mart, in the order in which a report asks for them."""
NAMES: tuple[SideName, SideName] = ("baseline", "candidate")


@dataclass(frozen=True)
class _Ordinary:
    """T0 of a side at a band: tokens and time of the bands that have it."""

    t0_ms: float
    t0_origin: str
    speedup: float | None


class MartReader:
    """Reads marts of the selected nights."""

    def __init__(self, warehouse: Warehouse, files: SmallFiles | None = None) -> None:
        self._files = files or SmallFiles(warehouse)
        self._connection = reading()

    def ahead(self, side: Selection) -> None:
        """Begin to read what a report asks for."""
        for mart, columns in COLUMNS.items():
            self._files.ahead(TABLES[mart], side, columns)

    def rows(self, mart: str, side: Selection) -> str:
        """A SELECT of those columns of a mart's rows of a side that are read."""
        return self._files.select(self._connection, TABLES[mart], side, COLUMNS[mart])

    def ordinary(self, side: Selection, origin: str) -> dict[str, _Ordinary]:
        """T0 and speedup by load band (and pooled), as totals over totals of the dates."""
        figures = (
            "sum(tokens * t0_ms ORDER BY tokens, t0_ms) / sum(tokens), arg_max(t0_origin, tokens), "
            "sum(tokens * t0_ms ORDER BY tokens, t0_ms) / nullif(sum(tokens * tpot_ms ORDER BY tokens, tpot_ms), 0) "
            "FROM rows"
        )
        found = self._connection.execute(
            f"WITH rows AS MATERIALIZED (FROM ({self.rows('ledger', side)}) "
            f"WHERE origin = ? AND t0_ms IS NOT NULL AND tokens > 0 AND load_band <> '{ALL}') "
            f"SELECT load_band, {figures} GROUP BY load_band "
            f"UNION ALL SELECT '{ALL}', {figures} HAVING count(*) > 0",
            [origin],
        ).fetchall()
        return {band: _Ordinary(t0, t0_origin, speedup) for band, t0, t0_origin, speedup in found}

    def positions(self, side: Selection, name: SideName, origin: str) -> list[PositionFigures]:
        """Acceptance by position over all bands."""
        found = self._connection.execute(
            "SELECT position, sum(rounds)::BIGINT, sum(accepted)::BIGINT, bool_or(censored) "
            f"FROM ({self.rows('positions', side)}) WHERE origin = ? GROUP BY position ORDER BY position",
            [origin],
        ).fetchall()
        figures: list[PositionFigures] = []
        before, predicted = 1.0, 1.0
        for position, rounds, accepted, censored in found:
            if not rounds:
                break
            survival = accepted / rounds
            predicted += survival
            conditional = None if censored or before <= 0 else survival / before
            figures.append(
                PositionFigures(name, origin, position, rounds, accepted, survival, conditional, predicted, censored)
            )
            before = survival
        return figures

    def reconciliation(self, side: Selection, name: SideName) -> list[ReconciliationRow]:
        """The identities of a side's nights."""
        found = self._connection.execute(f"FROM ({self.rows('reconciliation', side)}) ORDER BY ALL").fetchall()
        return [
            ReconciliationRow(
                name,
                deployment,
                date.isoformat(),
                check,
                origin,
                verdict,
                finite(expected),
                finite(value),
                finite(difference),
                instance,
                engine,
                detail,
            )
            for deployment, date, check, origin, verdict, expected, value, difference, instance, engine, detail in found
        ]

    def kv_tokens(self, side: Selection) -> float | None:
        """KV cache size: of each deployment on its last night, the least over deployments."""
        ((size,),) = self._connection.execute(
            "SELECT min(kv_tokens)::DOUBLE FROM (SELECT arg_max(kv_tokens, date) AS kv_tokens "
            f"FROM ({self.rows('deployment_days', side)}) GROUP BY deployment)"
        ).fetchall()
        return cast("float | None", size)


def band_figures(comparison: Comparison, marts: MartReader, origin: str) -> list[BandFigures]:
    """The ledger of both sides by load band, the pooled row last."""
    figures = []
    for name, side in zip(NAMES, comparison.sides, strict=True):
        frame = comparison.reader.frame(side, origin)
        stratum, strata = frame.strata(comparison.strata(origin)), comparison.strata(origin)
        ordinary = marts.ordinary(side, origin)
        every = float(frame.columns["step_tokens"].sum()) if "step_tokens" in frame.columns else 0.0
        for band in (*comparison.load_bands, None):
            mask = strata.in_band(band)[stratum]
            if mask.any():
                pressure = _pressure(comparison, side, band)
                figures.append(
                    _band(name, band or ALL, origin, frame, mask, every, ordinary.get(band or ALL), pressure)
                )
    if any(figure.rounds for figure in figures if figure.side == "baseline"):
        return figures
    bands: list[BandFigures] = []
    for place, figure in enumerate(figures):
        if figure.side != "candidate" or figure.speedup is None:
            continue
        if figure.load_band == ALL:  # the last of them
            interval = _pooled_interval(bands, figure.speedup)
        else:
            interval = _speedup_interval(comparison, figure.load_band, figure.speedup)
        figures[place] = replace(figure, speedup_interval=interval)
        bands.append(figures[place])
    return figures


def _speedup_interval(comparison: Comparison, band: str, speedup: float) -> tuple[float, float] | None:
    """The interval of a speedup over a baseline that does not speculate: on the ln scale as wide as that of TPOT."""
    found = comparison.estimate("tpot_ms", band).estimate
    if found.change is None or found.interval is None:
        return None
    lower, upper = found.interval
    if upper is None:
        return None
    return speedup * (1 + found.change) / (1 + upper), speedup * (1 + found.change) / (1 + lower)


def _pooled_interval(bands: Sequence[BandFigures], speedup: float) -> tuple[float, float] | None:
    """The interval of the speedup over all bands, from theirs: as if all of them erred alike. None where one has none.

    The pooled speedup is the mean of theirs at their shares of decode time, and no sum errs by more than the sum of its
    errors, whatever its terms have in common.
    """
    times = [(band.token_share or 0.0) * (band.tpot_ms or 0.0) for band in bands]
    intervals = [band.speedup_interval for band in bands if band.speedup_interval is not None]
    if not bands or len(intervals) < len(bands) or not all(times):
        return None
    pooled = math.fsum(time * (band.speedup or 0.0) for time, band in zip(times, bands, strict=True))
    lower, upper = (
        math.fsum(time * ends[end] for time, ends in zip(times, intervals, strict=True)) / pooled for end in (0, 1)
    )
    return speedup * lower, speedup * upper


def _pressure(comparison: Comparison, side: Selection, band: str | None) -> dict[str, float | None]:
    """Output rate and preemptions, which only scrapes tell."""
    if "snapshots" not in comparison.choice.order:
        return {}
    frame, strata = comparison.reader.frame(side, "snapshots"), comparison.strata("snapshots")
    mask = strata.in_band(band)[frame.strata(strata)]
    return {
        "output_tps": _ratio(frame, "output_tps", mask),
        "preemptions": _sum(frame, "per_1k_requests.num", mask) if frame.has("per_1k_requests") else None,
    }


def _band(
    side: SideName,
    label: str,
    origin: str,
    frame: Frame,
    mask: Mask,
    every: float,
    ordinary: _Ordinary | None,
    pressure: Mapping[str, float | None],
) -> BandFigures:
    rounds, drafted, accepted = (_sum(frame, name, mask) or 0.0 for name in ("rounds", "drafted", "accepted"))
    steps = _sum(frame, "steps", mask) or 0.0
    round_time, coverage = _ratio(frame, "round_time_ms", mask), _ratio(frame, "coverage", mask)
    break_even = round_time / ordinary.t0_ms if ordinary is not None and round_time is not None else None
    limit = math.ceil(drafted / rounds - 1e-9) if rounds > 0 else None
    beyond = break_even > 1 + (coverage or 0.0) * limit if break_even is not None and limit is not None else None
    tokens = _sum(frame, "step_tokens", mask) or 0.0
    preemptions = pressure.get("preemptions")
    return BandFigures(
        side,
        label,
        origin,
        requests=_whole_number(_sum(frame, "requests", mask)),
        output_tokens=_whole_number(_sum(frame, "output_tokens", mask)),
        steps=int(steps) or None,
        rounds=int(rounds),
        drafted=int(drafted),
        accepted=int(accepted),
        token_share=tokens / every if every > 0 else None,
        acceptance_length=_ratio(frame, "acceptance_length", mask),
        effective_length=_ratio(frame, "effective_length", mask),
        coverage=coverage,
        acceptance_rate=_ratio(frame, "acceptance_rate", mask),
        mean_draft_length=drafted / rounds if rounds > 0 else None,
        round_time_ms=round_time,
        tpot_ms=_ratio(frame, "tpot_ms", mask),
        t0_ms=None if ordinary is None else ordinary.t0_ms,
        t0_origin=None if ordinary is None else ordinary.t0_origin,
        speedup=None if ordinary is None else finite(ordinary.speedup),
        break_even_length=break_even,
        beyond_reach=beyond,
        output_tps=pressure.get("output_tps"),
        preemptions=_whole_number(preemptions),
    )


def _sum(frame: Frame, column: str, mask: Mask) -> float | None:
    values = frame.columns.get(column)
    return None if values is None else float(values[mask].sum())


def _ratio(frame: Frame, measure: str, mask: Mask) -> float | None:
    num, den = _sum(frame, f"{measure}.num", mask), _sum(frame, f"{measure}.den", mask)
    return MEASURES[measure].scale * num / den if num is not None and den else None


def _whole_number(value: float | None) -> int | None:
    return None if value is None else round(value)


def context_shares(comparison: Comparison, labels: Sequence[str]) -> list[ContextShare]:
    """How each side's output is spread over context bands (``labels``, shortest first); only requests can tell."""
    found = []
    for name, side in zip(NAMES, comparison.sides, strict=True):
        frame = comparison.reader.frame(side, "requests")
        tokens = frame.columns["output_tokens"]
        for label in labels:
            mask = np.isin(frame.rest, [number for number, rest in enumerate(frame.rests) if rest[0] == label])
            output = float(tokens[mask].sum())
            if output > 0:
                share = output / float(tokens.sum())
                found.append(ContextShare(name, label, int(frame.n[mask].sum()), int(output), share, "requests"))
    return found


def quantile_figures(comparison: Comparison) -> list[QuantileFigures]:
    """Quantiles of both sides by load band and pooled, unweighted, each with the edges of its bucket."""
    figures: list[QuantileFigures] = []
    for measure in QUANTILES:
        origin = comparison.origin_of(MEASURES[f"{measure}_p50"])
        if origin is None:
            continue
        for index, name in enumerate(NAMES):
            for band in (*comparison.load_bands, None):
                figures += _quantiles(comparison, index, name, band, measure, origin)
    return figures


def _quantiles(
    comparison: Comparison, index: int, name: SideName, band: str | None, measure: str, origin: str
) -> Sequence[QuantileFigures]:
    side, histogram = comparison.sides[index], MEASURES[f"{measure}_p50"].histogram
    found: list[QuantileFigures] = []
    held: Histogram | Buckets
    if origin == "requests":
        held, scale = comparison.histogram(side, histogram, "hour", band), MEASURES[f"{measure}_p50"].scale
    else:
        held, scale = comparison.buckets(side, histogram, "hour", band), SECONDS_TO_MS
    if not len(held.count):
        return []
    for label, share in SHARES:
        if isinstance(held, Buckets):
            inside = bracket(held.lower, held.upper, held.count, share)
            if not math.isfinite(inside.upper):
                continue
            value, bounds = inside.point, (inside.lower, inside.upper)
        else:
            curve = whole(held)
            bucket = curve.bucket(share)
            value, bounds = curve.value(share), (edge(bucket), edge(bucket + 1))
        found.append(
            QuantileFigures(
                name,
                band or ALL,
                origin,
                measure,
                label,
                scale * value,
                scale * bounds[0],
                scale * bounds[1],
            )
        )
    return found
