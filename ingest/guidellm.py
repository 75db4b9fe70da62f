"""The JSON report of GuideLLM; its requests carry vLLM's own ``metrics`` object as ``response_metrics``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, BinaryIO

from .client_rows import Row, frame, server_metrics
from .json_input import Documents
from .reader import InputContext, Progress, Sink
from .values import count, duration_ms, instant, number, pairs, text

_OUTCOMES = {"successful": "ok", "errored": "failed", "incomplete": "aborted"}


def read(stream: BinaryIO, context: InputContext, sink: Sink) -> Progress:
    """Requests and run totals of every benchmark of the report."""
    documents = Documents(stream, context, sink)
    for offset, report in documents:
        benchmarks = report.get("benchmarks")
        if not isinstance(benchmarks, list) or not benchmarks:
            sink.reject(offset, "The report has no benchmarks: it is not a finished GuideLLM run.", "")
            continue
        for benchmark in benchmarks:
            _benchmark(benchmark, offset, sink)
    return documents.progress


def _benchmark(benchmark: object, offset: int, sink: Sink) -> None:
    if not isinstance(benchmark, Mapping) or instant(benchmark.get("end_time")) is None:
        sink.reject(offset, "The benchmark has no end_time: it cannot be dated.", "")
        return
    outcomes = benchmark.get("requests")
    rows: list[Row] = []
    for outcome, status in _OUTCOMES.items():
        requests = outcomes.get(outcome) if isinstance(outcomes, Mapping) else None
        for request in requests if isinstance(requests, list) else []:
            row = _request(request, status, offset)
            if row is None:
                sink.reject(offset, "The request has no id or no times: it cannot be placed.", "")
            else:
                rows.append(row)
    if rows:
        sink.rows("requests", frame("requests", rows))
    sink.rows("run_totals", frame("run_totals", [_totals(benchmark, offset)]))


def _request(request: object, status: str, offset: int) -> Row | None:
    if not isinstance(request, Mapping):
        return None
    name = text(request.get("response_id")) or text(request.get("request_id"))
    finished = instant(request.get("request_end_time"))
    if name is None or finished is None:
        return None
    first = duration_ms(request.get("time_to_first_token_ms"))
    whole = duration_ms(request.get("request_latency"), 1e3)
    server = server_metrics(request.get("response_metrics"))
    row: Row = {
        "byte_offset": offset,
        "format": "guidellm",
        "request_id": name,
        "arrived_at": instant(request.get("request_start_time")),
        "finished_at": finished,
        "status": status,
        "prompt_tokens": count(request.get("prompt_tokens")),
        "cached_tokens": count(request.get("cached_tokens")),
        "output_tokens": count(request.get("output_tokens")),
        "ttft_ms": first,
        "client_ttft_ms": first,
        "e2e_ms": whole,
        "decode_ms": max(whole - first, 0.0) if whole is not None and first is not None and status == "ok" else None,
    }
    row["decode_from"] = "client" if row["decode_ms"] is not None else None
    return row | {column: value for column, value in server.items() if value is not None}


def _totals(benchmark: Mapping[str, Any], offset: int) -> Row:
    metrics = benchmark.get("metrics")
    metrics = metrics if isinstance(metrics, Mapping) else {}
    totals = metrics.get("request_totals")
    totals = totals if isinstance(totals, Mapping) else {}
    figures = {name: _mean(entry) for name, entry in metrics.items()}
    figures["duration"] = number(benchmark.get("duration"))
    return {
        "byte_offset": offset,
        "tool": "guidellm",
        "started_at": instant(benchmark.get("start_time")),
        "finished_at": instant(benchmark.get("end_time")),
        "requests": count(totals.get("successful")),
        "failed": count(totals.get("errored")),
        "prompt_tokens": _sum(metrics.get("prompt_token_count")),
        "output_tokens": _sum(metrics.get("output_token_count")),
        "figures": pairs((name, value) for name, value in figures.items() if value is not None),
    }


def _successful(entry: object) -> Mapping[str, Any]:
    found = entry.get("successful") if isinstance(entry, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _mean(entry: object) -> float | None:
    return number(_successful(entry).get("mean"))


def _sum(entry: object) -> int | None:
    return count(_successful(entry).get("total_sum"))
