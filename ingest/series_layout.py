"""How the series of one scrape make up rows: worked out once for each set of series, used for every scrape with it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ..schemas.vllm_metrics import (
    ENGINE_LABEL,
    INSTANCE_LABEL,
    JOB_LABEL,
    METRICS,
    MODEL_LABEL,
    REPLICA_LABELS,
    Metric,
)
from .exposition_line import Series
from .metric_names import Meaning, meaning

V0_REASON = (
    "these speculative counters are of the V0 engine, where they are sums of running totals and also count tokens "
    "after the first rejection, so no rate follows from them: ingest the server's log instead"
)

MAX_ROWS = 1_024
"""Engines, models and servers in one scrape; more is damage or malice."""

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Scalar:
    """A column that is one series."""

    at: int


@dataclass(frozen=True, slots=True)
class Listed:
    """A column that is a list, one series a position."""

    at: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Mapped:
    """A column that is a map, one series a key."""

    keys: tuple[str, ...]
    at: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Histogram:
    """A column that is a histogram: one series an edge (+Inf last), sum and count where they are exposed."""

    le: tuple[float, ...]
    at: tuple[int, ...]
    sum_at: int | None
    count_at: int | None


@dataclass(slots=True)
class RowPlan:
    """One row of ``snapshots`` that every scrape of a layout gives."""

    target: Labels
    """Labels beyond engine and model: what a Prometheus server or a wrapper added."""
    engine: int
    model: str | None
    columns: dict[str, Scalar | Listed | Mapped | Histogram] = field(default_factory=dict)
    facts: dict[str, int] = field(default_factory=dict)
    """Columns whose value is in a label of a configuration metric."""
    start_at: int | None = None
    births_at: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Place:
    """Which row a series belongs to, as far as its labels say."""

    target: Labels
    engine: str | None
    model: str | None


@dataclass
class Layout:
    """The rows that a set of series makes, the series no column takes, and what is wrong with the set."""

    series: tuple[Series, ...]
    rows: list[RowPlan]
    others: tuple[int, ...]
    problems: tuple[tuple[str, str], ...]
    """Reason and text of each record that every scrape of this layout has to reject."""
    twice: Series | None
    """A series that is in the set twice: two scrapes run into one."""

    @cached_property
    def names(self) -> dict[Labels, str | None]:
        """What each target calls its server; None where it says nothing and the input's own name holds.

        A name that starts with ``/`` goes behind the input's own name: several replicas answered at one address.
        """
        return _names(list(dict.fromkeys(row.target for row in self.rows)))

    def name_of(self, series: Series) -> str | None:
        """What a series that no column takes calls its server: as the rows whose labels it shares."""
        own = dict(series.labels)
        alike = [name for target, name in self.names.items() if all(own.get(key) == value for key, value in target)]
        return alike[0] if alike else _own_name(own)


def plan(series: Sequence[Series], *, cut: bool = False, torn: bool = False, apart: bool = False) -> Layout:
    """The layout of a scrape with these series, in the order in which they stand.

    ``cut``: the end of the scrape is missing, so the earliest birth time cannot be told. ``torn``: it was cut behind
    the last of these series, so a list, map or histogram that this series is part of may lack elements. ``apart``: the
    buckets, sum and count of a histogram may come from different inputs.
    """
    return _Planner(tuple(series), cut, torn, apart).layout()


def ends_open(series: Sequence[Series]) -> bool:
    """Whether the last series is part of a histogram of which more must follow."""
    if not series:
        return False
    name, _, part = series[-1].name.rpartition("_")
    if part == "bucket":
        return True
    other = {"count": "sum", "sum": "count"}.get(part)
    what = meaning(series[-1].name)
    return (
        other is not None
        and what is not None
        and what.part in {"count", "sum"}
        and not any(one.name == f"{name}_{other}" and one.labels == series[-1].labels for one in series)
    )


class _Planner:
    def __init__(self, series: tuple[Series, ...], cut: bool, torn: bool, apart: bool) -> None:
        self.series = series
        self.cut = cut
        self.apart = apart
        self.labels = [dict(one.labels) for one in series]
        self.meanings = [meaning(one.name) or Meaning("unknown") for one in series]
        self.others: list[int] = []
        self.problems: list[tuple[str, str]] = []
        self.torn_column = self._column_of_last() if torn else None
        self.v0_signs = [at for at, what in enumerate(self.meanings) if what.v0_sign]
        self.starts = [at for at, what in enumerate(self.meanings) if what.part == "start"]
        self.by_engine: dict[str, dict[str | None, list[int]]] = {"birth": {}, "info": {}}
        for at, what in enumerate(self.meanings):
            if what.part in self.by_engine:
                self.by_engine[what.part].setdefault(self.labels[at].get(ENGINE_LABEL), []).append(at)

    def layout(self) -> Layout:
        rows = [self._row(place, members) for place, members in self._groups().items()]
        self.others.extend(at for at, what in enumerate(self.meanings) if what.part == "unknown")
        return Layout(
            self.series,
            sorted((row for row in rows if row.columns), key=lambda row: (row.target, row.engine, row.model or "")),
            tuple(sorted(self.others)),
            tuple(self.problems),
            self._twice(),
        )

    def _column_of_last(self) -> str | None:
        last = self.meanings[-1] if self.meanings else None
        if last and last.metrics and (last.metrics[0].index or last.metrics[0].kind == "histogram"):
            return last.metrics[0].column
        return None

    def _twice(self) -> Series | None:
        seen: set[Series] = set()
        for one, what in zip(self.series, self.meanings, strict=True):
            if what.part != "unknown" and one in seen:
                return one
            seen.add(one)
        return None

    def _groups(self) -> dict[_Place, list[int]]:
        """The series that fill columns, by the row they belong to."""
        groups: dict[_Place, list[int]] = {}
        for at, what in enumerate(self.meanings):
            if what.part in {"value", "bucket", "sum", "count"}:
                groups.setdefault(self._place(at, what.metrics[0]), []).append(at)
        if len(groups) > MAX_ROWS:
            self.problems.append((f"the scrape has more than {MAX_ROWS} engines and models and was not read", ""))
            return {}
        alike: dict[tuple[str | None, str | None], list[_Place]] = {}
        for place in groups:
            alike.setdefault((place.engine, place.model), []).append(place)
        for places in alike.values():
            for place in places:
                if any(_splits(place, other) for other in places):
                    self.others.extend(groups.pop(place))  # a label no column knows splits what should be one series
        for place in [place for place in groups if place.engine is None or place.model is None]:
            full = [other for other in groups if other != place and _covers(other, place)]
            if len(full) == 1:
                groups[full[0]].extend(groups.pop(place))
            elif full:
                self.others.extend(groups.pop(place))  # a sum over engines or models belongs to no single row
        return groups

    def _place(self, at: int, metric: Metric) -> _Place:
        labels = self.labels[at]
        inner = {ENGINE_LABEL, MODEL_LABEL, "le" if metric.kind == "histogram" else metric.index}
        target = tuple(item for item in self.series[at].labels if item[0] not in inner)
        return _Place(target, labels.get(ENGINE_LABEL), labels.get(MODEL_LABEL))

    def _row(self, place: _Place, members: list[int]) -> RowPlan:
        engine = _engine_number(place.engine)
        if engine is None:
            self.problems.append(
                (f"the engine label {place.engine!r} is no number, so these series belong to no engine", _shown(place))
            )
            return RowPlan(place.target, 0, place.model)
        row = RowPlan(place.target, engine, place.model)
        for metric in METRICS:
            candidates: dict[tuple[int, ...], list[int]] = {}
            for at in members:
                what = self.meanings[at]
                if what.metrics[0] is metric:
                    candidates.setdefault(what.rank, []).append(at)
            column = self._column(metric, candidates)
            if column is not None and metric.column != self.torn_column:
                row.columns[metric.column] = column
        self._refuse_v0(row, place)
        self._add_facts(row, place, wrapped=all(self.meanings[at].wrapped for at in members))
        return row

    def _column(
        self, metric: Metric, candidates: dict[tuple[int, ...], list[int]]
    ) -> Scalar | Listed | Mapped | Histogram | None:
        """The column of the newest name that is complete."""
        failures = []
        for rank in sorted(candidates, reverse=True):
            members = candidates[rank]
            try:
                if metric.kind == "histogram":
                    return self._histogram(members)
                if metric.index == "position":
                    return self._listed(members)
                if metric.index is not None:
                    return self._mapped(members, metric.index)
                return Scalar(members[0])
            except _Incomplete as why:
                failures.append((str(why), self.series[members[0]].name))
        if failures and metric.column != self.torn_column:
            self.problems.append(failures[0])
        return None

    def _histogram(self, members: list[int]) -> Histogram:
        edges: dict[float, int] = {}
        ends: dict[str, int] = {}
        for at in members:
            part = self.meanings[at].part
            if part == "bucket":
                edge = _edge(self.labels[at].get("le"))
                if edge in edges:
                    raise _Incomplete(f"the histogram has the edge {edge} twice and cannot be read")
                edges[edge] = at
            else:
                ends[part] = at
        le = tuple(sorted(edges))
        if le and le[-1] != math.inf:
            raise _Incomplete("the histogram has no +Inf bucket, so part of it is missing")
        if not le and "count" not in ends and not self.apart:
            raise _Incomplete("the histogram has neither buckets nor a count, so part of it is missing")
        return Histogram(le, tuple(edges[edge] for edge in le), ends.get("sum"), ends.get("count"))

    def _listed(self, members: list[int]) -> Listed:
        positions = {self.labels[at].get("position", ""): at for at in members}
        wanted = [str(position) for position in range(len(positions))]
        if set(positions) != set(wanted):
            raise _Incomplete("the positions are not 0, 1, 2, … without a gap, so part of them is missing")
        return Listed(tuple(positions[position] for position in wanted))

    def _mapped(self, members: list[int], index: str) -> Mapped:
        keyed = {self.labels[at].get(index, ""): at for at in members}
        keys = tuple(sorted(keyed))
        return Mapped(keys, tuple(keyed[key] for key in keys))

    def _refuse_v0(self, row: RowPlan, place: _Place) -> None:
        counters = row.columns.keys() & {"drafted", "accepted"}
        signs = any(self._touches(at, place) for at in self.v0_signs)
        # V0 has neither an engine label nor a counter of rounds.
        if counters and (signs or (place.engine is None and "rounds" not in row.columns)):
            for column in counters:
                del row.columns[column]
            self.problems.append((V0_REASON, "spec_decode_num_draft_tokens_total"))

    def _add_facts(self, row: RowPlan, place: _Place, *, wrapped: bool) -> None:
        # Behind a wrapper the start is that of the wrapper's own process.
        starts = [] if wrapped else [at for at in self.starts if self._touches(at, place)]
        row.start_at = starts[0] if starts else None
        births = [at for at in self.by_engine["birth"].get(place.engine, ()) if self._touches(at, place)]
        row.births_at = () if self.cut else tuple(births)
        for engine in dict.fromkeys((place.engine, None)):
            for at in self.by_engine["info"].get(engine, ()):
                for metric in self.meanings[at].metrics if self._touches(at, place) else ():
                    value = _info(self.labels[at], metric.info_labels)
                    if value is not None:
                        row.facts.setdefault(metric.column, value)

    def _touches(self, at: int, place: _Place) -> bool:
        """Whether no label of the series speaks against the row."""
        labels = self.labels[at]
        wanted = [*place.target, (ENGINE_LABEL, place.engine), (MODEL_LABEL, place.model)]
        return all(value is None or labels.get(name, value) == value for name, value in wanted)


class _Incomplete(ValueError):
    """A part of a column's value is missing or does not fit."""


