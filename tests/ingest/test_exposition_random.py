"""Random scrapes: read back exactly, alike however they are packed, and never a crash or a silent loss."""

import datetime as dt
import re
from random import Random
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from specledger.ingest import exposition
from tests.captures import DATA
from tests.ingest.exposition_writer import draw, expected, stated, write
from tests.ingest.recording import RecordingSink, read_many
from tests.scale import scaled, tried
from tests.simulator.text import HISTOGRAMS

AT = dt.datetime(2026, 9, 14, 8, 0, 0)
MARK = re.compile(r"^# scraped_at .*\n", re.MULTILINE)


def read(*texts: str | bytes) -> RecordingSink:
    return read_many(exposition.read_many, *texts, named_at=AT)[0]


def scrapes(capture: str) -> list[str]:
    """The scrapes of a real capture."""
    with (DATA / capture / "metrics.prom.zst").open("rb") as file:
        text = zstandard.ZstdDecompressor().stream_reader(file).read().decode()
    return MARK.split(text)[1:]


@settings(max_examples=scaled(50), deadline=None)
@given(st.integers(0, 2**64), st.booleans())
def test_what_a_writer_says_is_read_back_exactly(seed: int, openmetrics: bool) -> None:
    random = Random(seed)
    facts = draw(random)
    text = write(facts, random, openmetrics=openmetrics)
    sink = read(text)
    assert sink.rejects == []
    assert {(row["engine"], row["model_name"]): stated(row) for row in sink.snapshots} == expected(facts)
    assert {
        (row["metric"].rpartition("vllm")[2][1:], tuple(row["labels"].items())): row["value"] for row in sink.others
    } == facts.others
    which = "OpenMetrics" if openmetrics else "Prometheus text"
    tried(f"rows of {which} read back", len(sink.snapshots) + len(sink.others))
    tried(f"samples of {which} read back", sum("vllm" in line and line[0] != "#" for line in text.split("\n")))


@settings(max_examples=scaled(10), deadline=None)
@given(st.integers(0, 2**64))
def test_packing_changes_nothing(seed: int) -> None:
    random = Random(seed)
    texts = [write(draw(random), random) for _ in range(random.randint(1, 6))]
    marked = "".join(f"# scraped_at {1000 + number}\n{text}" for number, text in enumerate(texts))
    apart = [f"# scraped_at {1000 + number}\n{text}" for number, text in enumerate(texts)]

    def told(sink: RecordingSink) -> list[Any]:
        rows = [
            {k: v for k, v in row.items() if k not in {"input", "byte_offset"}} for row in sink.snapshots + sink.others
        ]
        return sorted(rows, key=repr)

    assert told(read(marked)) == told(read(*apart))


@settings(max_examples=scaled(50), deadline=None)
@given(st.integers(0, 2**64))
def test_a_cut_anywhere_leaves_only_values_that_were_said(seed: int) -> None:
    random = Random(seed)
    facts = draw(random)
    text = write(facts, random).encode()
    cut = random.randrange(1, len(text))
    while text[cut - 1 : cut] == b"\n":
        cut -= 1  # between two lines not every cut can be told
    sink = read(text[:cut])
    said = expected(facts)
    for row in sink.snapshots:
        columns = said[row["engine"], row["model_name"]]
        assert {name: columns[name] for name in stated(row)} == stated(row)
    assert sink.rejects


@pytest.mark.parametrize("capture", ["dp2_one_api_server", "default_flags", "dynamic_sd"])
def test_the_parser_of_the_prometheus_client_sees_the_same_in_real_scrapes(capture: str) -> None:
    texts = scrapes(capture)
    for text in (texts[0], texts[len(texts) // 2], texts[-1]):
        sink = read(text)
        assert sink.rejects == []
        samples = {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }
        used = _same(sink, samples)
        left = {name for name, _ in samples.keys() - used if name.startswith("vllm:") and not name.endswith("_created")}
        assert left == {"vllm:cache_config_info"}


def _same(sink: RecordingSink, samples: dict[Any, float]) -> set[Any]:
    """Check every value of the rows against the samples; the samples that were found in rows."""
    used = set()

    def sample(name: str, row: dict[str, Any], **labels: str) -> float:
        own = {"engine": str(row["engine"]), "model_name": row["model_name"], **labels}
        key = (f"vllm:{name}", tuple(sorted(own.items())))
        used.add(key)
        return samples[key]

    for row in sink.snapshots:
        for column, name in COLUMNS.items():
            value = row[column]
            if isinstance(value, dict) and "le" in value:
                edges = ["+Inf" if edge == float("inf") else str(edge) for edge in value["le"]]
                assert value["n"] == [sample(f"{name}_bucket", row, le=edge) for edge in edges]
                assert value["sum"] == sample(f"{name}_sum", row)
                assert value["count"] == sample(f"{name}_count", row)
            elif isinstance(value, dict):
                label = "finished_reason" if column == "finished" else "reason"
                assert all(count == sample(name, row, **{label: key}) for key, count in value.items())
            elif isinstance(value, list):
                assert value == [sample(name, row, position=str(place)) for place in range(len(value))]
            else:
                assert value == sample(name, row)
    for row in sink.others:
        key = (row["metric"], tuple(sorted(row["labels"].items())))
        assert samples[key] == row["value"]
        used.add(key)
    return used


COLUMNS = {
    "running": "num_requests_running",
    "waiting": "num_requests_waiting",
    "kv_usage": "kv_cache_usage_perc",
    "rounds": "spec_decode_num_drafts_total",
    "drafted": "spec_decode_num_draft_tokens_total",
    "accepted": "spec_decode_num_accepted_tokens_total",
    "accepted_at": "spec_decode_num_accepted_tokens_per_pos_total",
    "prompt_tokens": "prompt_tokens_total",
    "prompt_tokens_cached": "prompt_tokens_cached_total",
    "generation_tokens": "generation_tokens_total",
    "preemptions": "num_preemptions_total",
    "prefix_queries": "prefix_cache_queries_total",
    "prefix_hits": "prefix_cache_hits_total",
    "finished": "request_success_total",
    "waiting_by_reason": "num_requests_waiting_by_reason",
    **HISTOGRAMS,
}


REAL = [text.encode() for text in scrapes("dp2_one_api_server")[::30]]


@settings(max_examples=scaled(100), deadline=None)
@given(st.integers(0, 2**64))
def test_damage_is_never_a_crash_and_never_silent(seed: int) -> None:
    random = Random(seed)
    text = bytearray(random.choice(REAL))
    start = random.randrange(len(text))
    text = text[start : start + random.randint(1, 20_000)]
    for _ in range(random.randint(0, 20)):
        kind = random.randrange(4)
        place = random.randrange(len(text) + 1)
        if kind == 0 and place < len(text):
            text[place] ^= 1 << random.randrange(8)
        elif kind == 1:
            text[place:place] = random.randbytes(random.randint(1, 20))
        elif kind == 2:
            del text[place : place + random.randint(1, 200)]
        else:
            other = random.choice(REAL)
            begin = random.randrange(len(other))
            text[place:place] = other[begin : begin + random.randint(1, 500)]
    if random.random() < 0.5:
        text = bytearray(b"# scraped_at 1789372800\n") + text
    sink, (progress,) = read_many(exposition.read_many, bytes(text), named_at=AT)
    assert progress.offset == len(text)
    tried("damaged scrapes")
    assert sink.snapshots or sink.others or sink.rejects


@settings(max_examples=scaled(60), deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_rows_or_rejects(text: bytes) -> None:
    sink = read(text)
    assert sink.snapshots or sink.others or sink.rejects
