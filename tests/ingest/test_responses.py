"""Logged responses: literal lines beside the rows they become."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest

from tests.ingest.fake_sink import run

START = 1_789_372_800
AT = dt.datetime(2026, 9, 14, 8)

METRICS = {
    "time_to_first_token_ms": 90.0,
    "generation_time_ms": 400.0,
    "queue_time_ms": 10.0,
    "mean_itl_ms": 8.0,
    "speculative_decoding": {
        "acceptance_histogram": [2, 5, 3, 8],
        "num_spec_steps": 18,
        "num_accepted_draft_tokens": 35,
        "num_draft_tokens": 54,
        "num_spec_tokens": 3,
    },
}
BODY = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": START,
    "model": "llama",
    "choices": [{"index": 0, "message": {"content": "…"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 100, "completion_tokens": 51, "prompt_tokens_details": {"cached_tokens": 64}},
    "metrics": METRICS,
}


def read(*records: Any, **context: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows and the reasons of the rejects of records, one a line."""
    lines = [record if isinstance(record, bytes) else json.dumps(record).encode() for record in records]
    sink, progress = run("responses", b"".join(line + b"\n" for line in lines), **context)
    assert progress.offset == sum(len(line) + 1 for line in lines)
    return [known(row) for row in sink.table("requests")], [reason for _, reason, _ in sink.rejects]


def known(row: dict[str, Any]) -> dict[str, Any]:
    """What a row says."""
    return {name: value for name, value in row.items() if value is not None}


def one(record: Any, **context: Any) -> dict[str, Any]:
    rows, reasons = read(record, **context)
    assert reasons == []
    (row,) = rows
    return row


def test_a_bare_body() -> None:
    assert one(BODY) == {
        "byte_offset": 0,
        "format": "responses",
        "request_id": "chatcmpl-1",
        "model_name": "llama",
        "arrived_at": AT,
        "finished_at": AT + dt.timedelta(milliseconds=500),
        "status": "ok",
        "finish_reason": "stop",
        "prompt_tokens": 100,
        "cached_tokens": 64,
        "output_tokens": 51,
        "ttft_ms": 100.0,
        "queue_ms": 10.0,
        "prefill_ms": 90.0,
        "decode_ms": 400.0,
        "decode_from": "server",
        "e2e_ms": 500.0,
        "rounds": 18,
        "drafted": 54,
        "accepted": 35,
        "draft_limit": 3,
        "accepted_hist": [2, 5, 3, 8],
    }


def test_an_envelope_with_client_times_and_labels() -> None:
    row = one(
        {
            "request_id": "req-7",
            "start_unix": START + 0.25,
            "status": 200,
            "end_s": 0.75,
            "ttft_s": 0.125,
            "chunk_times_s": [0.125, 0.25, 0.5],
            "request": {"temperature": 0.0, "top_p": 0.9, "max_tokens": 64, "model": "asked"},
            "labels": {"task": "code", "lora": "sql-1", "team": "a", "prompt": "never kept", "long": "x" * 300},
            "response": {**BODY, "id": "cmpl-req-7", "choices": []},
        }
    )
    assert row["request_id"] == "req-7"
    assert row["arrived_at"] == AT + dt.timedelta(milliseconds=250)
    assert row["finished_at"] == AT + dt.timedelta(seconds=1)
    assert (row["status"], row["status_code"]) == ("ok", 200)
    assert row["client_ttft_ms"] == 125.0
    assert row["gaps_ms"] == [125.0, 250.0]
    assert row["gaps_from"] == "client"
    assert (row["temperature"], row["top_p"], row["max_tokens"]) == (0.0, 0.9, 64)
    assert (row["task"], row["lora"]) == ("code", "sql-1")
    assert row["tags"] == {"task": "code", "lora": "sql-1", "team": "a"}
    assert row["model_name"] == "llama"
    # The server's own times stand above the client's.
    assert (row["decode_ms"], row["decode_from"], row["e2e_ms"]) == (400.0, "server", 500.0)


def test_the_servers_own_id_is_kept_where_it_is_another() -> None:
    row = one({"request_id": "mine", "start_unix": START, "response": {**BODY, "id": "chatcmpl-abc"}})
    assert row["request_id"] == "mine"
    assert row["tags"] == {"response_id": "chatcmpl-abc"}


