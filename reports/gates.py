"""The gates: what is asked by default, and how a TOML file changes it.

A gate file holds ``false_discovery_rate`` and any number of ``[[gate]]`` tables, each with ``gate`` and ``measure``
and what it changes: ``tolerance`` (a change) or ``limit`` (of the candidate's figure), ``kind``, ``severity``,
``required``, ``load_band`` (a band, or "overall"; without it overall and every band) and ``enabled``. Later tables win.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from ..schemas.config import read_toml
from ..schemas.errors import ConfigError
from ..schemas.measures import MEASURES
from .model import GATE_NAMES, GateName, Severity, ToleranceKind
from .multiplicity import FALSE_DISCOVERY_RATE

Where = Callable[[str], str]
"""``file, line n`` of a key of one table."""
OVERALL = "overall"
LARGEST = 1e15
"""No tolerance and no limit is beyond it; it also keeps out NaN and numbers that no float can hold."""


@dataclass(frozen=True)
class Gate:
    """One question put to a measure."""

    gate: GateName
    measure: str
    tolerance: float | None = None
    """Largest change to the bad side, or the limit for kind limit; its sign is that of the bad side."""
    kind: ToleranceKind = "relative"
    severity: Severity = "fail"
    required: bool = False
    banded: bool = True
    """Whether it is also judged at every load band."""
    enabled: bool = True


@dataclass(frozen=True)
class GateSet:
    """All gates of a report: the ones without a band, and what holds at one band instead."""

    gates: tuple[Gate, ...]
    at_band: Mapping[tuple[GateName, str, str], Gate]
    """(gate, measure, load band or "overall") → the gate there."""
    false_discovery_rate: float = FALSE_DISCOVERY_RATE

    def places(self, bands: Sequence[str]) -> list[tuple[Gate, str | None]]:
        """Every gate at every place where it is judged: overall (None) first, then the load bands in order."""
        found: list[tuple[Gate, str | None]] = []
        for gate in self.gates:
            for band in (None, *bands):
                special = self.at_band.get((gate.gate, gate.measure, OVERALL if band is None else band))
                chosen = special or (gate if band is None or gate.banded else None)
                if chosen is not None and chosen.enabled:
                    found.append((chosen, band))
        return found

    def explicit(self, gate: Gate, band: str | None) -> bool:
        """Whether the gate file asked for this gate at this band by name."""
        return band is not None and (gate.gate, gate.measure, band) in self.at_band


QUALITY_POINT = -0.01
"""One point of a figure between 0 and 1: less than what most evaluations can resolve, more than rounding."""
TPOT_RISE = 0.05
"""A user notices streams that are a twentieth slower only over a day; a bill does at once."""
LATENCY_RISE = 0.10
"""Tails vary more from night to night than means: a tenth is beyond that."""
ITL_OVER_RISE = 0.25
"""Share of gaps over the edge of the baseline's p99: a quarter more is about a tenth more p99 on usual tails."""
LONGEST_PAUSE_RISE = 0.50
"""A maximum is one observation: only a large rise is worth a word."""
LENGTH_DROP = -0.05
"""Acceptance and effective length: a twentieth is a twentieth of all decode time."""
ROUND_TIME_RISE = 0.05
THROUGHPUT_DROP = -0.05
COST_RISE = 0.05
PREEMPTIONS_RISE = 10.0
"""Preemptions per 1,000 requests: one request in a hundred recomputed."""
KV_TOKENS_DROP = -0.10
KV_USAGE_LIMIT = 0.98
"""Share of the KV cache in use: beyond it the next request waits or preempts another."""

