"""The cells: additive integers at the grain at which everything is compared.

Units: durations in ns, shares of the KV cache in millionths. Null means that the origin cannot tell, never zero.
Every ratio has its own pair of sums over one population, so that TPOT = round time / effective length exactly:
`decode_*` over observations whose decode time is known, `step_*` over those whose steps are known as well.
"""

from __future__ import annotations

from .raw import DATE, DEPLOYMENT, INSTANCE
from .table import Column, Table

LOG_HISTOGRAM = "MAP(INTEGER, BIGINT)"
"""Log-spaced histogram: bucket b holds values from 1.02^b up to 1.02^(b+1) (in ns, tokens or millionths); -1 holds 0."""

SERVER_HISTOGRAM = "STRUCT(le DOUBLE[], n BIGINT[])"
"""Server histogram with its own edges: n is per bucket (not cumulative); only equal edge lists add up."""

GRAIN = (
    DATE,
    DEPLOYMENT,
    INSTANCE,
    Column("engine", "INTEGER", "Engine number inside the instance; null where the origin has none."),
    Column("origin", "VARCHAR", "snapshots, requests, log_stats or iterations.", nullable=False),
    Column("hour", "TINYINT", "UTC hour of the day, 0 to 23.", "h", nullable=False),
    Column("block", "SMALLINT", "10-minute block of the UTC day, 0 to 143.", nullable=False),
    Column(
        "load",
        "INTEGER",
        "Requests running: exact up to 64, lower edge of a 5 % step above; null when not known.",
        "requests",
    ),
)

REQUEST_GRAIN = (
    Column("context_band", "VARCHAR", "Band of prompt + half the output tokens; null where the origin has none."),
    Column("task", "VARCHAR", "Task label; null where there is none."),
    Column("temperature_class", "VARCHAR", "greedy, sampled or null where not said."),
    Column("output_band", "VARCHAR", "Band of output tokens: 1-20, 21-100, 101-500, 501+; null without output."),
    Column("lora", "VARCHAR", "LoRA adapter; null where there is none."),
    Column("draft_limit", "INTEGER", "Configured draft length K; null where not known.", "tokens"),
)


def _sum(name: str, doc: str, unit: str) -> Column:
    return Column(name, "BIGINT", doc, unit)


def _product(name: str, doc: str) -> Column:
    return Column(name, "HUGEINT", doc, None)


COUNTS = (
    _sum("n", "Observations: scrape intervals, requests or log records.", "observations"),
    _sum("duration_ns", "Observed time (scrape intervals, log windows).", "ns"),
    _sum("requests", "Requests that returned a first token.", "requests"),
    _sum("output_tokens", "Output tokens N_out.", "tokens"),
    _sum("prompt_tokens", "Prompt tokens.", "tokens"),
    _sum("cached_tokens", "Prompt tokens served from a cache.", "tokens"),
    _sum("rounds", "Speculative rounds R.", "rounds"),
    _sum("drafted", "Draft tokens D.", "tokens"),
    _sum("accepted", "Accepted draft tokens C.", "tokens"),
    _sum("decode_ns", "Decode time of observations whose decode time and tokens are known.", "ns"),
    _sum("decode_tokens", "Output tokens after the first, same observations.", "tokens"),
    _sum("steps", "Steps of observations whose steps are known.", "steps"),
    _sum("step_tokens", "Output tokens after the first, same observations.", "tokens"),
    _sum("step_decode_ns", "Decode time, same observations.", "ns"),
    _sum("step_rounds", "Rounds, same observations (0 without speculation).", "rounds"),
    _sum("step_accepted", "Accepted tokens, same observations (0 without speculation).", "tokens"),
    _sum("succeeded", "Requests finished well.", "requests"),
    _sum("failed", "Requests that failed or were aborted, where the origin tells.", "requests"),
)

MOMENTS = (
    _product("rounds_rounds", "Σ R²."),
    _product("rounds_accepted", "Σ R·C."),
    _product("accepted_accepted", "Σ C²."),
    _product("drafted_drafted", "Σ D²."),
    _product("drafted_accepted", "Σ D·C."),
    _product("decode_decode", "Σ decode_ns²."),
    _product("decode_tokens_decode", "Σ decode_tokens·decode_ns."),
    _product("decode_tokens_tokens", "Σ decode_tokens²."),
    _product("steps_steps", "Σ steps²."),
    _product("steps_step_tokens", "Σ steps·step_tokens."),
    _product("step_tokens_tokens", "Σ step_tokens²."),
    _product("steps_step_decode", "Σ steps·step_decode_ns."),
    _product("step_decode_decode", "Σ step_decode_ns²."),
    _product("steps_step_rounds", "Σ steps·step_rounds."),
    _product("step_rounds_rounds", "Σ step_rounds²."),
)
"""Second moments over single observations, for intervals where hours and blocks are too few."""

