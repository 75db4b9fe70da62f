"""The report: one frozen, typed structure from which every writer makes its text, and the form of report.json.

Units: times in ms, shares and relative changes as fractions. None means that there is nothing to say, never zero; no
number is NaN or infinite. Fields keep their order in the JSON document.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

SCHEMA_VERSION = 1

Verdict = Literal["pass", "fail", "warn", "inconclusive", "no_data", "not_comparable", "acknowledged"]
GateName = Literal["correctness", "quality", "latency", "capacity"]
SideName = Literal["baseline", "candidate"]
Severity = Literal["fail", "warn"]
ToleranceKind = Literal["relative", "difference", "limit"]

VERDICTS: tuple[Verdict, ...] = typing.get_args(Verdict)
GATE_NAMES: tuple[GateName, ...] = typing.get_args(GateName)
"""Gates in the order in which they are judged and shown."""


@dataclass(frozen=True)
class Stratum:
    """Where a figure holds; a result that holds overall has no stratum."""

    load_band: str


@dataclass(frozen=True)
class Origin:
    """How much one source of figures holds for a side."""

    origin: str
    observations: int
    output_tokens: int | None = None
    rounds: int | None = None
    hours: int | None = None
    """Hours of a deployment with at least one observation."""


@dataclass(frozen=True)
class DeploymentFacts:
    """What the start-up record (or the labels) of a deployment said; None where nothing was said."""

    deployment: str
    vllm_version: str | None = None
    model: str | None = None
    quantization: str | None = None
    dtype: str | None = None
    kv_cache_dtype: str | None = None
    draft_method: str | None = None
    draft_model: str | None = None
    draft_quantization: str | None = None
    draft_limit: int | None = None
    draft_schedule: str | None = None
    acceptance_rule: str | None = None
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    data_parallel: int | None = None
    max_num_seqs: int | None = None
    kv_tokens: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Habits:
    """Shares over the requests of a side that were logged one by one; None where no request says."""

    greedy: float | None
    nucleus: float | None
    """Share with top_p below 1."""
    repetition: float | None
    """Share that ended for repetition."""
    distinct_4grams: float | None
    """Mean share of distinct 4-grams."""


@dataclass(frozen=True)
class Side:
    """One side of the comparison: what was asked for and what it selected."""

    name: str
    """baseline or candidate; in a grid original, quantized, speculative or both."""
    where: str
    """The predicate as given."""
    deployments: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()
    """ISO dates, rising."""
    origins: tuple[Origin, ...] = ()
    facts: tuple[DeploymentFacts, ...] = ()
    habits: Habits | None = None


@dataclass(frozen=True)
class Evidence:
    """What one side of a verdict was computed from, so that it can be computed again by hand.

    For ratios figure = scale · numerator / denominator over the common strata: the baseline's figure as it is, the
    candidate's with the baseline's weights. ``variance`` is that of ln(figure) (of the figure itself for differences)
    over ``units`` units.
    """

    figure: float | None
    """The side's own figure, before any weighting."""
    standardized: float | None = None
    """The figure over common strata at the baseline's weights."""
    numerator: float | None = None
    denominator: float | None = None
    scale: float = 1.0
    variance: float | None = None
    units: int = 0
    strata: int = 0
    nights: int = 0
    bounds: tuple[float, float | None] | None = None
    """Quantiles: the interval of this side alone; from server buckets at least [lower edge, upper edge]."""


@dataclass(frozen=True)
class Factor:
    """One measure of a product: the logarithm of the product is Σ power · ln(measure)."""

    measure: str
    power: int
    change: float | None
    error: float | None
    """Standard error of ln(candidate / baseline)."""
    degrees_of_freedom: float | None
    origin: str | None
    evidence_baseline: Evidence | None
    evidence_candidate: Evidence | None


