"""Quantization × speculation: gains of four deployments over the original, and whether they multiply.

gain = TPOT(original) / TPOT(cell) at the original's strata; interaction = both / (quantized · speculative).
ln interaction = ln TPOT(quantized) + ln TPOT(speculative) − ln TPOT(both) − ln TPOT(original): its variance adds up
over the four sides, that between nights included where the original has enough nights to tell it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..schemas.config import LoadBand
from ..schemas.errors import UsageError
from . import quality
from .cells_read import CellReader
from .compare import Comparison, Found
from .format import percent
from .gates import DEFAULT_GATES
from .interval import Estimate, around, critical
from .model import Gain, Grid, Side, Verdict
from .origins import OriginChoice
from .selection import Selection

CELLS = ("quantized", "speculative", "both")
NAMES = ("original", *CELLS)
QUALITY_BASELINE = {"quantized": "original", "speculative": "original", "both": "quantized"}
"""Speculation reproduces the model it runs on: the quantized one is what both must match."""
MEASURE = "tpot_ms"


@dataclass(frozen=True)
class GridSides:
    """The selections of the four cells and what the report shows of them."""

    selections: Mapping[str, Selection]
    shown: Mapping[str, Side]
    figures: Mapping[str, Mapping[quality.Key, quality.Figure]]


def parse(pairs: Sequence[str]) -> dict[str, str]:
    """Predicates by cell from ``name=EXPR``; UsageError if a name is unknown, given twice or missing."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, where = pair.partition("=")
        if not equals or name.strip() not in NAMES:
            raise UsageError(f"--grid takes NAME=EXPR with NAME one of {', '.join(NAMES)}, not {pair[:80]!r}.")
        if name.strip() in found:
            raise UsageError(f"--grid {name.strip()} was given twice.")
        found[name.strip()] = where
    missing = [name for name in NAMES if name not in found]
    if found and missing:
        raise UsageError(f"--grid also needs {', '.join(missing)}.")
    return found


def build(reader: CellReader, sides: GridSides, bands: Sequence[LoadBand], choice: OriginChoice) -> Grid:
    """The grid of four selections."""
    original = sides.selections["original"]
    comparisons = {name: Comparison(reader, original, sides.selections[name], bands, choice) for name in CELLS}
    overall = {name: comparison.estimate(MEASURE) for name, comparison in comparisons.items()}
    gains = _gains(overall)
    interaction, interval = _interaction({name: found.estimate for name, found in overall.items()})
    cells = tuple(
        Gain(
            name,
            gains[name],
            _gain_interval(overall[name].estimate),
            overall[name].estimate.common_share or 0.0,
            _quality(sides, name),
            QUALITY_BASELINE[name],
        )
        for name in CELLS
        if name in gains
    )
    by_band, intervals = {}, {}
    for band in comparisons["both"].load_bands:
        found = {name: comparison.estimate(MEASURE, band) for name, comparison in comparisons.items()}
        row = _gains(found)
        if not row:
            continue
        factor, around = _interaction({name: item.estimate for name, item in found.items()})
        by_band[band] = {**row, **({"interaction": factor} if factor is not None else {})}
        known = {name: _gain_interval(found[name].estimate) for name in row} | {"interaction": around}
        intervals[band] = {name: ends for name, ends in known.items() if ends is not None}
    units = {found.estimate.unit for found in overall.values()}
    return Grid(
        gains,
        interaction,
        interval,
        cells,
        tuple(sides.shown[name] for name in NAMES),
        units.pop() if len(units) == 1 else None,
        next((found.origin for found in overall.values() if found.origin), None),
        by_band,
        intervals,
        tuple(_notes(overall)),
    )


def _gains(found: Mapping[str, Found]) -> dict[str, float]:
    return {
        name: 1 / (1 + item.estimate.change)
        for name, item in found.items()
        if item.estimate.change is not None and item.estimate.change > -1
    }


def _gain_interval(estimate: Estimate) -> tuple[float, float] | None:
    if estimate.interval is None or estimate.interval[1] is None:
        return None
    return 1 / (1 + estimate.interval[1]), 1 / (1 + estimate.interval[0])


def _interaction(estimates: Mapping[str, Estimate]) -> tuple[float | None, tuple[float, float] | None]:
    """Interaction and its interval; None where a cell is missing."""
    changes = {name: estimate.change for name, estimate in estimates.items()}
    if any(change is None or change <= -1 for change in changes.values()):
        return None, None
    log = {name: -math.log1p(change or 0.0) for name, change in changes.items()}
    whole = log["both"] - log["quantized"] - log["speculative"]
    parts = [estimate.candidate.variance for estimate in estimates.values()]
    parts.append(estimates["both"].baseline.variance)
    if any(part is None for part in parts):
        return math.exp(whole), None
    nights = [estimate.candidate.nights for estimate in estimates.values()] + [estimates["both"].baseline.nights]
    between = max((estimate.between_night or 0.0) for estimate in estimates.values())
    parts.append(between * sum(1 / max(1, count) for count in nights))
    df = min(estimate.df or 1.0 for estimate in estimates.values())
    half = critical(df) * math.sqrt(sum(part or 0.0 for part in parts))
    lower, upper = around(math.exp(whole), half)
    return math.exp(whole), None if upper is None else (lower, upper)


def _quality(sides: GridSides, name: str) -> Verdict:
    """The worst verdict of a cell's evaluation figures against those of the cell that it must match."""
    gates = [gate for gate in DEFAULT_GATES if gate.gate == "quality"]
    results = quality.quality_results(gates, sides.figures[QUALITY_BASELINE[name]], sides.figures[name], required=False)
    order: tuple[Verdict, ...] = ("fail", "inconclusive", "no_data", "pass")
    return next((verdict for verdict in order if any(r.verdict == verdict for r in results)), "no_data")


def _notes(found: Mapping[str, Found]) -> list[str]:
    return [
        f"{name}: only {percent(found[name].estimate.common_share)} of the original's tokens lie in strata that it has "
        "too."
        for name in CELLS
        if found[name].estimate.problem == "common_share"
    ]
