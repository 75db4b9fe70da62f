"""A report over 90 nights of 20 deployments, against one scan of the cells that it rests on."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from specledger.reports.build import Question, build
from specledger.schemas.cells import CELLS_REQUESTS
from specledger.schemas.config import DEFAULT_SETTINGS
from specledger.schemas.published import published
from specledger.schemas.raw import REQUESTS
from specledger.schemas.warehouse import Warehouse
from specledger.transforms.runner import run
from tests.bench.measure import PROGRAM, Row, pair, program
from tests.reports.fleet import WORLD
from tests.simulator import nights

NIGHTS, DEPLOYMENTS, PER_HOUR = 90, 20, 6.0
LAST = dt.date(2026, 9, 14)


def rows(scale: float, folder: Path) -> Iterator[Row]:
    """The report's own reading and judging, then the whole command."""
    warehouse, count = Warehouse(folder / "warehouse"), max(1, round(NIGHTS * min(scale, 1.0)))
    stored = _fill(warehouse, count)
    question = Question(f"date < DATE '{LAST}'", f"date = DATE '{LAST}'")
    files = [str(file.path) for file in warehouse.files(CELLS_REQUESTS)]
    sums = ", ".join(f"sum({column.name})" for column in CELLS_REQUESTS.columns if column.type == "HUGEINT")
    plain = f"SELECT {sums}, sum(list_sum(map_values(itl))) FROM read_parquet({files}, hive_partitioning = true)"

    def anchor() -> None:
        import duckdb

        duckdb.connect().execute(plain).fetchall()

    readable = published(warehouse.root)  # as the command reads it
    mine, theirs = pair(lambda: build(readable, question, dt.datetime(2026, 9, 15)), anchor)
    size = f"{count} nights × {DEPLOYMENTS}, {stored:,} cells"
    yield Row(
        "report, queries and verdicts",
        size,
        f"{mine:.2f} s",
        f"{theirs:.2f} s",
        mine / theirs,
        5.0,
        False,
        "DuckDB scan of the cells",
    )
    whole = [
        program(
            [
                *PROGRAM, "report", "--warehouse", warehouse.root, "--out", folder / "out",
                "--baseline", question.baseline or "", "--candidate", question.candidate or "",
            ],
            may_exit=(0, 1, 3),
        )
        for _ in range(3)
    ]  # fmt: skip
    took = sorted(one.seconds for one in whole)[1]
    page = (folder / "out" / "report.html").stat().st_size / 1e6
    yield Row(
        "report, whole command", size, f"{took:.2f} s, {whole[0].peak_mb:.0f} MB", "s", took, 10.0, False, "seconds"
    )
    yield Row("report.html", size, f"{page:.2f} MB", "MB", page, 3.0, False, "MB")


def _fill(warehouse: Warehouse, count: int) -> int:
    """Write all nights of all deployments and bring cells and marts up to date; how many cells there are."""
    for number in range(DEPLOYMENTS):
        world = replace(WORLD, deployment=f"d{number:02}")
        dates = [LAST - dt.timedelta(night) for night in range(count)]
        drawn = nights.requests(world, dates, np.random.default_rng(number), per_hour=PER_HOUR)
        table = nights.rows(world, drawn, every_s=3_600)[REQUESTS.name]
        for date in dates:
            mine = table.filter(pc.equal(table["date"], date))
            warehouse.write(REQUESTS, date, world.deployment, "responses-0", mine)
    run(warehouse, DEFAULT_SETTINGS)
    return sum(pq.ParquetFile(file.path).metadata.num_rows for file in warehouse.files(CELLS_REQUESTS))