@dataclass(frozen=True)
class GateResult:
    """One gate judged in one place."""

    gate: GateName
    measure: str
    stratum: Stratum | None
    verdict: Verdict
    severity: Severity
    required: bool
    baseline: float | None = None
    candidate: float | None = None
    """At the baseline's weights where the figure is a ratio or quantile over strata."""
    change: float | None = None
    """Relative to the baseline; candidate - baseline for kind difference; None for kind limit."""
    interval: tuple[float, float | None] | None = None
    """95 % interval of the change; of the candidate's figure for kind limit; an upper end of None is unbounded."""
    tolerance: float | None = None
    """Largest change (or limit) that is accepted; its sign is that of the bad side."""
    kind: ToleranceKind = "relative"
    detectable: float | None = None
    """Smallest true change, as a magnitude, that this much data would show four times in five."""
    common_share: float | None = None
    n_baseline: int = 0
    n_candidate: int = 0
    unit: str | None = None
    """hour, block, request or interval; what n counts."""
    night_variance: Literal["estimated", "not_estimated"] | None = None
    origin: str | None = None
    method: str | None = None
    """How the interval was made: ratio, difference, quantile, buckets, bucket share, product, maximum, exact."""
    reason: str = ""
    """One sentence: why this verdict."""
    reason_code: str | None = None
    """Machine-readable reason where one is defined: multiplicity, implausible, few_units, few_tail, common_share, …"""
    units: str | None = None
    """Unit of the figures: ms, tokens, ratio, …"""
    higher_is_better: bool | None = None
    p_value: float | None = None
    """One-sided p of «not worse than the tolerance»."""
    degrees_of_freedom: float | None = None
    between_night_variance: float | None = None
    """Variance of one night, on the scale of the change; the change has it (1 / nights + 1 / nights) times."""
    slack: float = 0.0
    """Added to the half-width of ln(1 + change): counts that are known only within bounds."""
    factors: tuple[Factor, ...] = ()
    """What a product is made of."""
    evidence_baseline: Evidence | None = None
    evidence_candidate: Evidence | None = None
    acknowledged: str | None = None
    """The reason given in the file of accepted regressions, expired ones included."""
    advice: tuple[str, ...] = ()
    """What to try, for gates that did not pass."""


@dataclass(frozen=True)
class Effect:
    """A whole change taken apart into what happened within strata and what their mix did, relative to the baseline."""

    measure: str
    within: float
    mix: float
    total: float
    common_share: float
    origin: str
    strata: int


@dataclass(frozen=True)
class SplitRow:
    """Δ ln TPOT taken apart; the terms add up to it, positive terms made tokens slower."""

    stratum: Stratum | None
    d_ln_tpot: float
    round_time: float
    acceptance: float
    coverage: float
    truncation: float
    mix: float
    origin: str
    decode_share: float
    """Share of the candidate's decode time (of the baseline's where the candidate has none)."""
    largest: str
    """Name of the largest term by magnitude."""


@dataclass(frozen=True)
class Gain:
    """One cell of quantization × speculation against the original: TPOT(original) / TPOT(cell) at equal strata."""

    name: str
    gain: float
    interval: tuple[float, float] | None
    common_share: float
    quality: Verdict
    quality_baseline: str
    """The cell its quality is held against."""


@dataclass(frozen=True)
class Grid:
    """Quantization × speculation."""

    gains: Mapping[str, float]
    interaction: float | None
    interaction_interval: tuple[float, float] | None
    cells: tuple[Gain, ...]
    sides: tuple[Side, ...]
    unit: str | None
    origin: str | None
    by_band: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Load band → gains and interaction."""
    by_band_intervals: Mapping[str, Mapping[str, tuple[float, float]]] = field(default_factory=dict)
    """Load band → 95 % intervals of its gains and interaction, where they can be given."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReconciliationRow:
    """One identity that was checked."""

    side: SideName
    deployment: str
    date: str
    check_name: str
    origin: str
    verdict: str
    """ok, fail or no_data."""
    expected: float | None = None
    found: float | None = None
    difference: float | None = None
    instance: str | None = None
    engine: int | None = None
    detail: str | None = None


@dataclass(frozen=True)
class Change:
    """Something that differs between the start-up records or the traffic of the two sides."""

    what: str
    """Field, for example draft_model, quantization, temperature, prompt_tokens."""
    kind: Literal["target", "draft", "server", "hardware", "sampling", "traffic"]
    baseline: str
    candidate: str
    consequence: str
    """One sentence: what it means for the comparison."""


