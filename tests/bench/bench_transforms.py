"""Staging and cells of one night, from raw rows to published cells, against one plain pass over the same rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from specledger.schemas.config import DEFAULT_SETTINGS
from specledger.schemas.raw import REQUESTS, SNAPSHOTS
from specledger.schemas.table import Table, quote
from specledger.schemas.warehouse import Warehouse
from specledger.transforms import cells_run
from specledger.transforms.catalog import transforms
from specledger.transforms.database import NO_LIMITS, connect
from specledger.transforms.engines import Here
from specledger.transforms.partitions import RawFiles
from specledger.transforms.results import publish
from specledger.transforms.start_rows import bind_deployments
from tests.bench import inputs
from tests.bench.measure import Row, pair
from tests.reports.fleet import WORLD
from tests.simulator import nights

TURNS, SERVERS, PER_HOUR = 60, 8, 400.0
DAY = dt.date(2026, 9, 14)


def rows(scale: float, folder: Path) -> Iterator[Row]:
    """Snapshots, then requests."""
    snapshots = Warehouse(folder / "snapshots")
    count = inputs.fleet(snapshots, TURNS, max(1, round(SERVERS * scale)))
    yield _row(
        "staging and cells of snapshots", count, snapshots, f"SELECT {_sums(SNAPSHOTS)} FROM rows", "sum of all columns"
    )
    requests = Warehouse(folder / "requests")
    drawn = nights.requests(WORLD, [DAY], np.random.default_rng(1), per_hour=PER_HOUR * scale)
    raw = nights.rows(WORLD, drawn, every_s=3_600)[REQUESTS.name]
    requests.write(REQUESTS, DAY, WORLD.deployment, "responses-0", raw)
    yield _row("staging and cells of requests", raw.num_rows, requests, SORT, "window sort of starts and ends")


SORT = """
WITH events AS (
    SELECT instance, arrived_at AS moment, 1 AS running FROM rows
    UNION ALL
    SELECT instance, finished_at, -1 FROM rows
)
SELECT max(running) FROM (SELECT sum(running) OVER (PARTITION BY instance ORDER BY moment) AS running FROM events)
"""


def _row(work: str, count: int, warehouse: Warehouse, query: str, anchor: str) -> Row:
    with connect(warehouse, DEFAULT_SETTINGS) as connection:
        bind_deployments(connection, warehouse)
        raw = RawFiles(warehouse)
        members = [(partition, raw.inputs(partition)) for partition in raw.partitions()]
        source = SNAPSHOTS if "snapshots" in work else REQUESTS
        files = [str(file.path) for file in warehouse.files(source)]
        plain = query.replace("rows", f"read_parquet({files})", 2)

        def ours() -> None:
            engine = Here(connection, warehouse, DEFAULT_SETTINGS, NO_LIMITS)
            limit = engine.batch_bytes(sum(inputs.size for _, inputs in members))
            (parts,) = cells_run.batches(connection, members, limit)
            staged = [
                one for some in engine.each("cells", cells_run.compute, parts, lambda batch: batch.size) for one in some
            ]
            publish(warehouse, transforms("cells"), parts[0].partitions, staged)

        mine, theirs = pair(ours, lambda: connection.execute(plain).fetchall())
    return Row(
        work,
        f"{count:,} rows",
        f"{mine:.2f} s, {count / mine / 1e3:.0f} k rows/s",
        f"{theirs:.2f} s",
        mine / theirs,
        3.0,
        anchor_name=f"DuckDB, {anchor}",
    )


def _sums(table: Table) -> str:
    """Sums over every number that a table holds."""
    parts = []
    for column in table.stored_columns:
        name = quote(column.name)
        if column.type.startswith("STRUCT"):
            parts += [f"sum(list_sum({name}.n))", f"sum({name}.sum)", f"sum({name}.count)"]
        elif column.type.endswith("[]"):
            parts.append(f"sum(list_sum({name}))")
        elif column.type in ("BIGINT", "DOUBLE", "INTEGER"):
            parts.append(f"sum({name})")
    return ", ".join(parts)