def _names(targets: list[Labels]) -> dict[Labels, str | None]:
    """The names of targets, told apart by their jobs, else by all labels in which they differ."""
    names = {target: _own_name(dict(target)) for target in targets}
    for wider in (JOB_LABEL, None):
        counts = Counter(names.values())
        shared = [target for target in targets if counts[names[target]] > 1]
        for target in shared:
            labels, own = dict(target), names[target]
            others = [other for other in shared if other != target and names[other] == own]
            if wider is None and others:
                apart = [f"{key}={value}" for key, value in target if any((key, value) not in one for one in others)]
                names[target] = "/".join([own or "", *apart])
            elif wider in labels:
                names[target] = f"/{labels[wider]}" if own is None else f"{labels[wider]}/{own.lstrip('/')}"
    return names


def _own_name(labels: dict[str, str]) -> str | None:
    if labels.get(INSTANCE_LABEL):
        return labels[INSTANCE_LABEL]
    for label in REPLICA_LABELS:
        if labels.get(label):
            return f"/{labels[label]}"
    return None


def _splits(place: _Place, other: _Place) -> bool:
    return len(place.target) > len(other.target) and set(place.target) > set(other.target)


def _covers(full: _Place, partial: _Place) -> bool:
    """Whether the labels that ``partial`` lacks are given by ``full`` and the rest agree."""
    return (
        full.target == partial.target
        and (partial.engine is None or partial.engine == full.engine)
        and (partial.model is None or partial.model == full.model)
    )


def _engine_number(label: str | None) -> int | None:
    if label is None or label == "":
        return 0
    return int(label) if label.isascii() and label.isdecimal() and len(label) < 10 else None


def _edge(text: str | None) -> float:
    try:
        edge = float(text or "")
    except ValueError:
        edge = math.nan
    if math.isnan(edge):
        raise _Incomplete(f"the bucket edge {text!r} is no number")
    return edge


def _info(labels: dict[str, str], wanted: Iterable[str | tuple[str, ...]]) -> int | None:
    for names in wanted:
        factors = [labels.get(name, "") for name in ((names,) if isinstance(names, str) else names)]
        if all(factor.isascii() and factor.isdecimal() and len(factor) < 16 for factor in factors):
            value = math.prod(int(factor) for factor in factors)
            if 0 < value < 2**53:
                return value
    return None


def _shown(place: _Place) -> str:
    return ", ".join(f"{name}={value}" for name, value in (*place.target, ("model_name", place.model)) if value)
