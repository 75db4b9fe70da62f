"""Random runs as client tools write them down, and the rows that must be read back; nothing is shared with a reader."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

EPOCH = dt.datetime(1970, 1, 1)
NIGHT_NS = 1_789_372_800_000_000_000
Row = dict[str, Any]


@dataclass
class Written:
    """What a tool wrote, and the rows it stands for, by table."""

    content: bytes
    rows: dict[str, list[Row]] = field(default_factory=dict)
    records: int = 0


def _json(random: Random, document: object, *, line: bool = False) -> str:
    """A document in one of the ways in which tools print it."""
    separators = random.choice([(",", ":"), (", ", ": ")])
    indent = None if line else random.choice([None, 2, "\t"])
    return json.dumps(document, ensure_ascii=random.random() < 0.5, indent=indent, separators=separators)


def _shuffled(random: Random, document: dict[str, Any]) -> dict[str, Any]:
    items = list(document.items())
    random.shuffle(items)
    return dict(items)


def _lines(random: Random, documents: list[dict[str, Any]]) -> bytes:
    end = random.choice(["\n", "\n", "\r\n"])
    text = "".join(_json(random, document, line=True) + end for document in documents)
    if random.random() < 0.2:
        text = text.removesuffix(end)
    return random.choice([b"", b"", b"\xef\xbb\xbf"] if len(documents) == 1 else [b""]) + text.encode()


def _word(random: Random) -> str:
    return "".join(random.choice('ab0-_/.é\\"{}[]: 你') for _ in range(random.randint(1, 12)))


def _ms(random: Random, most: float = 1e5) -> float:
    return random.choice([0.0, random.random() * most, float(random.randint(1, 5_000))])


def _us(nanoseconds: int) -> dt.datetime:
    return EPOCH + dt.timedelta(microseconds=nanoseconds // 1_000)


def _speculation(random: Random) -> tuple[dict[str, Any] | None, Row]:
    """vLLM's ``speculative_decoding`` object, and the columns it fills."""
    if random.random() < 0.2:
        return None, {}
    limit, rounds = random.randint(1, 8), random.choice([0, random.randint(1, 300)])
    histogram = [0] * (limit + 1)
    for _ in range(rounds):
        histogram[random.randint(0, limit)] += 1
    accepted, drafted = sum(count * number for number, count in enumerate(histogram)), rounds * limit
    said: dict[str, Any] = {
        "num_spec_steps": rounds,
        "num_draft_tokens": drafted,
        "num_accepted_draft_tokens": accepted,
        "num_spec_tokens": limit,
        "acceptance_histogram": histogram,
        "mean_acceptance_length": 1 + accepted / rounds if rounds else 1.0,
        "draft_acceptance_rate": accepted / drafted if drafted else 0.0,
    }
    if random.random() < 0.3:
        said["acceptance_histogram"] = {str(number): count for number, count in enumerate(histogram)}
    if not rounds:
        return said, {}
    row = {"rounds": rounds, "drafted": drafted, "accepted": accepted, "draft_limit": limit, "accepted_hist": histogram}
    return said, row


def bench(random: Random) -> Written:
    """``vllm bench serve``: one result, or appended ones."""
    results, totals, requests = [], [], []
    appended = random.random() < 0.4
    for _ in range(random.randint(2, 4) if appended else 1):
        result, total, rows = _bench_result(random)
        results.append(result)
        totals.append(total)
        requests += rows
    content = _lines(random, results) if appended else _json(random, results[0]).encode()
    return Written(content, {"run_totals": totals, "requests": requests}, len(totals) + len(requests))


