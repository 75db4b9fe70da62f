"""Exports of client tools: literal documents beside the rows they become, and round trips from random facts."""

from __future__ import annotations

import datetime as dt
import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specledger.ingest import json_input, quality
from tests.ingest.fake_sink import NOON, run

SECONDS = st.floats(0, 1_000, allow_nan=False)
TOKENS = st.integers(1, 5_000)


def bench_result(lengths, **facts) -> dict:
    return {
        "date": "20260914-080000",
        "model_id": "llama",
        "duration": 30.0,
        "completed": len(lengths),
        "failed": 0,
        "total_input_tokens": 10,
        "total_output_tokens": sum(lengths),
        "output_lens": lengths,
        **facts,
    }


class TestBench:
    def test_the_last_request_ends_when_the_result_was_written(self) -> None:
        result = bench_result(
            [3, 1],
            input_lens=[5, 6],
            ttfts=[0.5, 0.25],
            itls=[[0.25, 0.5], []],
            latencies=[1.25, 0.25],
            start_times=[3_000.0, 3_005.0],
            errors=["", ""],
        )
        sink, _ = run("bench", json.dumps(result).encode(), timezone="Europe/Berlin")
        first, last = sink.table("requests")
        assert first["arrived_at"] == dt.datetime(2026, 9, 14, 5, 59, 54, 750_000)
        assert last["finished_at"] == dt.datetime(2026, 9, 14, 6)
        assert (first["ttft_ms"], first["decode_ms"], first["e2e_ms"]) == (500.0, 750.0, 1250.0)
        assert (first["gaps_ms"], first["gaps_from"], first["prompt_tokens"]) == ([250.0, 500.0], "client", 5)
        assert last["decode_ms"] is None
        assert sink.notes == []

    def test_a_failed_request_has_no_times(self) -> None:
        result = bench_result([0], ttfts=[0.0], itls=[[]], latencies=[0.0], start_times=[1.0], errors=["boom"])
        sink, _ = run("bench", json.dumps(result).encode())
        (row,) = sink.table("requests")
        assert (row["status"], row["ttft_ms"], row["decode_ms"], row["e2e_ms"]) == ("failed", None, None, None)
        assert len(sink.notes) == 1

    def test_appended_results_without_details_are_run_totals_only(self) -> None:
        plain = bench_result([], spec_decode_num_drafts=7, spec_decode_draft_tokens=21, spec_decode_accepted_tokens=9)
        del plain["output_lens"]
        sink, progress = run("bench", (json.dumps(plain) + "\n").encode() * 2)
        assert sink.table("requests") == []
        totals = sink.table("run_totals")
        assert [(row["rounds"], row["drafted"], row["accepted"], row["byte_offset"]) for row in totals] == [
            (7, 21, 9, 0),
            (7, 21, 9, progress.offset // 2),
        ]

    def test_generated_text_is_never_kept(self) -> None:
        sink, _ = run("bench", json.dumps(bench_result([2], generated_texts=["a secret"])).encode())
        assert "secret" not in repr(sink)

    @pytest.mark.parametrize(
        "content", [b'{"date": "20260914-080000"}', b"[1]", b"{", b'{"date": "x", "completed": 1}', b"null\n"]
    )
    def test_what_is_no_result_is_a_reject(self, content: bytes) -> None:
        sink, progress = run("bench", content)
        assert len(sink.rejects) == 1
        assert not sink.frames
        assert progress.offset == len(content)

    @pytest.mark.parametrize("field", ["completed", "failed", "total_input_tokens", "duration", "mean_tpot_ms"])
    def test_a_number_of_hundreds_of_digits_stops_nothing(self, field: str) -> None:
        broken = bench_result([2]) | {field: int("9" * 400)}
        content = f"{json.dumps(broken)}\n{json.dumps(bench_result([3]))}\n".encode()
        sink, progress = run("bench", content)
        assert sink.table("requests")[-1]["output_tokens"] == 3
        assert progress.offset == len(content)

    @pytest.mark.parametrize(
        ("date", "zone"), [("00010101-000000", "Asia/Tokyo"), ("99991231-235959", "America/Los_Angeles")]
    )
    def test_a_date_that_utc_has_not_is_a_reject(self, date: str, zone: str) -> None:
        sink, _ = run("bench", json.dumps(bench_result([2], date=date)).encode(), timezone=zone)
        assert (len(sink.rejects), sink.frames) == (1, {})

    def test_arrays_of_different_length_are_refused(self) -> None:
        sink, _ = run("bench", json.dumps(bench_result([1, 2], ttfts=[0.1])).encode())
        assert "differ in length" in sink.rejects[0][1]
        assert not sink.frames

    @given(
        st.lists(st.tuples(TOKENS, SECONDS, st.lists(SECONDS, min_size=1, max_size=5), SECONDS), min_size=1, max_size=8)
    )
    def test_what_a_run_writes_reads_back(self, facts) -> None:
        lengths, first, gaps, start = ([row[field] for row in facts] for field in range(4))
        whole = [ttft + sum(itls) for ttft, itls in zip(first, gaps, strict=True)]
        result = bench_result(
            lengths, ttfts=first, itls=gaps, latencies=whole, start_times=start, errors=[""] * len(facts)
        )
        rows = run("bench", json.dumps(result).encode())[0].table("requests")
        assert [row["output_tokens"] for row in rows] == lengths
        assert [row["ttft_ms"] for row in rows] == [value * 1e3 for value in first]
        assert all(
            math.isclose(row["decode_ms"], sum(itls) * 1e3, rel_tol=1e-9, abs_tol=1e-9)
            for row, itls in zip(rows, gaps, strict=True)
        )
        ends = [row["finished_at"] for row in rows]
        assert abs((max(ends) - dt.datetime(2026, 9, 14, 8)).total_seconds()) < 1e-4
        assert len({row["request_id"] for row in rows}) == len(rows)


def aiperf_record(**metrics) -> dict:
    return {
        "metadata": {
            "x_request_id": "r1",
            "request_start_ns": 1_789_372_800_000_000_123,
            "request_end_ns": 1_789_372_801_500_000_000,
            "benchmark_phase": "profiling",
            "was_cancelled": False,
        },
        "metrics": {name: {"value": value, "unit": "x"} for name, value in metrics.items()},
    }


class TestAiperf:
    def test_tokens_come_from_usage_and_times_from_the_client(self) -> None:
        record = aiperf_record(
            usage_completion_tokens=70,
            output_sequence_length=77,
            usage_prompt_tokens=125,
            time_to_first_token=275.0,
            request_latency=1_630.0,
            inter_chunk_latency=[375.0, 25.0],
        )
        record["spec_decode_acceptance"] = {
            "num_spec_steps": 19,
            "num_draft_tokens": 57,
            "num_accepted_draft_tokens": 50,
            "num_spec_tokens": 3,
            "acceptance_histogram": {"0": 1, "1": 1, "2": 2, "3": 15},
        }
        sink, _ = run("aiperf", json.dumps(record).encode())
        (row,) = sink.table("requests")
        assert (row["output_tokens"], row["prompt_tokens"], row["ttft_ms"], row["decode_ms"]) == (70, 125, 275.0, 400.0)
        assert (row["rounds"], row["drafted"], row["accepted"], row["accepted_hist"]) == (19, 57, 50, [1, 1, 2, 15])
        assert row["arrived_at"] == dt.datetime(2026, 9, 14, 8)

    def test_counts_serve_where_there_is_no_acceptance_object(self) -> None:
        record = aiperf_record(spec_decode_steps=5, spec_decode_draft_tokens=15, spec_decode_accepted_draft_tokens=4)
        (row,) = run("aiperf", json.dumps(record).encode())[0].table("requests")
        assert (row["rounds"], row["drafted"], row["accepted"]) == (5, 15, 4)

    def test_a_summary_gives_run_totals(self) -> None:
        summary = {
            "aiperf_version": "0.13.0",
            "start_time": "2026-09-14T10:00:00",
            "end_time": "2026-09-14T10:01:00.5",
            "request_count": {"unit": "requests", "avg": 60.0},
            "usage_completion_tokens": {"unit": "tokens", "avg": 83.3, "sum": 5000.0},
            "spec_decode_steps": {"unit": "count", "sum": 1801.0},
        }
        sink, _ = run("aiperf", json.dumps(summary, indent=2).encode(), timezone="Europe/Berlin")
        (row,) = sink.table("run_totals")
        assert (row["requests"], row["output_tokens"], row["rounds"]) == (60, 5000, 1801)
        assert row["finished_at"] == dt.datetime(2026, 9, 14, 8, 1, 0, 500_000)

    def test_the_raw_export_with_prompts_is_refused_once(self) -> None:
        line = json.dumps({"metadata": {}, "responses": [], "payload": {"messages": "a secret"}}) + "\n"
        sink, progress = run("aiperf", line.encode() * 3)
        assert len(sink.rejects) == 1
        assert progress.offset == 3 * len(line)
        assert "secret" not in repr(sink)

    def test_the_export_of_server_metrics_is_refused_as_what_it_is(self) -> None:
        document = {"schema_version": "1.1", "aiperf_version": "0.13.0", "metrics_phase": "profiling", "metrics": {}}
        sink, _ = run("aiperf", json.dumps(document).encode())
        assert ["server metrics" in reason for _, reason, _ in sink.rejects] == [True]

    @pytest.mark.parametrize(
        ("error", "cancelled", "status"), [({"code": 500}, False, "failed"), (None, True, "aborted")]
    )
    def test_failed_and_cancelled_requests_are_told_apart(self, error, cancelled, status) -> None:
        record = aiperf_record() | ({"error": error} if error else {})
        record["metadata"]["was_cancelled"] = cancelled
        assert run("aiperf", json.dumps(record).encode())[0].table("requests")[0]["status"] == status

    @given(st.lists(st.tuples(TOKENS, st.integers(1, 900), st.integers(0, 900)), min_size=1, max_size=10))
    def test_counts_read_back_exactly_and_a_cut_line_waits(self, facts) -> None:
        lines = []
        for number, (tokens, rounds, accepted) in enumerate(facts):
            record = aiperf_record(
                usage_completion_tokens=tokens, spec_decode_steps=rounds, spec_decode_accepted_draft_tokens=accepted
            )
            record["metadata"]["x_request_id"] = f"r{number}"
            lines.append(json.dumps(record) + "\n")
        content = "".join(lines).encode()
        cut = content[:-7]
        sink, progress = run("aiperf", cut, settled=False)
        read = [(row["output_tokens"], row["rounds"], row["accepted"]) for row in sink.table("requests")]
        assert (read, sink.rejects) == (facts[:-1], [])
        rest, _ = run("aiperf", content[progress.offset :], offset=progress.offset)
        assert [(row["output_tokens"], row["rounds"], row["accepted"]) for row in rest.table("requests")] == facts[-1:]


class TestGuidellm:
    def report(self, **request) -> bytes:
        base = {
            "response_id": "chatcmpl-1",
            "request_start_time": 1_789_372_800.0,
            "request_end_time": 1_789_372_802.0,
            "prompt_tokens": 160,
            "output_tokens": 80,
            "time_to_first_token_ms": 690.0,
            "request_latency": 2.0,
            "output": "a secret",
            "request_args": "a secret",
        }
        benchmark = {
            "start_time": 1_789_372_790.0,
            "end_time": 1_789_372_810.0,
            "duration": 20.0,
            "metrics": {
                "request_totals": {"successful": 1, "errored": 1, "incomplete": 0},
                "output_token_count": {"successful": {"mean": 80.0, "total_sum": 80.0}},
            },
            "requests": {
                "successful": [base | request],
                "errored": [base | {"response_id": "chatcmpl-2"}],
                "incomplete": [],
            },
        }
        return json.dumps({"metadata": {"guidellm_version": "0.8.1"}, "benchmarks": [benchmark]}).encode()

    def test_server_figures_are_preferred_to_the_clients(self) -> None:
        metrics = {"time_to_first_token_ms": 478.0, "queue_time_ms": 2.0, "generation_time_ms": 1_429.0}
        sink, _ = run("guidellm", self.report(response_metrics=metrics))
        good, bad = sink.table("requests")
        assert (good["ttft_ms"], good["client_ttft_ms"], good["decode_ms"], good["decode_from"]) == (
            480.0,
            690.0,
            1_429.0,
            "server",
        )
        assert (bad["status"], bad["decode_ms"]) == ("failed", None)
        assert "secret" not in repr(sink)

    def test_without_server_figures_the_clients_serve(self) -> None:
        good = run("guidellm", self.report())[0].table("requests")[0]
        assert (good["ttft_ms"], good["decode_ms"], good["decode_from"]) == (690.0, 1_310.0, "client")

    def test_totals_of_the_run_are_kept(self) -> None:
        (row,) = run("guidellm", self.report())[0].table("run_totals")
        assert (row["requests"], row["failed"], row["output_tokens"]) == (1, 1, 80)

    def test_a_report_without_benchmarks_is_a_reject(self) -> None:
        assert len(run("guidellm", b'{"metadata": {"guidellm_version": "1"}, "benchmarks": []}')[0].rejects) == 1


def span(attributes: dict[str, object], name: str = "llm_request", **facts) -> dict:
    kinds = {int: "intValue", float: "doubleValue", str: "stringValue"}
    values = [
        {"key": key, "value": {kinds[type(value)]: str(value) if isinstance(value, int) else value}}
        for key, value in attributes.items()
    ]
    return {
        "name": name,
        "traceId": "ab" * 16,
        "spanId": "cd" * 8,
        "startTimeUnixNano": "1789372800000000000",
        "endTimeUnixNano": "1789372801500000000",
        "attributes": values,
        **facts,
    }


def export(*spans: dict) -> dict:
    return {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [{"scope": {}, "spans": list(spans)}]}]}


