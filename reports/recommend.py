"""What to run next: the evidence of a deployment, the choice for each load band, and what it would save."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ..schemas.config import LoadBand
from ..schemas.errors import UsageError
from .schedule import TIE_QUANTILE, Choice, Limits, Option, choose, fill, length_at, ranges

if TYPE_CHECKING:
    import duckdb

LEAST_STEPS = 100
"""A length that ran for fewer steps in a band is no evidence there."""
UNKNOWN_ERROR = 0.05
"""Relative error of a figure of one single observation, when no other group of observations tells the scatter."""

# One row a load band and draft length: what ran, pooled over the nights. Ordinary decode of other deployments (T0 of
# the ledger) stands in for length 0 where the deployment itself never ran it.
LENGTHS = """
WITH best AS (
    SELECT origin FROM draft_lengths
    WHERE deployment = $deployment AND date IN (SELECT unnest($dates))
        AND origin IN ('snapshots', 'requests') AND steps > 0
    GROUP BY origin ORDER BY sum(steps) DESC, origin LIMIT 1
),
own AS (
    SELECT load_band, draft_length, sum(rounds) AS rounds, sum(accepted) AS accepted, sum(n) AS n, sum(steps) AS steps,
        sum(tokens) AS tokens, sum(round_time_ms * steps) AS decode_ms,
        sqrt(sum(pow(coalesce(round_time_error, 0) * round_time_ms * steps, 2))) AS error_ms, 'own' AS source
    FROM draft_lengths JOIN best USING (origin)
    WHERE deployment = $deployment AND date IN (SELECT unnest($dates)) AND steps > 0 AND tokens > 0
    GROUP BY ALL
),
wanted AS (
    SELECT DISTINCT ledger.load_band, ledger.t0_date AS date, unnest(ledger.t0_deployments) AS deployment
    FROM ledger JOIN best USING (origin)
    WHERE ledger.deployment = $deployment AND ledger.date IN (SELECT unnest($dates))
        AND ledger.load_band <> 'all' AND ledger.t0_origin IN ('same_date', 'other_date')
),
plain AS (
    SELECT lengths.load_band, 0 AS draft_length, 0 AS rounds, 0 AS accepted, sum(lengths.n) AS n,
        sum(lengths.steps) AS steps, sum(lengths.tokens) AS tokens, sum(round_time_ms * steps) AS decode_ms,
        sqrt(sum(pow(coalesce(round_time_error, 0) * round_time_ms * steps, 2))) AS error_ms, 'baseline' AS source
    FROM draft_lengths AS lengths JOIN wanted USING (date, deployment, load_band) JOIN best USING (origin)
    WHERE lengths.draft_length = 0 AND lengths.steps > 0 AND lengths.tokens > 0
        AND lengths.load_band NOT IN (SELECT load_band FROM own WHERE draft_length = 0)
    GROUP BY ALL
)
SELECT * FROM own UNION ALL BY NAME SELECT * FROM plain
ORDER BY load_band, draft_length
"""

# One row a load band: engine time, KV use, and the p99 of stream gaps as it was with what ran.
LOADS = """
SELECT capacity.load_band, sum(seconds) AS seconds, max(gpus) AS gpus, max(kv_usage_max) AS kv_usage,
    avg(candidate_kv_share) AS kv_share
FROM capacity LEFT JOIN preemption USING (deployment, date, origin, load_band)
WHERE deployment = $deployment AND date IN (SELECT unnest($dates)) AND capacity.origin = 'snapshots'
GROUP BY ALL
"""

IN_FORCE = """
SELECT max_num_seqs, draft_limit, draft_schedule, draft_method, draft_model, data_parallel, pipeline_parallel, lora,
    enforce_eager
