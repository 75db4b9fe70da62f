"""Cuts a log into blocks of whole lines and joins what a container engine has taken apart.

Kubernetes (CRI) marks each piece of a line with P and the last with F, on each stream; in Docker's json-file the text
of the last piece ends with a newline. Only offsets are carried from one read to the next, never text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from .json_input import storable

BLOCK = 8 << 20
"""Bytes read at once: enough lines of one form for NumPy, few enough to bound the memory."""
PADDING = 512
"""Bytes behind a block that may be looked at."""
LONGEST_LINE = 16 << 20
"""What a longer line holds further on is not looked at; the line is reported."""

_CRI = re.compile(rb"(?P<time>\d{4}-\d\d-\d\dT\S+) (?P<stream>stdout|stderr) (?P<tag>[PF])(?::\S*)?(?: |$)")
_CRI_STREAM = b" std"
_CRI_OPENINGS = (b" stdout P", b" stderr P")
_CRI_HEAD = 64
"""Bytes in front of the stream's name: a timestamp."""
_DOCKER = re.compile(rb'\s*\{\s*"log"\s*:')
_SIGHT = 1 << 16
"""A block that a container engine wrote shows it within so many bytes."""
_DOCKER_END = b'\\n",'
"""How the text of a whole line ends."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line put together from pieces, and the byte at which the first one starts."""

    text: bytes
    offset: int
    torn: int = 0
    """Bytes of it that stood at the end of the file before."""


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines as they are, and lines put together from pieces that are also still in ``data``."""

    data: bytearray
    """The lines, each with its newline, and PADDING bytes of no meaning behind them."""
    size: int
    """Bytes of the lines."""
    offset: int
    """Where ``data`` starts in the input."""
    skipped: int = 0
    """Bytes at the start of ``data`` that an earlier read has read."""
    joined: list[Line] = field(default_factory=list)
    pieces: frozenset[int] = frozenset()
    """Positions in ``data`` at which a line starts that is a piece of another."""
    too_long: bool = False
    """``data`` is only the first part of a line."""


@dataclass(slots=True)
class _Partial:
    text: bytearray
    offset: int


@dataclass(frozen=True, slots=True)
class Torn:
    """Lines that begin in one file of a rotated set and go on in the next: the last one, and pieces of others."""

    rest: bytes
    partials: Mapping[bytes, bytes]


class LineSource:
    """The blocks of a stream that starts at ``offset``; ``state`` is what an earlier source left, ``torn`` what the
    file before did.
    """

    def __init__(self, stream: BinaryIO, offset: int, state: Mapping[str, Any], torn: Torn | None = None) -> None:
        self._stream = stream
        self._at = offset
        self._done = int(state.get("done", offset))
        self._passing = bool(state.get("passing", False))
        self._partials: dict[bytes, _Partial] = {}
        self._torn = torn.rest if torn else b""
        for stream_, text in torn.partials.items() if torn else ():
            self._partials[stream_] = _Partial(bytearray(text), offset)
        self.rest = b""
        """The last line, which has no end; known once ``blocks`` is through."""

    @property
    def end(self) -> int:
        """The end of the last whole line."""
        return self._at

    @property
    def offset(self) -> int:
        """Where the next source has to start: at the first piece of a line that is not complete."""
        return min([self._at, *(partial.offset for partial in self._partials.values())])

    @property
    def state(self) -> dict[str, Any]:
        """Up to where lines have been read, if that is beyond ``offset``, and whether a too long line goes on there."""
        state: dict[str, Any] = {"done": self._at} if self.offset < self._at else {}
        return state | {"passing": True} if self._passing else state

    @property
    def torn(self) -> Torn:
        """What has begun and not ended; known once ``blocks`` is through."""
        return Torn(self.rest, {stream: bytes(partial.text) for stream, partial in self._partials.items()})

    def unfinished(self) -> list[Line]:
        """Lines whose last piece has not come."""
        return [Line(bytes(partial.text), partial.offset) for partial in self._partials.values()]

    def blocks(self) -> Iterator[Block]:
        """All whole lines, in order."""
        rest = b""
        while chunk := self._stream.read(BLOCK):
            if self._passing:
                passed = chunk.find(b"\n") + 1
                self._at += passed or len(chunk)
                self._passing = not passed
                chunk = chunk[passed:] if passed else b""
            data = bytearray().join((rest, chunk, bytes(PADDING)))
            filled = len(rest) + len(chunk)
            size = data.rfind(b"\n", 0, filled) + 1
            rest = bytes(data[size:filled])
            if size:
                block = self._block(data, size)
                self._at += size
                yield block
            if len(rest) > LONGEST_LINE:
                block = Block(bytearray().join((rest, b"\n", bytes(PADDING))), len(rest) + 1, self._at, too_long=True)
                self._at += len(rest)
                self._passing, rest = True, b""
                yield block
        self.rest = rest

    def _block(self, data: bytearray, size: int) -> Block:
        skipped = min(max(0, self._done - self._at), size)
        joined: list[Line] = []
        pieces: list[int] = []
        openings = _openings(data, size)
        start = 0
        if self._torn:
            start = data.find(b"\n", 0, size) + 1
            line, torn, self._torn = self._torn + data[: start - 1], len(self._torn), b""
            if not self._take(line, self._at, joined):
                joined.append(Line(line, self._at, torn))
            pieces.append(0)
        position = start if self._partials else next((opening for opening in openings if opening >= start), size)
        while position < size:
            end = data.find(b"\n", position, size)
            line = bytes(data[position:end])
            if self._take(line, self._at + position, joined):
                pieces.append(position)
            position = end + 1 if self._partials else next((opening for opening in openings if opening > end), size)
        return Block(data, size, self._at, skipped, joined, frozenset(pieces))

    def _take(self, line: bytes, offset: int, joined: list[Line]) -> bool:
        """Whether the line is a piece; a line that it completes is added to ``joined``."""
        found = _cri_piece(line) or _docker_piece(line)
        if found is None:
            return False
        stream, time, text, last = found
        partial = self._partials.get(stream)
        if partial is None:
            if last:
                return False
            partial = self._partials[stream] = _Partial(bytearray(time + b" "), offset)
        partial.text += text[: max(0, LONGEST_LINE - len(partial.text))]
        if last:
            del self._partials[stream]
            if offset + len(line) >= self._done:
                joined.append(Line(bytes(partial.text), partial.offset))
        return True


def _openings(data: bytearray, size: int) -> Iterator[int]:
    """Where lines start that may be the first piece of another, rising."""
    found = []
    shown = data.find(_CRI_STREAM, 0, min(size, _SIGHT)) >= 0
    for opening in _CRI_OPENINGS if shown else ():
        position = data.find(opening, 0, size)
        while position >= 0:
            start = data.rfind(b"\n", max(0, position - _CRI_HEAD), position) + 1
            if (start or position <= _CRI_HEAD) and _CRI.match(data, start):
                found.append(start)
            position = data.find(opening, position + 1, size)
    if data.find(b'"log"', 0, _SIGHT) >= 0 and data.count(_DOCKER_END, 0, size) != data.count(b"\n", 0, size):
        start = 0
        for line in bytes(data[:size]).split(b"\n"):
            if _DOCKER_END not in line and _DOCKER.match(line):
                found.append(start)
            start += len(line) + 1
    return iter(sorted(found))


def _cri_piece(line: bytes) -> tuple[bytes, bytes, bytes, bool] | None:
    """Stream, time, text, and whether it is the last piece, of a line that Kubernetes wrote."""
    match = _CRI.match(line)
    return (match["stream"], match["time"], line[match.end() :].rstrip(b"\r"), match["tag"] == b"F") if match else None


def _docker_piece(line: bytes) -> tuple[bytes, bytes, bytes, bool] | None:
    """The same of a line of Docker's json-file."""
    if not _DOCKER.match(line):
        return None
    try:
        document = json.loads(storable(line.decode("utf-8", errors="replace")), strict=False)
    except (ValueError, RecursionError):
        return None
    text, time = document.get("log"), document.get("time")
    if not isinstance(text, str):
        return None
    return (
        str(document.get("stream")).encode(),
        time.encode() if isinstance(time, str) else b"",
        text.rstrip("\r\n").encode("utf-8", errors="replace"),
        text.endswith("\n"),
    )
