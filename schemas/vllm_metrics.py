"""The metrics of every vLLM release as data: which names fill which column of ``snapshots``.

Names are written without their prefix (``vllm:``, ``vllm_`` under OpenMetrics, ``ray_vllm_`` behind a wrapper) and
without the suffix ``_total`` of counters. Versions are the releases that first and last exposed a name, as far as
sampled releases tell; None means not sampled. Both names of a renamed metric can be exposed at once: the newest that
is complete is taken, they are never added. The same name means other things to other servers, so a name holds only
behind the prefix of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram", "info"]


@dataclass(frozen=True)
class Name:
    """A name a metric had, the releases that first and last exposed it, and the server whose prefix it stands behind."""

    name: str
    first: str | None = None
    last: str | None = None
    server: str = "vllm"


@dataclass(frozen=True)
class Metric:
    """What fills one column of ``snapshots``. Of several names of one server the newest comes last.

    ``index`` is the label whose values become list positions or map keys of the column. For kind ``info`` the value is
    in one of the labels ``info_labels``: the first that holds a number, or for a tuple the product of its labels.
    """

    column: str
    kind: Kind
    unit: str
    names: tuple[Name, ...]
    index: str | None = None
    info_labels: tuple[str | tuple[str, ...], ...] = ()


METRICS: tuple[Metric, ...] = (
    Metric("running", "gauge", "requests", (Name("num_requests_running"),)),
    Metric("waiting", "gauge", "requests", (Name("num_requests_waiting"),)),
    Metric(
        "kv_usage",
        "gauge",
        "ratio",
        (Name("gpu_cache_usage_perc", last="0.10.2"), Name("kv_cache_usage_perc", first="0.9.2")),
    ),
    Metric("rounds", "counter", "rounds", (Name("spec_decode_num_drafts", first="0.8.5"),)),
    Metric("drafted", "counter", "tokens", (Name("spec_decode_num_draft_tokens", first="0.8.3"),)),
    Metric("accepted", "counter", "tokens", (Name("spec_decode_num_accepted_tokens", first="0.8.3"),)),
    Metric(
        "accepted_at",
        "counter",
        "tokens",
        (Name("spec_decode_num_accepted_tokens_per_pos", first="0.8.5"),),
        index="position",
    ),
    Metric("drafted_at", "counter", "tokens", (Name("spec_decode_num_draft_tokens_per_pos"),), index="position"),
    Metric("prompt_tokens", "counter", "tokens", (Name("prompt_tokens"),)),
    Metric("prompt_tokens_cached", "counter", "tokens", (Name("prompt_tokens_cached"),)),
    Metric("generation_tokens", "counter", "tokens", (Name("generation_tokens"),)),
    Metric("preemptions", "counter", "preemptions", (Name("num_preemptions"),)),
    Metric("prefix_queries", "counter", "tokens", (Name("gpu_prefix_cache_queries"), Name("prefix_cache_queries"))),
    Metric("prefix_hits", "counter", "tokens", (Name("gpu_prefix_cache_hits"), Name("prefix_cache_hits"))),
    Metric("prefix_hit_rate", "gauge", "ratio", (Name("gpu_prefix_cache_hit_rate"),)),
    Metric("finished", "counter", "requests", (Name("request_success"),), index="finished_reason"),
    Metric(
        "waiting_by_reason",
        "gauge",
        "requests",
        (Name("num_requests_waiting_by_reason", first="0.20"),),
        index="reason",
    ),
    Metric("ttft", "histogram", "s", (Name("time_to_first_token_seconds"),)),
    Metric(
        "itl",
        "histogram",
        "s",
        (
            Name("time_per_output_token_seconds", last="0.14"),
            Name("inter_token_latency_seconds", first="0.10.2"),
        ),
    ),
    Metric("request_tpot", "histogram", "s", (Name("request_time_per_output_token_seconds", first="0.11"),)),
    Metric("e2e", "histogram", "s", (Name("e2e_request_latency_seconds"),)),
    Metric(
        "queue",
        "histogram",
        "s",
        (Name("time_in_queue_requests", last="0.9.0"), Name("request_queue_time_seconds", first="0.6.6")),
    ),
    Metric("prefill", "histogram", "s", (Name("request_prefill_time_seconds"),)),
    Metric("decode", "histogram", "s", (Name("request_decode_time_seconds"),)),
    Metric("inference", "histogram", "s", (Name("request_inference_time_seconds"),)),
    Metric("prompt_len", "histogram", "tokens", (Name("request_prompt_tokens"),)),
    Metric("output_len", "histogram", "tokens", (Name("request_generation_tokens"),)),
    Metric("iteration_tokens", "histogram", "tokens", (Name("iteration_tokens_total"),)),
    Metric("request_preemptions", "histogram", "preemptions", (Name("request_num_preemptions", first="0.30"),)),
    Metric(
        "kv_tokens",
        "info",
        "tokens",
        (Name("cache_config"), Name("cache_config_info")),
        info_labels=("kv_cache_size_tokens", ("num_gpu_blocks", "block_size")),
    ),
    Metric(
        "block_size",
        "info",
        "tokens",
        (Name("cache_config"), Name("cache_config_info")),
        info_labels=("block_size",),
    ),
)
"""One entry for each column of ``snapshots`` that a metric fills."""

SERVERS = tuple(dict.fromkeys(name.server for metric in METRICS for name in metric.names))
"""Which words the names of series begin with."""

PROCESS_START = "process_start_time_seconds"
"""Fills ``process_started_at``; it has no prefix and is absent under multiprocess mode."""

BIRTH_SUFFIX = "_created"
"""Companion series with the birth time of a counter: the earliest fills ``process_started_at`` where PROCESS_START is
absent. Not a figure of its own, so never an unknown series."""

V0_REFUSED = frozenset({"spec_decode_num_emitted_tokens"})
"""V0 counters (0.5.5 to 0.9.2) that are sums of running totals, beside V0's own ``drafted`` and ``accepted``."""

V0_SIGNS = V0_REFUSED | {"spec_decode_efficiency", "spec_decode_draft_acceptance_rate"}
"""Names that only the V0 engine has: counters of ``drafted`` and ``accepted`` beside them mean something else."""

DIFFUSION_PREFIX = "diffusion_"
"""How the names of a diffusion model's own metrics begin (from 0.24); it denoises and has no acceptance length."""

ENGINE_LABEL = "engine"
MODEL_LABEL = "model_name"
INSTANCE_LABEL = "instance"
"""Label a Prometheus server adds: which server the series came from."""
JOB_LABEL = "job"
REPLICA_LABELS = ("ReplicaId", "WorkerId")
"""Labels by which wrappers tell the replicas behind one endpoint apart, the first known one counts."""
