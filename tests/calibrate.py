"""How often verdicts are wrong on fleets whose truth is known: ``python -m tests.calibrate``.

Nights are drawn request by request: daily waves, shocks of the hour and of the night that all engines share (of times
in one half of the pools, of acceptance in the other), requests whose acceptance differs, a mix of tasks that drifts. A
pair is one report: a night of four engines against seven others, out of the same world or out of one that was changed.
No two pairs of a kind share the candidate's night. Ends with 1 if a rate leaves its bounds; doubled shocks only inform.
"""

from __future__ import annotations

import argparse
import datetime as dt
import math
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from specledger.reports.interval import lower_bound, upper_bound
from specledger.reports.model import GateResult
from specledger.schemas import TABLES
from specledger.schemas.config import DEFAULT_SETTINGS
from specledger.schemas.table import Table
from specledger.schemas.warehouse import Warehouse
from specledger.transforms.runner import run
from tests.reports.fleet import WORLD, report
from tests.reports.pool import Pool, judged
from tests.simulator import nights
from tests.simulator.world import World

BASELINE_NIGHTS = 7
START = dt.date(2026, 1, 1)
FLEET = WORLD


def slower(factor: float) -> World:
    """The fleet with all times that many times as long: prompts of others fall into as many rounds as before."""
    return replace(FLEET.with_round_time(factor), arrivals_per_s=FLEET.arrivals_per_s / factor)


SAME = "nothing"
WORLDS: Mapping[str, World] = {
    SAME: FLEET,
    "mix of tasks": FLEET.with_shares(0.3, 0.2, 0.5),
    "load": replace(FLEET, mean_load=10.0),
    "acceptance length -10 %": FLEET.with_length(0.9),
    "times +10 %": slower(1.1),
    "times +20 %": slower(1.2),
}
"""What was changed in the candidate's world; the baseline's is always the first."""
BLIND = frozenset({("mix of tasks", "snapshots"), ("load", "snapshots")})
"""Scrapes see no tasks, and the drawn loads are not those of the drawn traffic."""
DETECTED = {
    "acceptance length -10 %": ("acceptance_length",),
    "times +10 %": ("round_time_ms", "tpot_ms"),
    "times +20 %": ("itl_ms_p99", "itl_over"),
}
"""Gates that must fail, where the true effect is twice the tolerance."""
TRUTH = {
    SAME: dict.fromkeys(("acceptance_length", "effective_length", "round_time_ms", "tpot_ms"), 0.0)
    | dict.fromkeys(("ttft_ms_p95", "e2e_ms_p95", "itl_ms_p99", "itl_over"), 0.0),
    "times +10 %": {"round_time_ms": 0.1, "tpot_ms": 0.1, "acceptance_length": 0.0},
    "times +20 %": {"itl_ms_p99": 0.2, "e2e_ms_p95": 0.2, "ttft_ms_p95": 0.2},
}
"""The true change of measures, where it is known."""
SMOOTH = frozenset({"acceptance_length", "effective_length", "round_time_ms", "tpot_ms"})
"""Ratios whose intervals may not be too wide either; those of quantiles may: buckets and tails are coarse."""
MOST_ALARMS = 0.05
LEAST_DETECTION = 0.95
COVERAGE = (0.93, 0.97)
ORIGINS = ("requests", "snapshots")


@dataclass(frozen=True)
class Size:
    """How much is drawn."""

    same: int = 40
    """Nights of the unchanged world in a pool; each is a candidate once."""
    changed: int = 8
    """Nights of each changed world in a pool."""
    per_hour: float = 80.0
    """Requests of an engine and hour."""


@dataclass(frozen=True)
class Judged:
    """The results of one pair, and what was changed in it."""

    changed: str
    origin: str
    results: tuple[GateResult, ...]

    def overall(self, measure: str) -> GateResult | None:
        return next((r for r in self.results if r.measure == measure and r.stratum is None), None)


@dataclass(frozen=True)
class Rate:
    """A share with what it is held against."""

    what: str
    hits: int
    of: int
    least: float = 0.0
    most: float = 1.0

    @property
    def share(self) -> float:
        return self.hits / self.of

    @property
    def kept(self) -> bool:
        return self.least <= self.share <= self.most

    def row(self) -> str:
        low, high = lower_bound(self.hits, self.of, 0.975), upper_bound(self.hits, self.of, 0.975)
        bounds = f"≤ {self.most:.0%}" if self.least == 0 else f"{self.least:.0%} – {self.most:.0%}"
        state = "" if self.kept else " **out**"
        return f"| {self.what} | {self.share:.1%}{state} | {low:.1%} – {high:.1%} | {self.of} | {bounds} |"


def pairs(seed: Sequence[int], shocks: float, size: Size) -> list[Judged]:
    """All pairs of one pool of nights; ``shocks`` multiplies those of hour and night.

    The last number of the seed is that of the pool: in even ones times are shaken, in odd ones acceptance.
    """
    days = {
        (name, number): START + dt.timedelta(days=1000 * place + number)
        for place, name in enumerate(WORLDS)
        for number in range(size.same if name == SAME else size.changed)
    }
    moved = frozenset({("times", "acceptance")[seed[-1] % 2]})
    shaken = {name: shake(world, shocks, moved) for name, world in WORLDS.items()}
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        pool = Pool(Path(folder), [(shaken[name], day) for (name, _), day in days.items()], seed, size.per_hour)
        found: list[Judged] = []
        for (name, _), day in days.items():
            others = [other for (world, _), other in days.items() if world == SAME and other != day]
            before = sorted(rng.permutation(np.array(others))[:BASELINE_NIGHTS].tolist())
            found += [
                Judged(name, origin, tuple(judged(pool, before, day, origin)))
                for origin in ORIGINS
                if (name, origin) not in BLIND
            ]
    return found