def _bench_result(random: Random) -> tuple[dict[str, Any], Row, list[Row]]:
    date = dt.datetime(2026, random.randint(1, 12), random.randint(1, 28), random.randint(0, 23), random.randint(0, 59))
    count = random.randint(0, 60)
    lengths = [random.randint(1, 4_000) for _ in range(count)]
    prompts = [random.randint(1, 30_000) for _ in range(count)]
    rounds = random.choice([None, random.randint(1, 10**6)])
    result: dict[str, Any] = {
        "date": f"{date:%Y%m%d-%H%M%S}",
        "backend": "openai",
        "label": None,
        "model_id": _word(random),
        "duration": random.random() * 100,
        "completed": count,
        "failed": 0,
        "total_input_tokens": sum(prompts),
        "total_output_tokens": sum(lengths),
        "request_rate": "inf",
        "mean_tpot_ms": random.random() * 50,
    }
    total = {
        "tool": "vllm-bench",
        "finished_at": date,
        "requests": count,
        "prompt_tokens": sum(prompts),
        "output_tokens": sum(lengths),
        "rounds": rounds,
    }
    if rounds is not None:
        result |= {"spec_decode_num_drafts": rounds, "spec_decode_draft_tokens": 3 * rounds}
        result["spec_decode_accepted_tokens"] = random.randint(0, 3 * rounds)
        total |= {"drafted": 3 * rounds, "accepted": result["spec_decode_accepted_tokens"]}
    if random.random() < 0.3:
        return _shuffled(random, result), total, []
    first = [random.random() * 3 for _ in range(count)]
    gaps = [[random.random() for _ in range(random.randint(0, 6))] if length > 1 else [] for length in lengths]
    result |= {
        "input_lens": prompts,
        "output_lens": lengths,
        "ttfts": first,
        "itls": gaps,
        "generated_texts": [_word(random) for _ in range(count)],
        "errors": [""] * count,
    }
    if random.random() < 0.7:
        result["start_times"] = [random.random() * 1e6 for _ in range(count)]
    rows = [
        {
            "status": "ok",
            "prompt_tokens": prompt,
            "output_tokens": length,
            "ttft_ms": ttft * 1e3,
            "gaps_ms": [gap * 1e3 for gap in itl],
        }
        for prompt, length, ttft, itl in zip(prompts, lengths, first, gaps, strict=True)
    ]
    return _shuffled(random, result), total, rows


def aiperf(random: Random) -> Written:
    """AIPerf's ``profile_export.jsonl``."""
    documents, rows = [], []
    for number in range(random.randint(1, 40)):
        start = NIGHT_NS + random.randrange(86_400 * 10**9)
        end = start + random.randrange(10**11)
        row: Row = {
            "request_id": f"{number}-{_word(random)}",
            "arrived_at": _us(start),
            "finished_at": _us(end),
            "status": random.choice(["ok", "ok", "ok", "failed", "aborted"]),
        }
        figures: dict[str, Any] = {"http_req_duration": _ms(random)}
        for column, names in (
            ("prompt_tokens", ("usage_prompt_tokens", "input_sequence_length")),
            ("output_tokens", ("usage_completion_tokens", "output_sequence_length")),
        ):
            chosen = random.choice([names, names[:1], names[1:], ()])
            counts = [random.randint(0, 10**6) for _ in chosen]
            figures |= dict(zip(chosen, counts, strict=True))
            row[column] = counts[0] if counts else None
        for column, name in (("ttft_ms", "time_to_first_token"), ("e2e_ms", "request_latency")):
            row[column] = random.choice([None, _ms(random)])
            if row[column] is not None:
                figures[name] = row[column]
        row["gaps_ms"] = random.choice([None, [_ms(random, 500) for _ in range(random.randint(1, 9))]])
        if row["gaps_ms"] is not None:
            figures["inter_chunk_latency"] = row["gaps_ms"]
        document: dict[str, Any] = {
            "metadata": {
                "session_num": number,
                "x_request_id": row["request_id"],
                "request_start_ns": start,
                "request_end_ns": end,
                "benchmark_phase": random.choice(["profiling", "warmup"]),
                "was_cancelled": row["status"] == "aborted",
            },
            "metrics": {name: {"value": value, "unit": "x"} for name, value in _shuffled(random, figures).items()},
            "error": {"code": 500, "message": _word(random)} if row["status"] == "failed" else None,
        }
        said, spec = _speculation(random)
        if said is not None and random.random() < 0.7:
            document["spec_decode_acceptance"] = said
        elif said is not None:
            figures = {
                "spec_decode_steps": said["num_spec_steps"],
                "spec_decode_draft_tokens": said["num_draft_tokens"],
                "spec_decode_accepted_draft_tokens": said["num_accepted_draft_tokens"],
            }
            document["metrics"] |= {name: {"value": float(value), "unit": "x"} for name, value in figures.items()}
            spec = {name: value for name, value in spec.items() if name in ("rounds", "drafted", "accepted")}
        rows.append(row | {"rounds": None, "drafted": None, "accepted": None} | spec)
        documents.append(_shuffled(random, document))
    return Written(_lines(random, documents), {"requests": rows}, len(rows))


