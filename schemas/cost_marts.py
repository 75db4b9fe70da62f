"""The marts of what a round costs: observations, steps, the fit, and what a round is made of."""

from __future__ import annotations

from .mart_columns import EVIDENCE, LOAD_BAND, count, figure
from .raw import DATE, DEPLOYMENT, INSTANCE
from .table import Column, Table

COST_ORIGIN = Column(
    "origin", "VARCHAR", "iterations, or snapshots (scrape intervals of one load and draft length).", nullable=False
)
FITTED_ENGINE = (
    Column("instance", "VARCHAR", "Instance; null for all engines of the deployment together."),
    Column("engine", "INTEGER", "Engine; null for all engines of the deployment together."),
)


def _interval(name: str, doc: str) -> tuple[Column, Column, Column]:
    return (
        figure(name, f"{doc}; null where it is not identified.", "ms"),
        figure(f"{name}_lower", f"{name}: lower end of its 95 % interval.", "ms"),
        figure(f"{name}_upper", f"{name}: upper end of its 95 % interval.", "ms"),
    )


COST_OBSERVATIONS = Table(
    "cost_observations",
    "mart",
    "deployment, date, instance, engine, origin, hour, load, draft length and whether there was prefill work: mean time of a round under known work",
    (
        DATE,
        DEPLOYMENT,
        INSTANCE,
        Column("engine", "INTEGER", "Engine number inside the instance."),
        COST_ORIGIN,
        Column("hour", "TINYINT", "UTC hour of the day, 0 to 23.", "h", nullable=False),
        Column("load", "INTEGER", "Requests running, as cells keep it.", "requests"),
        Column("draft_length", "INTEGER", "Draft length of every request of the rounds.", "tokens", nullable=False),
        Column("prefill", "BOOLEAN", "Whether the iterations had prefill work; null for snapshots, which mix both."),
        count("n", "Observations behind it: iterations or scrape intervals.", "observations"),
        figure("iterations", "Engine iterations behind it; snapshots: steps / decoding requests.", "iterations"),
        figure("requests", "Mean requests decoding in a round.", "requests"),
        figure("verified_tokens", "Mean tokens that a round verified: requests x (draft length + 1).", "tokens"),
        figure("prefill_tokens", "Mean tokens of prompts computed in the same round.", "tokens"),
        figure("round_time_ms", "Mean time of a round.", "ms"),
        figure("spread_ms", "Standard deviation of one observation about it.", "ms"),
    ),
    key=("date", "deployment", "instance", "engine", "origin", "hour", "load", "draft_length", "prefill"),
    reads=("deployment_days", "cells_iterations", "cells_draft_lengths"),
)

STEP_CLIFFS = Table(
    "step_cliffs",
    "mart",
    "deployment, date, origin, draft length at which the time of a round steps up as its tokens pass a captured size",
    (
        DATE,
        DEPLOYMENT,
        COST_ORIGIN,
        Column("draft_length", "INTEGER", "Draft length that ran.", "tokens", nullable=False),
        count("size", "Greatest number of verified tokens before the step.", "tokens"),
        count("first_beyond", "Least number of verified tokens beyond it.", "tokens"),
        count(
            "captured_size",
            "Captured graph size of the start-up record that lies between the two; null where none does or none is known.",
            "tokens",
        ),
        figure("requests_beyond", "Least requests running beyond it.", "requests"),
        figure("ratio", "Time beyond the step over what the times before it foretell.", "ratio"),
        figure("jump_ms", "Time beyond the step less what the times before it foretell.", "ms"),
        figure("jump_ms_lower", "jump_ms: lower end of its 95 % interval.", "ms"),
        figure("jump_ms_upper", "jump_ms: upper end of its 95 % interval.", "ms"),
        figure("share_beyond", "Share of the rounds of that length that were beyond the step.", "ratio"),
        Column(
            "draft_length_within",
            "INTEGER",
            "Greatest draft length that keeps the greatest load seen within the size; null where none does.",
            "tokens",
        ),
        count("capture_size_needed", "Captured size that would hold every round seen.", "tokens"),
        EVIDENCE,
    ),
    key=("date", "deployment", "origin", "draft_length"),
    reads=("cost_observations", "deployments"),
)

