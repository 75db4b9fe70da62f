"""Scrapes on their way to rows: sorted by layout, held back in bounded memory, then built column by column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import numpy.typing as npt

from .exposition_line import Series
from .metric_names import meaning
from .other_rows import NO_OFFSET, OtherRows
from .reader import BatchSink
from .series_layout import Layout, plan
from .snapshot_frames import Scrapes, emit

BATCH_VALUES = 1 << 21
"""Values held back before their rows are built (16 MiB)."""
MAX_LAYOUTS = 1 << 10
"""Sets of series that are remembered: a fleet has some dozens, a label that changes at every scrape makes many."""
MAX_SERIES = 1 << 19
"""Series that are remembered before the memory is emptied."""

FOREIGN = -1
"""In place of a number: a series of another program."""

DIFFUSION_NOTE = (
    "A server ran a diffusion model, which has no rounds and no acceptance length: its own metrics are kept in "
    "other_samples only."
)
TWICE_REASON = "a series is in the scrape twice: put a '# scraped_at' line before each scrape of a file"

Codes = npt.NDArray[np.int32]
Values = npt.NDArray[np.float64]
Positions = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


ServerNaming = Callable[[str | None, int, str | None, bool], str]
"""A Naming that is also told, first, where the input says it was scraped from."""


class Numbering:
    """Every vLLM series seen so far under a number."""

    def __init__(self) -> None:
        self.series: list[Series] = []
        self._numbers: dict[Series, int] = {}
        self._loose: list[bool] = []
        self.diffusion = False
        """Whether a series of a diffusion model was among them."""

    def number(self, series: Series) -> int:
        """The number of a series; FOREIGN for one of another program."""
        number = self._numbers.get(series)
        if number is None:
            number = FOREIGN
            what = meaning(series.name)
            if what is not None:
                number = len(self.series)
                self.series.append(series)
                self._loose.append(what.part == "unknown" and not what.v0_sign)
                self.diffusion = self.diffusion or what.diffusion
            self._numbers[series] = number
        return number

    def loose(self, codes: Codes) -> Flags:
        """Which of the series nothing else depends on: no column takes them, and they say nothing of others."""
        return np.array([self._loose[code] for code in codes], np.bool_)

    def __len__(self) -> int:
        return len(self._numbers)


@dataclass(frozen=True, slots=True)
class _Split:
    """What is to be done with the values of a scrape, by the numbers of its series."""

    layout: Layout
    figures: Positions
    """Where the values are that the layout is about."""
    others: tuple[tuple[str | None, Positions], ...]
    """What each server is called, and where the values are that no column of its rows takes."""


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

    def __init__(self, numbering: Numbering, sink: BatchSink, naming: ServerNaming, *, apart: bool = False) -> None:
        """``apart`` as for ``plan``."""
        self._apart = apart
        self._numbering = numbering
        self._sink = sink
        self._naming = naming
        self._splits: dict[tuple[bytes, bool, bool], _Split] = {}
        self._layouts: dict[tuple[bytes, bool, bool], Layout] = {}
        self._pending: dict[tuple[int, str | None], _Pending] = {}
        self._others = OtherRows()
        self._held = 0

    def add(
        self,
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
        split = self._split(codes, cut, torn)
        layout, place = split.layout, NO_OFFSET if offset is None else offset
        if layout.twice is not None:
            self._sink.reject(position, offset, TWICE_REASON, layout.twice.name)
            return True
        for reason, text in layout.problems:
            self._sink.reject(position, offset, reason, text)
        if layout.rows:
            pending = self._pending.setdefault((id(layout), server), _Pending(layout))
            pending.inputs.append(position)
            pending.offsets.append(place)
            pending.times.append(time)
            pending.values.append(values[split.figures])
        for name, at in split.others:
            instance = self._naming(server, position, name, len(split.others) == 1)
            self._others.add(position, place, time, instance, codes[at], values[at])
        self._held += len(values)
        if self._held >= BATCH_VALUES:
            self.flush()
        return bool(layout.rows or split.others or layout.problems)

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
        self._others.flush(self._numbering.series, self._sink)
        if self._numbering.diffusion:
            self._sink.note(DIFFUSION_NOTE)
        self._pending, self._held = {}, 0
        if len(self._layouts) > MAX_LAYOUTS:
            self._layouts, self._splits = {}, {}

    def renumber(self, numbering: Numbering) -> None:
        """Give all rows to the sink; from now on series have the numbers of another numbering."""
        self.flush()
        self._numbering, self._layouts, self._splits = numbering, {}, {}

    def _split(self, codes: Codes, cut: bool, torn: bool) -> _Split:
        key = (codes.tobytes(), cut, torn)
        split = self._splits.get(key)
        if split is None:
            if len(self._splits) > MAX_LAYOUTS:
                self._splits = {}
            loose = self._numbering.loose(codes)
            figures = np.flatnonzero(~loose)
            layout = self._layout(codes[figures], cut, torn and not loose[-1])
            left = np.sort(np.concatenate([np.flatnonzero(loose), figures[list(layout.others)]])).astype(np.int64)
            split = self._splits[key] = _Split(layout, figures, self._named(layout, codes, left))
        return split

    def _layout(self, codes: Codes, cut: bool, torn: bool) -> Layout:
        key = (codes.tobytes(), cut, torn)
        layout = self._layouts.get(key)
        if layout is None:
            series = [self._numbering.series[code] for code in codes]
            layout = self._layouts[key] = plan(series, cut=cut, torn=torn, apart=self._apart)
        return layout

    def _named(self, layout: Layout, codes: Codes, left: Positions) -> tuple[tuple[str | None, Positions], ...]:
        """The series that no column takes, by what they call their server."""
        names: dict[str | None, list[int]] = {}
        for at in left.tolist():
            names.setdefault(layout.name_of(self._numbering.series[codes[at]]), []).append(at)
        return tuple((name, np.array(some, np.int64)) for name, some in names.items())