REQUEST_SPAN = {
    "gen_ai.request.id": "cmpl-1-0",
    "gen_ai.usage.prompt_tokens": 84,
    "gen_ai.usage.completion_tokens": 38,
    "gen_ai.latency.time_to_first_token": 0.125,
    "gen_ai.latency.time_in_queue": 0.0005,
    "gen_ai.latency.time_in_model_prefill": 0.1,
    "gen_ai.latency.time_in_model_decode": 0.8,
    "gen_ai.latency.e2e": 0.9375,
    "gen_ai.request.top_p": 1.0,
    "gen_ai.request.n": 1,
}


class TestOtlp:
    def test_a_request_span_becomes_a_request_and_others_are_passed_over(self) -> None:
        content = json.dumps(export(span({}, "Load model"), span(REQUEST_SPAN))).encode() + b"\n"
        sink, progress = run("otlp", content)
        (row,) = sink.table("requests")
        assert (row["request_id"], row["prompt_tokens"], row["output_tokens"]) == ("cmpl-1-0", 84, 38)
        assert (row["ttft_ms"], row["queue_ms"], row["decode_ms"], row["e2e_ms"]) == (125.0, 0.5, 800.0, 937.5)
        assert row.get("rounds") is None
        assert (sink.rejects, progress.offset) == ([], len(content))
        assert sink.notes == ["Spans that are not named llm_request were passed over: 1."]

    @pytest.mark.parametrize(
        "damage",
        [
            ('"scopeSpans"', '"scopSpans"'),
            ('"spans": [', '"spns": ['),
            ('"spans": [', '"spans": [7, '),
            ('"resourceSpans": [', '"resourceSpans": [null, '),
        ],
    )
    def test_spans_under_a_damaged_name_are_a_reject(self, damage) -> None:
        content = json.dumps(export(span(REQUEST_SPAN))).replace(*damage).encode()
        assert len(run("otlp", content)[0].rejects) == 1

    @pytest.mark.parametrize("scopes", [{}, {"scopeSpans": []}, {"scopeSpans": [{"scope": {}}]}])
    def test_an_export_of_no_spans_is_nothing_to_complain_of(self, scopes) -> None:
        content = json.dumps({"resourceSpans": [{"resource": {}, **scopes}]}).encode()
        sink, progress = run("otlp", content)
        assert (sink.rejects, sink.notes, progress.offset) == ([], [], len(content))

    @pytest.mark.parametrize(
        ("facts", "temperature"),
        [(REQUEST_SPAN, 0.0), (REQUEST_SPAN | {"gen_ai.request.temperature": 0.7}, 0.7), ({}, None)],
    )
    def test_an_absent_temperature_is_zero_only_beside_other_parameters(self, facts, temperature) -> None:
        assert (
            run("otlp", json.dumps(export(span(facts))).encode())[0].table("requests")[0]["temperature"] == temperature
        )

    def test_a_span_with_an_error_status_failed(self) -> None:
        content = json.dumps(export(span(REQUEST_SPAN, status={"code": 2}))).encode()
        assert run("otlp", content)[0].table("requests")[0]["status"] == "failed"

    def test_a_span_without_an_end_is_a_reject(self) -> None:
        content = json.dumps(export(span(REQUEST_SPAN, endTimeUnixNano="0"))).encode()
        assert len(run("otlp", content)[0].rejects) == 1

    def test_protobuf_holds_the_same_as_json(self) -> None:
        message = protobuf(export(span(REQUEST_SPAN), span({}, "Load model")))
        sink, progress = run("otlp", message * 2)
        plain = run("otlp", json.dumps(export(span(REQUEST_SPAN))).encode())[0].table("requests")
        assert [{**row, "byte_offset": 0} for row in sink.table("requests")] == plain * 2
        assert progress.offset == 2 * len(message)

    def test_a_message_of_impossible_length_ends_the_reading(self) -> None:
        message = protobuf(export(span(REQUEST_SPAN)))
        content = message + b"\x7f" + message
        sink, progress = run("otlp", content)
        assert (len(sink.table("requests")), len(sink.rejects), progress.offset) == (1, 1, len(content))

    def test_a_cut_protobuf_message_waits_or_is_a_reject(self) -> None:
        message = protobuf(export(span(REQUEST_SPAN)))
        waiting, progress = run("otlp", message + message[:-3], settled=False)
        assert (len(waiting.table("requests")), waiting.rejects, progress.offset) == (1, [], len(message))
        settled, progress = run("otlp", message + message[:-3])
        assert (len(settled.rejects), progress.offset) == (1, 2 * len(message) - 3)

    @given(st.lists(st.tuples(TOKENS, SECONDS, SECONDS), min_size=1, max_size=10), st.booleans())
    @settings(max_examples=50)
    def test_what_an_exporter_writes_reads_back(self, facts, binary) -> None:
        spans = [
            span(
                {
                    "gen_ai.request.id": f"r{number}",
                    "gen_ai.usage.completion_tokens": tokens,
                    "gen_ai.latency.time_to_first_token": first,
                    "gen_ai.latency.time_in_model_decode": decode,
                }
            )
            for number, (tokens, first, decode) in enumerate(facts)
        ]
        content = protobuf(export(*spans)) if binary else json.dumps(export(*spans)).encode()
        rows = run("otlp", content)[0].table("requests")
        assert [(row["output_tokens"], row["ttft_ms"], row["decode_ms"]) for row in rows] == [
            (tokens, first * 1e3, decode * 1e3) for tokens, first, decode in facts
        ]


