"""The marts: what people query and reports print, one deployment and date at a time."""

from __future__ import annotations

from .raw import DATE, DEPLOYMENT, INSTANCE
from .table import Column, Table

ORIGIN = Column(
    "origin", "VARCHAR", "snapshots, requests, log_stats or iterations; origins are never added.", nullable=False
)
EVIDENCE = Column("evidence", "VARCHAR", "measured, derived or estimated.", nullable=False)
LOAD_BAND = Column(
    "load_band", "VARCHAR", "Band of requests running on the engine; 'unknown' where load is not known.", nullable=False
)
BAND_GRAIN = (
    DATE,
    DEPLOYMENT,
    ORIGIN,
    LOAD_BAND,
    Column("context_band", "VARCHAR", "Band of prompt + half the output tokens; null where the origin has none."),
    Column("task", "VARCHAR", "Task label; null where the origin has none."),
)
BAND_KEY = ("date", "deployment", "origin", "load_band", "context_band", "task")


def _count(name: str, doc: str, unit: str) -> Column:
    return Column(name, "BIGINT", doc, unit)


def _figure(name: str, doc: str, unit: str) -> Column:
    return Column(name, "DOUBLE", doc, unit)


def _quantiles(name: str, doc: str) -> tuple[Column, ...]:
    columns: list[Column] = []
    for share in ("p50", "p95", "p99"):
        columns += [
            _figure(f"{name}_{share}", f"{doc}, {share}: point inside its bucket; null where that is open.", "ms"),
            _figure(f"{name}_{share}_lower", f"{doc}, {share}: lower edge of its bucket.", "ms"),
            _figure(f"{name}_{share}_upper", f"{doc}, {share}: upper edge of its bucket; null where it is open.", "ms"),
        ]
    return tuple(columns)


BAND_TOTALS = Table(
    "band_totals",
    "mart",
    "deployment, date, origin, load band, context band, task: the sums that the other marts divide",
    (
        *BAND_GRAIN,
        *(
            Column(name, "HUGEINT", doc, unit)
            for name, doc, unit in (
                ("n", "Observations.", "observations"),
                ("duration_ns", "Observed engine time.", "ns"),
                ("requests", "Requests that returned a first token.", "requests"),
                ("output_tokens", "Output tokens.", "tokens"),
                ("prompt_tokens", "Prompt tokens.", "tokens"),
                ("cached_tokens", "Prompt tokens served from a cache.", "tokens"),
                ("rounds", "Speculative rounds R.", "rounds"),
                ("rounds_min", "Least R (log_stats).", "rounds"),
                ("rounds_max", "Greatest R (log_stats).", "rounds"),
                ("drafted", "Draft tokens D.", "tokens"),
                ("accepted", "Accepted draft tokens C.", "tokens"),
                ("decode_ns", "Decode time where time and tokens are known.", "ns"),
                ("decode_tokens", "Output tokens after the first, same observations.", "tokens"),
                ("steps", "Steps where they are known.", "steps"),
                ("step_tokens", "Output tokens after the first, same observations.", "tokens"),
                ("step_decode_ns", "Decode time, same observations.", "ns"),
                ("step_rounds", "Rounds, same observations.", "rounds"),
                ("step_accepted", "Accepted tokens, same observations.", "tokens"),
                ("succeeded", "Requests finished well.", "requests"),
                ("failed", "Requests failed or aborted.", "requests"),
                ("preemptions", "Preemptions; null where the origin cannot tell.", "preemptions"),
            )
        ),
    ),
    key=BAND_KEY,
    reads=("cells_snapshots", "cells_requests", "cells_log_stats"),
)

