"""Text that JSON can say and no column can hold: halves of characters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specledger.ingest import response_json
from specledger.ingest.json_input import parse, storable
from tests.command_line import CommandLine

HALF, SHOWN = "\ud83d", "\ufffd"
START = 1_789_372_800
SPAN = {"name": "llm_request", "spanId": HALF, "endTimeUnixNano": str(START * 10**9), "attributes": []}
VECTOR = [{"metric": {"__name__": "vllm:num_requests_running", "model_name": HALF}, "value": [START, "3"]}]
DEATH = f"Traceback {HALF} KV cache size EngineDeadError"
RECORD = {"levelname": "ERROR", "asctime": "2026-09-14 08:01:00,250", "message": DEATH}
BENCH = {"date": "20260914-080000", "total_input_tokens": 1, "total_output_tokens": 1, "completed": 1}


@pytest.mark.parametrize("text", [r"\ud83d\ude00", r"\\ud83d", r"\\\ud83d\uDE00", "ud83d", r"\u00e9"])
def test_whole_characters_and_other_texts_stay_as_they_are(text: str) -> None:
    assert storable(text) == text


@pytest.mark.parametrize("text", [r"\ud83d", r"\uDE00", r"\ud83dx\ude00", r"\ud83d\ud83d", r"\\\ud83d"])
def test_a_half_becomes_a_sign_of_the_same_length(text: str) -> None:
    assert len(storable(text)) == len(text)
    found = parse(b'"' + text.encode() + b'"')
    assert isinstance(found, str)
    assert SHOWN in found
    assert found.encode().decode() == found


def test_zeros_that_a_crash_left_around_a_text_are_no_part_of_it() -> None:
    assert parse(b"\0\0{}\n\0") == {}
    assert parse(b"{\0}") is None


def test_the_bytes_of_a_half_are_no_json(cli: CommandLine, tmp_path: Path) -> None:
    assert parse(b'"\xed\xba\xa2"') is None
    text = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [{**SPAN, "spanId": "X"}]}]}]}).encode()
    path = tmp_path / "spans.jsonl"
    path.write_bytes(text.replace(b"X", b"\xed\xba\xa2") + b"\n" + text + b"\n")
    cli.ok("ingest", path)
    assert cli.rows("SELECT records, rows, rejects FROM ingested_files") == [{"records": 2, "rows": 1, "rejects": 1}]


@pytest.mark.parametrize("name", ["time", "stream"])
def test_a_container_engine_may_say_halves_anywhere(name: str, cli: CommandLine, tmp_path: Path) -> None:
    rest = {"stream": "stderr", "time": "2026-09-14T08:01:00.25Z", name: HALF}
    pieces = [{"log": "ERROR 09-14 08:01:00 core.py:1] ", **rest}, {"log": f"{DEATH}\n", **rest}]
    path = tmp_path / "in.log"
    path.write_text("".join(json.dumps(piece) + "\n" for piece in pieces))
    cli.ok("ingest", path, "--format", "server_log", "--year", 2026)
    assert cli.value("SELECT regexp_extract(message, '[^ -~]') FROM events") == SHOWN


@pytest.mark.parametrize(
    ("document", "question"),
    [
        ({"resourceSpans": [{"scopeSpans": [{"spans": [SPAN]}]}]}, "request_id FROM requests"),
        ({"metadata": {"x_request_id": HALF, "request_start_ns": 1, "request_end_ns": START * 10**9}, "metrics": {}},
         "request_id FROM requests"),
        ({"status": "success", "data": {"resultType": "vector", "result": VECTOR}}, "model_name FROM snapshots"),
        ({**BENCH, "model_id": HALF, "output_lens": [2]}, "model_name FROM requests"),
        ({"results": {HALF: {"acc,none": 0.5}}, "versions": {}, "config": {}}, "task FROM quality"),
        (RECORD, "regexp_extract(message, '[^ -~]') FROM events"),
    ],
    ids=["otlp", "aiperf", "prometheus", "bench", "quality", "log"],
)  # fmt: skip
def test_every_format_keeps_the_record(
    document: dict[str, Any], question: str, cli: CommandLine, tmp_path: Path
) -> None:
    path = tmp_path / "in.json"
    path.write_text(json.dumps(document) + "\n")
    cli.ok("ingest", path, "--strict")
    assert cli.value(f"SELECT {question}") == SHOWN


@pytest.mark.parametrize("name", ["aiperf", "bench", "guidellm", "quality"])
def test_a_list_of_nothing_is_told(name: str, cli: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    path.write_text("[ ]\n")
    cli.ok("ingest", path, "--format", name)
    assert cli.rows("SELECT records, rows, rejects FROM ingested_files") == [{"records": 1, "rows": 0, "rejects": 1}]
    (reject,) = cli.rows("SELECT format, reason FROM rejects")
    assert reject["format"] == name
    assert "empty" in reject["reason"]


def test_an_interrupt_inside_a_query_is_no_fault_of_the_input() -> None:
    with pytest.raises(KeyboardInterrupt), response_json._connection():
        raise RuntimeError("Query interrupted")
