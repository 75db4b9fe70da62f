"""Pages of many nights for tests of the writers, made by hand."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

from specledger.reports.model import Night, ReconciliationRow, Report, TimePoint
from specledger.reports.trend import NightlyReport, Trend
from specledger.reports.trend_page import COLOURS
from tests.sample_reports import HOSTILE, band, example, gate

FIRST = dt.date(2026, 9, 1)


def night(day: int, value: float = 2.7, *, deployment: str = "a", **changed: object) -> Night:
    settled = {"measure": "acceptance_length", "interval": (value - 0.02, value + 0.02)} | changed
    return Night(deployment=deployment, date=(FIRST + dt.timedelta(days=day)).isoformat(), value=value, **settled)  # type: ignore[arg-type]


def told(day: int, verdict: str = "pass", deployment: str = "a", sentence: str = "All is well.") -> NightlyReport:
    date = (FIRST + dt.timedelta(days=day)).isoformat()
    return NightlyReport(f"{date}/{deployment}/report.json", 1, date, (deployment,), verdict, sentence, "")  # type: ignore[arg-type]


def fleet(deployments: int, nights: int) -> Trend:
    """Every measure of every deployment on every night, each night with a report."""
    names = [f"llama70b-fp8-{number:02d}" for number in range(deployments)]
    return Trend(
        tuple(
            night(day, 2.7 + (day * 7 % 11) / 100, deployment=name, measure=measure)
            for name in names
            for measure in COLOURS
            for day in range(nights)
        ),
        tuple(
            told(day, "fail" if day % 9 == 0 else "pass", name, "Failed: acceptance length −7 % (allowed −5 %). " * 3)
            for day in range(nights)
            for name in names
        ),
    )


def hostile_nights() -> Trend:
    """Nights of deployments with hostile names, and reports that say the same."""
    return Trend(
        tuple(night(0, deployment=name) for name in HOSTILE),
        tuple(told(0, "fail", name, name) for name in HOSTILE),
    )


def long_report() -> Report:
    """A report of ninety nights of twenty deployments, with every gate at eleven loads."""
    bands = [f"{n}" for n in range(1, 12)]
    names = tuple(f"llama70b-fp8-{number:02d}" for number in range(20))
    dates = tuple((FIRST + dt.timedelta(days=day)).isoformat() for day in range(90))
    full = example()
    return replace(
        full,
        baseline=replace(full.baseline, deployments=names, dates=dates[:-1]),
        candidate=replace(full.candidate, deployments=names, dates=dates[-1:]),
        gates=tuple(gate(f"measure_{m}", load_band=name) for m in range(30) for name in bands),
        bands=tuple(
            band(name, 1.5, (1.4, 1.6), side=side, round_time_ms=10.0, t0_ms=9.0)
            for name in bands
            for side in ("baseline", "candidate")
        ),
        reconciliation=tuple(
            ReconciliationRow("baseline", name, date, f"check_{check}", "requests", verdict, 9.0, 9.0 + check, check)
            for name in names
            for date in dates
            for check, verdict in enumerate(("ok", "ok", "no_data", "fail"))
        ),
        timeline=tuple(
            TimePoint(
                side,
                f"{date}T00:00:00Z",
                1440,
                "snapshots",
                requests=1,
                rounds=2,
                accepted=1,
                acceptance_length=1.5 + (number * 7 % 11) / 100,
                kv_usage_mean=0.5,
                kv_usage_max=0.7,
                preemptions=number % 3,
            )
            for number, date in enumerate(dates)
            for side in ("baseline", "candidate")
        ),
        history=fleet(20, 60).nights,
    )
