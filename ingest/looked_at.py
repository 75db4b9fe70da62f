"""Files of which the warehouse held everything when they were last looked at, and that are still the same.

A folder keeps the files of many nights. Each would have to be read to the end to tell by the hash of its content that
it is known. A file whose inode, size and times are what they were has the content that it had, so it need not.
"""

from __future__ import annotations

import functools
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from ..schemas.warehouse import encode
from .formats import FORMATS
from .object_store import StoredObject
from .opening import Located
from .prepare import AlreadyKnown, Options, Outcome, Prepared, prepare

if TYPE_CHECKING:
    from ..schemas.warehouse import Warehouse
    from .identity import KnownInputs
    from .readings import Read

logger = logging.getLogger(__name__)

SETTLED_S = 2.0
"""Seconds a file must have been left alone: within one tick of a clock it could change and keep its times."""
SCHEMA = pl.Schema({"source": pl.String(), "status": pl.String(), "format": pl.String(), "content_hash": pl.String()})
Seen = tuple[str, str, str]
"""Status, format and stored hash of the content of a file."""


class LookedAt:
    """What the last ingests into a deployment and instance found of files of which the warehouse holds everything."""

    def __init__(self, warehouse: Warehouse, options: Options) -> None:
        self._warehouse = warehouse
        self._options = options
        self._path = (
            warehouse.root / "_state" / "looked_at" / encode(options.deployment) / f"{encode(options.server)}.parquet"
        )
        self._now: dict[str, Seen] = {}
        self._begun: dict[str, str] = {}
        """The status of the files that are being read, from before."""

    @functools.cached_property
    def _before(self) -> dict[str, Seen]:
        """Read when the first input is asked for: by then the lock of ingest is held."""
        return _read(self._path)

    def prepare(self, found: Located, path: Path | StoredObject, known: KnownInputs) -> Outcome:
        """As ``prepare``; a file that has not changed since it was found to be known, or read, is not opened."""
        status = _status(found)  # before it is read: what changes meanwhile is read again the next time
        outcome = self._same(found, status, known) or prepare(found, path, self._options, known)
        if status and isinstance(outcome, AlreadyKnown):
            self._now[found.source] = (status, outcome.format.name, outcome.known.content_hash)
        elif status and isinstance(outcome, Prepared):
            self._begun[found.source] = status
        return outcome

    def read(self, item: Prepared, found: Read) -> None:
        """Tell that a file was read, before ``save``, which waits until its rows are stored.

        One of which something was left is opened again the next time.
        """
        known, source = found.known, item.located.source
        status = self._begun.pop(source, None)
        left = known.waiting or known.torn or found.damage or known.seen != known.bytes
        if status and not left and status == _status(item.located):
            self._now[source] = (status, item.format.name, known.content_hash)

    def _same(self, found: Located, status: str | None, known: KnownInputs) -> AlreadyKnown | None:
        before, name, content = self._before.get(found.source, (None, "", ""))
        if status is None or status != before or name not in FORMATS or self._options.format not in (None, name):
            return None
        record = known.recorded(content)
        return None if record is None or record.waiting else AlreadyKnown(found, FORMATS[name], record)

    def save(self) -> None:
        """Remember what was found, and what earlier ingests found of files that are still there."""
        kept = {
            source: seen for source, seen in self._before.items() if source not in self._now and Path(source).exists()
        } | self._now
        if kept == self._before:
            return
        rows = [(source, *seen) for source, seen in sorted(kept.items())]
        self._warehouse.keep_copy(pl.DataFrame(rows, schema=SCHEMA, orient="row").to_arrow(), self._path)


def _status(found: Located) -> str | None:
    """What changes whenever the content of a file does; None where that cannot be told."""
    if not isinstance(found.path, Path):
        return None
    try:
        status = found.path.stat()
    except OSError:
        return None
    if max(status.st_mtime, status.st_ctime) + SETTLED_S > time.time():
        return None
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"


def _read(path: Path) -> dict[str, Seen]:
    """What a file holds; nothing where there is none that can be read."""
    try:
        rows = pl.read_parquet(path, hive_partitioning=False).cast(SCHEMA).rows()
    except FileNotFoundError:
        return {}
    except (OSError, pl.exceptions.PolarsError) as error:
        logger.debug("%s cannot be read (%s) and is written anew", path, error)
        return {}
    return {source: (status, kind, content) for source, status, kind, content in rows}
