"""Warehouses of simulated nights, written as cells, and reports over them."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from specledger.reports.build import Question, build
from specledger.reports.model import GateResult, Report
from specledger.schemas import TABLES
from specledger.schemas.cells import CELLS_REQUESTS, CELLS_SNAPSHOTS
from specledger.schemas.table import Table
from specledger.schemas.warehouse import Warehouse
from tests.simulator import nights
from tests.simulator.world import Task, World

WORLD = World(
    engines=4,
    wave=0.5,
    hour_shock=0.01,
    night_shock=0.005,
    mix_spread=0.3,
    tasks=(
        Task("chat", 0.5, (0.72, 0.70, 0.68)),
        Task("code", 0.3, (0.85, 0.83, 0.80)),
        Task("math", 0.2, (0.60, 0.60, 0.55), temperature=0.7),
    ),
)
"""Four engines under a daily wave, an hour shock that they share, and three kinds of requests."""
FIRST, LAST = dt.date(2026, 9, 14), dt.date(2026, 9, 15)
NOW = dt.datetime(2026, 9, 16)
BASELINE, CANDIDATE = "date < '2026-09-15'", "date = '2026-09-15'"
ITL_EDGES_S = (0.005, 0.01, 0.02, 0.03, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.5, 1.0, float("inf"))


def put_requests(warehouse: Warehouse, world: World, dates: list[dt.date], seed: int, **options: Any) -> pl.DataFrame:
    """Write the cells of requests of some nights, and give the requests."""
    rng = np.random.default_rng(seed)
    frames = []
    for date in dates:
        frame = nights.requests(world, [date], rng, **options)
        warehouse.write(CELLS_REQUESTS, date, world.deployment, "cells", nights.cells(world, frame))
        frames.append(frame)
    return pl.concat(frames)


def put_scrapes(warehouse: Warehouse, world: World, frame: pl.DataFrame) -> None:
    """Write what scrapes of these requests' servers add up to: one interval a cell, no second moments."""
    tokens = pl.col("output_tokens") - 1
    decode = (pl.col("decode_ms") * 1e6).round().cast(pl.Int64)
    grouped = (
        frame.with_columns(
            hour=(pl.col("finished_s") // 3600).cast(pl.Int8), block=(pl.col("finished_s") // 600).cast(pl.Int16)
        )
        .group_by("date", "engine", "hour", "block", "load", maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("requests"),
            *(
                pl.col(name).sum()
                for name in ("output_tokens", "prompt_tokens", "rounds", "drafted", "accepted", "steps")
            ),
            decode.sum().alias("decode_ns"),
            tokens.sum().alias("decode_tokens"),
            pl.col("gaps_ms").explode().alias("gaps"),
        )
    )
    for (date,), night in grouped.group_by("date", maintain_order=True):
        itl = []
        for gaps in night["gaps"]:
            counts = np.histogram(np.asarray(gaps) / 1000, [0.0, *ITL_EDGES_S])[0]
            itl.append({"le": list(ITL_EDGES_S), "n": counts.tolist()})
        columns = {
            **{name: night[name].to_list() for name in night.columns if name not in {"date", "gaps", "engine"}},
            "engine": [0] * len(night),
            "instance": [nights.instance(engine) for engine in night["engine"]],
            "origin": ["snapshots"] * len(night),
            "edges": [1] * len(night),
            "n": [1] * len(night),
            "duration_ns": [600 * 10**9] * len(night),
            "step_tokens": night["decode_tokens"].to_list(),
            "step_decode_ns": night["decode_ns"].to_list(),
            "step_rounds": night["rounds"].to_list(),
            "step_accepted": night["accepted"].to_list(),
            "preemptions": [0] * len(night),
            "itl": itl,
            "itl_n": night["steps"].to_list(),
        }
        warehouse.write(CELLS_SNAPSHOTS, date, world.deployment, "cells", filled(CELLS_SNAPSHOTS, columns))


def put_row(warehouse: Warehouse, table: str, date: dt.date, deployment: str, **values: Any) -> None:
    """Write one row of a raw table."""
    given = {"instance": deployment, "source": "test", **values}
    columns = {name: [value] for name, value in given.items() if name in TABLES[table].names}
    name = "_".join(str(value) for value in values.values() if isinstance(value, str)) or "row"
    warehouse.write(TABLES[table], date, deployment, name.replace("/", "_"), filled(TABLES[table], columns))


def filled(table: Table, columns: dict[str, list[Any]]) -> pa.Table:
    """Rows with the Arrow schema of a table, columns not given as null."""
    schema = table.arrow_schema()
    rows = len(next(iter(columns.values())))
    return pa.table([pa.array(columns.get(f.name, [None] * rows), f.type) for f in schema], schema=schema)


def report(warehouse: Warehouse, baseline: str = BASELINE, candidate: str = CANDIDATE, **options: Any) -> Report:
    """The report over a warehouse."""
    return build(warehouse, replace(Question(baseline, candidate), **options), NOW)


def gate(found: Report, name: str, measure: str, band: str | None = None) -> GateResult:
    """The one result of a gate at one place."""
    (result,) = [
        g
        for g in found.gates
        if (g.gate, g.measure, None if g.stratum is None else g.stratum.load_band) == (name, measure, band)
    ]
    return result
