"""Whole lines of a stream in large blocks, with a bound on the length of a line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

BLOCK_BYTES = 16 << 20
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


def blocks(stream: BinaryIO, offset: int, begun: bytes = b"") -> Iterator[Block | Overlong]:
    """The stream from byte ``offset`` of the input on as blocks of whole lines; ``begun`` was read of it already."""
    following = begun or stream.read(BLOCK_BYTES)
    rest = b""
    while following:
        end = following.rfind(b"\n") + 1
        if end:
            # Joined and cut in one copy: blocks are large.
            block = Block(offset, b"".join((rest, memoryview(following)[:end])))
            offset, rest = offset + len(block.data), following[end:]
            yield block
        else:
            rest += following
        following = b""
        if len(rest) > MAX_LINE_BYTES:
            overlong, following = _pass_over(offset, rest, stream)
            yield overlong
            offset, rest = offset + overlong.size, b""
        following = following or stream.read(BLOCK_BYTES)
    if rest:
        yield Block(offset, rest, terminated=False)


def _pass_over(offset: int, begun: bytes, stream: BinaryIO) -> tuple[Overlong, bytes]:
    """The line that began so, and what was read behind its end."""
    size = len(begun)
    while chunk := stream.read(BLOCK_BYTES):
        end = chunk.find(b"\n") + 1
        if end:
            return Overlong(offset, size + end, begun[:_HEAD_BYTES], terminated=True), chunk[end:]
        size += len(chunk)
    return Overlong(offset, size, begun[:_HEAD_BYTES], terminated=False), b""