def guidellm(random: Random) -> Written:
    """GuideLLM's report."""
    benchmarks, requests, totals = [], [], []
    for _ in range(random.randint(1, 3)):
        outcomes: dict[str, list[Any]] = {"successful": [], "errored": [], "incomplete": []}
        for outcome, status in (("successful", "ok"), ("errored", "failed"), ("incomplete", "aborted")):
            for _ in range(random.randint(0, 12)):
                request, row = _guidellm_request(random, status)
                outcomes[outcome].append(request)
                requests.append(row)
        start = NIGHT_NS / 1e9 + random.randrange(86_400)
        output = random.randint(0, 10**7)
        benchmarks.append(
            {
                "type_": "generative_benchmark",
                "start_time": start,
                "end_time": start + 30.5,
                "duration": 30.5,
                "metrics": {
                    "request_totals": {name: len(found) for name, found in outcomes.items()},
                    "output_token_count": {"successful": {"mean": 1.5, "total_sum": float(output)}},
                },
                "requests": outcomes,
            }
        )
        totals.append(
            {
                "tool": "guidellm",
                "requests": len(outcomes["successful"]),
                "failed": len(outcomes["errored"]),
                "output_tokens": output,
            }
        )
    document = {"metadata": {"guidellm_version": "0.8.1"}, "args": {"x": _word(random)}, "benchmarks": benchmarks}
    content = _json(random, _shuffled(random, document)).encode()
    return Written(content, {"requests": requests, "run_totals": totals}, len(requests) + len(totals))


def _guidellm_request(random: Random, status: str) -> tuple[dict[str, Any], Row]:
    start = NIGHT_NS // 1_000 + random.randrange(86_400 * 10**6)
    latency = random.choice([None, random.randrange(10**8)])
    row: Row = {
        "request_id": f"chatcmpl-{random.getrandbits(64):016x}",
        "arrived_at": EPOCH + dt.timedelta(microseconds=start),
        "finished_at": EPOCH + dt.timedelta(microseconds=start + (latency or 0)),
        "status": status,
        "prompt_tokens": random.choice([None, random.randint(0, 10**5)]),
        "cached_tokens": random.choice([None, random.randint(0, 10**5)]),
        "output_tokens": random.choice([None, random.randint(0, 10**5)]),
        "client_ttft_ms": random.choice([None, _ms(random)]),
    }
    request: dict[str, Any] = {
        "request_id": f"{random.getrandbits(128):x}",
        "response_id": row["request_id"],
        "request_args": _word(random),
        "output": _word(random),
        "request_start_time": start / 1e6,
        "request_end_time": (start + (latency or 0)) / 1e6,
        "request_latency": None if latency is None else latency / 1e6,
        "time_to_first_token_ms": row["client_ttft_ms"],
        **{name: row[name] for name in ("prompt_tokens", "cached_tokens", "output_tokens")},
    }
    if random.random() < 0.6:
        said, spec = _speculation(random)
        queue, first, decode = random.choice([None, _ms(random)]), _ms(random), _ms(random) + 1
        request["response_metrics"] = {
            "time_to_first_token_ms": first,
            "queue_time_ms": queue,
            "generation_time_ms": decode,
            "speculative_decoding": said,
        }
        row |= {"prefill_ms": first, "decode_ms": decode, "decode_from": "server", "queue_ms": queue} | spec
        row["ttft_ms"] = first + queue if queue is not None else row["client_ttft_ms"]
    return _shuffled(random, request), row


