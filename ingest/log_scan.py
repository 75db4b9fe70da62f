"""Finds the records in a block of lines: by form where many lines share one, else one line at a time.

Only lines with a marker are looked at. Those that hold nothing but numeric records, or a ``Received request``, are read
by the Program of their form; the first line of a form, and every other line, is read by the grammar.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl
import pyarrow as pa

from .log_lines import Block, Line
from .log_messages import MARKERS, RECORD, REQUEST, Message, message_of, message_without_header, request_parameters
from .log_program import Form, Integers, Program, program_of, values_of
from .log_records import NUMERIC, TEXT_MESSAGE, Cut, Record, read_numeric, records_of
from .log_table import MISSING, Group
from .log_text import MAPPED_BYTES, NO_TEXT, Clean, clean, readable

_ANY = "|".join([*(re.escape(marker) for marker in MARKERS), NO_TEXT.pattern])
_ASCII = bytes(range(128)) + b"?" * 128
"""What is not ASCII as question marks, where a block is not UTF-8."""
_BY_FORM = (
    r"KV cache usage|SpecDecoding metrics|Speculative metrics|SpecDecodeWorker stage|Iteration\(|Received request"
)
_MOST_PROGRAMS = 64
"""A log with more forms than this at a time is read line by line beyond them."""
FEW = 24
"""So few lines are read faster one by one."""
_CACHED = 4_096
_PARAMETERS, _LENGTH_LIMIT = b"params: SamplingParams(", b", max_tokens="
_NEWLINE = ord("\n")
_REJECT_TEXT = 300


@dataclass
class Reject:
    """A record that can be recognised but not read."""

    offset: int
    reason: str
    text: str


@dataclass
class Harvest:
    """What a block holds."""

    groups: list[Group] = field(default_factory=list)
    bare: list[tuple[int, Message, str | None]] = field(default_factory=list)
    """Messages of lines without a header: offset, message, process."""
    rejects: list[Reject] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)
    """Distinct sampling parameters; the number ``parameters`` of a request is its place here, MISSING without any."""


class _Parameters:
    """Sampling parameters of requests as numbers."""

    def __init__(self) -> None:
        self.distinct: list[str] = []
        self._numbers: dict[str, int] = {}
        self._raw: dict[bytes, int] = {}

    def number(self, text: str) -> int:
        """The number of parameters as JSON; MISSING for none."""
        if not text:
            return MISSING
        number = self._numbers.setdefault(text, len(self.distinct))
        if number == len(self.distinct):
            self.distinct.append(text)
        return number

    def number_in(self, data: bytearray, start: int, end: int) -> int:
        """The number of what a line says; the length limit, which differs from one request to the next, is left out."""
        start = data.rfind(_PARAMETERS, start, end)
        if start < 0:
            return MISSING
        raw = bytes(data[start:end])
        number = self._raw.get(raw)
        if number is None:
            if len(self._raw) >= _CACHED:
                self._raw.clear()
            number = self._raw[raw] = self.number(_parameters(_without_limit(raw)) or "")
        return number


def _without_limit(raw: bytes) -> bytes:
    """Parameters without their length limit; all of them where it is no number."""
    before, name, rest = raw.partition(_LENGTH_LIMIT)
    limit, comma, after = rest.partition(b",")
    return before + comma + after if name and comma and limit.isdigit() else raw


@functools.lru_cache(maxsize=_CACHED)
def _parameters(raw: bytes) -> str | None:
    return request_parameters(raw.decode("latin-1"))


class Scanner:
    """Reads blocks; the programs it learns from one serve the next."""

    def __init__(self) -> None:
        self._programs: list[Program] = []

    def scan(self, block: Block) -> Harvest:
        """All records of the whole lines of a block."""
        lines = _Lines(block)
        singles = Singles()
        remaining, others = lines.of_interest()
        harvest = Harvest()
        used = []
        for program in self._programs:
            before = len(remaining)
            if before:
                remaining = _run(program, lines, remaining, singles, harvest)
            used.append((before - len(remaining), program))
        while len(remaining) >= FEW and len(used) < 2 * _MOST_PROGRAMS:
            line, offset = lines.text(int(remaining[0])), lines.offset(int(remaining[0]))
            remaining = remaining[1:]
            learnt = _program_for(line, *singles.read(line, offset))
            if learnt is not None:
                before = len(remaining)
                remaining = _run(learnt, lines, remaining, singles, harvest)
                used.append((1 + before - len(remaining), learnt))
        used.sort(key=lambda pair: pair[0], reverse=True)
        self._programs = [program for _, program in used[:_MOST_PROGRAMS]]
        for row in [*remaining.tolist(), *others.tolist()]:
            singles.read(lines.text(row), lines.offset(row))
        for joined in block.joined:
            singles.read_joined(joined)
        singles.into(harvest)
        return harvest


def _run(program: Program, lines: _Lines, rows: Integers, singles: Singles, harvest: Harvest) -> Integers:
    """Reads the lines that match and gives those that do not."""
    matched, values = program.read(lines.padded, lines.starts[rows], lines.ends[rows])
    if not len(matched):
        return rows
    hit = rows[matched]
    offsets = lines.starts[hit] + lines.block.offset
    if program.open_ended:
        data, read = lines.block.data, singles.parameters.number_in
        stretches = zip(lines.starts[hit].tolist(), lines.ends[hit].tolist(), strict=True)
        values = np.vstack([values, [read(data, start, end) for start, end in stretches]])
    for place, (form, columns) in enumerate(program.forms):
        # The parameters of a request are no number of the line; they stand behind all that are.
        chosen = [column if column is not None else len(values) - 1 for column in columns]
        harvest.groups.append(Group(form, values[chosen], offsets, np.full(len(hit), place, dtype=np.int64)))
    return np.delete(rows, matched)


def _program_for(line: bytes, found: Clean, records: list[Record]) -> Program | None:
    """The program of a line whose records are all numeric, or that is one request."""
    if len(records) == 1 and records[0].kind == "request":
        return program_of(line, found, records, upto=REQUEST)
    if records and all(record.kind in NUMERIC for record in records):
        return program_of(line, found, records)
    return None


class _Lines:
    """The lines of a block as positions in its bytes."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.padded = np.frombuffer(block.data, dtype=np.uint8)
        self.ends: Integers = np.flatnonzero(self.padded[: block.size] == _NEWLINE)
        self.starts: Integers = np.concatenate([[0], self.ends[:-1] + 1])

    def text(self, row: int) -> bytes:
        return bytes(self.block.data[self.starts[row] : self.ends[row]])

    def offset(self, row: int) -> int:
        return int(self.starts[row]) + self.block.offset

    def of_interest(self) -> tuple[Integers, Integers]:
        """The lines that may be read by form, and the others with a marker."""
        texts = self._texts()
        keep = texts.str.contains(_ANY).to_numpy()
        if self.block.skipped or self.block.pieces:
            keep = keep & (self.starts >= self.block.skipped)
            if self.block.pieces:
                keep = keep & ~np.isin(self.starts, np.fromiter(self.block.pieces, dtype=np.int64))
        rows = np.flatnonzero(keep)
        by_form = texts.gather(rows).str.contains(_BY_FORM).to_numpy()
        by_form = by_form & (self.ends[rows] - self.starts[rows] <= MAPPED_BYTES)
        return rows[by_form], rows[~by_form]

    def _texts(self) -> pl.Series:
        """The lines as texts in which the markers, which are ASCII, can be found; line ends included."""
        offsets = pa.py_buffer(np.concatenate([self.starts, [self.block.size]]))
        try:
            return _strings(self.block.data, offsets)
        except pl.exceptions.ComputeError:
            return _strings(self.block.data.translate(_ASCII), offsets)


