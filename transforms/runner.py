"""Brings cells, marts and ``specledger.duckdb`` up to date: what changed is computed, and the marts of its dates."""

from __future__ import annotations

import datetime as dt
import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..schemas import CELL_TABLES
from ..schemas.config import Settings
from ..schemas.kept import keep_beginning, keep_settings
from ..schemas.lock import exclusive
from ..schemas.table import Table
from ..schemas.warehouse import Warehouse
from . import cells_run, marts_run
from .carry import sweep
from .catalog import transforms
from .database import NO_LIMITS, Limits, connect, publish_database
from .engines import Engine, Here, OnSpark, bind_deployments
from .fingerprints import Fingerprints, StartRecords
from .marts_run import Dates
from .partitions import Inputs, Partition
from .plan import Plan
from .results import Staged, publish

if TYPE_CHECKING:
    from ..schemas.spark import Cluster

log = logging.getLogger(__name__)

DATES_TOGETHER = 31
"""Dates whose marts are computed in one go."""
LEAST_BATCH_BYTES = 1 << 20
UNITS_A_SLOT = 4
"""Units of work for each one that can run at a time: enough for all to end together, few for the cost of starting."""


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
) -> Summary:
    """Compute what changed since the last run, of the given dates or of all; everything of them under ``force``.

    With ``cluster`` its workers compute, and ``limits`` hold for this process only. Raises EmptyWarehouse where nothing
    was ever ingested, WarehouseLocked where another run does not end.
    """
    warehouse.require()
    began = time.time()
    with exclusive(warehouse.root, "transform"), connect(warehouse, settings, limits) as connection:
        warehouse.mark()
        sweep(warehouse)
        keep_settings(warehouse, settings)
        bind_deployments(connection, warehouse)
        plan = Plan(warehouse, Fingerprints(settings, StartRecords(connection)), dates, force)
        engine: Engine = OnSpark(cluster, warehouse, settings) if cluster else Here(connection, warehouse)
        publish(warehouse, transforms("cells"), plan.vanished, ())
        plan.cells_removed(plan.vanished)
        computed: list[Partition] = []
        changed = list(plan.changed())
        groups = list(cells_run.batches(connection, changed, _limit(changed, engine.slots)))
        batches = [batch for parts in groups for batch in parts]
        results = engine.each("cells", cells_run.compute, batches, lambda batch: batch.size)
        for parts in groups:
            staged = [one for _ in parts for one in next(results)]
            publish(warehouse, transforms("cells"), parts[0].partitions, staged)
            plan.cells_computed(parts[0].partitions)
            computed += parts[0].partitions
            log.info("Computed the cells of %d partitions, to %s.", len(computed), computed[-1].date)
        days = plan.days_with_other_marts()
        for some in _marts(engine, warehouse, [Dates(some, some) for some in _together(days, engine.slots)]):
            plan.marts_computed(some, marts_run.plain_days(connection, warehouse, some))
            log.info("Computed the marts of %s to %s.", some[0], some[-1])
        ledgers = _together(plan.days_with_other_ledgers(), engine.slots)
        for some in _ledgers(engine, warehouse, [Dates(some, tuple(plan.reach(some))) for some in ledgers]):
            plan.ledgers_computed(some)
        publish_database(warehouse, settings)
        if dates is None:
            keep_beginning(warehouse, began)
    return Summary(tuple(computed), plan.vanished, tuple(days))


def _limit(changed: Sequence[tuple[Partition, Inputs]], slots: int) -> int | None:
    """Bytes of a batch: less than usual where several run at a time, so that all of them have work to the end."""
    if slots == 1:
        return None
    total = sum(inputs.size for _, inputs in changed)
    return min(cells_run.BATCH_BYTES, max(LEAST_BATCH_BYTES, total // (UNITS_A_SLOT * slots)))


def _together(days: Sequence[dt.date], slots: int) -> list[tuple[dt.date, ...]]:
    """Dates that are computed in one go: so many that each slot has some."""
    count = min(DATES_TOGETHER, max(1, -(-len(days) // slots)))
    return [tuple(days[start : start + count]) for start in range(0, len(days), count)]


def _marts(engine: Engine, warehouse: Warehouse, units: Sequence[Dates]) -> Iterator[Sequence[dt.date]]:
    """Compute and publish the marts of dates, which it gives once that is done."""
    results = engine.each("marts", marts_run.compute, units, lambda unit: _size(warehouse, CELL_TABLES, unit))
    return _published(warehouse, marts_run.OWN, units, results)


def _ledgers(engine: Engine, warehouse: Warehouse, units: Sequence[Dates]) -> Iterator[Sequence[dt.date]]:
    """The same for what takes ordinary decode from other dates."""
    results = engine.each(
        "ledgers", marts_run.compute_ledger, units, lambda unit: _size(warehouse, marts_run.OWN, unit)
    )
    return _published(warehouse, marts_run.REACHING, units, results)


def _size(warehouse: Warehouse, tables: Iterable[Table], unit: Dates) -> int:
    return sum(file.size for table in tables for day in unit.reach for file in warehouse.files(table, date=day))


def _published(
    warehouse: Warehouse, tables: Sequence[Table], units: Sequence[Dates], results: Iterator[list[Staged]]
) -> Iterator[Sequence[dt.date]]:
    for unit, staged in zip(units, results, strict=True):
        publish(warehouse, tables, marts_run.stored(warehouse, tables, unit.days), staged)
        yield unit.days