def otlp(random: Random, *, binary: bool = False) -> Written:
    """OTLP export requests, as JSON lines or as protobuf messages behind their length."""
    documents, rows = [], []
    for _ in range(random.randint(1, 5)):
        spans = []
        for _ in range(random.randint(0, 12)):
            span, row = _span(random, binary=binary)
            spans.append(span)
            if row is not None:
                rows.append(row)
        scopes = [{"scope": {"name": "vllm"}, "spans": spans[:3]}, {"spans": spans[3:]}]
        documents.append({"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": scopes}]})
    content = b"".join(map(_message, documents)) if binary else _lines(random, documents)
    return Written(content, {"requests": rows}, len(rows))


def otlp_protobuf(random: Random) -> Written:
    """OTLP as protobuf."""
    return otlp(random, binary=True)


def _message(document: dict[str, Any]) -> bytes:
    from google.protobuf.json_format import ParseDict
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    message = ParseDict(document, ExportTraceServiceRequest()).SerializeToString()
    return len(message).to_bytes(4, "big") + message


def _span(random: Random, *, binary: bool) -> tuple[dict[str, Any], Row | None]:
    start = NIGHT_NS + random.randrange(86_400 * 10**9)
    end = start + random.randrange(10**11)
    temperature = random.choice([None, 0.7, 1.5])
    row: Row = {
        "request_id": f"cmpl-{random.getrandbits(64):016x}-0",
        "arrived_at": _us(start),
        "finished_at": _us(end),
        "status": random.choice(["ok", "ok", "failed"]),
        "temperature": 0.0 if temperature is None else temperature,
        "top_p": random.choice([1.0, 0.9]),
    }
    facts: dict[str, Any] = {"gen_ai.request.id": row["request_id"], "gen_ai.request.top_p": row["top_p"]}
    if temperature is not None:
        facts["gen_ai.request.temperature"] = temperature
    for column, name in (
        ("ttft_ms", "latency.time_to_first_token"),
        ("queue_ms", "latency.time_in_queue"),
        ("prefill_ms", "latency.time_in_model_prefill"),
        ("decode_ms", "latency.time_in_model_decode"),
        ("e2e_ms", "latency.e2e"),
    ):
        seconds = random.choice([None, random.random() * 10])
        row[column] = None if seconds is None else seconds * 1e3
        if seconds is not None:
            facts[f"gen_ai.{name}"] = seconds
    for column, name in (("prompt_tokens", "usage.prompt_tokens"), ("output_tokens", "usage.completion_tokens")):
        row[column] = random.choice([None, random.randint(0, 2**40)])
        if row[column] is not None:
            facts[f"gen_ai.{name}"] = row[column]
    name = random.choice(["llm_request"] * 4 + ["Load model"])
    span = {
        "traceId": "ab" * 16,
        "spanId": f"{random.getrandbits(64):016x}",
        "name": name,
        "kind": 2,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(end),
        "attributes": [
            {"key": key, "value": _typed(random, value, binary)} for key, value in _shuffled(random, facts).items()
        ],
        "status": {"code": "STATUS_CODE_ERROR" if random.random() < 0.5 else 2} if row["status"] == "failed" else {},
    }
    return span, row if name == "llm_request" else None


def _typed(random: Random, value: object, binary: bool) -> dict[str, Any]:
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, float):
        return {"doubleValue": value}
    return {"intValue": str(value) if binary or random.random() < 0.7 else value}