def shake(world: World, shocks: float, moved: frozenset[str]) -> World:
    """The world with all its shocks that many times as large, and what they move."""
    hour, night = world.hour_shock * shocks, world.night_shock * shocks
    return replace(world, hour_shock=hour, night_shock=night, shaken=moved)


def rates(found: Sequence[Judged]) -> list[Rate]:
    """The rates of all pairs, with their bounds."""
    return [*_alarms(found), *_detections(found), *_coverages(found)]


def _alarms(found: Sequence[Judged]) -> Iterator[Rate]:
    for name in (SAME, "mix of tasks", "load"):
        for origin in ORIGINS:
            pairs_of = [one for one in found if (one.changed, one.origin) == (name, origin)]
            if pairs_of:
                alarms = sum(any(r.verdict == "fail" for r in one.results) for one in pairs_of)
                what = f"false alarms a report, {name} changed, {origin}"
                yield Rate(what, alarms, len(pairs_of), most=MOST_ALARMS)


def _detections(found: Sequence[Judged]) -> Iterator[Rate]:
    for name, measures in DETECTED.items():
        for measure in measures:
            for origin in ORIGINS:
                verdicts = [
                    result.verdict
                    for one in found
                    if (one.changed, one.origin) == (name, origin) and (result := one.overall(measure)) is not None
                ]
                if verdicts:
                    what = f"{measure} fails, {name}, {origin}"
                    yield Rate(what, verdicts.count("fail"), len(verdicts), least=LEAST_DETECTION)


def _coverages(found: Sequence[Judged]) -> Iterator[Rate]:
    for name, truth in TRUTH.items():
        for measure, change in truth.items():
            for origin in ORIGINS:
                mine = [one for one in found if (one.changed, one.origin) == (name, origin)]
                for banded in (False, True):
                    covered = [
                        lower <= change <= (math.inf if upper is None else upper)
                        for one in mine
                        for result in one.results
                        if result.measure == measure and (result.stratum is not None) is banded and result.interval
                        for lower, upper in [result.interval]
                    ]
                    if covered:
                        most = COVERAGE[1] if measure in SMOOTH and not banded else 1.0
                        place = "load bands" if banded else "overall"
                        what = f"coverage of {measure}, {name} changed, {origin}, {place}"
                        yield Rate(what, sum(covered), len(covered), COVERAGE[0], most)


def from_raw_rows(count: int, seed: int, per_hour: float) -> Rate:
    """False alarms over whole reports on raw rows that went through every transform."""
    days = [START + dt.timedelta(days=day) for day in range(count)]
    rng = np.random.default_rng([seed, 1])
    with tempfile.TemporaryDirectory() as folder:
        warehouse = Warehouse(folder)
        for day in days:
            drawn = nights.requests(FLEET, [day], rng, per_hour=per_hour)
            for name, rows in nights.rows(FLEET, drawn).items():
                table: Table = TABLES[name]
                warehouse.write(table, day, FLEET.deployment, "simulated", rows)
        run(warehouse, DEFAULT_SETTINGS, None, False)
        alarms = 0
        for day in days:
            others = rng.permutation(np.array([other for other in days if other != day]))[:BASELINE_NIGHTS].tolist()
            listed = ", ".join(f"DATE '{other}'" for other in others)
            alarms += report(warehouse, f"date IN ({listed})", f"date = DATE '{day}'").exit_code == 1
    return Rate("false alarms a report, nothing changed, from raw rows", alarms, count, most=MOST_ALARMS)


def run_pools(pools: int, shocks: float, size: Size, seed: int, workers: int) -> list[Judged]:
    """The pairs of several pools; tells on standard error how many are done."""
    found: list[Judged] = []
    with multiprocessing.get_context("spawn").Pool(workers) as processes:
        done = processes.imap_unordered(_pairs, [((seed, number), shocks, size) for number in range(pools)])
        for number, judged_pairs in enumerate(done, start=1):
            found += judged_pairs
            print(f"{number} of {pools} pools", file=sys.stderr, flush=True)
    return found


def _pairs(job: tuple[tuple[int, int], float, Size]) -> list[Judged]:
    return pairs(*job)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables of rates; 1 if one is out of bounds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pools", type=int, default=25, help="pools of 40 pairs without a change and 8 of each change")
    parser.add_argument("--doubled", type=int, default=5, help="pools with the shocks doubled")
    parser.add_argument("--raw", type=int, default=20, help="pairs from raw rows")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    size, began = Size(), time.monotonic()
    found = rates(run_pools(given.pools, 1.0, size, given.seed, given.workers))
    if given.raw:
        found.append(from_raw_rows(given.raw, given.seed, size.per_hour))
    _show("Shocks of the hour 1 %, of the night 0.5 %", found)
    if given.doubled:
        doubled = rates(run_pools(given.doubled, 2.0, size, given.seed + 1, given.workers))
        _show("Shocks doubled: hour 2 %, night 1 % (informs, and decides nothing)", doubled)
    print(f"\n{time.monotonic() - began:.0f} s with {given.workers} processes, seed {given.seed}.")
    return 0 if all(rate.kept for rate in found) else 1


def _show(title: str, found: Sequence[Rate]) -> None:
    print(f"\n{title}\n\n| rate | found | 95 % interval | of | bounds |\n|---|---|---|---|---|")
    for rate in found:
        print(rate.row())


if __name__ == "__main__":
    sys.exit(main())
