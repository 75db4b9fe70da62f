"""A night of 100 engines, extrapolated: what one engine and three take, and so what each more does.

Every engine is scraped every 15 s, keeps a log at default flags and answers 100,000 requests, logged without arrays.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from specledger.ingest.run import ingest
from specledger.schemas.config import DEFAULT_SETTINGS
from specledger.schemas.warehouse import Warehouse
from specledger.transforms.runner import run
from tests.bench import inputs
from tests.bench.measure import Row

ENGINES, FEW, MORE = 100, 1, 3
GOAL_MIN = 10.0
EVERY_S = 15
SCRAPES_MB, LOG_MB, RESPONSES_MB = 305.0, 20.0, 112.0
"""What an engine writes in a day."""
TURNS = 228
"""Times that the capture behind the snapshots goes into a day."""


def rows(scale: float, folder: Path) -> Iterator[Row]:
    """One row: minutes of wall time, and the share of each stage."""
    part = min(scale, 1.0)
    _night(1, 0.01, folder / "first")  # imports what is needed
    few, more = (_night(engines, part, folder / str(engines)) for engines in (FEW, MORE))
    whole = Counter(
        {stage: few[stage] + max(0.0, more[stage] - few[stage]) * (ENGINES - FEW) / (MORE - FEW) for stage in few}
    )
    minutes = whole.total() / 60
    shares = ", ".join(f"{stage} {taken / whole.total():.0%}" for stage, taken in whole.most_common())
    yield Row(
        f"night of {ENGINES} engines, extrapolated",
        f"{ENGINES * (SCRAPES_MB + LOG_MB + RESPONSES_MB) * part / 1e3:.3g} GB",
        f"{minutes:.1f} min: {shares}",
        f"{GOAL_MIN:g} min a day",
        minutes / (GOAL_MIN * part),
        1.0,
        anchor_name="goal",
    )


def _night(engines: int, part: float, folder: Path) -> Counter[str]:
    """Seconds by stage for ``part`` of a day; the files of each engine have an ingest of their own."""
    folder.mkdir()
    house, taken = Warehouse(folder / "warehouse"), Counter[str]()
    for number in range(engines):
        server: dict[str, Any] = {"deployment": "d", "instance": f"server-{number}"}
        path = inputs.scrapes(folder / "metrics.prom", SCRAPES_MB * part, EVERY_S)
        # The rows of these are not computed with: counters that start anew with every turn are no usual night.
        taken["scrapes"] += _seconds(ingest, folder / "scrapes", [path], **server)
        path = inputs.server_log(folder / "server.log", "default_flags", LOG_MB * part)
        taken["log"] += _seconds(ingest, house, [path], timezone="UTC", **server)
        path = inputs.responses(folder / "responses.jsonl", RESPONSES_MB * part, arrays=False, prefix=f"{number}-")
        taken["responses"] += _seconds(ingest, house, [path], **server)
    inputs.fleet(house, max(1, round(TURNS * part)), engines, every_s=EVERY_S)
    taken["cells and marts"] = _seconds(run, house, DEFAULT_SETTINGS)
    return taken


def _seconds(work: Callable[..., object], *arguments: Any, **named: Any) -> float:
    begin = time.perf_counter()
    work(*arguments, **named)
    return time.perf_counter() - begin
