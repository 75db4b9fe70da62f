"""Lines of logged responses from one or many inputs, read together; other JSON made lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from .lines import BLOCK_BYTES, Block, Overlong, blocks
from .reader import InputContext
from .response_repair import as_line, documents

DOCUMENT_BYTES = 256 << 20
"""Longest input that is read although it is not one object a line."""
_BEGINNING = 4_096
_BLANKS = np.frombuffer(b" \t\r\n\v\f", np.uint8)

Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Document:
    """An input that is one array, or objects over several lines."""

    data: bytes


class Lines:
    """Lines that are read together: each with its input and the byte where it begins."""

    def __init__(self) -> None:
        self._parts: list[tuple[int, int, bytes]] = []
        self._cuts: set[int] = set()
        self.size = 0

    def add(self, position: int, offset: int, data: bytes, *, terminated: bool = True) -> None:
        """Take the lines of a part of an input, which begins at byte ``offset`` of it."""
        self._parts.append((position, offset, data if terminated else data + b"\n"))
        self.size += len(self._parts[-1][2])
        if not terminated:
            self._cuts.add(self.size - 1)

    @cached_property
    def data(self) -> bytes:
        """All lines, one after the other."""
        return self._parts[0][2] if len(self._parts) == 1 else b"".join(data for _, _, data in self._parts)

    @cached_property
    def _spans(self) -> tuple[Places, Places]:
        """Where the lines that are not blank begin and end in ``data``."""
        view = np.frombuffer(self.data, np.uint8)
        ends = np.flatnonzero(view == ord("\n"))
        starts = np.concatenate([ends[:1] * 0, ends[:-1] + 1])
        suspects = np.flatnonzero(np.isin(view[starts], _BLANKS))
        blank = [place for place in suspects.tolist() if self.data[starts[place] : ends[place]].strip() == b""]
        return np.delete(starts, blank), np.delete(ends, blank)

    def __len__(self) -> int:
        return len(self._spans[0])

    def text(self, number: int) -> bytes:
        """One line without its end."""
        starts, ends = self._spans
        return self.data[starts[number] : ends[number]]

    def texts(self) -> list[bytes]:
        """All lines."""
        return [self.text(number) for number in range(len(self))]

    @property
    def longest(self) -> int:
        starts, ends = self._spans
        return int((ends - starts).max())

    def is_cut(self, number: int) -> bool:
        """Whether the line has no end in its input."""
        return int(self._spans[1][number]) in self._cuts

    @cached_property
    def origins(self) -> tuple[Places, Places]:
        """The input of each line, and the byte of it at which the line begins."""
        sizes = np.array([len(data) for _, _, data in self._parts])
        bases = np.cumsum(sizes) - sizes
        part = np.searchsorted(bases, self._spans[0], side="right") - 1
        inputs = np.array([position for position, _, _ in self._parts])
        offsets = np.array([offset for _, offset, _ in self._parts])
        return inputs[part], self._spans[0] - bases[part] + offsets[part]


def whole_blocks(stream: BinaryIO, context: InputContext) -> Iterator[Block | Document | Overlong]:
    """The blocks of the stream that are to be read: without a last line that waits, and with other JSON made lines."""
    begun = stream.read(_BEGINNING)
    if context.offset == 0 and _is_document(begun):
        yield _document(begun, stream)
        return
    for block in blocks(stream, context.offset, begun):
        if not block.terminated and not context.settled and not _is_complete(block):
            return
        yield block


def _is_complete(block: Block | Overlong) -> bool:
    if isinstance(block, Overlong):
        return False
    try:
        return isinstance(json.loads(block.data), dict)
    except (ValueError, RecursionError):
        return False


def _is_document(beginning: bytes) -> bool:
    """Whether an input that begins so is one array, or an object over several lines."""
    text = beginning.removeprefix(b"\xef\xbb\xbf").lstrip()
    return text.startswith(b"[") or (text.startswith(b"{") and text[1:].lstrip(b" \t\r").startswith(b"\n"))


def _document(begun: bytes, stream: BinaryIO) -> Document | Overlong:
    data = begun + stream.read(DOCUMENT_BYTES)
    size = len(data)
    while chunk := stream.read(BLOCK_BYTES):
        size += len(chunk)
    return Document(data) if size == len(data) else Overlong(0, size, begun, terminated=False)


def add_documents(position: int, data: bytes, lines: Lines) -> list[tuple[int, str, bytes]]:
    """Add the records of one array, or of objects that span lines, to the lines; returns what could not be read."""
    text = data.decode("utf-8", "replace")
    refused: list[tuple[int, str, bytes]] = []
    place = offset = 0
    for start, reason, record in documents(text):
        offset += len(text[place:start].encode())
        place = start
        if record is None:
            refused.append((offset, reason or "", text[start : start + 500].encode()))
        else:
            lines.add(position, offset, as_line(record) + b"\n")
    return refused
