"""Marts of random cells: against independent counts in plain Python, and the same however the day is cut into cells."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.transforms.marts import House

FEW = settings(max_examples=10, deadline=None)
LOADS = (0, 1, 3, 6, 12, None)
EDGES = (0.01, 0.02, 0.03, 0.05, 0.08, 0.13)
MS = 1_000_000


@st.composite
def drafted_rounds(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Rounds as (draft length, accepted tokens)."""
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=40))
    return [(length, draw(st.integers(0, length))) for length in lengths]


@FEW
@given(rounds=drafted_rounds(), cut=st.integers(0, 40))
def test_survival_of_requests_is_a_count_over_the_rounds_that_drafted_the_position(
    rounds: list[tuple[int, int]], cut: int
) -> None:
    house = House()
    for block, part in enumerate((rounds[:cut], rounds[cut:])):
        for length in {length for length, _ in part}:
            accepted = [j for k, j in part if k == length]
            house.put(
                "cells_draft_lengths",
                {
                    "origin": "requests", "block": block, "draft_length": length, "rounds": len(accepted),
                    "drafted": length * len(accepted), "accepted": sum(accepted),
                    "accepted_at": [sum(j >= i for j in accepted) for i in range(1, length + 1)],
                },
            )  # fmt: skip
    survival, expected, length = 1.0, [], 1.0
    for position in range(1, max(k for k, _ in rounds) + 1):
        drafting = [j for k, j in rounds if k >= position]
        before, survival = survival, sum(j >= position for j in drafting) / len(drafting)
        length += survival
        expected.append((position, len(drafting), survival, survival / before if before else None, length))
    names = ("position", "rounds", "survival", "conditional", "predicted_length")
    rows = house.mart("positions")
    assert [tuple(row[name] for name in names) for row in rows] == [pytest.approx(row) for row in expected]
    assert [row["marginal_gain"] for row in rows[:-1]] == pytest.approx([row[2] for row in expected[1:]])
    assert not any(row["censored"] for row in rows)