FROM deployments WHERE deployment = $deployment
ORDER BY started_at DESC NULLS LAST LIMIT 1
"""


@dataclass(frozen=True)
class InForce:
    """What the latest start-up record says of the deployment; None where nothing was said."""

    max_num_seqs: int | None = None
    draft_limit: int | None = None
    draft_schedule: str | None = None
    draft_method: str | None = None
    draft_model: str | None = None
    data_parallel: int | None = None
    pipeline_parallel: int | None = None
    lora: bool | None = None
    enforce_eager: bool | None = None

    def schedule(self) -> list[list[int]] | None:
        """The schedule in force, a fixed length as one open range; None where it is not known."""
        if self.draft_schedule:
            found = json.loads(self.draft_schedule)
            return found if isinstance(found, list) and found else None
        return [[1, self.max_num_seqs or 1_024, self.draft_limit]] if self.draft_limit is not None else None


@dataclass(frozen=True)
class Load:
    """What a load band took, over all nights."""

    seconds: float
    gpus: float | None
    kv_usage: float | None
    kv_share: float | None


@dataclass(frozen=True)
class Evidence:
    """All that is known of a deployment over some nights."""

    deployment: str
    dates: tuple[Any, ...]
    options: dict[str, list[Option]]
    ran: dict[str, float]
    """Measured TPOT in ms of what ran in a band, all lengths together."""
    loads: dict[str, Load]
    in_force: InForce


def evidence(connection: duckdb.DuckDBPyConnection, deployment: str, dates: Sequence[Any] | None = None) -> Evidence:
    """The evidence of a deployment from the marts; UsageError where the marts hold nothing of it."""
    known = [row[0] for row in connection.execute(
        "SELECT DISTINCT date FROM band_totals WHERE deployment = $deployment ORDER BY date", {"deployment": deployment}
    ).fetchall()]  # fmt: skip
    chosen = [date for date in known if dates is None or date in dates]
    if not chosen:
        raise UsageError(f"The marts hold nothing of deployment {deployment!r}: ingest and transform it first.")
    names = {"deployment": deployment, "dates": chosen}
    rows = connection.execute(LENGTHS, names).fetchall()
    loads = {row[0]: Load(*row[1:]) for row in connection.execute(LOADS, names).fetchall()}
    record = connection.execute(IN_FORCE, {"deployment": deployment}).fetchone()
    scatter = _pooled_scatter(rows)
    options: dict[str, list[Option]] = defaultdict(list)
    tokens: dict[str, float] = defaultdict(float)
    times: dict[str, float] = defaultdict(float)
    for band, length, rounds, accepted, _, steps, out, decode_ms, _, source in rows:
        if source == "own":
            tokens[band] += out
            times[band] += decode_ms
        if steps >= LEAST_STEPS and out:
            options[band].append(_option(length, rounds, accepted, steps, out, decode_ms, scatter, loads.get(band)))
    ran = {band: times[band] / tokens[band] for band in tokens if tokens[band]}
    return Evidence(deployment, tuple(chosen), dict(options), ran, loads, InForce(*record) if record else InForce())


def _pooled_scatter(rows: Sequence[tuple[Any, ...]]) -> float:
    """Relative variance of the time of one step, pooled over all groups of observations.

    A group of two observations says next to nothing of its own scatter, all groups together say enough.
    """
    freedom = squares = 0.0
    for row in rows:
        n, steps, decode_ms, error_ms = row[4], row[5], row[7], row[8]
        if n and n > 1 and decode_ms:
            freedom += n - 1
            squares += (n - 1) * (error_ms / decode_ms) ** 2 * steps
    if not freedom:
        return UNKNOWN_ERROR**2 * LEAST_STEPS
    return squares / freedom


def _option(
    length: int,
    rounds: int,
    accepted: int,
    steps: int,
    tokens: int,
    decode_ms: float,
    scatter: float,
    load: Load | None,
) -> Option:
    effective = tokens / steps
    # The accepted tokens of a round lie between 0 and its length, which bounds their variance.
    mean = accepted / rounds if rounds else 0.0
    of_length = max(mean * (length - mean), 0.0) / rounds / effective**2 if rounds else 0.0
    tpot = decode_ms / tokens
    share = load.kv_share if load and load.kv_share is not None else None
    return Option(
        length,
        tpot,
        tpot * math.sqrt(scatter / steps + of_length),
        decode_ms / steps,
        effective,
        "measured",
        gap_ms=decode_ms / steps,
        kv_share=0.0 if length == 0 else share,
    )


@dataclass(frozen=True)
class Recommendation:
    """A schedule, the choice behind each band, and what it would have saved over the nights looked at."""

    deployment: str
    dates: tuple[Any, ...]
    schedule: list[list[int]]
    choices: tuple[Choice, ...]
    saving: dict[str, Any] | None
    in_force: list[list[int]] | None
    notes: tuple[str, ...]
    speculative_config: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        """The machine-readable answer, with each band's alternatives beside the choice."""
        return {
            "deployment": self.deployment,
            "dates": [str(date) for date in self.dates],
            "num_speculative_tokens_per_batch_size": self.schedule,
            "in_force": self.in_force,
            "bands": [_band(choice) for choice in self.choices],
            "saving": self.saving,
            "speculative_config": self.speculative_config,
            "notes": list(self.notes),
        }


