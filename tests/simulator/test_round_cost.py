"""Round costs of simulated servers, whose true costs are known, through cells and marts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from tests.scale import scaled
from tests.simulator import RoundCost, Task, World
from tests.simulator.iterations import Server, drawn, marts, simulated

KINDS = ("pair", "dynamic", "three", "alone")
LOADS = (1.5, 3.0, 6.0, 10.0, 16.0, 22.0, 30.0, 40.0)
IDENTIFIED = {
    "pair": {"c0", "c1", "c2", "c3"},
    "dynamic": {"c0", "c1", "c2", "c3", "c4"},
    "three": {"c0", "c1", "c2", "c3", "c4"},
    "alone": {"c0", "c3"},
}
Rows = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Truth:
    """What is true of a deployment: its kind, costs, and longest draft."""

    kind: str
    world: World

    @property
    def costs(self) -> dict[str, float]:
        cost, length = self.world.cost, self.world.draft_limit
        found = {
            "c0": cost.base + (length * cost.per_draft_pass if self.kind == "alone" else 0.0),
            "c1": cost.per_request,
            "c2": cost.per_token,
            "c3": cost.per_prefill_token,
            "c4": cost.per_draft_pass,
        }
        return {name: value for name, value in found.items() if name in IDENTIFIED[self.kind]}

    def round_ms(self, row: dict[str, Any], length: int) -> float:
        return float(self.world.cost.ms(row["requests"], row["requests"] * (length + 1), row["prefill_tokens"], length))


def worlds(count: int, rng: np.random.Generator) -> Iterator[tuple[str, Truth]]:
    """As many worlds of random costs, acceptance and lengths, by deployment."""
    for number in range(count):
        longest = int(rng.integers(2, 6))
        few, some = int(rng.integers(2, 8)), int(rng.integers(12, 25))
        kind = KINDS[number % len(KINDS)]
        cost = RoundCost(
            base=rng.uniform(8, 25),
            per_request=rng.uniform(0.05, 0.5),
            per_token=rng.uniform(0.03, 0.3),
            per_prefill_token=rng.uniform(0.005, 0.04),
            per_draft_pass=rng.uniform(0.5, 3),
            noise=0.03,
        )
        task = Task(conditional=(rng.uniform(0.5, 0.9),) * 5, concentration=np.inf, prompt_tokens=200, output_tokens=60)
        schedule = ((1, few, longest), (few + 1, some, 1), (some + 1, 64, 0))
        length = schedule if kind == "dynamic" else longest
        yield f"{kind}{number}", Truth(kind, World(cost=cost, tasks=(task,), draft_length=length, hour_shock=0.01))


def servers(deployment: str, truth: Truth) -> list[Server]:
    """The servers from which a kind of world is to be understood: its own, and a baseline or two other lengths."""
    own = Server(truth.world, deployment, deployment)
    plain = Server(replace(truth.world, draft_length=0), f"{deployment} plain", deployment)
    if truth.kind == "alone":
        return [own]
    if truth.kind == "three":
        others = [replace(truth.world, draft_length=length) for length in (0, 1)]
        return [own, *(Server(world, deployment, deployment, (), str(world.draft_length)) for world in others)]
    return [own, plain]


@pytest.fixture(scope="module")
def truths() -> dict[str, Truth]:
    return dict(worlds(scaled(52), np.random.default_rng(41)))


@pytest.fixture(scope="module")
def found(truths: dict[str, Truth]) -> Rows:
    rng = np.random.default_rng(42)
    return marts(
        (server, drawn(server.world, LOADS, 300, rng))
        for deployment, truth in truths.items()
        for server in servers(deployment, truth)
    )


def fits(found: Rows) -> dict[str, dict[str, Any]]:
    """The row of each speculating deployment, all its engines together."""
    return {
        row["deployment"]: row
        for row in found["round_cost"]
        if row["engine"] is None and not row["deployment"].endswith("plain")
    }


def misses(row: dict[str, Any], name: str, truth: float) -> bool:
    """Whether the truth is neither within 5 % nor within the interval."""
    return not (abs(row[name] - truth) <= 0.05 * truth or row[f"{name}_lower"] <= truth <= row[f"{name}_upper"])


def test_costs_are_recovered_where_they_are_identified(truths: dict[str, Truth], found: Rows) -> None:
    judged = [
        (deployment, name, misses(row, name, truths[deployment].costs[name]))
        for deployment, row in fits(found).items()
        for name in truths[deployment].costs
    ]
    assert len(judged) == sum(len(truth.costs) for truth in truths.values())
    wrong = [(deployment, name) for deployment, name, missed in judged if missed]
    assert len(wrong) <= 0.05 * len(judged), wrong


def test_costs_that_are_not_identified_have_no_value_and_a_reason(truths: dict[str, Truth], found: Rows) -> None:
    for deployment, row in fits(found).items():
        missing = {name for name in ("c0", "c1", "c2", "c3", "c4") if row[name] is None}
        assert missing == {"c0", "c1", "c2", "c3", "c4"} - IDENTIFIED[truths[deployment].kind], deployment
        assert (row["not_identified"] is None) == (not missing)


def test_one_length_gives_the_joint_slope(truths: dict[str, Truth], found: Rows) -> None:
    judged = []
    for deployment, row in fits(found).items():
        cost, length = truths[deployment].world.cost, truths[deployment].world.draft_limit
        if truths[deployment].kind == "alone":
            judged.append(misses(row, "slope", cost.per_request + (length + 1) * cost.per_token))
        else:
            assert row["slope"] is None
    assert sum(judged) <= 0.05 * len(judged)


def test_a_baseline_gives_length_0_and_is_named(truths: dict[str, Truth], found: Rows) -> None:
    for deployment, row in fits(found).items():
        paired = truths[deployment].kind == "pair"
        assert (f"{deployment} plain" in row["deployments"]) is paired or truths[deployment].kind == "dynamic"
        assert (row["lengths"][0] == 0) is (truths[deployment].kind != "alone")


def test_round_times_and_speedups_are_recovered(truths: dict[str, Truth], found: Rows) -> None:
    wrong = total = 0
    for row in found["round_split"]:
        truth = truths.get(row["deployment"])
        if truth is None or row["draft_length"] == 0:
            continue
        if truth.kind == "alone":
            assert row["ordinary_ms"] is None
        if row["ordinary_ms"] is None or row["model_ms"] is None:
            continue
        own, plain = truth.round_ms(row, row["draft_length"]), truth.round_ms(row, 0)
        length = truth.world.acceptance_length(row["draft_length"])
        speedup = row["ordinary_ms"] * length / row["model_ms"]
        total += 1
        wrong += misses(row, "ordinary_ms", plain) or abs(speedup / (plain * length / own) - 1) > 0.05
        assert row["model_ms"] == pytest.approx(own, rel=0.05)
    assert total > len(truths)
    assert wrong <= 0.05 * total


def test_the_parts_of_a_round_are_recovered(truths: dict[str, Truth], found: Rows) -> None:
    wrong = total = 0
    for row in found["round_split"]:
        truth = truths.get(row["deployment"])
        if truth is None or row["draft_length"] == 0:
            continue
        cost = truth.world.cost
        parts = {
            "draft_ms": ("c4", row["draft_length"] * cost.per_draft_pass),
            "verify_ms": ("c2", row["draft_length"] * row["requests"] * cost.per_token),
        }
        for name, (behind, value) in parts.items():
            assert (row[name] is None) is (behind not in truth.costs)
            if row[name] is not None:
                total += 1
                wrong += misses(row, name, value)
    assert wrong <= 0.05 * total


def test_round_times_without_a_step_have_no_cliff(truths: dict[str, Truth], found: Rows) -> None:
    assert len(found["step_cliffs"]) <= 0.005 * len(truths), found["step_cliffs"]


def test_cliffs_are_found_at_captured_sizes_and_do_not_bend_the_costs() -> None:
    rng = np.random.default_rng(43)
    truths = {}
    given = []
    for deployment, truth in worlds(scaled(16), rng):
        size = int(rng.choice([32, 48, 64]))
        extra = rng.uniform(0.6, 1.5) * truth.world.round_time_ms(size // 4, 3)
        world = replace(truth.world, cost=replace(truth.world.cost, cliffs=((size, extra),)), draft_length=3)
        truths[deployment] = (Truth("pair", world), size, extra)
        pair = Server(world, deployment, deployment, (1, 2, 4, 8, 16, size))
        plain = Server(replace(world, draft_length=0), f"{deployment} plain", deployment)
        given += [(server, drawn(server.world, LOADS, 300, rng)) for server in (pair, plain)]
    found = marts(given)
    cliffs = {(row["deployment"], row["draft_length"]): row for row in found["step_cliffs"]}
    wrong = total = misplaced = 0
    for deployment, (truth, size, extra) in truths.items():
        cliff = cliffs[deployment, 3]
        misplaced += not cliff["size"] <= size < cliff["first_beyond"]
        total += 1
        wrong += misses(cliff, "jump_ms", extra)
        captured, most = cliff["captured_size"], cliff["capture_size_needed"] // 4
        assert captured in (None, size)
        within, limit = cliff["draft_length_within"], captured or cliff["size"]
        assert within is None if most > limit else most * (within + 1) <= limit < most * (within + 2)
        row = fits(found)[deployment]
        assert row["verified_max"] <= size
        for name, value in truth.costs.items():
            if row[name] is not None:
                total += 1
                wrong += misses(row, name, value)
    assert misplaced <= 0.03 * len(truths)
    assert wrong <= 0.05 * total


def test_the_engine_of_the_simulator_tells_the_same_costs() -> None:
    rng = np.random.default_rng(44)
    # Four hours are too few to tell what an hour shares, so here they share nothing.
    truths = {
        deployment: replace(truth, world=replace(truth.world, hour_shock=0.0))
        for deployment, truth in worlds(scaled(4), rng)
    }
    found = marts(
        (server, simulated(server.world, (1.0, 4.0, 9.0, 16.0), 5.0, rng))
        for deployment, truth in truths.items()
        for server in servers(deployment, truth)
    )
    wrong = {
        deployment
        for deployment, row in fits(found).items()
        for name, value in truths[deployment].costs.items()
        if misses(row, name, value)
    }
    assert len(wrong) <= max(1, 0.1 * len(truths)), wrong
