"""Whether what a partition was computed from has changed.

A fingerprint covers the names and sizes of the raw files (they are never rewritten in place), what start-up records
say, the settings, and the text of the SQL.
"""

from __future__ import annotations

import bisect
import datetime as dt
import hashlib
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..schemas.config import Settings
from .catalog import ORDER, query
from .functions import function_sources
from .macros import cell_macros, macro_sql
from .partitions import Inputs, Partition
from .state import DateState

if TYPE_CHECKING:
    import duckdb


@dataclass
class _Starts:
    """What the records of one deployment say: when processes started, rising, and hashes of all up to each start."""

    moments: list[dt.datetime] = field(default_factory=list)
    drafting: list[str] = field(default_factory=lambda: [""])
    everything: list[str] = field(default_factory=lambda: [""])
    """One more than there are starts: nothing is known before the first."""
    labels: set[str] = field(default_factory=set)

    def at(self, date: dt.date) -> int:
        """How many starts there were at the end of a date."""
        return bisect.bisect_left(self.moments, dt.datetime.combine(date, dt.time()) + dt.timedelta(1))


class StartRecords:
    """What start-up records and labels say of each deployment, reduced to hashes that change when it does."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._starts: dict[str, _Starts] = defaultdict(_Starts)
        for deployment, started_at, drafting, everything, labels in connection.execute(_RECORDS).fetchall():
            starts = self._starts[deployment]
            if labels is not None:
                starts.labels.add(labels)
            if started_at is not None:
                starts.moments.append(started_at)
                starts.drafting.append(digest(starts.drafting[-1], drafting))
                starts.everything.append(digest(starts.everything[-1], everything))

    def drafting(self, partition: Partition) -> str:
        """Of drafting, as known at the end of the date."""
        starts = self._starts[partition.deployment]
        return starts.drafting[starts.at(partition.date)]

    def everything(self, partition: Partition) -> str:
        """Of everything, as known at the end of the date; labels hold for every date."""
        starts = self._starts[partition.deployment]
        return digest(sorted(starts.labels), starts.everything[starts.at(partition.date)])


_RECORDS = """
    SELECT
        deployment,
        started_at,
        CAST(
            hash(instance, started_at, speculative, draft_method, draft_limit, draft_schedule, data_parallel) AS VARCHAR
        ) AS drafting,
        CAST(hash(*columns(* EXCLUDE (date, source, labels, labelled_at))) AS VARCHAR) AS everything,
        CASE WHEN cardinality(labels) > 0 THEN CAST(hash(labels) AS VARCHAR) END
    FROM deployments
    ORDER BY deployment, started_at, drafting, everything
"""


class Fingerprints:
    """The fingerprints of partitions under one set of settings and one version of the SQL."""

    def __init__(self, settings: Settings, records: StartRecords) -> None:
        self._records = records
        self._cells = digest(cell_macros(settings), _queries("staging"), _queries("cells"))
        self._marts = digest(macro_sql(settings), _queries("marts"), function_sources())

    def cells(self, partition: Partition, inputs: Inputs) -> str:
        """Of everything that the cells of a partition are computed from."""
        files = [
            (kind, name, file.date.isoformat(), file.path.name, file.size)
            for kind, tables in (("own", inputs.own), ("carried", inputs.carried))
            for name, listed in tables.items()
            for file in listed
        ]
        return digest(self._cells, sorted(files), self._records.drafting(partition))

    def marts(self, date: dt.date, state: DateState) -> str:
        """Of everything that the marts of a date are computed from: its partitions and their start-up records."""
        records = [self._records.everything(Partition(date, deployment)) for deployment in sorted(state.cells)]
        return digest(self._marts, sorted(state.cells.items()), records)


def _queries(folder: str) -> list[str]:
    return [query(*path.split("/")) for path in ORDER if path.startswith(f"{folder}/")]


def digest(*parts: object) -> str:
    """A hash of the parts' representations; equal parts give equal digests in every run."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]