DEPLOYMENT_DAYS = Table(
    "deployment_days",
    "mart",
    "deployment, date: what was served and with which means, as start-up records, labels and the data of the day tell",
    (
        DATE,
        DEPLOYMENT,
        Column(
            "model", "VARCHAR", "Target model of the start-up records in force; null without, or where they differ."
        ),
        Column(
            "served_model_name",
            "VARCHAR",
            "Model name that metrics and responses show; null where several were served.",
        ),
        Column(
            "quantization",
            "VARCHAR",
            "Target quantization of the start-up records, none included; null without, or where they differ.",
        ),
        Column("quantization_label", "VARCHAR", "Label quant, in lower case; null where none was given."),
        Column("dtype", "VARCHAR", "Data type of the start-up records; null without, or where they differ."),
        Column("tensor_parallel", "INTEGER", "Tensor-parallel size; null where not known.", "GPUs"),
        Column("pipeline_parallel", "INTEGER", "Pipeline-parallel size; null where not known.", "GPUs"),
        Column("speculative", "BOOLEAN", "Whether rounds were run or configured; null where nothing tells."),
        Column(
            "draft_limit",
            "INTEGER",
            "Greatest configured draft length K; 0 without speculation; null where not known.",
            "tokens",
        ),
        Column("instances", "BIGINT", "Instances with data on the day.", "instances"),
        Column("engines", "BIGINT", "Engines with data on the day.", "engines"),
        Column("kv_tokens_per_engine", "DOUBLE", "Mean KV cache size of the engines whose size is known.", "tokens"),
        Column("kv_tokens", "BIGINT", "KV cache size of all engines; null where that of one is not known.", "tokens"),
        _figure(
            "gpus_per_engine",
            "Label gpus (GPUs of one instance) over its engines, else TP x PP; null when neither is known.",
            "GPUs",
        ),
        Column("gpus_from", "VARCHAR", "label, or parallel sizes (derived); null without."),
    ),
    key=("date", "deployment"),
    reads=(
        "deployments",
        "snapshots",
        "requests",
        "cells_snapshots",
        "cells_requests",
        "cells_log_stats",
        "cells_iterations",
    ),
)

ACCEPTANCE_FIGURES = (
    _count("requests", "Requests that returned a first token.", "requests"),
    _count("steps", "Steps of observations whose steps are known; null where none are.", "steps"),
    _count("rounds", "Speculative rounds R.", "rounds"),
    _count("drafted", "Draft tokens D.", "tokens"),
    _count("accepted", "Accepted draft tokens C.", "tokens"),
    _count("output_tokens", "Output tokens N_out.", "tokens"),
    _count("truncated", "Accepted tokens that were never returned; null where steps are not known.", "tokens"),
    _figure("acceptance_length", "L = 1 + C / R.", "tokens"),
    _figure("effective_length", "L_eff = (N_out - requests) / steps.", "tokens"),
    _figure("coverage", "R / steps.", "ratio"),
    _figure("acceptance_rate", "C / D; compare only at equal draft length.", "ratio"),
    _figure("mean_draft_length", "D / R.", "tokens"),
    _figure("verified_nodes", "Candidates and the token before them that a round verified: D / R + 1.", "tokens"),
    _figure("truncated_share", "φ = truncated / C of observations whose steps are known.", "ratio"),
)

ACCEPTANCE = Table(
    "acceptance",
    "mart",
    "deployment, date, origin, load band, context band, task",
    (*BAND_GRAIN, *ACCEPTANCE_FIGURES, EVIDENCE),
    key=BAND_KEY,
    reads=("band_totals",),
)

ACCEPTANCE_BY = Table(
    "acceptance_by",
    "mart",
    "deployment, date, one property of requests (dimension) and its value, over all loads",
    (
        DATE,
        DEPLOYMENT,
        ORIGIN,
        Column(
            "dimension",
            "VARCHAR",
            "task, lora, temperature_class, context_band, output_band or draft_limit.",
            nullable=False,
        ),
        Column("value", "VARCHAR", "Value of that property; null where requests do not say."),
        *ACCEPTANCE_FIGURES,
        Column("survival", "DOUBLE[]", "S_1, S_2, … over these requests; null where ΣC_i is not C.", "ratio"),
        Column("conditional", "DOUBLE[]", "a_1, a_2, …; null where censored.", "ratio"),
        Column("predicted_length", "DOUBLE[]", "E[L] at draft lengths of 1, 2, … tokens.", "tokens"),
        Column(
            "censored",
            "BOOLEAN",
            "True where the rounds that drafted a position cannot be told.",
            nullable=False,
        ),
        Column(
            "short_outputs",
            "BOOLEAN",
            "True for outputs of up to 20 tokens: they end inside their first rounds, so that L overstates what they got.",
            nullable=False,
        ),
        EVIDENCE,
    ),
    key=("date", "deployment", "origin", "dimension", "value"),
    reads=("cells_requests", "cells_draft_lengths"),
)

