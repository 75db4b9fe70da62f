"""Start-up records: one row of deployments a server start."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest

from tests.ingest.log_reading import LogSink, read, read_in_parts

ARGS = (
    "(APIServer pid=1) INFO 09-14 08:00:00 [utils.py:254] non-default args: {'model_tag': 'org/target', 'port': 8000, "
    "'api_key': ['s3cret'], 'served_model_name': ['tiny', 'alias'], 'max_model_len': 8192, 'max_num_seqs': 256, "
    "'block_size': 32, 'chat_template': 'be {{ nice }}', 'otlp_traces_endpoint': 'http://me:pw@host/v1', "
    "'speculative_config': {'method': 'eagle', 'model': 'org/head', 'num_speculative_tokens': 3, "
    "'quantization': 'fp8', 'rejection_sample_method': 'probabilistic', "
    "'num_speculative_tokens_per_batch_size': [[1, 8, 3], [9, 64, 1]]}}\n"
)
ENGINE = (
    "(EngineCore_DP0 pid=77) INFO 09-14 08:00:08 [core.py:70] Initializing a V1 LLM engine (v0.19.0) with config: "
    "model='org/target', speculative_config=SpeculativeConfig(method='eagle', model='org/head', num_spec_tokens=3), "
    "tokenizer='org/target', dtype=torch.bfloat16, max_seq_len=8192, tensor_parallel_size=2, pipeline_parallel_size=1, "
    "data_parallel_size=1, quantization=compressed-tensors, enforce_eager=False, kv_cache_dtype=fp8, seed=0, "
    "served_model_name=tiny, enable_prefix_caching=True, compilation_config={'mode': <Mode.X: 3>, "
    "'cudagraph_capture_sizes': [4, 2, 1]}\n"
)
KV = "(EngineCore_DP0 pid=77) INFO 09-14 08:00:40 [kv_cache_utils.py:1087] GPU KV cache size: 120,000 tokens\n"
CONCURRENCY = (
    "(EngineCore_DP0 pid=77) INFO 09-14 08:00:40 [kv_cache_utils.py:1091] Maximum concurrency for 8,192 tokens per "
    "request: 14.65x\n"
)
READY = "INFO:     Application startup complete.\n"
STATS = (
    "(APIServer pid=1) INFO 09-14 08:01:00 [loggers.py:123] Engine 000: Avg prompt throughput: 0.0 tokens/s, "
    "Avg generation throughput: 1.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%\n"
)
YEAR: dict[str, Any] = {"year": 2026, "timezone": "UTC"}


def starts(sink: LogSink) -> list[dict[str, Any]]:
    assert sink.rejects == []
    return sink.table("deployments")


def only(content: str) -> dict[str, Any]:
    (row,) = starts(read(content, **YEAR))
    return row


def test_a_start_is_one_row() -> None:
    row = only(ARGS + ENGINE + KV + CONCURRENCY + READY)
    args = json.loads(row.pop("args"))
    assert row == {
        "started_at": dt.datetime(2026, 9, 14, 8),
        "vllm_version": "0.19.0",
        "engine_version": "V1",
        "model": "org/target",
        "served_model_name": "tiny",
        "draft_method": "eagle",
        "draft_model": "org/head",
        "draft_limit": 3,
        "draft_schedule": "[[1, 8, 3], [9, 64, 1]]",
        "draft_quantization": "fp8",
        "acceptance_rule": "probabilistic",
        "speculative": True,
        "quantization": "compressed-tensors",
        "dtype": "bfloat16",
        "kv_cache_dtype": "fp8",
        "tensor_parallel": 2,
        "pipeline_parallel": 1,
        "data_parallel": 1,
        "max_num_seqs": 256,
        "max_model_len": 8192,
        "kv_tokens": 120_000,
        "block_size": 32,
        "enforce_eager": False,
        "prefix_caching": True,
        "lora": False,
        "capture_sizes": [1, 2, 4],
    }
    assert args["max_num_seqs"] == 256


def test_secrets_and_templates_are_left_out_of_the_arguments() -> None:
    text = only(ARGS + READY)["args"]
    assert "s3cret" not in text
    assert "nice" not in text
    assert "pw" not in text
    assert json.loads(text)["otlp_traces_endpoint"] == "http://host/v1"


def test_secrets_are_in_no_resume_state() -> None:
    sink = read_in_parts(ARGS + ENGINE + KV + STATS, [len(ARGS) + 10], **YEAR)
    assert "s3cret" not in starts(sink)[0]["args"]


def test_size_and_concurrency_may_be_one_line() -> None:
    line = KV.rstrip("\n") + ", Maximum concurrency for 8,192 tokens per request: 14.65x\n"
    assert only(ENGINE + line.replace("GPU", "CPU") + READY)["kv_tokens"] == 120_000


def test_workers_of_one_engine_may_differ_and_the_least_counts() -> None:
    assert only(ENGINE + KV + KV.replace("120,000", "119,984") + READY)["kv_tokens"] == 119_984


@pytest.mark.parametrize("size", ["9" * 20, "9" * 5_000, "1,000,000,000"])
def test_a_size_that_no_memory_has_is_not_known(size: str) -> None:
    assert only(ENGINE + KV.replace("120,000", size) + READY)["kv_tokens"] is None
    blocks = f"INFO 09-14 08:00:30 gpu_executor.py:122] # GPU blocks: {size.replace(',', '')}, # CPU blocks: 512\n"
    assert only(ARGS + ENGINE + blocks + READY)["kv_tokens"] is None


def test_what_the_server_chooses_itself_is_not_known() -> None:
    assert only(ARGS.replace("'max_num_seqs': 256", "'max_num_seqs': -1") + ENGINE + READY)["max_num_seqs"] is None


def test_engines_add_up() -> None:
    other = KV.replace("DP0 pid=77", "DP1 pid=78").replace("120,000", "100,000")
    row = only(ARGS.replace("'port'", "'data_parallel_size': 2, 'port'") + ENGINE + other + KV + READY)
    assert (row["kv_tokens"], row["data_parallel"]) == (220_000, 2)


def test_engines_without_names_are_as_many_as_configured() -> None:
    def unnamed(line: str) -> str:
        return line.partition(") ")[2]

    engine = unnamed(ENGINE).replace("data_parallel_size=1", "data_parallel_size=2")
    assert only(engine + unnamed(KV) + unnamed(KV) + READY)["kv_tokens"] == 240_000


def test_no_speculation_is_said() -> None:
    engine = ENGINE.replace("SpeculativeConfig(method='eagle', model='org/head', num_spec_tokens=3)", "None")
    row = only(engine + READY)
    assert (row["speculative"], row["draft_method"], row["draft_limit"]) == (False, None, None)


def test_arguments_alone_do_not_say_that_there_is_no_speculation() -> None:
    line = "INFO 09-14 08:00:00 [utils.py:254] non-default args: {'model': 'org/speculators-head'}\n"
    assert only(line + READY)["speculative"] is None


def test_a_drafter_without_a_model_has_none() -> None:
    engine = ENGINE.replace("method='eagle', model='org/head'", "method='suffix', model='None'")
    assert only(engine + READY)["draft_model"] is None


def test_the_old_engine_prints_a_namespace_and_blocks() -> None:
    row = only(
        "INFO 09-14 08:00:00 api_server.py:528] vLLM API server version 0.6.4\n"
        "INFO 09-14 08:00:00 api_server.py:529] args: Namespace(host=None, model='org/target', dispatch_function="
        "<function serve at 0x7f>, block_size=16, speculative_model='org/draft', num_speculative_tokens=5, "
        "spec_decoding_acceptance_method='typical_acceptance_sampler', max_num_seqs=128, enable_lora=True)\n"
        "INFO 09-14 08:00:05 llm_engine.py:249] Initializing an LLM engine (v0.6.4) with config: model='org/target', "
        "speculative_config=SpeculativeConfig(draft_model='org/draft', num_spec_tokens=5), dtype=torch.float16, "
        "max_seq_len=4096, tensor_parallel_size=1, kv_cache_dtype=auto\n"
        "INFO 09-14 08:00:30 gpu_executor.py:122] # GPU blocks: 2000, # CPU blocks: 512\n" + READY
    )
    assert (row["vllm_version"], row["engine_version"], row["draft_method"]) == ("0.6.4", "V0", "draft_model")
    assert (row["draft_limit"], row["acceptance_rule"], row["kv_tokens"]) == (5, "typical_acceptance_sampler", 32_000)
    assert (row["lora"], row["dtype"]) == (True, "float16")


def test_every_start_of_a_log_is_a_row() -> None:
    later = (ARGS + ENGINE + KV + STATS).replace("09-14", "09-15").replace("v0.19.0", "v0.20.0")
    rows = starts(read(ARGS + ENGINE + KV + STATS + later, **YEAR))
    assert [(row["started_at"].day, row["vllm_version"]) for row in rows] == [(14, "0.19.0"), (15, "0.20.0")]


def test_a_restart_without_arguments_is_a_start_too() -> None:
    rows = starts(read(ENGINE + KV + STATS + ENGINE.replace("08:00:08", "09:00:00") + KV + STATS, **YEAR))
    assert [row["started_at"].hour for row in rows] == [8, 9]


def test_k_of_the_server_that_is_running_bounds_the_rounds() -> None:
    spec = (
        "(APIServer pid=1) INFO 09-14 08:01:00 [metrics.py:1] SpecDecoding metrics: Draft acceptance rate: 50.0%, "
        "Accepted: 15 tokens, Drafted: 30 tokens\n"
    )
    again = ENGINE.replace("num_spec_tokens=3", "num_spec_tokens=5")
    rows = read(ENGINE + STATS + spec + again + STATS + spec, **YEAR).stats
    assert [(row["draft_limit"], row["rounds"]) for row in rows] == [(3, 10), (5, 6)]


def test_a_start_waits_for_its_end_and_is_told_at_rest() -> None:
    content = ARGS + ENGINE
    assert len(starts(read_in_parts(content, [len(ARGS), len(content)], **YEAR))) == 1


@pytest.mark.parametrize("cut", [len(ARGS) - 40, len(ARGS) - 300])
def test_cut_arguments_are_rejected_and_what_is_known_is_kept(cut: int) -> None:
    sink = read(ARGS[:cut] + "\n" + ENGINE + KV + READY, **YEAR)
    assert len(sink.rejects) == 1
    assert "s3cret" not in str(sink.rejects)
    assert [row["kv_tokens"] for row in sink.table("deployments")] == [120_000]


def test_a_cut_configuration_is_rejected_and_what_is_known_is_kept() -> None:
    sink = read(ENGINE[:-10] + "\n" + KV + READY, **YEAR)
    assert len(sink.rejects) == 1
    assert [row["dtype"] for row in sink.table("deployments")] == ["bfloat16"]


def test_a_log_that_ends_with_its_start_up_gives_the_start_at_once() -> None:
    sink = read(ARGS + ENGINE + KV, settled=False, **YEAR)
    (start,) = sink.table("deployments")
    assert (start["model"], start["kv_tokens"]) == ("org/target", 120_000)


def test_a_start_that_goes_on_in_a_later_read_is_given_again_with_what_is_new() -> None:
    content = ARGS + ENGINE + KV + READY
    sink = read_in_parts(content, [len(ARGS + ENGINE), len(content)], **YEAR)
    assert [row["kv_tokens"] for row in sink.table("deployments")] == [None, 120_000]


def test_a_start_is_not_given_again_without_news() -> None:
    content = ARGS + ENGINE + KV + READY + STATS
    sink = read_in_parts(content, [len(ARGS + ENGINE + KV), len(content)], **YEAR)
    assert len(sink.table("deployments")) == 1
