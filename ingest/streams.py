"""Plain, gzip and zstd files as one kind of stream: read once, bounded, hashed on the way, damage noted at its end."""

from __future__ import annotations

import io
import zlib
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from .content_hash import ContentHash, digest, hexdigest

if TYPE_CHECKING:
    import hashlib

    from .object_store import StoredObject

SNIFF_BYTES = 1 << 16
"""Decompressed bytes at the start of an input by which its format is told."""
CHUNK = 1 << 20
BOMB_RATIO = 1_000
"""Real logs and scrapes compress up to some hundred times; beyond this it is a trap."""
BOMB_FLOOR = 1 << 30
"""Decompressed bytes below which no ratio is suspicious."""

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_ZSTD_SLICE = 4_096
"""Compressed bytes given to zstd at once: at worst 1,024 blocks of 128 KiB come out."""


class InputStream(io.RawIOBase):
    """The decompressed bytes of one input.

    ``head`` holds the first bytes without consuming them, ``damage`` says in one sentence why the stream ended before
    its time (None when it did not), and ``prefix_hash`` gives the hash of what lies before an offset.
    """

    def __init__(self, file: BinaryIO, name: str, *, limit: int | None = None) -> None:
        super().__init__()
        self._file = file
        self._limit = limit
        self.name = name
        self.damage: str | None = None
        magic = file.read(4)
        self.compression = "gzip" if magic[:2] == _GZIP else "zstd" if _is_zstd(magic) else None
        self._consumed = len(magic)
        self._chunks = self._produce(magic)
        self._ready: deque[bytes] = deque()
        self.exhausted = False
        """True once every byte of the input is known: nothing is left to decompress."""
        self.position = 0
        self.last = b""
        """The byte before ``position``."""
        self._hash = ContentHash()
        self._whole: hashlib._Hash | None = None
        """The hash of everything, where it was asked for before anything was read."""
        self._final: str | None = None
        self.head = self._peek(SNIFF_BYTES)

    # --- reading -----------------------------------------------------------------------------------------------

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        chunk = self._next()
        if not chunk:
            return 0
        size = len(buffer)
        if len(chunk) > size:
            self._ready.appendleft(chunk[size:])
            chunk = chunk[:size]
        buffer[: len(chunk)] = chunk
        self._account(chunk)
        return len(chunk)

    def buffered(self) -> BinaryIO:
        """The stream with fast small reads and lines; what fits in the head costs no further layer."""
        if self.exhausted:
            rest = b"".join(self._ready)
            self._ready.clear()
            self._account(rest, None if self.position else self._whole)
            return io.BytesIO(rest)
        return io.BufferedReader(self, CHUNK)

    def skip(self, size: int) -> int:
        """Consume up to ``size`` bytes; returns how many there were."""
        left = size
        while left and (chunk := self._next()):
            if len(chunk) > left:
                self._ready.appendleft(chunk[left:])
                chunk = chunk[:left]
            left -= len(chunk)
            self._account(chunk)
        return size - left

    def at_end(self) -> bool:
        """Whether nothing is left to read."""
        if not self._ready and (chunk := self._pull()):
            self._ready.append(chunk)
        return not self._ready

    def close(self) -> None:
        self._file.close()
        super().close()

    def _peek(self, size: int) -> bytes:
        have = sum(map(len, self._ready))
        while have < size and (chunk := self._pull()):
            self._ready.append(chunk)
            have += len(chunk)
        head = b"".join(self._ready)
        self._ready = deque([head]) if head else deque()
        return head[:size]

    def peek(self, size: int) -> bytes:
        """Up to ``size`` next bytes without consuming them."""
        return self._peek(size)

    def _next(self) -> bytes:
        return self._ready.popleft() if self._ready else self._pull()

    def _pull(self) -> bytes:
        if self.exhausted:
            return b""
        chunk = next(self._chunks, b"")
        if not chunk:
            self.exhausted = True
        return chunk

    # --- hashing -----------------------------------------------------------------------------------------------

    def _account(self, chunk: bytes, after: hashlib._Hash | None = None) -> None:
        self.position += len(chunk)
        self.last = chunk[-1:] or self.last
        self._hash.add(chunk, after)

    def prefix_hash(self, offset: int) -> str | None:
        """The hash of the first ``offset`` bytes; None if that lies too far behind what was read."""
        if self._final is not None:
            return self._final if offset == self.position else None
        return self._hash.at(offset)

    def rest_hash(self) -> str:
        """The hash of an input that is known to its end and of which nothing was read yet."""
        rest = self._peek(1 << 62)
        self._whole = digest(rest)
        return hexdigest(self._whole)

    def release(self) -> None:
        """Close the file and forget all but the hash of what was read."""
        self._final = self.prefix_hash(self.position)
        self._hash.forget()
        self._ready.clear()
        self.close()

    # --- producing ---------------------------------------------------------------------------------------------

    def _produce(self, magic: bytes) -> Iterator[bytes]:
        decoder = {"gzip": self._gzip, "zstd": self._zstd}.get(self.compression or "")
        try:
            yield from decoder(magic) if decoder else self._plain(magic)
        except OSError as error:
            self.damage = f"Reading stopped with {error.strerror or error}: check the disk and ingest the file again."

    def _plain(self, magic: bytes) -> Iterator[bytes]:
        left = (1 << 62) if self._limit is None else self._limit
        # Later chunks begin at multiples of CHUNK: a buffered reader passes them on without a copy.
        chunk, size = magic, CHUNK - len(magic)
        while chunk and left > 0:
            yield chunk[:left]
            left -= len(chunk)
            chunk, size = self._file.read(min(size, max(left, 0))), CHUNK

    def _compressed(self, magic: bytes, size: int) -> Iterator[bytes]:
        chunk = magic
        while chunk:
            yield chunk
            chunk = self._file.read(size)
            self._consumed += len(chunk)

    def _bomb(self, produced: int) -> bool:
        if produced <= BOMB_FLOOR or produced <= BOMB_RATIO * self._consumed:
            return False
        self.damage = (
            f"The file decompresses to more than {BOMB_RATIO:,} times its size and was read no further: "
            "decompress it by hand if that is meant."
        )
        return True

    def _gzip(self, magic: bytes) -> Iterator[bytes]:
        produced, member, fresh = 0, zlib.decompressobj(wbits=31), True
        for raw in self._compressed(magic, 1 << 16):
            data, more = raw, True
            while data or more:
                if fresh:
                    data = data.lstrip(b"\0")  # tape and block devices pad the end with zeros
                    if not data:
                        break
                fresh = False
                try:
                    out = member.decompress(data, CHUNK)
                except zlib.error as error:
                    self.damage = _broken("gzip", produced, str(error))
                    return
                produced += len(out)
                if out:
                    yield out
                if self._bomb(produced):
                    return
                if member.eof:
                    data, member, fresh = member.unused_data, zlib.decompressobj(wbits=31), True
                else:
                    data = member.unconsumed_tail
                more = len(out) == CHUNK  # zlib may hold back output although it took all input
        if not fresh:
            self.damage = _cut("gzip", produced)

    def _zstd(self, magic: bytes) -> Iterator[bytes]:
        import zstandard

        decoder = zstandard.ZstdDecompressor()
        produced, frame, fresh = 0, decoder.decompressobj(), True
        for raw in self._compressed(magic, _ZSTD_SLICE):
            data = raw
            while data:
                fresh = False
                try:
                    out = frame.decompress(data)
                except zstandard.ZstdError as error:
                    self.damage = _broken("zstd", produced, str(error))
                    return
                produced += len(out)
                if out:
                    yield out
                if self._bomb(produced):
                    return
                data = b""
                if frame.eof:
                    data, frame, fresh = frame.unused_data, decoder.decompressobj(), True
        if not fresh:
            self.damage = _cut("zstd", produced)


