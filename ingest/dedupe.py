"""Which rows a partition already holds, told by the natural key of the table.

Rows with equal keys in one input are different facts, told apart by their number among themselves: the second of them
is new unless the partition holds two. A scrape may be told in parts: a row with other columns than the held one is new.
Keys are compared as 64-bit hashes.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from ..schemas.raw import HISTOGRAM
from ..schemas.warehouse import damage_told
from .frames import UNREADABLE, stored

if TYPE_CHECKING:
    from ..schemas.table import Table

Hashes = npt.NDArray[np.uint64]

SAME_REQUEST_WITHIN = dt.timedelta(minutes=10)
"""Rows with one request id lie no further apart than this if they are one request: clients use ids again."""
_GIVEN_BY_PARTITION = ("deployment", "date")
_PASSES = {"source": pl.String(), "ingested_at": pl.Datetime("us")}


Pass = tuple[str, dt.datetime]
"""One reading of one input: its source, and when the ingest ran (``ingested_at``)."""
Own = Mapping[int, frozenset[Pass]]
"""By number of an input in the batch, the passes whose rows are that very input's: those that read what it begins with,
told by the hash of the content, and the present one. A file's name says nothing: after a rotation another has it."""


@dataclass
class PartitionKeys:
    """The keys that one partition of one table holds; files are read only where they can matter."""

    table: Table
    schema: Mapping[str, pl.DataType]
    files: list[Path] = field(default_factory=list)
    _unread: list[Path] = field(default_factory=list)
    _held: Hashes = field(default_factory=lambda: np.empty(0, np.uint64))
    in_parts: bool = False
    """Whether rows last found new tell more of what the partition holds, or of each other."""
    before_reading: Callable[[], None] = lambda: None
    """Called before files are read again: sees to it that what was found new is in them."""

    @classmethod
    def of(cls, table: Table, schema: Mapping[str, pl.DataType], paths: Sequence[Path]) -> PartitionKeys:
        """The keys of the published files of a partition."""
        return cls(table, schema, list(paths), list(paths))

    @property
    def columns(self) -> list[str]:
        """The key columns that lie inside the files."""
        return [name for name in self.table.key if name not in _GIVEN_BY_PARTITION]

    @property
    def _may_be_in_parts(self) -> bool:
        return self.table.name == "snapshots"

    def new_rows(self, rows: pl.DataFrame, own: Own) -> pl.DataFrame:
        """The rows that the partition does not hold yet; it counts as holding them from now on.

        ``rows`` has the columns of the table and ``_input``, the number of the input of each row.
        """
        hashes = self._hash(rows)
        self._read_overlapping(rows)
        rows = rows.with_columns(_key=pl.Series(hashes))
        suspects = self._suspects(hashes)
        if len(suspects):
            flagged = rows["_key"].is_in(pl.Series(suspects).implode())
            kept = self._settle(rows.filter(flagged), suspects, own)
            rows = pl.concat([rows.filter(~flagged), kept], how="vertical")
        self.in_parts = self._may_be_in_parts and len(self._suspects(rows["_key"].to_numpy())) > 0
        self._held = np.sort(np.concatenate([self._held, rows["_key"].to_numpy()]))
        return rows.drop("_key")

    def staged(self, path: Path) -> None:
        """Tell that rows found new were written to this file, whose keys are known."""
        self.files.append(path)

    def _hash(self, rows: pl.DataFrame) -> Hashes:
        return rows.select(self.columns).hash_rows().to_numpy()

    def _suspects(self, hashes: Hashes) -> Hashes:
        """The distinct hashes that are held, or that occur more than once."""
        ordered = np.sort(hashes)
        repeated = ordered[1:][ordered[1:] == ordered[:-1]]
        place = np.searchsorted(self._held, ordered)
        known = ordered[:0]
        if len(self._held):
            known = ordered[self._held[np.minimum(place, len(self._held) - 1)] == ordered]
        return np.unique(np.concatenate([repeated, known]))

    def _settle(self, rows: pl.DataFrame, suspects: Hashes, own: Own) -> pl.DataFrame:
        rows = rows.with_row_index("_place").with_columns(_fact=self._fact())
        held = self._details(suspects)
        if self.table.name == "requests":
            rows, held = _tell_apart(rows, held)
        total = held.group_by("_fact").agg(_total=pl.len())
        given = self._given(rows, held, own)
        settled = (
            rows.join(total, on="_fact", how="left")
            .join(given, on=["_fact", "_input"], how="left")
            .with_columns(pl.col("_total", "_given").fill_null(0))
            .sort("_place")
            .with_columns(_number=pl.int_range(pl.len()).over("_fact", "_input") + pl.col("_given"))
            .filter(pl.col("_number") >= pl.col("_total"))
            .unique(["_fact", "_number"], keep="first", maintain_order=True)
        )
        return settled.drop("_place", "_fact", "_total", "_given", "_number")

    def _given(self, rows: pl.DataFrame, held: pl.DataFrame, own: Own) -> pl.DataFrame:
        """How many of the held rows of each key came from the very input that gives it again."""
        counts = [pl.DataFrame(schema={"_fact": pl.UInt64, "_input": pl.UInt32, "_given": pl.get_index_type()})]
        numbers = rows["_input"].unique().to_list() if "ingested_at" in held.columns else []
        for number in numbers:
            passes = pl.DataFrame(list(own.get(number, ())), schema=_PASSES, orient="row")
            mine = held.join(passes, on=list(_PASSES), how="semi")
            counts.append(
                mine.group_by("_fact")
                .agg(_given=pl.len())
                .select("_fact", pl.lit(number, pl.UInt32).alias("_input"), "_given")
            )
        return pl.concat(counts)

    def _fact(self) -> pl.Expr:
        """What makes rows the same fact: their key, and of parts of a scrape which columns they fill."""
        if not self._may_be_in_parts:
            return pl.col("_key")
        filled = []
        for column in self.table.stored_columns:
            if column.type == HISTOGRAM:
                fields = pl.col(column.name).struct
                filled += [fields.field("le").list.len() > 0, fields.field("sum").is_not_null()]
            elif column.name not in ("source", "byte_offset", "ingested_at", *self.table.key):
                filled.append(pl.col(column.name).is_not_null())
        return pl.struct("_key", *(flag.alias(f"_{place}") for place, flag in enumerate(filled))).hash()

    def _details(self, suspects: Hashes) -> pl.DataFrame:
        """The held rows with these keys: which pass they came from, and the times of requests."""
        extra = [name for name in ("source", "ingested_at", "arrived_at", "finished_at") if name in self.schema]
        schema = {"_key": pl.UInt64(), **{name: self.schema[name] for name in extra}, "_fact": pl.UInt64()}
        columns = list(self.schema) if self._may_be_in_parts else [*self.columns, *extra]
        wanted = pl.Series(suspects).implode()
        self.before_reading()
        found = [pl.DataFrame(schema=schema)]
        unread = set(self._unread)
        for path in self.files:
            if path in unread:
                continue
            rows = self._load(path, list(dict.fromkeys(columns)))
            rows = rows.with_columns(_key=pl.Series(self._hash(rows), dtype=pl.UInt64))
            rows = rows.filter(pl.col("_key").is_in(wanted)).with_columns(_fact=self._fact())
            found.append(rows.select(list(schema)))
        return pl.concat(found)

    def _load(self, path: Path, columns: list[str]) -> pl.DataFrame:
        """These columns of a file; null where an older specledger did not write one of them."""
        with damage_told(path, *UNREADABLE):
            known = pl.read_parquet_schema(path)
        rows = stored(path, [name for name in columns if name in known])
        missing = (pl.lit(None, self.schema[name]).alias(name) for name in columns if name not in known)
        return rows.with_columns(missing).select(columns).cast({name: self.schema[name] for name in columns})

    def _read_overlapping(self, rows: pl.DataFrame) -> None:
        """Read the keys of the files whose instances and times overlap with those of the rows."""
        if not self._unread:
            return
        bounded = [name for name in ("instance", *self.table.moment) if name in self.columns]
        ranges = {name: (rows[name].min(), rows[name].max()) for name in bounded}
        later: list[Path] = []
        for path in self._unread:
            if not _overlaps(path, ranges):
                later.append(path)
                continue
            held = self._hash(self._load(path, self.columns))
            self._held = np.sort(np.concatenate([self._held, held]))
        self._unread = later


