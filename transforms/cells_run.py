"""Staging and cells of a batch of partitions: raw files bound as views, the SQL run once, the result published."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..schemas import TABLES
from ..schemas.staging import INTERVALS, LOG_WINDOWS, REQUESTS_BY_LOAD
from ..schemas.table import Table, literal, quote
from ..schemas.warehouse import DataFile, Warehouse, scan
from .catalog import query, transforms
from .partitions import CARRY_DAYS, INPUTS, Inputs, Partition
from .results import publish, remove, select_sorted

if TYPE_CHECKING:
    import duckdb

BATCH_BYTES = 64 * 1024 * 1024
"""Raw bytes (compressed) computed in one go: enough to share the cost of planning, little enough for memory."""

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
"""The raw tables without whose rows a table has none: planning a query for nothing takes longer than small data does."""

CARRIED_ROWS = {
    # The last hour of each series: enough to bridge scrapes that miss a value.
    "snapshots": """
        SELECT found.* FROM carried AS found
        INNER JOIN (
            SELECT deployment, instance, engine, model_name, max(scraped_at) AS latest
            FROM carried GROUP BY ALL
        ) AS series
            ON
                found.deployment = series.deployment
                AND found.instance = series.instance
                AND found.engine = series.engine
                AND found.model_name IS NOT DISTINCT FROM series.model_name
        WHERE found.scraped_at >= series.latest - INTERVAL 1 HOUR
    """,
    "requests": """
        SELECT * FROM carried
        WHERE coalesce(finished_at >= CAST(date + 1 AS TIMESTAMP) - INTERVAL 1 HOUR, true)
    """,
    "log_stats": """
        SELECT * FROM carried
        QUALIFY logged_at >= max(logged_at) OVER (PARTITION BY deployment, instance, engine) - INTERVAL 1 HOUR
    """,
}
"""What of the files before a partition is read with it, as a SELECT over ``carried``."""


@dataclass(frozen=True)
class Batch:
    """Partitions computed in one go, or some instances of one that is too large for that."""

    members: tuple[tuple[Partition, Inputs], ...]
    instances: tuple[str, ...] | None = None

    @property
    def partitions(self) -> tuple[Partition, ...]:
        return tuple(partition for partition, _ in self.members)


def batches(
    connection: duckdb.DuckDBPyConnection, members: Iterable[tuple[Partition, Inputs]]
) -> Iterator[tuple[Batch, ...]]:
    """Batches of about ``BATCH_BYTES``; a partition that is larger comes as several batches of its instances."""
    together: list[tuple[Partition, Inputs]] = []
    for partition, inputs in sorted(members, key=lambda member: member[0]):
        if inputs.size > BATCH_BYTES:
            yield tuple(_split(connection, partition, inputs))
            continue
        if together and sum(own.size for _, own in together) + inputs.size > BATCH_BYTES:
            yield (Batch(tuple(together)),)
            together = []
        together.append((partition, inputs))
    if together:
        yield (Batch(tuple(together)),)


def _split(connection: duckdb.DuckDBPyConnection, partition: Partition, inputs: Inputs) -> Iterator[Batch]:
    """The instances of a large partition, in order of their names, as batches of about equal rows."""
    counted = " UNION ALL ".join(
        f"SELECT instance FROM ({scan(TABLES[name], _paths(files))})" for name, files in inputs.own.items() if files
    )
    rows = connection.sql(f"SELECT instance, count(*) FROM ({counted}) GROUP BY ALL ORDER BY ALL").fetchall()
    share = sum(count for _, count in rows) * BATCH_BYTES / inputs.size
    chosen: list[str] = []
    taken = 0
    for instance, count in rows:
        if chosen and taken + count > share:
            yield Batch(((partition, inputs),), tuple(chosen))
            chosen, taken = [], 0
        chosen.append(instance)
        taken += count
    yield Batch(((partition, inputs),), tuple(chosen))


def compute(connection: duckdb.DuckDBPyConnection, warehouse: Warehouse, parts: tuple[Batch, ...]) -> None:
    """Compute the cells of the batches, which are one batch or the parts of one partition, and publish them."""
    written: dict[tuple[str, Partition], list[str]] = defaultdict(list)
    for number, batch in enumerate(parts):
        _bind(connection, batch)
        given = {name for _, inputs in batch.members for name, files in inputs.own.items() if files}
        for table in KEPT:
            select = table.empty_select()
            if DRIVEN_BY[table.name] & given:
                select = f"SELECT * FROM ({query('staging', table.name)}) SEMI JOIN wanted USING (date, deployment)"
            connection.execute(f"CREATE OR REPLACE TEMP TABLE {quote(table.name)} AS {select}")
        for table in transforms("cells"):
            if not DRIVEN_BY[table.name] & given:
                continue
            name = f"part-{number:03}"
            for partition in publish(
                warehouse, table, select_sorted(connection, table, query("cells", table.name)), name
            ):
                written[table.name, partition].append(name)
        for table in KEPT:
            connection.execute(f"DROP TABLE {quote(table.name)}")
    for partition in {partition for batch in parts for partition in batch.partitions}:
        for table in transforms("cells"):
            remove(warehouse, table, partition, keep=written[table.name, partition])


def _bind(connection: duckdb.DuckDBPyConnection, batch: Batch) -> None:
    """Make the names of the raw tables mean the rows of the batch and what it carries in."""
    wanted = ", ".join(f"(DATE '{member.date}', {literal(member.deployment)})" for member in batch.partitions)
    connection.execute(f"CREATE OR REPLACE TEMP TABLE wanted AS FROM (VALUES {wanted}) AS given (date, deployment)")
    for name in INPUTS:
        own = {file.path: file for _, inputs in batch.members for file in inputs.own[name]}
        carried = {file.path: file for _, inputs in batch.members for file in inputs.carried[name]}
        select = _rows(TABLES[name], list(own.values()), [file for path, file in carried.items() if path not in own])
        if batch.instances is not None:
            select = f"SELECT * FROM ({select}) WHERE instance IN ({', '.join(map(literal, batch.instances))})"
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {quote(name)} AS {select}")
    for table in transforms("staging"):
        if table not in KEPT:
            connection.execute(f"CREATE OR REPLACE TEMP VIEW {quote(table.name)} AS {query('staging', table.name)}")


def _rows(table: Table, own: list[DataFile], carried: list[DataFile]) -> str:
    selects = [scan(table, _paths(own))] if own else [table.empty_select()]
    if carried and table.name in CARRY_DAYS:
        selects.append(f"WITH carried AS ({scan(table, _paths(carried))}) {CARRIED_ROWS[table.name]}")
    return " UNION ALL ".join(f"FROM ({select})" for select in selects)


def _paths(files: Iterable[DataFile]) -> list[str]:
    return [str(file.path.resolve()) for file in files]