@dataclass(frozen=True)
class Advice:
    """What to try, with the evidence it rests on."""

    cause: str
    """Short name: acceptance, coverage, truncation, round_time, mix, prefill, preemption, drafter_dead, metrics, …"""
    finding: str
    evidence: str
    action: str
    stratum: Stratum | None = None
    measures: tuple[str, ...] = ()
    """Measures of the gates it explains."""


@dataclass(frozen=True)
class BandFigures:
    """The ledger of one side at one load band (``all``: pooled), over all its dates, from one origin."""

    side: str
    load_band: str
    origin: str
    requests: int | None = None
    output_tokens: int | None = None
    steps: int | None = None
    rounds: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    token_share: float | None = None
    acceptance_length: float | None = None
    effective_length: float | None = None
    coverage: float | None = None
    acceptance_rate: float | None = None
    mean_draft_length: float | None = None
    round_time_ms: float | None = None
    tpot_ms: float | None = None
    t0_ms: float | None = None
    t0_origin: str | None = None
    speedup: float | None = None
    speedup_interval: tuple[float, float] | None = None
    break_even_length: float | None = None
    beyond_reach: bool | None = None
    """True where no acceptance could pay at this band."""
    output_tps: float | None = None
    preemptions: int | None = None
    kv_usage_max: float | None = None


@dataclass(frozen=True)
class QuantileFigures:
    """One quantile of one side at one load band; bounds are bucket edges."""

    side: str
    load_band: str
    origin: str
    measure: str
    """ttft_ms, itl_ms, request_tpot_ms or e2e_ms."""
    share: Literal["p50", "p95", "p99"]
    value: float
    lower: float
    upper: float


@dataclass(frozen=True)
class ContextShare:
    """How much of a side's output had a context of that length (prompt and half of the output)."""

    side: SideName
    context_band: str
    requests: int
    output_tokens: int
    token_share: float
    origin: str


@dataclass(frozen=True)
class LoadRange:
    """The loads at which tokens of one side and band were returned: their mean, and between which nine tenths lie."""

    mean: float
    low: int
    high: int


@dataclass(frozen=True)
class LoadGap:
    """A load band inside which the sides ran at other loads, on no finer grid of which both can be compared."""

    load_band: str
    baseline: LoadRange
    candidate: LoadRange
    difference: float
    """Mean load of the candidate relative to that of the baseline, inside what is compared."""
    origin: str


@dataclass(frozen=True)
class ScheduleBand:
    """The draft length that is recommended at one load band, and what stands behind it."""

    load_band: str
    length: int
    in_force: int | None
    """The length that is in force there; None where that is not known."""
    tpot_ms: float | None
    """Predicted; None where the band has no evidence."""
    interval: tuple[float, float] | None
    tpot_ms_in_force: float | None
    evidence: str
    reason: str
    lengths: tuple[int, ...] = ()
    """Every length with evidence at this load, the shortest first; 0 is ordinary decoding."""


@dataclass(frozen=True)
class Schedule:
    """The draft lengths that are recommended for one deployment of the candidate, from the nights compared."""

    deployment: str
    ranges: tuple[tuple[int, ...], ...]
    """num_speculative_tokens_per_batch_size: from, to, length; empty where nothing has evidence."""
    in_force: tuple[tuple[int, ...], ...] | None
    bands: tuple[ScheduleBand, ...]
    saved: float | None = None
    """What it would have saved of ``spent``, both in ``saved_unit``; negative where it would have cost more."""
    saved_interval: tuple[float, float] | None = None
    spent: float | None = None
    saved_unit: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PositionFigures:
    """Acceptance by draft position of one side, over all bands."""

    side: str
    origin: str
    position: int
    rounds: int
    accepted: int
    survival: float
    conditional: float | None
    predicted_length: float
    censored: bool


@dataclass(frozen=True)
class TimePoint:
    """One stretch of time of one side, all its deployments together."""

    side: SideName
    start: str
    """ISO time (UTC) at which the stretch begins."""
    minutes: int
    origin: str
    requests: int | None = None
    rounds: int | None = None
    accepted: int | None = None
    acceptance_length: float | None = None
    running_mean: float | None = None
    """Mean number of requests running on an engine."""
    waiting_max: int | None = None
    kv_usage_mean: float | None = None
    kv_usage_max: float | None = None
    preemptions: int | None = None


