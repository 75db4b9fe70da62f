"""Samples that come series by series, as a Prometheus server gives them, put back together into scrapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ..schemas.vllm_metrics import INSTANCE_LABEL, JOB_LABEL
from .exposition_line import Series
from .reader import BatchSink, InputContext
from .series_rows import FOREIGN, Codes, Numbering, RowBuilder, Values
from .snapshot_frames import server_name

HELD_POINTS = 1 << 23
"""Samples held before rows are built from them (about 200 MiB)."""

Times = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Target:
    """What a Prometheus server scrapes: the samples it takes from one target at a time are one scrape."""

    deployment: str
    default: str
    """Server name where the labels give none."""
    instance: str | None
    job: str | None


@dataclass(slots=True)
class _Points:
    positions: list[Codes] = field(default_factory=list)
    codes: list[Codes] = field(default_factory=list)
    times: list[Times] = field(default_factory=list)
    values: list[Values] = field(default_factory=list)


class PointCollector:
    """Collects samples of any number of series and inputs, and gives their rows to the sink."""

    def __init__(self, sink: BatchSink, contexts: Sequence[InputContext]) -> None:
        self._sink = sink
        self._contexts = contexts
        self._numbering = Numbering()
        self._points: dict[Target, _Points] = {}
        self._targets: dict[Target, None] = {}
        self._held = 0

    def expect(self, position: int, labels: dict[str, str]) -> Target:
        """The target of a series; known targets decide how servers are named."""
        context = self._contexts[position]
        target = Target(context.deployment, context.instance, labels.get(INSTANCE_LABEL), labels.get(JOB_LABEL))
        self._targets[target] = None
        return target

    def add(self, position: int, series: Series, times: Times, values: Values) -> bool:
        """Take the samples of a series (unix microseconds); False for a series of another program.

        NaN is what a server says of a series that it did not see: no sample.
        """
        code = self._numbering.number(series)
        if code == FOREIGN:
            return False
        there = ~np.isnan(values)
        if not there.all():
            times, values = times[there], values[there]
        points = self._points.setdefault(self.expect(position, dict(series.labels)), _Points())
        points.positions.append(np.full(len(times), position, np.int32))
        points.codes.append(np.full(len(times), code, np.int32))
        points.times.append(times)
        points.values.append(values)
        self._held += len(times)
        return True

    def relieve(self) -> None:
        """Flush if many samples are held; only where no list or histogram is half told."""
        if self._held > HELD_POINTS:
            self.flush()

    def flush(self) -> None:
        """Give the rows of everything collected to the sink."""
        for target, points in self._points.items():
            self._emit(target, points)
        self._points, self._held = {}, 0

    def _emit(self, target: Target, points: _Points) -> None:
        times = np.concatenate(points.times)
        codes = np.concatenate(points.codes)
        order = np.lexsort((codes, times))
        times, codes = times[order], codes[order]
        # What several inputs say of one series at one time is one sample; the first input counts.
        first = np.ones(len(times), np.bool_)
        first[1:] = (times[1:] != times[:-1]) | (codes[1:] != codes[:-1])
        order, times, codes = order[first], times[first], codes[first]
        values = np.concatenate(points.values)[order]
        positions = np.concatenate(points.positions)[order]
        rows = RowBuilder(
            self._numbering,
            self._sink,
            lambda _, position, name, alone: self._name(target, position, name),
            apart=True,
        )
        starts = np.flatnonzero(np.concatenate([[True], times[1:] != times[:-1]])) if len(times) else times
        for start, end in pairwise([*starts, len(times)]):
            position = int(positions[start:end].min())
            rows.add(position, None, int(times[start]), codes[start:end], values[start:end])
        rows.flush()

    def _name(self, target: Target, position: int, name: str | None) -> str:
        """The server of a row; ``name`` is what the labels of the row say."""
        if target.instance is None:
            return server_name(self._contexts[position], name, alone=False)
        here = [one for one in self._targets if one.deployment == target.deployment]
        if self._contexts[position].instance_given and len(here) == 1:
            base = self._contexts[position].instance
        elif target.job and any(one.instance == target.instance and one.job != target.job for one in here):
            base = f"{target.job}/{target.instance}"
        else:
            base = target.instance
        return base + (name or "").removeprefix(target.instance)
