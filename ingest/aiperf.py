"""Exports of AIPerf: ``profile_export.jsonl`` (a record a request) and ``profile_export_aiperf.json`` (the run)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, BinaryIO

from .client_rows import Row, frame, speculation
from .json_input import Documents
from .reader import InputContext, Progress, Sink
from .values import count, duration_ms, instant_ns, local_time, number, numbers, pairs, text

RAW_EXPORT = "This is AIPerf's raw export, which holds prompts: give profile_export.jsonl instead."
SERVER_METRICS = (
    "This is AIPerf's export of server metrics, which is no run's summary: collect /metrics itself instead."
)
_BATCH = 10_000
"""Records turned into one frame."""


def read(stream: BinaryIO, context: InputContext, sink: Sink) -> Progress:
    """Requests of a record file, run totals of a summary."""
    documents, rows = Documents(stream, context, sink), []
    for offset, document in documents:
        if "metadata" in document and "metrics" in document:
            row = _request(document, offset)
            if row is None:
                sink.reject(offset, "The record has no request id or no times: it cannot be placed.", "")
            else:
                rows.append(row)
        elif "aiperf_version" in document and "metrics_phase" in document:
            sink.reject(offset, SERVER_METRICS, "")
        elif "aiperf_version" in document:
            _summary(document, offset, context, sink)
        elif "responses" in document and "metadata" in document:
            sink.reject(offset, RAW_EXPORT, "")
            documents.skip()
        else:
            sink.reject(offset, "This is neither a record nor a summary of AIPerf.", str(list(document)[:20]))
        if len(rows) >= _BATCH:
            sink.rows("requests", frame("requests", rows))
            rows = []
    if rows:
        sink.rows("requests", frame("requests", rows))
    return documents.progress


def _request(record: Mapping[str, Any], offset: int) -> Row | None:
    metadata, metrics = record["metadata"], record["metrics"]
    if not isinstance(metadata, Mapping) or not isinstance(metrics, Mapping):
        return None
    arrived, finished = instant_ns(metadata.get("request_start_ns")), instant_ns(metadata.get("request_end_ns"))
    name = text(metadata.get("x_request_id"))
    if name is None or finished is None:
        return None
    value = {key: entry.get("value") for key, entry in metrics.items() if isinstance(entry, Mapping)}
    first, whole = duration_ms(value.get("time_to_first_token")), duration_ms(value.get("request_latency"))
    gaps = numbers(value.get("inter_chunk_latency"))
    decode = sum(gaps) if gaps else None
    if decode is None and first is not None and whole is not None:
        decode = max(whole - first, 0.0)
    failed, cancelled = bool(record.get("error")), metadata.get("was_cancelled") is True
    phase = text(metadata.get("benchmark_phase"))
    return {
        "byte_offset": offset,
        "format": "aiperf",
        "request_id": name,
        "arrived_at": arrived,
        "finished_at": finished,
        "status": "aborted" if cancelled else "failed" if failed else "ok",
        "prompt_tokens": count(_first(value, "usage_prompt_tokens", "input_sequence_length")),
        "cached_tokens": count(value.get("usage_prompt_cache_read_tokens")),
        "output_tokens": count(_first(value, "usage_completion_tokens", "output_sequence_length")),
        "ttft_ms": first,
        "client_ttft_ms": first,
        "decode_ms": decode,
        "decode_from": "client" if decode is not None else None,
        "e2e_ms": whole,
        "gaps_ms": gaps,
        "gaps_from": "client" if gaps is not None else None,
        "tags": pairs([("phase", phase)]) if phase else None,
    } | _speculation(record.get("spec_decode_acceptance"), value)


def _speculation(facts: object, value: Mapping[str, Any]) -> Row:
    found = speculation(facts)
    if not found and count(value.get("spec_decode_steps")):
        found = {
            "rounds": count(value.get("spec_decode_steps")),
            "drafted": count(value.get("spec_decode_draft_tokens")),
            "accepted": count(value.get("spec_decode_accepted_draft_tokens")),
        }
    return found


def _first(value: Mapping[str, Any], *names: str) -> object:
    return next((value[name] for name in names if value.get(name) is not None), None)


def _summary(document: Mapping[str, Any], offset: int, context: InputContext, sink: Sink) -> None:
    finished = _local(document.get("end_time"), context)
    if finished is None:
        sink.reject(offset, "The summary has no end_time: it cannot be dated.", "")
        return
    if context.timezone is None:
        sink.note("AIPerf's summary has local time without a zone: UTC was assumed; give --timezone.")
    figures = {
        f"{name}.{part}": found
        for name, entry in document.items()
        if isinstance(entry, Mapping) and "unit" in entry
        for part, value in entry.items()
        if not isinstance(value, str) and (found := number(value)) is not None
    }
    row = {
        "byte_offset": offset,
        "tool": "aiperf",
        "started_at": _local(document.get("start_time"), context),
        "finished_at": finished,
        "requests": count(figures.get("request_count.avg")),
        "failed": count(figures.get("error_request_count.avg", 0)),
        "prompt_tokens": count(_first(figures, "usage_prompt_tokens.sum", "input_sequence_length.sum")),
        "output_tokens": count(_first(figures, "usage_completion_tokens.sum", "output_sequence_length.sum")),
        "rounds": count(figures.get("spec_decode_steps.sum")),
        "drafted": count(figures.get("spec_decode_draft_tokens.sum")),
        "accepted": count(figures.get("spec_decode_accepted_draft_tokens.sum")),
        "figures": pairs(figures.items()),
    }
    sink.rows("run_totals", frame("run_totals", [row]))


def _local(moment: object, context: InputContext) -> dt.datetime | None:
    try:
        return local_time(dt.datetime.fromisoformat(str(moment)), context.timezone)
    except ValueError:
        return None
