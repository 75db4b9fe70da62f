"""Reports for tests of the writers: the full example, and small or hostile ones made by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from specledger.reports.model import (
    Advice,
    BandFigures,
    Change,
    DeploymentFacts,
    Effect,
    GateResult,
    Origin,
    PositionFigures,
    ReconciliationRow,
    Report,
    Side,
    SplitRow,
    Stratum,
    from_json,
)

EXAMPLE = Path(__file__).parent / "data" / "example_report.json"

HOSTILE = (
    "</script><script>window.pwned=1</script>",
    "\"'><img src=x onerror=window.pwned=1>",
    "]]><!-- {{ 7 * 7 }} {% include 'x' %}",
    "שלום עולם \u202egpj.exe",
    "a|b`c`*d*_e_[f](javascript:alert(1)) @octocat #1 https://example.org www.example.org $x$",
    "=HYPERLINK(1)",
    "\x1b[31mred\x07\u2028next\nline\x00",
    "long-" * 80,
)
"""Labels as nobody should write them; every writer must show them as the text they are."""


def example() -> Report:
    """The full example."""
    return from_json(EXAMPLE.read_text(encoding="utf-8"))


def gate(measure: str = "tpot_ms", verdict: str = "fail", **changed: Any) -> GateResult:
    """A gate result on TPOT: 10 ms to 12 ms, +20 %, allowed +5 %."""
    settled: dict[str, Any] = {
        "gate": "latency",
        "measure": measure,
        "stratum": None,
        "verdict": verdict,
        "severity": "fail",
        "required": False,
        "baseline": 10.0,
        "candidate": 12.0,
        "change": 0.2,
        "interval": (0.15, 0.25),
        "tolerance": 0.05,
        "kind": "relative",
        "detectable": 0.02,
        "common_share": 1.0,
        "n_baseline": 24,
        "n_candidate": 24,
        "unit": "hour",
        "night_variance": "not_estimated",
        "origin": "requests",
        "method": "ratio",
        "reason": "The whole interval lies beyond +5 %.",
        "units": "ms",
    }
    if "load_band" in changed:
        changed["stratum"] = Stratum(changed.pop("load_band"))
    return GateResult(**{**settled, **changed})


def report(*gates: GateResult, verdict: str = "fail", **changed: Any) -> Report:
    """A report of these gates over one night a side."""
    settled: dict[str, Any] = {
        "verdict": verdict,
        "baseline": Side("baseline", "deployment = 'a'", ("a",), ("2026-11-20",)),
        "candidate": Side("candidate", "deployment = 'b'", ("b",), ("2026-11-21",)),
        "gates": gates,
        "load_bands": ("1", "2-4", "5-8"),
        "tool_version": "0.1.0",
        "generated_at": "2026-11-21T04:10:00Z",
    }
    return Report(**{**settled, **changed})


def band(load_band: str, speedup: float | None, interval: tuple[float, float] | None, **changed: Any) -> BandFigures:
    """The ledger of the candidate at one load band."""
    settled: dict[str, Any] = {"side": "candidate", "origin": "requests", "rounds": 1000, "steps": 1000}
    return BandFigures(load_band=load_band, speedup=speedup, speedup_interval=interval, **{**settled, **changed})


def no_data() -> Report:
    """A candidate that selects nothing."""
    return report(
        gate(verdict="no_data", baseline=None, candidate=None, change=None, interval=None, reason="No candidate data."),
        verdict="no_data",
        candidate=Side("candidate", "deployment = 'typo'"),
        reason="The candidate deployment = 'typo' selects no data.",
    )


def not_comparable() -> Report:
    """Two sides without common load."""
    reason = "Only 12 % of the baseline's tokens lie in strata that the candidate has too."
    return report(
        gate(verdict="not_comparable", change=None, interval=None, reason=reason, reason_code="common_share"),
        verdict="not_comparable",
        reason=reason,
    )


def one_request() -> Report:
    """One request a side: figures, and nothing that could be judged."""
    return report(
        gate(
            verdict="inconclusive",
            interval=None,
            detectable=None,
            n_baseline=1,
            n_candidate=1,
            unit="request",
            reason="1 request a side is too few: at least 8 are needed.",
            reason_code="few_units",
        ),
        verdict="inconclusive",
        bands=(
            band("1", 1.2, None, requests=1, token_share=1.0, effective_length=2.0, round_time_ms=12.0, t0_ms=14.0),
        ),
        positions=(PositionFigures("candidate", "requests", 1, 20, 12, 0.6, 0.6, 1.6, False),),
    )


def hostile() -> Report:
    """The example with hostile text wherever text can come from outside."""
    text = " ".join(HOSTILE)
    full = example()
    names = tuple(HOSTILE)
    facts = (DeploymentFacts(HOSTILE[0], model=HOSTILE[1], labels={HOSTILE[2]: HOSTILE[3]}),)
    sides = [
        replace(side, where=HOSTILE[position], deployments=names, facts=facts, origins=(Origin(HOSTILE[0], 1),))
        for position, side in enumerate((full.baseline, full.candidate))
    ]
    return replace(
        full,
        baseline=sides[0],
        candidate=sides[1],
        gates=tuple(
            gate(name, load_band=name, gate="quality", reason=name, advice=(name,), unit=name, origin=name)
            for name in HOSTILE
        ),
        advice=(Advice(HOSTILE[0], text, text, text, Stratum(HOSTILE[1])),),
        changes=(Change(HOSTILE[0], "draft", HOSTILE[1], HOSTILE[2], text),),
        effects=(Effect(HOSTILE[0], 0.1, 0.2, 0.3, 1.0, HOSTILE[1], 3),),
        split=(SplitRow(None, 0.1, 0.1, 0.0, 0.0, 0.0, 0.0, HOSTILE[0], 1.0, "round_time"),),
        bands=tuple(
            band(name, 1.5, (1.4, 1.6), t0_ms=10.0, round_time_ms=20.0, effective_length=2.5, break_even_length=2.0)
            for name in HOSTILE
        ),
        reconciliation=(
            ReconciliationRow("candidate", HOSTILE[0], HOSTILE[1], HOSTILE[2], HOSTILE[3], "fail", detail=text),
        ),
        notes=(text,),
        reason=text,
        load_bands=(),
    )


REPORTS: dict[str, Callable[[], Report]] = {
    "example": example,
    "hostile": hostile,
    "no data": no_data,
    "not comparable": not_comparable,
    "one request": one_request,
    "no gates": lambda: report(verdict="no_data"),
}
"""What every writer must cope with."""