DEFAULT_GATES: tuple[Gate, ...] = (
    Gate("correctness", "acceptance_length", kind="limit", banded=False),
    Gate("correctness", "identities", kind="limit", banded=False),
    Gate("correctness", "comparability", kind="limit", severity="warn", banded=False),
    Gate("correctness", "paired_outputs", 0.02, "difference", banded=False),
    Gate("quality", "*", QUALITY_POINT, "difference", banded=False),
    Gate("latency", "tpot_ms", TPOT_RISE),
    Gate("latency", "ttft_ms_p95", LATENCY_RISE),
    Gate("latency", "e2e_ms_p95", LATENCY_RISE),
    Gate("latency", "itl_ms_p99", LATENCY_RISE),
    Gate("latency", "itl_over", ITL_OVER_RISE),
    Gate("latency", "longest_pause_ms", LONGEST_PAUSE_RISE, severity="warn"),
    Gate("capacity", "acceptance_length", LENGTH_DROP),
    Gate("capacity", "effective_length", LENGTH_DROP),
    Gate("capacity", "round_time_ms", ROUND_TIME_RISE),
    Gate("capacity", "output_tps", THROUGHPUT_DROP),
    Gate("capacity", "gpu_s_per_1k_tokens", COST_RISE),
    Gate("capacity", "goodput_tps", THROUGHPUT_DROP),
    Gate("capacity", "per_1k_requests", PREEMPTIONS_RISE, "difference"),
    Gate("capacity", "kv_tokens", KV_TOKENS_DROP, severity="warn", banded=False),
    Gate("capacity", "kv_usage_max", KV_USAGE_LIMIT, "limit", "warn", banded=False),
)
"""What is asked when no gate file says otherwise; none is required."""

CHECKS = frozenset({"acceptance_length", "identities", "comparability", "paired_outputs"})
"""Correctness gates; their bounds are definitions and cannot be changed, only their severity and whether they count."""
KEYS = {
    "gate": "`correctness`, `quality`, `latency` or `capacity`.",
    "measure": "A name from `specledger explain`, or `task/metric` under quality; `*` is all of them.",
    "tolerance": "Largest change to the bad side.",
    "kind": "`relative` (the default) or `difference`.",
    "limit": "Instead of a tolerance: a bound of the candidate's own figure.",
    "severity": "`fail` or `warn`.",
    "required": "Whether a gate without an answer ends with exit code 3.",
    "load_band": "One band, or `overall`; without it overall and at every band.",
    "enabled": "`false` leaves the gate out.",
}
TOP_KEYS = {
    "gate": "One table for each gate that is changed or added.",
    "false_discovery_rate": f"Over all gates that could fail a report; {FALSE_DISCOVERY_RATE} unless said otherwise.",
}
DEFAULT_SET = GateSet(DEFAULT_GATES, {})


