"""A session on a worker: it reads inputs as any session would, and writes down what its readers give."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..schemas.errors import UsageError
from .formats import Format
from .identity import KnownInputs
from .opening import Located
from .prepare import Options, Prepared
from .reader import Input, Progress, Sink
from .readings import Read, Reading, Recorder, ended, read
from .session import Session
from .sink import ManySink

if TYPE_CHECKING:
    from ..schemas.warehouse import Warehouse


def rehearse(warehouse: Warehouse, options: Options, located: list[Located]) -> list[Reading]:
    """The readings of inputs that are new to the warehouse; one that fails is left to who asked for it.

    Raises UsageError where this machine does not see the folder of an input.
    """
    for found in located:
        if isinstance(found.path, Path) and not found.path.parent.is_dir():
            raise UsageError(
                f"The worker {platform.node()} does not see {found.path.parent}: keep inputs where all workers see "
                "them under one path, or use --engine duckdb."
            )
    return _Rehearsal(warehouse, options).readings_of(located)


class _Rehearsal(Session):
    """Its batch stays empty and is never committed."""

    def readings_of(self, located: list[Located]) -> list[Reading]:
        self._readings_made: list[Reading] = []
        self._known = KnownInputs(self._warehouse, self._options.deployment, self._options.server, self._now)
        self._read_all(located)
        return self._readings_made

    def _commit(self) -> None:
        self._batch, self._bytes = self._new_batch(), 0

    def _read(self, item: Prepared, sink: Sink) -> Read:
        recorder = Recorder(self._warehouse)
        try:
            found = read(item, recorder)
        except BaseException:
            recorder.discard()
            raise
        self._readings_made.append(recorder.reading([item.context], [found]))
        return found

    def _read_together(
        self, kind: Format, inputs: Iterator[Input], sink: ManySink, taken: list[Prepared]
    ) -> list[Progress]:
        recorder = Recorder(self._warehouse)
        try:
            progresses: list[Progress] = kind.load().read_many(inputs, recorder)
        except BaseException:
            recorder.discard()
            raise
        reads = [ended(item, progress) for item, progress in zip(taken, progresses, strict=True)]
        self._readings_made.append(recorder.reading([item.context for item in taken], reads))
        return progresses