def open_input(place: Path | StoredObject) -> InputStream:
    """Open a regular file or a stored object as far as it reaches now; OSError if that fails."""
    file = place.open("rb", buffering=0) if isinstance(place, Path) else place.open()
    try:
        return InputStream(file, str(place), limit=size_of(place))
    except BaseException:
        file.close()
        raise


def beginning(place: Path | StoredObject) -> bytes:
    """What tells a file from others of which nothing can be read: its first stored bytes, and how many it has."""
    with place.open("rb", buffering=0) if isinstance(place, Path) else place.open() as file:
        return file.read(CHUNK) + b"\0%d" % size_of(place)


def size_of(place: Path | StoredObject) -> int:
    """The bytes that a file or stored object has."""
    return place.stat().st_size if isinstance(place, Path) else place.size


def _is_zstd(magic: bytes) -> bool:
    return magic == _ZSTD or (len(magic) == 4 and magic[1:] == b"\x2a\x4d\x18" and magic[0] & 0xF0 == 0x50)


def _cut(kind: str, produced: int) -> str:
    return f"The {kind} data is cut after {produced:,} decompressed bytes: what came before it was read."


def _broken(kind: str, produced: int, detail: str) -> str:
    return f"The {kind} data is damaged after {produced:,} decompressed bytes ({detail}): what came before it was read."
