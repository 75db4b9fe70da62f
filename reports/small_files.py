"""Rows of thousands of small files: a night of a deployment has one of each table, of which a query needs few columns.

DuckDB takes three times as long as Polars to open such a file, and answers over what Polars has read.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import TYPE_CHECKING

from ..schemas.table import Table, quote
from ..schemas.warehouse import Warehouse, bring, to_merge
from .selection import Night, Selection, select_nights

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

    _Asked = tuple[str, Selection, tuple[str, ...]]
    """Table, side and columns."""

MANY = 200
"""With fewer files than this, to load Polars takes longer than it saves."""
MOST_BYTES = 256 << 20
"""Polars holds all rows in memory: where files are larger together, DuckDB reads them, which does not."""
PARTITION = ("date", "deployment")
PATH = "path of the file"


class SmallFiles:
    """Reads columns of the nights of a warehouse, ahead of time where it is told of them and has a worker for it."""

    def __init__(self, warehouse: Warehouse, worker: Executor | None = None) -> None:
        self._warehouse = warehouse
        self._worker = worker
        self._begun: dict[_Asked, Future[pa.Table | None]] = {}

    def ahead(self, table: Table, side: Selection, columns: Sequence[str]) -> None:
        """Begin to read what ``select`` will be asked for."""
        asked = (table.name, side, tuple(columns))
        if self._worker is not None and len(side.nights) >= MANY and asked not in self._begun:
            self._begun[asked] = self._worker.submit(self._rows, table, side, columns)

    def select(
        self, connection: duckdb.DuckDBPyConnection, table: Table, side: Selection, columns: Sequence[str]
    ) -> str:
        """A SELECT of these columns of a table's rows of the nights of a side, for this connection.

        See ``select_nights``; what many files hold is read here and given to the connection.
        """
        begun = self._begun.pop((table.name, side, tuple(columns)), None)
        rows = self._rows(table, side, columns) if begun is None else begun.result()
        if rows is None:
            return f"SELECT {', '.join(map(quote, columns))} FROM ({select_nights(self._warehouse, table, side)})"
        name = f"{table.name}_{uuid.uuid4().hex}"
        connection.register(name, rows)
        told = (f"CAST({quote(column)} AS {table.column(column).type}) AS {quote(column)}" for column in columns)
        return f"SELECT {', '.join(told)} FROM {name}"

    def _rows(self, table: Table, side: Selection, columns: Sequence[str]) -> pa.Table | None:
        """The rows themselves, where they lie in many small files that Polars can read as they are."""
        places = {
            path: night
            for night in side.nights
            for path in self._warehouse.paths(table, [(night.date, night.deployment)])
        }
        files = list(map(Path, places))
        if len(files) < MANY or to_merge(table, {file.name for file in files}):
            return None
        if sum(file.stat().st_size for file in files) > MOST_BYTES:
            return None
        bring(self._warehouse.root, files)
        return _read(table, places, columns)


def _read(table: Table, files: Mapping[str, Night], columns: Sequence[str]) -> pa.Table | None:
    """The rows of files, in their order; None where one has not the declared columns, or cannot be read.

    DuckDB knows what to do with older files, and what to say of damaged ones.
    """
    import polars as pl

    stored = [name for name in columns if name not in PARTITION]
    try:
        found = pl.scan_parquet(
            list(files), glob=False, hive_partitioning=False, extra_columns="ignore", include_file_paths=PATH
        )
        rows = found.select(*stored, PATH).collect()
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        return None
    declared = pl.DataFrame(table.arrow_schema().empty_table().select(stored))
    if rows.drop(PATH).schema != declared.schema:
        return None
    if len(stored) < len(columns):
        places = {
            PATH: list(files),
            "date": [night.date for night in files.values()],
            "deployment": [night.deployment for night in files.values()],
        }
        rows = rows.join(pl.DataFrame(places), on=PATH, how="left", maintain_order="left")
    return rows.select(columns).to_arrow(compat_level=pl.CompatLevel.newest())