GAUGES = (
    _sum("kv_n", "Observations of KV use.", "observations"),
    _sum("kv_ppm", "Σ KV use in millionths.", "ppm"),
    _sum("kv_max_ppm", "Greatest KV use in millionths.", "ppm"),
    Column("kv_hist", LOG_HISTOGRAM, "KV use by thousandths (plain thousandths, not log-spaced).", None),
    _sum("waiting_n", "Observations of waiting requests.", "observations"),
    _sum("waiting", "Σ waiting requests, rounded to whole requests.", "requests"),
    _sum("waiting_max", "Most requests waiting.", "requests"),
    _sum("running_n", "Observations of running requests.", "observations"),
    _sum("running_milli", "Σ running requests in thousandths (interval means).", "milli-requests"),
)


def _server(name: str, doc: str) -> tuple[Column, Column, Column]:
    return (
        Column(name, SERVER_HISTOGRAM, f"{doc}: counts by bucket, edges as the server has them."),
        _sum(f"{name}_n", f"{doc}: observations.", "observations"),
        _sum(f"{name}_sum", f"{doc}: sum, in ns or tokens.", "ns or tokens"),
    )


def _logged(name: str, doc: str) -> tuple[Column, Column, Column, Column]:
    return (
        Column(name, LOG_HISTOGRAM, f"{doc}: log-spaced histogram of ns."),
        _sum(f"{name}_n", f"{doc}: observations.", "observations"),
        _sum(f"{name}_sum", f"{doc}: sum.", "ns"),
        _sum(f"{name}_max", f"{doc}: exact maximum.", "ns"),
    )


CELLS_SNAPSHOTS = Table(
    "cells_snapshots",
    "cells",
    "date, deployment, instance, engine, hour, block, load and set of histogram edges, over scrape intervals",
    (
        *GRAIN,
        Column("edges", "UBIGINT", "Hash of all edge lists: cells of other edges never mix.", nullable=False),
        *COUNTS,
        _sum("preemptions", "Preemptions.", "preemptions"),
        _sum("restarts", "Processes that started anew.", "restarts"),
        _sum("damaged", "Scrapes left out because a counter fell though the process went on.", "scrapes"),
        Column("accepted_at", "BIGINT[]", "C_i by position.", "tokens"),
        Column("drafted_at", "BIGINT[]", "Draft tokens by position, where a build exposes it.", "tokens"),
        _sum("decode_sum_ns", "Σ request_decode_time_seconds of finished requests.", "ns"),
        *_server("itl", "Step time"),
        *_server("ttft", "Time to first token"),
        *_server("e2e", "End-to-end time of requests"),
        *_server(
            "request_tpot", "Time per output token of requests; requests of one token taken out of the first bucket"
        ),
        *_server("queue", "Time in queue"),
        *_server("prefill", "Prefill time"),
        *_server("prompt_len", "Prompt tokens of requests"),
        *_server("output_len", "Output tokens of requests"),
        *GAUGES,
        *MOMENTS,
    ),
    key=("date", "deployment", "instance", "engine", "origin", "hour", "block", "load", "edges"),
    reads=("intervals", "scrapes"),
)

CELLS_REQUESTS = Table(
    "cells_requests",
    "cells",
    "date, deployment, instance, engine, hour, block, load, context band, task, temperature class, output band, LoRA, draft limit, over requests",
    (
        *GRAIN,
        *REQUEST_GRAIN,
        *COUNTS,
        _sum("preemptions", "Preemptions, where requests carry them.", "preemptions"),
        *_logged("ttft", "Time to first token"),
        *_logged("itl", "Stream gap"),
        *_logged("request_tpot", "Time per output token of a request"),
        *_logged("e2e", "End-to-end time"),
        *_logged("queue", "Time in queue"),
        *_logged("prefill", "Prefill time"),
        _sum("longest_pause_ns", "Longest stream gap of any request.", "ns"),
        Column("longest_pause", LOG_HISTOGRAM, "Longest stream gap of each request, log-spaced histogram of ns."),
        _sum("itl_client_n", "Stream gaps measured by clients, network included.", "observations"),
        _sum("qualified", "Requests that met every goodput limit; null without limits.", "requests"),
        _sum("qualified_tokens", "Output tokens of those requests.", "tokens"),
        *MOMENTS,
    ),
    key=(
        "date", "deployment", "instance", "engine", "origin", "hour", "block", "load",
        "context_band", "task", "temperature_class", "output_band", "lora", "draft_limit",
    ),
    reads=("requests_by_load",),
)  # fmt: skip

