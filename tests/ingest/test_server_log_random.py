"""Random logs: read back exactly, whatever they are wrapped in and wherever they were cut."""

from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specledger.ingest import log_scan
from tests.ingest.log_reading import LogSink, read, read_in_parts
from tests.ingest.log_writer import WRAPS, Log, write, write_old
from tests.scale import scaled, tried

SEEDS = st.integers(0, 2**64)
LINE_BY_LINE, BY_FORM = 1 << 60, 1
"""How many lines there must be before forms are learnt."""


@pytest.fixture(params=[LINE_BY_LINE, BY_FORM], ids=["line by line", "by form"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Either of the two ways in which lines are read, whatever their number."""
    monkeypatch.setattr(log_scan, "FEW", request.param)


def stated(rows: list[dict[str, Any]], like: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The columns of rows that the writer knows."""
    return [{name: row[name] for name in (like[0] if like else {})} for row in rows]


def agrees(sink: LogSink, log: Log) -> None:
    assert sink.rejects == []
    assert stated(sink.stats, log.log_stats) == log.log_stats
    assert stated(sink.table("iterations"), log.iterations) == log.iterations
    for row, truth in zip(sink.stats, log.truths, strict=True):
        if truth is not None and row["rounds_max"] is not None:
            assert row["rounds_min"] <= truth <= row["rounds_max"]
    requests = [row for row in sink.table("events") if row["kind"] == "request_parameters"]
    assert sum(row["records"] for row in requests) == log.requests
    assert all("secret" not in row["message"] and "9.9" not in row["message"] for row in requests)
    tried("records of V1 logs read back", len(log.log_stats) + len(log.iterations) + log.requests)


RANDOM = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@settings(RANDOM, max_examples=scaled(40))
@given(SEEDS)
@pytest.mark.usefixtures("way")
def test_what_a_server_says_is_read_back_exactly(seed: int) -> None:
    log = write(Random(seed))
    agrees(read(log.content, **log.options), log)


@settings(RANDOM, max_examples=scaled(40))
@given(SEEDS)
@pytest.mark.usefixtures("way")
def test_what_the_old_engine_says_is_read_back_exactly(seed: int) -> None:
    agrees_with_old(write_old(Random(seed)))


def agrees_with_old(log: Log) -> None:
    sink = read(log.content, **log.options)
    assert sink.rejects == []
    assert len(sink.stats) == len(log.log_stats)
    for row, expected in zip(sink.stats, log.log_stats, strict=True):
        assert {name: row[name] for name in expected} == expected
        assert row["drafted"] == expected.get("drafted")
        if expected.get("drafted"):
            assert row["rounds_min"] == row["rounds_max"] == expected["drafted"] // expected["draft_limit"]
    tried("records of V0 logs read back", len(log.log_stats))


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("wrap", WRAPS)
def test_every_prefix_is_read_back_exactly(wrap: str) -> None:
    for seed in range(scaled(3)):
        log = write(Random(f"{wrap}{seed}"), wrap=wrap)
        agrees(read(log.content, **log.options), log)


@pytest.mark.parametrize("wrap", WRAPS)
def test_a_long_log_is_read_back_exactly(wrap: str) -> None:
    # In a zone whose clock is never set, for a long log crosses such hours.
    log = write(Random(f"long {wrap}"), wrap=wrap, records=scaled(30), zone="Asia/Kolkata")
    agrees(read(log.content, **log.options), log)


@pytest.mark.parametrize("wrap", ["bare", "cri", "docker", "carets"])
def test_a_long_log_of_the_old_engine_is_read_back_exactly(wrap: str) -> None:
    agrees_with_old(write_old(Random(f"long {wrap}"), wrap=wrap, records=scaled(30)))


def without_batches(sink: LogSink) -> dict[str, Any]:
    """What was read, with the requests of a minute counted together."""
    tables = {name: sink.table(name) for name in ("log_stats", "iterations", "deployments")}
    requests: dict[tuple[Any, ...], int] = {}
    for row in sink.table("events"):
        key = (row["process"], row["kind"], row["message"], row["logged_at"].replace(second=0, microsecond=0))
        requests[key] = requests.get(key, 0) + row["records"]
    return {**tables, "events": requests, "rejects": sink.rejects}


@settings(RANDOM, max_examples=scaled(30))
@given(SEEDS)
@pytest.mark.usefixtures("way")
def test_reading_in_parts_is_reading_at_once(seed: int) -> None:
    random = Random(seed)
    log = write(random)
    ends = sorted(random.randint(0, len(log.content)) for _ in range(random.randint(1, 4)))
    parts, whole = read_in_parts(log.content, ends, **log.options), read(log.content, **log.options)
    assert without_batches(parts) == without_batches(whole)
    assert parts.records == whole.records


def test_a_log_may_be_cut_at_every_byte() -> None:
    random = Random(7)
    log = write(random, wrap="cri", records=3)
    whole = without_batches(read(log.content, **log.options))
    for end in range(0, len(log.content), 1 if scaled(1) > 1 else 61):
        assert without_batches(read_in_parts(log.content, [end], **log.options)) == whole