def protobuf(document: dict) -> bytes:
    from google.protobuf.json_format import ParseDict
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    message = ParseDict(document, ExportTraceServiceRequest()).SerializeToString()
    return len(message).to_bytes(4, "big") + message


class TestQuality:
    def test_results_of_the_harness_keep_filter_error_and_direction(self) -> None:
        document = {
            "date": 1_789_372_800.5,
            "results": {
                "gsm8k": {"alias": "gsm8k", "exact_match,strict-match": 0.75, "exact_match_stderr,strict-match": 0.01}
            },
            "n-samples": {"gsm8k": {"original": 1319, "effective": 200}},
            "higher_is_better": {"gsm8k": {"exact_match": True}},
        }
        (row,) = run("quality", json.dumps(document, indent=1).encode())[0].table("quality")
        assert (row["task"], row["metric"], row["value"], row["stderr"]) == (
            "gsm8k",
            "exact_match,strict-match",
            0.75,
            0.01,
        )
        assert (row["n"], row["higher_is_better"]) == (200, True)
        assert row["evaluated_at"] == dt.datetime(2026, 9, 14, 8, 0, 0, 500_000)

    def test_a_missing_standard_error_stays_unknown(self) -> None:
        document = {"results": {"t": {"acc,none": 0.5, "acc_stderr,none": "N/A"}}}
        (row,) = run("quality", json.dumps(document).encode())[0].table("quality")
        assert (row["stderr"], row["n"], row["evaluated_at"]) == (None, None, NOON)

    def test_a_figure_that_is_no_number_is_a_reject(self) -> None:
        task = {"alias": "t", "sample_len": 7, "acc,none": float("nan"), "f1,none": "N/A", "em,none": 0.5}
        group = {"alias": "all", " ": " "}
        sink, _ = run("quality", json.dumps({"results": {"t": task, "all": group}}).encode())
        assert [row["metric"] for row in sink.table("quality")] == ["em,none"]
        assert [text for _, _, text in sink.rejects] == ["t: acc,none", "t: f1,none"]

    @pytest.mark.parametrize("results", [{}, {"t": {}}, {"t": {"alias": "t", " ": " "}}, {"t": 1}])
    def test_results_without_a_figure_are_a_reject(self, results: dict) -> None:
        assert len(run("quality", json.dumps({"results": results}).encode())[0].rejects) == 1

    def test_what_is_far_too_long_is_refused_and_read_to_its_end(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(quality, "LONGEST", 100)
        content = b"deployment,task,metric,value,stderr,n\n" + b"d,t,m,1,,\n" * 20
        sink, progress = run("quality", content)
        assert (len(sink.rejects), sink.frames, progress.offset) == (1, {}, len(content))

    def test_a_csv_names_its_own_deployments(self) -> None:
        content = b"deployment,task,metric,value,stderr,n\nfp8,gsm8k,acc,0.71,0.012,1319\n,gsm8k,acc,0.74,,\n"
        first, second = run("quality", content)[0].table("quality")
        assert (first["deployment"], first["value"], first["stderr"], first["n"]) == ("fp8", 0.71, 0.012, 1319)
        assert (second["deployment"], second["stderr"], second["n"]) == ("d", None, None)

    @pytest.mark.parametrize("line", [b"d,t,m,nan,,", b"d,t,m,x,,", b"d,,m,1,,", b"d,t,m,1,oops,", b"d,t,m,1,,1,7"])
    def test_a_line_that_is_no_figure_is_a_reject_with_its_number(self, line: bytes) -> None:
        sink, _ = run("quality", b"deployment,task,metric,value,stderr,n\n" + line + b"\n")
        assert "Line 2" in sink.rejects[0][1]
        assert not sink.frames

    @pytest.mark.parametrize("content", [b",", b'"', b"\r\n,,\r\n", b"deployment,task,metric,value,stderr,n\n"])
    def test_a_csv_without_a_figure_is_a_reject(self, content: bytes) -> None:
        assert len(run("quality", content)[0].rejects) == 1

    def test_a_csv_without_values_is_refused(self) -> None:
        assert "no column value" in run("quality", b"deployment,task,metric\n")[0].rejects[0][1]

    @given(st.dictionaries(st.text(min_size=1, max_size=10), st.floats(-1e6, 1e6), min_size=1, max_size=6))
    def test_what_the_harness_writes_reads_back(self, figures: dict[str, float]) -> None:
        document = {"results": {task: {"acc,none": value} for task, value in figures.items()}}
        rows = run("quality", json.dumps(document).encode())[0].table("quality")
        assert {row["task"]: row["value"] for row in rows} == figures


class TestLongInputs:
    """What is longer than one document may be is read line by line where it holds one a line."""

    @pytest.fixture(autouse=True)
    def _short(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(json_input, "LONGEST_DOCUMENT", 2_000)

    def records(self, count: int) -> bytes:
        lines = []
        for number in range(count):
            record = aiperf_record(usage_completion_tokens=number + 1)
            record["metadata"]["x_request_id"] = f"r{number}"
            lines.append(json.dumps(record) + "\n")
        return "".join(lines).encode()

    @pytest.mark.parametrize("head", [b"", b'{"metadata": {"cut\n', b"\n"])
    def test_records_one_a_line_are_read_whatever_their_number(self, head: bytes) -> None:
        content = head + self.records(30)
        sink, progress = run("aiperf", content)
        assert [row["output_tokens"] for row in sink.table("requests")] == list(range(1, 31))
        assert (len(sink.rejects), progress.offset) == (bool(head.strip()), len(content))

    def test_a_line_that_is_too_long_is_a_reject_between_the_others(self) -> None:
        content = self.records(2) + b'{"x": "' + b"y" * 5_000 + b'"}\n' + self.records(2)
        sink, progress = run("aiperf", content)
        assert (len(sink.table("requests")), len(sink.rejects), progress.offset) == (4, 1, len(content))

    def test_one_document_that_is_too_long_is_a_reject(self) -> None:
        content = json.dumps(bench_result([3] * 1_000), indent=1).encode()
        sink, progress = run("bench", content)
        assert (len(sink.rejects), sink.frames, progress.offset) == (1, {}, len(content))

    def test_what_follows_a_refused_export_is_passed_over(self) -> None:
        content = json.dumps({"metadata": {}, "responses": []}).encode() + b"\n" + self.records(30)
        sink, progress = run("aiperf", content)
        assert (len(sink.rejects), sink.frames, progress.offset) == (1, {}, len(content))


@given(st.sampled_from(["bench", "aiperf", "guidellm", "otlp", "quality"]), st.binary(max_size=200))
def test_any_bytes_are_rejected_and_never_fatal(format_name: str, content: bytes) -> None:
    sink, progress = run(format_name, content)
    assert progress.offset == len(content) or not content.strip()
    assert sink.rejects or not content.strip() or format_name == "quality"
