import datetime as dt
import math
from typing import Any

import pytest

from specledger.ingest import exposition
from tests.ingest.recording import MODIFIED_AT, RecordingSink, read_many

AT = dt.datetime(2026, 9, 14, 8, 0, 0)
LABELS = '{engine="0",model_name="m"}'


def read(*texts: str | bytes, **known: Any) -> RecordingSink:
    return read_many(exposition.read_many, *texts, **{"named_at": AT, **known})[0]


def only(text: str | bytes, **known: Any) -> dict[str, Any]:
    """The one row of a scrape that has nothing to reject."""
    sink = read(text, **known)
    assert sink.rejects == []
    (row,) = sink.snapshots
    return row


WHOLE = r"""# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.7893727095e+09
# HELP vllm:spec_decode_num_drafts_total vllm:spec_decode_num_accepted_tokens_total{engine="0"} 1e9 \\ end
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 1.00036e+06
vllm:spec_decode_num_drafts_created{engine="0",model_name="m"} 1.7893728e+09
vllm:spec_decode_num_draft_tokens_total{model_name="m",engine="0"} 3.00108e+06
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 617.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="1"} 199.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 301.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="2"} 117.0
vllm:spec_decode_num_draft_tokens_per_pos_total{engine="0",model_name="m",position="0"} 400.0
vllm:prompt_tokens_total{engine="0",model_name="m"} 4883.0
vllm:prompt_tokens_cached_total{engine="0",model_name="m"} 3.0
vllm:generation_tokens_total{engine="0",model_name="m"} 976.0
vllm:num_preemptions_total{engine="0",model_name="m"} 0.0
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 4883.0
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 1056.0
vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 7.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="m"} 9.0
vllm:num_requests_running{engine="0",model_name="m"} 6.0
vllm:num_requests_waiting{engine="0",model_name="m"} 1.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 1.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.3
vllm:inter_token_latency_seconds_bucket{engine="0",le="+Inf",model_name="m"} 360.0
vllm:inter_token_latency_seconds_bucket{engine="0",le="0.01",model_name="m"} 0.0
vllm:inter_token_latency_seconds_bucket{engine="0",le="0.025",model_name="m"} 359.0
vllm:inter_token_latency_seconds_count{engine="0",model_name="m"} 360.0
vllm:inter_token_latency_seconds_sum{engine="0",model_name="m"} 8.631084399386555
vllm:iteration_tokens_total_bucket{engine="0",le="8.0",model_name="m"} 10.0
vllm:iteration_tokens_total_bucket{engine="0",le="+Inf",model_name="m"} 11.0
vllm:iteration_tokens_total_count{engine="0",model_name="m"} 11.0
vllm:iteration_tokens_total_sum{engine="0",model_name="m"} 123.0
vllm:cache_config_info{block_size="16",engine="0",kv_cache_size_tokens="None",num_gpu_blocks="1260"} 1.0
http_requests_total{handler="/v1/completions",method="POST"} 9.0
python_info{implementation="CPython"} 1.0
"""


def test_every_series_of_a_scrape_has_its_column() -> None:
    assert only(WHOLE) == {
        "input": 0,
        "byte_offset": 0,
        "scraped_at": AT,
        "instance": "one",
        "engine": 0,
        "model_name": "m",
        "process_started_at": dt.datetime(2026, 9, 14, 7, 58, 29, 500_000),
        "running": 6.0,
        "waiting": 1.0,
        "kv_usage": 0.3,
        "rounds": 1_000_360,
        "drafted": 3_001_080,
        "accepted": 617,
        "accepted_at": [301, 199, 117],
        "drafted_at": [400],
        "prompt_tokens": 4883,
        "prompt_tokens_cached": 3,
        "generation_tokens": 976,
        "preemptions": 0,
        "prefix_queries": 4883,
        "prefix_hits": 1056,
        "finished": {"length": 9, "stop": 7},
        "waiting_by_reason": {"capacity": 1.0},
        "itl": {"le": [0.01, 0.025, math.inf], "n": [0, 359, 360], "sum": 8.631084399386555, "count": 360},
        "iteration_tokens": {"le": [8.0, math.inf], "n": [10, 11], "sum": 123.0, "count": 11},
        "kv_tokens": 20_160,
        "block_size": 16,
    }


