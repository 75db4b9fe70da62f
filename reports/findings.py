"""What a report finds beside its verdicts: effects, the split, shifts of the traffic, and what a reader must know."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..schemas.measures import ACCEPTANCE_LENGTH, ROUND_TIME
from . import changes as differences
from .cells_read import Frame
from .compare import Comparison
from .gates import LENGTH_DROP
from .history import History
from .model import Change, Effect, GateResult, Habits, LoadGap, LoadRange, ReconciliationRow, SplitRow, Stratum
from .nights import MIN_NIGHTS
from .split import accounts, decode_share, split
from .sums import Mask, Vector, add_up, divide

EFFECTS = ("acceptance_length", "effective_length", "coverage", "round_time_ms", "tpot_ms", "output_tps")
"""Ratios whose change is told apart into within and mix."""
APART = 0.1
"""From such a difference of mean loads on inside a band its two sides are no like loads: a tenth more requests made
rounds up to 8 % longer (tests/cases/load_bands, between 12 and 24 requests), which is more than the gates allow."""
MOSTLY = (0.05, 0.95)
"""Shares of a side's tokens between which the loads are told at which it ran."""


@dataclass(frozen=True)
class ContextChange:
    """How acceptance length changed at one context band, with the 95 % interval."""

    label: str
    change: float
    interval: tuple[float, float]

    @property
    def lost(self) -> bool:
        """Whether it surely lost more than is accepted."""
        return self.interval[1] < LENGTH_DROP

    @property
    def kept(self) -> bool:
        """Whether it surely did not."""
        return self.interval[0] > LENGTH_DROP


def contexts(comparison: Comparison, labels: Sequence[str]) -> list[ContextChange]:
    """The change of acceptance length at each context band (``labels``, shortest first) that can be judged."""
    found: list[ContextChange] = []
    if comparison.origin_of(ACCEPTANCE_LENGTH) != "requests":
        return found  # counters do not tell contexts apart
    for label in labels:
        estimate = comparison.in_context(label)
        if estimate.problem is None and estimate.change is not None and estimate.interval is not None:
            low, high = estimate.interval
            if high is not None:
                found.append(ContextChange(label, estimate.change, (low, high)))
    return found


def effects(comparison: Comparison) -> list[Effect]:
    """The change of each ratio, within strata and by their mix."""
    found_effects = []
    for name in EFFECTS:
        found = comparison.estimate(name)
        within, total = found.estimate.effect_within, found.estimate.effect_total
        if within is not None and total is not None and found.origin is not None:
            share, strata = found.estimate.common_share or 0.0, found.estimate.baseline.strata
            found_effects.append(Effect(name, within, total - within, total, share, found.origin, strata))
    return found_effects


def split_rows(comparison: Comparison) -> list[SplitRow]:
    """Δ ln TPOT taken apart, overall and at each load band that both sides have."""
    origin = comparison.origin_of(ROUND_TIME)
    if origin is None:
        return []
    strata = comparison.strata(origin)
    whole = [
        accounts(frame, frame.strata(strata), len(strata.keys))
        for frame in (comparison.reader.frame(side, origin) for side in comparison.sides)
    ]
    rows = []
    for band in (None, *comparison.load_bands):
        inside = strata.in_band(band)
        sides = [[account for account, chosen in zip(side, inside, strict=True) if chosen] for side in whole]
        terms = split(sides[0], sides[1])
        if terms is None:
            continue
        rows.append(
            SplitRow(
                None if band is None else Stratum(band),
                terms.total,
                terms.round_time,
                terms.acceptance,
                terms.coverage,
                terms.truncation,
                terms.mix,
                origin,
                decode_share(whole[1], inside) or 0.0,
                terms.largest,
            )
        )
    return rows


def load_gaps(comparison: Comparison) -> list[LoadGap]:
    """Bands in which the sides met at other loads than their own: strata are no finer than what both of them have."""
    origin = comparison.origin_of(ROUND_TIME)
    if origin is None:
        return []
    strata = comparison.strata(origin)
    frames = [comparison.reader.frame(side, origin) for side in comparison.sides]
    codes = [frame.strata(strata) for frame in frames]
    tokens = [frame.columns["step_tokens"] for frame in frames]
    held = [add_up(code, weight, len(strata.keys)) for code, weight in zip(codes, tokens, strict=True)]
    means = [
        divide(add_up(code, weight * frame.load, len(strata.keys)), total)
        for frame, code, weight, total in zip(frames, codes, tokens, held, strict=True)
    ]
    found = []
    for band in comparison.load_bands:
        common = strata.in_band(band) & (held[0] > 0) & (held[1] > 0) & (means[0] > 0) & (means[1] > 0)
        if not common.any():
            continue
        apart = float(np.average(np.log(means[1][common] / means[0][common]), weights=held[0][common]))
        if abs(apart) > math.log1p(APART):
            loads = [
                _loads(frame, weight, common[code]) for frame, weight, code in zip(frames, tokens, codes, strict=True)
            ]
            found.append(LoadGap(band, loads[0], loads[1], math.expm1(apart), origin))
    return found


