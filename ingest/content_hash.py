"""The hash by which inputs are known, computed beside the reading."""

from __future__ import annotations

import hashlib
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

LAG = 1 << 25
"""Bytes behind the end at each of which the hash can be told: more than the longest line that can wait for its end."""
_WORTH_A_THREAD = 1 << 16
"""Less is hashed sooner than another thread starts."""


def digest(data: bytes = b"") -> hashlib._Hash:
    """The hash of some bytes, to be continued."""
    return hashlib.sha256(data)


def hexdigest(state: hashlib._Hash) -> str:
    """The first 128 bits of a hash as text."""
    return state.hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class _Part:
    """Bytes that were taken, and the hashes of everything before and with them."""

    end: int
    data: bytes
    before: Future[hashlib._Hash] | hashlib._Hash
    after: Future[hashlib._Hash] | hashlib._Hash


class ContentHash:
    """The hash of bytes that come one part after the other, and of what they begin with."""

    def __init__(self) -> None:
        self.size = 0
        self._beside: ThreadPoolExecutor | None = None
        self._last: Future[hashlib._Hash] | hashlib._Hash = digest()
        self._parts: deque[_Part] = deque()

    def add(self, data: bytes, after: hashlib._Hash | None = None) -> None:
        """Take the bytes that follow; ``after`` is the hash of everything with them, where it is known."""
        if not data:
            return
        before = self._last
        if after is not None:
            self._last = after
        elif len(data) < _WORTH_A_THREAD:
            self._last = _continued(before, data)
        else:
            # A thread of its own, not one of the module: that would be missing after a fork.
            self._beside = self._beside or ThreadPoolExecutor(1, "hash")
            self._last = self._beside.submit(_continued, before, data)
        self.size += len(data)
        self._parts.append(_Part(self.size, data, before, self._last))
        while self.size - self._parts[0].end >= LAG:
            _state(self._parts.popleft().after)  # no more than that may wait

    def at(self, offset: int) -> str | None:
        """The hash of the first ``offset`` bytes; None if there are fewer, or that lies too far back."""
        if offset == self.size:
            return hexdigest(_state(self._last))
        for part in self._parts:
            begin = part.end - len(part.data)
            if begin <= offset <= part.end:
                return hexdigest(_continued(part.before, part.data[: offset - begin]))
        return None

    def forget(self) -> None:
        """Keep only the hash of everything."""
        self._parts.clear()
        self._beside = None


def _state(known: Future[hashlib._Hash] | hashlib._Hash) -> hashlib._Hash:
    return known.result() if isinstance(known, Future) else known


def _continued(before: Future[hashlib._Hash] | hashlib._Hash, data: bytes) -> hashlib._Hash:
    state = _state(before).copy()
    state.update(data)
    return state
