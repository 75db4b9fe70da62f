"""Figures as people read them: three or four digits, a unit, a sign where it is a change.

Numbers are plain text with U+2212 as minus; what is not known is an en dash.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..schemas.measures import MEASURES
from .model import GateResult, Stratum, Verdict

UNKNOWN = "–"
MINUS = "−"

LABELS = {
    "tpot_ms": "TPOT",
    "ttft_ms": "TTFT",
    "itl_ms": "Stream gap (ITL)",
    "request_tpot_ms": "TPOT of a request",
    "e2e_ms": "End-to-end time",
    "itl_over": "Long stream gaps",
    "burstiness": "Burstiness",
    "longest_pause_ms": "Longest pause",
    "acceptance_length": "Acceptance length",
    "effective_length": "Effective length",
    "coverage": "Coverage",
    "acceptance_rate": "Draft acceptance rate",
    "mean_draft_length": "Mean draft length",
    "round_time_ms": "Round time",
    "output_tps": "Output rate",
    "prompt_tps": "Prompt rate",
    "goodput_tps": "Goodput",
    "qualified_share": "Qualified tokens",
    "gpu_s_per_1k_tokens": "GPU time per 1,000 tokens",
    "gpu_s_per_1k_qualified_tokens": "GPU time per 1,000 qualified tokens",
    "per_1k_requests": "Preemptions per 1,000 requests",
    "kv_tokens": "KV cache size",
    "kv_usage_max": "KV use, highest",
    "identities": "Identities",
    "paired_outputs": "Paired outputs",
    "sampling": "Sampling parameters",
    "comparability": "Comparability",
    "quality": "Quality figures",
    "speedup": "Speedup",
    "t0_ms": "T0",
    "break_even_length": "Break-even length",
    "survival": "Survival",
    "conditional": "Conditional acceptance",
    "predicted_length": "Predicted length",
    "marginal_gain": "Marginal gain",
    "token_share": "Share of tokens",
}
VERDICT_LABELS: dict[str, str] = {
    "pass": "pass",
    "fail": "fail",
    "warn": "warn",
    "inconclusive": "inconclusive",
    "no_data": "no data",
    "not_comparable": "not comparable",
    "acknowledged": "acknowledged",
}
PERCENT_UNITS = frozenset({"ratio", "percent"})
FACTORS = frozenset({"speedup", "burstiness", "gain", "interaction"})
"""Ratios that are read as a factor (1.87×), not as a share."""
MOST_PLACES = 6


def measure_label(name: str) -> str:
    """What people call a measure; its own name where there is no better one."""
    base, _, quantile = name.rpartition("_")
    if quantile in {"p50", "p95", "p99"} and base in LABELS:
        return f"{LABELS[base]} {quantile}"
    return LABELS.get(name, name)


def in_sentence(name: str) -> str:
    """The label of a measure inside a sentence: small, unless it is an abbreviation or a name of its own."""
    label = measure_label(name)
    return label if label == name else in_text(label)


def in_text(label: str) -> str:
    """A label as it stands inside a sentence: small, unless it is an abbreviation."""
    return label if label[1:2].isupper() else label[:1].lower() + label[1:]


def verdict_label(verdict: str) -> str:
    """A verdict in words."""
    return VERDICT_LABELS.get(verdict, verdict)


def place(stratum: Stratum | None) -> str:
    """Where a result holds."""
    return "overall" if stratum is None else band_label(stratum.load_band)


def gate_title(gate: GateResult) -> str:
    """What is measured and where; a result that holds overall needs no place."""
    label = measure_label(gate.measure)
    return label if gate.stratum is None else f"{label}, {place(gate.stratum)}"


def band_label(load_band: str) -> str:
    """A load band in words."""
    if load_band == "all":
        return "all loads"
    return "load unknown" if load_band == "unknown" else f"load {load_band}"


def number(value: float | None, digits: int = 4) -> str:
    """A figure with about that many significant digits, thousands separated, no exponent below 10¹⁵."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if abs(value) >= 1e15:
        return _minus(f"{value:.2e}")
    whole = value == int(value)
    if value == 0 or (whole and (isinstance(value, int) or abs(value) >= 1000)):
        return _minus(f"{value:,.0f}")
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return _minus(f"{value:,.{min(places, MOST_PLACES)}f}")


