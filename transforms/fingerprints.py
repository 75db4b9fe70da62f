"""Whether what a partition was computed from has changed.

A fingerprint covers the names and sizes of the raw files (they are never rewritten in place), what start-up records
say, the settings, and the text of the SQL.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..schemas.config import Settings
from .catalog import ORDER, query
from .functions import function_sources
from .macros import cell_macros, macro_sql
from .partitions import Inputs, Partition
from .state import DateState

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class _Record:
    """One row of ``deployments``: its start, and hashes of what it says of drafting, of everything, and in labels."""

    deployment: str
    started_at: dt.datetime | None
    drafting: str
    everything: str
    labels: str | None


class StartRecords:
    """What start-up records and labels say of each deployment, reduced to hashes that change when it does."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._records: dict[str, list[_Record]] = defaultdict(list)
        for row in connection.execute(_RECORDS).fetchall():
            self._records[row[0]].append(_Record(*row))

    def drafting(self, partition: Partition) -> str:
        """Of drafting, as known at the end of the date."""
        return digest(sorted(record.drafting for record in self._started(partition)))

    def everything(self, partition: Partition) -> str:
        """Of everything, as known at the end of the date; labels hold for every date."""
        labels = sorted({record.labels for record in self._records[partition.deployment] if record.labels})
        return digest(labels, sorted(record.everything for record in self._started(partition)))

    def _started(self, partition: Partition) -> Iterator[_Record]:
        end = dt.datetime.combine(partition.date, dt.time()) + dt.timedelta(1)
        for record in self._records[partition.deployment]:
            if record.started_at is not None and record.started_at < end:
                yield record


_RECORDS = """
    SELECT
        deployment,
        started_at,
        CAST(
            hash(instance, started_at, speculative, draft_method, draft_limit, draft_schedule, data_parallel) AS VARCHAR
        ),
        CAST(hash(*columns(* EXCLUDE (date, source, labels, labelled_at))) AS VARCHAR),
        CASE WHEN cardinality(labels) > 0 THEN CAST(hash(labels) AS VARCHAR) END
    FROM deployments
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