def _loads(frame: Frame, tokens: Vector, inside: Mask) -> LoadRange:
    """The loads of the tokens of some rows."""
    order = np.argsort(frame.load[inside], kind="stable")
    loads, held = frame.load[inside][order], tokens[inside][order]
    cumulative = np.cumsum(held)
    low, high = (int(loads[int(np.searchsorted(cumulative, share * cumulative[-1]))]) for share in MOSTLY)
    return LoadRange(float(np.average(loads, weights=held)), low, high)


def traffic(comparison: Comparison, habits: tuple[Habits, Habits]) -> list[Change]:
    """Shifts of sampling, lengths and cache use between the sides."""
    before, after = habits
    sampled = "Acceptance depends on the temperature: greedy and sampled requests are strata of their own."
    found = [
        differences.share_change("greedy requests", "sampling", before.greedy, after.greedy, sampled),
        differences.share_change("requests with top_p below 1", "sampling", before.nucleus, after.nucleus, sampled),
    ]
    origin = next((origin for origin in comparison.choice.order if origin != "log_stats"), None)
    if origin is not None:
        sums = []
        for side in comparison.sides:
            columns = comparison.reader.frame(side, origin).columns
            sums.append(
                {
                    name: float(columns[name].sum())
                    for name in ("requests", "prompt_tokens", "output_tokens", "cached_tokens")
                }
            )
        for name in ("prompt_tokens", "output_tokens"):
            means = [total[name] / total["requests"] if total["requests"] else None for total in sums]
            found.append(differences.mean_change(f"{name.replace('_', ' ')} a request", means[0], means[1]))
        cached = [total["cached_tokens"] / total["prompt_tokens"] if total["prompt_tokens"] else None for total in sums]
        found.append(
            differences.share_change(
                "cached prompt tokens",
                "traffic",
                cached[0],
                cached[1],
                "Prefill times and TTFT depend on the prefix cache.",
            )
        )
    return [change for change in found if change is not None]


def notes(results: Sequence[GateResult], comparison: Comparison, *, required: bool) -> list[str]:
    """Where the figures come from, and what their intervals leave out."""
    said = [comparison.choice.note]
    before, after = (set(side.nights) for side in comparison.sides)
    if before == after:
        said.append("Baseline and candidate are the same nights: every figure is compared with itself.")
    elif before & after:
        said.append(f"Nights on both sides, which cannot differ: {len(before & after)}.")
    judged = [result for result in results if result.night_variance is not None]
    nights = len(comparison.sides[0].dates)
    if any(result.night_variance == "estimated" for result in judged):
        said.append(f"The variance between nights is estimated from the baseline's {nights} nights.")
    elif judged:
        said.append(
            f"Night-to-night variation is not estimated: that takes {MIN_NIGHTS} baseline nights, there "
            f"{'is' if nights == 1 else 'are'} {nights}."
        )
    units = {result.unit for result in judged}
    if units - {"hour", None}:
        smaller = ", ".join(sorted(unit for unit in units if unit not in {"hour", None} and unit is not None))
        said.append(f"Some intervals rest on units below the hour ({smaller}) and understate what an hour can do.")
    if required:
        said.append("The target or the acceptance rule changed, so quality is required.")
    return said


def level_notes(histories: Sequence[History]) -> list[str]:
    """The change points of the pooled series."""
    return [
        f"{night.measure} of {night.deployment} has been on another level since {night.date}."
        for history in histories
        for night in history.nights
        if night.change_point and night.load_band == "all"
    ]


SPREAD_CHECK = "acceptance_differs_by_request"
"""The check of the mart reconciliation whose detail says that the load looks like a generator's."""


def load_notes(rows: Sequence[ReconciliationRow]) -> list[str]:
    """Nights whose acceptance looks like that of a load generator."""
    return [
        f"{row.deployment}, {row.date}: {row.detail}" for row in rows if row.check_name == SPREAD_CHECK and row.detail
    ]
