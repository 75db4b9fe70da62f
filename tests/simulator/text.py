"""What a vLLM server would have written: scrapes of /metrics, its log, and the responses a client kept."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator

import numpy as np

from .engine import Iteration, Request, Trace
from .state import State, read

HISTOGRAMS = {
    "ttft": "time_to_first_token_seconds",
    "itl": "inter_token_latency_seconds",
    "request_tpot": "request_time_per_output_token_seconds",
    "e2e": "e2e_request_latency_seconds",
    "queue": "request_queue_time_seconds",
    "prefill": "request_prefill_time_seconds",
    "decode": "request_decode_time_seconds",
    "inference": "request_inference_time_seconds",
    "prompt_len": "request_prompt_tokens",
    "output_len": "request_generation_tokens",
    "iteration_tokens": "iteration_tokens_total",
    "request_preemptions": "request_num_preemptions",
}


def number(value: float) -> str:
    """A value as the Prometheus client prints it."""
    text = repr(float(value))
    whole = text.find(".")
    if value > 0 and whole > 6:
        mantissa = f"{text[0]}.{text[1:whole]}{text[whole + 1 :]}".rstrip("0.")
        return f"{mantissa}e+0{whole - 1}"
    return "+Inf" if text == "inf" else text


def scrapes(traces: list[Trace], started_unix: float, every_s: float) -> Iterator[tuple[float, str]]:
    """The time (unix seconds) and text of a scrape each so many seconds, all engines of one server together."""
    moments = np.arange(0.0, max(trace.seconds for trace in traces) + every_s, every_s)
    states = [read(trace, moments) for trace in traces]
    for index, moment in enumerate(moments):
        yield started_unix + float(moment), exposition(states, index, started_unix)


def exposition(states: list[State], index: int, started_unix: float) -> str:
    """One scrape: the series of vLLM 0.32 that specledger reads, in the text format."""
    world = states[0].trace.world
    lines = [
        "# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.",
        "# TYPE process_start_time_seconds gauge",
        f"process_start_time_seconds {number(started_unix)}",
    ]

    def family(name: str, kind: str, samples: list[tuple[str, str, float]]) -> None:
        lines.extend((f"# HELP vllm:{name} {name}.", f"# TYPE vllm:{name} {kind}"))
        lines.extend(f"vllm:{name}{suffix}{{{labels}}} {number(value)}" for suffix, labels, value in samples)

    def labels(state: State, **more: str) -> str:
        pairs = {"engine": str(state.trace.engine), "model_name": world.model, **more}
        return ",".join(f'{key}="{value}"' for key, value in sorted(pairs.items()))

    def simple(name: str, kind: str, column: str) -> None:
        family(name, kind, [("", labels(state), getattr(state, column)[index]) for state in states])

    if world.draft_limit:
        simple("spec_decode_num_drafts_total", "counter", "rounds")
        simple("spec_decode_num_draft_tokens_total", "counter", "drafted")
        simple("spec_decode_num_accepted_tokens_total", "counter", "accepted")
        positions = [
            ("", labels(state, position=str(position)), state.accepted_at[index, position])
            for state in states
            for position in range(world.draft_limit)
        ]
        family("spec_decode_num_accepted_tokens_per_pos_total", "counter", positions)
    simple("num_requests_running", "gauge", "running")
    simple("num_requests_waiting", "gauge", "waiting")
    simple("kv_cache_usage_perc", "gauge", "kv_usage")
    simple("num_preemptions_total", "counter", "preemptions")
    simple("prompt_tokens_total", "counter", "prompt_tokens")
    simple("generation_tokens_total", "counter", "generation_tokens")
    reasons = [
        ("", labels(state, finished_reason=reason), state.finished[index] if reason == "length" else 0.0)
        for state in states
        for reason in ("stop", "length", "abort", "error", "repetition")
    ]
    family("request_success_total", "counter", reasons)
    for column, name in HISTOGRAMS.items():
        samples = []
        for state in states:
            histogram = state.histograms[column]
            for edge, count in zip(histogram.edges, histogram.counts[index], strict=True):
                samples.append(("_bucket", labels(state, le=number(edge)), float(count)))
            samples.append(("_count", labels(state), float(histogram.counts[index, -1])))
            samples.append(("_sum", labels(state), float(histogram.sums[index])))
        family(name, "histogram", samples)
    size = f'block_size="{world.block_size}",engine="0",num_gpu_blocks="{world.kv_tokens // world.block_size}"'
    family("cache_config_info", "gauge", [("", size, 1.0)])
    return "\n".join(lines) + "\n"


def log(trace: Trace, started_unix: float, stats_every_s: float = 10.0, *, details: bool = True) -> str:
    """The server log of one engine in UTC: start-up, stats and spec records, and iterations where details are on."""
    world = trace.world
    lines: list[tuple[float, str]] = []

    def say(second: float, process: str, place: str, message: str) -> None:
        moment = dt.datetime.fromtimestamp(started_unix + second, dt.UTC)
        lines.append((second, f"({process} pid=7) INFO {moment:%m-%d %H:%M:%S} [{place}] {message}"))

    spec = {"method": "draft_model", "model": "/models/draft", "num_speculative_tokens": world.draft_limit}
    if not isinstance(world.draft_length, int):
        spec["num_speculative_tokens_per_batch_size"] = [list(part) for part in world.draft_length]
    arguments = {"model": "/models/target", "served_model_name": [world.model], "max_num_seqs": world.max_num_seqs}
    if world.draft_limit:
        arguments["speculative_config"] = spec
    told = (
        f"SpeculativeConfig(method='draft_model', model='/models/draft', num_spec_tokens={world.draft_limit})"
        if world.draft_limit
        else "None"
    )
    say(0.0, "APIServer", "api_utils.py:286", f"non-default args: {arguments!r}")
    say(
        0.0,
        "EngineCore",
        "core.py:133",
        f"Initializing a V1 LLM engine (v{world.vllm_version}) with config: model='/models/target', "
        f"speculative_config={told}, dtype=torch.bfloat16, max_seq_len=4096, tensor_parallel_size=1, "
        f"pipeline_parallel_size=1, data_parallel_size=1, quantization=None, enforce_eager=True, kv_cache_dtype=auto, "
        f"served_model_name={world.model}, enable_prefix_caching=False",
    )
    say(
        0.0,
        "EngineCore",
        "kv_cache_utils.py:2327",
        f"GPU KV cache size: {world.kv_tokens:,} tokens, Maximum concurrency for 4,096 tokens per request: "
        f"{world.kv_tokens / 4096:.2f}x",
    )
    if details:
        for count, iteration in enumerate(trace.iterations):
            say(
                iteration.ended,
                "EngineCore",
                "core.py:420",
                _iteration(trace.engine, count, iteration, world.kv_tokens),
            )
    moments = np.arange(0.0, trace.seconds + stats_every_s, stats_every_s)
    state = read(trace, moments)
    for index in range(1, len(moments)):
        for message in _stats(state, index, stats_every_s):
            say(float(moments[index]), "APIServer", "loggers.py:335", message)
    return "".join(line + "\n" for _, line in sorted(lines, key=lambda entry: entry[0]))


def _iteration(engine: int, count: int, iteration: Iteration, kv_tokens: int) -> str:
    return (
        f"Engine {engine:03d}: Iteration({count}): {iteration.context_requests} context requests, "
        f"{iteration.context_tokens} context tokens, {iteration.generation_requests} generation requests, "
        f"{iteration.generation_tokens} generation tokens, iteration elapsed time: {iteration.elapsed_ms:.2f} ms, "
        f"GPU KV cache usage: {100 * iteration.used_tokens / kv_tokens:.1f}%"
    )


def _stats(state: State, index: int, seconds: float) -> Iterator[str]:
    def grown(values: np.ndarray) -> np.ndarray:
        return values[index] - values[index - 1]

    prompt, generation = grown(state.prompt_tokens), grown(state.generation_tokens)
    if prompt or generation or state.running[index]:
        yield (
            f"Engine {state.trace.engine:03d}: Avg prompt throughput: {prompt / seconds:.1f} tokens/s, "
            f"Avg generation throughput: {generation / seconds:.1f} tokens/s, "
            f"Running: {state.running[index]:.0f} reqs, Waiting: {state.waiting[index]:.0f} reqs, "
            f"GPU KV cache usage: {100 * state.kv_usage[index]:.1f}%, Prefix cache hit rate: 0.0%"
        )
    rounds, drafted, accepted = grown(state.rounds), grown(state.drafted), grown(state.accepted)
    if rounds:
        rates = ", ".join(f"{rate:.3f}" for rate in grown(state.accepted_at) / rounds)
        yield (
            f"SpecDecoding metrics: Mean acceptance length: {1 + accepted / rounds:.2f}, "
            f"Accepted throughput: {accepted / seconds:.2f} tokens/s, "
            f"Drafted throughput: {drafted / seconds:.2f} tokens/s, "
            f"Accepted: {accepted:.0f} tokens, Drafted: {drafted:.0f} tokens, Per-position acceptance rate: {rates}, "
            f"Avg Draft acceptance rate: {100 * accepted / drafted:.1f}%"
        )


def responses(trace: Trace, started_unix: float) -> str:
    """One line a finished request, as a client logs the final response around the server's own per-request metrics."""
    done = [request for request in trace.requests if not request.aborted]
    return "".join(json.dumps(_response(trace, request, started_unix)) + "\n" for request in done)