def test_a_plain_sink_gets_the_same_rows_without_the_position_of_the_input() -> None:
    class Plain(RecordingSink):
        def reject(self, *_: Any) -> None:  # type: ignore[override]
            raise AssertionError

    from tests.ingest.recording import context, stream

    sink = Plain()
    progress = exposition.read(stream(WHOLE), context(named_at=AT), sink)  # type: ignore[arg-type]
    assert progress.offset == len(WHOLE.encode())
    assert sink.snapshots == [{key: value for key, value in only(WHOLE).items() if key != "input"}]


def test_openmetrics_gives_the_same_row() -> None:
    openmetrics = (
        "# TYPE vllm:spec_decode_num_drafts counter\n"
        'vllm_spec_decode_num_drafts_total{engine="0",model_name="m"} 5.0 # {trace_id="a b"} 1.0 1.5\n'
        'vllm_spec_decode_num_drafts_created{engine="0",model_name="m"} 1.7893728e+09\n'
        "# TYPE vllm:time_to_first_token_seconds histogram\n"
        'vllm_time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="m"} 2.0\n'
        'vllm_time_to_first_token_seconds_count{engine="0",model_name="m"} 2.0\n'
        'vllm_time_to_first_token_seconds_sum{engine="0",model_name="m"} 0.5\n'
        'vllm_time_to_first_token_seconds_created{engine="0",model_name="m"} 1.7893728e+09\n'
        "# EOF\n"
    )
    row = only(openmetrics)
    assert row["rounds"] == 5
    assert row["ttft"] == {"le": [math.inf], "n": [2], "sum": 0.5, "count": 2}
    assert row["process_started_at"] == AT
    assert only(openmetrics.removesuffix("\n")) == row, "the end mark needs no newline"


@pytest.mark.parametrize("prefix", ["vllm:", "vllm_", "ray_vllm_", "ray_vllm:", "my_app:vllm:"])
def test_a_prefix_changes_nothing(prefix: str) -> None:
    row = only(f"{prefix}num_requests_running{LABELS} 3\n{prefix}generation_tokens_total{LABELS} 8\n")
    assert (row["running"], row["generation_tokens"]) == (3.0, 8)


def test_labels_are_unescaped() -> None:
    row = only(r'vllm:num_requests_running{model_name="acme \"draft\" \\v2, {beta} = 3\nnext",engine="1"} 3' + "\n")
    assert row["model_name"] == 'acme "draft" \\v2, {beta} = 3\nnext'
    assert row["engine"] == 1


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("gpu_cache_usage_perc", "kv_usage"),
        ("kv_cache_usage_perc", "kv_usage"),
        ("gpu_prefix_cache_hit_rate", "prefix_hit_rate"),
        ("gpu_prefix_cache_queries_total", "prefix_queries"),
        ("gpu_prefix_cache_hits_total", "prefix_hits"),
        ("prefix_cache_queries_total", "prefix_queries"),
        ("prefix_cache_hits_total", "prefix_hits"),
        ("num_preemptions_total", "preemptions"),
    ],
)
def test_every_name_a_figure_ever_had_fills_its_column(name: str, column: str) -> None:
    assert only(f"vllm:{name}{LABELS} 1\n")[column] == 1


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("time_per_output_token_seconds", "itl"),
        ("inter_token_latency_seconds", "itl"),
        ("request_time_per_output_token_seconds", "request_tpot"),
        ("time_in_queue_requests", "queue"),
        ("request_queue_time_seconds", "queue"),
        ("request_num_preemptions", "request_preemptions"),
    ],
)
def test_every_name_a_histogram_ever_had_fills_its_column(name: str, column: str) -> None:
    text = (
        f'vllm:{name}_bucket{{engine="0",le="1.0",model_name="m"}} 3\n'
        f'vllm:{name}_bucket{{engine="0",le="+Inf",model_name="m"}} 4\n'
        f"vllm:{name}_count{LABELS} 4\nvllm:{name}_sum{LABELS} 5.5\n"
    )
    assert only(text)[column] == {"le": [1.0, math.inf], "n": [3, 4], "sum": 5.5, "count": 4}