def harness(random: Random) -> Written:
    """A result of lm-evaluation-harness."""
    rows, results, samples, better = [], {}, {}, {}
    moment = NIGHT_NS // 10**9 + random.randrange(86_400) + random.choice([0.0, 0.25])
    for number in range(random.randint(1, 6)):
        task, count = f"{number}{_word(random)}", random.choice([None, random.randint(1, 10**5)])
        figures: dict[str, Any] = {"alias": task} if random.random() < 0.8 else {}
        for metric in random.sample(["acc", "acc_norm", "exact_match", "f1", "word_perplexity"], random.randint(1, 4)):
            chosen = random.choice(["none", "strict-match"])
            error = random.choice([None, random.random()])
            row = {
                "task": task,
                "metric": f"{metric},{chosen}",
                "value": random.choice([0, 1, random.random(), random.random() * 1e4]),
                "stderr": error,
                "n": count,
                "higher_is_better": random.choice([None, True, False]),
                "evaluated_at": EPOCH + dt.timedelta(seconds=moment),
            }
            figures |= {row["metric"]: row["value"]}
            figures[f"{metric}_stderr,{chosen}"] = "N/A" if error is None else error
            if row["higher_is_better"] is not None:
                better.setdefault(task, {})[metric] = row["higher_is_better"]
            rows.append(row)
        results[task] = figures
        if count is not None:
            samples[task] = {"original": count + 7, "effective": count}
    document = {
        "results": results,
        "n-samples": samples,
        "higher_is_better": better,
        "date": moment,
        "config": {"model": "local-completions", "model_args": _word(random)},
    }
    return Written(_json(random, _shuffled(random, document)).encode(), {"quality": rows}, len(rows))


def figures_csv(random: Random) -> Written:
    """Figures as CSV, columns in any order."""
    rows = []
    names = ["deployment", "task", "metric", "value", "stderr", "n"]
    random.shuffle(names)
    text = io.StringIO()
    writer = csv.writer(text, quoting=random.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]), lineterminator="\r\n")
    writer.writerow([random.choice([name, name.upper()]) for name in names])
    for number in range(random.randint(1, 40)):
        row = {
            "deployment": f"d{random.randint(0, 3)}",
            "task": f'{number},"x" {_word(random).strip()}'.strip(),
            "metric": random.choice(["acc", "f1,none"]),
            "value": random.choice([0.0, -random.random(), random.random() * 10 ** random.randint(-300, 300)]),
            "stderr": random.choice([None, random.random()]),
            "n": random.choice([None, random.randint(0, 10**6)]),
        }
        writer.writerow(["" if row[name] is None else _shown(row[name]) for name in names])
        rows.append(row)
    return Written(random.choice([b"", b"\xef\xbb\xbf"]) + text.getvalue().encode(), {"quality": rows}, len(rows))


def _shown(value: object) -> str:
    return repr(value) if isinstance(value, float) else str(value)


WRITERS: dict[str, tuple[str, Callable[[Random], Written]]] = {
    "bench": ("bench", bench),
    "aiperf": ("aiperf", aiperf),
    "guidellm": ("guidellm", guidellm),
    "otlp": ("otlp", otlp),
    "otlp protobuf": ("otlp", otlp_protobuf),
    "lm-eval": ("quality", harness),
    "csv": ("quality", figures_csv),
}
"""The format and the writer of each kind of export."""


def same(found: object, expected: object, digits: float = 1e-12) -> bool:
    """Equality, of floats as far as a multiplication may round them, and in lists (FLOAT columns) their precision."""
    if isinstance(expected, float) and isinstance(found, int | float):
        return math.isclose(found, expected, rel_tol=digits, abs_tol=1e-12)
    if isinstance(expected, list) and isinstance(found, list):
        return len(found) == len(expected) and all(same(*pair, 1e-7) for pair in zip(found, expected, strict=True))
    return found == expected