def test_without_server_times_the_clients_tell_the_decode_time() -> None:
    body = {"id": "a", "usage": {"prompt_tokens": 1, "completion_tokens": 9}}
    chunks = one({"start_unix": START, "end_s": 0.7, "chunk_times_s": [0.1, 0.3, 0.6], "response": body})
    assert (chunks["decode_ms"], chunks["decode_from"], chunks["client_ttft_ms"]) == (pytest.approx(500), "client", 100)
    edges = one({"start_time": "2026-09-14T08:00:00Z", "latency_ms": 700, "ttft_ms": 100, "response": body})
    assert (edges["decode_ms"], edges["decode_from"], edges["e2e_ms"]) == (600.0, "client", 700.0)
    assert "ttft_ms" not in edges


def test_first_token_needs_both_the_queue_and_the_servers_time() -> None:
    row = one({**BODY, "metrics": {"time_to_first_token_ms": 90.0}})
    assert row["prefill_ms"] == 90.0
    assert "ttft_ms" not in row


def test_the_mean_gap_gives_the_decode_time_where_nothing_else_does() -> None:
    assert one({**BODY, "metrics": {"mean_itl_ms": 8.0}})["decode_ms"] == 400.0


def test_times_that_contradict_each_other_are_told() -> None:
    sink, _ = run("responses", json.dumps({**BODY, "metrics": {**METRICS, "mean_itl_ms": 4.0}}).encode() + b"\n")
    assert ["contradict" in note for note in sink.notes] == [True]


@pytest.mark.parametrize(
    "histogram", [[7, 8, 9, 2], {"0": 7, "1": 8, "2": 9, "3": 2}, {"3": 2, "1": 8, "2": 9, "0": 7}, {"0": 7, "3": 2}]
)
def test_a_histogram_is_a_list_or_an_object(histogram: Any) -> None:
    speculation = {**METRICS["speculative_decoding"], "acceptance_histogram": histogram}
    row = one({**BODY, "metrics": {**METRICS, "speculative_decoding": speculation}})
    assert row["accepted_hist"] == ([7, 8, 9, 2] if len(histogram) == 4 else [7, 0, 0, 2])


def test_histograms_by_draft_length_and_steps_in_detail() -> None:
    speculation = {
        **METRICS["speculative_decoding"],
        "acceptance_histogram_by_draft_length": {"1": [1, 2], "3": {"0": 4, "3": 1}},
        "per_step_accepted": [0, 1, 3],
        "per_step_drafted": [1, 1, 3],
    }
    row = one({**BODY, "metrics": {**METRICS, "speculative_decoding": speculation}})
    assert row["accepted_hist_by_length"] == {1: [1, 2], 3: [4, 0, 0, 1]}
    assert (row["step_accepted"], row["step_drafted"]) == ([0, 1, 3], [1, 1, 3])


def test_several_sequences_carry_no_acceptance() -> None:
    choices = [{"index": index, "finish_reason": "stop"} for index in range(2)]
    row = one({**BODY, "choices": choices, "metrics": {**METRICS, "speculative_decoding": None}})
    assert row["sequences"] == 2
    assert "rounds" not in row


@pytest.mark.parametrize(
    ("record", "status"),
    [
        ({"request_id": "a", "start_unix": START, "status": 500, "response": {"error": {"message": "x"}}}, "failed"),
        ({"request_id": "a", "start_unix": START, "status_code": 429}, "failed"),
        ({"request_id": "a", "start_unix": START, "status": "error", "error": "timeout"}, "failed"),
        ({"object": "error", "message": "no", "code": 400, "id": "a"}, "failed"),
        ({"request_id": "a", "start_unix": START, "status": 499}, "aborted"),
        ({"request_id": "a", "start_unix": START, "status": 200, "aborted_by_client": True}, "aborted"),
        ({**BODY, "choices": [{"finish_reason": "abort"}]}, "aborted"),
        ({"request_id": "a", "start_unix": START, "status": 200, "response": BODY}, "ok"),
        ({"request_id": "a", "start_unix": START, "status": "success", "latency_s": 1}, "ok"),
        (
            {"request_id": "a", "status": 200, "response": {"object": "chat.completion.chunk", "created": START}},
            "unknown",
        ),
        (
            {
                "id": "resp_1",
                "object": "response",
                "created_at": START,
                "status": "incomplete",
                "usage": {"output_tokens": 3},
            },
            "ok",
        ),
    ],
)
def test_how_a_request_ended(record: Any, status: str) -> None:
    assert one(record)["status"] == status


