"""Figures that no server can have become rejects of their record, in every format, and nothing behind sees them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import CommandLine

START = 1_789_372_800
Change = tuple[str, Any]


def response(number: int) -> dict[str, Any]:
    return {
        "request_id": f"r{number}",
        "start_unix": START + number,
        "end_s": 1.5,
        "ttft_s": 0.2,
        "chunk_times_s": [0.2, 0.7, 1.5],
        "response": {
            "id": f"cmpl-{number}",
            "usage": {"prompt_tokens": 10, "completion_tokens": 20},
            "metrics": {
                "time_to_first_token_ms": 150.0,
                "queue_time_ms": 20.0,
                "generation_time_ms": 1300.0,
                "mean_itl_ms": 1300.0 / 19,
                "speculative_decoding": {
                    "num_spec_steps": 8,
                    "num_draft_tokens": 24,
                    "num_accepted_draft_tokens": 12,
                    "num_spec_tokens": 3,
                    "acceptance_histogram": [1, 3, 3, 1],
                },
            },
        },
    }


METRICS = "response.metrics."
SPECULATION = METRICS + "speculative_decoding."
RESPONSES: list[Change] = [
    ("end_s", 1e30),
    ("end_s", -1.0),
    ("end_s", 1e10),
    ("ttft_s", 1e30),
    ("chunk_times_s", [0.2, 0.7, 1e19]),
    ("chunk_times_s", [0.2, 0.7, -1e19]),
    *((METRICS + name, value) for name in ("time_to_first_token_ms", "generation_time_ms") for value in (1e30, -5.0)),
    (METRICS + "queue_time_ms", 1e12),
    (METRICS + "mean_itl_ms", 1e30),
    ("response.usage.completion_tokens", 10**15),
    ("response.usage.prompt_tokens", 2**62),
    (SPECULATION + "num_spec_steps", 2**62),
    (SPECULATION + "acceptance_histogram", [1, 3, 10**18]),
]


def aiperf(number: int) -> dict[str, Any]:
    metrics = {"time_to_first_token": 200.0, "request_latency": 1500.0, "output_sequence_length": 20}
    return {
        "metadata": {
            "x_request_id": f"a{number}",
            "request_start_ns": (START + number) * 10**9,
            "request_end_ns": (START + number + 1) * 10**9,
        },
        "metrics": {name: {"value": value} for name, value in metrics.items()},
    }


AIPERF: list[Change] = [
    ("metrics.request_latency.value", 1e30),
    ("metrics.time_to_first_token.value", -1.0),
    ("metrics.output_sequence_length.value", 10**15),
    ("metrics.output_sequence_length.value", -1),
]


def otlp(number: int) -> dict[str, Any]:
    facts = {
        "gen_ai.request.id": {"stringValue": f"o{number}"},
        "gen_ai.latency.e2e": {"doubleValue": 1.5},
        "gen_ai.usage.completion_tokens": {"intValue": "20"},
    }
    span = {
        "name": "llm_request",
        "startTimeUnixNano": str((START + number) * 10**9),
        "endTimeUnixNano": str((START + number + 1) * 10**9),
        "attributes": [{"key": key, "value": value} for key, value in facts.items()],
    }
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


SPAN = "resourceSpans.0.scopeSpans.0.spans.0.attributes."
OTLP: list[Change] = [
    (SPAN + "1.value.doubleValue", 1e300),
    (SPAN + "1.value.doubleValue", -1.0),
    (SPAN + "2.value.intValue", str(2**62)),
]


def changed(document: dict[str, Any], change: Change) -> dict[str, Any]:
    """The document with another value at a dotted place."""
    *path, last = change[0].split(".")
    document = copy.deepcopy(document)
    found: Any = document
    for key in path:
        found = found[int(key)] if isinstance(found, list) else found[key]
    found[last] = change[1]
    return document


@pytest.mark.parametrize(
    ("one", "changes"),
    [(response, RESPONSES), (aiperf, AIPERF), (otlp, OTLP)],
    ids=["responses", "aiperf", "otlp"],
)
def test_a_record_with_such_a_figure_is_a_reject_and_those_beside_it_are_rows(
    one: Callable[[int], dict[str, Any]], changes: list[Change], cli: CommandLine, tmp_path: Path
) -> None:
    path = tmp_path / "in.jsonl"
    good = [one(number) for number in range(3)]
    bad = [changed(one(3 + number), change) for number, change in enumerate(changes)]
    path.write_text("".join(json.dumps(record) + "\n" for record in (*good, *bad)))
    cli.ok("ingest", path)
    assert cli.rows("SELECT records, rows, rejects FROM ingested_files") == [
        {"records": 3 + len(bad), "rows": 3, "rejects": len(bad)}
    ]
    assert cli.value("SELECT count(*) FROM requests") == 3
    reasons = {row["reason"] for row in cli.rows("SELECT reason FROM rejects")}
    assert all("larger than any server's" in reason for reason in reasons), reasons


BENCH = {
    "date": "20260914-080010",
    "duration": 4.0,
    "completed": 3,
    "total_input_tokens": 30,
    "total_output_tokens": 60,
    "input_lens": [10, 10, 10],
    "output_lens": [20, 20, 20],
    "ttfts": [0.2, 0.2, 0.2],
    "itls": [[0.1, 0.1], [0.1, 0.1], [0.1, 0.1]],
    "start_times": [100.0, 101.0, 102.0],
}
GUIDELLM = {
    "benchmarks": [
        {
            "start_time": START,
            "end_time": START + 60,
            "requests": {
                "successful": [
                    {
                        "request_id": f"g{number}",
                        "request_start_time": START + number,
                        "request_end_time": START + number + 1,
                        "request_latency": 1.0,
                        "time_to_first_token_ms": 100.0,
                        "output_tokens": 20,
                    }
                    for number in range(3)
                ]
            },
        }
    ]
}
SUCCESSFUL = "benchmarks.0.requests.successful.1."


@pytest.mark.parametrize(
    ("document", "change", "requests", "totals"),
    [
        (BENCH, ("ttfts", [0.2, 1e30, 0.2]), 2, 1),
        (BENCH, ("itls", [[0.1, 0.1], [0.1, 1e300], [0.1, 0.1]]), 2, 1),
        (BENCH, ("output_lens", [20, 10**15, 20]), 2, 1),
        (BENCH, ("start_times", [100.0, 1e300, 102.0]), 3, 1),
        (BENCH, ("total_output_tokens", 10**18), 3, 0),
        (BENCH, ("duration", 1e30), 0, 0),
        (GUIDELLM, (SUCCESSFUL + "request_latency", 1e30), 2, 1),
        (GUIDELLM, (SUCCESSFUL + "output_tokens", 10**15), 2, 1),
    ],
)
def test_one_such_request_of_a_run_leaves_the_others(
    document: dict[str, Any], change: Change, requests: int, totals: int, cli: CommandLine, tmp_path: Path
) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(changed(document, change)))
    cli.ok("ingest", path, "--timezone", "UTC")
    found = cli.rows("SELECT (SELECT count(*) FROM requests) r, (SELECT count(*) FROM run_totals) t")
    assert found == [{"r": requests, "t": totals}]
    assert cli.value("SELECT count(*) FROM rejects") == (0 if (requests, totals) == (3, 1) else 1)
    if document is BENCH and requests:
        assert cli.value("SELECT min(arrived_at)::VARCHAR FROM requests") == "2026-09-14 08:00:07.6"


ITERATION = (
    "(EngineCore pid=7) INFO 09-14 08:00:0{} [a.py:1] Iteration({}): 0 context requests, 0 context tokens, "
    "1 generation requests, {} generation tokens, iteration elapsed time: {} ms\n"
)


def test_such_a_record_of_a_log_is_a_reject(cli: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text(
        ITERATION.format(1, 1, 4, "10.50")
        + ITERATION.format(2, 2, 4, "10000000000.50")
        + ITERATION.format(3, 3, 10**12, "10.50")
    )
    cli.ok("ingest", path, "--year", "2026")
    assert cli.rows("SELECT iteration FROM iterations") == [{"iteration": 1}]
    assert cli.rows("SELECT records, rows, rejects FROM ingested_files") == [{"records": 3, "rows": 1, "rejects": 2}]


def scrape(number: int, running: float = 3, total: float = 5.5, waiting: float = 1) -> str:
    return (
        f"# scraped_at {START + 10 * number}\n"
        "# TYPE vllm:num_requests_running gauge\n"
        f'vllm:num_requests_running{{engine="0",model_name="m"}} {running}\n'
        "# TYPE vllm:num_requests_waiting_by_reason gauge\n"
        f'vllm:num_requests_waiting_by_reason{{engine="0",model_name="m",reason="capacity"}} {waiting}\n'
        "# TYPE vllm:inter_token_latency_seconds histogram\n"
        f'vllm:inter_token_latency_seconds_bucket{{engine="0",le="+Inf",model_name="m"}} {100 + number}\n'
        f'vllm:inter_token_latency_seconds_count{{engine="0",model_name="m"}} {100 + number}\n'
        f'vllm:inter_token_latency_seconds_sum{{engine="0",model_name="m"}} {total}\n'
    )


def test_such_a_sample_of_a_scrape_is_a_reject_and_the_scrape_a_row(cli: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "scrapes.prom"
    path.write_text(scrape(0) + scrape(1, running=1e15) + scrape(2, total=1e300) + scrape(3, waiting=1e300))
    cli.ok("ingest", path)
    columns = "running, itl.sum AS s, waiting_by_reason['capacity'] AS w"
    assert cli.rows(f"SELECT {columns} FROM snapshots ORDER BY scraped_at") == [
        {"running": 3.0, "s": 5.5, "w": 1.0},
        {"running": None, "s": 5.5, "w": 1.0},
        {"running": 3.0, "s": None, "w": 1.0},
        {"running": 3.0, "s": 5.5, "w": None},
    ]
    assert cli.value("SELECT count(*) FROM rejects") == 3


def test_what_may_just_be_can_be_computed_with(cli: CommandLine, tmp_path: Path) -> None:
    longest, most = 30 * 86_400.0, 10**9
    records = [
        changed(changed(response(number), change), ("response.usage.completion_tokens", most))
        for number, change in enumerate(
            [
                ("end_s", longest),
                (METRICS + "generation_time_ms", 1e3 * longest - 1e4),
                (METRICS + "queue_time_ms", 1e3 * longest - 1e4),
                (SPECULATION + "num_spec_steps", most),
                (SPECULATION + "acceptance_histogram", [1, most]),
            ]
        )
    ]
    (tmp_path / "responses.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (tmp_path / "scrapes.prom").write_text(scrape(0, most, 0.0, most) + scrape(1, most, 9e9) + scrape(2, 0, 0.0))
    (tmp_path / "server.log").write_text(ITERATION.format(1, 1, most, "2592000000.00"))
    cli.ok("ingest", tmp_path, "--year", "2026")
    assert cli.rows("SELECT reason FROM rejects") == []
    cli.ok("transform")
    assert cli.value("SELECT sum(requests) FROM acceptance WHERE origin = 'requests' AND load_band IS NOT NULL") > 0