POSITIONS = Table(
    "positions",
    "mart",
    "deployment, date, origin, load band, context band, task, position",
    (
        *BAND_GRAIN,
        Column("position", "INTEGER", "Draft position, 1-based.", nullable=False),
        _count(
            "rounds",
            "R_i, rounds that drafted at least this many tokens (R where censored); null where ΣC_i is not C.",
            "rounds",
        ),
        _count("accepted", "C_i.", "tokens"),
        _figure("survival", "S_i = C_i / R_i (C_i / R where censored); null where ΣC_i is not C.", "ratio"),
        _figure("conditional", "a_i = S_i / S_(i-1); null where censored.", "ratio"),
        _figure("predicted_length", "E[L] at draft length i = 1 + Σ S_j for j up to i.", "tokens"),
        _figure("marginal_gain", "S of the next position; beyond the last one extrapolated with its a_i.", "tokens"),
        Column("censored", "BOOLEAN", "True where the rounds that drafted position i cannot be told.", nullable=False),
        Column("extrapolated", "BOOLEAN", "True where marginal_gain is extrapolated.", nullable=False),
        EVIDENCE,
    ),
    key=(*BAND_KEY, "position"),
    reads=("cells_snapshots", "cells_draft_lengths", "cells_log_stats"),
)

DRAFT_LENGTHS = Table(
    "draft_lengths",
    "mart",
    "deployment, date, origin, load band, draft length actually run",
    (
        DATE,
        DEPLOYMENT,
        ORIGIN,
        LOAD_BAND,
        Column("draft_length", "INTEGER", "Draft length; 0 for steps without a draft.", "tokens", nullable=False),
        _count("rounds", "Rounds of that length.", "rounds"),
        _count("accepted", "Accepted tokens of those rounds.", "tokens"),
        _figure("acceptance_length", "1 + C / R of that length; 1 at length 0.", "tokens"),
        _count("n", "Observations (intervals, requests or iterations) that ran at this length alone.", "observations"),
        _count("steps", "Steps of those observations.", "steps"),
        _count("tokens", "Output tokens after the first of those observations.", "tokens"),
        _figure("round_time_ms", "Step time at that length; null where no observation ran at it alone.", "ms"),
        _figure(
            "round_time_error",
            "Relative standard error of the step time over those observations; null below two.",
            "ratio",
        ),
        _figure("tpot_ms", "Decode time per output token of those observations.", "ms"),
        EVIDENCE,
    ),
    key=("date", "deployment", "origin", "load_band", "draft_length"),
    reads=("cells_draft_lengths",),
)

LATENCY = Table(
    "latency",
    "mart",
    "deployment, date, origin, load band, context band, task",
    (
        *BAND_GRAIN,
        _count("requests", "Requests that returned a first token.", "requests"),
        _count("tokens", "Output tokens after the first whose decode time is known.", "tokens"),
        *_quantiles("ttft_ms", "Time to first token"),
        _figure("tpot_ms", "Σ decode time / Σ (N_out - 1), token-weighted.", "ms"),
        *_quantiles("request_tpot_ms", "Time per output token of a request"),
        *_quantiles("itl_ms", "Stream gap"),
        _figure("longest_pause_ms", "Longest stream gap; null where only buckets are known.", "ms"),
        *_quantiles("e2e_ms", "End-to-end time"),
        _figure("burstiness", "p99 stream gap / TPOT.", "ratio"),
        EVIDENCE,
    ),
    key=BAND_KEY,
    reads=("band_totals", "cells_snapshots", "cells_requests"),
)

ROUND_TIME = Table(
    "round_time",
    "mart",
    "deployment, date, origin, load band, context band, task",
    (
        *BAND_GRAIN,
        _count("n", "Steps, or iterations for origin iterations.", "steps"),
        _figure("round_time_ms", "Σ decode time / steps; iterations: mean elapsed time without prefill work.", "ms"),
        *(
            column
            for share in ("p50", "p95", "p99")
            for column in (
                _figure(share, f"{share} of single steps (requests: stream gaps): point inside its bucket.", "ms"),
                _figure(f"{share}_lower", f"{share}: lower edge of its bucket.", "ms"),
                _figure(f"{share}_upper", f"{share}: upper edge of its bucket.", "ms"),
            )
        ),
        _figure(
            "longest_ms", "Longest single step (requests: stream gap) seen; null where only buckets are known.", "ms"
        ),
        _figure(
            "prefill_share",
            "Share of iteration time spent in iterations with prefill work; null for other origins.",
            "ratio",
        ),
        _figure(
            "prefill_interference_ms",
            "What prefill work in the same iteration adds to a step on average, against decode alone at the same load; "
            "null for other origins.",
            "ms",
        ),
        EVIDENCE,
    ),
    key=BAND_KEY,
    reads=("band_totals", "latency", "cells_iterations"),
)

