"""Whole lines of a stream in large blocks, with a bound on the length of a line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

BLOCK_BYTES = 8 << 20
MAX_LINE_BYTES = 16 << 20
_HEAD_BYTES = 4_096


@dataclass(frozen=True)
class Block:
    """Bytes from ``offset`` on: whole lines, or the one last line that has no end."""

    offset: int
    data: bytes
    terminated: bool = True


@dataclass(frozen=True)
class Overlong:
    """A line longer than MAX_LINE_BYTES, of which only the beginning was kept."""

    offset: int
    size: int
    head: bytes
    terminated: bool


def blocks(stream: BinaryIO, offset: int) -> Iterator[Block | Overlong]:
    """The stream from its current place, which is byte ``offset`` of the input, as blocks of whole lines."""
    rest = b""
    while chunk := stream.read(BLOCK_BYTES):
        data = rest + chunk if rest else chunk
        end = data.rfind(b"\n") + 1
        if end:
            yield Block(offset, data[:end])
            offset, rest = offset + end, data[end:]
        else:
            rest = data
        if len(rest) > MAX_LINE_BYTES:
            head, size = rest[:_HEAD_BYTES], len(rest)
            rest, found = b"", False
            while not found and (chunk := stream.read(BLOCK_BYTES)):
                end = chunk.find(b"\n") + 1
                found = end > 0
                size += end or len(chunk)
                rest = chunk[end:] if found else b""
            yield Overlong(offset, size, head, terminated=found)
            offset += size
    if rest:
        yield Block(offset, rest, terminated=False)