@pytest.mark.parametrize("name", ["cache_config", "cache_config_info"])
def test_the_size_of_the_cache_is_in_labels_of_either_name(name: str) -> None:
    row = only(
        f'vllm:{name}{{engine="0",block_size="32",num_gpu_blocks="7",kv_cache_size_tokens="200"}} 1\n'
        f"vllm:num_requests_running{LABELS} 1\n"
    )
    assert (row["kv_tokens"], row["block_size"]) == (200, 32)


@pytest.mark.parametrize(
    "name", ["external_prefix_cache_hits_total", "mm_cache_queries_total", "admission_rejections_total"]
)
def test_what_no_column_takes_is_kept_beside(name: str) -> None:
    sink = read(f'vllm:{name}{{model_name="m",reason="x"}} 6\n')
    assert [(row["metric"], row["labels"], row["value"]) for row in sink.others] == [
        (f"vllm:{name}", {"model_name": "m", "reason": "x"}, 6.0)
    ]


def test_a_diffusion_model_is_said_to_have_no_acceptance_length() -> None:
    sink = read(f"vllm:diffusion_num_denoising_steps{LABELS} 6\nvllm:num_requests_running{LABELS} 1\n")
    assert [row["metric"] for row in sink.others] == ["vllm:diffusion_num_denoising_steps"]
    assert ["diffusion model" in note for note in sink.notes] == [True]
    assert read(WHOLE).notes == []


def test_both_names_of_a_metric_are_one() -> None:
    old = (
        f"vllm:gpu_cache_usage_perc{LABELS} 0.5\n"
        'vllm:time_per_output_token_seconds_bucket{engine="0",le="+Inf",model_name="m"} 7\n'
        f"vllm:time_per_output_token_seconds_count{LABELS} 7\n"
        f"vllm:time_per_output_token_seconds_sum{LABELS} 1\n"
        f"vllm:gpu_prefix_cache_hits_total{LABELS} 4\n"
    )
    new = (
        old.replace("gpu_cache_usage_perc", "kv_cache_usage_perc")
        .replace("time_per_output_token", "inter_token_latency")
        .replace("gpu_prefix", "prefix")
    )
    row = only(new)
    assert (row["kv_usage"], row["itl"]["count"], row["prefix_hits"]) == (0.5, 7, 4)
    assert only(old) == row
    assert only(old.replace(" 7\n", " 6\n") + new) == row, "the new name counts"
    assert only(new + old.replace(" 7\n", " 6\n")) == row, "in any order"
    assert read(old + new).others == []


def test_the_old_name_counts_where_the_new_one_is_incomplete() -> None:
    sink = read(
        'vllm:time_per_output_token_seconds_bucket{engine="0",le="+Inf"} 7\n'
        'vllm:time_per_output_token_seconds_count{engine="0"} 7\n'
        'vllm:inter_token_latency_seconds_bucket{engine="0",le="0.1"} 7\n'
        'vllm:num_requests_running{engine="0"} 1\n'
    )
    assert sink.snapshots[0]["itl"]["n"] == [7]
    assert sink.rejects == []


def test_a_missing_engine_label_is_engine_zero() -> None:
    row = only('vllm:num_requests_running{model_name="m"} 3\n')
    assert (row["engine"], row["model_name"]) == (0, "m")


def test_engines_and_models_have_rows_of_their_own() -> None:
    sink = read(
        'vllm:num_requests_running{engine="0",model_name="a"} 1\n'
        'vllm:num_requests_running{engine="1",model_name="a"} 2\n'
        'vllm:num_requests_running{engine="0",model_name="b"} 3\n'
        'vllm:num_requests_running{engine="10",model_name="a"} 4\n'
    )
    assert [(row["engine"], row["model_name"], row["running"]) for row in sink.snapshots] == [
        (0, "a", 1.0),
        (0, "b", 3.0),
        (1, "a", 2.0),
        (10, "a", 4.0),
    ]


def test_an_engine_that_is_no_number_is_rejected() -> None:
    sink = read(f'vllm:num_requests_running{{engine="x",model_name="m"}} 1\nvllm:num_requests_running{LABELS} 2\n')
    assert [row["running"] for row in sink.snapshots] == [2.0]
    assert sink.reasons == ["the engine label 'x' is no number, so these series belong to no engine"]


