"""The quality gate: evaluation figures against the baseline's, with the interval of the difference."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..schemas.raw import QUALITY
from ..schemas.warehouse import Warehouse, reading
from .gates import Gate
from .interval import critical, detectable
from .judge import blank, decide, failed
from .model import Evidence, GateResult
from .selection import Selection

ANY_FIGURE = "*"
PERCENT_POINT = 100.0
"""Figures beyond 1 are on a scale of 100: a point is 1 there, and 0.01 on a scale of 1."""

Key = tuple[str, str]
"""(task, metric)."""


@dataclass(frozen=True)
class Figure:
    """One evaluation figure of a side."""

    value: float
    stderr: float | None
    n: int | None
    higher_is_better: bool | None
    evaluated_at: dt.datetime
    deployment: str

    @property
    def error(self) -> float | None:
        """The standard error as reported, else the binomial one of a share over known samples."""
        if self.stderr is not None:
            return self.stderr
        if self.n and 0 <= self.value <= 1:
            return math.sqrt(self.value * (1 - self.value) / self.n)
        return None


def figures(warehouse: Warehouse, side: Selection) -> dict[Key, Figure]:
    """The figures of a side: of each task and metric the last one of its nights.

    Where its nights hold none, the last one before their end stands: models are not evaluated every night.
    """
    connection = reading()
    rows = connection.execute(
        "SELECT date, deployment, task, metric, value, stderr, n, higher_is_better, evaluated_at "
        f"FROM ({warehouse.select(QUALITY)}) ORDER BY evaluated_at"
    ).fetchall()
    selected = {(night.date, night.deployment) for night in side.nights}
    last = {night.deployment: night.date for night in side.nights}
    inside: dict[Key, Figure] = {}
    earlier: dict[Key, Figure] = {}
    for date, deployment, task, metric, value, stderr, n, higher, evaluated_at in rows:
        figure = Figure(value, stderr, n, higher, evaluated_at, deployment)
        if (date, deployment) in selected:
            inside[(task, metric)] = figure
        elif deployment in last and date <= last[deployment]:
            earlier[(task, metric)] = figure
    return {**earlier, **inside}


def quality_results(
    gates: Sequence[Gate],
    baseline: Mapping[Key, Figure],
    candidate: Mapping[Key, Figure],
    *,
    required: bool,
) -> list[GateResult]:
    """One result for each figure of either side, under the gate that names it (``task/metric``) or the one for all.

    ``required`` says that the target or the acceptance rule changed. Without any figure there is one result, no_data.
    """
    by_name = {gate.measure: gate for gate in gates if gate.gate == "quality"}
    results = []
    for key in sorted({*baseline, *candidate}):
        gate = by_name.get("/".join(key), by_name.get(ANY_FIGURE))
        if gate is None or not gate.enabled:
            continue
        named = replace(gate, measure="/".join(key), required=gate.required or required)
        results.append(_judge(named, baseline.get(key), candidate.get(key)))
    missing = [name for name in by_name if name != ANY_FIGURE and name not in {result.measure for result in results}]
    results += [
        blank(by_name[name], None, "no_data", "Neither side has this figure.")
        for name in missing
        if by_name[name].enabled
    ]
    overall = by_name.get(ANY_FIGURE)
    if not results and overall is not None and overall.enabled:
        gate = replace(overall, measure="quality", required=overall.required or required)
        results.append(blank(gate, None, "no_data", "No evaluation figures were ingested for either side."))
    return results


def _judge(gate: Gate, baseline: Figure | None, candidate: Figure | None) -> GateResult:
    known = [figure for figure in (baseline, candidate) if figure is not None]
    percent = any(abs(figure.value) > 1 for figure in known)
    higher = next((figure.higher_is_better for figure in known if figure.higher_is_better is not None), True)
    tolerance = (gate.tolerance or 0.0) * (PERCENT_POINT if percent else 1.0) * (1 if higher else -1)
    result = replace(
        blank(gate, None, "no_data", "One side was not evaluated on this."),
        baseline=None if baseline is None else baseline.value,
        candidate=None if candidate is None else candidate.value,
        tolerance=tolerance,
        kind="difference",
        n_baseline=0 if baseline is None else baseline.n or 0,
        n_candidate=0 if candidate is None else candidate.n or 0,
        unit="sample",
        origin="quality",
        method="difference",
        units="points of 100" if percent else "ratio",
        higher_is_better=higher,
        evidence_baseline=_evidence(baseline),
        evidence_candidate=_evidence(candidate),
    )
    if baseline is None or candidate is None:
        return result
    if (baseline.deployment, baseline.evaluated_at) == (candidate.deployment, candidate.evaluated_at):
        return replace(result, reason="Both sides have only the same evaluation.", reason_code="same_evaluation")
    difference = candidate.value - baseline.value
    result = replace(result, change=difference)
    if baseline.error is None or candidate.error is None:
        reason = "The figures have no standard errors, so the difference has no interval."
        return replace(result, verdict="inconclusive", reason=reason, reason_code="no_interval")
    error = math.hypot(baseline.error, candidate.error)
    half = critical(math.inf) * error
    interval = (difference - half, difference + half)
    decided = decide(interval, tolerance)
    reason = {
        "pass": "The whole interval of the difference is better than the tolerance.",
        "fail": "The whole interval of the difference is worse than the tolerance.",
    }.get(decided, "The tolerance lies inside the interval of the difference.")
    return replace(
        result,
        interval=interval,
        detectable=detectable(error, math.inf),
        verdict=failed(gate.severity) if decided == "fail" else decided,
        reason=reason,
        reason_code="tolerance_inside" if decided == "inconclusive" else None,
    )


def _evidence(figure: Figure | None) -> Evidence | None:
    if figure is None:
        return None
    return Evidence(
        figure.value, figure.value, variance=None if figure.error is None else figure.error**2, units=figure.n or 0
    )
