"""Scrapes that repeat an earlier one but for their values: compared with it instead of taken apart.

A Template is what one scrape says beside its values. Every byte of another scrape that is no value is compared with it,
for many scrapes at once; a scrape that differs anywhere is taken apart as any text is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .exposition_scan import ALONE, Reading, Scrape, Vocabulary, numbers, sample_lines, scan, slices
from .exposition_split import SERVER_MARK
from .series_rows import Flags, Positions, Values

MOST_TEMPLATES = 32
"""Kinds of servers whose scrapes are read at once without taking them apart again and again."""

_NEWLINE, _BLANK = ord("\n"), b" "


class Scanner:
    """Takes scrapes apart; what it learns from some serves the next."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._templates: list[_Template] = []

    def scan(self, scrapes: Sequence[Scrape]) -> list[Reading]:
        """One reading for each of the scrapes."""
        block, found = _Block(scrapes), dict[int, Reading]()
        left = list(range(len(scrapes)))
        for number, template in enumerate(self._templates):
            some = template.read(block, left)
            if some and number:
                self._templates.insert(0, self._templates.pop(number))
            found |= some
            left = [place for place in left if place not in some]
        while left:
            place, *left = left
            (found[place],) = scan([scrapes[place]], self.vocabulary)
            learnt = _Template.of(_Block([scrapes[place].alone()]), found[place], self.vocabulary)
            some = learnt.read(block, left) if learnt is not None else {}
            found |= some
            left = [place for place in left if place not in some]
            if learnt is not None:
                self._templates = [learnt, *self._templates[: MOST_TEMPLATES - 1]]
            if not some:  # each is different, or hardly repeated
                found |= zip(left, scan([scrapes[place] for place in left], self.vocabulary), strict=True)
                break
        return [found[place] for place in range(len(scrapes))]


class _Block:
    """The lines of scrapes in one text, of each without the line that says where it was scraped from."""

    def __init__(self, scrapes: Sequence[Scrape]) -> None:
        self.scrapes = scrapes
        starts = [_behind_mark(scrape) for scrape in scrapes]
        self.marked = [start > scrape.start for start, scrape in zip(starts, scrapes, strict=True)]
        stops = [scrape.stop for scrape in scrapes]
        if all(one.raw is other.raw and one.stop <= other.start for one, other in pairwise(scrapes)):
            self.text = scrapes[0].raw if scrapes else b""
        else:
            bodies = [memoryview(one.raw)[start : one.stop] for start, one in zip(starts, scrapes, strict=True)]
            self.text = b"".join(bodies)
            _, *stops = accumulate(map(len, bodies), initial=0)
            starts = [0, *stops[:-1]]
        self.starts: Positions = np.array(starts, np.int64)
        self.stops: Positions = np.array(stops, np.int64)
        """Where each scrape begins and ends."""
        self.ends: Positions = np.flatnonzero(np.frombuffer(self.text, np.uint8) == _NEWLINE)
        self.lines: Positions = np.searchsorted(self.ends, self.starts)
        """The number of the first line of each."""
        self.counts: Positions = np.searchsorted(self.ends, self.stops) - self.lines
        """How many lines each has."""

    def line(self, place: int, number: int) -> int:
        """Where a line of a scrape begins."""
        return int(self.ends[self.lines[place] + number - 1]) + 1 if number else int(self.starts[place])


def _behind_mark(scrape: Scrape) -> int:
    if not scrape.raw.startswith(SERVER_MARK, scrape.start, scrape.stop):
        return scrape.start
    return scrape.raw.index(b"\n", scrape.start) + 1


