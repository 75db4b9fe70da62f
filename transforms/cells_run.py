"""Staging and cells of a batch of partitions: raw files bound as views, the SQL run once, the result written aside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..schemas import TABLES
from ..schemas.staging import INTERVALS, LOG_WINDOWS, REPEATED_SCRAPES, REQUESTS_BY_LOAD
from ..schemas.table import Table, literal, quote
from ..schemas.warehouse import DataFile, Warehouse, scan
from .carry import CARRY_DAYS, carried
from .catalog import query, transforms
from .database import memory
from .partitions import INPUTS, Inputs, Partition
from .results import Staged, select_sorted, stage

if TYPE_CHECKING:
    import duckdb

BATCH_BYTES = 64 * 1024 * 1024
"""Raw bytes (compressed) computed in one go: enough to share the cost of planning, little enough for memory."""
LEAST_ROW_BYTES, LEAST_ELEMENT_BYTES = 32, 4
"""What a row and, of requests, an element of a list count at least where batches are cut, so that one has 2 and 16
million of them: records that repeat each other compress to less, but in memory they are as large as any."""

LARGE_FILE = 1 << 20
"""Smaller files, of which there may be thousands, are not asked what they hold."""
MANY_ELEMENTS = 30_000_000
"""Gaps between tokens, say, and what was accepted in each step, of which DuckDB would hold 30 bytes each."""
LITTLE_MEMORY = 700_000_000
"""Bytes that so many are computed in: 1.7 million requests with all their steps then take 1.0 GB instead of 2.9, and a
sixth longer. Where little is needed such a limit is no help, and what DuckDB then does to keep it takes longer too.
"""

KEPT = (INTERVALS, REQUESTS_BY_LOAD, LOG_WINDOWS)
"""Staging tables that several transforms read: they are computed once a batch."""

DRIVEN_BY = {
    "intervals": {"snapshots"},
    "requests_by_load": {"requests"},
    "log_windows": {"log_stats"},
    "cells_snapshots": {"snapshots"},
    "cells_requests": {"requests"},
    "cells_log_stats": {"log_stats"},
    "cells_iterations": {"iterations"},
    "cells_draft_lengths": {"snapshots", "requests", "iterations"},
}
"""The raw tables without whose rows a table has none: planning for nothing takes longer than small data does."""


@dataclass(frozen=True)
class Batch:
    """Partitions computed in one go, or some instances of one that is too large for that."""

    members: tuple[tuple[Partition, Inputs], ...]
    instances: tuple[str, ...] | None = None
    number: int = 0
    """Its place among the parts of one partition."""
    size: int = 0
    """Bytes of raw files; those of a part in proportion to its rows."""

    @property
    def partitions(self) -> tuple[Partition, ...]:
        return tuple(partition for partition, _ in self.members)

    def own(self, name: str) -> list[DataFile]:
        """The files of a raw table that belong to the partitions."""
        return [file for _, inputs in self.members for file in inputs.own[name]]

    @property
    def before(self) -> dict[str, list[DataFile]]:
        """The files of the days before that are not in the batch themselves, by raw table."""
        return {
            name: list(
                {
                    file.path: file
                    for _, inputs in self.members
                    for file in inputs.carried[name]
                    if Partition(file.date, file.deployment) not in self.partitions
                }.values()
            )
            for name in CARRY_DAYS
        }


def batches(
    connection: duckdb.DuckDBPyConnection, members: Iterable[tuple[Partition, Inputs]], limit: int | None = None
) -> Iterator[tuple[Batch, ...]]:
    """Batches of about ``limit`` bytes (BATCH_BYTES); a partition that is larger comes as several of its instances.

    A batch spans no more days than rows are carried over: alone or together, its dates see the same.
    """
    limit, members = limit or BATCH_BYTES, sorted(members, key=lambda member: member[0])
    weights = _weights(connection, [inputs for _, inputs in members])
    together: list[tuple[Partition, Inputs]] = []
    weight = 0
    for partition, inputs in members:
        own = sum(max(file.size, weights.get(file.path, 0)) for file in _own(inputs))
        if own > limit:
            yield tuple(_split(connection, partition, inputs, limit / own))
            continue
        days = (partition.date - together[0][0].date).days if together else 0
        if together and (days > max(CARRY_DAYS.values()) or weight + own > limit):
            yield (Batch(tuple(together), size=_size(together)),)
            together, weight = [], 0
        together.append((partition, inputs))
        weight += own
    if together:
        yield (Batch(tuple(together), size=_size(together)),)


def _size(members: Iterable[tuple[Partition, Inputs]]) -> int:
    return sum(inputs.size for _, inputs in members)


def _own(inputs: Inputs) -> Iterator[DataFile]:
    return (file for files in inputs.own.values() for file in files)


def _weights(connection: duckdb.DuckDBPyConnection, members: Iterable[Inputs]) -> dict[Path, int]:
    """What each of the large files counts for its rows and elements."""
    large = {str(file.path.resolve()): file for inputs in members for file in _own(inputs) if file.size >= LARGE_FILE}
    weights = dict.fromkeys(large, 0)
    if large:
        rows = connection.execute("SELECT file_name, num_rows FROM parquet_file_metadata(?)", [list(large)]).fetchall()
        weights |= {path: LEAST_ROW_BYTES * count for path, count in rows}
    for path, count in _elements(connection, [path for path, file in large.items() if file.table == "requests"]):
        weights[path] = max(weights[path], LEAST_ELEMENT_BYTES * count)
    return {large[path].path: weight for path, weight in weights.items()}


def _elements(connection: duckdb.DuckDBPyConnection, paths: Sequence[str]) -> list[tuple[str, int]]:
    """How many elements the lists of each file have, about."""
    if not paths:
        return []
    return connection.execute(
        "SELECT file_name, CAST(sum(num_values) AS BIGINT) FROM parquet_metadata(?) "
        "WHERE path_in_schema LIKE '%, list, %' GROUP BY file_name",
        [paths],
    ).fetchall()


def _split(
    connection: duckdb.DuckDBPyConnection, partition: Partition, inputs: Inputs, share: float
) -> Iterator[Batch]:
    """The instances of a large partition, in order of their names, as batches of at most a share of its rows each.

    An instance with more rows than that is a batch of its own.
    """
    counted = " UNION ALL ".join(
        f"SELECT instance FROM ({scan(TABLES[name], _paths(files))})" for name, files in inputs.own.items() if files
    )
    rows = connection.sql(f"SELECT instance, count(*) FROM ({counted}) GROUP BY ALL ORDER BY ALL").fetchall()
    whole = sum(count for _, count in rows)
    parts: list[tuple[list[str], int]] = []
    for instance, count in rows:
        if not parts or parts[-1][1] + count > share * whole:
            parts.append(([], 0))
        chosen, taken = parts[-1]
        parts[-1] = [*chosen, instance], taken + count
    for number, (chosen, taken) in enumerate(parts):
        yield Batch(((partition, inputs),), tuple(chosen), number, round(inputs.size * taken / whole))


def compute(connection: duckdb.DuckDBPyConnection, warehouse: Warehouse, batch: Batch) -> list[Staged]:
    """The cells of a batch, written aside; what a first try wrote that ran out of memory is in no answer."""
    import duckdb

    large = _paths(file for file in batch.own("requests") if file.size >= LARGE_FILE)
    if sum(count for _, count in _elements(connection, large)) <= MANY_ELEMENTS:
        return _compute(connection, warehouse, batch)
    try:
        with memory(connection, LITTLE_MEMORY):
            return _compute(connection, warehouse, batch)
    except duckdb.OutOfMemoryException:
        return _compute(connection, warehouse, batch)


def _compute(connection: duckdb.DuckDBPyConnection, warehouse: Warehouse, batch: Batch) -> list[Staged]:
    staged: list[Staged] = []
    own = {name: batch.own(name) for name in CARRY_DAYS}
    with carried(connection, warehouse, own, batch.before) as files:
        _bind(connection, batch, files)
        for table in _computed(connection, batch):
            rows = select_sorted(connection, table, query("cells", table.name))
            staged += stage(warehouse, table, rows, f"part-{batch.number:03}")
    return staged


def _computed(connection: duckdb.DuckDBPyConnection, batch: Batch) -> Iterator[Table]:
    """The cell tables that can have rows, while the staging tables that they read are there."""
    given = {name for name in INPUTS if batch.own(name)}
    for table in KEPT:
        select = table.empty_select()
        if DRIVEN_BY[table.name] & given:
            select = f"SELECT * FROM ({query('staging', table.name)}) SEMI JOIN wanted USING (date, deployment)"
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {quote(table.name)} AS {select}")
    yield from (table for table in transforms("cells") if DRIVEN_BY[table.name] & given)
    for table in KEPT:
        connection.execute(f"DROP TABLE {quote(table.name)}")


def _bind(connection: duckdb.DuckDBPyConnection, batch: Batch, carried_in: Mapping[str, list[Path]]) -> None:
    """Make the names of the raw tables mean the rows of the batch and what it carries in."""
    wanted = ", ".join(f"(DATE '{member.date}', {literal(member.deployment)})" for member in batch.partitions)
    connection.execute(f"CREATE OR REPLACE TEMP TABLE wanted AS FROM (VALUES {wanted}) AS given (date, deployment)")
    for name in INPUTS:
        paths = _paths(batch.own(name)) + [str(path.resolve()) for path in carried_in.get(name, [])]
        select = scan(TABLES[name], paths) if paths else TABLES[name].empty_select()
        if batch.instances is not None:
            select = f"SELECT * FROM ({select}) WHERE instance IN ({', '.join(map(literal, batch.instances))})"
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {quote(name)} AS {select}")
    for table in transforms("staging"):
        if table not in KEPT:
            kind = "TABLE" if table is REPEATED_SCRAPES else "VIEW"  # few rows, found once for all that read scrapes
            connection.execute(f"CREATE OR REPLACE TEMP {kind} {quote(table.name)} AS {query('staging', table.name)}")


def _paths(files: Iterable[DataFile]) -> list[str]:
    return [str(file.path.resolve()) for file in files]
