"""What the report of the two runs says, in words: where speculation pays, and what the pooled figure makes of it."""

from __future__ import annotations

from collections.abc import Sequence

from ..reports.model import BandFigures, Report

POOLED = "all"
IDLE = "0"


def tell(report: Report) -> str:
    """The pooled figure, what it hides by load, and the reason."""
    ordinary = _pooled(report, "baseline")
    drafted = _pooled(report, "candidate")
    bands = [
        band
        for band in report.bands
        if band.side == "candidate" and band.load_band not in (POOLED, IDLE) and band.speedup is not None
    ]
    if ordinary is None or drafted is None or not bands:
        return "The two runs share no load band, so there is nothing to compare."
    alike = next((band.speedup for band in report.bands if (band.side, band.load_band) == ("candidate", POOLED)), None)
    sentences = [
        f"Pooled over everything, a token took {ordinary:.2f} ms without speculation and {drafted:.2f} ms with it: "
        f"{_effect(ordinary / drafted)}{f' ({_effect(alike)} at an equal mix of loads)' if alike else ''}."
    ]
    settled = {_standing(band) for band in bands}
    said = f"{_listed([_at(band) for band in bands])}."
    if len(settled) == 1:
        return f"{sentences[0]} Every load says the same: {said}"
    sentences.append(f"By load it is not one story: {said}")
    best, worst = max(bands, key=_speedup), min(bands, key=_speedup)
    sentences.append(f"{_account(worst)}; {_account(best, again=True)}.")
    return " ".join(sentences)


def _pooled(report: Report, side: str) -> float | None:
    found = [band.tpot_ms for band in report.bands if band.side == side and band.load_band == POOLED]
    return found[0] if found else None


def _speedup(band: BandFigures) -> float:
    return band.speedup or 0.0


def _standing(band: BandFigures) -> str:
    """Whether the whole interval of the speedup lies on one side of 1."""
    if band.speedup_interval is None or band.speedup_interval[0] <= 1 <= band.speedup_interval[1]:
        return "undecided"
    return "faster" if _speedup(band) > 1 else "slower"


def _effect(speedup: float) -> str:
    percent = round(abs(speedup - 1) * 100)
    return f"{percent}% {'faster' if speedup > 1 else 'slower'}" if percent else "no difference"


def _at(band: BandFigures) -> str:
    doubt = " (undecided)" if _standing(band) == "undecided" else ""
    return f"{_effect(_speedup(band))}{doubt} at load {band.load_band}"


def _account(band: BandFigures, *, again: bool = False) -> str:
    """Why: what a round costs in ordinary steps, and what it returns."""
    costs = f"{band.break_even_length or 0:.2f}"
    returns = f"{band.effective_length or 0:.2f}"
    if again:
        return f"at load {band.load_band} it takes {costs} and returns {returns}"
    return f"At load {band.load_band} a round takes {costs} ordinary steps and returns {returns} tokens"


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
