"""Rows of thousands of small files: a night of a deployment has one of each table, of which a query needs few columns.

DuckDB takes three times as long as Polars to open such a file, and answers over what Polars has read.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..schemas.table import Table, quote
from ..schemas.warehouse import Warehouse, bring, to_merge
from .selection import Night, Selection, select_nights

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

MANY = 200
"""With fewer files than this, to load Polars takes longer than it saves."""
PARTITION = ("date", "deployment")
PATH = "path of the file"


def select_columns(
    connection: duckdb.DuckDBPyConnection, warehouse: Warehouse, table: Table, side: Selection, columns: Sequence[str]
) -> str:
    """A SELECT of these columns of a table's rows of the nights of a side, for this connection; see ``select_nights``.

    What many files hold is read here and given to the connection.
    """
    files = {path: night for night in side.nights for path in warehouse.paths(table, [(night.date, night.deployment)])}
    merged = to_merge(table, {Path(path).name for path in files})
    rows = None if merged or len(files) < MANY else _read(warehouse, table, files, columns)
    if rows is None:
        return f"SELECT {', '.join(map(quote, columns))} FROM ({select_nights(warehouse, table, side)})"
    name = f"{table.name}_{uuid.uuid4().hex}"
    connection.register(name, rows)
    told = (f"CAST({quote(column)} AS {table.column(column).type}) AS {quote(column)}" for column in columns)
    return f"SELECT {', '.join(told)} FROM {name}"


def _read(warehouse: Warehouse, table: Table, files: Mapping[str, Night], columns: Sequence[str]) -> pa.Table | None:
    """The rows of files, in their order; None where one has not the declared columns, or cannot be read.

    DuckDB knows what to do with older files, and what to say of damaged ones.
    """
    import polars as pl

    bring(warehouse.root, map(Path, files))
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
