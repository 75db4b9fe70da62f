"""Brings cells, marts and ``specledger.duckdb`` up to date: what changed is computed, and the marts of its dates."""

from __future__ import annotations

import datetime as dt
import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..schemas import CELL_TABLES, MART_TABLES, RAW_TABLES, published
from ..schemas.config import Settings
from ..schemas.errors import WarehouseLocked
from ..schemas.kept import keep_beginning, keep_settings
from ..schemas.lock import exclusive
from ..schemas.warehouse import Warehouse
from . import cells_run, marts_run
from .catalog import transforms
from .database import NO_LIMITS, Limits, connect, publish_database
from .engines import UNITS_A_SLOT, Engine, Here, OnSpark, Work
from .fingerprints import Fingerprints, StartRecords
from .marts_run import Dates
from .partitions import Partition
from .plan import Plan
from .results import publish, swept
from .start_rows import bind_deployments, keep_together

if TYPE_CHECKING:
    import duckdb

    from ..schemas.spark import Cluster

log = logging.getLogger(__name__)

DATES_TOGETHER = 31
"""Dates whose marts are computed in one go."""


@dataclass(frozen=True)
class Summary:
    """What a run did: partitions whose cells were computed or removed, and dates whose marts were computed."""

    computed: tuple[Partition, ...]
    removed: tuple[Partition, ...]
    dates: tuple[dt.date, ...]


def run(
    warehouse: Warehouse,
    settings: Settings,
    dates: Iterable[dt.date] | None = None,
    force: bool = False,
    limits: Limits = NO_LIMITS,
    cluster: Cluster | None = None,
    every_file: bool = True,
) -> Summary:
    """Compute what changed since the last run, of the given dates or of all; everything of them under ``force``.

    Results that somebody removed are computed again, without ``every_file`` those of older dates when it is their turn
    (see ``plan``), so that a night costs the same however many there were. With ``cluster`` its workers compute, and
    ``limits`` hold for this process only. Raises EmptyWarehouse where nothing was ever ingested, WarehouseLocked where
    another run does not end.
    """
    warehouse.require()
    began = time.time()
    with (
        exclusive(warehouse.root, "transform"),
        swept(warehouse),
        connect(warehouse, settings, limits) as connection,
    ):
        warehouse.mark()
        keep_settings(warehouse, settings)
        keep_together(warehouse)
        bind_deployments(connection, warehouse)
        plan = Plan(warehouse, Fingerprints(settings, StartRecords(connection)), dates, force, every_file)
        engine: Engine = (
            OnSpark(cluster, warehouse, settings) if cluster else Here(connection, warehouse, settings, limits)
        )
        with published.publishing(warehouse, (*CELL_TABLES, *MART_TABLES), "transform") as seen:
            seen |= {partition.date for partition in plan.vanished}
            publish(warehouse, transforms("cells"), plan.vanished, ())
            plan.cells_removed(plan.vanished)
            computed: list[Partition] = []
            for some in _cells(connection, engine, warehouse, plan):
                seen |= {partition.date for partition in some}
                plan.cells_computed(some)
                computed += some
                log.info("Computed the cells of %d partitions, to %s.", len(computed), computed[-1].date)
            days = plan.days_with_other_marts()
            for together in _marts(engine, warehouse, days):
                seen |= set(together)
                plan.marts_computed(together, marts_run.plain_days(connection, warehouse, together))
                log.info("Computed the marts of %s to %s.", together[0], together[-1])
            for together in _ledgers(engine, warehouse, plan):
                seen |= set(together)
                plan.ledgers_computed(together)
        with suppress(WarehouseLocked), exclusive(warehouse.root, "ingest", wait_s=0):
            # What lies there without an ingest; one that runs does so itself.
            published.publish(warehouse, RAW_TABLES, days=seen)
        publish_database(published.published(warehouse.root), settings)
        if dates is None:
            keep_beginning(warehouse, began)
    return Summary(tuple(computed), plan.vanished, tuple(days))


def _together(days: Sequence[dt.date], slots: int) -> list[tuple[dt.date, ...]]:
    """Dates that are computed in one go: so many that each slot has some."""
    count = min(DATES_TOGETHER, max(1, -(-len(days) // slots)))
    return [tuple(days[start : start + count]) for start in range(0, len(days), count)]


def _cells(
    connection: duckdb.DuckDBPyConnection, engine: Engine, warehouse: Warehouse, plan: Plan
) -> Iterator[Sequence[Partition]]:
    """Compute and publish the cells of what changed, some partitions at a time, which it gives once they are done."""
    changed = list(plan.changed())
    limit = engine.batch_bytes(sum(inputs.size for _, inputs in changed))
    groups = list(cells_run.batches(connection, changed, limit))
    units = [batch for parts in groups for batch in parts]
    # Closed, for an error of publishing holds on to it: none may compute any more when what was staged is removed.
    with closing(engine.each("cells", cells_run.compute, units, lambda batch: batch.size)) as results:
        for parts in groups:
            staged = [one for _ in parts for one in next(results)]
            publish(warehouse, transforms("cells"), parts[0].partitions, staged)
            yield parts[0].partitions


def _marts(engine: Engine, warehouse: Warehouse, days: Sequence[dt.date]) -> Iterator[Sequence[dt.date]]:
    """Compute and publish the marts of dates, some at a time, which it gives once they are done."""
    together = _together(days, engine.slots)
    shares = 1 if engine.slots == 1 else -(-UNITS_A_SLOT * engine.slots // max(1, len(together)))
    groups = [[Dates(some, some, share, shares) for share in range(shares)] for some in together]
    return _computed(engine, warehouse, "marts", marts_run.compute, groups)


def _ledgers(engine: Engine, warehouse: Warehouse, plan: Plan) -> Iterator[Sequence[dt.date]]:
    """The same of what takes ordinary decode from other deployments and dates."""
    together = _together(plan.days_with_other_ledgers(), engine.slots)
    groups = [[Dates(some, tuple(plan.reach(some)))] for some in together]
    return _computed(engine, warehouse, "ledgers", marts_run.compute_ledger, groups)


def _computed(
    engine: Engine, warehouse: Warehouse, stage: str, work: Work[Dates], groups: Sequence[Sequence[Dates]]
) -> Iterator[Sequence[dt.date]]:
    """Have all units computed, and publish those of a group, which are about the same dates, together."""
    tables, read = {"marts": (marts_run.OWN, CELL_TABLES), "ledgers": (marts_run.REACHING, marts_run.OWN)}[stage]

    def size(unit: Dates) -> int:
        return sum(file.size for table in read for file in unit.files(warehouse, table))

    with closing(engine.each(stage, work, [unit for group in groups for unit in group], size)) as results:
        for group in groups:
            staged = [one for _ in group for one in next(results)]
            days = group[0].days
            publish(warehouse, tables, marts_run.stored(warehouse, tables, days), staged)
            yield days