@dataclass(frozen=True)
class Restart:
    """A start of a server inside the time of the report."""

    side: SideName
    deployment: str
    at: str
    """ISO time (UTC)."""
    vllm_version: str | None = None


@dataclass(frozen=True)
class Night:
    """One measure of one night (deployment and date) of the history."""

    measure: str
    deployment: str
    date: str
    value: float
    interval: tuple[float, float] | None = None
    load_band: str = "all"
    judged: Verdict | None = None
    change_point: bool = False
    used: bool = True
    """Whether the baseline of this report holds the night."""


@dataclass(frozen=True)
class Report:
    """Everything a report says."""

    verdict: Verdict
    baseline: Side
    candidate: Side
    gates: tuple[GateResult, ...] = ()
    effects: tuple[Effect, ...] = ()
    split: tuple[SplitRow, ...] = ()
    grid: Grid | None = None
    reconciliation: tuple[ReconciliationRow, ...] = ()
    advice: tuple[Advice, ...] = ()
    reason: str = ""
    """One sentence on the verdict of the whole."""
    exit_code: int = 0
    changes: tuple[Change, ...] = ()
    bands: tuple[BandFigures, ...] = ()
    quantiles: tuple[QuantileFigures, ...] = ()
    positions: tuple[PositionFigures, ...] = ()
    contexts: tuple[ContextShare, ...] = ()
    load_gaps: tuple[LoadGap, ...] = ()
    schedules: tuple[Schedule, ...] = ()
    timeline: tuple[TimePoint, ...] = ()
    """Rising in time."""
    restarts: tuple[Restart, ...] = ()
    history: tuple[Night, ...] = ()
    notes: tuple[str, ...] = ()
    """What a reader must know: night-to-night variation not estimated, origin of the figures, …"""
    load_bands: tuple[str, ...] = ()
    """Load bands in their order, as configured."""
    confidence: float = 0.95
    false_discovery_rate: float = 0.05
    tool_version: str = ""
    generated_at: str = ""
    """ISO time (UTC)."""
    schema_version: int = SCHEMA_VERSION


def to_json(report: Report) -> str:
    """The report as the text of report.json: UTF-8, one line a row, no NaN; ValueError if a number is not finite."""
    ordered = {"schema_version": report.schema_version, **vars(report)}
    told = (f"  {json.dumps(name)}: {_lines(value)}" for name, value in ordered.items())
    return "{\n" + ",\n".join(told) + "\n}\n"


def _lines(value: Any) -> str:
    """A value as JSON, rows of a list one below the other: with ``indent`` Python would write all of them."""
    write = json.JSONEncoder(allow_nan=False, ensure_ascii=False, default=vars).encode
    if not isinstance(value, tuple) or not any(map(dataclasses.is_dataclass, value)):
        return write(value)
    rows = ",\n".join(f"    {write(row)}" for row in value)
    return f"[\n{rows}\n  ]"


def from_json(text: str) -> Report:
    """The report of a report.json; KeyError or TypeError if the text does not have its form."""
    report: Report = _build(Report, json.loads(text))
    return report


def finite(value: float | None) -> float | None:
    """The value if it is a finite number, else None: the border that keeps NaN and 0/0 out of a report."""
    return value if value is not None and math.isfinite(value) else None


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _build(kind: Any, value: Any) -> Any:
    """A value of JSON as the declared type."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if value is None or origin is Literal:
        return value
    if origin in {typing.Union, types.UnionType}:
        return _build(next(argument for argument in arguments if argument is not type(None)), value)
    if dataclasses.is_dataclass(kind):
        hints = _hints(typing.cast(type, kind))
        return typing.cast(type, kind)(**{name: _build(hints[name], item) for name, item in value.items()})
    if origin is tuple:
        each = [arguments[0]] * len(value) if arguments[-1] is Ellipsis else arguments
        return tuple(_build(argument, item) for argument, item in zip(each, value, strict=True))
    return {key: _build(arguments[1], item) for key, item in value.items()} if origin is Mapping else value