PREEMPTION = Table(
    "preemption",
    "mart",
    "deployment, date, origin, load band",
    (
        DATE,
        DEPLOYMENT,
        ORIGIN,
        LOAD_BAND,
        _count("requests", "Requests that returned a first token.", "requests"),
        _count("steps", "Steps.", "steps"),
        _count(
            "preemptions",
            "Preemptions; null where the origin cannot tell (silence of a log is no zero).",
            "preemptions",
        ),
        _figure("per_1k_requests", "Preemptions per 1,000 requests.", "1/1000"),
        _figure("per_1k_steps", "Preemptions per 1,000 steps.", "1/1000"),
        _figure("kv_usage_mean", "Mean share of KV cache in use.", "ratio"),
        _figure("kv_usage_p95", "p95 of the share of KV cache in use, to 0.001.", "ratio"),
        _figure("kv_usage_max", "Greatest share of KV cache in use.", "ratio"),
        _figure("waiting_mean", "Mean requests waiting.", "requests"),
        _figure("waiting_max", "Most requests waiting.", "requests"),
        _count(
            "recomputed_tokens",
            "Origin iterations: positions computed again after a resume. Where no scrapes count the preemptions of the "
            "same steps it is a lower bound: each resume then hides draft limit positions.",
            "tokens",
        ),
        _figure(
            "recompute_ms",
            "Origin iterations: what iterations without prefill that computed again took beyond others at the same load.",
            "ms",
        ),
        EVIDENCE,
    ),
    key=("date", "deployment", "origin", "load_band"),
    reads=("deployment_days", "cells_snapshots", "cells_requests", "cells_log_stats", "cells_iterations"),
)

CAPACITY = Table(
    "capacity",
    "mart",
    "deployment, date, origin, load band",
    (
        DATE,
        DEPLOYMENT,
        ORIGIN,
        LOAD_BAND,
        _figure("seconds", "Engine seconds observed; requests: their running time / load, an estimate.", "s"),
        _count("kv_tokens", "KV cache size of the deployment.", "tokens"),
        _figure("candidate_kv_share", "Running x D / R as a share of KV capacity; an estimate.", "ratio"),
        _figure("output_tps", "Output tokens per engine second.", "tokens/s"),
        _figure("prompt_tps", "Prompt tokens per engine second.", "tokens/s"),
        _count("succeeded", "Requests finished well.", "requests"),
        _count("failed", "Requests failed or aborted.", "requests"),
        _figure(
            "goodput_tps", "Output tokens per second from requests within every limit; null without limits.", "tokens/s"
        ),
        _figure(
            "gpus",
            "GPUs of one engine: label gpus (of one instance) over its engines, else TP x PP; null when neither is known.",
            "GPUs",
        ),
        Column("gpus_from", "VARCHAR", "label or parallel sizes (derived)."),
        _figure("gpu_s_per_1k_tokens", "GPU-seconds per 1,000 output tokens.", "GPU s"),
        _figure(
            "gpu_s_per_1k_qualified_tokens",
            "GPU-seconds per 1,000 tokens within every limit; null without limits.",
            "GPU s",
        ),
        EVIDENCE,
    ),
    key=("date", "deployment", "origin", "load_band"),
    reads=("deployment_days", "cells_snapshots", "cells_requests", "cells_log_stats"),
)

COST_ORIGIN = Column(
    "origin", "VARCHAR", "iterations, or snapshots (scrape intervals of one load and draft length).", nullable=False
)
FITTED_ENGINE = (
    Column("instance", "VARCHAR", "Instance; null for all engines of the deployment together."),
    Column("engine", "INTEGER", "Engine; null for all engines of the deployment together."),
)


