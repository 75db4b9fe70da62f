"""Lines of one form, read all at once.

Two lines have the same form when they differ only in the digits of their numbers. A Program is what the grammar found
in the first line of a form; it walks over the bytes of any number of candidates with NumPy, compares every other byte,
and gives the numbers of the lines that match. What does not match is left to the grammar, so both give the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from .log_records import Marks, Record
from .log_text import Clean, Number

Integers = npt.NDArray[np.int64]
MAX_DIGITS = 15
"""More in one run might not fit into a signed 64-bit integer; such a line is left to the grammar."""
MAX_TEXT = 18
"""A longer number is no figure of any server."""
PADDING = 1 << 17
"""Zero bytes behind a block: no literal is longer than a line with a known form."""

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
        return cls(
            record.kind,
            record.process,
            record.level,
            tuple(record.numbers),
            tuple(
                len(number.text) if name.endswith("fraction") else number.decimals
                for name, number in record.numbers.items()
            ),
            record.marks,
        )


@dataclass(frozen=True, slots=True)
class _Literal:
    """Bytes that must be exactly these."""

    text: bytes


@dataclass(frozen=True, slots=True)
class _Digits:
    """Digits; ``column`` None: of no interest. ``count`` None: as many as there are, else exactly so many."""

    column: int | None
    count: int | None = None


class Program:
    """The steps that read every line of one form."""

    def __init__(
        self,
        steps: Sequence[_Literal | _Digits],
        forms: Sequence[tuple[Form, tuple[int, ...]]],
        open_ended: bool = False,
    ) -> None:
        self._steps = steps
        self.forms = forms
        """Each record of the line: its form, and which columns of the result are its numbers."""
        self.open_ended = open_ended
        """Whether anything may follow the last step."""
        self._columns = 1 + max((column for _, columns in forms for column in columns), default=-1)

    def read(self, data: npt.NDArray[np.uint8], starts: Integers, ends: Integers) -> tuple[Integers, Integers]:
        """The indices of the lines that match, and their numbers (one row a column).

        ``data`` is a block of bytes with PADDING behind it; lines are ``data[start:end]``, without line ends.
        """
        kept = np.arange(len(starts))
        at = starts.copy()
        values = np.zeros((self._columns, len(starts)), dtype=np.int64)
        for step in self._steps:
            if isinstance(step, _Literal):
                good = _equal(data, at, step.text)
                at = at + len(step.text)
            else:
                values_of = values[step.column] if step.column is not None else None
                at, good = _digits(data, at, step.count, values_of)
            if not good.all():
                kept, at, values = kept[good], at[good], values[:, good]
                if not len(kept):
                    break
        done = at <= ends[kept] if self.open_ended else at == ends[kept]
        return (kept, values) if done.all() else (kept[done], values[:, done])


def _equal(data: npt.NDArray[np.uint8], at: Integers, text: bytes) -> npt.NDArray[np.bool_]:
    """Whether the bytes from each position on are this text, compared eight at a time."""
    good = np.ones(len(at), dtype=np.bool_)
    words = np.ndarray((len(data) - 7,), dtype="<u8", buffer=data, strides=(1,))
    offset = 0
    while offset + 8 <= len(text):
        good &= words[at + offset] == np.uint64(int.from_bytes(text[offset : offset + 8], "little"))
        offset += 8
    if offset < len(text):
        rest = text[offset:]
        mask = np.uint64((1 << 8 * len(rest)) - 1)
        good &= (words[at + offset] & mask) == np.uint64(int.from_bytes(rest, "little"))
    return good


def _digits(
    data: npt.NDArray[np.uint8], at: Integers, count: int | None, values: Integers | None
) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """Reads digits behind those already in ``values``; gives the positions after them and whether there were any."""
    if count is not None:
        good = np.ones(len(at), dtype=np.bool_)
        for offset in range(count):
            digit = data[at + offset] - np.uint8(48)
            good &= digit < 10
            if values is not None:
                values *= 10
                values += digit
        return at + count, good
    position = at
    for length in range(MAX_DIGITS + 1):
        digit = data[position] - np.uint8(48)
        more = digit < 10
        if length == 0:
            good = more
        elif not more.any():
            return position, good
        elif length == MAX_DIGITS:
            good = good & ~more
        if values is not None:
            np.copyto(values, values * 10 + digit, where=more)
        position = position + more
    return position, good


def program_of(line: bytes, found: Clean, records: Sequence[Record], upto: str = "") -> Program | None:
    """The program for lines like this one; None where a number is not in one piece in the bytes.

    With ``upto``, the lines need only be alike up to these opening words of the last message.
    """
    fields: list[tuple[int, int, int, str]] = []
    forms = []
    for record in records:
        columns = []
        for name, number in record.numbers.items():
            if number.span is None or len(number.text) > MAX_DIGITS:
                return None
            column = next((field[2] for field in fields if field[:2] == number.span), None)
            if column is None:
                column = len(fields)
                fields.append((*number.span, column, name))
            columns.append(column)
        forms.append((Form.of(record), tuple(columns)))
    messages = [span for record in records if (span := _raw_span(found, record)) is not None]
    end = len(line)
    if upto:
        if found.at is None:
            return None
        end = found.at[records[-1].span[0] + len(upto)]
        messages = []
    steps: list[_Literal | _Digits] = []
    position = 0
    for start, stop, column, name in sorted(fields):
        if start < position:
            return None
        steps += _between(line, position, start, messages)
        steps += _number(line[start:stop], column, name)
        position = stop
    steps += _between(line, position, end, messages)
    return Program(_joined(steps), forms, open_ended=bool(upto))


def _raw_span(found: Clean, record: Record) -> tuple[int, int] | None:
    """Where a message is in the bytes; None where something was taken out of it, so that no digit of it may differ."""
    if found.at is None:
        return None
    start, end = found.at[record.span[0]], found.at[record.span[1]]
    return (start, end) if end - start == record.span[1] - record.span[0] else None


def _number(text: bytes, column: int, name: str) -> list[_Literal | _Digits]:
    if name.removeprefix("outer_") in _FIXED:
        return [_Digits(column, len(text))]
    _, point, rest = text.partition(b".")
    steps: list[_Literal | _Digits] = [_Digits(column)]
    return [*steps, _Literal(point), _Digits(column, len(rest))] if point else steps


def _between(line: bytes, start: int, end: int, messages: Sequence[tuple[int, int]]) -> list[_Literal | _Digits]:
    """Steps over bytes that are no field: digits inside a message may differ, digits around it may not."""
    steps: list[_Literal | _Digits] = []
    position = start
    while position < end:
        digits = line[position : position + 1].isdigit() and any(a <= position < b for a, b in messages)
        stop = position + 1
        if digits:
            while stop < end and line[stop : stop + 1].isdigit():
                stop += 1
            steps.append(_Digits(None))
        else:
            steps.append(_Literal(line[position:stop]))
        position = stop
    return steps


def _joined(steps: Sequence[_Literal | _Digits]) -> list[_Literal | _Digits]:
    joined: list[_Literal | _Digits] = []
    for step in steps:
        last = joined[-1] if joined else None
        if isinstance(step, _Literal) and isinstance(last, _Literal):
            joined[-1] = replace(last, text=last.text + step.text)
        else:
            joined.append(step)
    return joined


def values_of(numbers: Sequence[Number]) -> list[int] | None:
    """The numbers of one record as integers, decimals included; None where one is too long."""
    if any(len(number.text) > MAX_TEXT for number in numbers):
        return None
    return [number.scaled for number in numbers]
