"""What is to be computed: partitions whose fingerprint changed, then the marts of their dates, then ledgers around."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from ..schemas.warehouse import Warehouse
from .catalog import transforms
from .fingerprints import Fingerprints, digest
from .marts_run import LEDGER_REACH, OWN, REACHING
from .partitions import Inputs, Partition, RawFiles
from .state import DateState, State

STAGES = {"cells": transforms("cells"), "marts": OWN, "ledger": REACHING}
TURNS = 31
"""A run that does not count every file counts those of so many last dates, and of one in so many others, in turn."""


class Plan:
    """The work of one run; it is told what has been computed and remembers that on disk."""

    def __init__(
        self,
        warehouse: Warehouse,
        fingerprints: Fingerprints,
        dates: Iterable[dt.date] | None,
        force: bool,
        every_file: bool = True,
    ) -> None:
        """``every_file``: whether results that were lost are looked for on every date, or on older ones in turn."""
        chosen = None if dates is None else sorted(set(dates))
        self._warehouse = warehouse
        self._fingerprints = fingerprints
        self._force = force
        self._raw = RawFiles(warehouse, chosen)
        self._state = State(warehouse)
        self._known: dict[dt.date, DateState] = {}
        everything = self._raw.partitions()
        known = self._state.dates() | {partition.date for partition in everything}
        self.days = chosen or sorted(known | self._left(known))
        wanted = {day for day in self.days if not self._of(day).retired}
        counted = [day for day in self.days if every_file or has_its_turn(day, self.days[-1])]
        cells = [file for day in counted for table in STAGES["cells"] for file in warehouse.files(table, date=day)]
        stored = {Partition(file.date, file.deployment) for file in cells}
        held = Counter(file.date for file in cells)
        for day in wanted.intersection(counted):
            self._forget_losses(day, held[day])
        self._inputs = {part: self._raw.inputs(part) for part in sorted(everything) if part.date in wanted}
        self._current = {part: fingerprints.cells(part, inputs) for part, inputs in self._inputs.items()}
        computed = {Partition(day, deployment) for day in wanted for deployment in self._of(day).cells}
        left = {partition for partition in stored if partition.date in wanted}
        self.vanished = tuple(sorted((computed | left) - self._inputs.keys()))

    @property
    def partitions(self) -> Collection[Partition]:
        """Every partition that has raw files and is not retired."""
        return self._current.keys()

    def changed(self) -> Iterator[tuple[Partition, Inputs]]:
        """Partitions whose cells are not those of their inputs, with these inputs."""
        for part, fingerprint in self._current.items():
            if self._force or self._of(part.date).cells.get(part.deployment) != fingerprint:
                yield part, self._inputs[part]

    def cells_computed(self, partitions: Iterable[Partition]) -> None:
        """Remember that the cells of these partitions are those of their inputs."""
        for part in partitions:
            self._of(part.date).cells[part.deployment] = self._current[part]
        self._save({part.date for part in partitions}, "cells")

    def cells_removed(self, partitions: Iterable[Partition]) -> None:
        """Remember that these partitions have no cells any more."""
        for part in partitions:
            self._of(part.date).cells.pop(part.deployment, None)
        self._save({part.date for part in partitions}, "cells")

    def days_with_other_marts(self) -> list[dt.date]:
        """Dates whose marts are not those of their cells."""
        return [
            day
            for day in self.days
            if not self._of(day).retired and (self._force or self._marts(day) != self._of(day).marts)
        ]

    def marts_computed(self, days: Iterable[dt.date], plain: Collection[dt.date] | None = None) -> None:
        """Remember that the marts of these dates are those of their cells.

        ``plain`` are those on which a deployment ran without speculation; None where their marts are what they were.
        """
        for day in days:
            self._of(day).marts = self._marts(day)
            if plain is not None:
                self._of(day).plain = day in plain
        self._save(days, "marts")

    def days_with_other_ledgers(self) -> list[dt.date]:
        """Dates whose ledger is not that of the marts it is taken from; only dates near those of this run."""
        return [day for day in self.days_with_ledgers() if self._force or self._ledger(day) != self._of(day).ledger]

    def days_with_ledgers(self) -> list[dt.date]:
        """Dates near those of this run of which something was computed and nothing is retired."""
        known = self._state.dates()
        if not known <= set(self.days):
            known = {day for day in known if any(abs(day - other) <= LEDGER_REACH for other in self.days)}
        return [day for day in sorted(known) if not self._of(day).retired]

    def reach(self, days: Iterable[dt.date]) -> list[dt.date]:
        """The dates and those within 30 days of them that their ledgers may take ordinary decode from."""
        return sorted({other for day in days for other in self._reach(day)})

    def ledgers_computed(self, days: Iterable[dt.date]) -> None:
        """Remember that the ledgers of these dates are those of the marts around them."""
        for day in days:
            self._of(day).ledger = self._ledger(day)
        self._save([day for day in days if self._of(day).cells], "ledger")
        for day in days:
            if not self._of(day).cells:
                self._state.forget(day)

    def _marts(self, day: dt.date) -> str:
        return self._fingerprints.marts(day, self._of(day))

    def _ledger(self, day: dt.date) -> str:
        return digest([(other.isoformat(), self._of(other).marts) for other in self._reach(day)])

    def _reach(self, day: dt.date) -> list[dt.date]:
        around = (day + dt.timedelta(n) for n in range(-LEDGER_REACH.days, LEDGER_REACH.days + 1))
        return [other for other in around if other == day or (self._of(other).marts and self._of(other).plain)]

    def _of(self, day: dt.date) -> DateState:
        if day not in self._known:
            self._known[day] = self._state.read(day)
        return self._known[day]

    def _forget_losses(self, day: dt.date, cells: int) -> None:
        """Take what has lost files for not computed; ``cells`` is how many files of cells there are."""
        known = self._of(day)
        lost = {
            stage
            for stage, count in known.files.items()
            if (cells if stage == "cells" else self._count(day, stage)) < count
        }
        if "cells" in lost:
            known.cells = dict.fromkeys(known.cells, "")
        if lost & {"cells", "marts"}:
            known.marts = None
        if lost:
            known.ledger = None

    def _left(self, known: Collection[dt.date]) -> set[dt.date]:
        """Other dates of which there are cells."""
        named = {day for table in STAGES["cells"] for day, _ in self._warehouse.days(table)}
        others = {dt.date.fromisoformat(day[len("date=") :]) for day in named} - set(known)
        return {day for day in others if self._count(day, "cells")}

    def _count(self, day: dt.date, stage: str) -> int:
        return sum(self._warehouse.count(table, day) for table in STAGES[stage])

    def _save(self, days: Iterable[dt.date], stage: str) -> None:
        for day in set(days):
            self._known[day].files[stage] = self._count(day, stage)
            self._state.write(day, self._known[day])


def has_its_turn(day: dt.date, last: dt.date) -> bool:
    """Whether the run whose last date is ``last`` counts the files of a date: after TURNS nights all were counted."""
    back = (last - day).days
    return back < TURNS or back % TURNS == 0
