"""Inputs that the workers of a cluster have read, to be played to a batch as if they were being read.

A worker does what a session does: it prepares each input of its share in order, carries on what one file of a rotated
set hands to the next, and reads. What the reader gives is written to a file aside. A session takes a reading where it
would itself read just that, from just there; every other input it reads itself, so that all rows are those of a session
alone.
"""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .identity import Known
from .opening import Located
from .prepare import Prepared
from .reader import InputContext, Progress, Sink

if TYPE_CHECKING:
    from ..schemas.spark import Cluster
    from ..schemas.warehouse import Warehouse

UNIT_BYTES = 32 << 20
UNIT_INPUTS = 1_000
"""Stored bytes and inputs of which a unit of work is made."""


@dataclass(frozen=True)
class Read:
    """What reading an input came to, apart from its rows."""

    known: Known
    progress: Progress
    position: int
    """Bytes that were read."""
    damage: str | None


@dataclass(frozen=True)
class Reading:
    """Inputs that were read together, and the file that holds what the reader gave, call by call."""

    contexts: tuple[InputContext, ...]
    reads: tuple[Read, ...]
    path: Path
    size: int

    def play(self, sink: object) -> None:
        """Give the sink what the reader gave; the file is removed, whatever comes of it."""
        try:
            with self.path.open("rb") as file:
                while call := pickle.load(file):  # noqa: S301 - a task of this run wrote it
                    name, given, named = call
                    getattr(sink, name)(*given, **named)
        finally:
            self.discard()

    def discard(self) -> None:
        """Remove the file."""
        self.path.unlink(missing_ok=True)


def read(item: Prepared, sink: Sink) -> Read:
    """Read an input and close it."""
    progress = item.format.load().read(item.stream.buffered(), item.context, sink)
    return ended(item, progress)


def ended(item: Prepared, progress: Progress) -> Read:
    """What is to be kept of an input whose reader has ended; its stream is closed."""
    known = replace(item.known(progress.offset), resume=progress.resume, waiting=progress.waiting)
    item.stream.close()
    return Read(known, progress, item.stream.position, item.stream.damage)


class Recorder:
    """A sink, of one input or of many, that writes down what a reader gives."""

    def __init__(self, warehouse: Warehouse) -> None:
        self.path = warehouse.aside(".reading")
        self._file = self.path.open("wb")

    def rows(self, *given: Any, **named: Any) -> None:
        self._keep("rows", given, named)

    def reject(self, *given: Any, **named: Any) -> None:
        self._keep("reject", given, named)

    def note(self, message: str) -> None:
        self._keep("note", (message,), {})

    def _keep(self, name: str, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        pickle.dump((name, given, named), self._file, pickle.HIGHEST_PROTOCOL)

    def reading(self, contexts: Iterable[InputContext], reads: Iterable[Read]) -> Reading:
        """What was written down, of inputs that were read to their ends."""
        pickle.dump(None, self._file)
        self._file.close()
        return Reading(tuple(contexts), tuple(reads), self.path, self.path.stat().st_size)

    def discard(self) -> None:
        """Forget it."""
        self._file.close()
        self.path.unlink(missing_ok=True)


class Readings:
    """The readings of a session, in the order of its inputs."""

    def __init__(
        self, cluster: Cluster, rehearse: Callable[[list[Located]], list[Reading]], located: Sequence[Located]
    ) -> None:
        """``rehearse`` reads some inputs, on a worker."""
        shares = list(_shares(located))
        self._share = {found.source: place for place, share in enumerate(shares) for found in share}
        self._results = cluster.each("ingest", rehearse, shares, lambda share: sum(map(_size, share)), _written)
        self._arrived = 0
        self._waiting: dict[str, Reading] = {}

    def of(self, item: Prepared) -> Reading | None:
        """The reading that begins with this input, if it was read from just there; it is given once."""
        share = self._share.get(item.located.source, -1)
        while self._arrived <= share and (found := next(self._results, None)) is not None:
            self._arrived += 1
            self._waiting |= {reading.contexts[0].source: reading for reading in found}
        reading = self._waiting.pop(item.located.source, None)
        if reading is not None and reading.contexts[0] != item.context:
            reading.discard()
            return None
        return reading

    def close(self) -> None:
        """Order no more, and remove what nobody asked for."""
        self._results.close()
        for reading in self._waiting.values():
            reading.discard()


def _size(found: Located) -> int:
    with contextlib.suppress(OSError):
        return found.path.stat().st_size if isinstance(found.path, Path) else 0
    return 0


def _written(readings: list[Reading]) -> int:
    return sum(reading.size for reading in readings)


def _shares(located: Sequence[Located]) -> Iterator[list[Located]]:
    """Files in order, those of a rotated set together; a share ends where it is large enough and a set ends."""
    share: list[Located] = []
    size = 0
    for found in located:
        if not isinstance(found.path, Path) or found.problem:
            continue
        full = size >= UNIT_BYTES or len(share) >= UNIT_INPUTS
        if share and full and found.rotation != share[-1].rotation:
            yield share
            share, size = [], 0
        share.append(found)
        size += _size(found)
    if share:
        yield share
