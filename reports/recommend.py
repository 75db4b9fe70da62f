"""What to run next: the choice for each load band, the schedule they make, and what it would save."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..schemas.config import LoadBand
from ..schemas.warehouse import Warehouse
from .evidence import BandEvidence, Evidence, Stalls, evidence
from .evidence_queries import READS
from .gates import TPOT_RISE
from .lengths import Missing
from .saving import CanaryPlan, Saving, canary_plan, price
from .schedule import OPEN_END, Choice, Limits, Option, check_ranges, choose, fill, length_at, ranges


@dataclass(frozen=True)
class BandAdvice:
    """What is said of one load band."""

    choice: Choice
    in_force: int | None
    """The draft length of the schedule in force; None where that is not known."""
    in_force_option: Option | None
    missing: dict[int, Missing]
    """0 and the neighbouring lengths, as far as they have no evidence → why."""
    stalls: Stalls | None = None


@dataclass(frozen=True)
class Recommendation:
    """A schedule beside the one in force, what stands behind each band, and what it would have saved."""

    deployment: str
    dates: tuple[Any, ...]
    schedule: list[list[int]]
    bands: tuple[BandAdvice, ...]
    saving: Saving | None
    in_force: list[list[int]] | None
    canary: CanaryPlan | None
    notes: tuple[str, ...]
    speculative_config: dict[str, Any] | None
    """None where no load should speculate."""

    def as_json(self) -> dict[str, Any]:
        """The machine-readable answer, with each band's alternatives beside the choice."""
        return {
            "deployment": self.deployment,
            "dates": [str(date) for date in self.dates],
            "num_speculative_tokens_per_batch_size": self.schedule,
            "in_force": self.in_force,
            "bands": [_band(band) for band in self.bands],
            "saving": asdict(self.saving) if self.saving else None,
            "canary": asdict(self.canary) if self.canary else None,
            "speculative_config": self.speculative_config,
            "notes": list(self.notes),
        }


def _band(advice: BandAdvice) -> dict[str, Any]:
    choice, option = advice.choice, advice.choice.option
    shorter, longer = choice.neighbours
    return {
        "load_band": choice.band.label,
        "k": choice.length,
        "k_in_force": advice.in_force,
        "tpot_ms": option.tpot_ms if option else None,
        "interval": list(option.interval) if option else None,
        "tpot_ms_in_force": advice.in_force_option.tpot_ms if advice.in_force_option else None,
        "neighbours": {str(one.length): one.tpot_ms for one in (shorter, longer) if one is not None},
        "round_time_ms": option.round_time_ms if option else None,
        "effective_length": option.effective_length if option else None,
        "gap_ms_p99": option.gap_ms if option else None,
        "gap_interval": option.gap_interval if option else None,
        "kv_usage": option.kv_usage if option else None,
        "kv_interval": option.kv_interval if option else None,
        "evidence": choice.evidence,
        "measured_on": option.of if option else None,
        "stalls": asdict(advice.stalls) if advice.stalls else None,
        "extrapolated": option.extrapolated if option else False,
        "reason": choice.reason,
        "missing": {str(length): str(why) for length, why in advice.missing.items()},
        "options": [asdict(one) | {"interval": list(one.interval)} for one in choice.options],
    }


def recommend(
    found: Evidence, bands: Sequence[LoadBand], limits: Limits, tolerance: float = TPOT_RISE
) -> Recommendation:
    """The schedule with the lowest predicted TPOT at every load; empty where no band has evidence.

    ``tolerance`` is that of the gate on TPOT, for the canary plan.
    """
    chosen = {}
    for band in _reached(found, bands):
        choice = choose(band, found.bands.get(band.label, BandEvidence()).options, limits)
        if choice is not None:
            chosen[band.label] = choice
    choices = fill(_reached(found, bands), chosen)
    return _answer(found, choices, ranges(choices, found.in_force.max_num_seqs), tolerance)


def recommend_deployment(
    warehouse: Warehouse,
    deployment: str,
    bands: Sequence[LoadBand],
    *,
    dates: Sequence[dt.date] | None = None,
    schedule: list[list[int]] | None = None,
    limits: Limits | None = None,
    tolerance: float = TPOT_RISE,
) -> Recommendation:
    """What is recommended to a deployment from what a warehouse knows of it, or what a given schedule would have done.

    Raises UsageError for a schedule that vLLM would not take, and where the warehouse knows nothing of the deployment.
    """
    asked = check_ranges(schedule) if schedule is not None else None
    found = evidence(warehouse.connect(READS), deployment, bands, dates)
    if asked is not None:
        return given(found, bands, asked, tolerance)
    return recommend(found, bands, limits or Limits(), tolerance)


