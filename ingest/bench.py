"""Results of ``vllm bench serve``: --save-result, with or without --save-detailed and --append-result.

Start times are on a clock without a date; they are laid so that the last request ends when the result was written
(``date``, local time of the client). Tokens come from the lengths, never from counting gaps.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Mapping
from typing import Any, BinaryIO

from .client_rows import Row, frame
from .json_input import Documents
from .plausible import LONGEST_MS, LONGEST_S, refusal
from .reader import InputContext, Progress, Sink
from .values import count, duration_ms, local_time, number, numbers, pairs, text

_TOTALS = {
    "requests": "completed",
    "failed": "failed",
    "prompt_tokens": "total_input_tokens",
    "output_tokens": "total_output_tokens",
    "rounds": "spec_decode_num_drafts",
    "drafted": "spec_decode_draft_tokens",
    "accepted": "spec_decode_accepted_tokens",
}
LATEST_S = 4_102_444_800.0
"""What the clock of the start times can show at most: unix time in 2100."""
_DETAILS = ("input_lens", "output_lens", "ttfts", "itls", "latencies", "start_times", "errors")


def read(stream: BinaryIO, context: InputContext, sink: Sink) -> Progress:
    """Requests (where details were saved) and run totals of every result in the stream."""
    documents = Documents(stream, context, sink)
    for offset, result in documents:
        finished = _finished_at(result, context)
        if finished is None or count(result.get("completed")) is None:
            reason = "This is not a result of vllm bench serve: date or completed is missing."
            sink.reject(offset, reason, str(list(result)[:20]))
            continue
        if context.timezone is None:
            sink.note("vllm bench serve writes local time without a zone: UTC was assumed; give --timezone.")
        problem = _inconsistent(result)
        if problem:
            sink.reject(offset, problem, str(result.get("date")))
            continue
        sink.rows("run_totals", frame("run_totals", [_totals(result, finished, offset)]))
        requests = _requests(result, finished, offset)
        if requests:
            sink.rows("requests", frame("requests", requests))
    return documents.progress


def _finished_at(result: Mapping[str, Any], context: InputContext) -> dt.datetime | None:
    try:
        return local_time(dt.datetime.strptime(str(result.get("date")), "%Y%m%d-%H%M%S"), context.timezone)
    except ValueError:
        return None


def _inconsistent(result: Mapping[str, Any]) -> str | None:
    lengths = {
        len(result[name]) for name in ("input_lens", "output_lens", "ttfts") if isinstance(result.get(name), list)
    }
    if len(lengths) > 1:
        return "The arrays of the result differ in length: the file is damaged."
    return None if 0 <= (number(result.get("duration")) or 0) <= LONGEST_S else refusal("duration")


def _totals(result: Mapping[str, Any], finished: dt.datetime, offset: int) -> Row:
    duration = number(result.get("duration"))
    taken = {*_TOTALS.values(), "date"}
    figures = {key: number(value) for key, value in result.items() if key not in taken and not isinstance(value, str)}
    return {
        "byte_offset": offset,
        "tool": "vllm-bench",
        "started_at": finished - dt.timedelta(seconds=duration) if duration is not None else None,
        "finished_at": finished,
        **{column: count(result.get(name)) for column, name in _TOTALS.items()},
        "figures": pairs((key, value) for key, value in figures.items() if value is not None),
    }


def _requests(result: Mapping[str, Any], finished: dt.datetime, offset: int) -> list[Row]:
    lengths = result.get("output_lens")
    if not isinstance(lengths, list):
        return []
    details = {name: _column(result.get(name), len(lengths)) for name in _DETAILS}
    run = hashlib.blake2b(repr((result.get("date"), result.get("duration"), lengths[:1_000])).encode(), digest_size=6)
    rows = []
    shift = _clock_shift(details)
    for position in range(len(lengths)):
        facts = {name: values[position] for name, values in details.items()}
        rows.append(_request(facts, shift, finished) | {
            "byte_offset": offset,
            "format": "bench",
            "request_id": f"bench-{run.hexdigest()}-{position}",
            "model_name": text(result.get("model_id")),
        })  # fmt: skip
    return rows


def _request(facts: Mapping[str, Any], shift: float | None, finished: dt.datetime) -> Row:
    failed = bool(facts["errors"]) or not count(facts["output_lens"])
    first = None if failed else duration_ms(facts["ttfts"], 1e3)
    gaps = None if failed else numbers(facts["itls"], 1e3)
    whole = duration_ms(facts["latencies"], 1e3)
    if whole is None and first is not None and gaps is not None:
        whole = first + sum(gaps)
    decode = sum(gaps) if gaps else None
    if decode is None and whole is not None and first is not None and count(facts["output_lens"]) != 1:
        decode = max(whole - first, 0.0)
    start = number(facts["start_times"])
    since = None if start is None or shift is None else start - shift
    arrived = None if since is None or abs(since) > LONGEST_S else finished + dt.timedelta(seconds=since)
    lasted = min(max(whole or 0.0, 0.0), LONGEST_MS)
    ended = arrived + dt.timedelta(milliseconds=lasted) if arrived is not None else finished
    return {
        "arrived_at": arrived,
        "finished_at": ended,
        "status": "failed" if failed else "ok",
        "prompt_tokens": count(facts["input_lens"]),
        "output_tokens": count(facts["output_lens"]),
        "ttft_ms": first,
        "client_ttft_ms": first,
        "decode_ms": decode,
        "decode_from": "client" if decode is not None else None,
        "e2e_ms": None if failed else whole,
        "gaps_ms": gaps,
        "gaps_from": "client" if gaps is not None else None,
    }


def _clock_shift(details: Mapping[str, list[Any]]) -> float | None:
    """The reading of the run's own clock at the instant at which the result was written."""
    ends = []
    for start, whole, first, gaps in zip(
        details["start_times"], details["latencies"], details["ttfts"], details["itls"], strict=True
    ):
        begin, took = number(start), number(whole)
        if took is None:
            took = (number(first) or 0.0) + sum(numbers(gaps) or [])
        if begin is not None and 0 <= begin <= LATEST_S and 0 <= took <= LONGEST_S:
            ends.append(begin + took)
    return max(ends) if ends else None


def _column(values: object, length: int) -> list[Any]:
    return values if isinstance(values, list) and len(values) == length else [None] * length
