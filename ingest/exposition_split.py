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
# Behind a line that was cut, the mark stands inside a line; only a complete one is believed there.
_WHOLE_MARK = re.compile(rb"# scraped_at[ \t]+[0-9.]+[ \t]*\r?\n")
_LONGEST_MARK = 64
_HEAD_OF_LONG = 256


@dataclass(frozen=True, slots=True)
class Piece:
    """One scrape as it stands in the file, from ``offset`` to ``end`` of the decompressed input."""

    offset: int
    end: int
    stamp: bytes | None
    """What follows ``# scraped_at`` on its line; None without such a line."""
    text: bytes
    """What comes after that line; only the first bytes of a scrape that is too long."""
    too_long: bool = False


def pieces(stream: BinaryIO, offset: int = 0) -> Iterator[Piece]:
    """The scrapes of a stream that starts at ``offset``, in order; together they cover every byte."""
    held = b""
    searched = 1
    long_from: int | None = None
    head_of_long = b""
    while True:
        block = stream.read(BLOCK)
        held += block
        begin = 0
        for mark in [*_marks(held, searched), *([] if block else [len(held)])]:
            if long_from is not None:
                yield Piece(long_from, offset + mark, None, head_of_long, too_long=True)
                long_from = None
            elif mark > begin:
                yield _piece(held[begin:mark], offset + begin)
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


def _piece(raw: bytes, offset: int) -> Piece:
    end = offset + len(raw)
    if not raw.startswith(MARK):
        return Piece(offset, end, None, raw)
    line, _, text = raw.partition(b"\n")
    return Piece(offset, end, line[len(MARK) :].strip(), text)


def _marks(held: bytes, start: int) -> Iterator[int]:
    """Where scrapes begin, not before ``start``."""
    at = held.find(MARK, start)
    while at >= 0:
        line = held.rfind(b"\n", 0, at) + 1
        if line == at or (held[line : line + 1] != b"#" and _WHOLE_MARK.match(held, at)):
            yield at
        at = held.find(MARK, at + 1)
