"""Cells of snapshots, requests and iterations: small rows in, sums out, and bucket counts against a plain count."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specledger.schemas.config import DEFAULT_SETTINGS, GoodputLimits, Settings
from tests.transforms.raw import Raw, at, histogram, values

INF = float("inf")


def test_cells_of_snapshots_add_up_the_intervals_of_one_block_and_load() -> None:
    raw = Raw().put(
        "snapshots",
        *(
            {
                "scraped_at": at(15 * n),
                "running": 4.0,
                "kv_usage": 0.1 * n,
                "waiting": float(n),
                "rounds": rounds,
                "drafted": 3 * rounds,
                "accepted": 2 * rounds,
                "accepted_at": [rounds, rounds // 2],
                "generation_tokens": 3 * rounds + n,
                "prompt_tokens": 50 * n,
                "preemptions": n,
                "itl": histogram([0.01, 0.1], [0, rounds, 0], 0.02 * rounds),
                "ttft": histogram([0.1], [n, 0], 0.05 * n),
            }
            for n, rounds in enumerate([0, 10, 30])
        ),
    )
    row = raw.one("cells_snapshots")
    counts = {
        "n": 2, "duration_ns": 30_000_000_000, "load": 4, "requests": 2, "output_tokens": 92, "prompt_tokens": 100,
        "rounds": 30, "drafted": 90, "accepted": 60, "accepted_at": [30, 15], "preemptions": 2,
        "decode_ns": 600_000_000, "decode_tokens": 90, "steps": 30, "step_tokens": 90, "step_decode_ns": 600_000_000,
        "step_rounds": 30, "step_accepted": 60, "itl_n": 30, "itl_sum": 600_000_000, "ttft_n": 2,
        "ttft_sum": 100_000_000, "kv_n": 2, "kv_ppm": 300_000, "kv_max_ppm": 200_000, "kv_hist": {100: 1, 200: 1},
        "waiting": 3, "waiting_max": 2, "running_n": 2, "running_milli": 8000, "drafted_at": None,
        "cached_tokens": None,
        "rounds_rounds": 500, "rounds_accepted": 1000, "steps_step_decode": 10 * 200_000_000 + 20 * 400_000_000,
        "decode_tokens_tokens": 30 * 30 + 60 * 60, "step_decode_decode": 200_000_000**2 + 400_000_000**2,
    }  # fmt: skip
    assert {name: row[name] for name in counts} == counts
    assert row["itl"] == {"le": [0.01, 0.1, INF], "n": [0, 30, 0]}


def test_without_speculation_steps_have_no_rounds_instead_of_unknown_ones() -> None:
    raw = Raw().put(
        "snapshots",
        *(
            {
                "scraped_at": at(15 * n),
                "generation_tokens": 11 * n,
                "itl": histogram([1], [10 * n, 0], 0.2 * n),
                "ttft": histogram([1], [n, 0], 0.1 * n),
            }
            for n in range(2)
        ),
    )
    assert values([raw.one("cells_snapshots")], "rounds", "accepted", "step_rounds", "step_accepted", "steps") == [
        (None, None, 0, 0, 10)
    ]


def test_requests_of_one_token_are_taken_out_of_the_first_bucket() -> None:
    def scrape(n: int, **columns: Any) -> dict[str, Any]:
        return {"scraped_at": at(15 * n), "request_tpot": histogram([0.01, 0.1], [3 * n, 4 * n, 0], 0.3 * n), **columns}

    known = [scrape(n, output_len=histogram([1, 5], [2 * n, 5 * n, 0], 20.0 * n)) for n in range(2)]
    row = Raw().put("snapshots", *known).one("cells_snapshots")
    assert row["request_tpot"] == {"le": [0.01, 0.1, INF], "n": [1, 4, 0]}
    assert row["request_tpot_n"] == 5
    for unknown in (scrape, lambda n: scrape(n, output_len=histogram([2, 5], [2 * n, 5 * n, 0], 20.0 * n))):
        row = Raw().put("snapshots", unknown(0), unknown(1)).one("cells_snapshots")
        assert (row["request_tpot"], row["request_tpot_n"]) == (None, None)


def test_histograms_of_other_edges_never_share_a_cell() -> None:
    raw = Raw()
    for instance, edge in (("a", 0.1), ("b", 0.2)):
        for n in range(2):
            itl = histogram([edge], [n, 0], 0.05 * n)
            raw.put("snapshots", {"scraped_at": at(15 * n), "instance": instance, "itl": itl})
    assert [row["itl"]["le"] for row in raw.rows("cells_snapshots", "instance")] == [[0.1, INF], [0.2, INF]]


EDGES = [0.1, 0.2, 0.4]


@given(st.integers(0, 10**6))
@settings(max_examples=10, deadline=None)
def test_buckets_of_every_cell_are_the_sum_of_what_its_intervals_grew_by(seed: int) -> None:
    draw = random.Random(seed)
    scrapes: list[dict[str, Any]] = []
    expected: dict[tuple[int, int], Counter[int]] = defaultdict(Counter)
    sums: Counter[tuple[int, int]] = Counter()
    totals, born, known = [5, 4, 3, 2], at(-100), None
    for number in range(draw.randint(3, 30)):
        restarted = number > 0 and draw.random() < 0.15
        born = at(45 * number - 20) if restarted else born
        totals = [draw.randint(0, 9) for _ in totals] if restarted else [n + draw.randint(0, 3) for n in totals]
        running = draw.choice([2.0, 4.0])
        missing = draw.random() < 0.25
        seconds = 45.0 * number
        scrapes.append(
            {
                "scraped_at": at(seconds),
                "process_started_at": born,
                "running": running,
                "itl": None if missing else histogram(EDGES, totals, 0.1 * sum(totals)),
                "ttft": histogram(EDGES, [number, 0, 0, 0], 0.0),
            }
        )
        if restarted:
            known = [0] * len(totals)
        if missing:
            continue
        if known is not None and number > 0:
            load = int((running + scrapes[-2]["running"]) / 2)
            cell = (8 * 6 + int(seconds // 600), load)
            expected[cell].update(
                {bucket: now - then for bucket, (now, then) in enumerate(zip(totals, known, strict=True))}
            )
            sums[cell] += sum(totals) - sum(known)
        known = totals
    rows = Raw().put("snapshots", *scrapes).rows("cells_snapshots")
    found: dict[tuple[int, int], Counter[int]] = defaultdict(Counter)
    found_sums: Counter[tuple[int, int]] = Counter()
    for row in rows:
        if row["itl"] is not None:
            found[row["block"], row["load"]].update(dict(enumerate(row["itl"]["n"])))
        found_sums[row["block"], row["load"]] += row["itl_n"] or 0
    assert {cell: +counts for cell, counts in found.items() if +counts} == {
        cell: +counts for cell, counts in expected.items() if +counts
    }
    assert +found_sums == +sums


def request(**columns: Any) -> dict[str, Any]:
    """A request of eleven tokens in four rounds of three, each accepting two or one."""
    told = {
        "arrived_at": at(0), "finished_at": at(2), "ttft_ms": 1000.0, "decode_ms": 1000.0, "e2e_ms": 2000.0,
        "prompt_tokens": 90, "output_tokens": 11, "rounds": 4, "drafted": 12, "accepted": 6, "draft_limit": 3,
        "accepted_hist": [0, 2, 2, 0], "gaps_ms": [200.0, 300.0, 500.0], "gaps_from": "client", "queue_ms": 5.0,
    }  # fmt: skip
    return told | columns


ANSWERED = ("output_tokens", "ttft_ms", "rounds", "drafted", "accepted", "accepted_hist", "gaps_ms")
"""What a request that failed at once does not have."""


def test_cells_of_requests_add_up_what_is_known_of_each() -> None:
    raw = Raw().put(
        "requests",
        request(request_id="a"),
        request(request_id="b", decode_ms=None, gaps_ms=None, e2e_ms=None),
        request(request_id="c", status="failed", **dict.fromkeys(ANSWERED)),
    )
    rows = raw.rows("cells_requests")
    total = {name: sum(row[name] or 0 for row in rows) for name in rows[0] if isinstance(rows[0][name] or 0, int)}
    counts = {
        "n": 3, "requests": 2, "output_tokens": 22, "prompt_tokens": 270, "rounds": 8, "drafted": 24, "accepted": 12,
        "decode_tokens": 10, "decode_ns": 10**9, "steps": 4, "step_tokens": 10, "step_decode_ns": 10**9,
        "step_rounds": 4, "step_accepted": 6, "succeeded": 2, "failed": 1, "ttft_n": 2, "ttft_sum": 2 * 10**9,
        "itl_n": 3, "itl_sum": 10**9, "itl_client_n": 3, "e2e_n": 3, "request_tpot_n": 1, "request_tpot_sum": 10**8,
        "queue_sum": 15_000_000, "rounds_rounds": 32, "steps_step_tokens": 40, "step_decode_decode": 10**18,
    }  # fmt: skip
    assert {name: total[name] for name in counts} == counts
    with_gaps = next(row for row in rows if row["itl_n"])
    assert sum(with_gaps["itl"].values()) == 3
    assert (with_gaps["itl_max"], with_gaps["longest_pause_ns"]) == (500_000_000, 500_000_000)
    assert all(row["qualified"] is None and row["duration_ns"] is None for row in rows)


def test_requests_are_kept_apart_by_everything_that_strata_ask_for() -> None:
    differences = [
        {}, {"task": "chat"}, {"lora": "x"}, {"temperature": 0.0}, {"temperature": 0.5}, {"draft_limit": 4},
        {"prompt_tokens": 2000}, {"output_tokens": 30}, {"finished_at": at(700)},
    ]  # fmt: skip
    raw = Raw().put("requests", *(request(request_id=f"{n}", **what) for n, what in enumerate(differences)))
    assert len(raw.rows("cells_requests")) == len(differences)


def test_goodput_counts_requests_within_every_limit_and_their_tokens() -> None:
    limits = Settings(DEFAULT_SETTINGS.load_bands, goodput=GoodputLimits(ttft_ms=1500, longest_pause_ms=400))
    calm = [100.0, 200.0]
    raw = Raw(limits).put(
        "requests",
        request(request_id="good", gaps_ms=calm),
        request(request_id="paused"),
        request(request_id="late", ttft_ms=1600.0, gaps_ms=calm),
        request(request_id="aborted", status="aborted", gaps_ms=calm),
    )
    rows = raw.rows("cells_requests")
    assert (sum(row["qualified"] for row in rows), sum(row["qualified_tokens"] for row in rows)) == (1, 11)


def test_iterations_are_kept_apart_by_prefill_load_and_scheduled_tokens() -> None:
    def iteration(number: int, requests: int, tokens: int, context: int = 0, **columns: Any) -> dict[str, Any]:
        told = {
            "logged_at": at(number),
            "iteration": number,
            "generation_requests": requests,
            "generation_tokens": tokens,
        }
        return {
            **told,
            "context_tokens": context,
            "context_requests": int(context > 0),
            "elapsed_ms": 10.0 * number,
            **columns,
        }

    raw = Raw().put(
        "iterations",
        iteration(1, 2, 8),
        iteration(2, 2, 8),
        iteration(3, 2, 7),
        iteration(4, 2, 8, context=50),
        iteration(5, 0, 0, dummy=True),
    )
    rows = raw.rows("cells_iterations", "prefill, scheduled_tokens")
    told = (
        "prefill",
        "scheduled_tokens",
        "load",
        "n",
        "generation_tokens",
        "context_tokens",
        "elapsed_sum",
        "elapsed_max",
    )
    assert values(rows, *told) == [
        (False, 7, 2, 1, 7, 0, 30_000_000, 30_000_000),
        (False, 8, 2, 2, 16, 0, 30_000_000, 20_000_000),
        (True, None, 2, 1, 8, 50, 40_000_000, 40_000_000),
    ]


DRAFTS = ("origin", "draft_length", "rounds", "drafted", "accepted", "accepted_at", "steps", "step_tokens", "n")


@pytest.mark.parametrize(
    ("told", "parts"),
    [
        ({}, [(3, 4, 12, 6, [4, 2, 0], 4, 10, 1)]),
        ({"accepted_hist": None}, [(3, 4, 12, 6, None, 4, 10, 1)]),
        ({"drafted": 11}, [(None, 4, 11, 6, [4, 2, 0], None, None, 0)]),
        (
            {"drafted": 8, "accepted_hist_by_length": {1: [1, 1], 3: [0, 1, 0, 1]}},
            [(1, 2, 2, 1, [1], None, None, 0), (3, 2, 6, 4, [2, 1, 1], None, None, 0)],
        ),
        (
            {"drafted": 8, "step_drafted": [1, 3, 1, 3], "step_accepted": [0, 1, 1, 3]},
            [(1, 2, 2, 1, [1], None, None, 0), (3, 2, 6, 4, [2, 1, 1], None, None, 0)],
        ),
    ],
)
def test_draft_lengths_of_requests_are_those_of_their_rounds(told: dict[str, Any], parts: list[Any]) -> None:
    rows = Raw().put("requests", request(**told)).rows("cells_draft_lengths", "draft_length")
    assert values(rows, *DRAFTS) == [("requests", *part) for part in parts]


def test_requests_without_speculation_ran_at_length_0() -> None:
    plain = request(rounds=None, drafted=None, accepted=None, accepted_hist=None, draft_limit=None)
    raw = Raw().put("requests", plain).put("deployments", {"started_at": at(-9), "speculative": False})
    assert values(raw.rows("cells_draft_lengths"), *DRAFTS) == [("requests", 0, 0, 0, 0, None, 10, 10, 1)]


def test_intervals_give_times_to_a_length_only_where_it_ran_alone() -> None:
    def scrape(n: int, rounds: int, steps: int) -> dict[str, Any]:
        return {
            "scraped_at": at(15 * n),
            "running": 4.0,
            "rounds": rounds,
            "drafted": 2 * rounds,
            "accepted": rounds,
            "accepted_at": [rounds * 3 // 4, rounds // 4],
            "generation_tokens": steps + rounds,
            "itl": histogram([1], [steps, 0], 0.02 * steps),
            "ttft": histogram([1], [0, 0], 0.0),
        }

    raw = Raw().put("snapshots", scrape(0, 0, 0), scrape(1, 40, 40), scrape(2, 80, 100), scrape(3, 80, 110))
    assert values(raw.rows("cells_draft_lengths", "draft_length"), *DRAFTS) == [
        ("snapshots", 0, 0, 0, 0, [0, 0], 10, 10, 1),
        ("snapshots", 2, 80, 160, 80, [60, 20], 40, 80, 1),
    ]


def test_iterations_tell_the_length_by_scheduled_positions_within_the_limit() -> None:
    def iteration(number: int, requests: int, tokens: int) -> dict[str, Any]:
        told = {"generation_requests": requests, "generation_tokens": tokens, "elapsed_ms": 10.0}
        return {"logged_at": at(number), "iteration": number, "context_tokens": 0, **told}

    start = {"started_at": at(-9), "speculative": True, "draft_method": "eagle", "draft_limit": 3}
    recompute, uneven, drafting, resting = (2, 400), (2, 7), (2, 8), (2, 2)
    rows = [iteration(n, *what) for n, what in enumerate([recompute, uneven, drafting, resting])]
    raw = Raw().put("iterations", *rows).put("deployments", start)
    told = ("draft_length", "rounds", "drafted", "accepted", "steps", "step_decode_ns", "n")
    assert values(raw.rows("cells_draft_lengths", "draft_length"), *told) == [
        (0, 0, 0, None, 2, 20_000_000, 1),
        (3, 2, 6, None, 2, 20_000_000, 1),
    ]
    assert Raw().put("iterations", *rows).rows("cells_draft_lengths") == []