def _reached(found: Evidence, bands: Sequence[LoadBand]) -> list[LoadBand]:
    """The bands that the deployment's batch can reach."""
    return [band for band in bands if band.low <= (found.in_force.max_num_seqs or band.low)]


def given(
    found: Evidence, bands: Sequence[LoadBand], schedule: list[list[int]], tolerance: float = TPOT_RISE
) -> Recommendation:
    """What a given schedule would have cost or saved, in the same form."""
    choices = []
    for band in _reached(found, bands):
        known = found.bands.get(band.label, BandEvidence())
        length = length_at(schedule, band.low)
        option = next((one for one in known.options if one.length == length), None)
        split = band.high is not None and length_at(schedule, band.high) != length
        reason = "as given" + (f" at {band.low}; another length within the band" if split else "")
        evidence = option.evidence if option else "none"
        choices.append(Choice(band, length, evidence, reason, option, known.options))
    return _answer(found, choices, schedule, tolerance)


def _answer(found: Evidence, choices: Sequence[Choice], schedule: list[list[int]], tolerance: float) -> Recommendation:
    in_force = found.in_force.schedule(OPEN_END)
    saving = price(found, schedule) if schedule else None
    canary = None
    if saving is not None and saving.spent > 0 and schedule != in_force:
        canary = canary_plan(saving.change, found.hourly, tolerance)
    return Recommendation(
        found.deployment,
        found.dates,
        schedule,
        tuple(_advice(found, choice, in_force) for choice in choices),
        saving,
        in_force,
        canary,
        _notes(found, choices),
        _config(found, schedule),
    )


def _advice(found: Evidence, choice: Choice, in_force: list[list[int]] | None) -> BandAdvice:
    known = found.bands.get(choice.band.label, BandEvidence())
    now = None if in_force is None else length_at(in_force, choice.band.low)
    beside = {0, choice.length - 1, choice.length, choice.length + 1}
    return BandAdvice(
        choice,
        now,
        next((one for one in known.options if one.length == now), None),
        {length: why for length, why in known.missing.items() if length in beside},
        known.stalls,
    )


def _notes(found: Evidence, choices: Sequence[Choice]) -> tuple[str, ...]:
    facts = found.in_force
    scheduled = len({choice.length for choice in choices}) > 1
    notes = list(found.said)
    if scheduled and (facts.data_parallel or 1) > 1:
        notes.append(
            f"Data parallel is {facts.data_parallel}: vLLM then falls back to one fixed length; over these nights "
            f"K = {_best_fixed(found, choices)} would have cost least."
        )
    hindrances = [
        name
        for name, hinders in (
            ("full CUDA graphs, and graph capture is off", facts.enforce_eager),
            ("no LoRA, and LoRA is on", facts.lora),
            ("no pipeline parallelism, and its size is above 1", (facts.pipeline_parallel or 1) > 1),
        )
        if hinders
    ]
    if hindrances:
        notes.append(f"Adaptive verification is no way out here: it needs {'; '.join(hindrances)}.")
    options = [option for known in found.bands.values() for option in known.options]
    if not any(len(known.options) > 1 for known in found.bands.values()):
        notes.append("No load band has two lengths with evidence, ordinary decode included: no evidence of gain.")
    if {option.unit for option in options} & {"block", "observation"}:
        notes.append("Some intervals rest on units below the hour and understate what an hour can do.")
    return tuple(notes)


def _best_fixed(found: Evidence, choices: Sequence[Choice]) -> int:
    """The one length that would have saved most; the smaller one of equals."""
    lengths = sorted({choice.length for choice in choices})
    return max(lengths, key=lambda length: (price(found, [[1, OPEN_END, length]]).saved, -length))


def _config(found: Evidence, schedule: list[list[int]]) -> dict[str, Any] | None:
    facts = found.in_force
    longest = max((length for _, _, length in schedule), default=0)
    if not longest:
        return None
    config: dict[str, Any] = {}
    if facts.draft_method:
        config["method"] = facts.draft_method
    if facts.draft_model:
        config["model"] = facts.draft_model
    config["num_speculative_tokens"] = longest
    if len(schedule) > 1:
        config["num_speculative_tokens_per_batch_size"] = schedule
    return config
