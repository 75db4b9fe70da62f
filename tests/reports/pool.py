"""Many comparisons over one pool of simulated nights, whose cells are read once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from specledger.reports.bands import MartReader
from specledger.reports.buckets import Buckets
from specledger.reports.cells_read import CellReader, Frame, Grain, Loads, Part
from specledger.reports.compare import Comparison
from specledger.reports.gates import DEFAULT_SET
from specledger.reports.judge import hold_rate
from specledger.reports.measured import measured_gates
from specledger.reports.model import GateResult
from specledger.reports.origins import OriginChoice
from specledger.reports.quantile import Histogram
from specledger.reports.selection import Night, Selection
from specledger.reports.strata import Strata
from specledger.schemas.config import DEFAULT_SETTINGS
from specledger.schemas.warehouse import Warehouse
from tests.reports.fleet import WORLD, put_requests, put_scrapes
from tests.simulator.world import World

EPOCH = dt.date(1970, 1, 1)
GATES = replace(
    DEFAULT_SET,
    gates=tuple(g for g in DEFAULT_SET.gates if g.gate in {"latency", "capacity"} and g.severity == "fail"),
)
"""The gates that can fail a comparison of cells."""


class Pool(CellReader):
    """Reads every query once over all nights, and gives of its answer the nights that are asked for."""

    def __init__(self, root: Path, nights: Sequence[tuple[World, dt.date]], seed: Sequence[int], per_hour: float):
        """Draws the nights (no two on one date) into a warehouse, as cells of requests and of scrapes."""
        warehouse = Warehouse(root)
        for world, date in nights:
            drawn = put_requests(warehouse, world, [date], [*seed, date.toordinal()], per_hour=per_hour)
            put_scrapes(warehouse, world, drawn)
        super().__init__(warehouse)
        self._everything = selection(date for _, date in nights)
        self._answers: dict[str, tuple[pa.Table, np.ndarray]] = {}
        self._known: dict[tuple[str, str, Loads], float | None] = {}
        self._asked: Selection = self._everything

    def frame(self, side: Selection, origin: str, grain: Grain = "hour", loads: Loads = None) -> Frame:
        self._asked = side
        return super().frame(side, origin, grain, loads)

    def with_moments(self, side: Selection, origin: str) -> Frame:
        self._asked = side
        return super().with_moments(side, origin)

    def histogram(self, side: Selection, name: str, grain: Grain, strata: Strata, loads: Loads) -> Histogram:
        self._asked = side
        return super().histogram(side, name, grain, strata, loads)

    def buckets(self, side: Selection, name: str, grain: Grain, strata: Strata, loads: Loads) -> Buckets:
        self._asked = side
        return super().buckets(side, name, grain, strata, loads)

    def scalar(self, side: Selection, origin: str, expression: str, loads: Loads = None) -> float | None:
        """Only asked for what is the same for all nights: which figures there are."""
        key = origin, expression, loads
        if key not in self._known:
            self._known[key] = super().scalar(self._everything, origin, expression, loads)
        return self._known[key]

    def units(self, side: Selection, origin: str, grain: Grain) -> int:
        return len(side.nights) * (24 if grain == "hour" else 144)

    def forget(self) -> None:
        """Drop what was kept for single selections."""
        self._frames.clear()
        self._with_moments.clear()
        self._histograms.clear()

    def _table(self, side: Selection, origin: str, part: Part) -> str:
        return super()._table(self._everything, origin, part)

    def _arrow(self, query: str) -> pa.Table:
        if query not in self._answers:
            answer = super()._arrow(query)
            if np.any(np.diff(answer.column(0).to_numpy()) < 0):
                answer = answer.take(pa.array(np.argsort(answer.column(0).to_numpy(), kind="stable")))
            column = answer.column_names.index("rest")
            answer = answer.set_column(column, "rest", answer["rest"].combine_chunks().dictionary_encode())
            first = answer.column(0).to_numpy()  # night or hour
            self._answers[query] = answer.combine_chunks(), first // (24 if answer.column_names[0] != "night" else 1)
        answer, night = self._answers[query]
        wanted = [(date - EPOCH).days for date in self._asked.dates]
        ends = zip(np.searchsorted(night, wanted), np.searchsorted(night, wanted, "right"), strict=True)
        return pa.concat_tables([answer.slice(start, end - start) for start, end in ends]).combine_chunks()


def selection(dates: Iterable[dt.date]) -> Selection:
    """The nights of the pool on these dates."""
    return Selection("", tuple(sorted(Night(date, WORLD.deployment) for date in dates)))


def judged(pool: Pool, baseline: Sequence[dt.date], candidate: dt.date, origin: str) -> list[GateResult]:
    """The latency and capacity gates of one comparison, from one origin."""
    pool.forget()
    return gates(pool, selection(baseline), selection([candidate]), origin)


def gates(reader: CellReader, baseline: Selection, candidate: Selection, origin: str) -> list[GateResult]:
    """The gates of two selections that a reader knows."""
    choice = OriginChoice((origin,), {}, "")
    comparison = Comparison(reader, baseline, candidate, DEFAULT_SETTINGS.load_bands, choice)
    results = measured_gates(GATES, comparison, MartReader(Warehouse("unused")))
    return hold_rate(results, GATES.false_discovery_rate)
