"""JSON documents in a stream: one for the whole input, or one a line; what is broken becomes a reject."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO

from .reader import InputContext, Progress, Sink

LONGEST_DOCUMENT = 1 << 29
"""Bytes of one JSON document that are read at most; a longer one is a reject."""
_FIRST_LINES = 20
"""Lines of an input too long for one document that may show that it holds one a line; the first may be damaged."""
_CHUNK = 1 << 20

CUT = "The last line is cut: the rest may come when the input grows; it was not used."
EMPTY = "The list is empty: give the file of a run that left something."
NO_OBJECT = "This is not a JSON object: correct or remove it."
TOO_LONG = f"The document is larger than {LONGEST_DOCUMENT >> 20} MiB: split the run into several files."


@dataclass
class Documents:
    """The JSON objects of a stream, each with the byte at which it starts; ``progress`` says how far reading got."""

    stream: BinaryIO
    context: InputContext
    sink: Sink
    begun: bytes = b""
    """What was read of the stream already."""
    offset: int = 0
    _skipped: bool = False

    def skip(self) -> None:
        """Pass over all that follows the document at hand."""
        self._skipped = True

    def __iter__(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        self.offset = self.context.offset
        begun = self.begun + (b"" if self.begun.endswith(b"\n") else self.stream.readline(LONGEST_DOCUMENT))
        if self.offset or isinstance(parse(begun), Mapping):
            yield from self._lines(begun)
            return
        begun += self.stream.read(LONGEST_DOCUMENT - len(begun) + 1)
        if len(begun) > LONGEST_DOCUMENT:
            if any(isinstance(parse(line), Mapping) for line in islice(io.BytesIO(begun), _FIRST_LINES)):
                yield from self._lines(begun)
            else:
                self.sink.reject(self.offset, TOO_LONG, begun[:200])
                self.offset += len(begun) + self._pass_over()
            return
        whole = parse(begun)
        if isinstance(whole, Mapping):
            self.offset += len(begun)
            yield 0, whole
        elif isinstance(whole, list):
            self.offset += len(begun)
            if not whole:
                self.sink.reject(0, EMPTY, begun[:200])
            for item in whole:
                yield from self._object(0, item, begun)
        else:
            yield from self._lines(begun)

    def _lines(self, begun: bytes) -> Iterator[tuple[int, Mapping[str, Any]]]:
        for line in self._split(begun):
            start = self.offset
            if self._skipped:
                self.offset += len(line)
                continue
            if len(line) >= LONGEST_DOCUMENT:
                self.sink.reject(start, TOO_LONG, line[:200])
                self.offset += len(line) + (0 if line.endswith(b"\n") else self._pass_over(one_line=True))
                continue
            ended = line.endswith(b"\n")
            document = parse(line)
            if not ended and document is None and not self.context.settled:
                return
            self.offset += len(line)
            if line.strip():
                yield from self._object(start, document, line, NO_OBJECT if ended else CUT)

    def _split(self, begun: bytes) -> Iterator[bytes]:
        """The lines of what was read of the stream and of what follows it."""
        for line in io.BytesIO(begun):
            yield line if line.endswith(b"\n") else line + self.stream.readline(LONGEST_DOCUMENT - len(line))
        while line := self.stream.readline(LONGEST_DOCUMENT):
            yield line

    def _pass_over(self, *, one_line: bool = False) -> int:
        """Read to the end of the stream, or of the line; the bytes there were."""
        size = 0
        while chunk := self.stream.readline(_CHUNK) if one_line else self.stream.read(_CHUNK):
            size += len(chunk)
            if one_line and chunk.endswith(b"\n"):
                break
        return size

    def _object(
        self, start: int, document: object, text: bytes, reason: str = NO_OBJECT
    ) -> Iterator[tuple[int, Mapping[str, Any]]]:
        if isinstance(document, Mapping):
            yield start, document
        else:
            self.sink.reject(start, reason, text[:200])

    @property
    def progress(self) -> Progress:
        return Progress(self.offset)


_ESCAPES = re.compile(
    r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # what is no half, and whole pairs
    r"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)


def storable(text: str) -> str:
    """JSON in which U+FFFD, as long, stands for every escape of half a character, which no column could hold."""
    if "\\ud" not in text and "\\uD" not in text:
        return text
    return _ESCAPES.sub(lambda match: "\\ufffd" if match["half"] else match[0], text)


def parse(text: bytes) -> object:
    """The JSON value of a text; None if it is none (or too deeply nested). A crash can leave zeros around it."""
    text = text.strip(b"\0")
    try:
        # Not left to the json module, which lets bytes of half a character pass.
        return json.loads(storable(text.decode(json.detect_encoding(text))))
    except (ValueError, RecursionError):
        return None
