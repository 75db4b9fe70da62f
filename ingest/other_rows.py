"""Rows of ``other_samples``: samples that no column of ``snapshots`` takes, kept as they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from .exposition_line import Series
from .reader import BatchSink

ROWS = 1 << 18
"""Rows given to the sink at once: with their labels some 50 MiB."""
NO_OFFSET = -1
"""In place of an offset: the scrape has no place of its own in its input."""


class OtherRows:
    """Samples on their way to rows, of many scrapes and any series."""

    def __init__(self) -> None:
        self._scrapes: list[tuple[int, int, int, str]] = []
        self._codes: list[npt.NDArray[np.int32]] = []
        self._values: list[npt.NDArray[np.float64]] = []

    def add(
        self,
        position: int,
        offset: int,
        time: int,
        instance: str,
        codes: npt.NDArray[np.int32],
        values: npt.NDArray[np.float64],
    ) -> None:
        """Take samples of one scrape (``time`` in unix microseconds) by the numbers of their series."""
        self._scrapes.append((position, offset, time, instance))
        self._codes.append(codes)
        self._values.append(values)

    def flush(self, series: Sequence[Series], sink: BatchSink) -> None:
        """Give the rows to the sink, server by server and series by series; ``series`` has the numbers as positions."""
        if not self._scrapes:
            return
        positions, offsets, times, instances = zip(*self._scrapes, strict=True)
        scrape = np.repeat(np.arange(len(self._scrapes)), [len(codes) for codes in self._codes])
        codes = np.concatenate(self._codes)
        there = np.zeros(len(series), np.bool_)
        there[codes] = True
        found = [series[code] for code in np.flatnonzero(there).tolist()]
        # In the order in which they lie in files: rows that hold labels are slow to sort.
        ranked = sorted(range(len(found)), key=lambda place: (found[place].name, found[place].labels))
        ranks = np.empty(len(series), np.int64)
        ranks[there] = np.argsort(ranked)
        which = ranks[codes]
        places = {name: place for place, name in enumerate(sorted(set(instances)))}
        servers = np.array([places[name] for name in instances], np.int64)
        order = np.argsort(servers[scrape] * len(ranked) + which, kind="stable")
        scrape, which = scrape[order], which[order]
        values = np.concatenate(self._values)[order]
        self._scrapes, self._codes, self._values = [], [], []
        described = _described([found[place] for place in ranked])
        for start in range(0, len(order), ROWS):
            some = slice(start, start + ROWS)
            own = scrape[some]
            frame = described[which[some]].with_columns(
                input=pl.Series(np.array(positions, np.uint32)[own]),
                byte_offset=pl.Series(np.array(offsets, np.int64)[own]).replace(NO_OFFSET, None),
                scraped_at=pl.Series(np.array(times, np.int64)[own]).cast(pl.Datetime("us")),
                instance=pl.Series(instances, dtype=pl.String).gather(own),
                value=pl.Series(values[some]),
            )
            sink.rows("other_samples", frame)


def _described(series: Sequence[Series]) -> pl.DataFrame:
    """Name and labels of each series."""
    items = [item for one in series for item in one.labels]
    pairs = pa.StructArray.from_arrays(
        [pa.array([key for key, _ in items], pa.string()), pa.array([value for _, value in items], pa.string())],
        ["key", "value"],
    )
    offsets = pa.array(np.cumsum([0, *(len(one.labels) for one in series)]), pa.int64())
    labels = pl.Series(pa.LargeListArray.from_arrays(offsets, pairs))
    return pl.DataFrame({"metric": [one.name for one in series], "labels": labels})
