"""Many scrapes taken apart at once: the series of every line and their values, by array operations.

The text of a line is split at its last blank into what names the series and the value behind it. Each distinct text is
parsed once, by the grammar of one line; lines that do not split this way (timestamps, exemplars, damage) are parsed one
by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .exposition_line import LineError, parse_sample, parse_series, parse_value
from .series_rows import FOREIGN, MAX_SERIES, Codes, Numbering, Positions, Values

MAX_LINE = 1 << 20
"""Longest line that is parsed, in bytes."""

ALONE = -2
"""In place of a number: a line that has to be parsed by itself."""

_NEWLINE, _BLANK, _COMMENT = b"\n #"


class Vocabulary(Numbering):
    """The series seen so far, and the texts that name them."""

    def __init__(self) -> None:
        super().__init__()
        self._texts: dict[bytes, int] = {}
        self._last: tuple[pa.Array, Codes] | None = None

    @property
    def full(self) -> bool:
        return len(self) > MAX_SERIES or len(self._texts) > MAX_SERIES

    def codes(self, texts: pa.Array) -> Codes:
        """The number of the series that each text names."""
        if self._last is None or not self._last[0].equals(texts):
            self._last = texts, np.array([self.code(one) for one in texts.to_pylist()], np.int32)
        return self._last[1]

    def code(self, text: bytes) -> int:
        """The number of the series that a text names; FOREIGN or ALONE if it has none."""
        code = self._texts.get(text)
        if code is None:
            try:
                code = self.number(parse_series(text)) if len(text) <= MAX_LINE else ALONE
            except LineError:
                return ALONE  # usually a text with a value in it, hardly seen twice
            self._texts[text] = code
        return code


@dataclass(slots=True)
class Scrape:
    """One scrape to take apart: the complete lines between ``start`` and ``stop`` of its text."""

    position: int
    """Which input it is from."""
    offset: int
    """Where it begins in the decompressed input."""
    raw: bytes
    """The text that it stands in, others beside it."""
    start: int
    stop: int
    time: int | None = None
    """Unix microseconds; None where only the samples may tell."""
    server: str | None = None
    """Where the input says it was scraped from."""
    begin: int = 0
    """Where in its text it begins: the place that ``offset`` is about."""
    cut: bool = False

    def alone(self) -> Scrape:
        """The same in a text of its own."""
        raw = self.raw[self.begin : self.stop]
        return replace(self, raw=raw, begin=0, start=self.start - self.begin, stop=len(raw))

    @property
    def last_line(self) -> bytes:
        return self.raw[max(self.start, self.raw.rfind(b"\n", self.start, self.stop - 1) + 1) : self.stop]

    @property
    def head(self) -> bytes:
        """The first bytes of its lines."""
        return self.raw[self.start : min(self.stop, self.start + 200)]


@dataclass(slots=True)
class Reading:
    """What a scrape says: numbers of series and their values in the order of the lines."""

    scrape: Scrape
    codes: Codes
    values: Values
    comments: int
    """Comment lines, HELP and TYPE among them."""
    foreign: bool
    """Whether it has samples of other programs."""
    ends_with_vllm: bool
    """Whether its last sample is of a vLLM series."""
    timestamp: float | None = None
    """Latest timestamp on a sample, unix seconds."""
    bad_lines: list[tuple[int, str, bytes]] = field(default_factory=list)
    """Offset, reason and text of each line that is no sample."""


def scan(scrapes: Sequence[Scrape], vocabulary: Vocabulary) -> list[Reading]:
    """Take the scrapes apart; one reading for each."""
    text = b"".join(memoryview(scrape.raw)[scrape.start : scrape.stop] for scrape in scrapes)
    start, blank, end, comments = sample_lines(text)
    names = pc.dictionary_encode(slices(text, start, blank))
    codes = vocabulary.codes(names.dictionary)[names.indices.to_numpy()]
    codes[blank == end] = ALONE
    values = np.full(len(codes), np.nan)
    split = np.flatnonzero(codes >= 0)
    values[split], failed = _values(text, blank[split] + 1, end[split])

    bounds = np.cumsum([0, *(scrape.stop - scrape.start for scrape in scrapes)])
    alone: dict[int, list[tuple[int, str, bytes]]] = {}
    stamps: dict[int, float] = {}
    for line in np.concatenate([np.flatnonzero(codes == ALONE), split[failed]]):
        owner = int(np.searchsorted(bounds, start[line], side="right")) - 1
        codes[line] = FOREIGN
        raw = text[start[line] : end[line]].rstrip(b"\r")
        if not raw.strip():
            continue
        try:
            if len(raw) > MAX_LINE:
                raise LineError(f"it is longer than {MAX_LINE} bytes")
            sample = parse_sample(raw)
        except LineError as why:
            scrape = scrapes[owner]
            offset = scrape.offset + scrape.start - scrape.begin + int(start[line] - bounds[owner])
            alone.setdefault(owner, []).append((offset, str(why), raw))
            continue
        codes[line], values[line] = vocabulary.number(sample.series), sample.value
        if sample.timestamp is not None:
            stamps[owner] = max(sample.timestamp, stamps.get(owner, sample.timestamp))

    kept = np.flatnonzero(codes >= 0)
    kept_codes, kept_values = codes[kept], values[kept]
    line_bounds = np.searchsorted(start, bounds)
    kept_bounds = np.searchsorted(kept, line_bounds)
    comment_bounds = np.searchsorted(comments, bounds)
    readings = []
    for owner, scrape in enumerate(scrapes):
        first, last = kept_bounds[owner], kept_bounds[owner + 1]
        bad = alone.get(owner, [])
        readings.append(
            Reading(
                scrape,
                kept_codes[first:last],
                kept_values[first:last],
                int(comment_bounds[owner + 1] - comment_bounds[owner]),
                bool(line_bounds[owner + 1] - line_bounds[owner] - (last - first) - len(bad) > 0),
                bool(last > first and kept[last - 1] == line_bounds[owner + 1] - 1),
                stamps.get(owner),
                sorted(bad),
            )
        )
    return readings


def sample_lines(text: bytes) -> tuple[Positions, Positions, Positions, Positions]:
    """Start, last blank (else end) and end of every line that may be a sample, and the starts of comments."""
    raw = np.frombuffer(text, np.uint8)
    breaks = np.flatnonzero((raw == _NEWLINE) | (raw == _BLANK))
    newlines = np.flatnonzero(raw[breaks] == _NEWLINE)
    end = breaks[newlines]
    start = np.concatenate([np.zeros(min(1, len(end)), np.int64), end[:-1] + 1])
    blank = np.where(newlines > 0, breaks[newlines - 1], -1)
    blank = np.where(blank < start, end, blank)
    first = raw[start]
    comment = first == _COMMENT
    sample = ~comment & (start < end)
    return start[sample], blank[sample], end[sample], start[comment]


def _values(text: bytes, start: Positions, end: Positions) -> tuple[Values, Positions]:
    """The numbers between the positions, and which of them are none."""
    nothing = np.empty(0, np.int64)
    try:
        return numbers(text, start, end), nothing
    except pa.ArrowInvalid:
        values = np.full(len(start), np.nan)
        failed = []
        for at, one in enumerate(slices(text, start, end).to_pylist()):
            try:
                values[at] = parse_value(one)
            except LineError:
                failed.append(at)
        return values, np.array(failed, np.int64)


def numbers(text: bytes, start: Positions, end: Positions) -> Values:
    """The numbers from each start to its end, which come in order; ArrowInvalid where one is none."""
    # What lies between two of them counts as null, which the cast passes over. It refuses what is no text by itself.
    odd = pa.py_buffer(np.full(len(start) // 4 + 1, 0b01010101, np.uint8))
    texts = _both(text, start, end, odd).view(pa.large_string())
    both = np.frombuffer(pc.cast(texts, pa.float64()).buffers()[1], np.float64, len(texts))
    return both[::2]


def slices(text: bytes, start: Positions, end: Positions) -> pa.Array:
    """The parts of the text from each start to its end, which come in order, as one array."""
    return _both(text, start, end).take(pa.array(np.arange(0, 2 * len(start), 2)))


def _both(text: bytes, start: Positions, end: Positions, valid: pa.Buffer | None = None) -> pa.Array:
    """The parts of the text from each start to its end, and behind each what lies between it and the next."""
    offsets = np.empty(2 * len(start) + 1, np.int64)
    offsets[0:-1:2], offsets[1:-1:2] = start, end
    offsets[-1] = end[-1] if len(end) else 0
    buffers = [valid, pa.py_buffer(offsets), pa.py_buffer(text)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), 2 * len(start), buffers)