def test_unknown_series_are_kept_as_they_are() -> None:
    sink = read(
        'vllm:novel_total{engine="0",flavour="b\\\\c\\"d\\ne"} 2e+02\n'
        'vllm:novel_state{note="a b} {c"} NaN\n'
        "vllm:novel_limit +Inf\n"
        "vllm:novel_created 1.7e9\n"
        "other:novel_total 5\n"
    )
    assert sink.snapshots == []
    assert sink.rejects == []
    found = {row["metric"]: (row["labels"], row["value"], row["scraped_at"], row["instance"]) for row in sink.others}
    assert math.isnan(found["vllm:novel_state"][1])
    assert found == {
        "vllm:novel_total": ({"engine": "0", "flavour": 'b\\c"d\ne'}, 200.0, AT, "one"),
        "vllm:novel_state": ({"note": "a b} {c"}, found["vllm:novel_state"][1], AT, "one"),
        "vllm:novel_limit": ({}, math.inf, AT, "one"),
    }


def test_the_old_hit_rate_of_minus_one_is_none() -> None:
    row = only('vllm:gpu_prefix_cache_hit_rate{model_name="m"} -1\nvllm:num_requests_running{model_name="m"} 1\n')
    assert row["prefix_hit_rate"] is None
    assert only('vllm:gpu_prefix_cache_hit_rate{model_name="m"} 0.25\n')["prefix_hit_rate"] == 0.25


def test_the_earliest_birth_of_an_engine_is_its_start() -> None:
    sink = read(
        'vllm:generation_tokens_total{engine="0"} 5\n'
        'vllm:generation_tokens_created{engine="0"} 1789372800.25\n'
        'vllm:novel_created{engine="0",source="x"} 1789372800.125\n'
        'vllm:generation_tokens_total{engine="1"} 5\n'
        'vllm:generation_tokens_created{engine="1"} 1789372900\n'
        'vllm:admission_rejections_created{reason="x"} 1789372700\n'
    )
    assert [row["process_started_at"] for row in sink.snapshots] == [
        AT + dt.timedelta(seconds=0.125),
        AT + dt.timedelta(seconds=100),
    ]


def test_without_start_and_births_the_start_is_not_known() -> None:
    assert only(f"vllm:generation_tokens_total{LABELS} 5\n")["process_started_at"] is None


@pytest.mark.parametrize("changed", [dt.datetime(1980, 1, 1), dt.datetime(2446, 5, 10)])
def test_a_last_change_that_cannot_be_is_no_time_of_a_scrape(changed: dt.datetime) -> None:
    text = f"vllm:generation_tokens_total{LABELS} 5\n"
    sink = read(text, named_at=None, modified_at=changed)
    assert (sink.snapshots, len(sink.rejects)) == ([], 1)
    assert only(text, modified_at=changed)["scraped_at"] == AT


@pytest.mark.parametrize("mark", ["", "# scraped_at 1789372800\n"])
def test_a_byte_order_mark_hides_no_line(mark: str) -> None:
    text = f"{mark}vllm:num_requests_running{LABELS} 3\n".encode()
    row = only(b"\xef\xbb\xbf" + text)
    assert (row["scraped_at"], row["running"]) == (AT, 3.0)


def test_a_start_that_cannot_be_is_told_once_a_scrape() -> None:
    tokens = "".join(f'vllm:generation_tokens_total{{engine="{engine}",model_name="m"}} 5\n' for engine in range(2))
    sink = read("process_start_time_seconds 9e+12\n" + tokens)
    assert [row["process_started_at"] for row in sink.snapshots] == [None, None]
    assert [reject.text for reject in sink.rejects] == ["process_start_time_seconds 9e+12"]
    assert "process_started_at is not a time that can be" in sink.rejects[0].reason


def test_births_that_cannot_be_leave_the_start_to_the_others() -> None:
    births = [("generation_tokens", "-5"), ("prompt_tokens", "-6"), ("num_preemptions", "1789372800")]
    sink = read("".join(f"vllm:{name}_total{LABELS} 5\nvllm:{name}_created{LABELS} {at}\n" for name, at in births))
    assert [row["process_started_at"] for row in sink.snapshots] == [AT]
    assert [reject.text for reject in sink.rejects] == ["vllm:generation_tokens_created -5"]


def test_behind_a_wrapper_the_start_is_not_that_of_the_engine() -> None:
    row = only('process_start_time_seconds 1789372800\nray_vllm_generation_tokens_total{engine="0"} 5\n')
    assert row["process_started_at"] is None


