"""What the counters, gauges and histograms of an engine read at given moments."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from .engine import Trace

INF = float("inf")
STEP_EDGES = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, INF)
TTFT_EDGES = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
    INF,
)  # fmt: skip
SPAN_EDGES = (
    0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680, INF,
)  # fmt: skip
TOKEN_EDGES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, INF)
ITERATION_EDGES = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, INF)
PREEMPTION_EDGES = (1, 2, 3, 4, 5, 10, 20, INF)


@dataclass(frozen=True)
class Histogram:
    """Cumulative counts (moments × edges) and sums (one a moment)."""

    edges: tuple[float, ...]
    counts: np.ndarray
    sums: np.ndarray


@dataclass(frozen=True)
class State:
    """One value a moment; ``accepted_at`` is moments × positions."""

    trace: Trace
    moments: np.ndarray
    running: np.ndarray
    waiting: np.ndarray
    kv_usage: np.ndarray
    rounds: np.ndarray
    drafted: np.ndarray
    accepted: np.ndarray
    accepted_at: np.ndarray
    prompt_tokens: np.ndarray
    generation_tokens: np.ndarray
    preemptions: np.ndarray
    finished: np.ndarray
    """Requests that ended by their length; aborted ones are in no finished series, as in vLLM."""
    histograms: dict[str, Histogram]
    """By column name of the raw table ``snapshots``."""


def read(trace: Trace, moments: np.ndarray) -> State:
    """The state at moments in seconds since the start, rising."""
    requests, iterations = trace.requests, trace.iterations
    steps = [
        (now, before, drafted, accepted)
        for request in requests
        for ((before, _), (now, _)), (drafted, accepted) in zip(
            itertools.pairwise(request.returns), request.steps, strict=True
        )
    ]
    step_at, step_before, drafted, accepted = np.array(steps, float).reshape(-1, 4).T
    returns = np.array([(now, tokens) for request in requests for now, tokens in request.returns])
    firsts = np.array([(request.first_token, request.prompt) for request in requests])
    done = [request for request in requests if not request.aborted]
    ends = np.array([request.finished for request in done])
    ended = np.array([iteration.ended for iteration in iterations])
    latest = np.searchsorted(ended, moments, "right") - 1

    def gauge(values: list[float]) -> np.ndarray:
        return np.where(latest >= 0, np.array(values)[latest], 0.0)

    def total(at: np.ndarray, values: np.ndarray) -> np.ndarray:
        order = np.argsort(at, kind="stable")
        sums = np.concatenate([[0.0], np.cumsum(values[order])])
        return sums[np.searchsorted(at[order], moments, "right")]

    def histogram(at: np.ndarray, values: list[float] | np.ndarray, edges: tuple[float, ...]) -> Histogram:
        measured = np.asarray(values, float)
        grid = np.zeros((len(moments) + 1, len(edges)), np.int64)
        np.add.at(grid, (np.searchsorted(moments, at, "left"), np.searchsorted(edges, measured, "left")), 1)
        return Histogram(edges, grid.cumsum(axis=0).cumsum(axis=1)[:-1], total(at, measured))

    limit = trace.world.draft_limit
    by_position = [total(step_at, (accepted >= position).astype(float)) for position in range(1, limit + 1)]
    decode = [request.finished - request.first_token for request in done if request.finished is not None]
    produced = np.zeros(len(ended))
    np.add.at(produced, np.searchsorted(ended, returns[:, 0]), returns[:, 1])
    computed = np.array([iteration.context_tokens for iteration in iterations]) + produced
    return State(
        trace=trace,
        moments=moments,
        running=gauge([iteration.running for iteration in iterations]),
        waiting=gauge([iteration.waiting for iteration in iterations]),
        kv_usage=gauge([iteration.used_tokens / trace.world.kv_tokens for iteration in iterations]),
        rounds=total(step_at, (drafted > 0).astype(float)),
        drafted=total(step_at, drafted),
        accepted=total(step_at, accepted),
        accepted_at=np.stack(by_position, axis=1) if by_position else np.zeros((len(moments), 0)),
        prompt_tokens=total(firsts[:, 0], firsts[:, 1]),
        generation_tokens=total(returns[:, 0], returns[:, 1]),
        preemptions=total(ended, np.array([float(iteration.preempted) for iteration in iterations])),
        finished=total(ends, np.ones(len(ends))),
        histograms={
            "ttft": histogram(firsts[:, 0], [r.first_token - r.arrived for r in requests], TTFT_EDGES),
            "itl": histogram(step_at, step_at - step_before, STEP_EDGES),
            "request_tpot": histogram(
                ends, [t / max(r.output - 1, 1) for r, t in zip(done, decode, strict=True)], STEP_EDGES
            ),
            "e2e": histogram(ends, [end - r.arrived for r, end in zip(done, ends, strict=True)], SPAN_EDGES),
            "queue": histogram(ends, [r.scheduled - r.arrived for r in done], SPAN_EDGES),
            "prefill": histogram(ends, [r.first_token - r.scheduled for r in done], SPAN_EDGES),
            "decode": histogram(ends, decode, SPAN_EDGES),
            "inference": histogram(ends, [end - r.scheduled for r, end in zip(done, ends, strict=True)], SPAN_EDGES),
            "prompt_len": histogram(ends, [r.prompt for r in done], TOKEN_EDGES),
            "output_len": histogram(ends, [r.output for r in done], TOKEN_EDGES),
            "iteration_tokens": histogram(ended, computed, ITERATION_EDGES),
            "request_preemptions": histogram(ends, [r.preemptions for r in done], PREEMPTION_EDGES),
        },
    )