def test_the_responses_api() -> None:
    row = one(
        {
            "id": "resp_1",
            "object": "response",
            "created_at": START,
            "model": "llama",
            "status": "incomplete",
            "incomplete_details": {"reason": "max_output_tokens"},
            "usage": {"input_tokens": 7, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 2}},
        }
    )
    assert (row["prompt_tokens"], row["output_tokens"], row["cached_tokens"]) == (7, 3, 2)
    assert row["finish_reason"] == "max_output_tokens"


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda body: {"request_id": "chatcmpl-1", "response": body},
        lambda body: {"request_id": "chatcmpl-1", "response": {"status_code": 200, "body": body}},
        lambda body: {"custom_id": "chatcmpl-1", "response": {"status_code": 200, "body": body}, "error": None},
        lambda body: {"request_id": "chatcmpl-1", "body": body},
        lambda body: {"req_id": "chatcmpl-1", "response_body": json.dumps(body)},
        lambda body: {"request_id": "chatcmpl-1", "result": body},
        lambda body: b"data: " + json.dumps(body).encode(),
        lambda body: [body],
        lambda body: json.dumps(body).replace('"created"', '"x": NaN, "created"').encode(),
        lambda body: json.dumps(body).encode().replace("…".encode(), b"\xff\x01"),
    ],
)
def test_a_body_is_found_wherever_it_stands(wrapped: Any) -> None:
    row = one(wrapped(BODY))
    assert row["request_id"] == "chatcmpl-1"
    assert (row["rounds"], row["output_tokens"], row["ttft_ms"], row["arrived_at"]) == (18, 51, 100.0, AT)


@pytest.mark.parametrize(
    "start", [START, float(START), START * 1_000, START * 10**6, START * 10**9, "2026-09-14T10:00:00+02:00", str(START)]
)
@pytest.mark.parametrize("name", ["start_unix", "start_time", "timestamp", "arrived_at"])
def test_a_start_in_any_unit(name: str, start: Any) -> None:
    assert one({"request_id": "a", name: start, "status": 200, "end_s": 1})["arrived_at"] == AT


def test_a_clock_that_does_not_count_from_1970_is_no_time() -> None:
    row = one({"request_id": "a", "start_unix": 12.5, "response": BODY})
    assert row["arrived_at"] == AT


def test_a_request_without_an_id_is_known_by_its_content() -> None:
    record = {"start_unix": START, "status": 400, "error": "no"}
    rows, _ = read(record, record, {**record, "status": 401})
    ids = [row["request_id"] for row in rows]
    assert ids[0] == ids[1] != ids[2]
    assert ids[0].startswith("line-")
    assert read({**record, "status": 401})[0][0]["request_id"] == ids[2]


def test_calls_of_other_endpoints_are_no_requests() -> None:
    sink, _ = run(
        "responses",
        b'{"request_id": "a", "method": "GET", "path": "/health", "status": 200, "start_unix": 1789372800}\n'
        b'{"request_id": "b", "method": "POST", "path": "/v1/completions", "status": 400, "start_unix": 1789372800}\n',
    )
    assert [row["request_id"] for row in sink.table("requests")] == ["b"]
    assert sink.rejects == []
    assert sink.notes == ["1 calls of other endpoints, such as health checks, are no requests and were left out."]


@pytest.mark.parametrize(
    ("line", "word"),
    [
        (b'{"request_id": "broken", "response": {"usage": }', "not JSON"),
        (b"\x00\x01\x02", "not JSON"),
        (b'"text"', "no object"),
        (b"17", "no object"),
        (b"null", "no object"),
        (b"[]", "no object"),
        (b'{"a": 1}', "no response"),
        (b'{"id": "x", "object": "chat.completion.chunk", "choices": [{"delta": {}}]}', "no response"),
        (b'{"id": "x", "created": 1789372800, "usage": {"prompt_tokens": -1, "completion_tokens": 2}}', "negative"),
        (b'{"a":' * 3_000 + b"1" + b"}" * 3_000, "nested"),
        (b'{"n": ' + b"9" * 6_000 + b"}", "too long"),
    ],
)
def test_what_cannot_be_read_is_rejected_where_it_stands(line: bytes, word: str) -> None:
    before, after = json.dumps(BODY).encode(), json.dumps({**BODY, "id": "after"}).encode()
    sink, _ = run("responses", b"\n".join([before, line, after]) + b"\n")
    assert [row["request_id"] for row in sink.table("requests")] == ["chatcmpl-1", "after"]
    ((offset, reason, _),) = sink.rejects
    assert offset == len(before) + 1
    assert word in reason


def test_blank_lines_and_the_end_of_a_stream_are_no_records() -> None:
    rows, reasons = read(b"", b"  \t ", json.dumps(BODY).encode() + b"\r", b"data: [DONE]", b"")
    assert (len(rows), reasons) == (1, [])


