"""Damaged logs: never a crash, never a hang, never a silent loss; and real logs, counted by grep."""

from __future__ import annotations

import re
from random import Random

import polars as pl
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from specledger.ingest import log_scan
from specledger.schemas.raw import RAW_TABLES
from tests import captures
from tests.ingest.log_reading import LogSink, read, read_in_parts
from tests.ingest.log_writer import WRAPS, write
from tests.scale import scaled

CAPTURES = ("default_flags", "dp2_one_api_server", "dynamic_sd", "otel", "preemption", "bf16_spec", "bench_spec")
TABLES = {table.name: table for table in RAW_TABLES}
UTC = {"timezone": "UTC"}
SPECULATING = (
    b"INFO 01-01 00:00:00 [core.py:70] Initializing a V1 LLM engine (v0.9.0) with config: model='m', "
    b"speculative_config=SpeculativeConfig(method='eagle', model='h', num_spec_tokens=3)\n"
)


def real(name: str) -> bytes:
    with (captures.folder(name) / "server.log.zst").open("rb") as file:
        return zstandard.ZstdDecompressor().stream_reader(file).read()


def well_formed(sink: LogSink) -> None:
    """Every frame fits its declaration and holds no NaN."""
    for name, frames in sink.frames.items():
        for frame in frames:
            assert set(frame.columns) <= set(TABLES[name].names)
            for column in TABLES[name].columns:
                if column.name in frame.columns:
                    values = frame[column.name]
                    assert column.nullable or not values.null_count()
                    assert not values.dtype.is_float() or not values.is_nan().any()


def same(one: LogSink, other: LogSink) -> bool:
    """Whether two reads found the same, however the rows were batched."""

    def tables(sink: LogSink) -> dict[str, object]:
        return {name: pl.concat(frames, how="diagonal_relaxed").to_dicts() for name, frames in sink.frames.items()}

    return tables(one) == tables(other) and sorted(one.rejects, key=str) == sorted(other.rejects, key=str)


@pytest.mark.parametrize("name", CAPTURES)
def test_real_logs_lose_nothing(name: str) -> None:
    content = real(name)
    sink = read(content, **UTC)
    assert sink.rejects == []
    assert len(sink.table("iterations")) == len(re.findall(rb"Iteration\(\d+\)", content))
    assert len(sink.stats) == len(re.findall(rb"Engine \d+: Avg prompt", content))
    spec = re.findall(rb"SpecDecoding metrics.* Accepted: (\d+) tokens, Drafted: (\d+) tokens", content)
    assert [(row["accepted"], row["drafted"]) for row in sink.stats if row["accepted"] is not None] == [
        (int(accepted), int(drafted)) for accepted, drafted in spec
    ]
    assert all(row["engine"] is not None for row in sink.stats)
    requests = [row["records"] for row in sink.table("events") if row["kind"] == "request_parameters"]
    assert sum(requests) == content.count(b"Received request")
    well_formed(sink)


@pytest.mark.parametrize("name", CAPTURES)
def test_both_ways_of_reading_give_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    content = real(name)
    by_form = read(content, **UTC)
    monkeypatch.setattr(log_scan, "FEW", 1 << 60)
    assert same(read(content, **UTC), by_form)


@pytest.mark.parametrize("name", ["default_flags", "dynamic_sd"])
def test_real_logs_may_be_read_as_they_grow(name: str) -> None:
    content = real(name)
    random = Random(name)
    ends = sorted(random.randint(0, len(content)) for _ in range(3))
    parts, whole = read_in_parts(content, ends, **UTC), read(content, **UTC)
    for table in ("log_stats", "iterations", "deployments"):
        assert parts.table(table) == whole.table(table)
    assert parts.records == whole.records


def damaged(random: Random, content: bytes) -> bytes:
    """The content with some of it lost, doubled, moved, or made of other bytes."""
    data = bytearray(content)
    for _ in range(random.randint(1, 6)):
        at = random.randrange(len(data) + 1)
        length = min(random.choice([1, 1, 3, 20, 200]), len(data) - at)
        kind = random.randrange(6)
        if kind == 0:
            del data[at : at + length]
        elif kind == 1:
            data[at:at] = random.randbytes(length)
        elif kind == 2 and length:
            data[at] ^= 1 << random.randrange(8)
        elif kind == 3:
            source = random.randrange(len(data) + 1)
            data[at:at] = data[source : source + random.randint(1, 400)]
        elif kind == 4:
            data[at:at] = random.choice([b"\n", b"\r", b"\0", b'"', b"{", b"\\", b"INFO 09-14 08:00:00 [x.py:1] "])
        else:
            del data[at:]
    return bytes(data)


@settings(max_examples=scaled(60), deadline=None)
@given(st.integers(0, 2**64))
def test_damage_is_survived_and_both_ways_of_reading_agree(seed: int) -> None:
    random = Random(seed)
    if random.random() < 0.5:
        content = write(random, wrap=random.choice(list(WRAPS))).content
    else:
        lines = real(random.choice(CAPTURES)).split(b"\n")
        start = random.randrange(len(lines))
        content = b"\n".join(lines[start : start + random.randint(1, 60)]) + b"\n"
    content = damaged(random, content)
    found = []
    for few in (1, 1 << 60):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(log_scan, "FEW", few)
            found.append(read(content, year=2026))
    well_formed(found[0])
    assert same(*found)


@settings(max_examples=scaled(30), deadline=None)
@given(st.binary(max_size=2_000))
def test_any_bytes_at_all_are_survived(content: bytes) -> None:
    well_formed(read(content, year=2026))


@settings(max_examples=scaled(20), deadline=None)
@given(st.integers(0, 2**64))
def test_damaged_logs_may_be_read_as_they_grow(seed: int) -> None:
    random = Random(seed)
    # Without a start-up record a server that never printed a spec record is not waited for.
    content = SPECULATING + damaged(random, write(random).content)
    end = random.randint(0, len(content))
    parts, whole = read_in_parts(content, [end], year=2026), read(content, year=2026)
    for table in ("log_stats", "iterations", "deployments"):
        assert parts.table(table) == whole.table(table)
    assert parts.records == whole.records
