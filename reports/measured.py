"""The latency and capacity gates: every measure at every place, from the comparison."""

from __future__ import annotations

from dataclasses import replace

from ..schemas.measures import MEASURES
from .bands import MartReader
from .compare import Comparison
from .format import percent
from .gates import Gate, GateSet
from .judge import blank, judge, judge_limit, judge_point
from .model import GateResult, Stratum

OF_ROUNDS = frozenset({"effective_length", "coverage", "round_time_ms"})
"""Figures of a step: one with a draft takes longer and returns more than one without, which is no regression."""
ONE_SPECULATES = "Only one side speculates: what a round takes and what it returns are judged together, as TPOT."
CLOCKS_DIFFER = "The gaps of one side were measured by its clients and those of the other by its servers."


def measured_gates(gates: GateSet, comparison: Comparison, marts: MartReader) -> list[GateResult]:
    """Latency and capacity: every gate at every place."""
    replaced = "itl_over" if comparison.origin_of(MEASURES["itl_ms_p99"]) != "snapshots" else "itl_ms_p99"
    results: list[GateResult] = []
    silent: set[str] = set()
    for gate, band in gates.places(comparison.load_bands):
        if gate.gate not in {"latency", "capacity"} or gate.measure == replaced:
            continue
        asked = band is None or gate.required or gates.explicit(gate, band)
        if gate.measure in silent and not asked:
            continue
        result = _judge(gate, band, comparison, marts)
        if result.verdict == "no_data" and band is None:
            silent.add(gate.measure)  # what nobody has overall is not worth a line at every band
        if result.verdict != "no_data" or asked:
            results.append(result)
    return results


def _judge(gate: Gate, band: str | None, comparison: Comparison, marts: MartReader) -> GateResult:
    measure = MEASURES[gate.measure]
    place = None if band is None else Stratum(band)
    if measure.form == "constant":
        sizes = [marts.kv_tokens(side) for side in comparison.sides]
        return replace(judge_point(gate, sizes[0], sizes[1], "deployments", "exact", (0, 0)), stratum=place)
    if measure.form == "maximum":
        values, counts, origin = comparison.maximum(gate.measure, band)
        result = judge_point(gate, values[0], values[1], origin, "maximum", (counts[0], counts[1]))
        return replace(result, stratum=place)
    if measure.histogram == "itl" and _clocks_differ(comparison, measure.name):
        return blank(gate, band, "not_comparable", CLOCKS_DIFFER)
    if gate.kind == "limit":
        found = comparison.alone(gate.measure, band)
        return judge_limit(gate, band, found, _partial(comparison, found.origin))
    found = comparison.estimate(gate.measure, band, relative=gate.kind == "relative")
    result = judge(gate, band, found, _partial(comparison, found.origin))
    if gate.measure in OF_ROUNDS and result.verdict != "no_data" and _one_speculates(comparison, found.origin):
        return replace(result, verdict="not_comparable", reason=ONE_SPECULATES, reason_code="speculation", p_value=None)
    return result


def _partial(comparison: Comparison, origin: str | None) -> str:
    held = None if origin is None else comparison.choice.partial(origin)
    return "" if held is None else f"Requests hold only {percent(held)} of the servers' tokens."


def _clocks_differ(comparison: Comparison, name: str) -> bool:
    if comparison.origin_of(MEASURES[name]) != "requests":
        return False
    shares = [
        comparison.reader.scalar(side, "requests", "sum(itl_client_n) / nullif(sum(itl_n), 0)")
        for side in comparison.sides
    ]
    return {round(share) for share in shares if share is not None} == {0, 1}


def _one_speculates(comparison: Comparison, origin: str | None) -> bool:
    if origin is None:
        return False
    rounds = [float(comparison.reader.frame(side, origin).columns["rounds"].sum()) for side in comparison.sides]
    return (rounds[0] > 0) != (rounds[1] > 0)