class _Template:
    """What scrapes of one kind say beside their values, and what the last of them said."""

    def __init__(self, block: _Block, reading: Reading, samples: Positions, names: Positions, kept: Positions) -> None:
        self._reading = replace(reading, scrape=block.scrapes[0])  # the text beside it may go
        self._comments = reading.comments - block.marked[0]
        self._lines = int(block.counts[0])
        self._samples, self._names, self._kept = samples, names, kept
        last = int(kept[-1])
        begin = block.line(0, int(samples[last]))
        self._probe = int(samples[last]), block.text[begin : begin + int(names[last])]
        self._last = _pieces(block.text, self._bounds(block, np.zeros(1, np.int64)))
        self._values = np.full(len(samples), np.nan)
        self._values[kept] = reading.values

    @classmethod
    def of(cls, block: _Block, reading: Reading, vocabulary: Vocabulary) -> _Template | None:
        """The template of a scrape; None where a line of it had to be read by itself."""
        if reading.bad_lines or reading.timestamp is not None or not len(reading.codes):
            return None
        text = block.text
        start, blank, end, _ = sample_lines(text)
        codes = np.array([vocabulary.code(text[a:b]) for a, b in zip(start.tolist(), blank.tolist(), strict=True)])
        kept = np.flatnonzero(codes >= 0)
        if (blank == end).any() or (codes == ALONE).any() or not np.array_equal(codes[kept], reading.codes):
            return None
        return cls(block, reading, np.searchsorted(block.ends, end) - block.lines[0], blank - start, kept)

    def read(self, block: _Block, left: Sequence[int]) -> dict[int, Reading]:
        """The readings of those of the scrapes that this is the template of."""
        alike = self._candidates(block, np.array(left, np.int64))
        if not len(alike):
            return {}
        bounds = self._bounds(block, alike)
        pieces, width = _pieces(block.text, bounds), bounds.shape[1]
        # Each is compared with the one before it, as which it mostly has the same values too.
        same = np.concatenate([_equal(pieces[:width], self._last), _equal(pieces[width:], pieces[:-width])])
        same = same.reshape(-1, width)
        if not same[:, ::2].all():
            rows = _alike(same, pieces, self._last)
            alike, bounds, same = alike[rows], bounds[rows], same[rows]
        values = self._read_values(block.text, bounds, ~same[:, 1:-1:2]) if len(alike) else None
        if values is None:
            return {}
        last = bounds[-1:]
        self._last = _pieces(block.text[last[0, 0] : last[0, -1]], last - last[0, 0])  # the text beside it may go
        self._values = values[-1]
        return {
            place: self._as(block.scrapes[place], own, marked=block.marked[place])
            for place, own in zip(alike.tolist(), values[:, self._kept], strict=True)
        }

    def _candidates(self, block: _Block, places: Positions) -> Positions:
        """Which of the scrapes have as many lines and one line in common, that are worth to be compared."""
        places = places[block.counts[places] == self._lines]
        line, probe = self._probe
        begins = block.ends[block.lines[places] + line - 1] + 1 if line else block.starts[places]
        return places[[block.text.startswith(probe, begin) for begin in begins.tolist()]]

    def _bounds(self, block: _Block, places: Positions) -> Positions:
        """Where the pieces of each scrape begin: the text before each value and the value, and so on; then what stands
        behind the last value, and what is not of the scrape.
        """
        lines = block.lines[places][:, None] + self._samples
        end, begin = block.ends[lines], block.ends[lines - 1] + 1
        if self._samples[0] == 0:
            begin[:, 0] = block.starts[places]
        bounds = np.empty((len(places), 2 * len(self._samples) + 2), np.int64)
        bounds[:, 0] = block.starts[places]
        bounds[:, 1:-1:2] = np.minimum(begin + self._names + 1, end)
        bounds[:, 2::2] = end
        bounds[:, -1] = block.stops[places]
        return bounds

    def _read_values(self, text: bytes, bounds: Positions, changed: Flags) -> Values | None:
        """The values of each scrape, of which those that changed are read; None where one is no plain number."""
        start, end = bounds[:, 1:-1:2], bounds[:, 2::2]
        values = np.empty(changed.shape)
        try:
            values[changed] = numbers(text, start[changed], end[changed])
        except pa.ArrowInvalid:
            if any(_BLANK in one for one in slices(text, start[changed], end[changed]).to_pylist()):
                return None  # a timestamp or an exemplar
            foreign = np.ones(len(self._samples), np.bool_)
            foreign[self._kept] = False
            ours = changed & ~foreign
            try:  # what other programs say may be anything
                values[ours] = numbers(text, start[ours], end[ours])
            except pa.ArrowInvalid:
                return None
        before = self._values
        for own, new in zip(values, changed, strict=True):
            np.copyto(own, before, where=~new)
            before = own
        return values

    def _as(self, scrape: Scrape, values: Values, *, marked: bool) -> Reading:
        model = self._reading
        return Reading(scrape, model.codes, values, self._comments + marked, model.foreign, model.ends_with_vllm)


def _alike(same: Flags, pieces: pa.Array, before: pa.Array) -> list[int]:
    """Which scrapes differ from the one ``before`` them in their values only.

    ``same`` says which pieces each has in common with the scrape in front of it; where that is none of them, it becomes
    which it has in common with the last that is.
    """
    rows: list[int] = []
    for row, own in enumerate(same):
        if row - 1 != (rows[-1] if rows else -1):
            own[:] = _equal(pieces[row * len(own) : (row + 1) * len(own)], before)
        if own[::2].all():
            rows.append(row)
            before = pieces[row * len(own) : (row + 1) * len(own)]
    return rows


def _equal(some: pa.Array, others: pa.Array) -> Flags:
    equal: Flags = pc.equal(some, others).to_numpy(zero_copy_only=False)
    return equal


def _pieces(text: bytes, bounds: Positions) -> pa.Array:
    """The parts of the text from each of the bounds to the next; the last is empty."""
    offsets = np.append(bounds, bounds[-1, -1])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), bounds.size, buffers)