ROUND_COST = Table(
    "round_cost",
    "mart",
    "deployment, date, instance, engine and origin of a fit of T = c0 + c1 requests + c2 verified tokens + c3 prefill tokens + c4 draft passes",
    (
        DATE,
        DEPLOYMENT,
        *FITTED_ENGINE,
        COST_ORIGIN,
        Column(
            "deployments",
            "VARCHAR[]",
            "Whose observations were fitted: its own, and those of ordinary decode where its own do not tell c0, c1 and c2.",
        ),
        Column("baseline_date", "DATE", "Date of the ordinary decode of other deployments; null without."),
        *_interval("c0", "Fixed cost of a round, with the draft passes where one draft length ran"),
        *_interval("c1", "Cost of a request"),
        *_interval("c2", "Cost of a verified token"),
        *_interval("c3", "Cost of a prefill token"),
        *_interval("c4", "Cost of a draft pass"),
        *_interval("slope", "c1 + (K + 1) x c2, what a request costs at the one draft length K that ran"),
        Column(
            "not_identified", "VARCHAR", "Which costs the observations do not tell, and why; null where they tell all."
        ),
        Column("lengths", "INTEGER[]", "Draft lengths that ran, 0 for ordinary decode.", "tokens"),
        Column("requests_from", "DOUBLE[]", "Least requests at each of the lengths.", "requests"),
        Column("requests_to", "DOUBLE[]", "Most requests at each of the lengths.", "requests"),
        figure("verified_min", "Least verified tokens of a round.", "tokens"),
        figure(
            "verified_max", "Most verified tokens of a round: a step in round time ends what the fit tells.", "tokens"
        ),
        figure("relative_error", "Typical |residual| / time of a round (median over steps).", "ratio"),
        count("observations", "Observations fitted.", "observations"),
        count(
            "clusters",
            "Hours of a deployment they come from; below eight, what an hour shares is not in the intervals.",
            "hours",
        ),
        Column("solution", "DOUBLE[]", "Fitted costs c0 to c4; 0 for what was not fitted.", "ms"),
        Column("covariance", "DOUBLE[]", "Their covariance, row by row.", "ms²"),
        Column(
            "blind", "DOUBLE[]", "Directions of the costs left open by the data, five numbers each, any scale.", "ms"
        ),
        figure("quantile", "Quantile of t for the 95 % interval.", "ratio"),
        EVIDENCE,
    ),
    key=("date", "deployment", "instance", "engine", "origin"),
    reads=("deployment_days", "cost_observations", "step_cliffs"),
)

ROUND_SPLIT = Table(
    "round_split",
    "mart",
    "deployment, date, origin, load band, draft length: what a round is made of, by the fit of all engines together or by printed stage times",
    (
        DATE,
        DEPLOYMENT,
        Column(
            "origin",
            "VARCHAR",
            "iterations or snapshots, of the fit; log_stats where the log prints stage times (V0).",
            nullable=False,
        ),
        LOAD_BAND,
        Column("draft_length", "INTEGER", "Draft length of the rounds.", "tokens", nullable=False),
        figure("iterations", "Engine iterations observed, or log records.", "iterations"),
        figure("steps", "Steps of those rounds.", "steps"),
        figure("requests", "Requests decoding in the round, mean over steps.", "requests"),
        figure("prefill_tokens", "Tokens of prompts computed in the round, mean over steps.", "tokens"),
        figure("round_time_ms", "Time of the round as measured, mean over steps.", "ms"),
        figure("model_ms", "What the fit gives for the same work; log_stats: sum of the stages.", "ms"),
        *_interval("ordinary_ms", "Time of a round without a draft at the same requests and prefill work, by the fit"),
        *_interval("draft_ms", "Draft part of a round: c4 x K, or as printed"),
        *_interval(
            "verify_ms",
            "What verifying the draft adds to an ordinary round: c2 x requests x K, or all of the target pass as printed",
        ),
        figure(
            "prefill_ms",
            "What prefill work adds to the round: c3 x prefill tokens; null where it is not identified.",
            "ms",
        ),
        figure("other_ms", "Acceptance, as printed (V0); null for fits, where it is part of ordinary_ms.", "ms"),
        Column("not_identified", "VARCHAR", "What the data do not tell, and why; null where they tell all."),
        EVIDENCE,
    ),
    key=("date", "deployment", "origin", "load_band", "draft_length"),
    reads=("cost_observations", "round_cost", "log_stats"),
)
