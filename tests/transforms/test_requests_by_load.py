"""Requests: their load against a count in plain Python, the rule of steps, and merging over kinds of input."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import random
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.transforms.raw import DAY, Raw, at, histogram, values

SPECULATIVE = {"started_at": at(-3600), "speculative": True, "draft_method": "eagle", "draft_limit": 3}


def request(name: str, start: float, end: float, first_token: float | None = None, **columns: Any) -> dict[str, Any]:
    """A request of ten tokens that runs from start to end, in seconds after eight."""
    first = start if first_token is None else first_token
    told = {
        "request_id": name,
        "arrived_at": at(start),
        "finished_at": at(end),
        "ttft_ms": (first - start) * 1000,
        "decode_ms": (end - first) * 1000,
        "e2e_ms": (end - start) * 1000,
        "output_tokens": 10,
        "prompt_tokens": 100,
    }
    return told | columns


def drafted(name: str, rounds: int = 4, accepted: int = 5, **columns: Any) -> dict[str, Any]:
    return request(name, 0, 10, rounds=rounds, drafted=3 * rounds, accepted=accepted, draft_limit=3, **columns)


def by_load(raw: Raw) -> dict[str, dict[str, Any]]:
    return {row["request_id"]: row for row in raw.rows("requests_by_load")}


def loads(raw: Raw) -> dict[str, int | None]:
    return {name: row["load"] for name, row in by_load(raw).items()}


def gauge(seconds: float, running: float | None, **columns: Any) -> dict[str, Any]:
    return {"scraped_at": at(seconds), "running": running, **columns}


def test_without_scrapes_load_is_the_overlap_of_the_requests() -> None:
    raw = Raw().put("requests", request("long", 0, 10), request("short", 5, 10), request("later", 20, 30))
    assert loads(raw) == {"long": 2, "short": 2, "later": 1}  # 1.5 is rounded up


def test_a_request_that_tells_no_time_counts_on_its_date() -> None:
    refused = {"request_id": "refused", "status": "failed", "arrived_at": None, "finished_at": None}
    raw = Raw().put("requests", refused, request("served", 0, 10))
    assert loads(raw) == {"refused": None, "served": 1}
    assert by_load(raw)["refused"]["hour"] == 0
    assert sum(row["failed"] or 0 for row in raw.rows("cells_requests")) == 1


def test_load_is_that_of_the_decode_window_only() -> None:
    raw = Raw().put("requests", request("early", 0, 10), request("late", 0, 20, first_token=12))
    assert loads(raw) == {"early": 2, "late": 1}


def test_a_request_runs_once_it_has_left_the_queue() -> None:
    queued = request("queued", 0, 20, first_token=15, queue_ms=14_000.0)
    assert loads(Raw().put("requests", request("early", 0, 10), queued))["early"] == 1


def test_requests_without_a_first_token_run_nowhere() -> None:
    failed = request("failed", 0, 10, output_tokens=None, ttft_ms=None, decode_ms=None, status="failed")
    raw = Raw().put("requests", request("fine", 0, 10), failed)
    assert loads(raw) == {"fine": 1, "failed": None}
    assert {name: row["returned"] for name, row in by_load(raw).items()} == {"fine": True, "failed": False}


def test_the_gauge_is_asked_first_and_linear_between_scrapes() -> None:
    raw = Raw().put("requests", request("one", 10, 20)).put("snapshots", gauge(0, 4.0), gauge(40, 12.0))
    row = by_load(raw)["one"]
    assert (row["load"], row["load_from"]) == (7, "gauge")


def test_scrapes_more_than_a_minute_apart_say_nothing_of_the_time_between() -> None:
    raw = Raw().put("requests", request("one", 10, 20)).put("snapshots", gauge(0, 4.0), gauge(61, 12.0))
    row = by_load(raw)["one"]
    assert (row["load"], row["load_from"]) == (1, "overlap")


def test_the_gauge_is_enough_where_it_covers_half_of_the_decode_window() -> None:
    scrapes = (gauge(0, 4.0), gauge(60, 4.0))
    half, less = request("half", 40, 80), request("less", 40, 81)
    found = by_load(Raw().put("requests", half, less).put("snapshots", *scrapes))
    assert {name: row["load_from"] for name, row in found.items()} == {"half": "gauge", "less": "overlap"}


def test_models_of_one_engine_share_its_batch() -> None:
    scrapes = [
        gauge(second, running, model_name=name) for second in (0, 30) for name, running in (("a", 2.0), ("b", 3.0))
    ]
    assert loads(Raw().put("requests", request("one", 10, 20)).put("snapshots", *scrapes)) == {"one": 5}


@pytest.mark.parametrize("several", ["scraped", "configured"])
def test_requests_of_an_instance_with_several_engines_have_no_load(several: str) -> None:
    raw = Raw().put("requests", request("one", 10, 20))
    if several == "scraped":
        raw.put("snapshots", *(gauge(second, 3.0, engine=engine) for second in (0, 30) for engine in (0, 1)))
    else:
        raw.put("deployments", {**SPECULATIVE, "data_parallel": 2})
    assert loads(raw) == {"one": None}


def test_requests_and_scrapes_of_the_hour_before_midnight_are_seen() -> None:
    midnight = dt.datetime(2026, 11, 30)

    def near(name: str, start: float, end: float) -> dict[str, Any]:
        times = {
            key: midnight + dt.timedelta(seconds=value) for key, value in (("arrived_at", start), ("finished_at", end))
        }
        return request(name, 0, end - start, **times)

    raw = Raw().put("requests", near("before", -20, -10), near("over", -20, 10), near("after", 0, 10))
    assert loads(raw) == {"before": 1, "over": 2, "after": 2}
    raw.put("snapshots", *(gauge(0, 5.0, scraped_at=midnight + dt.timedelta(seconds=s)) for s in (-30, 0, 30)))
    # The scrape at midnight is of the next date: the night that ends knows nothing of it yet.
    assert loads(raw) == {"before": 1, "over": 5, "after": 5}


Span = tuple[int, int, int]


def mean_overlap(spans: Sequence[Span], index: int) -> Fraction:
    """Mean requests running while one of them decodes, from every pair: spans are start, first token, end."""
    start, first, end = spans[index]
    begin = first if first < end else start
    shared = sum(max(min(end, other[2]) - max(begin, other[0]), 0) for other in spans)
    return Fraction(shared, end - begin)


def mean_gauge(series: Sequence[tuple[int, int]], begin: int, end: int) -> Fraction | None:
    """Time-weighted mean of a gauge that is linear between scrapes at most 60 s apart; all times in seconds."""
    covered, area = 0, Fraction(0)
    for (t0, g0), (t1, g1) in itertools.pairwise(series):
        low, high = max(t0, begin), min(t1, end)
        if t1 - t0 <= 60 and low < high:
            middle = g0 + Fraction(g1 - g0, t1 - t0) * (Fraction(low + high, 2) - t0)
            covered += high - low
            area += middle * (high - low)
    return area / covered if covered and 2 * covered >= end - begin else None


def code(load: Fraction) -> int:
    return math.floor(load + Fraction(1, 2))


spans = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 20), st.integers(1, 40)).map(
        lambda drawn: (drawn[0], drawn[0] + min(drawn[1], drawn[2]), drawn[0] + drawn[2])
    ),
    min_size=1,
    max_size=20,
)


@given(spans)
@settings(max_examples=8, deadline=None)
def test_overlap_is_what_counting_every_pair_gives(drawn: list[Span]) -> None:
    raw = Raw().put("requests", *(request(f"{i}", s, e, first_token=f) for i, (s, f, e) in enumerate(drawn)))
    assert loads(raw) == {f"{i}": code(mean_overlap(drawn, i)) for i in range(len(drawn))}


@given(spans, st.lists(st.tuples(st.integers(1, 70), st.integers(0, 50)), max_size=12))
@settings(max_examples=8, deadline=None)
def test_gauge_load_is_the_integral_over_its_stretches(drawn: list[Span], steps: list[tuple[int, int]]) -> None:
    series: list[tuple[int, int]] = []
    for gap, running in steps:
        series.append(((series[-1][0] if series else -5) + gap, running))
    raw = Raw().put("requests", *(request(f"{i}", s, e, first_token=f) for i, (s, f, e) in enumerate(drawn)))
    raw.put("snapshots", *(gauge(second, float(running)) for second, running in series))
    expected = {}
    for index, (start, first, end) in enumerate(drawn):
        measured = mean_gauge(series, first if first < end else start, end)
        expected[f"{index}"] = code(mean_overlap(drawn, index) if measured is None else measured)
    assert loads(raw) == expected


def steps(raw: Raw) -> dict[str, int | None]:
    return {name: row["steps"] for name, row in by_load(raw).items()}


def counters(grown_steps: int, grown_rounds: int | None, tokens: int, requests: int) -> list[dict[str, Any]]:
    """Two scrapes between which so much happened."""
    return [
        {
            "scraped_at": at(seconds),
            "rounds": None if grown_rounds is None else share * grown_rounds,
            "drafted": None if grown_rounds is None else 3 * share * grown_rounds,
            "generation_tokens": share * tokens,
            "itl": histogram([1], [share * grown_steps, 0], 0.1),
            "ttft": histogram([1], [share * requests, 0], 0.1),
        }
        for share, seconds in ((0, 0), (1, 15))
    ]


def test_rounds_are_steps_where_the_counters_say_so() -> None:
    assert steps(Raw().put("requests", drafted("r")).put("snapshots", *counters(4, 4, 10, 1))) == {"r": 4}


def test_steps_are_unknown_where_the_counters_say_that_some_had_no_draft() -> None:
    assert steps(Raw().put("requests", drafted("r")).put("snapshots", *counters(6, 4, 12, 1))) == {"r": None}


def test_without_counters_rounds_are_steps_unless_a_request_contradicts() -> None:
    assert steps(Raw().put("requests", drafted("r"))) == {"r": 4}
    more_tokens = drafted("more", output_tokens=11)
    assert steps(Raw().put("requests", drafted("r"), more_tokens)) == {"r": None, "more": None}
    other_length = {**drafted("short"), "drafted": 11}
    assert steps(Raw().put("requests", drafted("r"), other_length)) == {"r": None, "short": None}


def test_a_drafter_that_may_find_nothing_leaves_steps_unknown() -> None:
    for method in ("ngram", "suffix"):
        raw = Raw().put("requests", drafted("r")).put("deployments", {**SPECULATIVE, "draft_method": method})
        assert steps(raw) == {"r": None}
    assert steps(Raw().put("requests", drafted("r")).put("deployments", SPECULATIVE)) == {"r": 4}


def test_a_draft_length_that_follows_a_schedule_leaves_steps_unknown() -> None:
    scheduled = {**SPECULATIVE, "draft_schedule": "[[1, 4, 3]]"}
    assert steps(Raw().put("requests", drafted("r")).put("deployments", scheduled)) == {"r": None}


def test_without_speculation_every_later_token_is_a_step() -> None:
    plain = request("r", 0, 10)
    assert steps(Raw().put("requests", plain)) == {"r": None}
    assert steps(Raw().put("requests", plain).put("deployments", {"started_at": at(-9), "speculative": False})) == {
        "r": 9
    }
    assert steps(Raw().put("requests", plain).put("snapshots", *counters(9, None, 10, 1))) == {"r": 9}
    assert steps(Raw().put("requests", plain).put("snapshots", *counters(9, None, 25, 1))) == {"r": None}


def test_a_start_of_a_later_date_says_nothing() -> None:
    later = {**SPECULATIVE, "speculative": False, "started_at": at(0, DAY + dt.timedelta(1))}
    assert steps(Raw().put("requests", request("r", 0, 10)).put("deployments", later)) == {"r": None}


def test_an_instance_without_a_start_record_takes_what_the_others_agree_on() -> None:
    plain = {"speculative": False, "started_at": at(-9)}
    raw = Raw().put("requests", request("r", 0, 10, instance="gateway"))
    raw.put("deployments", {**plain, "instance": "a"}, {**plain, "instance": "b"})
    assert steps(raw) == {"r": 9}
    raw.put("deployments", {**SPECULATIVE, "instance": "c", "started_at": at(-8)})
    assert steps(raw) == {"r": None}


def test_several_sequences_have_neither_steps_nor_decode_tokens() -> None:
    row = by_load(Raw().put("requests", drafted("r", sequences=2)))["r"]
    assert (row["steps"], row["later_tokens"], row["decode_ns"], row["output_tokens"]) == (None, None, None, 10)


def test_steps_that_the_input_gives_are_kept() -> None:
    assert steps(Raw().put("requests", request("r", 0, 10, steps=7))) == {"r": 7}


def test_a_request_that_never_speculated_has_no_steps_among_others_that_did() -> None:
    never = drafted("never", rounds=0, accepted=0)
    assert steps(Raw().put("requests", drafted("r"), never)) == {"r": 4, "never": None}


def test_bands_and_times_of_a_request() -> None:
    row = by_load(Raw().put("requests", request("r", 0, 10, first_token=2, prompt_tokens=995, queue_ms=1.5)))["r"]
    told = ("context_band", "output_band", "ttft_ns", "queue_ns", "e2e_ns", "block", "hour")
    assert values([row], *told) == [("1-4k", "1-20", 2_000_000_000, 1_500_000, 10_000_000_000, 48, 8)]


def test_the_order_of_rows_changes_nothing() -> None:
    rows = [request(f"{n}", 3 * n, 3 * n + 10, first_token=3 * n + 1) for n in range(12)]
    shuffled = random.Random(2).sample(rows, len(rows))
    assert loads(Raw().put("requests", *rows)) == loads(Raw().put("requests", *shuffled))