def test_replicas_behind_one_address_are_servers_of_their_own() -> None:
    sink = read(
        'ray_vllm_generation_tokens_total{engine="0",ReplicaId="a",WorkerId="1"} 5\n'
        'ray_vllm_generation_tokens_total{engine="0",ReplicaId="b",WorkerId="2"} 6\n'
    )
    assert [(row["instance"], row["generation_tokens"]) for row in sink.snapshots] == [("one/a", 5), ("one/b", 6)]


def test_servers_behind_one_address_keep_their_names() -> None:
    text = "".join(
        f'vllm:generation_tokens_total{{instance="{name}:8000",job="llm"}} {tokens}\n'
        f'vllm:new{{instance="{name}:8000"}} 1\n'
        for name, tokens in (("a", 5), ("b", 6))
    )
    sink = read(text)
    assert [(row["instance"], row["generation_tokens"]) for row in sink.snapshots] == [("a:8000", 5), ("b:8000", 6)]
    assert [row["instance"] for row in sink.others] == ["a:8000", "b:8000"]
    given = read('vllm:generation_tokens_total{instance="a:8000"} 5\n', instance_given=True)
    assert [row["instance"] for row in given.snapshots] == ["one"]
    assert [row["instance"] for row in read(text, instance_given=True).snapshots] == ["a:8000", "b:8000"]


def test_one_instance_scraped_by_two_jobs_is_told_apart() -> None:
    sink = read(
        'vllm:generation_tokens_total{instance="a",job="x"} 5\nvllm:generation_tokens_total{instance="a",job="y"} 6\n'
    )
    assert [(row["instance"], row["generation_tokens"]) for row in sink.snapshots] == [("x/a", 5), ("y/a", 6)]


def test_a_label_that_no_column_knows_splits_no_row() -> None:
    sink = read(
        f"vllm:generation_tokens_total{LABELS} 5\n"
        'vllm:num_preemptions_total{cause="a",engine="0",model_name="m"} 1\n'
        'vllm:num_preemptions_total{cause="b",engine="0",model_name="m"} 2\n'
    )
    (row,) = sink.snapshots
    assert row["generation_tokens"] == 5
    assert "preemptions" not in row
    assert [(other["labels"]["cause"], other["value"]) for other in sink.others] == [("a", 1.0), ("b", 2.0)]


def test_series_without_model_belong_to_the_only_model_of_the_engine() -> None:
    row = only('vllm:num_requests_running{engine="0",model_name="m"} 1\nvllm:num_preemptions_total{engine="0"} 4\n')
    assert (row["model_name"], row["preemptions"]) == ("m", 4)
    sink = read(
        'vllm:num_requests_running{engine="0",model_name="a"} 1\n'
        'vllm:num_requests_running{engine="0",model_name="b"} 1\n'
        'vllm:num_preemptions_total{engine="0"} 4\n'
    )
    assert [row.get("preemptions") for row in sink.snapshots] == [None, None]
    assert [row["metric"] for row in sink.others] == ["vllm:num_preemptions_total"]


@pytest.mark.parametrize(
    ("value", "reason"),
    [("-1", "is not a count"), ("1.5", "is not a count"), ("+Inf", "is not a count"), ("1e16", "is not a count")],
)
def test_a_counter_that_is_no_count_is_left_out(value: str, reason: str) -> None:
    sink = read(f"vllm:generation_tokens_total{LABELS} {value}\nvllm:num_requests_running{LABELS} 1\n")
    (row,) = sink.snapshots
    assert (row["generation_tokens"], row["running"]) == (None, 1.0)
    assert len(sink.rejects) == 1
    assert reason in sink.reasons[0]
    assert "generation_tokens" in sink.reasons[0]


def test_a_counter_of_nan_is_no_value_and_no_fault() -> None:
    row = only(f"vllm:generation_tokens_total{LABELS} NaN\nvllm:num_requests_running{LABELS} 1\n")
    assert row["generation_tokens"] is None


def test_counters_are_exact_to_the_unit() -> None:
    row = only(f"vllm:generation_tokens_total{LABELS} 9.007199254740991e+15\n")
    assert row["generation_tokens"] == 2**53 - 1


def test_kv_usage_is_a_share() -> None:
    sink = read(f"vllm:kv_cache_usage_perc{LABELS} 62.5\nvllm:num_requests_running{LABELS} 1\n")
    assert sink.snapshots[0]["kv_usage"] is None
    assert "not a share between 0 and 1" in sink.reasons[0]


