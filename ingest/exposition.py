"""Expositions: the text of ``/metrics`` in the Prometheus text format or in OpenMetrics, one scrape or many a file.

Nearly every line of a scrape repeats the line before it but for the value. So lines are taken apart in bulk, each
distinct text is parsed once, and rows are built column by column over many scrapes.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from .exposition_repeats import Scanner
from .exposition_scan import Reading, Scrape, Vocabulary
from .exposition_split import SERVER_MARK, Piece, pieces
from .reader import BatchOfOne, BatchSink, Input, InputContext, Progress, Sink
from .series_layout import ends_open
from .series_rows import MAX_LAYOUTS, RowBuilder
from .snapshot_frames import LATEST, server_name

SCAN_BYTES = 1 << 19
"""Text that is taken apart at once, to the end of what was read with it: enough to pay for the array operations, little
enough for the caches."""
SHOWN_LINES = 10
"""Bad lines of one scrape that get a reject of their own; the rest share one."""

_END_MARK = b"# EOF"
_COUNTER_FAMILY = re.compile(rb"^# TYPE (\S+) counter\s*\n([^#\n][^\n{ ]*)", re.MULTILINE)
_EPOCH = dt.datetime(1970, 1, 1)
_STAMP = re.compile(rb"[0-9]{1,12}(?:\.[0-9]+)?")

CUT_REASON = (
    "the scrape was cut: its last line has no end, so the value in it was not used; "
    "the next scrape of this server makes up for it"
)
ENDLESS_REASON = (
    "the scrape was cut between two lines: its end is missing, so the last list or histogram was not used; "
    "the next scrape of this server makes up for it"
)
EMPTY_REASON = "the scrape holds no sample: the server did not answer, look at what saved it"
FOREIGN_REASON = "the scrape holds no vLLM series: check that it came from the /metrics of a vLLM server"
ALIEN_REASON = "this is no metrics exposition but something saved in its place: check the address that was scraped"
LONG_REASON = "the scrape is longer than 64 MiB and was not read: check that each scrape has its '# scraped_at' line"
EARLIEST = 1e9
"""September 2001 in unix seconds: what packs files for shipping sets their last change to 1970 or 1980."""
DATELESS_REASON = "the scrape has no time, its file's last change is none that can be: put its unix time into the name"
UNTIMED_REASON = "the text has no '# scraped_at' line before it though others in the file have: its time is not known"
STAMP_REASON = "the time in the '# scraped_at' line is no number of unix seconds"


def read(stream: BinaryIO, context: InputContext, sink: Sink) -> Progress:
    """Rows of ``snapshots`` and ``other_samples`` from one input; what cannot be read becomes rejects.

    A scrape has the time of the ``# scraped_at <unix seconds>`` line before it, else the time in the file's name, else
    the latest timestamp of its samples, else the file's last change.
    """
    return read_many([Input(stream, context)], BatchOfOne(sink))[0]


def read_many(inputs: Iterable[Input], sink: BatchSink) -> list[Progress]:
    """As ``read``, for many inputs at once."""
    with ThreadPoolExecutor(1) as pool:
        batch = _Batch(sink, pool)
        ends = [batch.take(one) for one in inputs]
        batch.finish()
    return ends


@dataclass(frozen=True, slots=True)
class _Shape:
    """What the text of a layout tells of its end."""

    openmetrics: bool
    open_end: bool
    """Whether its last series is part of a histogram that goes on."""


class _Batch:
    """What was read and is not yet given to the sink."""

    def __init__(self, sink: BatchSink, pool: Executor) -> None:
        self.sink = sink
        self.pool = pool
        self.scanned: Future[list[Reading]] | None = None
        """What is being taken apart while more is read; NumPy and Arrow leave Python's lock for that."""
        self.contexts: list[InputContext] = []
        self.vocabulary = Vocabulary()
        self.scanner = Scanner(self.vocabulary)
        self.scrapes: list[Scrape] = []
        self.scrape_bytes = 0
        self.shapes: dict[bytes, _Shape] = {}
        self.rows = RowBuilder(self.vocabulary, sink, self._name)
        self.before: Reading | None = None

    def take(self, one: Input) -> Progress:
        """Read one input to its end."""
        position, context = len(self.contexts), one.context
        self.contexts.append(context)
        marked = bool(context.resume.get("marked"))
        held: Piece | None = None
        end = context.offset
        for piece in pieces(one.stream, context.offset):
            if held is not None:
                marked = marked or held.stamp is not None or piece.stamp is not None
                self._add(position, held, marked=marked)
            held, end = piece, piece.end
        if held is None:
            if context.offset == 0:
                self.sink.reject(position, 0, EMPTY_REASON, b"")
            return Progress(end, {"marked": marked})
        marked = marked or held.stamp is not None
        if marked and not context.settled and _unfinished(held):
            # It may still grow. The cut is told at once; the scrape is read again when there is more of it.
            self.sink.reject(position, held.offset, CUT_REASON, held.raw[held.last_line : held.stop])
            return Progress(held.offset, {"marked": marked})
        self._add(position, held, marked=marked)
        return Progress(end, {"marked": marked})

    def _add(self, position: int, piece: Piece, *, marked: bool) -> None:
        """Put a scrape with the others to be taken apart, or reject it."""
        reason, time = None, None
        if piece.too_long:
            reason = LONG_REASON
        elif piece.stamp is not None:
            time = _microseconds(piece.stamp)
            reason = STAMP_REASON if time is None else None
        elif marked:
            if piece.blank:
                return
            reason = UNTIMED_REASON
        if reason is None and piece.blank:
            reason = EMPTY_REASON
        if reason is not None:
            self.sink.reject(position, piece.offset, reason, piece.stamp or piece.head)
            return
        if time is None and (named := self.contexts[position].named_at) is not None:
            time = _since_epoch(named)
        scrape = Scrape(position, piece.offset, piece.raw, piece.start, piece.stop, time, _server(piece), piece.begin)
        if _unfinished(piece):
            scrape.cut, scrape.stop = True, piece.last_line
            lost = piece.raw[scrape.stop : piece.stop]
            self.sink.reject(position, piece.end - len(lost), CUT_REASON, lost)
        elif not piece.raw.endswith(b"\n", piece.begin, piece.stop):
            scrape = scrape.alone()
            scrape.raw, scrape.stop = scrape.raw + b"\n", scrape.stop + 1  # an end mark needs no newline
        if self.scrape_bytes >= SCAN_BYTES and scrape.raw is not self.scrapes[-1].raw:
            self._scan()
        self.scrapes.append(scrape)
        self.scrape_bytes += scrape.stop - scrape.begin

    def _scan(self) -> None:
        """Start to take the scrapes apart, and sort those that were before them."""
        before = self.scanned.result() if self.scanned else []
        if full := self.vocabulary.full:
            self._sort_all(before)
            self.vocabulary, self.shapes, self.before = Vocabulary(), {}, None
            self.scanner = Scanner(self.vocabulary)
            self.rows.renumber(self.vocabulary)
        self.scanned = self.pool.submit(self.scanner.scan, self.scrapes)
        self.scrapes, self.scrape_bytes = [], 0
        if not full:
            self._sort_all(before)

    def _sort_all(self, readings: Iterable[Reading]) -> None:
        for reading in readings:
            self._sort(reading)

    def _sort(self, reading: Reading) -> None:
        """Put what a scrape says with the scrapes of the same layout, or reject it."""
        scrape = reading.scrape
        if not len(reading.codes):
            if reading.foreign and not reading.bad_lines:
                reason = FOREIGN_REASON
            else:
                reason = ALIEN_REASON if reading.bad_lines else EMPTY_REASON
            if reading.bad_lines or not scrape.cut:  # a scrape cut in its first line is told already
                self.sink.reject(scrape.position, scrape.offset, reason, scrape.head)
            return
        for offset, why, line in reading.bad_lines[:SHOWN_LINES]:
            self.sink.reject(scrape.position, offset, f"the line is no sample, {why}: its value was not used", line)
        if rest := reading.bad_lines[SHOWN_LINES:]:
            reason = f"{len(rest)} more lines of the scrape are no samples: their values were not used"
            self.sink.reject(scrape.position, rest[0][0], reason, rest[0][2], len(rest))
        time = self._time(reading)
        if time is None:
            self.sink.reject(scrape.position, scrape.offset, DATELESS_REASON, scrape.head)
            return
        early = not scrape.cut and self._ends_early(reading)
        if early:
            self.sink.reject(scrape.position, scrape.offset, ENDLESS_REASON, scrape.last_line)
        cut = scrape.cut or early
        if not cut:
            self.before = reading
        told = self.rows.add(
            scrape.position,
            scrape.offset,
            time,
            reading.codes,
            reading.values,
            server=scrape.server,
            cut=cut,
            torn=cut and reading.ends_with_vllm,
        )
        if not told and not cut and not reading.bad_lines:
            self.sink.reject(scrape.position, scrape.offset, FOREIGN_REASON, scrape.head)

    def _ends_early(self, reading: Reading) -> bool:
        """Whether a scrape was cut between two lines, as far as it can be told from what it holds."""
        scrape = reading.scrape
        if scrape.raw[max(scrape.start, scrape.stop - 16) : scrape.stop].rstrip().endswith(_END_MARK):
            return False
        codes = reading.codes.tobytes()
        shape = self.shapes.get(codes)
        if shape is None:
            if len(self.shapes) > MAX_LAYOUTS:
                self.shapes = {}
            series = [self.vocabulary.series[code] for code in reading.codes]
            shape = self.shapes[codes] = _Shape(_is_openmetrics(scrape), ends_open(series))
        return (
            shape.openmetrics
            or (shape.open_end and reading.ends_with_vllm)
            or scrape.last_line.startswith(b"# HELP")
            or (self.before is not None and _is_start_of(reading, self.before))
        )

    def _name(self, server: str | None, position: int, name: str | None, alone: bool) -> str:
        return server_name(self.contexts[position], name, alone, server)

    def _time(self, reading: Reading) -> int | None:
        if reading.scrape.time is not None:
            return reading.scrape.time
        if reading.timestamp is not None and 0 < reading.timestamp < LATEST:
            return round(reading.timestamp * 1e6)
        changed = _since_epoch(self.contexts[reading.scrape.position].modified_at)
        return changed if EARLIEST * 1e6 <= changed < LATEST * 1e6 else None

    def finish(self) -> None:
        """Give everything that is held back to the sink."""
        if self.scanned:
            self._sort_all(self.scanned.result())
        self._sort_all(self.scanner.scan(self.scrapes))
        self.rows.flush()


