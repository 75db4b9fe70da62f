"""Who computes: this process with one connection, or the workers of a Spark cluster, each unit of work in a task."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from ..schemas.config import Settings
from ..schemas.warehouse import Warehouse
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


class Engine(Protocol):
    """Runs units of work, which depend on nothing but what is published."""

    slots: int
    """Units that run at the same time."""

    def each(self, stage: str, work: Work[U], units: Sequence[U], size: Size[U]) -> Iterator[list[Staged]]:
        """What ``work`` gives for each unit, in order."""


class Here:
    """This process, one unit after the other."""

    slots = 1

    def __init__(self, connection: duckdb.DuckDBPyConnection, warehouse: Warehouse) -> None:
        self._connection = connection
        self._warehouse = warehouse

    def each(self, stage: str, work: Work[U], units: Sequence[U], size: Size[U]) -> Iterator[list[Staged]]:
        """One unit is computed when it is asked for."""
        del stage, size
        return (work(self._connection, self._warehouse, unit) for unit in units)


class OnSpark:
    """The workers of a cluster, which see the warehouse under the same path."""

    def __init__(self, cluster: Cluster, warehouse: Warehouse, settings: Settings) -> None:
        self._cluster = cluster
        self._warehouse = warehouse
        self._settings = settings
        self.slots = cluster.slots

    def each(self, stage: str, work: Work[U], units: Sequence[U], size: Size[U]) -> Iterator[list[Staged]]:
        """A unit is a task; it may run more than once, and only what one of its runs gives is taken."""
        task = functools.partial(_task, self._warehouse, self._settings, work)
        return self._cluster.each(stage, task, units, size, _written)


def _task(warehouse: Warehouse, settings: Settings, work: Work[U], unit: U) -> list[Staged]:
    with connect(warehouse, settings, ONE_THREAD) as connection:
        bind_deployments(connection, warehouse)
        return work(connection, warehouse, unit)


def _written(staged: list[Staged]) -> int:
    return sum(one.size for one in staged)
