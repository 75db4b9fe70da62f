"""Rows of ``snapshots`` from values of series: whole columns at once.

Expositions and the API of a Prometheus server both end here: a layout says which series make up a row, a matrix holds
one line of values a scrape.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from ..schemas.arrow_types import arrow_type
from ..schemas.raw import SNAPSHOTS
from ..schemas.vllm_metrics import METRICS
from .other_rows import NO_OFFSET
from .plausible import LONGEST_SUM_S, MOST
from .reader import BatchSink, InputContext
from .series_layout import Histogram, Layout, Listed, Mapped, RowPlan, Scalar

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

Naming = Callable[[int, str | None, bool], str]
"""Names the server of a row: from the input's position, what the input calls the server (None if nothing; with a
leading ``/`` where only replicas behind one address are told apart), and whether all rows call it the same."""

EXACT = 2.0**53
"""Counters are floats at the source: above this they have lost whole units."""
STARTED = "process_started_at"
LATEST = 4_102_444_800.0
"""The year 2100 in unix seconds: a later time is none."""

_UNITS = {metric.column: metric.unit for metric in METRICS}
_KINDS = {metric.column: metric.kind for metric in METRICS}
_TYPES = {column.name: column.type for column in SNAPSHOTS.columns}


@dataclass(frozen=True)
class Scrapes:
    """Scrapes of one layout: an element, or a line of ``values``, for each."""

    inputs: npt.NDArray[np.uint32]
    offsets: Integers
    times: Integers
    """Unix microseconds."""
    values: Floats
    """A line a scrape, a column a series of the layout; NaN is no value for a column of ``snapshots``."""


def emit(layout: Layout, scrapes: Scrapes, naming: Naming, sink: BatchSink) -> None:
    """Give the rows of these scrapes to the sink, and a reject for each value that cannot be one."""
    builder = _Builder(layout, scrapes, sink)
    names, alone = layout.names, len(set(layout.names.values())) <= 1
    tables = [
        builder.snapshots(row).append_column("instance", _named(scrapes.inputs, names[row.target], alone, naming))
        for row in layout.rows
    ]
    frame = pl.from_arrow(pa.concat_tables(tables, promote_options="default"))
    sink.rows("snapshots", cast(pl.DataFrame, frame))


def server_name(context: InputContext, name: str | None, alone: bool, server: str | None = None) -> str:
    """The server of a row: as the user named it, as its labels or the input name it, else the input's own name."""
    own = context.instance if context.instance_given or server is None else server
    if name is None or (context.instance_given and alone and not name.startswith("/")):
        return own
    return own + name if name.startswith("/") else name


def _named(inputs: npt.NDArray[np.uint32], name: str | None, alone: bool, naming: Naming) -> pa.Array:
    """The server of each row."""
    distinct, places = np.unique(inputs, return_inverse=True)
    named = [naming(int(position), name, alone) for position in distinct]
    return pa.array(named, pa.string()).take(pa.array(places))