def _interval(name: str, doc: str) -> tuple[Column, Column, Column]:
    return (
        _figure(name, f"{doc}; null where it is not identified.", "ms"),
        _figure(f"{name}_lower", f"{name}: lower end of its 95 % interval.", "ms"),
        _figure(f"{name}_upper", f"{name}: upper end of its 95 % interval.", "ms"),
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
        _count("n", "Observations behind it: iterations or scrape intervals.", "observations"),
        _figure("iterations", "Engine iterations behind it; snapshots: steps / decoding requests.", "iterations"),
        _figure("requests", "Mean requests decoding in a round.", "requests"),
        _figure("verified_tokens", "Mean tokens that a round verified: requests x (draft length + 1).", "tokens"),
        _figure("prefill_tokens", "Mean tokens of prompts computed in the same round.", "tokens"),
        _figure("round_time_ms", "Mean time of a round.", "ms"),
        _figure("spread_ms", "Standard deviation of one observation about it.", "ms"),
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
        _count("size", "Greatest number of verified tokens before the step.", "tokens"),
        _count("first_beyond", "Least number of verified tokens beyond it.", "tokens"),
        _count(
            "captured_size",
            "Captured graph size of the start-up record that lies between the two; null where none does or none is known.",
            "tokens",
        ),
        _figure("requests_beyond", "Least requests running beyond it.", "requests"),
        _figure("ratio", "Time beyond the step over what the times before it foretell.", "ratio"),
        _figure("jump_ms", "Time beyond the step less what the times before it foretell.", "ms"),
        _figure("jump_ms_lower", "jump_ms: lower end of its 95 % interval.", "ms"),
        _figure("jump_ms_upper", "jump_ms: upper end of its 95 % interval.", "ms"),
        _figure("share_beyond", "Share of the rounds of that length that were beyond the step.", "ratio"),
        Column(
            "draft_length_within",
            "INTEGER",
            "Greatest draft length that keeps the greatest load seen within the size; null where none does.",
            "tokens",
        ),
        _count("capture_size_needed", "Captured size that would hold every round seen.", "tokens"),
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
        _figure("verified_min", "Least verified tokens of a round.", "tokens"),
        _figure(
            "verified_max", "Most verified tokens of a round: a step in round time ends what the fit tells.", "tokens"
        ),
        _figure("relative_error", "Typical |residual| / time of a round (median over steps).", "ratio"),
        _count("observations", "Observations fitted.", "observations"),
        _count(
            "clusters", "Hours of a deployment that they come from: observations of one hour share shocks.", "hours"
        ),
        Column("solution", "DOUBLE[]", "Fitted costs c0 to c4; 0 for what was not fitted.", "ms"),
        Column("covariance", "DOUBLE[]", "Their covariance, row by row.", "ms²"),
        Column(
            "blind", "DOUBLE[]", "Directions of the costs left open by the data, five numbers each, any scale.", "ms"
        ),
        _figure("quantile", "Quantile of t for the 95 % interval.", "ratio"),
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
        _figure("iterations", "Engine iterations observed, or log records.", "iterations"),
        _figure("steps", "Steps of those rounds.", "steps"),
        _figure("requests", "Requests decoding in the round, mean over steps.", "requests"),
        _figure("prefill_tokens", "Tokens of prompts computed in the round, mean over steps.", "tokens"),
        _figure("round_time_ms", "Time of the round as measured, mean over steps.", "ms"),
        _figure("model_ms", "What the fit gives for the same work; log_stats: sum of the stages.", "ms"),
        *_interval("ordinary_ms", "Time of a round without a draft at the same requests and prefill work, by the fit"),
        *_interval("draft_ms", "Draft part of a round: c4 x K, or as printed"),
        *_interval(
            "verify_ms",
            "What verifying the draft adds to an ordinary round: c2 x requests x K, or all of the target pass as printed",
        ),
        _figure(
            "prefill_ms",
            "What prefill work adds to the round: c3 x prefill tokens; null where it is not identified.",
            "ms",
        ),
        _figure("other_ms", "Acceptance, as printed (V0); null for fits, where it is part of ordinary_ms.", "ms"),
        Column("not_identified", "VARCHAR", "What the data do not tell, and why; null where they tell all."),
        EVIDENCE,
    ),
    key=("date", "deployment", "origin", "load_band", "draft_length"),
    reads=("cost_observations", "round_cost", "log_stats"),
)

