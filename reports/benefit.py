"""Where speculation pays and where it costs, in words: by load, with what is not speculation's own left out.

A direction is claimed only where the interval of the speedup lies wholly on one side of 1.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Literal

from .format import factor, figure, in_text, listed
from .interval import MIN_UNITS
from .model import BandFigures, Report
from .stalls import stalled
from .terms import switched

MOSTLY = 0.5
"""Share of a band's tokens that must have been drafted for its speedup to be one of speculation."""


def benefit(report: Report) -> str | None:
    """Where speculation pays and where it costs, on the candidate if it speculates, else on the baseline."""
    side = speculating_side(report)
    if side is None:
        return None
    bands = [band for band in report.bands if band.side == side and band.speedup is not None]
    single = [band for band in bands if band.load_band != "all" and not _not_its_own(report, band)]
    stalls = [band for band in bands if band.load_band != "all" and _stalled(report, band)]
    if not single:
        return _of_stalls(stalls) or None
    pays, costs = decided_bands(report, "pays"), decided_bands(report, "costs")
    rest = [band for band in single if band.speedup_interval and band not in pays and band not in costs]
    bare = [band for band in single if not band.speedup_interval]
    groups = (("pays", pays), ("costs", costs), ("is undecided", rest), ("is undecided, without an interval,", bare))
    label = itertools.chain(["95 % interval "], itertools.repeat(""))
    parts = [f"{verb} at load {_speedups(found, label)}" for verb, found in groups if found]
    who = "Speculation" if side == "candidate" else "The baseline's speculation"
    sentence = f"{who} {listed(parts)}"
    hopeless = [band.load_band for band in single if band.beyond_reach]
    if hopeless:
        sentence += f"; at load {listed(hopeless)} not even full acceptance could pay"
    plain = [band.load_band for band in bands if band.load_band != "all" and _hardly_drafted(band)]
    if plain:
        sentence += f"; at load {listed(plain)} most tokens came without a draft"
    pooled = next((band for band in bands if band.load_band == "all"), None)
    below = [band for band in rest if (band.speedup or 1) < 1]
    if pooled is not None and pays and (costs or below):
        bounds = _interval(pooled) or "a point estimate without an interval"
        sentence += f"; the pooled {figure(pooled.speedup, measure='speedup')} ({bounds}) hides this"
    return " ".join(filter(None, (f"{sentence}.", _of_stalls(stalls), _thin(report, [*pays, *costs]))))


def boundary(report: Report) -> str:
    """Where speculation pays and where it costs, as the beginning of a sentence, where the sides differ by it.

    Nothing where none is decided. Loads behind which there is less than a gate judges by are told only where there are
    no others, and with that.
    """
    if switched(report) is None:
        return ""
    decided = {kind: [band.load_band for band in decided_bands(report, kind)] for kind in ("pays", "costs")}
    few = _too_few(report)
    sure = {kind: [load for load in loads if load not in few] for kind, loads in decided.items()}
    thin = not any(sure.values())
    told = [f"{kind} at load {listed(loads)}" for kind, loads in (decided if thin else sure).items() if loads]
    if not told:
        return ""
    who = "Speculation" if speculating_side(report) == "candidate" else "The baseline's speculation"
    return f"{'On little data, ' if thin else ''}{in_text(who) if thin else who} {listed(told)}"


def speculating_side(report: Report) -> str | None:
    """The side whose speculation is looked at: the candidate, else the baseline; None where neither speculates."""
    with_rounds = {band.side for band in report.bands if band.rounds}
    return next((side for side in ("candidate", "baseline") if side in with_rounds), None)


def decided_bands(report: Report, kind: Literal["pays", "costs"]) -> list[BandFigures]:
    """Load bands where speculation surely pays or costs, on the side that is looked at."""
    side = speculating_side(report)
    return [
        band
        for band in report.bands
        if band.side == side
        and band.load_band != "all"
        and not _not_its_own(report, band)
        and band.speedup_interval is not None
        and (band.speedup_interval[0] > 1 if kind == "pays" else band.speedup_interval[1] < 1)
    ]


def _thin(report: Report, decided: Sequence[BandFigures]) -> str:
    """A sentence about loads that are decided by less than a gate would judge by; empty without any."""
    loads, few = {band.load_band for band in decided}, _too_few(report)
    thin = [load for load in few if load in loads]
    if not thin:
        return ""
    where = "each of these loads" if set(thin) == loads else f"load {listed(thin)}"
    return f"Behind {where} stand fewer than {MIN_UNITS} {few[thin[0]]}s a side: no gate judges by so few."


def _too_few(report: Report) -> dict[str, str]:
    """Loads whose TPOT is known from fewer units than a gate judges by, and what these are."""
    return {
        gate.stratum.load_band: gate.unit or "unit"
        for gate in report.gates
        if gate.measure == "tpot_ms" and gate.reason_code == "few_units" and gate.stratum is not None
    }


def _not_its_own(report: Report, band: BandFigures) -> bool:
    """Whether the speedup of a band is not that of speculation."""
    return _hardly_drafted(band) or _stalled(report, band)


def _hardly_drafted(band: BandFigures) -> bool:
    """Whether most tokens of a band came without a draft, so that its speedup is not that of speculation."""
    if band.output_tokens is None or band.rounds is None or band.accepted is None:
        return False
    return band.rounds + band.accepted < MOSTLY * band.output_tokens


def _stalled(report: Report, band: BandFigures) -> bool:
    """Whether round times at the load of a band hold stalls of preemption, on either side."""
    return any(stalled(other) for other in report.bands if other.load_band == band.load_band)


def _of_stalls(bands: Sequence[BandFigures]) -> str:
    """A sentence about loads whose speedup tells of preemption; empty without any."""
    if not bands:
        return ""
    return (
        f"At load {_speedups(bands, itertools.repeat(''))} requests were preempted, and round times hold their stalls: "
        "whether speculation pays there cannot be told."
    )


def _speedups(bands: Sequence[BandFigures], label: Iterator[str]) -> str:
    """Loads with their speedups and intervals, each after the next ``label``."""
    told = []
    for band in bands:
        bounds = _interval(band)
        around = f", {next(label)}{bounds}" if bounds else ""
        told.append(f"{band.load_band} ({figure(band.speedup, measure='speedup')}{around})")
    return listed(told)


def _interval(band: BandFigures) -> str:
    """The 95 % interval of a speedup; empty without one."""
    return " to ".join(map(factor, band.speedup_interval or ()))
