"""Saved answers of a Prometheus server."""

import datetime as dt
import json
import math
import re
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specledger.ingest import exposition, prometheus_api
from tests.ingest.exposition_writer import answers, draw, expected, stated
from tests.ingest.recording import RecordingSink, read_many
from tests.scale import scaled, tried

AT = dt.datetime(2026, 9, 14, 8, 0, 0)
T = 1789372800


def read(*texts: str | bytes, **known: Any) -> RecordingSink:
    return read_many(prometheus_api.read_many, *texts, **known)[0]


def matrix(*series: dict[str, Any], kind: str = "matrix") -> str:
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": list(series)}})


def series(name: str, *values: tuple[float, str], **labels: str) -> dict[str, Any]:
    return {
        "metric": {"__name__": name, "engine": "0", "model_name": "m", "instance": "a:8000", "job": "llm", **labels},
        "values": [list(pair) for pair in values],
    }


def test_series_at_one_time_are_one_row() -> None:
    sink = read(
        matrix(
            series("vllm:spec_decode_num_drafts_total", (T + 0.25, "0"), (T + 15.25, "360.0")),
            series("vllm:spec_decode_num_accepted_tokens_total", (T + 0.25, "0"), (T + 15.25, "639.0")),
            series("vllm:inter_token_latency_seconds_bucket", (T + 15.25, "4"), le="0.01"),
            series("vllm:inter_token_latency_seconds_bucket", (T + 15.25, "9"), le="+Inf"),
            series("vllm:inter_token_latency_seconds_count", (T + 15.25, "9")),
            series("vllm:inter_token_latency_seconds_sum", (T + 15.25, "0.5")),
            {"metric": {"__name__": "process_start_time_seconds", "instance": "a:8000", "job": "llm"},
             "values": [[T + 15.25, "1789372709.5"]]},
        )
    )  # fmt: skip
    first, second = sink.snapshots
    assert sink.rejects == []
    assert (first["rounds"], first["accepted"], first["itl"], first["process_started_at"]) == (0, 0, None, None)
    assert first["scraped_at"] == AT + dt.timedelta(seconds=0.25)
    assert first["instance"] == "a:8000"
    assert first["byte_offset"] is None
    assert second["itl"] == {"le": [0.01, math.inf], "n": [4, 9], "sum": 0.5, "count": 9}
    assert second["process_started_at"] == dt.datetime(2026, 9, 14, 7, 58, 29, 500_000)


def test_a_vector_is_one_row() -> None:
    one = series("vllm:num_requests_running")
    del one["values"]
    sink = read(matrix(one | {"value": [T, "3"]}, kind="vector"))
    assert [(row["scraped_at"], row["running"]) for row in sink.snapshots] == [(AT, 3.0)]


def test_a_stale_point_is_no_value() -> None:
    sink = read(
        matrix(
            series("vllm:kv_cache_usage_perc", (T, "0.5"), (T + 15, "NaN")),
            series("vllm:num_requests_running", (T, "1"), (T + 15, "2")),
            series("vllm:novel", (T, "1"), (T + 15, "NaN")),
        )
    )
    assert [row["kv_usage"] for row in sink.snapshots] == [0.5, None]
    assert [row["value"] for row in sink.others] == [1.0]


def test_two_servers_with_the_same_engine_are_two() -> None:
    sink = read(
        matrix(
            series("vllm:generation_tokens_total", (T, "5")),
            series("vllm:generation_tokens_total", (T, "7"), instance="b:8000"),
        ),
        instance_given=True,
    )
    assert [(row["instance"], row["generation_tokens"]) for row in sink.snapshots] == [("a:8000", 5), ("b:8000", 7)]


def test_the_only_server_has_the_name_the_user_gave() -> None:
    text = matrix(series("vllm:generation_tokens_total", (T, "5")))
    assert read(text, instance_given=True).snapshots[0]["instance"] == "one"
    assert read(text).snapshots[0]["instance"] == "a:8000"


def test_two_jobs_that_scrape_one_server_are_told_apart() -> None:
    sink = read(
        matrix(
            series("vllm:generation_tokens_total", (T, "5")),
            series("vllm:generation_tokens_total", (T + 1, "7"), job="other"),
        )
    )
    assert [(row["instance"], row["generation_tokens"]) for row in sink.snapshots] == [
        ("llm/a:8000", 5),
        ("other/a:8000", 7),
    ]


def test_a_span_may_be_saved_metric_by_metric() -> None:
    sink = read(
        matrix(series("vllm:generation_tokens_total", (T, "5"), (T + 15, "6"))),
        matrix(series("vllm:num_requests_running", (T, "1"), (T + 15, "2"))),
    )
    assert [(row["generation_tokens"], row["running"]) for row in sink.snapshots] == [(5, 1.0), (6, 2.0)]


def test_answers_that_overlap_count_once() -> None:
    text = matrix(series("vllm:generation_tokens_total", (T, "5"), (T + 15, "6")))
    sink = read(text, text)
    assert [row["generation_tokens"] for row in sink.snapshots] == [5, 6]


def test_answers_may_stand_one_a_line_or_be_indented() -> None:
    text = matrix(series("vllm:generation_tokens_total", (T, "5")))
    later = matrix(series("vllm:generation_tokens_total", (T + 15, "6")))
    assert len(read(f"{text}\n{later}\n").snapshots) == 2
    indented = json.dumps(json.loads(text), indent=2, sort_keys=True)
    assert [row["generation_tokens"] for row in read(indented).snapshots] == [5]


