"""Lines of one form, read all at once.

Two lines have the same form when they differ only in the digits of their numbers. A Program is what the grammar found
in the first line of a form; it walks over the bytes of any number of candidates with NumPy, compares every other byte,
and gives the numbers of the lines that match. What does not match is left to the grammar, so both give the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .log_records import Marks, Record
from .log_text import Clean, Number

Integers = npt.NDArray[np.int64]
MAX_DIGITS = 7
"""A line with a longer number is left to the grammar."""
MAX_TEXT = 18
"""A longer number is no figure of any server."""

_LONGEST_STRETCH = 248
"""Bytes gathered at once: enough for every prefix, little enough for the cache."""
_AT_ONCE = 8_192
"""Lines walked over together: enough to repay the array operations, few enough to stay in the cache."""
_WORD = 8
_ZERO = np.uint8(ord("0"))
_ZEROS, _ABOVE, _TOPS = np.uint64(0x3030303030303030), np.uint64(0x7676767676767676), np.uint64(0x8080808080808080)
"""Eight digits zero; what added to a byte sets its top bit if it is above 9; the top bits."""

_FIXED = frozenset({"year", "month", "day", "hour", "minute", "second", "fraction", "zone_hour", "zone_minute"})


@dataclass(frozen=True, slots=True)
class Form:
    """What all records of one form have in common: everything but the values of their numbers."""

    kind: str
    process: str | None
    level: str | None
    names: tuple[str, ...]
    decimals: tuple[int, ...]
    marks: Marks

    @classmethod
    def of(cls, record: Record) -> Form:
        """The form of a record that has been read."""
        names = tuple(record.numbers)
        decimals = tuple(
            len(number.text) if name.endswith("fraction") else number.decimals
            for name, number in record.numbers.items()
        )
        if record.kind == "request":  # its parameters, numbered by whoever reads it
            names, decimals = (*names, "parameters"), (*decimals, 0)
        return cls(record.kind, record.process, record.level, names, decimals, record.marks)


@dataclass(frozen=True, slots=True)
class _Literal:
    """Bytes that must be exactly these."""

    text: bytes


@dataclass(frozen=True, slots=True)
class _Digits:
    """Digits; ``column`` None: of no interest. ``count`` None: as many as there are, else exactly so many."""

    column: int | None
    count: int | None = None


_Step = _Literal | _Digits


class _Stretch:
    """Steps over a known number of bytes, compared and read together."""

    def __init__(self, steps: Sequence[_Step]) -> None:
        literal, mask = bytearray(), bytearray()
        self._digits: list[tuple[int, int | None]] = []
        for step in steps:
            if isinstance(step, _Literal):
                literal += step.text
                mask += b"\xff" * len(step.text)
            else:
                self._digits += [(len(literal) + place, step.column) for place in range(step.count or 0)]
                literal += bytes(step.count or 0)
                mask += bytes(step.count or 0)
        self.length = len(literal)
        self._size = -(-self.length // _WORD) * _WORD
        pad = bytes(self._size - self.length)
        self._words = list(
            zip(np.frombuffer(literal + pad, dtype="<u8"), np.frombuffer(mask + pad, dtype="<u8"), strict=True)
        )

    def read(self, data: npt.NDArray[np.uint8], at: Integers, values: Integers) -> npt.NDArray[np.bool_]:
        """Whether the bytes at each position match; adds their digits to ``values``."""
        shape = (len(data) - self._size,)
        window = np.ndarray(shape, dtype=f"V{self._size}", buffer=data, strides=(1,))[at]
        words = window.view("<u8").reshape(len(at), -1)
        difference = np.zeros(len(at), dtype=np.uint64)
        for place, (word, mask) in enumerate(self._words):
            if mask:
                difference |= (words[:, place] & mask) ^ word
        good: npt.NDArray[np.bool_] = difference == 0
        found = window.view(np.uint8).reshape(len(at), -1)
        for place, column in self._digits:
            digit = found[:, place] - _ZERO
            good &= digit < 10
            if column is not None:
                values[column] *= 10
                values[column] += digit
        return good


class Program:
    """The steps that read every line of one form."""

    def __init__(
        self, steps: Sequence[_Step], forms: Sequence[tuple[Form, tuple[int | None, ...]]], open_ended: bool = False
    ) -> None:
        self._steps = _together(steps)
        self.forms = forms
        """Each record of the line: its form, and which columns of the result are its numbers (None: none is)."""
        self.open_ended = open_ended
        """Whether anything may follow the last step."""
        self._columns = 1 + max(
            (column for _, columns in forms for column in columns if column is not None), default=-1
        )

    def read(self, data: npt.NDArray[np.uint8], starts: Integers, ends: Integers) -> tuple[Integers, Integers]:
        """The indices of the lines that match, and their numbers (one row a column).

        Lines are ``data[start:end]``, without line ends; behind the last one there must be PADDING bytes.
        """
        pieces = [
            self._read_some(data, starts[first : first + _AT_ONCE], ends[first : first + _AT_ONCE], first)
            for first in range(0, len(starts), _AT_ONCE)
        ]
        if len(pieces) == 1:
            return pieces[0]
        kept = [np.empty(0, dtype=np.int64), *(rows for rows, _ in pieces)]
        values = [np.empty((self._columns, 0), dtype=np.int64), *(numbers for _, numbers in pieces)]
        return np.concatenate(kept), np.concatenate(values, axis=1)

    def _read_some(
        self, data: npt.NDArray[np.uint8], starts: Integers, ends: Integers, first: int
    ) -> tuple[Integers, Integers]:
        """The same for a part of the lines; the indices count from ``first``."""
        kept = np.arange(len(starts))
        at = starts
        values = np.zeros((self._columns, len(starts)), dtype=np.int64)
        for step in self._steps:
            if isinstance(step, _Stretch):
                good = step.read(data, at, values)
                at = at + step.length
            else:
                at, good = _run(data, at, values[step.column] if step.column is not None else None)
            if not good.all():
                kept, at, values = kept[good], at[good], values[:, good]
                if not len(kept):
                    break
        done = at <= ends[kept] if self.open_ended else at == ends[kept]
        return (kept + first, values) if done.all() else (kept[done] + first, values[:, done])


def _run(data: npt.NDArray[np.uint8], at: Integers, values: Integers | None) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """Reads all digits at each position into ``values``; gives the positions after them, and where there were some.

    Eight bytes are handled as one integer, the first one lowest: bytes above 9 mark the end of the digits, which are
    shifted to the top and then added up in pairs, fours and eights.
    """
    window = np.ndarray((len(data) - _WORD,), dtype=f"V{_WORD}", buffer=data, strides=(1,))[at]
    word = window.view("<u8") ^ _ZEROS
    beyond = ((word + _ABOVE) | word) & _TOPS
    count = np.bitwise_count((beyond & -beyond) - np.uint64(1)) >> 3
    good: npt.NDArray[np.bool_] = (count > 0) & (count < _WORD)
    if values is not None:
        word <<= np.uint64(64) - (count.astype(np.uint64) << np.uint64(3))
        word = (word * np.uint64(10) + (word >> np.uint64(8))) & np.uint64(0x00FF00FF00FF00FF)
        word = (word * np.uint64(100) + (word >> np.uint64(16))) & np.uint64(0x0000FFFF0000FFFF)
        word = (word * np.uint64(10_000) + (word >> np.uint64(32))) & np.uint64(0xFFFFFFFF)
        values[:] = word
    return at + count, good


def _together(steps: Sequence[_Step]) -> list[_Stretch | _Digits]:
    """Steps of known length joined, up to LONGEST_STRETCH bytes."""
    joined: list[_Stretch | _Digits] = []
    waiting: list[_Step] = []
    length = 0
    for step in steps:
        endless = isinstance(step, _Digits) and step.count is None
        size = len(step.text) if isinstance(step, _Literal) else step.count or 0
        if waiting and (endless or length + size > _LONGEST_STRETCH):
            joined.append(_Stretch(waiting))
            waiting, length = [], 0
        if isinstance(step, _Digits) and endless:
            joined.append(step)
        else:
            waiting.append(step)
            length += size
    return [*joined, _Stretch(waiting)] if waiting else joined


def program_of(line: bytes, found: Clean, records: Sequence[Record], upto: str = "") -> Program | None:
    """The program for lines like this one; None where a number is not in one piece in the bytes.

    With ``upto``, the lines need only be alike up to these opening words of the last message.
    """
    fields: list[tuple[int, int, int, str]] = []
    forms = []
    for record in records:
        columns: list[int | None] = []
        for name, number in record.numbers.items():
            if number.span is None or (not _has_fixed_length(name) and len(number.text.partition(".")[0]) > MAX_DIGITS):
                return None
            column = next((field[2] for field in fields if field[:2] == number.span), None)
            if column is None:
                column = len(fields)
                fields.append((*number.span, column, name))
            columns.append(column)
        if record.kind == "request":
            columns.append(None)
        forms.append((Form.of(record), tuple(columns)))
    messages = [span for record in records if (span := _raw_span(found, record)) is not None]
    end = len(line)
    if upto:
        if found.at is None:
            return None
        end = found.at[records[-1].span[0] + len(upto)]
        messages = []
    steps: list[_Step] = []
    position = 0
    for start, stop, column, name in sorted(fields):
        if start < position:
            return None
        steps += _between(line, position, start, messages)
        steps += _number(line[start:stop], column, name)
        position = stop
    steps += _between(line, position, end, messages)
    return Program(steps, forms, open_ended=bool(upto))


def _raw_span(found: Clean, record: Record) -> tuple[int, int] | None:
    """Where a message is in the bytes; None where something was taken out of it, so that no digit of it may differ."""
    if found.at is None:
        return None
    start, end = found.at[record.span[0]], found.at[record.span[1]]
    return (start, end) if end - start == record.span[1] - record.span[0] else None


def _has_fixed_length(name: str) -> bool:
    return name.removeprefix("outer_") in _FIXED


def _number(text: bytes, column: int, name: str) -> list[_Step]:
    if _has_fixed_length(name):
        return [_Digits(column, len(text))]
    _, point, rest = text.partition(b".")
    steps: list[_Step] = [_Digits(column)]
    return [*steps, _Literal(point), _Digits(column, len(rest))] if point else steps


def _between(line: bytes, start: int, end: int, messages: Sequence[tuple[int, int]]) -> list[_Step]:
    """Steps over bytes that are no field: digits inside a message may differ, digits around it may not."""
    steps: list[_Step] = []
    position = start
    while position < end:
        digits = line[position : position + 1].isdigit() and any(a <= position < b for a, b in messages)
        stop = position + 1
        if digits:
            while stop < end and line[stop : stop + 1].isdigit():
                stop += 1
            steps.append(_Digits(None))
        else:
            while stop < end and stop - position < _LONGEST_STRETCH and not line[stop : stop + 1].isdigit():
                stop += 1
            steps.append(_Literal(line[position:stop]))
        position = stop
    return steps


def values_of(numbers: Sequence[Number]) -> list[int] | None:
    """The numbers of one record as integers, decimals included; None where one is too long."""
    if any(len(number.text) > MAX_TEXT for number in numbers):
        return None
    return [number.scaled for number in numbers]