LEDGER = Table(
    "ledger",
    "mart",
    "deployment, date, origin, load band ('all' for the pooled row), context band",
    (
        DATE,
        DEPLOYMENT,
        ORIGIN,
        LOAD_BAND,
        Column(
            "context_band",
            "VARCHAR",
            "Band of prompt + half the output tokens; null where the origin has none, and in pooled rows.",
        ),
        _count("steps", "Steps.", "steps"),
        _count("tokens", "Output tokens after the first.", "tokens"),
        _figure("t0_ms", "TPOT without speculation at the same model, quantization, load and context band.", "ms"),
        Column("t0_origin", "VARCHAR", "same_date, other_date, zero_length or model; null without T0."),
        Column("t0_deployments", "VARCHAR[]", "Deployments that T0 was taken from."),
        Column("t0_date", "DATE", "Date that T0 was taken from."),
        _figure("round_time_ms", "T_round = Σ decode time / steps.", "ms"),
        _figure("acceptance_length", "L = 1 + C / R.", "tokens"),
        _figure("effective_length", "L_eff = (N_out - requests) / steps.", "tokens"),
        _figure("coverage", "R / steps.", "ratio"),
        _figure("tpot_ms", "T_round / L_eff.", "ms"),
        _figure("speedup", "S = T0 / TPOT; pooled: Σ tokens x T0(band) / Σ decode time.", "ratio"),
        _figure("break_even_length", "T_round / T0.", "tokens"),
        _figure(
            "break_even_acceptance",
            "Equal a_i at which 1 + coverage x Σ a^i reaches the break-even length; 0 where T_round <= T0, null where none does.",
            "ratio",
        ),
        _figure("draft_limit", "Draft length K used for the break-even: mean D / R rounded up.", "tokens"),
        Column(
            "beyond_reach",
            "BOOLEAN",
            "True where break-even length exceeds 1 + coverage x K: no acceptance could pay here.",
        ),
        _figure(
            "token_share",
            "Share of the deployment's tokens in this band; pooled: in bands that have T0, to which t0_ms, speedup and break-even belong.",
            "ratio",
        ),
        EVIDENCE,
    ),
    key=("date", "deployment", "origin", "load_band", "context_band"),
    reads=("band_totals", "deployment_days", "cells_draft_lengths", "round_cost", "round_split"),
)

LOAD_MIX = Table(
    "load_mix",
    "mart",
    "deployment, date, origin, load band, context band, task",
    (
        *BAND_GRAIN,
        _figure("token_share", "Share of output tokens after the first.", "ratio"),
        _figure("step_share", "Share of steps.", "ratio"),
        _figure("seconds", "Engine seconds observed in the band; decode seconds for origin requests.", "s"),
        EVIDENCE,
    ),
    key=BAND_KEY,
    reads=("band_totals",),
)

RECONCILIATION = Table(
    "reconciliation",
    "mart",
    "deployment, date, instance, engine, check",
    (
        DATE,
        DEPLOYMENT,
        Column("instance", "VARCHAR", "Instance checked; null for the whole deployment."),
        Column("engine", "INTEGER", "Engine checked; null for the whole instance."),
        Column("check_name", "VARCHAR", "What must hold, for example positions_add_up.", nullable=False),
        Column("origin", "VARCHAR", "Origins compared, for example snapshots, or requests/snapshots.", nullable=False),
        _figure("expected", "What the identity asks for.", "as checked"),
        _figure("found", "What the data hold.", "as checked"),
        _figure("difference", "found - expected; 0 where a bound is kept.", "as checked"),
        Column("verdict", "VARCHAR", "ok, fail or no_data.", nullable=False),
        Column("detail", "VARCHAR", "What the difference means, in words; null where nothing is to be said."),
    ),
    key=("date", "deployment", "instance", "engine", "check_name", "origin"),
    reads=(
        "deployment_days",
        "cells_snapshots",
        "cells_requests",
        "cells_log_stats",
        "cells_iterations",
        "cells_draft_lengths",
        "snapshots",
        "requests",
        "run_totals",
    ),
)

MART_TABLES: tuple[Table, ...] = (
    BAND_TOTALS,
    DEPLOYMENT_DAYS,
    ACCEPTANCE,
    ACCEPTANCE_BY,
    POSITIONS,
    DRAFT_LENGTHS,
    LATENCY,
    ROUND_TIME,
    PREEMPTION,
    CAPACITY,
    COST_OBSERVATIONS,
    STEP_CLIFFS,
    ROUND_COST,
    ROUND_SPLIT,
    LEDGER,
    LOAD_MIX,
    RECONCILIATION,
)
