"""Who computes: this process with one connection or several, or the workers of a Spark cluster, each unit in a task."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol, TypeVar

from ..schemas.config import Settings
from ..schemas.warehouse import Warehouse
from . import cells_run
from .database import Limits, connect
from .results import Staged
from .start_rows import bind_deployments

if TYPE_CHECKING:
    import duckdb

    from ..schemas.spark import Cluster

U = TypeVar("U")
Work = Callable[["duckdb.DuckDBPyConnection", Warehouse, U], list[Staged]]
Size = Callable[[U], int]
"""Bytes that a unit reads."""
ONE_THREAD = Limits(threads=1)
"""What a task may use: Spark runs as many at once as there are cores."""
LEAST_BATCH_BYTES = 1 << 20
UNITS_A_SLOT = 4
"""Units of work for each one that can run at a time: enough for all to end together, few for the cost of starting."""
SHARED_BYTES = 64 << 20
"""Raw bytes from which several connections with a part of the threads are faster than one: 1.36 times on two cores."""
MOST_CONNECTIONS = 4
MEMORY_SHARE = 0.8
"""Of the machine's memory, which is what DuckDB itself takes at most."""


class Engine(Protocol):
    """Runs units of work, which depend on nothing but what is published."""

    slots: int
    """Units that run at the same time; cells of much data are computed by more (see ``batch_bytes``)."""

    def batch_bytes(self, size: int) -> int:
        """Most raw bytes of a batch of cells, where ``size`` are to be computed in all."""

    def each(self, stage: str, work: Work[U], units: Sequence[U], size: Size[U]) -> Generator[list[Staged]]:
        """What ``work`` gives for each unit, in order; closed before its end, it ends what still computes."""


class Here:
    """This process, one unit after the other; much data has its cells computed by several connections at once."""

    slots = 1

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, warehouse: Warehouse, settings: Settings, limits: Limits
    ) -> None:
        self._connection = connection
        self._warehouse = warehouse
        self._settings = settings
        ((self._threads,),) = connection.execute("SELECT current_setting('threads')").fetchall()
        self._connections = 1 if limits.memory else min(MOST_CONNECTIONS, self._threads)

    def batch_bytes(self, size: int) -> int:
        """As much as memory is meant for, or the share of one connection."""
        if self._connections == 1 or size < SHARED_BYTES:
            return cells_run.BATCH_BYTES
        return min(cells_run.BATCH_BYTES // self._connections, size // (UNITS_A_SLOT * self._connections))

    def each(self, stage: str, work: Work[U], units: Sequence[U], size: Size[U]) -> Generator[list[Staged]]:
        """One unit is computed when it is asked for, but for cells of much data."""
        count = min(self._connections, len(units))
        if stage == "cells" and count > 1 and sum(map(size, units)) >= SHARED_BYTES:
            return self._at_once(work, units, count)
        return (work(self._connection, self._warehouse, unit) for unit in units)

    def _at_once(self, work: Work[U], units: Sequence[U], count: int) -> Generator[list[Staged]]:
        limits = Limits(self._threads // count, f"{100 * MEMORY_SHARE / count:.0f}%")
        running: set[duckdb.DuckDBPyConnection] = set()
        ended = threading.Event()

        def work_until_ended(connection: duckdb.DuckDBPyConnection, warehouse: Warehouse, unit: U) -> list[Staged]:
            running.add(connection)
            try:
                return [] if ended.is_set() else work(connection, warehouse, unit)
            finally:
                running.discard(connection)

        task = functools.partial(_task, self._warehouse, self._settings, limits, work_until_ended)
        pool = ThreadPoolExecutor(count, thread_name_prefix="cells")
        try:
            yield from pool.map(task, units)
        finally:
            # After an error or an interrupt nobody waits for the rest of a unit.
            ended.set()
            for connection in list(running):
                connection.interrupt()
            pool.shutdown(cancel_futures=True)


class OnSpark:
    """The workers of a cluster, which see the warehouse under the same path."""

    def __init__(self, cluster: Cluster, warehouse: Warehouse, settings: Settings) -> None:
        self._cluster = cluster
        self._warehouse = warehouse
        self._settings = settings
        self.slots = cluster.slots

    def batch_bytes(self, size: int) -> int:
        """Less than usual, so that all workers have work to the end."""
        return min(cells_run.BATCH_BYTES, max(LEAST_BATCH_BYTES, size // (UNITS_A_SLOT * self.slots)))

    def each(self, stage: str, work: Work[U], units: Sequence[U], size: Size[U]) -> Generator[list[Staged]]:
        """A unit is a task; it may run more than once, and only what one of its runs gives is taken."""
        task = functools.partial(_task, self._warehouse, self._settings, ONE_THREAD, work)
        return self._cluster.each(stage, task, units, size, _written)


def _task(warehouse: Warehouse, settings: Settings, limits: Limits, work: Work[U], unit: U) -> list[Staged]:
    """What work gives on a connection of its own."""
    with connect(warehouse, settings, limits) as connection:
        bind_deployments(connection, warehouse)
        return work(connection, warehouse, unit)


def _written(staged: list[Staged]) -> int:
    return sum(one.size for one in staged)