def _response(trace: Trace, request: Request, started_unix: float) -> dict[str, object]:
    times = [round(now - request.arrived, 6) for now, _ in request.returns]
    decode_ms = 1000 * (request.returns[-1][0] - request.first_token)
    metrics: dict[str, object] = {
        "time_to_first_token_ms": 1000 * (request.first_token - request.scheduled),
        "generation_time_ms": decode_ms,
        "queue_time_ms": 1000 * (request.scheduled - request.arrived),
        "mean_itl_ms": decode_ms / (request.output - 1) if request.output > 1 else 0.0,
    }
    limit = trace.world.draft_limit
    if limit:
        drafted = [(length, accepted) for length, accepted in request.steps if length]
        metrics["speculative_decoding"] = {
            "mean_acceptance_length": 1 + request.accepted / request.rounds if request.rounds else 1.0,
            "draft_acceptance_rate": request.accepted / request.drafted if request.drafted else 0.0,
            "acceptance_histogram": [sum(a == count for _, a in drafted) for count in range(limit + 1)],
            "num_spec_steps": request.rounds,
            "num_accepted_draft_tokens": request.accepted,
            "num_draft_tokens": request.drafted,
            "num_spec_tokens": limit,
            "per_step_accepted": [accepted for _, accepted in drafted],
            "per_step_drafted": [length for length, _ in drafted],
        }
    return {
        "request_id": request.id,
        "kind": "completion",
        "start_unix": started_unix + request.arrived,
        "labels": {"task": request.task},
        "request": {"model": trace.world.model, "max_tokens": request.wanted, "temperature": request.temperature},
        "status": 200,
        "end_s": times[-1],
        "ttft_s": times[0],
        "chunk_times_s": times,
        "chunk_tokens": [tokens for _, tokens in request.returns],
        "finish_reason": "length",
        "response": {
            "id": f"cmpl-{request.id}",
            "object": "text_completion",
            "model": trace.world.model,
            "choices": [],
            "usage": {
                "prompt_tokens": request.prompt,
                "completion_tokens": request.output,
                "total_tokens": request.context,
            },
            "metrics": metrics,
        },
    }