def test_warnings_of_the_server_are_passed_on() -> None:
    answer = json.loads(matrix(series("vllm:generation_tokens_total", (T, "5")))) | {"warnings": ["a store is down"]}
    assert read(json.dumps(answer)).notes == ["the server said of its answer: a store is down"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"status":"error","errorType":"bad_data","error":"parse error"}', "answered with an error (parse error)"),
        ('{"status":"error","error":"x","data":{"result":[]}}', "answered with an error (x)"),
        ('{"status":"success","data":{"resultType":"matrix","result":[{"metric":', "is no JSON, or was cut"),
        ("", "is no JSON, or was cut"),
        ("[" * 100_000, "is no JSON, or was cut"),
        ('{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}', "is a scalar"),
        ('{"status":"success","data":{"resultType":"matrix"}}', "holds no query result"),
        ("[1]", "not that of a Prometheus server"),
        (matrix({"metric": {"job": "x"}, "values": [[T, "1"]]}), "no metric name"),
        (matrix({"metric": {"__name__": "vllm:x"}}), "no labels and values"),
        (matrix({"metric": {"__name__": "vllm:x"}, "values": [[T, "one"]]}), "no labels and values"),
        (matrix({"metric": {"__name__": "vllm:x"}, "values": [[-1, "1"]]}), "no number of unix seconds"),
        (matrix({"metric": {"__name__": "vllm:x"}, "histograms": []}), "native histogram"),
        (matrix({"metric": {"__name__": "up"}, "values": [[T, "1"]]}), "holds no vLLM series"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_one_reject_that_says_why(text: str, why: str) -> None:
    sink = read(text)
    assert sink.snapshots == []
    assert sink.others == []
    assert len(sink.rejects) == 1
    assert why in sink.reasons[0]


def test_an_answer_that_is_too_long_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus_api, "MAX_BYTES", 100)
    text = matrix(series("vllm:generation_tokens_total", (T, "5")))
    sink, (progress,) = read_many(prometheus_api.read_many, text)
    assert sink.snapshots == []
    assert "was not read" in sink.reasons[0]
    assert progress.offset == len(text)


@settings(max_examples=scaled(25), deadline=None)
@given(
    st.dictionaries(
        st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 2)),
        st.dictionaries(
            st.integers(0, 50), st.tuples(st.integers(0, 2**53), st.integers(0, 9)), min_size=1, max_size=8
        ),
        min_size=1,
        max_size=4,
    ),
    st.randoms(use_true_random=False),
)
def test_random_answers_are_read_back_exactly(facts: dict[Any, dict[int, Any]], random: Any) -> None:
    parts = []
    for (server, engine), points in facts.items():
        labels = {"instance": server, "engine": str(engine)}
        for name, which in (("vllm:generation_tokens_total", 0), ("vllm:num_requests_running", 1)):
            parts.append(series(name, *((T + at, str(values[which])) for at, values in points.items()), **labels))
    random.shuffle(parts)
    pages = [matrix(*parts[:1]), matrix(*parts[1:])]
    rows = {
        (row["instance"], row["engine"], row["scraped_at"]): (row["generation_tokens"], row["running"])
        for row in read(*pages).snapshots
    }
    assert rows == {
        (server, engine, AT + dt.timedelta(seconds=at)): values
        for (server, engine), points in facts.items()
        for at, values in points.items()
    }


@settings(max_examples=scaled(30), deadline=None)
@given(st.integers(0, 2**64))
def test_what_a_server_answers_is_read_back_exactly(seed: int) -> None:
    random = Random(seed)
    told = {T + 15.0 * number + random.choice([0.0, 0.25]): draw(random) for number in range(random.randint(1, 5))}
    texts = answers(told, random, {"instance": "a:8000", "job": "llm"})
    files = ["\n".join(texts)] if random.random() < 0.5 else texts
    if random.random() < 0.3:
        files = [json.dumps(json.loads(text), indent=random.choice([1, 4])) for text in texts]
    sink = read(*files)
    assert sink.rejects == []
    assert {(row["scraped_at"], row["engine"], row["model_name"]): stated(row) for row in sink.snapshots} == {
        (AT + dt.timedelta(seconds=at - T), *place): columns
        for at, facts in told.items()
        for place, columns in expected(facts).items()
    }
    tried("rows of Prometheus answers read back", len(sink.snapshots) + len(sink.others))
    tried("samples of Prometheus answers read back", sum(len(re.findall(r'\[[\d.]+, "', text)) for text in texts))
    assert sorted((row["scraped_at"], row["metric"], row["value"]) for row in sink.others) == sorted(
        (AT + dt.timedelta(seconds=at - T), f"vllm:{name}", value)
        for at, facts in told.items()
        for (name, _), value in facts.others.items()
    )


def test_the_same_samples_as_exposition_and_as_answer_give_the_same_columns() -> None:
    text = "".join(
        f'vllm:{name}{{engine="0",model_name="m"{label}}} {value}\n'
        for name, label, value in (
            ("spec_decode_num_drafts_total", "", 5),
            ("spec_decode_num_accepted_tokens_per_pos_total", ',position="0"', 4),
            ("spec_decode_num_accepted_tokens_per_pos_total", ',position="1"', 3),
            ("request_success_total", ',finished_reason="stop"', 2),
            ("num_requests_running", "", 1),
        )
    )
    answer = matrix(
        series("vllm:spec_decode_num_drafts_total", (T, "5")),
        series("vllm:spec_decode_num_accepted_tokens_per_pos_total", (T, "4"), position="0"),
        series("vllm:spec_decode_num_accepted_tokens_per_pos_total", (T, "3"), position="1"),
        series("vllm:request_success_total", (T, "2"), finished_reason="stop"),
        series("vllm:num_requests_running", (T, "1")),
    )
    (one,) = read_many(exposition.read_many, text, named_at=AT)[0].snapshots
    (other,) = read(answer).snapshots
    assert {**one, "instance": "a:8000", "byte_offset": None} == other
