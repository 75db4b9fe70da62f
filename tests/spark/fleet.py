"""A fleet of many deployments and nights: raw rows, drawn by the simulator."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import numpy as np

from specledger.schemas import TABLES
from specledger.schemas.warehouse import Warehouse
from tests.reports.fleet import WORLD
from tests.simulator import nights

FIRST = dt.date(2026, 9, 14)


def write(
    warehouse: Warehouse,
    deployments: int = 18,
    dates: int = 3,
    *,
    engines: int = 2,
    per_hour: float = 2.0,
    every_s: int = 600,
    huge: int = 6,
) -> int:
    """Write requests and scrapes; how many partitions there are. One deployment has ``huge`` times as many engines."""
    rng = np.random.default_rng(9)
    for number in range(deployments):
        world = replace(WORLD, deployment=f"fleet/{number:03}", engines=engines * (huge if number == 0 else 1))
        if number % 3 == 0:
            world = replace(world, draft_length=0)
        for back in range(dates):
            date = FIRST + dt.timedelta(back)
            drawn = nights.requests(world, [date], rng, per_hour=per_hour)
            for name, rows in nights.rows(world, drawn, every_s=every_s).items():
                warehouse.write(TABLES[name], date, world.deployment, f"simulated-{back}", rows)
    return deployments * dates
