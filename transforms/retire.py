"""What housekeeping must tell the transforms: that files became others, and that rows are about to go."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator
from dataclasses import replace

from ..schemas.config import Settings
from ..schemas.warehouse import Warehouse
from .carry import CARRY_DAYS
from .database import connect
from .fingerprints import Fingerprints, StartRecords
from .plan import Plan
from .start_rows import bind_deployments
from .state import State

REACH = dt.timedelta(max(CARRY_DAYS.values()))
"""How far back a date may carry rows in from."""


@contextlib.contextmanager
def files_changed(warehouse: Warehouse, settings: Settings) -> Iterator[None]:
    """Inside the block raw files are put together; what was up to date before counts as up to date after.

    A run that ends in between leaves partitions that are computed again, with the same result.
    """
    before = _plan(warehouse, settings)
    cells = set(before.partitions) - {partition for partition, _ in before.changed()}
    marts = set(before.days) - set(before.days_with_other_marts())
    ledgers = set(before.days_with_ledgers()) - set(before.days_with_other_ledgers())
    yield
    after = _plan(warehouse, settings)
    after.cells_computed(sorted(cells & set(after.partitions)))
    after.marts_computed(sorted(marts))
    after.ledgers_computed(sorted(ledgers))


def retire(warehouse: Warehouse, last: dt.date) -> None:
    """Freeze what was computed up to a date, and of the days that carry rows in from there; then its rows may go."""
    state = State(warehouse)
    for day in sorted(state.dates()):
        found = state.read(day)
        if day <= last + REACH and not found.retired:
            state.write(day, replace(found, retired=True))


def _plan(warehouse: Warehouse, settings: Settings) -> Plan:
    with connect(warehouse, settings) as connection:
        bind_deployments(connection, warehouse)
        return Plan(warehouse, Fingerprints(settings, StartRecords(connection)), None, force=False)