@FEW
@given(
    servers=st.lists(
        st.tuples(
            st.sets(st.sampled_from(EDGES), max_size=5), st.lists(st.floats(0.001, 0.2), min_size=1, max_size=30)
        ),
        min_size=1,
        max_size=3,
    )
)
def test_the_edges_of_a_quantile_hold_it_whatever_edges_the_servers_have(
    servers: list[tuple[set[float], list[float]]],
) -> None:
    house = House()
    for number, (own, values) in enumerate(servers):
        edges = [*sorted(own), math.inf]
        counts = [sum(low < value <= high for value in values) for low, high in itertools.pairwise([0, *edges])]
        house.put("cells_snapshots", {"edges": number, "itl": {"le": edges, "n": counts}})
    row = house.one("latency")
    everything = sorted(value for _, values in servers for value in values)
    shared = set.intersection(*(own for own, _ in servers))
    for percent in (50, 95, 99):
        exact = everything[-(-percent * len(everything) // 100) - 1]
        lower, upper = row[f"itl_ms_p{percent}_lower"], row[f"itl_ms_p{percent}_upper"]
        assert lower == pytest.approx(1e3 * max((edge for edge in shared if edge < exact), default=0.0))
        above = min((edge for edge in shared if edge >= exact), default=None)
        assert upper == (None if above is None else pytest.approx(1e3 * above))
        if upper is not None:
            assert lower <= row[f"itl_ms_p{percent}"] <= upper


@FEW
@given(values=st.lists(st.integers(1, 10**10), min_size=1, max_size=60))
def test_quantiles_of_single_values_are_within_one_per_cent(values: list[int]) -> None:
    house = House()
    for value in values:
        house.put("cells_requests", {"ttft": {_bucket(value): 1}})
    row = house.one("latency")
    for percent in (50, 95, 99):
        exact = sorted(values)[-(-percent * len(values) // 100) - 1] / MS
        assert row[f"ttft_ms_p{percent}"] == pytest.approx(exact, rel=0.01)
        assert row[f"ttft_ms_p{percent}_lower"] <= exact * (1 + 1e-9)
        assert exact <= row[f"ttft_ms_p{percent}_upper"] * (1 + 1e-9)


def _bucket(value: int) -> int:
    bucket = round(math.log(value) / math.log(1.02))
    while 1.02**bucket > value:
        bucket -= 1
    while 1.02 ** (bucket + 1) <= value:
        bucket += 1
    return bucket


@st.composite
def interval_cells(draw: st.DrawFn, deployment: str, drafts: bool) -> dict[str, Any]:
    """Counts of one scrape interval as cells hold them, consistent in themselves."""
    positions = 3
    rounds = draw(st.integers(1, 60)) if drafts else 0
    fixed = draw(st.booleans())
    lengths = [positions if fixed else draw(st.integers(1, positions)) for _ in range(min(rounds, 6))]
    drafted = sum(lengths) + positions * (rounds - len(lengths))
    accepted_at, left = [], rounds
    for _ in range(positions):
        left = draw(st.integers(0, left))
        accepted_at.append(left)
    steps = rounds + draw(st.integers(0, 20)) + (0 if drafts else 1)
    accepted = sum(accepted_at)
    tokens = steps + accepted - draw(st.integers(0, accepted))
    requests = draw(st.integers(1, 5))
    time = steps * draw(st.integers(5, 60)) * MS
    counts = [draw(st.integers(0, 9)) for _ in range(3)]
    return {
        "deployment": deployment, "load": draw(st.sampled_from(LOADS)),
        "n": 1, "duration_ns": draw(st.integers(1, 60)) * 10**9,
        "requests": requests, "output_tokens": tokens + requests, "prompt_tokens": 10 * requests, "succeeded": requests,
        "failed": 0, "rounds": rounds if drafts else None, "drafted": drafted if drafts else None,
        "accepted": accepted if drafts else None, "accepted_at": accepted_at if drafts else None,
        "decode_ns": time, "decode_tokens": tokens, "steps": steps, "step_tokens": tokens, "step_decode_ns": time,
        "step_rounds": rounds, "step_accepted": accepted, "preemptions": draw(st.integers(0, 2)),
        "itl": {"le": [0.02, 0.05, math.inf], "n": counts}, "itl_sum": time, "decode_sum_ns": time,
        "kv_n": 1, "kv_ppm": 400_000, "kv_max_ppm": draw(st.integers(0, 10**6)),
        "kv_hist": {draw(st.integers(0, 1000)): 1},
        "waiting_n": 1, "waiting": draw(st.integers(0, 3)), "waiting_max": draw(st.integers(0, 3)),
        "running_n": 1, "running_milli": draw(st.integers(0, 9_000)),
    }  # fmt: skip


CELLS = st.lists(
    st.one_of(interval_cells("plain", drafts=False), interval_cells("drafted", drafts=True)), min_size=1, max_size=8
)


def _house(cells: list[dict[str, Any]]) -> House:
    house = House().put("cells_snapshots", *cells)
    starts = ({"deployment": name, "speculative": name == "drafted"} for name in ("plain", "drafted"))
    return house.put("deployments", *({**start, "started_at": "2026-11-29", "model": "m"} for start in starts))


@FEW
@given(cells=CELLS)
def test_the_ledger_is_totals_over_totals_and_its_three_figures_tie(cells: list[dict[str, Any]]) -> None:
    rows = [row for row in _house(cells).mart("ledger") if row["deployment"] == "drafted"]
    for row in rows:
        assert row["tpot_ms"] * row["effective_length"] == pytest.approx(row["round_time_ms"], rel=1e-9)
        a, needed = row["break_even_acceptance"], row["break_even_length"]
        if a:
            gamma = int(row["draft_limit"])
            assert 1 + row["coverage"] * sum(a**i for i in range(1, gamma + 1)) == pytest.approx(needed, rel=1e-9)
    sums: dict[tuple[str, Any], list[int]] = defaultdict(lambda: [0, 0])
    for cell in cells:
        for index, name in enumerate(("decode_ns", "decode_tokens")):
            sums[cell["deployment"], cell["load"]][index] += cell[name]
    known = [load for name, load in sums if name == "drafted" and load is not None and ("plain", load) in sums]
    pooled = [row for row in rows if row["load_band"] == "all"]
    if not known:
        assert [row["speedup"] for row in pooled] in ([], [None])
        return
    t0 = {load: sums["plain", load][0] / sums["plain", load][1] for load in known}
    spared = sum(sums["drafted", load][1] * t0[load] for load in known)
    assert pooled[0]["speedup"] == pytest.approx(spared / sum(sums["drafted", load][0] for load in known))
    tokens = sum(value[1] for (name, _), value in sums.items() if name == "drafted")
    assert pooled[0]["token_share"] == pytest.approx(sum(sums["drafted", load][1] for load in known) / tokens)


def _merged(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same day with one cell for each deployment and load."""
    merged: dict[tuple[str, Any], dict[str, Any]] = {}
    for cell in cells:
        key = (cell["deployment"], cell["load"])
        merged[key] = _added(merged[key], cell) if key in merged else cell
    return list(merged.values())


def _added(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    added = dict(one)
    for name, value in other.items():
        if name in ("deployment", "load") or value is None:
            continue
        if name in ("kv_max_ppm", "waiting_max"):
            added[name] = max(one[name], value)
        elif name == "kv_hist":
            added[name] = {key: one[name].get(key, 0) + value.get(key, 0) for key in {*one[name], *value}}
        elif name == "itl":
            added[name] = {"le": value["le"], "n": [a + b for a, b in zip(one[name]["n"], value["n"], strict=True)]}
        elif isinstance(value, list):
            added[name] = [a + b for a, b in zip(one[name], value, strict=True)]
        else:
            added[name] = one[name] + value
    return added


@settings(max_examples=5, deadline=None)
@given(cells=CELLS)
def test_cutting_a_day_into_more_cells_changes_no_mart(cells: list[dict[str, Any]]) -> None:
    split = _house([{**cell, "hour": index, "block": 6 * index} for index, cell in enumerate(cells)]).every_mart()
    whole = _house(_merged(cells)).every_mart()
    for name in split:
        assert _comparable(split[name]) == _comparable(whole[name]), name
    for value in (value for rows in split.values() for row in rows for value in row.values()):
        assert not isinstance(value, float) or math.isfinite(value)


def _comparable(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows in which the order of adding up cannot be seen."""
    return [
        {name: float(f"{value:.12g}") if isinstance(value, float) else value for name, value in row.items()}
        for row in rows
    ]
