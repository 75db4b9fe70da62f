"""Brings cells, marts and ``specledger.duckdb`` up to date: what changed is computed, and the marts of its dates."""

from __future__ import annotations

import datetime as dt
import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..schemas import TABLES
from ..schemas.config import Settings
from ..schemas.kept import keep_beginning, keep_settings
from ..schemas.lock import exclusive
from ..schemas.warehouse import Warehouse
from . import cells_run, marts_run
from .carry import sweep
from .catalog import transforms
from .database import NO_LIMITS, Limits, connect, publish_database
from .fingerprints import Fingerprints, StartRecords
from .partitions import Partition
from .plan import Plan
from .results import remove

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
) -> Summary:
    """Compute what changed since the last run, of the given dates or of all; everything of them under ``force``.

    Raises EmptyWarehouse where nothing was ever ingested, WarehouseLocked where another run does not end.
    """
    warehouse.require()
    began = time.time()
    with exclusive(warehouse.root, "transform"), connect(warehouse, settings, limits) as connection:
        warehouse.mark()
        sweep(warehouse)
        keep_settings(warehouse, settings)
        connection.execute(f"CREATE VIEW deployments AS {warehouse.select(TABLES['deployments'])}")
        plan = Plan(warehouse, Fingerprints(settings, StartRecords(connection)), dates, force)
        for partition in plan.vanished:
            for table in transforms("cells"):
                remove(warehouse, table, partition, keep=())
        plan.cells_removed(plan.vanished)
        computed: list[Partition] = []
        for parts in cells_run.batches(connection, plan.changed()):
            cells_run.compute(connection, warehouse, parts)
            plan.cells_computed(parts[0].partitions)
            computed += parts[0].partitions
            log.info("Computed the cells of %d partitions, to %s.", len(computed), computed[-1].date)
        days = plan.days_with_other_marts()
        for some in _together(days):
            marts_run.compute(connection, warehouse, some)
            plan.marts_computed(some, marts_run.plain_days(connection, warehouse, some))
            log.info("Computed the marts of %s to %s.", some[0], some[-1])
        ledgers = plan.days_with_other_ledgers()
        for some in _together(ledgers):
            marts_run.compute_ledger(connection, warehouse, some, plan.reach(some))
            plan.ledgers_computed(some)
        publish_database(warehouse, settings)
        if dates is None:
            keep_beginning(warehouse, began)
    return Summary(tuple(computed), plan.vanished, tuple(days))


def _together(days: Sequence[dt.date]) -> Iterator[Sequence[dt.date]]:
    for start in range(0, len(days), DATES_TOGETHER):
        yield days[start : start + DATES_TOGETHER]
