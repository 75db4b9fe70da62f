"""Small operations on frames of rows, cheaper than a query plan for each."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from ..schemas.warehouse import damage_told

UNREADABLE = (pl.exceptions.PolarsError, pa.ArrowInvalid)
"""What Polars and Arrow raise where a file of a warehouse is damaged."""


def stored(path: Path, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """The rows of one file of a warehouse, or some columns of them; WarehouseError where it is damaged."""
    with damage_told(path, *UNREADABLE):
        return pl.read_parquet(path, columns=None if columns is None else list(columns), hive_partitioning=False)


def maps(counts: Sequence[Mapping[str, int]]) -> pl.Series:
    """A MAP column from counts by name; Polars would build a series for each row."""
    ends = np.cumsum([0, *map(len, counts)])
    names = pa.array([name for one in counts for name in one], pa.string())
    numbers = pa.array([number for one in counts for number in one.values()], pa.int64())
    entries = pa.StructArray.from_arrays([names, numbers], ["key", "value"])
    return pl.Series(pa.LargeListArray.from_arrays(ends, entries))


def partitions(rows: pl.DataFrame) -> list[pl.DataFrame]:
    """The rows of each date and deployment."""
    by = ["_date", "_deployment"]
    if all(rows[name].min() == rows[name].max() for name in by):
        return [rows]
    return rows.partition_by(by)


def in_order(rows: pl.DataFrame, order: list[str]) -> bool:
    """Whether the first of these columns that is not constant rises."""
    for name in order:
        column = rows[name]
        if column.dtype.is_nested():
            return False
        if column.null_count() or column.min() != column.max():
            return column.is_sorted()
    return True


def constant(name: str, value: int | str | dt.date | None, kind: pl.DataType, height: int) -> pl.Series:
    """One value for all rows."""
    return _one(name, value, kind).new_from_index(0, height)


@lru_cache(maxsize=1_024)
def _one(name: str, value: int | str | dt.date | None, kind: pl.DataType) -> pl.Series:
    """One value as a column: kept, because each block of rows needs the same again."""
    return pl.Series(name, [value], kind)


def filled(column: pl.Series, inputs: pl.Series, values: Sequence[dt.date | str]) -> pl.Series:
    """The column with its nulls replaced by the value of the row's input; one value stands for all."""
    missing = column.null_count()
    if not missing:
        return column
    if len(values) > 1:
        given = pl.Series(column.name, values).gather(inputs).cast(column.dtype)
    else:
        given = constant(column.name, values[0], column.dtype, len(column))
    return given if missing == len(column) else column.fill_null(given)