class _Builder:
    """Columns from the values of one layout's scrapes."""

    def __init__(self, layout: Layout, scrapes: Scrapes, sink: BatchSink) -> None:
        self.layout = layout
        self.scrapes = scrapes
        self.sink = sink
        self.count = len(scrapes.times)
        with np.errstate(invalid="ignore"):
            self.integers = scrapes.values.astype(np.int64)
            self.whole = (scrapes.values >= 0) & (scrapes.values <= EXACT) & (scrapes.values == self.integers)
        self.integers *= self.whole  # a cast makes anything of what is no count

    def snapshots(self, row: RowPlan) -> pa.Table:
        """One row a scrape."""
        columns: dict[str, pa.Array] = {
            "input": pa.array(self.scrapes.inputs),
            "byte_offset": pa.array(self.scrapes.offsets, mask=_mask(self.scrapes.offsets != NO_OFFSET)),
            "scraped_at": pa.array(self.scrapes.times).cast(pa.timestamp("us")),
            "engine": pa.array(np.full(self.count, row.engine, np.int32)),
            "model_name": pa.array([row.model], pa.string()).take(pa.array(np.zeros(self.count, np.int64))),
            STARTED: self._started(row),
        }
        for name, column in row.columns.items():
            columns[name] = self._column(name, column)
        for name, fact in row.facts.items():
            columns[name] = pa.array(np.full(self.count, fact)).cast(arrow_type(_TYPES[name]))
        return pa.table(columns)

    def _started(self, row: RowPlan) -> pa.Array:
        values = self.scrapes.values
        possible = (values > 0) & (values < LATEST)
        impossible = ~possible & ~np.isnan(values)
        times = np.where(possible, values, np.nan)
        started = np.full(self.count, np.nan)
        if row.births_at:
            started = np.fmin.reduce(times[:, row.births_at], axis=1)
            wrong = impossible[:, row.births_at]
            self._reject(STARTED, np.flatnonzero(wrong.any(axis=1)), (row.births_at[wrong.any(axis=0).argmax()],))
        if row.start_at is not None:
            start = times[:, row.start_at]
            started = np.where(np.isnan(start), started, start)
            if row is self.layout.rows[0]:  # a scrape says it once, for all engines
                self._reject(STARTED, np.flatnonzero(impossible[:, row.start_at]), (row.start_at,))
        unknown = np.isnan(started)
        microseconds = np.rint(np.where(unknown, 0, started) * 1e6).astype(np.int64)
        return pa.array(microseconds, mask=unknown).cast(pa.timestamp("us"))

    def _column(self, name: str, column: Scalar | Listed | Mapped | Histogram) -> pa.Array:
        if isinstance(column, Scalar):
            if _KINDS[name] == "counter":
                good = self._good(name, (column.at,), self.whole)
                return pa.array(self.integers[:, column.at], mask=_mask(good))
            values = self._gauge(name, column.at)
            return pa.array(values, mask=_mask(~np.isnan(values)))
        if isinstance(column, Listed):
            good = self._good(name, column.at, self.whole)
            return _lists(self.integers[:, column.at], good)
        if isinstance(column, Mapped):
            return self._map(name, column)
        return self._histogram(name, column)

    def _map(self, name: str, column: Mapped) -> pa.Array:
        counted = _KINDS[name] == "counter"
        good = self._good(name, column.at, self.whole if counted else self._within(MOST))
        values = (self.integers if counted else self.scrapes.values)[:, column.at]
        width = len(column.keys)
        keys = pa.array(column.keys, pa.string()).take(pa.array(np.tile(np.arange(width), self.count)))
        items = pa.StructArray.from_arrays([keys, pa.array(values.ravel())], ["key", "value"])
        return _list_of(items, self.count, width, good)

    def _histogram(self, name: str, column: Histogram) -> pa.Array:
        ends = () if column.count_at is None else (column.count_at,)
        good = self._good(name, (*column.at, *ends), self.whole)
        edges = np.tile(np.array(column.le), (self.count, 1))
        everywhere = np.ones(self.count, np.bool_)
        total = pa.nulls(self.count, pa.float64())
        if column.sum_at is not None:
            values = self.scrapes.values[:, column.sum_at]
            possible = (values >= 0) & (values <= (LONGEST_SUM_S if _UNITS[name] == "s" else EXACT))
            self._reject(name, np.flatnonzero(~possible & ~np.isnan(values)), (column.sum_at,))
            total = pa.array(values, mask=_mask(possible))
        counts = pa.nulls(self.count, pa.int64())
        if column.count_at is not None or column.at:
            counts = pa.array(self.integers[:, column.at[-1] if column.count_at is None else column.count_at])
        parts = [_lists(edges, everywhere), _lists(self.integers[:, column.at], everywhere), total, counts]
        mask = None if good.all() else pa.array(~good)
        return pa.StructArray.from_arrays(parts, ["le", "n", "sum", "count"], mask=mask)

    def _gauge(self, name: str, at: int) -> Floats:
        values = self.scrapes.values[:, at]
        if name == "prefix_hit_rate":
            values = np.where(values == -1, np.nan, values)  # the old gauge's word for none
        highest = 1.0 if _UNITS[name] == "ratio" else MOST
        good = (values >= 0) & (values <= highest)
        self._reject(name, np.flatnonzero(~good & ~np.isnan(values)), (at,))
        return np.where(good, values, np.nan)

    def _within(self, highest: float) -> Flags:
        with np.errstate(invalid="ignore"):
            within: Flags = (self.scrapes.values >= 0) & (self.scrapes.values <= highest)
        return within

    def _good(self, name: str, at: tuple[int, ...], valid: Flags) -> Flags:
        """Where every one of these series has a valid value; a reject where one has a value that is not."""
        good: Flags = np.all(valid[:, at], axis=1)
        if not good.all():
            wrong = ~valid[:, at] & ~np.isnan(self.scrapes.values[:, at])
            self._reject(name, np.flatnonzero(wrong.any(axis=1)), at)
        return good

    def _reject(self, name: str, lines: Integers, at: tuple[int, ...]) -> None:
        if name == STARTED:
            wanted = "a time that can be"
        elif self.layout.series[at[0]].name.endswith("_sum"):
            wanted = "a sum that can be"
        elif _UNITS[name] == "ratio":
            wanted = "a share between 0 and 1"
        else:
            wanted = "a count" if _KINDS[name] in {"counter", "histogram"} else f"a number of {_UNITS[name]}"
        for line in lines:
            values = ", ".join(f"{value:g}" for value in self.scrapes.values[line, at])
            self.sink.reject(
                int(self.scrapes.inputs[line]),
                None if self.scrapes.offsets[line] == NO_OFFSET else int(self.scrapes.offsets[line]),
                f"the value for {name} is not {wanted} and was left out: look at the server that wrote it",
                f"{self.layout.series[at[0]].name} {values}",
            )


def _mask(good: Flags) -> Flags | None:
    return None if good.all() else ~good


def _lists(values: npt.NDArray[Any], good: Flags) -> pa.Array:
    """A list for each line of the matrix, null where it is not good."""
    count, width = values.shape
    return _list_of(pa.array(np.ascontiguousarray(values).ravel()), count, width, good)


def _list_of(items: pa.Array, count: int, width: int, good: Flags) -> pa.Array:
    offsets = pa.array(np.arange(count + 1, dtype=np.int64) * width)
    return pa.LargeListArray.from_arrays(offsets, items, mask=None if good.all() else pa.array(~good))
