"""Values that cannot be: cells and marts are computed all the same, and such a value enters no figure."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from specledger.schemas import CELL_TABLES
from tests.transforms.raw import Raw, at, histogram, values

COUNTS = ("prompt_tokens", "cached_tokens", "output_tokens", "rounds", "drafted", "accepted", "preemptions")
TIMES = ("ttft_ms", "client_ttft_ms", "queue_ms", "prefill_ms", "decode_ms", "e2e_ms")
REQUEST = {
    "arrived_at": at(0),
    "finished_at": at(3),
    "prompt_tokens": 100,
    "output_tokens": 73,
    "ttft_ms": 300.0,
    "decode_ms": 2_400.0,
    "rounds": 30,
    "drafted": 90,
    "accepted": 45,
    "accepted_hist": [5, 10, 10, 5],
}


def cells(raw: Raw) -> dict[str, list[dict[str, Any]]]:
    return {table.name: raw.rows(table.name) for table in CELL_TABLES}


@pytest.mark.parametrize(
    "damage",
    [
        dict.fromkeys(COUNTS, 2**62),
        dict.fromkeys(TIMES, 1e19),
        dict.fromkeys(TIMES, 1e300),
        {name: float("nan") for name in TIMES},
        {"gaps_ms": [10.0, 1e22], "gaps_from": "client"},
        {"accepted_hist": [2**62, 2**62], "accepted_hist_by_length": {3: [2**62, 2**62]}},
        {"arrived_at": dt.datetime(1970, 1, 1), "finished_at": dt.datetime(2399, 1, 1)},
    ],
    ids=("counts", "times", "far_times", "no_numbers", "gaps", "histograms", "moments"),
)
def test_a_request_that_cannot_be_stops_nothing_and_leaves_the_others_alone(damage: dict[str, Any]) -> None:
    good = [{**REQUEST, "request_id": f"good-{number}"} for number in range(3)]
    raw = Raw().put(
        "requests", *good, *({**REQUEST, **damage, "date": at(0).date(), "request_id": f"x{n}"} for n in range(9))
    )
    rows = cells(raw)["cells_requests"]
    assert sum(row["n"] for row in rows) == 12
    assert sum(row["output_tokens"] or 0 for row in rows) <= 12 * 73
    assert sum(row["decode_ns"] or 0 for row in rows) <= 12 * 2_400_000_000


def test_scrapes_and_iterations_that_cannot_be_stop_nothing() -> None:
    scrapes = [
        {
            "scraped_at": at(15 * number),
            "rounds": number,
            "running": 1e300 if number == 2 else 4.0,
            "waiting": 1e300,
            "kv_usage": 5e9,
            "itl": histogram([1], [number, 0], 1e15 if number == 2 else 0.1 * number),
            "ttft": histogram([1], [number, 0], 1e300 if number == 2 else 0.1 * number),
        }
        for number in range(5)
    ]
    iterations = [{"logged_at": at(n), "elapsed_ms": 1e300, "generation_requests": 2**62} for n in range(3)]
    start = {"started_at": at(-10), "speculative": True, "draft_limit": 1, "draft_method": "eagle"}
    raw = Raw().put("snapshots", *scrapes).put("iterations", *iterations).put("deployments", start)
    found = cells(raw)["cells_snapshots"]
    assert sum(row["rounds"] or 0 for row in found) == 4
    assert sum(row["itl_sum"] or 0 for row in found) == 400_000_000
    assert sum(row["damaged"] for row in found) == 1


@pytest.mark.parametrize(
    ("damage", "tokens", "decode"),
    [
        ({"max_tokens": 80}, 72, 2_400_000_000),
        ({"output_tokens": 5_000, "max_tokens": 80}, None, None),
        ({"output_tokens": 150, "max_tokens": 80, "sequences": 2}, None, None),
        ({"output_tokens": 10**15}, None, None),
        ({"decode_ms": 1e12}, 72, None),
        ({"decode_ms": 9_000.0}, 72, None),
        ({"decode_ms": 3_900.0}, 72, 3_900_000_000),
    ],
)
def test_a_request_beyond_its_own_bounds_enters_no_time_per_token(
    damage: dict[str, Any], tokens: int | None, decode: int | None
) -> None:
    row = Raw().put("requests", {**REQUEST, **damage}).one("requests_by_load")
    assert (row["later_tokens"], row["decode_ns"]) == (tokens, decode)
    (cell,) = Raw().put("requests", {**REQUEST, **damage}).rows("cells_requests")
    assert values([cell], "requests", "decode_tokens") == [(1, tokens if decode else None)]
