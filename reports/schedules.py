"""What a report says of draft lengths: the schedule that is recommended for each deployment of its candidate."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..schemas.config import LoadBand
from ..schemas.errors import UsageError
from ..schemas.marts import LEDGER
from ..schemas.warehouse import Warehouse, reading
from .evidence import evidence
from .evidence_queries import READS
from .model import Schedule, ScheduleBand
from .recommend import BandAdvice, Recommendation, recommend
from .schedule import Limits
from .selection import Selection

if TYPE_CHECKING:
    import pyarrow as pa

MOST = 4
"""Deployments that are looked at; for others there is ``specledger recommend``."""


def schedules(
    warehouse: Warehouse, side: Selection, bands: Sequence[LoadBand], deployments: pa.Table | None = None
) -> tuple[Schedule, ...]:
    """The schedules of the deployments of a side that speculate, from its own nights alone.

    ``deployments`` are the rows of that table, where the caller has them, for they may lie in a file of each night. A
    deployment of which the marts hold nothing has none.
    """
    unread = [name for name in READS if name != "deployments" or deployments is None]
    connection = warehouse.connect(unread, _asked(warehouse, side))
    if deployments is not None:
        connection.register("deployments", deployments)
    found = []
    for deployment in side.deployments[:MOST]:
        dates = [night.date for night in side.nights if night.deployment == deployment]
        try:
            known = evidence(connection, deployment, bands, dates)
        except UsageError:
            continue
        if any(ran.length for band in known.bands.values() for ran in band.ran):
            found.append(_schedule(recommend(known, bands, Limits())))
    return tuple(found)


def _asked(warehouse: Warehouse, side: Selection) -> set[dt.date]:
    """The dates of a side and those that its ledgers took ordinary decode from: nothing is read of any other."""
    ledgers = warehouse.select_dates(LEDGER, side.dates)
    taken = reading().execute(f"SELECT DISTINCT t0_date FROM ({ledgers}) WHERE t0_date IS NOT NULL").fetchall()
    return {*side.dates, *(date for (date,) in taken)}


def _schedule(told: Recommendation) -> Schedule:
    saving = told.saving
    return Schedule(
        told.deployment,
        tuple(tuple(part) for part in told.schedule),
        None if told.in_force is None else tuple(tuple(part) for part in told.in_force),
        tuple(_band(advice) for advice in told.bands),
        saving.saved if saving else None,
        saving.interval if saving else None,
        saving.spent if saving else None,
        saving.unit if saving else None,
        told.notes,
    )


def _band(advice: BandAdvice) -> ScheduleBand:
    option, now = advice.choice.option, advice.in_force_option
    return ScheduleBand(
        advice.choice.band.label,
        advice.choice.length,
        advice.in_force,
        option.tpot_ms if option else None,
        option.interval if option else None,
        now.tpot_ms if now else None,
        advice.choice.source,
        advice.choice.reason,
        tuple(one.length for one in advice.choice.options),
    )
