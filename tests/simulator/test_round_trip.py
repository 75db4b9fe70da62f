"""What a simulated server wrote, taken in like any other's, gives back what happened on it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.command_line import CommandLine
from tests.simulator import Task, World, text
from tests.simulator.engine import Trace, simulate

STARTED = 1_796_000_000.0
WORLDS = {
    "fixed": World(arrivals_per_s=2),
    "plain": World(arrivals_per_s=2, draft_length=0),
    "preempting": World(arrivals_per_s=6, kv_tokens=2_000),
    "draftless": World(arrivals_per_s=2, tasks=(Task(coverage=0.4),)),
    "dynamic": World(arrivals_per_s=4, draft_length=((1, 2, 3), (3, 64, 1))),
    "aborting": World(arrivals_per_s=2, abort_share=0.3),
}


def written(trace: Trace, folder: Path) -> Path:
    folder.mkdir(parents=True)
    for moment, scrape in text.scrapes([trace], STARTED, 5.0):
        (folder / f"{round(moment * 1000)}.prom").write_text(scrape)
    (folder / "server.log").write_text(text.log(trace, STARTED))
    (folder / "responses.jsonl").write_text(text.responses(trace, STARTED))
    return folder


@pytest.fixture(params=WORLDS)
def taken_in(request: pytest.FixtureRequest, cli: CommandLine, tmp_path: Path) -> tuple[Trace, CommandLine]:
    trace = simulate(WORLDS[request.param], 40.0, np.random.default_rng(5))
    cli.ok("ingest", written(trace, tmp_path / "input"), "--deployment", "d", "--year", "2026", "--timezone", "UTC")
    cli.ok("transform")
    return trace, cli


def test_everything_is_found_again(taken_in: tuple[Trace, CommandLine]) -> None:
    trace, cli = taken_in
    speculative = trace.world.draft_limit > 0
    done = [request for request in trace.requests if not request.aborted]
    (scraped,) = cli.rows(
        "SELECT sum(rounds) AS rounds, sum(accepted) AS accepted, sum(steps) AS steps, sum(output_tokens) AS tokens,"
        " sum(requests) AS requests FROM acceptance WHERE origin = 'snapshots'"
    )
    assert scraped == {
        "rounds": sum(request.rounds for request in trace.requests) if speculative else None,
        "accepted": sum(request.accepted for request in trace.requests) if speculative else None,
        "steps": sum(len(request.steps) for request in trace.requests),
        "tokens": sum(request.output for request in trace.requests),
        "requests": len(trace.requests),
    }
    (answered,) = cli.rows(
        "SELECT sum(rounds) AS rounds, sum(output_tokens) AS tokens, sum(requests) AS requests"
        " FROM acceptance WHERE origin = 'requests'"
    )
    assert answered["rounds"] == (sum(request.rounds for request in done) if speculative else None)
    assert (answered["tokens"], answered["requests"]) == (sum(request.output for request in done), len(done))
    assert cli.value("SELECT sum(preemptions) FROM preemption WHERE origin = 'snapshots'") == sum(
        iteration.preempted for iteration in trace.iterations
    )
    assert cli.value("SELECT count(*) FROM iterations") == len(trace.iterations)
    assert cli.rows("SELECT reason FROM rejects") == []


def test_nothing_healthy_is_called_a_fault(taken_in: tuple[Trace, CommandLine]) -> None:
    _, cli = taken_in
    assert cli.rows("SELECT check_name, origin, expected, found FROM reconciliation WHERE verdict = 'fail'") == []


def test_two_engines_of_one_server_stay_apart(cli: CommandLine, tmp_path: Path) -> None:
    world = replace(WORLDS["fixed"], engines=2)
    traces = [simulate(world, 20.0, np.random.default_rng(engine), engine) for engine in range(2)]
    scrapes = "".join(f"# scraped_at {moment}\n{scrape}" for moment, scrape in text.scrapes(traces, STARTED, 5.0))
    (tmp_path / "metrics.prom").write_text(scrapes)
    cli.ok("ingest", tmp_path / "metrics.prom", "--deployment", "d")
    cli.ok("transform")
    found = cli.rows("SELECT engine, sum(rounds) AS rounds FROM cells_snapshots GROUP BY engine ORDER BY engine")
    assert [row["rounds"] for row in found] == [sum(r.rounds for r in trace.requests) for trace in traces]
