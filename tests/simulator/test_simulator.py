"""The simulator itself: what it emits follows from what is true in it."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import numpy as np
import pytest

from tests.simulator import RoundCost, Task, World, nights, text
from tests.simulator.engine import Trace, simulate
from tests.simulator.state import read

ALIKE = Task(conditional=(0.8, 0.7, 0.6), concentration=float("inf"), output_tokens=120)
DATES = [dt.date(2026, 11, 1), dt.date(2026, 11, 2)]


def run(world: World, seconds: float = 60.0, seed: int = 1) -> Trace:
    return simulate(world, seconds, np.random.default_rng(seed))


def test_the_same_seed_gives_the_same_world() -> None:
    world = World(arrivals_per_s=2, abort_share=0.1)
    assert text.log(run(world), 1.79e9) == text.log(run(world), 1.79e9)
    assert text.log(run(world), 1.79e9) != text.log(run(world, seed=2), 1.79e9)


@pytest.mark.parametrize(
    "world",
    [
        World(arrivals_per_s=2),
        World(arrivals_per_s=2, draft_length=0),
        World(arrivals_per_s=4, kv_tokens=3_000),
        World(arrivals_per_s=2, tasks=(replace(ALIKE, coverage=0.4),)),
        World(arrivals_per_s=4, draft_length=((1, 2, 3), (3, 64, 1))),
        World(arrivals_per_s=2, abort_share=0.3),
    ],
    ids=["fixed", "plain", "preempting", "draftless", "dynamic", "aborting"],
)
def test_the_identities_of_a_healthy_server_hold(world: World) -> None:
    trace = run(world)
    state = read(trace, np.array([trace.seconds]))
    steps = sum(len(request.steps) for request in trace.requests)
    truncated = sum(1 + len(r.steps) + r.accepted - r.output for r in trace.requests if not r.aborted)
    assert steps == state.histograms["itl"].counts[0, -1]
    assert steps == sum(iteration.generation_requests for iteration in trace.iterations)
    assert state.generation_tokens[0] == sum(request.output for request in trace.requests)
    assert state.accepted[0] == state.accepted_at[0].sum()
    assert state.drafted[0] <= world.draft_limit * state.rounds[0]
    assert truncated >= 0
    assert state.preemptions[0] == sum(request.preemptions for request in trace.requests)
    if not any(request.aborted for request in trace.requests):
        assert state.histograms["itl"].sums[0] == pytest.approx(state.histograms["decode"].sums[0])


def test_preemption_happens_where_the_cache_is_small() -> None:
    assert sum(request.preemptions for request in run(World(arrivals_per_s=6, kv_tokens=2_000)).requests) > 0


def test_an_iteration_takes_what_its_work_costs() -> None:
    world = World(arrivals_per_s=3, cost=RoundCost(noise=0.0, cliffs=((8, 5.0),)))
    for iteration in run(world).iterations:
        drafted = iteration.generation_tokens > iteration.generation_requests
        expected = world.cost.ms(
            iteration.generation_requests, iteration.generation_tokens, iteration.context_tokens, 3 if drafted else 0
        )
        assert iteration.elapsed_ms == pytest.approx(expected)


def test_acceptance_comes_out_at_its_truth() -> None:
    world = World(tasks=(ALIKE,), engines=2)
    frame = nights.requests(world, DATES, np.random.default_rng(1), gaps=False)
    rounds = frame["rounds"].sum()
    at = np.array(frame["accepted_at"].to_list()).sum(axis=0)
    survival = world.survival(ALIKE)
    assert np.abs(at / rounds - survival).max() < 4 * np.sqrt(survival * (1 - survival) / rounds).max()
    assert 1 + frame["accepted"].sum() / rounds == pytest.approx(world.acceptance_length(), rel=0.01)


@pytest.mark.parametrize("factor", [0.9, 0.95, 1.05])
def test_an_effect_on_the_length_is_as_large_as_asked_for(factor: float) -> None:
    world = World(tasks=(ALIKE, Task("code", 0.5, (0.9, 0.9, 0.9))))
    assert world.with_length(factor).acceptance_length() == pytest.approx(factor * world.acceptance_length())


def test_an_effect_on_round_time_scales_every_round() -> None:
    world = World()
    assert world.with_round_time(1.1).round_time_ms(8, 3) == pytest.approx(1.1 * world.round_time_ms(8, 3))


def test_cells_add_up_to_their_requests() -> None:
    world = World(engines=2, wave=0.5, hour_shock=0.01, tasks=(ALIKE, Task("code", 0.3, temperature=0.7)))
    frame = nights.requests(world, DATES, np.random.default_rng(3), per_hour=20)
    cells = nights.cells(world, frame)
    for name in ("rounds", "accepted", "output_tokens", "steps"):
        assert sum(cells[name].to_pylist()) == frame[name].sum()
    assert sum(cells["n"].to_pylist()) == frame.height
    assert sum(cells["itl_n"].to_pylist()) == frame["gaps_ms"].list.len().sum() == frame["steps"].sum()
    assert sum(count for cell in cells["itl"].to_pylist() for _, count in cell) == frame["steps"].sum()
    assert sum(cells["decode_ns"].to_pylist()) == pytest.approx(frame["decode_ms"].sum() * 1e6)
    squares = (frame["rounds"] * frame["accepted"]).sum()
    assert int(sum(cells["rounds_accepted"].to_pylist())) == squares


def test_the_mix_can_change_without_anything_else() -> None:
    world = World(tasks=(Task("easy", 0.5, (0.9,)), Task("hard", 0.5, (0.4,))), draft_length=1)
    moved = world.with_shares(0.2, 0.8)
    assert moved.acceptance_length() < world.acceptance_length()
    assert [task.conditional for task in moved.tasks] == [task.conditional for task in world.tasks]


def test_the_best_length_falls_with_load() -> None:
    world = World(cost=RoundCost(base=10, per_request=0.05, per_token=0.3, per_draft_pass=0.7))
    best = [world.best_length(load) for load in (1, 8, 32, 64)]
    assert best == sorted(best, reverse=True)
    assert best[0] > best[-1]