def figure(value: float | None, units: str | None = None, measure: str | None = None) -> str:
    """A figure with its unit."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if measure in FACTORS:
        return f"{factor(value)}×"
    declared = MEASURES.get(measure or "")
    if units in PERCENT_UNITS and (declared is None or declared.unit in PERCENT_UNITS):
        return percent(value)
    units = declared.unit if declared is not None and units in PERCENT_UNITS else units
    return f"{number(value)} {units}" if units and units not in {"1/1000", "count"} else number(value)


def factor(value: float, places: int = 2) -> str:
    """A factor with so many places, and more where these would make it look like the 1 that it is not."""
    while places < MOST_PLACES and value != 1 and float(f"{value:.{places}f}") == 1:
        places += 1
    return f"{value:,.{places}f}"


def percent(share: float | None, *, signed: bool = False, brief: bool = False) -> str:
    """A share as percent: one decimal, two below one percent; ``brief`` leaves out zeros after the point."""
    if share is None or not math.isfinite(share):
        return UNKNOWN
    value = 100 * share
    text = f"{value:{'+' if signed else ''}.{2 if 0 < abs(value) < 1 else 1}f}"
    text = text if float(text) else text.lstrip("+-")
    if brief:
        text = text.rstrip("0").rstrip(".")
    return f"{_minus(text)} %"


def change(gate: GateResult) -> str:
    """The change of a gate: percent, points or the bare difference; empty for a limit."""
    return "" if gate.kind == "limit" else _changed(gate, gate.change)


def interval(gate: GateResult) -> str:
    """The interval of the change (of the candidate's figure for a limit); empty without one."""
    if gate.interval is None:
        return ""
    lower, upper = gate.interval
    if gate.kind == "limit":
        return span(figure(lower, gate.units, gate.measure), figure(upper, gate.units, gate.measure), upper)
    return span(_changed(gate, lower), _changed(gate, upper), upper)


def tolerance(gate: GateResult) -> str:
    """What the gate allowed; empty where nothing was set, or where the reason alone can say it (correctness)."""
    if gate.tolerance is None or gate.gate == "correctness":
        return ""
    if gate.units in PERCENT_UNITS and gate.kind == "limit":
        return percent(gate.tolerance, brief=True)
    if gate.kind == "relative":
        return percent(gate.tolerance, signed=True, brief=True)
    return figure(gate.tolerance, gate.units) if gate.kind == "limit" else _changed(gate, gate.tolerance)


def span(lower: str, upper: str, upper_value: float | None) -> str:
    """Two ends of an interval; a common unit is said once."""
    if upper_value is None:
        return f"{lower} or more"
    for unit in (" %", " points", "×"):
        if lower.endswith(unit) and upper.endswith(unit):
            lower = lower.removesuffix(unit)
            break
    return f"{lower} to {upper}"


def hundredths(value: float) -> str:
    """A term of ln TPOT times 100, with its sign; a term that rounds to nothing has none."""
    text = f"{100 * value:+.1f}"
    return "0.0" if text[1:] == "0.0" else _minus(text)


def listed(items: Sequence[str], *, most: int = 6) -> str:
    """Items as a phrase, with the number of those left out."""
    shown = list(items[:most])
    if len(items) > most:
        return f"{', '.join(shown)} and {len(items) - most} more"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}" if shown else ""


def dates(values: Sequence[str]) -> str:
    """Dates as one, or first to last with their number."""
    if not values:
        return "no date"
    return values[0] if len(values) == 1 else f"{values[0]} to {values[-1]} ({len(values)} dates)"


def plural(count: int, noun: str) -> str:
    """A count with its noun."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def verdict_counts(gates: Sequence[GateResult]) -> dict[Verdict, int]:
    """How many gates had each verdict, in the order in which they are urgent."""
    order: tuple[Verdict, ...] = ("fail", "warn", "inconclusive", "not_comparable", "no_data", "acknowledged", "pass")
    return {verdict: n for verdict in order if (n := sum(gate.verdict == verdict for gate in gates))}


def _changed(gate: GateResult, value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return UNKNOWN
    if gate.kind == "relative":
        return percent(value, signed=True)
    if gate.units in PERCENT_UNITS:
        points = f"{100 * value:+.2f}".rstrip("0").rstrip(".")
        return f"{_minus(points)} points"
    sign = "+" if value > 0 else ""
    return f"{sign}{number(value, 3)}"


def _minus(text: str) -> str:
    return text.replace("-", MINUS)
