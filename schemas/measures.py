"""The measures: every figure that can be compared and gated, defined once for reports, gates and documentation.

A measure carries the name of its mart column. How it is formed from cells is part of its declaration: ratios are
scale · Σ numerator / Σ denominator over columns of the cell tables, quantiles are read from a histogram column,
composites are products of other measures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

GateName = Literal["correctness", "quality", "latency", "capacity"]
Form = Literal["ratio", "quantile", "composite", "maximum", "constant"]
Moments = tuple[tuple[float, str], ...]
"""A second moment as a weighted sum of cell columns."""

ALL_ORIGINS = ("requests", "snapshots", "log_stats")
"""Origins in the order of preference: exact by request, exact by server, rounded by the log."""
COUNTERS = ("requests", "snapshots")

NS_TO_MS = 1e-6
PER_SECOND = 1e9
"""Tokens per nanosecond to tokens per second."""
DRAFT_LENGTH = ("drafted", "rounds")
"""Accepting one more draft adds up to this many tokens."""


@dataclass(frozen=True)
class Measure:
    """One figure: what it means, where it comes from, and what tends to fool its readers."""

    name: str
    gate: GateName
    form: Form
    unit: str
    higher_is_better: bool
    sentence: str
    formula: str
    origins: tuple[str, ...]
    mart: str
    numerator: tuple[str, ...] = ()
    """Columns whose sum is the numerator."""
    denominator: str = ""
    scale: float = 1.0
    moments: tuple[Moments, Moments, Moments] | None = None
    """Σ N², Σ N·D, Σ D² over single observations; None where cells do not hold them."""
    quantum: float | tuple[str, str] | None = None
    """Size of one event in the numerator, or the two columns whose ratio it is; None for sums that count no events."""
    histogram: str = ""
    share: float | None = None
    """Share below a quantile, for example 0.95."""
    factors: Mapping[str, int] = field(default_factory=dict)
    """Composite: measure → power."""
    traps: tuple[str, ...] = ()
    timed: bool = False
    """Whether it rests on the times of rounds, which requests that run together share."""
    by_band: bool = False
    """Whether its events fall at other loads of a band than what they are divided by: strata are whole bands."""
    scatter_of: str = ""
    """The measure whose scatter over single requests is what they share of this one; all of it where there is none."""


def _moments(nn: str, nd: str, dd: str) -> tuple[Moments, Moments, Moments]:
    return ((1.0, nn),), ((1.0, nd),), ((1.0, dd),)


ACCEPTANCE_LENGTH = Measure(
    "acceptance_length",
    "capacity",
    "ratio",
    "tokens",
    True,
    "Tokens that a speculative round yields before truncation: the accepted draft tokens and the one the target adds.",
    "L = 1 + C / R",
    ALL_ORIGINS,
    "acceptance",
    ("rounds", "accepted"),
    "rounds",
    moments=(
        ((1.0, "rounds_rounds"), (2.0, "rounds_accepted"), (1.0, "accepted_accepted")),
        ((1.0, "rounds_rounds"), (1.0, "rounds_accepted")),
        ((1.0, "rounds_rounds"),),
    ),
    quantum=DRAFT_LENGTH,
    traps=(
        "Releases up to 0.8.5 print C / R, one less than later ones.",
        "Counts tokens that never reached a client when outputs end inside a round: short outputs look better than they are.",
        "Comparable only at equal draft length; acceptance close to the maximum often means repetition.",
    ),
)
EFFECTIVE_LENGTH = Measure(
    "effective_length",
    "capacity",
    "ratio",
    "tokens",
    True,
    "Tokens that a step really returned, steps without a draft and truncation included.",
    "L_eff = (N_out - requests) / steps",
    COUNTERS,
    "acceptance",
    ("step_tokens",),
    "steps",
    moments=_moments("step_tokens_tokens", "steps_step_tokens", "steps_steps"),
    traps=("Falls with coverage although every drafted round is as good as before.",),
)
COVERAGE = Measure(
    "coverage",
    "capacity",
    "ratio",
    "ratio",
    True,
    "Share of steps that carried a draft.",
    "R / steps",
    COUNTERS,
    "acceptance",
    ("step_rounds",),
    "steps",
    moments=_moments("step_rounds_rounds", "steps_step_rounds", "steps_steps"),
    traps=("N-gram and suffix drafters often have no draft; dynamic speculation switches drafts off at high load.",),
)
ACCEPTANCE_RATE = Measure(
    "acceptance_rate",
    "capacity",
    "ratio",
    "ratio",
    True,
    "Share of draft tokens that the target accepted.",
    "C / D",
    ALL_ORIGINS,
    "acceptance",
    ("accepted",),
    "drafted",
    moments=_moments("accepted_accepted", "drafted_accepted", "drafted_drafted"),
    quantum=DRAFT_LENGTH,
    traps=("Falls when drafts get longer even if every round yields more: compare only at equal draft length.",),
)
ROUND_TIME = Measure(
    "round_time_ms",
    "capacity",
    "ratio",
    "ms",
    False,
    "Time of one decode step: draft, verification and everything else.",
    "T_round = Σ decode time / steps",
    COUNTERS,
    "round_time",
    ("step_decode_ns",),
    "steps",
    scale=NS_TO_MS,
    moments=_moments("step_decode_decode", "steps_step_decode", "steps_steps"),
    traps=(
        "vLLM's inter-token latency is this figure, not the time per token.",
        "Grows with load: compare it at equal load only.",
    ),
    timed=True,
)
TPOT = Measure(
    "tpot_ms",
    "latency",
    "ratio",
    "ms",
    False,
    "Decode time per output token, weighted by tokens.",
    "TPOT = Σ decode time / Σ (N_out - 1) = T_round / L_eff",
    COUNTERS,
    "latency",
    ("decode_ns",),
    "decode_tokens",
    scale=NS_TO_MS,
    moments=_moments("decode_decode", "decode_tokens_decode", "decode_tokens_tokens"),
    traps=(
        "The mean over requests is another figure: short requests weigh as much as long ones there.",
        "Can fall while single gaps get longer: see burstiness and itl_ms_p99.",
    ),
    timed=True,
    scatter_of="round_time_ms",
)
ITL_OVER = Measure(
    "itl_over",
    "latency",
    "ratio",
    "ratio",
    False,
    "Share of stream gaps longer than the bucket edge just below the baseline's p99.",
    "Σ gaps over the edge / Σ gaps",
    ("snapshots",),
    "latency",
    ("over",),
    "itl_n",
    quantum=1.0,
    histogram="itl",
    share=0.99,
    traps=("Exact at a server's own bucket edge, where a p99 would only be somewhere inside a wide bucket.",),
)
OUTPUT_TPS = Measure(
    "output_tps",
    "capacity",
    "ratio",
    "tokens/s",
    True,
    "Output tokens per second of an engine, at equal load.",
    "Σ output tokens / Σ observed engine time",
    ("snapshots",),
    "capacity",
    ("output_tokens",),
    "duration_ns",
    scale=PER_SECOND,
    traps=("Follows the traffic: without equal load it says how many requests came, not how fast the server is.",),
)
GPU_SECONDS = Measure(
    "gpu_s_per_1k_tokens",
    "capacity",
    "ratio",
    "GPU s",
    False,
    "GPU-seconds per 1,000 output tokens, at equal load.",
    "GPUs · Σ observed engine time / Σ output tokens · 1000",
    ("snapshots",),
    "capacity",
    ("gpu_ns",),
    "output_tokens",
    scale=1e-6,
    traps=("GPUs come from the label gpus, else from the parallel sizes, which miss prefill nodes and draft servers.",),
)
QUALIFIED_SHARE = Measure(
    "qualified_share",
    "capacity",
    "ratio",
    "ratio",
    True,
    "Share of output tokens from requests that met every goodput limit.",
    "Σ tokens of qualified requests / Σ output tokens",
    ("requests",),
    "capacity",
    ("qualified_tokens",),
    "output_tokens",
    traps=("Without configured limits there is none.",),
    timed=True,
)
GOODPUT_TPS = Measure(
    "goodput_tps",
    "capacity",
    "composite",
    "tokens/s",
    True,
    "Output tokens per second of an engine from requests that met every limit, at equal load.",
    "output_tps · qualified_share",
    COUNTERS,
    "capacity",
    factors={"output_tps": 1, "qualified_share": 1},
    traps=("Without configured limits there is none.",),
)
GPU_SECONDS_QUALIFIED = Measure(
    "gpu_s_per_1k_qualified_tokens",
    "capacity",
    "composite",
    "GPU s",
    False,
    "GPU-seconds per 1,000 output tokens of requests that met every limit, at equal load.",
    "gpu_s_per_1k_tokens / qualified_share",
    COUNTERS,
    "capacity",
    factors={"gpu_s_per_1k_tokens": 1, "qualified_share": -1},
    traps=("Without configured limits there is none.",),
)
PREEMPTIONS = Measure(
    "per_1k_requests",
    "capacity",
    "ratio",
    "1/1000",
    False,
    "Preemptions per 1,000 requests.",
    "Σ preemptions / Σ requests · 1000",
    COUNTERS,
    "preemption",
    ("preemptions",),
    "requests",
    scale=1e3,
    quantum=1.0,
    by_band=True,
    traps=("Only the counter can be trusted: logs never print preemptions, and silence is no zero.",),
)
LONGEST_PAUSE = Measure(
    "longest_pause_ms",
    "latency",
    "maximum",
    "ms",
    False,
    "Longest stream gap of any request.",
    "max over stream gaps",
    ("requests",),
    "latency",
    ("longest_pause_ns",),
    scale=NS_TO_MS,
    traps=("A maximum grows with the number of requests: it warns, it proves nothing.",),
)
KV_USAGE_MAX = Measure(
    "kv_usage_max",
    "capacity",
    "maximum",
    "ratio",
    False,
    "Greatest share of the KV cache in use.",
    "max over observations",
    ("snapshots", "log_stats"),
    "preemption",
    ("kv_max_ppm",),
    scale=1e-6,
    traps=("Seen only at the instants of scrapes and log lines.",),
)
KV_TOKENS = Measure(
    "kv_tokens",
    "capacity",
    "constant",
    "tokens",
    True,
    "Size of the KV cache of the deployment.",
    "least over workers, sum over engines",
    ("deployments",),
    "capacity",
    ("kv_tokens",),
    traps=("A drafter takes part of the memory: fewer requests fit before preemption starts.",),
)


def _quantile(name: str, histogram: str, share: float, origins: tuple[str, ...], sentence: str, trap: str) -> Measure:
    label = f"p{round(share * 100)}"
    return Measure(
        f"{name}_{label}",
        "latency",
        "quantile",
        "ms",
        False,
        f"{sentence}, {label}.",
        f"value below which {share:.0%} of the observations lie",
        origins,
        "latency",
        denominator=f"{histogram}_n",
        scale=NS_TO_MS,
        histogram=histogram,
        share=share,
        traps=(trap,),
    )


_QUANTILES = tuple(
    _quantile(name, histogram, share, COUNTERS, sentence, trap)
    for name, histogram, sentence, trap in (
        (
            "ttft_ms",
            "ttft",
            "Time from arrival to the first token",
            "Includes time in queue; a client's figure includes the network as well.",
        ),
        (
            "itl_ms",
            "itl",
            "Gap between consecutive returns of a stream",
            "One gap a step, not a token: it rises with draft length even where TPOT falls.",
        ),
        (
            "request_tpot_ms",
            "request_tpot",
            "Decode time per output token of a request",
            "Every request weighs the same here, the short ones too.",
        ),
        (
            "e2e_ms",
            "e2e",
            "Time from arrival to the last token",
            "Grows with the number of output tokens: compare it at equal output length.",
        ),
    )
    for share in (0.50, 0.95, 0.99)
)

BURSTINESS = Measure(
    "burstiness",
    "latency",
    "composite",
    "ratio",
    False,
    "How much longer the worst hundredth of gaps is than the time per token.",
    "itl_ms_p99 / tpot_ms",
    COUNTERS,
    "latency",
    factors={"itl_ms_p99": 1, "tpot_ms": -1},
    traps=("TPOT may fall while this rises.",),
)

MEASURES: dict[str, Measure] = {
    measure.name: measure
    for measure in (
        TPOT,
        *_QUANTILES,
        ITL_OVER,
        BURSTINESS,
        LONGEST_PAUSE,
        ACCEPTANCE_LENGTH,
        EFFECTIVE_LENGTH,
        COVERAGE,
        ACCEPTANCE_RATE,
        ROUND_TIME,
        OUTPUT_TPS,
        GOODPUT_TPS,
        QUALIFIED_SHARE,
        GPU_SECONDS,
        GPU_SECONDS_QUALIFIED,
        PREEMPTIONS,
        KV_TOKENS,
        KV_USAGE_MAX,
    )
}
"""Every measure by name, in the order in which they are shown."""