def _server(piece: Piece) -> str | None:
    """Where ``specledger scrape`` says that it took the scrape from, as host and port."""
    if piece.stamp is None or not piece.raw.startswith(SERVER_MARK, piece.start, piece.stop):
        return None
    line = piece.raw[piece.start + len(SERVER_MARK) : piece.stop].partition(b"\n")[0]
    return line.decode("utf-8", "replace").strip().partition("://")[2].partition("/")[0] or None


def _unfinished(piece: Piece) -> bool:
    last = piece.raw[piece.last_line : piece.stop].strip()
    ends = piece.raw.endswith(b"\n", piece.begin, piece.stop)
    return bool(last and last != _END_MARK) or (piece.stamp is not None and not ends and not last)


def _is_start_of(reading: Reading, before: Reading) -> bool:
    """Whether a scrape is the one before it in the same input without its end, families included."""
    count = len(reading.codes)
    return (
        reading.scrape.position == before.scrape.position
        and count < len(before.codes)
        and reading.comments < before.comments
        and bool(np.array_equal(reading.codes, before.codes[:count]))
    )


def _is_openmetrics(scrape: Scrape) -> bool:
    """Whether counter families are named without the suffix that their samples have, which only OpenMetrics does."""
    found = _COUNTER_FAMILY.search(scrape.raw, scrape.start, scrape.stop)
    if found is None:
        return False
    family, sample = (name.replace(b":", b"_") for name in found.groups())
    return not family.endswith(b"_total") and sample == family + b"_total"


def _microseconds(stamp: bytes) -> int | None:
    if not _STAMP.fullmatch(stamp) or not 0 < float(stamp) < LATEST:
        return None
    return round(float(stamp) * 1e6)


def _since_epoch(moment: dt.datetime) -> int:
    return (moment - _EPOCH) // dt.timedelta(microseconds=1)
