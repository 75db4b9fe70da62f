"""Which nights of which deployments a side of a comparison is: SQL predicates over a small table of their labels.

The predicate is the user's own SQL. It runs in a database of its own that holds nothing but that table and that can
reach neither files nor the network.
"""

from __future__ import annotations

import bisect
import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..schemas import TABLES
from ..schemas.arrow_types import arrow_type
from ..schemas.cells import CELL_TABLES
from ..schemas.errors import UsageError
from ..schemas.raw import DEPLOYMENTS
from ..schemas.table import Table, quote
from ..schemas.typed_sql import unreadable
from ..schemas.warehouse import Warehouse, scan

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

NOT_PREDICATES = frozenset({"date", "deployment", "labels", "source", "instance", "args"})
"""Columns of ``deployments`` that do not become plain columns of ``selection`` (or already are)."""
PLAIN = tuple(column for column in DEPLOYMENTS.columns if column.name not in NOT_PREDICATES)
MEMORY = "512MB"
NOTHING = "false"
"""The predicate of a side that is meant to be empty, as before the first night."""


@dataclass(frozen=True, order=True)
class Night:
    """One partition of the warehouse: a deployment on a UTC date."""

    date: dt.date
    deployment: str


@dataclass(frozen=True)
class Selection:
    """The nights that a predicate selected, rising."""

    where: str
    nights: tuple[Night, ...]

    def __hash__(self) -> int:
        # Sides are keys of all that is remembered of them, and may have thousands of nights.
        return hash((self.where, len(self.nights), self.nights[:1]))

    @property
    def deployments(self) -> tuple[str, ...]:
        return tuple(sorted({night.deployment for night in self.nights}))

    @property
    def dates(self) -> tuple[dt.date, ...]:
        return tuple(sorted({night.date for night in self.nights}))


def select_nights(warehouse: Warehouse, table: Table, side: Selection) -> str:
    """A SELECT of a table's rows of the nights of a side, read from their files alone."""
    paths = list(_paths(warehouse, table, side))
    return scan(table, paths) if paths else table.empty_select()


def has_nights(warehouse: Warehouse, table: Table, side: Selection) -> bool:
    """Whether a table has a file of any night of a side."""
    return next(_paths(warehouse, table, side), None) is not None


def _paths(warehouse: Warehouse, table: Table, side: Selection) -> Iterator[str]:
    return warehouse.paths(table, ((night.date, night.deployment) for night in side.nights))


class Selector:
    """Evaluates predicates over the nights of a warehouse."""

    def __init__(self, nights: Iterable[Night], records: Iterable[Mapping[str, Any]]) -> None:
        """``records`` are rows of ``deployments`` (all columns by name), in any order."""
        found = list(records)
        self.nights = tuple(sorted(set(nights)))
        self._starts = [(record["deployment"], record["started_at"]) for record in found if record.get("started_at")]
        self._connection = _locked(list(self.nights), found)
        self.deployments: pa.Table | None = None
        """The rows of ``deployments`` as they were read."""

    @classmethod
    def of(cls, warehouse: Warehouse, connection: duckdb.DuckDBPyConnection) -> Selector:
        """The selector of everything that was measured or evaluated in a warehouse."""
        tables = (*CELL_TABLES, TABLES["quality"])
        nights = {Night(*place) for place in warehouse.partitions(tables)}
        # They may lie in a file of each night: they are read once, and looked at twice.
        records = connection.sql(f"SELECT {', '.join(map(quote, DEPLOYMENTS.names))} FROM deployments").to_arrow_table()
        connection.register("records", records)
        cursor = connection.execute("FROM records")
        names = [column[0] for column in cursor.description or ()]
        found = cls(nights, [dict(zip(names, row, strict=True)) for row in cursor.fetchall()])
        connection.unregister("records")
        found.deployments = records
        return found

    def columns(self) -> tuple[str, ...]:
        """The columns that a predicate can use."""
        return tuple(name for (name,) in self._connection.execute(_COLUMNS).fetchall())

    def select(self, where: str) -> Selection:
        """The nights for which the predicate is true; UsageError if it is no SQL predicate over the selection table."""
        import duckdb

        if not where.strip():
            raise UsageError("The expression is empty: give an SQL predicate, or true for everything.")
        if why := unreadable(where):
            raise UsageError(f"The expression {_short(where)} {why}.")
        # The closing bracket stands on a line of its own, so that a comment in the predicate cannot swallow it.
        query = f"SELECT date, deployment FROM selection WHERE (\n{where}\n)"
        try:
            # Only one whole expression reads without brackets as it does inside them.
            if any(len(duckdb.extract_statements(read)) != 1 for read in (query, f"SELECT\n{where}\n")):
                raise UsageError(f"The expression {_short(where)} must be one SQL predicate.")
            if drawn := self._volatile(where):
                raise UsageError(
                    f"The expression {_short(where)} asks {', '.join(drawn)}, which answers otherwise each time: "
                    "name the nights themselves."
                )
            rows = self._connection.execute(query).fetchall()
        except duckdb.Error as error:
            raise UsageError(
                f"The expression {_short(where)} is not a predicate over deployments and dates "
                f"({_first_line(error)}); columns are {', '.join(self.columns())}."
            ) from error
        return Selection(where, tuple(sorted({Night(date, deployment) for date, deployment in rows})))

    def _volatile(self, where: str) -> list[str]:
        """The functions of the predicate that answer otherwise each time they are asked."""
        rows = self._connection.execute(_VOLATILE, [f"SELECT (\n{where}\n)"]).fetchall()
        return [f"{name}()" for (name,) in rows]

    def starts(self, deployment: str) -> list[dt.datetime]:
        """When processes of a deployment started (naive UTC), as far as their logs tell, rising."""
        return sorted(started for name, started in self._starts if name == deployment)

    def facts(self, selection: Selection) -> list[dict[str, Any]]:
        """One row of the selection table for each deployment of a selection: that of its last selected night."""
        last = {night.deployment: night.date for night in selection.nights}
        if not last:
            return []
        cursor = self._connection.execute(_FACTS, [list(last), list(last.values())])
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