CELLS_LOG_STATS = Table(
    "cells_log_stats",
    "cells",
    "date, deployment, instance, engine, hour, block, load, over stats and spec records of the log",
    (
        *GRAIN,
        _sum("n", "Log records.", "records"),
        _sum("duration_ns", "Σ windows of spec records.", "ns"),
        _sum("rounds", "R, best estimate.", "rounds"),
        _sum("rounds_min", "Least R.", "rounds"),
        _sum("rounds_max", "Greatest R.", "rounds"),
        _sum("drafted", "Draft tokens D.", "tokens"),
        _sum("accepted", "Accepted draft tokens C (V0: emitted - rounds).", "tokens"),
        Column("accepted_at", "BIGINT[]", "C_i by position: printed rate times R, rounded; estimated.", "tokens"),
        *(
            column
            for column in MOMENTS
            if column.name
            in {"rounds_rounds", "rounds_accepted", "accepted_accepted", "drafted_drafted", "drafted_accepted"}
        ),
        *GAUGES,
    ),
    key=("date", "deployment", "instance", "engine", "origin", "hour", "block", "load"),
    reads=("log_windows",),
)

CELLS_ITERATIONS = Table(
    "cells_iterations",
    "cells",
    "date, deployment, instance, engine, hour, block, load (generation requests), prefill and scheduled tokens, over engine iterations",
    (
        *GRAIN,
        Column("prefill", "BOOLEAN", "Whether the iteration had prefill work.", nullable=False),
        Column(
            "scheduled_tokens",
            "INTEGER",
            "Scheduled decode positions of the iteration; null with prefill work.",
            "tokens",
        ),
        _sum("n", "Iterations (dummy ones left out).", "iterations"),
        _sum("generation_requests", "Σ requests decoding.", "requests"),
        _sum("generation_tokens", "Σ scheduled decode positions.", "tokens"),
        _sum("context_requests", "Σ requests with prefill work.", "requests"),
        _sum("context_tokens", "Σ prefill tokens.", "tokens"),
        *_logged("elapsed", "Iteration time"),
        _product("elapsed_elapsed", "Σ elapsed_ns²."),
    ),
    key=("date", "deployment", "instance", "engine", "origin", "hour", "block", "load", "prefill", "scheduled_tokens"),
    reads=("iterations",),
)

CELLS_DRAFT_LENGTHS = Table(
    "cells_draft_lengths",
    "cells",
    "cell of snapshots, requests or iterations, split by the draft length that ran",
    (
        *GRAIN,
        *REQUEST_GRAIN,
        Column("draft_length", "INTEGER", "Draft length of the rounds; 0 for steps without a draft; null where it cannot be told.", "tokens"),
        _sum("rounds", "Rounds of that length.", "rounds"),
        _sum("drafted", "Draft tokens of those rounds.", "tokens"),
        _sum("accepted", "Accepted tokens of those rounds.", "tokens"),
        Column("accepted_at", "BIGINT[]", "C_i of those rounds.", "tokens"),
        _sum("steps", "Steps of observations that ran at this length alone.", "steps"),
        _sum("step_decode_ns", "Decode time of those observations.", "ns"),
        _sum("step_tokens", "Output tokens after the first of those observations.", "tokens"),
        _sum("n", "Observations that ran at this length alone.", "observations"),
        _product("steps_steps", "Σ steps² over those observations."),
        _product("steps_step_decode", "Σ steps·step_decode_ns over those observations."),
        _product("step_decode_decode", "Σ step_decode_ns² over those observations."),
        _sum("steady_steps", "Steps of those intervals in which gauge and decode time agree on the load.", "steps"),
        _sum("steady_decode_ns", "Decode time of those intervals.", "ns"),
        Column("steady_requests", "HUGEINT", "Σ steps·decoding requests over those intervals.", "milli-requests"),
        Column("steady_prefill", "HUGEINT", "Σ prefill tokens·decoding requests over those intervals.", "milli-requests"),
    ),
    key=(
        "date", "deployment", "instance", "engine", "origin", "hour", "block", "load",
        "context_band", "task", "temperature_class", "output_band", "lora", "draft_limit", "draft_length",
    ),
    reads=("intervals", "requests_by_load", "iterations", "draft_settings"),
)  # fmt: skip

CELL_TABLES: tuple[Table, ...] = (
    CELLS_SNAPSHOTS,
    CELLS_REQUESTS,
    CELLS_LOG_STATS,
    CELLS_ITERATIONS,
    CELLS_DRAFT_LENGTHS,
)
