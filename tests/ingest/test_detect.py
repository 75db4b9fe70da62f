"""Formats are told from content: a line or two of each, and what must not be taken for one."""

from __future__ import annotations

import gzip
import json

import pytest
import zstandard

from specledger.ingest.detect import detect, outline

LOG = b"(APIServer pid=7) INFO 09-14 08:00:00 [loggers.py:123] Engine 000: Avg prompt throughput: 0.0 tokens/s"
OTLP = {"resourceSpans": [{"resource": {}, "scopeSpans": [{"spans": [{"name": "llm_request"}]}]}]}
BENCH = {"date": "20260914-080000", "total_input_tokens": 10, "total_output_tokens": 20, "ttfts": [0.1]}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"# HELP vllm:num_requests_running Requests.\n# TYPE vllm:num_requests_running gauge\n", "exposition"),
        (b"# scraped_at 1789372800.5\nup 1\n", "exposition"),
        (
            b'vllm:num_requests_running{engine="0",model_name="a b"} 3.0\nvllm:x_total 1e+06 1789372800000\n',
            "exposition",
        ),
        (b'vllm:e2e_bucket{le="+Inf"} 3\nvllm:e2e_sum NaN\nvllm:gener', "exposition"),
        (b'a_bucket{le="1"} 3 # {trace_id="x"} 0.5 1789372800.1\nb 1.5e-05\n', "exposition"),
        (LOG, "server_log"),
        (b"INFO 09-14 08:00:00 metrics.py:295] Avg prompt throughput: 12.5 tokens/s", "server_log"),
        (b"\x1b[32mINFO\x1b[0m 09-14 08:00:00 [a.py:1] x", "server_log"),
        (b"^[[32mINFO^[[0m 09-14 08:00:00 [a.py:1] x", "server_log"),
        (b"\xff\xfe broken\n" + LOG, "server_log"),
        (b"# a comment first\n" + LOG, "server_log"),
        ((b"Loading: 10%|#   | 1/10\rLoading: 20%|##  | 2/10\r" + LOG + b"\n") * 3, "server_log"),
        (b'INFO:     127.0.0.1:4242 - "GET /health HTTP/1.1" 200 OK', "server_log"),
        (b'{"log": "x\\n", "stream": "stdout", "time": "2026-09-14T08:30:00Z"}', "server_log"),
        (b'{"asctime": "2026-09-14 08:40:00,979", "levelname": "INFO", "message": "x"}', "server_log"),
        (b'{"id": "chatcmpl-1", "object": "chat.completion", "choices": [], "usage": {}}', "responses"),
        (b'{"request_id": "r", "status": 200, "response": {"usage": {"prompt_tokens": 1}}}', "responses"),
        (b'{"request_id": null, "status": 400, "body": "no"}', "responses"),
        (b'" cut": 1}\n{"id": "1", "object": "text_completion", "usage": {}}\n', "responses"),
        (b'[{"id": "1", "object": "chat.completion", "usage": {"prompt_tokens": 1}}]', "responses"),
        (b'\xef\xbb\xbf{"id": "1", "usage": {}}', "responses"),
        (json.dumps(BENCH).encode(), "bench"),
        (json.dumps(BENCH, indent=1).encode(), "bench"),
        (b'{"metadata": {"x_request_id": "1", "request_start_ns": 1}, "metrics": {}}', "aiperf"),
        (b'{"aiperf_version": "0.13.0", "request_count": {"avg": 1}}', "aiperf"),
        (b'{"metadata": {"version": 2, "guidellm_version": "0.8.1"}, "benchmarks": [', "guidellm"),
        (json.dumps(OTLP).encode(), "otlp"),
        (b"\x0a\xa1\x02\x0a\x10\x0a\x0eservice.name\x12 llm_request", "otlp"),
        (b"\x00\x00\x01\x02\x0a\xff\x01 gen_ai.usage", "otlp"),
        (b'{"results": {"gsm8k": {"exact_match,strict": 0.5}}, "versions": {}, "config": {}}', "quality"),
        (b"deployment,task,metric,value,stderr,n\nd,gsm8k,acc,0.5,0.01,100\n", "quality"),
        (b'{"status": "success", "data": {"resultType": "matrix", "result": []}}', "prometheus"),
    ],
)
def test_each_format_is_told_from_its_first_lines(content: bytes, expected: str) -> None:
    assert detect(content).format == expected


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"PK\x03\x04rest", "zip"),
        (b"\xfd7zXZ\x00rest", "xz"),
        (b"PAR1rest", "Parquet"),
        (gzip.compress(LOG), "compressed twice"),
        (zstandard.compress(LOG), "compressed twice"),
        (bytes(257) + b"ustar", "tar"),
        ("﻿{}".encode("utf-16"), "UTF-16"),
        (LOG.decode().encode("utf-16-le"), "UTF-16"),
        (LOG.decode().encode("utf-16-be"), "UTF-16"),
        (b"just some words\nand more words\n", "none of exposition"),
        (b'{"command": "vllm serve", "env": {}}', "none of exposition"),
        (bytes(range(256)) * 4, "none of exposition"),
    ],
)
def test_what_is_no_format_has_a_reason(content: bytes, word: str) -> None:
    detected = detect(content)
    assert detected.format is None
    assert word in (detected.reason or "")


@pytest.mark.parametrize("content", [b"", b" \n\n", b"<!DOCTYPE html><html>502</html>", b"upstream connect error"])
def test_what_a_failed_scrape_leaves_may_be_a_scrape_among_scrapes(content: bytes) -> None:
    detected = detect(content)
    assert detected.format is None
    assert detected.perhaps_scrape


def test_json_and_binary_are_never_failed_scrapes() -> None:
    assert not detect(b'{"a": 1}').perhaps_scrape
    assert not detect(bytes(100)).perhaps_scrape


def test_an_outline_holds_keys_to_three_levels_also_of_cut_text() -> None:
    assert outline(b'{"a": "x", "b": [{"c": {"d": {"e": 1}}}], "f": {"g": 2') == {
        ("a",): "x",
        ("b",): "",
        ("b", "c"): "",
        ("b", "c", "d"): "",
        ("f",): "",
        ("f", "g"): "",
    }


def test_keys_inside_of_text_are_no_keys() -> None:
    assert outline(rb'{"prompt": "{\"usage\": 1}", "n": 1}') == {("prompt",): '{\\"usage\\": 1}', ("n",): ""}


@pytest.mark.parametrize(
    "line",
    [
        b"vllm:a{" + b"a" * 60_000,
        b"vllm:a{" + b" 1" * 30_000 + b"!",
        b"a" + b" " * 60_000 + b"!",
        b'{"a":"' + b'\\"' * 30_000,
    ],
    ids=["labels without an end", "numbers", "blanks", "a string without an end"],
)
def test_a_long_line_is_looked_at_once(line: bytes) -> None:
    """Tried from each of its bytes again, one of these would take minutes."""
    assert detect(line + b"\n" + line).format is None
