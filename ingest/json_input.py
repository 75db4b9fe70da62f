"""JSON documents in a stream: one for the whole input, or one a line; what is broken becomes a reject."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from .reader import InputContext, Progress, Sink

LONGEST_DOCUMENT = 1 << 30
"""Bytes of one JSON document that are read at most; a larger one is a reject."""

CUT = "The last line is cut: the rest may come when the input grows; it was not used."


@dataclass
class Documents:
    """The JSON objects of a stream, each with the byte at which it starts; ``progress`` says how far reading got."""

    stream: BinaryIO
    context: InputContext
    sink: Sink
    offset: int = 0
    _skipped: bool = False

    def skip(self) -> None:
        """Pass over all that follows the document at hand."""
        self._skipped = True

    def __iter__(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        self.offset = self.context.offset
        text = self.stream.read(LONGEST_DOCUMENT + 1)
        if len(text) > LONGEST_DOCUMENT:
            reason = f"The document is larger than {LONGEST_DOCUMENT >> 20} MiB: split the run into several files."
            self.sink.reject(self.offset, reason, text[:200])
            self.offset += len(text)
            return
        whole = parse(text) if self.context.offset == 0 else None
        if isinstance(whole, Mapping):
            self.offset += len(text)
            yield 0, whole
        elif isinstance(whole, list):
            self.offset += len(text)
            for item in whole:
                yield from self._object(0, item, text)
        else:
            yield from self._lines(text)

    def _lines(self, text: bytes) -> Iterator[tuple[int, Mapping[str, Any]]]:
        for line in io.BytesIO(text):
            start = self.offset
            if self._skipped:
                self.offset = self.context.offset + len(text)
                return
            if not line.endswith(b"\n"):
                document = parse(line)
                if document is None and not self.context.settled:
                    return
                self.offset += len(line)
                yield from self._object(start, document, line, CUT)
                return
            self.offset += len(line)
            if line.strip():
                yield from self._object(start, parse(line), line)

    def _object(
        self,
        start: int,
        document: object,
        text: bytes,
        reason: str = "This is not a JSON object: correct or remove it.",
    ) -> Iterator[tuple[int, Mapping[str, Any]]]:
        if isinstance(document, Mapping):
            yield start, document
        else:
            self.sink.reject(start, reason, text[:200])

    @property
    def progress(self) -> Progress:
        return Progress(self.offset)


def parse(text: bytes) -> object:
    """The JSON value of a text; None if it is none (or too deeply nested)."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