def load_gates(path: Path | None, bands: Sequence[str]) -> GateSet:
    """The gates of a report; ``bands`` are the load bands that may be named. ConfigError names key and line."""
    if path is None:
        return DEFAULT_SET
    document, lines = read_toml(path)
    for key in document:
        if key not in TOP_KEYS:
            raise ConfigError(f"{lines.at(key)}: {key} is not known; known are {', '.join(sorted(TOP_KEYS))}.")
    rate = document.get("false_discovery_rate", FALSE_DISCOVERY_RATE)
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate < 1:
        raise ConfigError(f"{lines.at('false_discovery_rate')}: false_discovery_rate must lie between 0 and 1.")
    tables = document.get("gate", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ConfigError(f"{lines.at('gate')}: gates are written as [[gate]] tables.")
    gates = {(gate.gate, gate.measure): gate for gate in DEFAULT_GATES}
    at_band: dict[tuple[GateName, str, str], Gate] = {}
    for number, table in enumerate(tables):
        _add(gates, at_band, table, bands, partial(lines.at, "gate", number))
    return GateSet(tuple(gates.values()), at_band, float(rate))


def _add(
    gates: dict[tuple[GateName, str], Gate],
    at_band: dict[tuple[GateName, str, str], Gate],
    table: dict[str, Any],
    bands: Sequence[str],
    where: Where,
) -> None:
    for key in table:
        if key not in KEYS:
            raise ConfigError(f"{where(key)}: {key} is not known in [[gate]]; known are {', '.join(sorted(KEYS))}.")
    name, measure = _one_of(table, "gate", GATE_NAMES, where), table.get("measure")
    if not _is_measure(name, measure):
        raise ConfigError(
            f"{where('measure')}: measure {measure!r} is not known under {name}; known are {', '.join(_known(name))}."
        )
    gate_name = cast(GateName, name)
    before = gates.get((gate_name, str(measure)), Gate(gate_name, str(measure)))
    band = table.get("load_band")
    if band is None:
        gates[(gate_name, before.measure)] = _changed(before, table, where)
        return
    if band not in (OVERALL, *bands):
        raise ConfigError(
            f"{where('load_band')}: load_band {band!r} is not known; known are {OVERALL}, {', '.join(bands)}."
        )
    before = at_band.get((gate_name, before.measure, band), before)
    at_band[(gate_name, before.measure, band)] = _changed(before, table, where)
    gates.setdefault((gate_name, before.measure), replace(before, enabled=False))


def _changed(before: Gate, table: dict[str, Any], where: Where) -> Gate:
    gate = before
    if "severity" in table:
        gate = replace(gate, severity=cast(Severity, _one_of(table, "severity", ("fail", "warn"), where)))
    for key in ("required", "enabled"):
        if key in table:
            if not isinstance(table[key], bool):
                raise ConfigError(f"{where(key)}: {key} must be true or false.")
            gate = replace(gate, **{key: table[key]})
    if before.gate == "correctness":
        for key in ("tolerance", "limit", "kind"):
            if key in table:
                raise ConfigError(f"{where(key)}: the bounds of {before.measure} under correctness are fixed.")
        return gate
    if "limit" in table:
        return _limited(gate, table, where)
    if "kind" in table:
        kind = _one_of(table, "kind", ("relative", "difference"), where)
        gate = replace(gate, kind=cast(ToleranceKind, kind))
    if "tolerance" in table:
        kind = "relative" if gate.kind == "limit" else gate.kind
        gate = replace(gate, tolerance=_signed(gate.measure, table, where), kind=kind)
    if gate.enabled and gate.tolerance is None:
        raise ConfigError(f"{where('measure')}: {gate.measure} has no default: give tolerance or limit.")
    return gate


def _limited(gate: Gate, table: dict[str, Any], where: Where) -> Gate:
    if "tolerance" in table:
        raise ConfigError(f"{where('limit')}: give either limit or tolerance.")
    if "kind" in table:
        raise ConfigError(f"{where('kind')}: leave out kind, which says how a tolerance is meant: a limit has none.")
    return replace(gate, tolerance=_number(table, "limit", where), kind="limit")


def _signed(measure: str, table: dict[str, Any], where: Where) -> float:
    """A tolerance, whose sign must be that of the bad side."""
    value = _number(table, "tolerance", where)
    higher = MEASURES[measure].higher_is_better if measure in MEASURES else True
    if value == 0 or (value > 0) == higher:
        side = "below" if higher else "above"
        raise ConfigError(
            f"{where('tolerance')}: the tolerance of {measure} must lie {side} 0, on its bad side; it is {value:g}."
        )
    return value


def _number(table: dict[str, Any], key: str, where: Where) -> float:
    value = table[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
        raise ConfigError(f"{where(key)}: {key} must be a number.")
    return float(value)


def _one_of(table: dict[str, Any], key: str, allowed: Sequence[str], where: Where) -> str:
    value = table.get(key)
    if value not in allowed:
        raise ConfigError(f"{where(key)}: {key} must be one of {', '.join(allowed)}, not {value!r}.")
    return str(value)


def _is_measure(gate: str, measure: object) -> bool:
    return isinstance(measure, str) and (gate == "quality" or measure in _known(gate))


def _known(gate: str) -> list[str]:
    if gate == "quality":
        return ["* (all figures)", "task/metric"]
    if gate == "correctness":
        return sorted(CHECKS)
    return sorted(name for name, measure in MEASURES.items() if measure.gate == gate)
