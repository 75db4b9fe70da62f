"""The marts: what people query and reports print, one deployment and date at a time."""

from __future__ import annotations

from .cost_marts import COST_OBSERVATIONS, ROUND_COST, ROUND_SPLIT, STEP_CLIFFS
from .mart_columns import EVIDENCE, LOAD_BAND, count, figure
from .raw import DATE, DEPLOYMENT
from .table import Column, Table

ORIGIN = Column(
    "origin", "VARCHAR", "snapshots, requests, log_stats or iterations; origins are never added.", nullable=False
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


def _quantiles(name: str, doc: str) -> tuple[Column, ...]:
    columns: list[Column] = []
    for share in ("p50", "p95", "p99"):
        columns += [
            figure(f"{name}_{share}", f"{doc}, {share}: point inside its bucket; null where that is open.", "ms"),
            figure(f"{name}_{share}_lower", f"{doc}, {share}: lower edge of its bucket.", "ms"),
            figure(f"{name}_{share}_upper", f"{doc}, {share}: upper edge of its bucket; null where it is open.", "ms"),
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
        figure(
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
    count("requests", "Requests that returned a first token.", "requests"),
    count("steps", "Steps of observations whose steps are known; null where none are.", "steps"),
    count("rounds", "Speculative rounds R.", "rounds"),
    count("drafted", "Draft tokens D.", "tokens"),
    count("accepted", "Accepted draft tokens C.", "tokens"),
    count("output_tokens", "Output tokens N_out.", "tokens"),
    count("truncated", "Accepted tokens that were never returned; null where steps are not known.", "tokens"),
    figure("acceptance_length", "L = 1 + C / R.", "tokens"),
    figure("effective_length", "L_eff = (N_out - requests) / steps.", "tokens"),
    figure("coverage", "R / steps.", "ratio"),
    figure("acceptance_rate", "C / D; compare only at equal draft length.", "ratio"),
    figure("mean_draft_length", "D / R.", "tokens"),
    figure("verified_nodes", "Candidates and the token before them that a round verified: D / R + 1.", "tokens"),
    figure("truncated_share", "φ = truncated / C of observations whose steps are known.", "ratio"),
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
        count(
            "rounds",
            "R_i, rounds that drafted at least this many tokens (R where censored); null where ΣC_i is not C.",
            "rounds",
        ),
        count("accepted", "C_i.", "tokens"),
        figure("survival", "S_i = C_i / R_i (C_i / R where censored); null where ΣC_i is not C.", "ratio"),
        figure("conditional", "a_i = S_i / S_(i-1); null where censored.", "ratio"),
        figure("predicted_length", "E[L] at draft length i = 1 + Σ S_j for j up to i.", "tokens"),
        figure("marginal_gain", "S of the next position; beyond the last one extrapolated with its a_i.", "tokens"),
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
        count("rounds", "Rounds of that length.", "rounds"),
        count("accepted", "Accepted tokens of those rounds.", "tokens"),
        figure("acceptance_length", "1 + C / R of that length; 1 at length 0.", "tokens"),
        count("n", "Observations (intervals, requests or iterations) that ran at this length alone.", "observations"),
        count("steps", "Steps of those observations.", "steps"),
        count("tokens", "Output tokens after the first of those observations.", "tokens"),
        figure("round_time_ms", "Step time at that length; null where no observation ran at it alone.", "ms"),
        figure(
            "round_time_error",
            "Relative standard error of the step time over those observations; null below two.",
            "ratio",
        ),
        figure("tpot_ms", "Decode time per output token of those observations.", "ms"),
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
        count("requests", "Requests that returned a first token.", "requests"),
        count("tokens", "Output tokens after the first whose decode time is known.", "tokens"),
        *_quantiles("ttft_ms", "Time to first token"),
        figure("tpot_ms", "Σ decode time / Σ (N_out - 1), token-weighted.", "ms"),
        *_quantiles("request_tpot_ms", "Time per output token of a request"),
        *_quantiles("itl_ms", "Stream gap"),
        figure("longest_pause_ms", "Longest stream gap; null where only buckets are known.", "ms"),
        *_quantiles("e2e_ms", "End-to-end time"),
        figure("burstiness", "p99 stream gap / TPOT.", "ratio"),
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
        count("n", "Steps, or iterations for origin iterations.", "steps"),
        figure("round_time_ms", "Σ decode time / steps; iterations: mean elapsed time without prefill work.", "ms"),
        *(
            column
            for share in ("p50", "p95", "p99")
            for column in (
                figure(share, f"{share} of single steps (requests: stream gaps): point inside its bucket.", "ms"),
                figure(f"{share}_lower", f"{share}: lower edge of its bucket.", "ms"),
                figure(f"{share}_upper", f"{share}: upper edge of its bucket.", "ms"),
            )
        ),
        figure(
            "longest_ms", "Longest single step (requests: stream gap) seen; null where only buckets are known.", "ms"
        ),
        figure(
            "prefill_share",
            "Share of iteration time spent in iterations with prefill work; null for other origins.",
            "ratio",
        ),
        figure(
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
        count("requests", "Requests that returned a first token.", "requests"),
        count("steps", "Steps.", "steps"),
        count(
            "preemptions",
            "Preemptions; null where the origin cannot tell (silence of a log is no zero).",
            "preemptions",
        ),
        figure("per_1k_requests", "Preemptions per 1,000 requests.", "1/1000"),
        figure("per_1k_steps", "Preemptions per 1,000 steps.", "1/1000"),
        figure("kv_usage_mean", "Mean share of KV cache in use.", "ratio"),
        figure("kv_usage_p95", "p95 of the share of KV cache in use, to 0.001.", "ratio"),
        figure("kv_usage_max", "Greatest share of KV cache in use.", "ratio"),
        figure("waiting_mean", "Mean requests waiting.", "requests"),
        figure("waiting_max", "Most requests waiting.", "requests"),
        count(
            "recomputed_tokens",
            "Origin iterations: positions computed again after a resume. Where no scrapes count the preemptions of the "
            "same steps it is a lower bound: each resume then hides draft limit positions.",
            "tokens",
        ),
        figure(
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
        figure("seconds", "Engine seconds observed; requests: their running time / load, an estimate.", "s"),
        count("kv_tokens", "KV cache size of the deployment.", "tokens"),
        figure("candidate_kv_share", "Running x D / R as a share of KV capacity; an estimate.", "ratio"),
        figure("output_tps", "Output tokens per engine second.", "tokens/s"),
        figure("prompt_tps", "Prompt tokens per engine second.", "tokens/s"),
        count("succeeded", "Requests finished well.", "requests"),
        count("failed", "Requests failed or aborted.", "requests"),
        figure(
            "goodput_tps", "Output tokens per second from requests within every limit; null without limits.", "tokens/s"
        ),
        figure(
            "gpus",
            "GPUs of one engine: label gpus (of one instance) over its engines, else TP x PP; null when neither is known.",
            "GPUs",
        ),
        Column("gpus_from", "VARCHAR", "label or parallel sizes (derived)."),
        figure("gpu_s_per_1k_tokens", "GPU-seconds per 1,000 output tokens.", "GPU s"),
        figure(
            "gpu_s_per_1k_qualified_tokens",
            "GPU-seconds per 1,000 tokens within every limit; null without limits.",
            "GPU s",
        ),
        EVIDENCE,
    ),
    key=("date", "deployment", "origin", "load_band"),
    reads=("deployment_days", "cells_snapshots", "cells_requests", "cells_log_stats"),
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
        count("steps", "Steps.", "steps"),
        count("tokens", "Output tokens after the first.", "tokens"),
        figure("t0_ms", "TPOT without speculation at the same model, quantization, load and context band.", "ms"),
        Column("t0_origin", "VARCHAR", "same_date, other_date, zero_length or model; null without T0."),
        Column("t0_deployments", "VARCHAR[]", "Deployments that T0 was taken from."),
        Column("t0_date", "DATE", "Date that T0 was taken from."),
        figure("round_time_ms", "T_round = Σ decode time / steps.", "ms"),
        figure("acceptance_length", "L = 1 + C / R.", "tokens"),
        figure("effective_length", "L_eff = (N_out - requests) / steps.", "tokens"),
        figure("coverage", "R / steps.", "ratio"),
        figure("tpot_ms", "T_round / L_eff.", "ms"),
        figure("speedup", "S = T0 / TPOT; pooled: Σ tokens x T0(band) / Σ decode time.", "ratio"),
        figure("break_even_length", "T_round / T0.", "tokens"),
        figure(
            "break_even_acceptance",
            "Equal a_i at which 1 + coverage x Σ a^i reaches the break-even length; 0 where T_round <= T0, null where none does.",
            "ratio",
        ),
        figure("draft_limit", "Draft length K used for the break-even: mean D / R rounded up.", "tokens"),
        Column(
            "beyond_reach",
            "BOOLEAN",
            "True where break-even length exceeds 1 + coverage x K: no acceptance could pay here.",
        ),
        figure(
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
        figure("token_share", "Share of output tokens after the first.", "ratio"),
        figure("step_share", "Share of steps.", "ratio"),
        figure("seconds", "Engine seconds observed in the band; decode seconds for origin requests.", "s"),
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
        figure("expected", "What the identity asks for.", "as checked"),
        figure("found", "What the data hold.", "as checked"),
        figure("difference", "found - expected; 0 where a bound is kept.", "as checked"),
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
