"""Short simulated nights as the files that a server and its clients leave, and a configuration that reads them."""

from __future__ import annotations

import datetime as dt
import functools
from dataclasses import replace
from pathlib import Path

import numpy as np

from tests.simulator import RoundCost, World, text
from tests.simulator.engine import Trace, simulate

FIRST = dt.date(2026, 11, 2)
WORLD = World(deployment="chat", arrivals_per_s=2.0)
SECONDS = 30.0
CONFIG = """\
warehouse = "warehouse"
out = "nights"

[[source]]
paths = ["input/chat"]
deployment = "chat"
year = 2026
timezone = "UTC"
"""


def day(number: int) -> dt.date:
    """The date of a night, counted from zero."""
    return FIRST + dt.timedelta(number)


def started(date: dt.date) -> float:
    """Unix time at which the simulated stretch of a night begins: 02:00 UTC."""
    return dt.datetime.combine(date, dt.time(2), dt.UTC).timestamp()


@functools.cache
def trace(seed: int, *, slow: float = 1.0, seconds: float = SECONDS) -> Trace:
    """Some seconds of one server; ``slow`` stretches every round."""
    cost = replace(RoundCost(), base=RoundCost().base * slow, per_token=RoundCost().per_token * slow)
    return simulate(replace(WORLD, cost=cost), seconds, np.random.default_rng(seed))


def write_night(folder: Path, number: int, *, slow: float = 1.0, seconds: float = SECONDS) -> dict[str, Path]:
    """The scrapes, the log and the responses of a night, by kind."""
    date, found = day(number), trace(number % 5, slow=slow, seconds=seconds)
    begin = started(date)
    scrapes = "".join(f"# scraped_at {moment}\n{scrape}" for moment, scrape in text.scrapes([found], begin, 5.0))
    contents = {
        "metrics": (f"{date}.prom", scrapes),
        "log": (f"{date}.log", text.log(found, begin, details=False)),
        "responses": (f"{date}.jsonl", text.responses(found, begin)),
    }
    folder.mkdir(parents=True, exist_ok=True)
    paths = {}
    for kind, (name, content) in contents.items():
        paths[kind] = folder / name
        paths[kind].write_text(content)
    return paths


def write_config(folder: Path, more: str = "") -> Path:
    """The configuration of a folder, with more tables behind it."""
    path = folder / "specledger.toml"
    path.write_text(CONFIG + more)
    return path
