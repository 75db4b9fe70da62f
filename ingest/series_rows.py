"""Scrapes on their way to rows: sorted by layout, held back in bounded memory, then built column by column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt

from .exposition_line import Series
from .metric_names import meaning
from .reader import BatchSink
from .series_layout import Layout, plan
from .snapshot_frames import NO_OFFSET, Scrapes, emit

BATCH_VALUES = 1 << 21
"""Values held back before their rows are built (16 MiB)."""
MAX_SERIES = 1 << 19
"""Series that are remembered before the memory is emptied."""

FOREIGN = -1
"""In place of a number: a series of another program."""

TWICE_REASON = "a series is in the scrape twice: put a '# scraped_at' line before each scrape of a file"

Codes = npt.NDArray[np.int32]
Values = npt.NDArray[np.float64]


ServerNaming = Callable[[str | None, int, str | None, bool], str]
"""A Naming that is also told, first, where the input says it was scraped from."""


class Numbering:
    """Every vLLM series seen so far under a number."""

    def __init__(self) -> None:
        self.series: list[Series] = []
        self._numbers: dict[Series, int] = {}

    def number(self, series: Series) -> int:
        """The number of a series; FOREIGN for one of another program."""
        number = self._numbers.get(series)
        if number is None:
            number = FOREIGN
            if meaning(series.name) is not None:
                number = len(self.series)
                self.series.append(series)
            self._numbers[series] = number
        return number

    def __len__(self) -> int:
        return len(self._numbers)


@dataclass(slots=True)
class _Pending:
    """Scrapes of one layout whose rows are not built yet."""

    layout: Layout
    inputs: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    values: list[Values] = field(default_factory=list)


class RowBuilder:
    """Takes scrapes as numbers of series and values, gives rows to the sink."""

    def __init__(self, sink: BatchSink, naming: ServerNaming) -> None:
        self._sink = sink
        self._naming = naming
        self._layouts: dict[tuple[bytes, bool, bool], Layout] = {}
        self._pending: dict[tuple[int, str | None], _Pending] = {}
        self._held = 0

    def add(
        self,
        numbering: Numbering,
        position: int,
        offset: int | None,
        time: int,
        codes: Codes,
        values: Values,
        *,
        server: str | None = None,
        cut: bool = False,
        torn: bool = False,
    ) -> bool:
        """Take one scrape at ``time`` (unix microseconds) of the input at ``position``; False if it says nothing.

        ``server`` is where the input says it was scraped from; for the flags see ``plan``.
        """
        key = (codes.tobytes(), cut, torn)
        layout = self._layouts.get(key)
        if layout is None:
            layout = self._layouts[key] = plan([numbering.series[code] for code in codes], cut=cut, torn=torn)
        if layout.twice is not None:
            self._sink.reject(position, offset, TWICE_REASON, layout.twice.name)
            return True
        for reason, text in layout.problems:
            self._sink.reject(position, offset, reason, text)
        if not layout.rows and not layout.others:
            return bool(layout.problems)
        pending = self._pending.setdefault((id(layout), server), _Pending(layout))
        pending.inputs.append(position)
        pending.offsets.append(NO_OFFSET if offset is None else offset)
        pending.times.append(time)
        pending.values.append(values)
        self._held += len(values)
        if self._held >= BATCH_VALUES:
            self.flush()
        return True

    def flush(self) -> None:
        """Give all rows to the sink."""
        for (_, server), pending in self._pending.items():
            scrapes = Scrapes(
                np.array(pending.inputs, np.uint32),
                np.array(pending.offsets, np.int64),
                np.array(pending.times, np.int64),
                np.stack(pending.values),
            )
            emit(pending.layout, scrapes, partial(self._naming, server), self._sink)
        self._pending, self._held = {}, 0

    def forget(self) -> None:
        """Give all rows to the sink and forget the layouts, whose numbers are about to change."""
        self.flush()
        self._layouts = {}
