"""Events of a log, and what requests were asked with."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.ingest.log_reading import LogSink, read, read_in_parts

YEAR: dict[str, Any] = {"year": 2026, "timezone": "UTC"}


def line(message: str, level: str = "WARNING", second: int = 0, process: str = "APIServer pid=1") -> str:
    return f"({process}) {level} 09-14 08:00:{second:02d} [x.py:1] {message}\n"


def request(parameters: str = "n=1, temperature=0.0, top_p=1.0", second: int = 0, prompt: str = "") -> str:
    message = f"Received request cmpl-1: {prompt}params: SamplingParams({parameters}), lora_request: None."
    return line(message, "INFO", second)


def requests(sink: LogSink) -> list[tuple[dict[str, Any], int]]:
    rows = [row for row in sink.table("events") if row["kind"] == "request_parameters"]
    return [(json.loads(row["message"]), row["records"]) for row in rows]


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("Triton kernel JIT compilation during inference: k. This causes a latency spike.", "compilation"),
        ("Sequence group 0 is preempted by PreemptionMode.RECOMPUTE mode because there is not enough KV", "preemption"),
        ("Request cmpl-1 aborted.", "abort"),
        ("Aborted request cmpl-1.", "abort"),
        ("Graph capturing finished in 21 secs, took 0.25 GiB", "warmup"),
        ("EngineCore encountered a fatal error.", "death"),
    ],
)
def test_a_known_event_keeps_its_message(message: str, kind: str) -> None:
    sink = read(line(message), **YEAR)
    assert [event[0] for event in sink.events] == [kind]
    assert sink.events[0][1].startswith(message[:30])
    assert sink.records == 1


def test_chatter_is_no_event() -> None:
    chatter = "Enforce eager set, disabling torch.compile, CUDAGraphs, and JIT kernel warmup."
    assert read(line(chatter) + line("Route: /abort, Methods: POST", "INFO"), **YEAR).events == []


def test_an_error_of_unknown_words_keeps_only_its_opening() -> None:
    sink = read(line("Cannot tokenize: 'my secret prompt' is too long", "ERROR"), **YEAR)
    assert sink.events == [("other", "Cannot tokenize")]


def test_a_connector_that_fails_is_an_event_and_one_that_works_is_not() -> None:
    sink = read(line("NIXL handshake failed: 'x'", "ERROR") + line("Initializing NIXL connector", "INFO"), **YEAR)
    assert sink.events == [("connector", "NIXL handshake failed")]


def test_a_traceback_is_one_event_named_by_its_exception() -> None:
    log = "".join(
        line(said, "ERROR")
        for said in (
            "AsyncLLM output_handler failed.",
            "Traceback (most recent call last):",
            '  File "/x/async_llm.py", line 849, in output_handler',
            "    outputs = await engine_core.get_output_async()",
            "ValueError: prompt 'my secret prompt' is too long",
        )
    )
    assert read(log, **YEAR).events == [("death", "AsyncLLM output_handler failed."), ("traceback", "ValueError")]


def test_a_traceback_without_times_has_that_of_the_record_before_it() -> None:
    log = line("Request cmpl-1 aborted.", "INFO", 7) + (
        "(EngineCore pid=7) Traceback (most recent call last):\n"
        '(EngineCore pid=7)   File "x.py", line 1\n'
        "(EngineCore pid=7) torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n"
    )
    rows = read(log, **YEAR).table("events")
    assert [(row["kind"], row["message"], row["logged_at"].second) for row in rows] == [
        ("abort", "Request cmpl-1 aborted.", 7),
        ("traceback", "torch.OutOfMemoryError", 7),
        ("death", "torch.OutOfMemoryError", 7),
    ]


def test_a_traceback_may_be_cut_by_the_end_of_a_read() -> None:
    log = line("Traceback (most recent call last):", "ERROR") + line("ValueError: x", "ERROR")
    for end in (50, len(log) // 2, len(log) - 5):
        assert read_in_parts(log, [end], **YEAR).events == [("traceback", "ValueError")]


def test_a_traceback_without_its_end_is_told_at_rest() -> None:
    assert read(line("Traceback (most recent call last):", "ERROR"), **YEAR).events == [
        ("traceback", "Traceback (most recent call last)")
    ]


def test_requests_with_the_same_parameters_are_counted_by_minute() -> None:
    log = request() * 3 + request("n=1, temperature=0.7, top_p=0.9") + request(second=59)
    later = request().replace("08:00", "08:01")
    greedy, sampled = {"n": 1, "temperature": 0.0, "top_p": 1.0}, {"n": 1, "temperature": 0.7, "top_p": 0.9}
    assert requests(read(log + later, **YEAR)) == [(greedy, 4), (sampled, 1), (greedy, 1)]


def test_the_length_limit_of_a_request_is_its_own() -> None:
    log = "".join(request(f"n=1, max_tokens={number}, temperature=0.0, stop=[]") for number in range(1, 60))
    assert requests(read(log, **YEAR)) == [({"n": 1, "temperature": 0.0}, 59)]


def test_values_that_are_the_request_s_own_are_only_said_to_be_there() -> None:
    given = "n=1, seed=42, stop=['my secret'], logprobs=5, structured_outputs=StructuredOutputsParams(json='{...}')"
    assert requests(read(request(given), **YEAR)) == [
        ({"n": 1, "seeded": True, "stop": True, "logprobs": True, "structured": True}, 1)
    ]


def test_the_prompt_does_not_speak_for_the_parameters() -> None:
    prompt = "prompt: 'params: SamplingParams(temperature=9.0)', "
    assert requests(read(request(prompt=prompt) * 40, **YEAR)) == [({"n": 1, "temperature": 0.0, "top_p": 1.0}, 40)]


def test_no_text_of_a_request_is_kept_anywhere() -> None:
    log = request(prompt="prompt: 'my secret prompt', ") + line("x", "INFO")
    for end in (80, len(log)):
        sink = read_in_parts(log, [end], **YEAR)
        assert "secret" not in str(sink.frames) + str(sink.rejects)


def test_rows_of_two_reads_within_a_minute_are_not_alike() -> None:
    log = request() * 2
    sink = read_in_parts(log, [len(request())], **YEAR)
    times = [row["logged_at"] for row in sink.table("events")]
    assert len(set(times)) == 2
    assert sum(count for _, count in requests(sink)) == 2