def _strings(data: bytearray, offsets: pa.Buffer) -> pl.Series:
    """The stretches of data between offsets as texts, without a copy; ComputeError where they are not UTF-8."""
    array = pa.Array.from_buffers(pa.large_binary(), offsets.size // 8 - 1, [None, offsets, pa.py_buffer(data)])
    return pl.Series(pl.from_arrow(array)).cast(pl.String)


class Singles:
    """Reads records one line at a time and gathers them by form."""

    def __init__(self) -> None:
        self._rows: dict[Form, list[tuple[list[int], int, int, Message | None]]] = {}
        self._bare: list[tuple[int, Message, str | None]] = []
        self._rejects: list[Reject] = []
        self.parameters = _Parameters()

    def read(self, line: bytes, offset: int) -> tuple[Clean, list[Record]]:
        """Gathers the records of a line; gives them, and none if any of it could not be read."""
        found = clean(line)
        if found.broken:
            self.cut(found, offset, "A JSON object without its end")
            return found, []
        if found.textless:
            self._reject(offset, "A journal entry whose MESSAGE cannot be read", "")
            return found, []
        records = records_of(found)
        if not records:
            bare = message_without_header(found.text)
            if bare is not None and bare[0].kind == "lost":
                self._reject(offset, "A record without its level and time", found.text)
            elif bare is not None:
                self._bare.append((offset, *bare))
        read, whole = [], True
        for place, record in enumerate(records):
            try:
                numeric = read_numeric(record, found)
            except Cut as error:
                self._reject(offset, str(error), record.message)
                whole = False
                continue
            message = message_of(record) if numeric is None else None
            if numeric is None and message is None:
                continue
            taken = numeric or replace(record, kind="request" if message and message.kind == "request" else "text")
            values = values_of(list(taken.numbers.values()))
            if values is None:
                self._reject(offset, "A record with more digits than any figure has", record.message)
                whole = False
                continue
            if taken.kind == "request" and message:
                values.append(self.parameters.number(message.text))
            self._rows.setdefault(Form.of(taken), []).append((values, offset, place, message))
            read.append(taken)
        return found, read if whole else []

    def read_joined(self, line: Line) -> None:
        """Gathers the records of a line put together; where a whole record follows a torn one, nothing goes on."""
        begun, rest = line.text[: line.torn], line.text[line.torn :]
        whole = line.torn and records_of(clean(rest)) and self.cut(clean(begun), line.offset, "A line without its end")
        self.read(rest if whole else line.text, line.offset)

    def cut(self, found: Clean, offset: int, reason: str) -> bool:
        """Rejects a line that has no end if there is a record in it; whether there was one."""
        records = [] if found.broken else records_of(found)
        texts = [record.message for record in records] or [found.text]
        for text in texts:
            opening = RECORD.search(text) if not TEXT_MESSAGE.match(text) else None
            if opening and not TEXT_MESSAGE.search(text, 0, opening.start()):
                self._reject(offset, reason, text[opening.start() :])
                return True
        return False

    def into(self, harvest: Harvest) -> None:
        """Adds what was gathered to a harvest."""
        for form, rows in self._rows.items():
            harvest.groups.append(
                Group(
                    form,
                    np.array([row[0] for row in rows], dtype=np.int64).reshape(len(rows), -1).T,
                    np.array([row[1] for row in rows], dtype=np.int64),
                    np.array([row[2] for row in rows], dtype=np.int64),
                    [row[3] for row in rows if row[3] is not None] if form.kind == "text" else (),
                )
            )
        harvest.bare += self._bare
        harvest.rejects += self._rejects
        harvest.parameters = self.parameters.distinct

    def _reject(self, offset: int, reason: str, text: str) -> None:
        shown = text[:_REJECT_TEXT] if RECORD.match(text) else ""
        self._rejects.append(Reject(offset, f"{reason}; it was left out.", readable(shown)))
