"""Where scrapes begin and end in a file that may hold many, in bounded memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

BLOCK = 1 << 20
MAX_SCRAPE = 64 << 20
"""Longest scrape that is read, in bytes: hundreds of engines fit."""

MARK = b"# scraped_at"
SERVER_MARK = b"# scraped_from "
"""A comment behind the ``# scraped_at`` line: the address of the server."""
# Behind a line that was cut, the mark stands inside a line; only a complete one is believed there.
_WHOLE_MARK = re.compile(rb"# scraped_at[ \t]+[0-9.]+[ \t]*\r?\n")
_LONGEST_MARK = 64
_WINDOW = 1 << 16
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_TEXT = re.compile(rb"[^\s]")
_HEAD_OF_LONG = 256


@dataclass(frozen=True, slots=True)
class Piece:
    """One scrape as it stands in the file."""

    offset: int
    """Where it begins in the decompressed input."""
    end: int
    """Where it ends."""
    raw: bytes
    """The text that it stands in, not alone: cut out, each would be copied. Of one that is too long only its head."""
    begin: int
    """Where in ``raw`` it begins."""
    start: int
    """Where in ``raw`` its lines begin, behind the line with its time."""
    stop: int
    """Where in ``raw`` it ends."""
    stamp: bytes | None = None
    """What follows ``# scraped_at`` on that line; None without such a line."""
    too_long: bool = False

    @property
    def blank(self) -> bool:
        """Whether it has no text."""
        return not _TEXT.search(self.raw, self.start, self.stop)

    @property
    def last_line(self) -> int:
        """Where in ``raw`` its last line begins, which is empty if the scrape ends with a newline."""
        return max(self.start, self.raw.rfind(b"\n", self.start, self.stop) + 1)

    @property
    def head(self) -> bytes:
        """Its first bytes."""
        return self.raw[self.begin : min(self.stop, self.begin + 200)]


def pieces(stream: BinaryIO, offset: int = 0) -> Iterator[Piece]:
    """The scrapes of a stream that starts at ``offset``, in order; together they cover every byte."""
    held = b""
    searched = 1
    long_from: int | None = None
    head_of_long = b""
    while True:
        block = stream.read(BLOCK)
        if offset == 0 and not held and block.startswith(_BYTE_ORDER_MARK):
            # What a text editor put there must not hide the first line, and offsets stay as they are.
            block = b"\n" * len(_BYTE_ORDER_MARK) + block[len(_BYTE_ORDER_MARK) :]
        held += block
        begin = 0
        for mark in [*_marks(held, searched), *([] if block else [len(held)])]:
            if long_from is not None:
                yield Piece(long_from, offset + mark, head_of_long, 0, 0, len(head_of_long), too_long=True)
                long_from = None
            elif mark > begin:
                yield _piece(held, begin, mark, offset)
            begin = mark
        if not block:
            return
        offset += begin
        held = held[begin:]
        if len(held) > MAX_SCRAPE and long_from is None:
            long_from, head_of_long = offset, held[:_HEAD_OF_LONG]
        if long_from is not None:
            offset += max(0, len(held) - BLOCK)
            held = held[-BLOCK:]
        searched = max(1, len(held) - _LONGEST_MARK)


def _piece(raw: bytes, begin: int, stop: int, offset: int) -> Piece:
    """The scrape between two places of a text that starts at ``offset``."""
    if not raw.startswith(MARK, begin, stop):
        return Piece(offset + begin, offset + stop, raw, begin, begin, stop)
    line = raw.find(b"\n", begin, stop)
    line = stop if line < 0 else line
    stamp = raw[begin + len(MARK) : line].strip()
    return Piece(offset + begin, offset + stop, raw, begin, min(line + 1, stop), stop, stamp)


def _marks(held: bytes, start: int) -> Iterator[int]:
    """Where scrapes begin, not before ``start``."""
    at = _find(held, start)
    while at >= 0:
        line = held.rfind(b"\n", 0, at) + 1
        if line == at or (held[line : line + 1] != b"#" and _WHOLE_MARK.match(held, at)):
            yield at
        at = _find(held, at + 1)


def _find(held: bytes, start: int) -> int:
    """Where the next mark is, -1 if nowhere."""
    for begin in range(start, len(held), _WINDOW):
        # Python searches a long text half as fast as the same in parts that fit into the cache.
        found = held.find(MARK, begin, begin + _WINDOW + len(MARK) - 1)
        if found >= 0:
            return found
    return -1
