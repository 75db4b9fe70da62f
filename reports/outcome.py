"""The verdict of a whole report, and the exit code that goes with it.

Order: fail, if any gate failed anywhere. Else no_data, if a side is empty. Else the gates of severity fail that hold
overall (and those that the gate file asks for at a band) decide: inconclusive or not_comparable, if one of them is.
Else warn, acknowledged, pass in this order, if any gate says so; no_data if none says anything. What single bands leave
open is shown and does not decide: a band with little traffic is never conclusive.
"""

from __future__ import annotations

from collections.abc import Sequence

from .gates import GateSet
from .model import GateResult, Side, Verdict
from .selection import NOTHING

UNANSWERED = frozenset({"inconclusive", "no_data", "not_comparable"})
EXIT_FAILED_GATE = 1
EXIT_UNANSWERED = 3


def overall(results: Sequence[GateResult], gates: GateSet, baseline: Side, candidate: Side) -> tuple[Verdict, str]:
    """The verdict of a report and one sentence on it."""
    verdict = _verdict(results, gates)
    if verdict != "fail":  # a limit holds for the candidate, whatever there is to compare it with
        if baseline.where == NOTHING:
            return "no_data", "There is no good night yet to hold the candidate against."
        for side in (baseline, candidate):
            if not side.dates:
                return "no_data", f"The {side.name} selects nothing: no night of any deployment matches «{side.where}»."
    named = list(dict.fromkeys(result.measure for result in results if result.verdict == verdict))
    counted = f"{sum(result.verdict == verdict for result in results)} of {len(results)} gates"
    apart = sum(result.verdict == "not_comparable" for result in results)
    beside = f"; {apart} more could not be compared" if apart else ""
    shown = ", ".join(named[:5]) + (" and more" if len(named) > 5 else "")
    return verdict, {
        "fail": f"{counted} failed: {shown}.",
        "inconclusive": f"No gate failed, and {counted} could not be decided: {shown}{beside}.",
        "not_comparable": f"No gate failed, and {counted} had too little in common to compare: {shown}.",
        "warn": f"No gate failed, and {counted} warn: {shown}.",
        "acknowledged": f"{counted} failed and were accepted before: {shown}.",
        "pass": f"{counted} passed and none failed.",
        "no_data": "No gate had anything to judge.",
    }[verdict]


def _verdict(results: Sequence[GateResult], gates: GateSet) -> Verdict:
    verdicts = {result.verdict for result in results}
    if "fail" in verdicts:
        return "fail"
    deciding = {result.verdict for result in results if _decides(result, gates)}
    order: tuple[Verdict, ...] = ("inconclusive", "not_comparable")
    undecided = [verdict for verdict in order if verdict in deciding]
    rest: tuple[Verdict, ...] = ("warn", "acknowledged", "pass")
    said = [verdict for verdict in rest if verdict in verdicts]
    return (*undecided, *said, "no_data")[0]


def _decides(result: GateResult, gates: GateSet) -> bool:
    if result.required:
        return True
    if result.severity != "fail" or _stated(result):
        return False
    return result.stratum is None or (result.gate, result.measure, result.stratum.load_band) in gates.at_band


def _stated(result: GateResult) -> bool:
    """Whether it does not compare by design: speculation was switched on or off, or the target was changed."""
    return result.verdict == "not_comparable" and (
        result.reason_code == "speculation" or result.measure == "paired_outputs"
    )


def exit_code(results: Sequence[GateResult]) -> int:
    """1 if a gate failed, 3 if a required one is unanswered, else 0."""
    if any(result.verdict == "fail" for result in results):
        return EXIT_FAILED_GATE
    if any(result.required and result.verdict in UNANSWERED for result in results):
        return EXIT_UNANSWERED
    return 0