def test_v0_counters_are_refused_in_words_and_the_rest_is_kept() -> None:
    sink = read(
        'vllm:spec_decode_efficiency{model_name="m"} 0.343\n'
        'vllm:spec_decode_num_accepted_tokens_total{model_name="m"} 5565.0\n'
        'vllm:spec_decode_num_draft_tokens_total{model_name="m"} 25200.0\n'
        'vllm:spec_decode_num_emitted_tokens_total{model_name="m"} 11036.0\n'
        'vllm:num_requests_running{model_name="m"} 6.0\n'
    )
    (row,) = sink.snapshots
    assert row["running"] == 6.0
    assert not row.keys() & {"accepted", "drafted", "rounds"}
    assert len(sink.rejects) == 1
    assert "V0 engine" in sink.reasons[0]
    assert "log" in sink.reasons[0]
    assert [other["metric"] for other in sink.others] == ["vllm:spec_decode_efficiency"]


def test_v0_counters_are_known_without_their_signs() -> None:
    sink = read(
        'vllm:spec_decode_num_accepted_tokens_total{model_name="m"} 5\nvllm:num_requests_running{model_name="m"} 6\n'
    )
    assert "accepted" not in sink.snapshots[0]
    assert "V0 engine" in sink.reasons[0]


def test_early_v1_without_rounds_is_not_v0() -> None:
    row = only(
        f"vllm:spec_decode_num_accepted_tokens_total{LABELS} 5\nvllm:spec_decode_num_draft_tokens_total{LABELS} 9\n"
    )
    assert (row["accepted"], row["drafted"]) == (5, 9)


def test_scrapes_of_a_file_have_the_times_before_them() -> None:
    text = (
        f"# scraped_at 1789372800.25\nvllm:num_requests_running{LABELS} 1\n"
        f"# scraped_at 1789372815\nvllm:num_requests_running{LABELS} 2\n"
    )
    sink = read(text)
    assert [(row["scraped_at"], row["running"], row["byte_offset"]) for row in sink.snapshots] == [
        (AT + dt.timedelta(seconds=0.25), 1.0, 0),
        (AT + dt.timedelta(seconds=15), 2.0, text.index("# scraped_at 1789372815")),
    ]


def test_our_own_collector_names_the_server() -> None:
    text = (
        f"# scraped_at 1789372800\n# scraped_from http://10.0.0.7:8000/metrics\nvllm:num_requests_running{LABELS} 1\n"
    )
    assert only(text)["instance"] == "10.0.0.7:8000"
    assert only(text, instance_given=True)["instance"] == "one"


def test_the_time_is_in_the_name_else_on_the_samples_else_that_of_the_file() -> None:
    plain = f"vllm:num_requests_running{LABELS} 1\n"
    stamped = f"vllm:num_requests_running{LABELS} 1 1789372801439\n"
    assert only(plain, named_at=AT)["scraped_at"] == AT
    assert only(stamped, named_at=AT)["scraped_at"] == AT
    assert only(stamped, named_at=None)["scraped_at"] == AT + dt.timedelta(seconds=1.439)
    assert only(plain, named_at=None)["scraped_at"] == MODIFIED_AT


def test_inputs_of_one_batch_are_told_apart() -> None:
    sink = read(f"vllm:num_requests_running{LABELS} 1\n", "", f"vllm:num_requests_running{LABELS} 2\n")
    assert [(row["input"], row["running"]) for row in sink.snapshots] == [(0, 1.0), (2, 2.0)]
    assert [reject.position for reject in sink.rejects] == [1]


def test_line_ends_of_windows_change_nothing() -> None:
    assert only(WHOLE.replace("\n", "\r\n")) == only(WHOLE)


def test_blank_lines_and_comments_change_nothing() -> None:
    assert only(WHOLE.replace("\nvllm:", "\n\n# just a comment\n   \nvllm:")) == only(WHOLE)


def test_more_engines_than_any_fleet_has_are_rejected() -> None:
    sink = read("".join(f'vllm:num_requests_running{{engine="{engine}"}} 1\n' for engine in range(1500)))
    assert sink.snapshots == []
    assert sink.reasons == ["the scrape has more than 1024 engines and models and was not read"]
