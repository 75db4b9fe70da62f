"""Whether what a partition was computed from has changed.

A fingerprint covers the names and sizes of the raw files (they are never rewritten in place), what start-up records
say, the settings, and the text of the SQL.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..schemas.config import Settings
from .catalog import ORDER, query
from .macros import cell_macros, macro_sql
from .partitions import Inputs, Partition
from .state import DateState

if TYPE_CHECKING:
    import duckdb


class StartRecords:
    """What start-up records and labels say of each deployment, reduced to hashes that change when it does."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._rows: dict[str, list[tuple[dt.datetime | None, str, str]]] = defaultdict(list)
        for deployment, started_at, drafting, everything in connection.execute(_RECORDS).fetchall():
            self._rows[deployment].append((started_at, drafting, everything))

    def drafting(self, partition: Partition) -> str:
        """Of drafting, as known at the end of the date."""
        return digest(sorted(drafting for started, drafting, _ in self._known(partition) if started))

    def everything(self, partition: Partition) -> str:
        """Of everything, as known at the end of the date; labels hold whenever they were given."""
        return digest(sorted(everything for _, _, everything in self._known(partition)))

    def _known(self, partition: Partition) -> Iterator[tuple[dt.datetime | None, str, str]]:
        end = dt.datetime.combine(partition.date, dt.time()) + dt.timedelta(1)
        for row in self._rows[partition.deployment]:
            if row[0] is None or row[0] < end:
                yield row


_RECORDS = """
    SELECT
        deployment,
        started_at,
        CAST(
            hash(instance, started_at, speculative, draft_method, draft_limit, draft_schedule, data_parallel) AS VARCHAR
        ),
        CAST(hash(record) AS VARCHAR)
    FROM (SELECT * EXCLUDE (date, source) FROM deployments) AS record
"""


class Fingerprints:
    """The fingerprints of partitions under one set of settings and one version of the SQL."""

    def __init__(self, settings: Settings, records: StartRecords) -> None:
        self._records = records
        self._cells = digest(cell_macros(settings), _queries("staging"), _queries("cells"))
        self._marts = digest(macro_sql(settings), _queries("marts"))

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
