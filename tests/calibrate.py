"""How often verdicts are wrong on fleets whose truth is known: ``python -m tests.calibrate``.

A pool of nights is drawn request by request (daily waves, a shock of the hour shared by all engines, a shock of the
night, requests that differ, a mix that drifts). Each pair is one report: seven nights of the pool against another one,
or against one of a world that was changed. Ends with 1 if a rate leaves its bounds.
"""

from __future__ import annotations

import argparse
import datetime as dt
import multiprocessing
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from specledger.reports.interval import lower_bound, upper_bound
from specledger.reports.model import Report
from specledger.schemas.warehouse import Warehouse
from tests.reports.fleet import WORLD, put_requests, report
from tests.simulator.world import World

BASELINE_NIGHTS = 7
START = dt.date(2026, 1, 1)
SAME = "same"
WORLDS: dict[str, World] = {
    SAME: WORLD,
    "mix": WORLD.with_shares(0.3, 0.2, 0.5),
    "length": WORLD.with_length(0.9),
    "time": WORLD.with_round_time(1.1),
    "gaps": WORLD.with_round_time(1.2),
}
"""The candidate's world of each experiment, by deployment; the baseline is always the same one."""
DETECTED = {
    "length": (("capacity", "acceptance_length"),),
    "time": (("capacity", "round_time_ms"), ("latency", "tpot_ms")),
    "gaps": (("latency", "itl_ms_p99"),),
}
"""Gates that must fail where the true effect is twice the tolerance."""
RATIOS = ("acceptance_length", "effective_length", "round_time_ms", "tpot_ms")
MOST_ALARMS = 0.05
LEAST_DETECTION = 0.95
LEAST_COVERAGE = 0.93
MOST_COVERAGE = 0.97


@dataclass(frozen=True)
class Rate:
    """A share with what it is held against."""

    what: str
    hits: int
    of: int
    least: float = 0.0
    most: float = 1.0

    @property
    def kept(self) -> bool:
        """Whether the share may be within its bounds, given how many pairs there were (95 % one-sided)."""
        return upper_bound(self.hits, self.of) >= self.least and lower_bound(self.hits, self.of) <= self.most

    def row(self) -> str:
        low, high = lower_bound(self.hits, self.of, 0.975), upper_bound(self.hits, self.of, 0.975)
        bounds = f"{self.least:.0%} to {self.most:.0%}"
        state = "ok" if self.kept else "OUT"
        return f"| {self.what} | {self.hits / self.of:.1%} | {low:.1%} to {high:.1%} | {self.of} | {bounds} | {state} |"


def draw_pool(root: Path, nights: int, per_hour: float, shocks: float, seed: int) -> None:
    """Write the nights of every world into one warehouse; ``shocks`` multiplies those of hour and night."""
    warehouse = Warehouse(root)
    for number, (name, world) in enumerate(WORLDS.items()):
        shaken = replace(
            world, deployment=name, hour_shock=world.hour_shock * shocks, night_shock=world.night_shock * shocks
        )
        dates = [START + dt.timedelta(days=day) for day in range(nights)]
        put_requests(warehouse, shaken, dates, seed + number, per_hour=per_hour)


def ask(job: tuple[str, str, int, int]) -> tuple[str, Report]:
    """The report of one pair: (warehouse, experiment, nights in the pool, seed)."""
    root, experiment, nights, seed = job
    rng = np.random.default_rng(seed)
    days = [START + dt.timedelta(days=int(day)) for day in rng.permutation(nights)[: BASELINE_NIGHTS + 1]]
    listed = ", ".join(f"DATE '{day}'" for day in days[:-1])
    return experiment, report(
        Warehouse(root),
        f"deployment = '{SAME}' AND date IN ({listed})",
        f"deployment = '{experiment}' AND date = DATE '{days[-1]}'",
    )


def measure(root: Path, nights: int, pairs: int, workers: int, seed: int) -> list[Rate]:
    """The rates over ``pairs`` reports of each experiment."""
    jobs = [(str(root), name, nights, seed + number) for name in WORLDS for number in range(pairs)]
    found: dict[str, list[Report]] = defaultdict(list)
    for experiment, answer in _run(jobs, workers):
        found[experiment].append(answer)
    rates = [
        Rate("false alarms per report, nothing changed", _failed(found[SAME]), pairs, most=MOST_ALARMS),
        Rate("false alarms per report, the mix changed", _failed(found["mix"]), pairs, most=MOST_ALARMS),
    ]
    for experiment, gates in DETECTED.items():
        for gate, name in gates:
            hits = sum(_verdict(answer, gate, name) == "fail" for answer in found[experiment])
            rates.append(Rate(f"detection, {experiment} changed: {name}", hits, pairs, least=LEAST_DETECTION))
    for name in (*RATIOS, "ttft_ms_p95", "e2e_ms_p95", "itl_ms_p99"):
        covered = [
            interval[0] <= 0 <= (np.inf if interval[1] is None else interval[1])
            for answer in found[SAME]
            for result in answer.gates
            if result.measure == name and result.stratum is None and (interval := result.interval) is not None
        ]
        most = MOST_COVERAGE if name in RATIOS else 1.0
        rates.append(Rate(f"coverage of 95 % intervals: {name}", sum(covered), len(covered), LEAST_COVERAGE, most))
    return rates


def _run(jobs: Sequence[tuple[str, str, int, int]], workers: int) -> Iterator[tuple[str, Report]]:
    if workers == 1:
        yield from map(ask, jobs)
        return
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        yield from pool.imap_unordered(ask, jobs, chunksize=4)


def _failed(answers: Sequence[Report]) -> int:
    return sum(answer.exit_code == 1 for answer in answers)


def _verdict(answer: Report, gate: str, measure: str) -> str:
    return next(r.verdict for r in answer.gates if (r.gate, r.measure, r.stratum) == (gate, measure, None))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table of rates; 1 if one is out of bounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1000, help="reports of each experiment")
    parser.add_argument("--nights", type=int, default=200, help="nights in the pool of each world")
    parser.add_argument("--per-hour", type=float, default=60.0, help="requests per engine and hour")
    parser.add_argument("--shocks", type=float, default=1.0, help="factor on the shocks of hour and night")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        draw_pool(Path(folder), given.nights, given.per_hour, given.shocks, given.seed)
        rates = measure(Path(folder), given.nights, given.pairs, given.workers, given.seed)
    print("| rate | found | 95 % interval | pairs | bounds | |\n|---|---|---|---|---|---|")
    for rate in rates:
        print(rate.row())
    return 0 if all(rate.kept for rate in rates) else 1


if __name__ == "__main__":
    sys.exit(main())