_COLUMNS = "SELECT column_name FROM (DESCRIBE selection)"
_FACTS = """
WITH last AS (SELECT unnest($1) AS deployment, unnest($2) AS date)
FROM selection SEMI JOIN last USING (date, deployment) ORDER BY deployment
"""
_VOLATILE = """
SELECT DISTINCT function_name FROM duckdb_functions()
WHERE stability = 'VOLATILE'
AND list_contains(json_serialize_sql($1)->>'$..function_name', function_name)
ORDER BY ALL
"""


def _locked(nights: list[Night], records: list[Mapping[str, Any]]) -> duckdb.DuckDBPyConnection:
    import duckdb

    connection = duckdb.connect(
        config={
            "enable_external_access": "false",
            "python_enable_replacements": "false",
            "memory_limit": MEMORY,
            "threads": "1",
        }
    )
    by_deployment: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        by_deployment.setdefault(record["deployment"], []).append(record)
    labels = {name: _labels(found) for name, found in by_deployment.items()}
    taken = {"date", "deployment", "labels", *(column.name.lower() for column in PLAIN)}
    keys = sorted({key for found in labels.values() for key in found if key.lower() not in taken})
    # Names that differ only in case are one column in SQL: the first one gets it, labels['...'] reaches them all.
    plain_keys = list({key.lower(): key for key in reversed(keys)}.values())[::-1]
    declared = {
        "date": "DATE",
        "deployment": "VARCHAR",
        "labels": "MAP(VARCHAR, VARCHAR)",
        **{column.name: column.type for column in PLAIN},
        **dict.fromkeys(plain_keys, "VARCHAR"),
    }
    columns = ", ".join(f"{quote(name)} {kind}" for name, kind in declared.items())
    connection.execute(f"CREATE TABLE selection ({columns})")
    started = {name: _started(found) for name, found in by_deployment.items()}
    rows = []
    for night in nights:
        mine = labels.get(night.deployment, {})
        facts = _facts(started.get(night.deployment, []), night.date)
        rows.append((night.date, night.deployment, list(mine.items()), *facts, *map(mine.get, plain_keys)))
    _insert(connection, list(declared.values()), rows)
    connection.execute("SET lock_configuration = true")
    return connection


def _insert(connection: duckdb.DuckDBPyConnection, types: list[str], rows: list[tuple[Any, ...]]) -> None:
    """Put rows into the table ``selection``; as parameters of a statement they take a hundred times as long."""
    import pyarrow as pa

    columns = zip(*rows, strict=True) if rows else ([] for _ in types)
    arrays = [pa.array(values, arrow_type(kind)) for kind, values in zip(types, columns, strict=True)]
    connection.register("given", pa.table(arrays, names=[str(place) for place in range(len(types))]))
    connection.execute("INSERT INTO selection FROM given")
    connection.unregister("given")


def _labels(records: list[Mapping[str, Any]]) -> dict[str, str]:
    """All labels of a deployment; of each key the value given last."""
    given = sorted(
        (record for record in records if record.get("labels")),
        key=lambda record: record.get("labelled_at") or record.get("started_at") or dt.datetime.min,
    )
    return {key: value for record in given for key, value in record["labels"].items()}


def _started(records: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The records of starts, rising."""
    return sorted((record for record in records if record.get("started_at")), key=lambda record: record["started_at"])


def _facts(starts: list[Mapping[str, Any]], date: dt.date) -> list[Any]:
    """Every plain column as the latest start up to the date said it, else as the first one after it did."""
    before = bisect.bisect_right(starts, date, key=lambda record: record["started_at"].date())
    in_force = starts[max(0, before - 1)] if starts else {}
    return [in_force.get(column.name) for column in PLAIN]


def _short(where: str) -> str:
    text = " ".join(where.encode("utf-8", "replace").decode().split())
    return f"«{text[:120]}{'…' if len(text) > 120 else ''}»"


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:200].rstrip(".")
