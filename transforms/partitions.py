"""Which partitions there are and what each of them is computed from.

A partition is one date of one deployment. It is computed from its own raw files and from what is carried in: the last
scrapes and log records of its series in the days before it, and the requests of the hour before midnight.
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ..schemas import TABLES
from ..schemas.warehouse import DataFile, Warehouse
from .carry import CARRY_DAYS

INPUTS = ("snapshots", "requests", "iterations", "log_stats", "run_totals")
"""The raw tables of which a date and deployment has cells or marts."""


@dataclass(frozen=True, order=True)
class Partition:
    """One date of one deployment."""

    date: dt.date
    deployment: str


@dataclass(frozen=True)
class Inputs:
    """The raw files of a partition, and those that it may carry rows in from, by table."""

    own: Mapping[str, tuple[DataFile, ...]]
    carried: Mapping[str, tuple[DataFile, ...]]

    @property
    def size(self) -> int:
        """Bytes of the partition's own files."""
        return sum(file.size for files in self.own.values() for file in files)


class RawFiles:
    """The raw files that cells are computed from, by partition."""

    def __init__(self, warehouse: Warehouse, dates: Iterable[dt.date] | None = None) -> None:
        """Lists the files of all dates, or of the given ones and those they carry in from."""
        self._days: dict[tuple[str, str], dict[dt.date, list[DataFile]]] = defaultdict(lambda: defaultdict(list))
        for name in INPUTS:
            for file in _listed(warehouse, name, dates):
                self._days[name, file.deployment][file.date].append(file)

    def partitions(self) -> set[Partition]:
        """Every partition that has a raw file among those listed."""
        return {Partition(date, deployment) for (_, deployment), days in self._days.items() for date in days}

    def inputs(self, partition: Partition) -> Inputs:
        """What the partition is computed from."""
        own, carried = {}, {}
        for name in INPUTS:
            days = self._days.get((name, partition.deployment), {})
            own[name] = tuple(days.get(partition.date, ()))
            before = (partition.date - dt.timedelta(back + 1) for back in range(CARRY_DAYS.get(name, 0)))
            carried[name] = tuple(file for day in before for file in days.get(day, ()))
        return Inputs(own, carried)


def _listed(warehouse: Warehouse, name: str, dates: Iterable[dt.date] | None) -> Iterator[DataFile]:
    if dates is None:
        yield from warehouse.files(TABLES[name])
        return
    days = {date - dt.timedelta(back) for date in dates for back in range(CARRY_DAYS.get(name, 0) + 1)}
    for day in sorted(days):
        yield from warehouse.files(TABLES[name], date=day)
