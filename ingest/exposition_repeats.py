"""Scrapes that repeat an earlier one but for their values: compared with it instead of taken apart.

A Template is what one scrape says beside its values. Every byte of another scrape that is no value is compared with it,
for many scrapes at once; a scrape that differs anywhere is taken apart as any text is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .exposition_scan import ALONE, Reading, Scrape, Vocabulary, numbers, sample_lines, scan
from .exposition_split import SERVER_MARK
from .series_rows import Positions, Values

MOST_TEMPLATES = 32
"""Kinds of servers whose scrapes are read at once without taking them apart again and again."""

_NEWLINE, _BLANK = b"\n "


class Scanner:
    """Takes scrapes apart; what it learns from some serves the next."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._templates: list[_Template] = []

    def scan(self, scrapes: Sequence[Scrape]) -> list[Reading]:
        """One reading for each of the scrapes."""
        found: dict[int, Reading] = {}
        left = {place: _Body.of(scrape) for place, scrape in enumerate(scrapes)}
        for number, template in enumerate(self._templates):
            some = template.read(left)
            if some and number:
                self._templates.insert(0, self._templates.pop(number))
            found |= some
        while left:
            place, body = next(iter(left.items()))
            (found[place],) = scan([body.scrape], self.vocabulary)
            del left[place]
            learnt = _Template.of(body, found[place], self.vocabulary)
            some = learnt.read(left) if learnt is not None else {}
            found |= some
            if learnt is not None:
                self._templates = [learnt, *self._templates[: MOST_TEMPLATES - 1]]
            if not some:  # each is different, or hardly repeated
                found |= zip(left, scan([body.scrape for body in left.values()], self.vocabulary), strict=True)
                break
        return [found[place] for place in range(len(scrapes))]


@dataclass(frozen=True, slots=True)
class _Body:
    """The lines of a scrape behind the one that says where it was scraped from."""

    scrape: Scrape
    start: int
    ends: Positions
    """The newlines, counted from ``start``."""

    @classmethod
    def of(cls, scrape: Scrape) -> _Body:
        raw, start = scrape.raw, scrape.start
        if raw.startswith(SERVER_MARK, start, scrape.stop):
            start = raw.index(b"\n", start) + 1
        text = np.frombuffer(raw, np.uint8)[start : scrape.stop]
        return cls(scrape, start, np.flatnonzero(text == _NEWLINE))

    @property
    def text(self) -> memoryview:
        return memoryview(self.scrape.raw)[self.start : self.scrape.stop]

    def line(self, number: int) -> int:
        """Where in ``raw`` a line begins."""
        return self.start + (int(self.ends[number - 1]) + 1 if number else 0)


class _Template:
    """What scrapes of one kind say beside their values."""

    def __init__(self, body: _Body, reading: Reading, samples: Positions, names: Positions, kept: Positions) -> None:
        self._reading = reading
        self._comments = reading.comments - (body.start > body.scrape.start)
        self._lines = len(body.ends)
        self._samples, self._names, self._kept = samples, names, kept
        last = int(kept[-1])
        begin = body.line(int(samples[last]))
        self._probe = int(samples[last]), body.scrape.raw[begin : begin + int(names[last])]
        self._model = body
        self._pattern = self._pieces([body])

    @classmethod
    def of(cls, body: _Body, reading: Reading, vocabulary: Vocabulary) -> _Template | None:
        """The template of a scrape; None where a line of it had to be read by itself."""
        if reading.bad_lines or reading.timestamp is not None or not len(reading.codes):
            return None
        text = bytes(body.text)
        start, blank, end, _ = sample_lines(text)
        codes = np.array([vocabulary.code(text[a:b]) for a, b in zip(start.tolist(), blank.tolist(), strict=True)])
        kept = np.flatnonzero(codes >= 0)
        if (blank == end).any() or (codes == ALONE).any() or not np.array_equal(codes[kept], reading.codes):
            return None
        return cls(body, reading, np.searchsorted(body.ends, end), blank - start, kept)

    def read(self, bodies: dict[int, _Body]) -> dict[int, Reading]:
        """The readings of those that this is the template of, which are taken out of ``bodies``."""
        line, probe = self._probe
        alike = {
            place: body
            for place, body in bodies.items()
            if len(body.ends) == self._lines and body.scrape.raw.startswith(probe, body.line(line))
        }
        if not alike:
            return {}
        pieces = self._pieces(list(alike.values()))
        same = pc.equal(pieces, self._repeated(len(alike))).to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(same.reshape(len(alike), -1)[:, ::2].all(axis=1))
        values = self._values(pieces, rows)
        if values is None:
            return {}
        places = list(alike)
        found = {places[row]: self._as(alike[places[row]], own) for row, own in zip(rows.tolist(), values, strict=True)}
        for place in found:
            del bodies[place]
        return found

    def _pieces(self, bodies: Sequence[_Body]) -> pa.Array:
        """What stands before each value, the value, and so on, and what stands behind the last one."""
        text = b"".join(body.text for body in bodies)
        begin = np.cumsum([0, *(len(body.text) for body in bodies)])
        ends = np.stack([body.ends for body in bodies]) + begin[:-1, None]
        starts = np.concatenate([begin[:-1, None], ends[:, :-1] + 1], axis=1)
        end = ends[:, self._samples]
        bounds = np.empty((len(bodies), 2 * len(self._samples) + 1), np.int64)
        bounds[:, 0] = begin[:-1]
        bounds[:, 1::2] = np.minimum(starts[:, self._samples] + self._names + 1, end)
        bounds[:, 2::2] = end
        offsets = np.append(bounds, begin[-1])
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text)]
        return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)

    def _repeated(self, count: int) -> pa.Array:
        """The pieces of the template as many times."""
        width = 2 * len(self._samples) + 1
        if len(self._pattern) < count * width:
            self._pattern = self._pieces([self._model] * count)
        return self._pattern[: count * width]

    def _values(self, pieces: pa.Array, rows: Positions) -> Values | None:
        """The values of vLLM's series, a line for each of the rows; None where anything is no plain number."""
        count = len(self._samples)
        chosen = rows[:, None] * (2 * count + 1) + 2 * np.arange(count) + 1
        texts = pieces.take(pa.array(chosen.ravel()))
        if (np.frombuffer(texts.buffers()[2], np.uint8) == _BLANK).any():
            return None  # a timestamp or an exemplar
        with contextlib.suppress(pa.ArrowInvalid):
            return numbers(texts).reshape(len(rows), count)[:, self._kept]
        try:  # what other programs say may be anything
            return numbers(pieces.take(pa.array(chosen[:, self._kept].ravel()))).reshape(len(rows), -1)
        except pa.ArrowInvalid:
            return None

    def _as(self, body: _Body, values: Values) -> Reading:
        model = self._reading
        comments = self._comments + (body.start > body.scrape.start)
        return Reading(body.scrape, model.codes, values, comments, model.foreign, model.ends_with_vllm)
