"""Records of several forms as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from .log_messages import Message
from .log_program import Form, Integers

Floats = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]

MISSING = -1
"""A whole number that a record does not have; no figure of a log is negative."""


@dataclass
class Group:
    """Records of one form: one row of ``values`` a number, one column a record."""

    form: Form
    values: Integers
    offsets: Integers
    """Byte at which the line of each record starts."""
    places: Integers
    """Which record of its line each one is."""
    messages: Sequence[Message] = ()
    """For text records, what each one says."""
    instants: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Microseconds since the epoch, once they are known."""

    def __len__(self) -> int:
        return len(self.offsets)

    def take(self, rows: Integers) -> Group:
        """Some of the records."""
        return Group(
            self.form,
            self.values[:, rows],
            self.offsets[rows],
            self.places[rows],
            [self.messages[row] for row in rows.tolist()] if self.messages else (),
            self.instants[rows] if len(self.instants) else self.instants,
        )

    def parts(self, prefix: str = "") -> dict[str, Integers]:
        """The numbers by name, those with a prefix without it."""
        return {name: self.values[row] for row, name in enumerate(self.form.names) if name.startswith(prefix)}


class Records:
    """The records of some groups in the order of the log, column by column."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self._groups = [group for group in groups if len(group)]
        offsets = _joined([group.offsets for group in self._groups])
        places = _joined([group.places for group in self._groups])
        self._order = np.lexsort((places, offsets))
        self.offsets: Integers = offsets[self._order]
        self.places: Integers = places[self._order]

    def __len__(self) -> int:
        return len(self._order)

    def instants(self) -> Integers:
        return _joined([group.instants for group in self._groups])[self._order]

    def set_instants(self, instants: Integers) -> None:
        """Give each group the instants of its records."""
        unordered = np.empty_like(instants)
        unordered[self._order] = instants
        start = 0
        for group in self._groups:
            group.instants = unordered[start : start + len(group)]
            start += len(group)

    def ordered(self, pieces: Sequence[Any]) -> Any:
        """One array a group, as one in the order of the log."""
        return np.concatenate(pieces)[self._order]

    def integers(self, name: str, missing: int = MISSING) -> Integers:
        """A number as it was found, without its decimal point."""
        pieces = [
            group.values[group.form.names.index(name)]
            if name in group.form.names
            else np.full(len(group), missing, dtype=np.int64)
            for group in self._groups
        ]
        return _joined(pieces)[self._order]

    def floats(self, name: str, *, percent: bool = False) -> Floats:
        """A number, or the ratio that a percentage is; NaN where a record does not have it."""
        pieces = []
        for group in self._groups:
            if name in group.form.names:
                row = group.form.names.index(name)
                # One division, so that 23.2 % is the double nearest to 0.232.
                pieces.append(group.values[row] / 10 ** (group.form.decimals[row] + 2 * percent))
            else:
                pieces.append(np.full(len(group), np.nan))
        return np.concatenate(pieces)[self._order] if pieces else np.empty(0)

    def constants(self, values: Sequence[Any]) -> tuple[Integers, list[Any]]:
        """One value a group: which of the distinct ones each record has, and those."""
        distinct = list(dict.fromkeys(values))
        codes = [np.full(len(group), distinct.index(value)) for group, value in zip(self._groups, values, strict=True)]
        return _joined(codes)[self._order], distinct

    def marks(self, name: str) -> tuple[Integers, list[Any]]:
        """What the words of the records say under a name, as codes and the distinct values (None: nothing)."""
        return self.constants([dict(group.form.marks).get(name) for group in self._groups])

    def processes(self) -> tuple[Integers, list[str | None]]:
        """The process of each record, as codes and the distinct names."""
        return self.constants([group.form.process for group in self._groups])

    def forms(self) -> tuple[Integers, list[Form]]:
        """The form of each record, as codes and the distinct forms."""
        return self.constants([group.form for group in self._groups])

    def positions(self, chosen: Booleans) -> list[tuple[Group, Integers]]:
        """Each group with the rows of it that are chosen."""
        unordered = np.empty(len(self), dtype=np.bool_)
        unordered[self._order] = chosen
        result, start = [], 0
        for group in self._groups:
            result.append((group, np.flatnonzero(unordered[start : start + len(group)])))
            start += len(group)
        return result

    def messages(self) -> list[Message]:
        """What the records say; all of them must be text records."""
        unordered = [message for group in self._groups for message in group.messages]
        return [unordered[position] for position in self._order.tolist()]


@dataclass
class Columns:
    """Columns of a frame; ``frame`` puts null where a number is MISSING or NaN, all at once."""

    values: dict[str, pl.Series | Integers | Floats] = field(default_factory=dict)
    _casts: list[pl.Expr] = field(default_factory=list)

    def whole(self, name: str, values: Integers, dtype: type[pl.DataType] = pl.Int64) -> None:
        """Whole numbers, null where MISSING."""
        self.values[name] = values
        column = pl.col(name)
        self._casts.append(pl.when(column != MISSING).then(column).cast(dtype).alias(name))

    def real(self, name: str, values: Floats) -> None:
        """Numbers, null where NaN."""
        self.values[name] = values
        self._casts.append(pl.col(name).fill_nan(None))

    def moment(self, name: str, values: Integers) -> None:
        """Instants from microseconds since the epoch."""
        self.values[name] = values
        self._casts.append(pl.col(name).cast(pl.Datetime("us")))

    def text(self, name: str, codes: Integers, distinct: Sequence[str | None]) -> None:
        """Texts from codes."""
        self.values[name] = pl.Series(name, distinct, dtype=pl.String).gather(codes)

    def flag(self, name: str, codes: Integers, distinct: Sequence[bool | None]) -> None:
        """Yes and no from codes."""
        self.values[name] = pl.Series(name, distinct, dtype=pl.Boolean).gather(codes)

    def list(self, name: str, values: Floats) -> None:
        """Lists from a matrix; NaN ends a list, and a row of nothing but NaN is null."""
        there = ~np.isnan(values)
        counts = there.sum(axis=1)
        ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        array = pa.LargeListArray.from_arrays(pa.array(ends), pa.array(values[there]), mask=pa.array(counts == 0))
        self.values[name] = pl.Series(name, pl.from_arrow(array))

    def frame(self) -> pl.DataFrame:
        """The columns as a frame."""
        return pl.DataFrame(self.values).with_columns(self._casts)


def _joined(pieces: Sequence[Integers]) -> Integers:
    return np.concatenate(pieces) if pieces else np.empty(0, dtype=np.int64)


def group_as_json(group: Group) -> dict[str, Any]:
    """A group without messages as it is kept from one read to the next."""
    form = group.form
    return {
        "kind": form.kind,
        "process": form.process,
        "level": form.level,
        "names": list(form.names),
        "decimals": list(form.decimals),
        "marks": [list(mark) for mark in form.marks],
        "values": group.values.tolist(),
        "offsets": group.offsets.tolist(),
        "places": group.places.tolist(),
        "instants": group.instants.tolist(),
    }


def group_from_json(kept: Mapping[str, Any]) -> Group:
    """The inverse of ``group_as_json``."""
    form = Form(
        kept["kind"],
        kept["process"],
        kept["level"],
        tuple(kept["names"]),
        tuple(kept["decimals"]),
        tuple((mark[0], mark[1]) for mark in kept["marks"]),
    )
    values = np.array(kept["values"], dtype=np.int64).reshape(len(form.names), -1)
    offsets, places, moments = (np.array(kept[key], dtype=np.int64) for key in ("offsets", "places", "instants"))
    return Group(form, values, offsets, places, (), moments)
