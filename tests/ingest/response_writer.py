"""Writes random requests as a gateway would log them, and says what a reader must find: an oracle in plain Python."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import random
from typing import Any

EPOCH = dt.datetime(1970, 1, 1)


def facts(choose: random.Random, number: int) -> dict[str, Any]:
    """What happened to one request."""
    start = 1_789_372_800 + choose.randrange(86_400_000_000) / 1e6
    rounds = choose.choice([None, 0, choose.randrange(1, 40)])
    length = choose.randrange(1, 8)
    histogram = [0] * (length + 1)
    for _ in range(rounds or 0):
        histogram[choose.randrange(length + 1)] += 1
    return {
        "request_id": f"req-{number}-{choose.randrange(10**9)}",
        "start": start,
        "duration_s": choose.randrange(1, 10**7) / 1e6,
        "prompt_tokens": choose.randrange(1, 10**5),
        "output_tokens": choose.randrange(1, 2_000),
        "first_ms": choose.choice([None, choose.randrange(10**6) / 1e3]),
        "queue_ms": choose.choice([None, choose.randrange(10**6) / 1e3]),
        "decode_ms": choose.choice([None, choose.randrange(10**7) / 1e3]),
        "rounds": rounds,
        "draft_limit": length,
        "histogram": histogram,
        "chunks_s": sorted(choose.randrange(10**7) / 1e6 for _ in range(choose.randrange(5))),
        "temperature": choose.choice([None, 0.0, 0.7, 1]),
        "task": choose.choice([None, "code", "chat"]),
        "finish_reason": choose.choice(["stop", "length"]),
    }


def line(choose: random.Random, fact: dict[str, Any]) -> bytes:
    """The request as one line, in a spelling chosen at random; it always says when the request began."""
    envelope: dict[str, Any] = {choose.choice(["request_id", "x_request_id", "req_id"]): fact["request_id"]}
    moment = EPOCH + dt.timedelta(microseconds=round(fact["start"] * 1e6))
    spellings = [fact["start"], moment.isoformat() + "Z", round(fact["start"] * 1e6)]
    envelope[choose.choice(["start_unix", "start_time", "timestamp"])] = choose.choice(spellings)
    if choose.random() < 0.5:
        envelope["end_s"] = fact["duration_s"]
    else:
        envelope["latency_ms"] = fact["duration_s"] * 1e3
    if fact["chunks_s"]:
        envelope["chunk_times_s"] = fact["chunks_s"]
    if fact["temperature"] is not None:
        envelope[choose.choice(["request", "sampling_params"])] = {"temperature": fact["temperature"]}
    if fact["task"]:
        envelope["labels"] = {"task": fact["task"]}
    envelope[choose.choice(["response", "body", "response_body", "result"])] = body(choose, fact)
    if choose.random() < 0.5:
        envelope["status"] = 200
    items = list(envelope.items())
    choose.shuffle(items)
    return json.dumps(dict(items), ensure_ascii=choose.random() < 0.5).encode() + choose.choice(
        [b"\n", b"\r\n", b" \n"]
    )


def body(choose: random.Random, fact: dict[str, Any]) -> dict[str, Any]:
    """What the server answered."""
    metrics: dict[str, Any] = {}
    if fact["first_ms"] is not None:
        metrics["time_to_first_token_ms"] = fact["first_ms"]
    if fact["queue_ms"] is not None:
        metrics["queue_time_ms"] = fact["queue_ms"]
    if fact["decode_ms"] is not None:
        metrics["generation_time_ms"] = fact["decode_ms"]
    if fact["rounds"] is not None:
        histogram: Any = fact["histogram"]
        if choose.random() < 0.3:
            histogram = {str(accepted): count for accepted, count in enumerate(histogram)}
        metrics["speculative_decoding"] = {
            "acceptance_histogram": histogram,
            "num_spec_steps": fact["rounds"],
            "num_draft_tokens": fact["rounds"] * fact["draft_limit"],
            "num_accepted_draft_tokens": sum(place * count for place, count in enumerate(fact["histogram"])),
            "num_spec_tokens": fact["draft_limit"],
        }
    return {
        "id": "cmpl-" + fact["request_id"],
        "object": "text_completion",
        "choices": [
            {"text": choose.choice(["…", '{"usage": {}}', "\\", "\u2028"]), "finish_reason": fact["finish_reason"]}
        ],
        "usage": {"prompt_tokens": fact["prompt_tokens"], "completion_tokens": fact["output_tokens"]},
        "metrics": metrics or None,
    }


def row(fact: dict[str, Any]) -> dict[str, Any]:
    """What a row of ``requests`` must say of the request."""
    both = fact["first_ms"] is not None and fact["queue_ms"] is not None
    server = both and fact["decode_ms"] is not None
    chunks = fact["chunks_s"]
    chunked = len(chunks) > 1
    first = chunks[0] * 1e3 if chunks else None
    client: float | None = None
    if fact["output_tokens"] > 1 and chunks:
        client = chunks[-1] * 1e3 - chunks[0] * 1e3 if chunked else fact["duration_s"] * 1e3 - chunks[0] * 1e3
        client = client if client >= 0 else None
    speculated = fact["rounds"] is not None
    moment = EPOCH + dt.timedelta(microseconds=round(fact["start"] * 1e6))
    return {
        "request_id": fact["request_id"],
        "arrived_at": moment,
        "finished_at": moment + dt.timedelta(microseconds=round(fact["duration_s"] * 1e6)),
        "status": "ok",
        "finish_reason": fact["finish_reason"],
        "prompt_tokens": fact["prompt_tokens"],
        "output_tokens": fact["output_tokens"],
        "ttft_ms": fact["first_ms"] + fact["queue_ms"] if both else None,
        "client_ttft_ms": first,
        "queue_ms": fact["queue_ms"],
        "decode_ms": client if fact["decode_ms"] is None else fact["decode_ms"],
        "decode_from": "server" if fact["decode_ms"] is not None else "client" if client is not None else None,
        "e2e_ms": fact["first_ms"] + fact["queue_ms"] + fact["decode_ms"] if server else fact["duration_s"] * 1e3,
        "rounds": fact["rounds"],
        "drafted": fact["rounds"] * fact["draft_limit"] if speculated else None,
        "accepted": sum(place * count for place, count in enumerate(fact["histogram"])) if speculated else None,
        "accepted_hist": fact["histogram"] if speculated else None,
        "gaps_ms": [(later - sooner) * 1e3 for sooner, later in itertools.pairwise(chunks)] if chunked else None,
        "temperature": fact["temperature"],
        "task": fact["task"],
    }