def _tell_apart(rows: pl.DataFrame, held: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Make requests with one id that lie far apart facts of their own (column ``_fact``).

    Algorithm: order all rows of a key by time; where one follows the one before by more than SAME_REQUEST_WITHIN, a new
    request begins; the number of the request becomes part of the key.
    """
    moment = pl.coalesce("arrived_at", "finished_at").alias("_moment")
    both = pl.concat(
        [
            rows.select("_key", moment, pl.col("_place").cast(pl.Int64), pl.lit(True).alias("_new")),
            held.with_row_index("_place").select(
                "_key", moment, pl.col("_place").cast(pl.Int64), pl.lit(False).alias("_new")
            ),
        ]
    ).sort("_key", "_moment")
    gap = (pl.col("_moment") - pl.col("_moment").shift().over("_key")) > SAME_REQUEST_WITHIN
    both = both.with_columns(_request=gap.fill_null(False).cast(pl.UInt32).cum_sum().over("_key"))
    both = both.with_columns(_fact=pl.struct("_key", "_request").hash())
    new, old = both.filter("_new").sort("_place"), both.filter(~pl.col("_new")).sort("_place")
    return rows.with_columns(new["_fact"]), held.with_columns(old["_fact"])


def _overlaps(path: Path, ranges: Mapping[str, tuple[Any, Any]]) -> bool:
    """Whether the statistics of a file leave it open that it holds rows inside all the ranges."""
    import pyarrow.parquet as pq

    with damage_told(path, *UNREADABLE):
        metadata = pq.read_metadata(path)
    places = {metadata.schema.column(place).path: place for place in range(metadata.num_columns)}
    for name, (low, high) in ranges.items():
        if low is None or high is None:
            continue
        statistics = [
            metadata.row_group(group).column(places[name]).statistics for group in range(metadata.num_row_groups)
        ]
        if any(one is None or not one.has_min_max for one in statistics):
            continue
        if all(_plain(one.max) < low or _plain(one.min) > high for one in statistics):
            return False
    return True


def _plain(value: Any) -> Any:
    return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value