def _band(choice: Choice) -> dict[str, Any]:
    option = choice.option
    return {
        "load_band": choice.band.label,
        "k": choice.length,
        "tpot_ms": option.tpot_ms if option else None,
        "interval": list(option.interval) if option else None,
        "round_time_ms": option.round_time_ms if option else None,
        "effective_length": option.effective_length if option else None,
        "evidence": choice.evidence,
        "reason": choice.reason,
        "options": [asdict(one) | {"interval": list(one.interval)} for one in choice.options],
    }


def recommend(found: Evidence, bands: Sequence[LoadBand], limits: Limits) -> Recommendation:
    """The schedule with the lowest predicted TPOT at every load; empty where no band has evidence."""
    chosen = {}
    for band in bands:
        load = found.loads.get(band.label)
        choice = choose(band, found.options.get(band.label, []), limits, load.kv_usage if load else None)
        if choice is not None:
            chosen[band.label] = choice
    choices = fill(bands, chosen)
    schedule = ranges(choices, found.in_force.max_num_seqs)
    return Recommendation(
        found.deployment,
        found.dates,
        schedule,
        tuple(choices),
        price(found, schedule) if schedule else None,
        found.in_force.schedule(),
        _notes(found),
        _config(found.in_force, schedule),
    )


def price(found: Evidence, schedule: Sequence[Sequence[int]]) -> dict[str, Any]:
    """What a schedule would have cost over the nights looked at, against what ran.

    Engine time scales with the time per token of its band, so the same tokens are priced; bands where the schedule's
    length has no evidence are left out and their share of engine time is said.
    """
    spent = priced = without = variance = 0.0
    gpus = {load.gpus for load in found.loads.values()}
    for band, load in found.loads.items():
        first = band.partition("-")[0].rstrip("+")
        now = found.ran.get(band)
        if not first.isdigit() or int(first) == 0 or now is None:
            continue
        length = length_at(schedule, int(first))
        option = next((one for one in found.options.get(band, []) if one.length == length), None)
        if option is None:
            without += load.seconds
            continue
        spent += load.seconds
        priced += load.seconds * option.tpot_ms / now
        variance += (load.seconds * option.error / now) ** 2
    per_second = next(iter(gpus)) if len(gpus) == 1 and None not in gpus else None
    nights = len(found.dates)
    factor = (per_second or 1.0) / 3_600 / nights
    saved, half = (spent - priced) * factor, TIE_QUANTILE * math.sqrt(variance) * factor
    return {
        "unit": "GPU-hours a night" if per_second is not None else "engine-hours a night",
        "spent": spent * factor,
        "saved": saved,
        "interval": [saved - half, saved + half],
        "share_without_evidence": without / (spent + without) if spent + without else None,
        "nights": nights,
    }


def _notes(found: Evidence) -> tuple[str, ...]:
    notes = []
    facts = found.in_force
    if facts.data_parallel is not None and facts.data_parallel > 1:
        notes.append(
            "Under data parallelism vLLM falls back to one fixed length: choose the K of the load that counts."
        )
    if facts.enforce_eager:
        notes.append("Graph capture is off: adaptive verification needs full CUDA graphs.")
    if facts.lora:
        notes.append("LoRA is on: adaptive verification excludes it.")
    if facts.pipeline_parallel is not None and facts.pipeline_parallel > 1:
        notes.append("Pipeline parallelism is on: adaptive verification excludes it.")
    if not any(len(options) > 1 for options in found.options.values()):
        notes.append("No load band ran two lengths, nor has ordinary decode to compare with: no evidence of gain.")
    return tuple(notes)


def _config(facts: InForce, schedule: list[list[int]]) -> dict[str, Any]:
    config: dict[str, Any] = {}
    if facts.draft_method:
        config["method"] = facts.draft_method
    if facts.draft_model:
        config["model"] = facts.draft_model
    if schedule:
        config["num_speculative_tokens"] = max(length for _, _, length in schedule)
        config["num_speculative_tokens_per_batch_size"] = schedule
    return config