def test_a_rare_record_in_another_shape_is_found_too() -> None:
    plain = [{"request_id": f"r{number}", "start_unix": START, "end_s": 1, "response": BODY} for number in range(500)]
    plain[333] = {"req_id": "odd", "startTime": "2026-09-14T08:00:00Z", "response_body": BODY, "latency_ms": 500}
    rows, _ = read(*plain)
    odd = next(row for row in rows if row["request_id"] == "odd")
    assert (odd["arrived_at"], odd["rounds"], odd["output_tokens"]) == (AT, 18, 51)
    assert [row["byte_offset"] for row in rows] == sorted(row["byte_offset"] for row in rows)


def test_a_rare_histogram_in_another_shape_is_found_also_where_nothing_was_drafted() -> None:
    def record(number: int, histogram: object, steps: int) -> dict[str, Any]:
        spec = {**BODY["metrics"]["speculative_decoding"], "acceptance_histogram": histogram, "num_spec_steps": steps}
        body = {**BODY, "metrics": {**BODY["metrics"], "speculative_decoding": spec}}
        return {"request_id": f"r{number}", "start_unix": START, "end_s": 1, "response": body}

    records = [record(number, [1, 2], 3) for number in range(500)]
    records[333] = record(333, {"0": 0, "1": 0}, 0)
    rows, _ = read(*records)
    assert [row["accepted_hist"] for row in rows] == [[1, 2]] * 333 + [[0, 0]] + [[1, 2]] * 166


@pytest.mark.parametrize("indent", [None, 1])
def test_an_array_of_responses_is_read(indent: int | None) -> None:
    text = json.dumps([BODY, {**BODY, "id": "é"}, 3], indent=indent, ensure_ascii=False).encode()
    sink, progress = run("responses", text)
    assert [row["request_id"] for row in sink.table("requests")] == ["chatcmpl-1", "é"]
    assert [reason for _, reason, _ in sink.rejects] == ["This is JSON but no object: a record is an object."]
    assert progress.offset == len(text)


def test_objects_over_several_lines_are_read_up_to_the_first_damage() -> None:
    text = b"\n".join(json.dumps({**BODY, "id": str(number)}, indent=2).encode() for number in range(3))
    sink, _ = run("responses", text[:-40])
    assert [row["request_id"] for row in sink.table("requests")] == ["0", "1"]
    ((offset, _, _),) = sink.rejects
    assert text[offset:].startswith(b'{\n  "id": "2"')


def test_an_unterminated_line_waits_until_the_input_is_settled() -> None:
    whole = json.dumps(BODY).encode()
    text = whole + b"\n" + whole[:100]
    waiting, progress = run("responses", text, settled=False)
    assert (len(waiting.table("requests")), waiting.rejects, progress.offset) == (1, [], len(whole) + 1)
    settled, progress = run("responses", whole[:100], settled=True, offset=len(whole) + 1)
    assert [(offset, reason) for offset, reason, _ in settled.rejects] == [
        (len(whole) + 1, "The last line is cut: its end never came.")
    ]
    assert progress.offset == len(text)


def test_a_line_of_megabytes_is_passed_over() -> None:
    text = json.dumps(BODY).encode() + b"\n" + b'{"prompt": "' + b"x" * (40 << 20) + b'"}\n' + json.dumps(BODY).encode()
    sink, progress = run("responses", text)
    assert len(sink.table("requests")) == 2
    assert ["longer than 16 MiB" in reason for _, reason, _ in sink.rejects] == [True]
    assert progress.offset == len(text)


SECRET = "the patient said"


@pytest.mark.parametrize(
    "line",
    [
        b'{"prompt": "the patient said", "usage": }',
        b'{"messages": ["the patient said", {"content": "the patient said',
        b'the patient said", "usage": {"prompt_tokens": 1}}',
        b'{"a": the patient said}',
        b'{"the patient said": 1}',
        b"['the patient said']",
    ],
)
def test_the_text_of_a_reject_holds_no_text_of_a_request(line: bytes) -> None:
    sink, _ = run("responses", line + b"\n")
    assert [word for _, _, text in sink.rejects for word in SECRET.split() if word in str(text)] == []


def test_hashes_are_made_only_where_they_are_asked_for() -> None:
    record = {
        "request": {"prompt": "Say it"},
        "start_unix": START,
        "response": {**BODY, "choices": [{"text": "a b c d e"}]},
    }
    assert not {"prompt_hash", "output_hash"} & one(record).keys()
    row = one(record, hash_text=True)
    assert len(row["prompt_hash"]) == len(row["output_hash"]) == 32
    assert row["distinct_4gram_share"] == 1.0
    assert one({**record, "request_id": "b"}, hash_text=True)["output_hash"] == row["output_hash"]
