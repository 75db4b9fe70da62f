"""One ingest from the first input to the last: prepare each, read what is new, commit in batches."""

from __future__ import annotations

import datetime as dt
import logging
import shutil
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..schemas.errors import SpecledgerError
from ..schemas.lock import exclusive
from .content_hash import digest, hexdigest
from .deployments import ensure_deployments, store_labels
from .formats import FORMATS, UNKNOWN, Format
from .identity import Known, KnownInputs
from .opening import Located, modified_at, named_instant
from .prepare import AlreadyKnown, Options, Prepared, Refused, Waiting, prepare, refused
from .publishing import recover
from .reader import Input, InputContext, Progress
from .report import IngestReport
from .sink import Batch, InputSink, ManySink

if TYPE_CHECKING:
    from ..schemas.warehouse import Warehouse

BATCH_INPUTS = 5_000
BATCH_BYTES = 256 << 20
"""Inputs and decompressed bytes after which a batch is committed."""

logger = logging.getLogger(__name__)


class Session:
    """One run of ``ingest``."""

    def __init__(self, warehouse: Warehouse, options: Options, progress: Callable[[str], None] | None) -> None:
        self._warehouse = warehouse
        self._options = options
        self._progress = progress or (lambda _: None)
        self._report = IngestReport()
        self._notes: dict[str, None] = {}
        self._now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
        self._deployments = {options.deployment}
        self._formats_in: dict[str, set[str]] = {}
        self._refused: list[Refused] = []
        self._waiting: list[Waiting] = []
        self._carried: dict[tuple[str, str], tuple[str, Mapping[str, Any], Any]] = {}
        self._spooled: list[Path] = []

    def run(self, located: list[Located], labels: dict[str, str]) -> IngestReport:
        """Read all inputs and store the labels."""
        with exclusive(self._warehouse.root, "ingest"):
            self._warehouse.mark()
            recover(self._warehouse)
            self._known = KnownInputs(self._warehouse, self._options.deployment, self._options.server, self._now)
            self._batch = self._new_batch()
            self._bytes = 0
            try:
                self._read_all(located)
                self._refuse_all()
                self._remember_waiting()
                self._commit()
            finally:
                self._batch.discard()
                for path in self._spooled:
                    path.unlink(missing_ok=True)
            deployment, server = self._options.deployment, self._options.server
            store_labels(self._warehouse, deployment, server, labels, self._now)
            ensure_deployments(self._warehouse, self._deployments, server, self._now)
        self._report.notes = list(self._notes)
        return self._report

    # --- the loop ------------------------------------------------------------------------------------------------

    def _read_all(self, located: list[Located]) -> None:
        waiting = _Lookahead(located, self._prepare)
        try:
            self._read_waiting(waiting)
        finally:
            waiting.close()

    def _read_waiting(self, waiting: _Lookahead) -> None:
        while (item := waiting.peek()) is not None:
            if isinstance(item, Located):
                waiting.take()
                self._read_url(item)
            elif hasattr(item.format.load(), "read_many"):
                self._read_many(item.format, waiting)
            else:
                waiting.take()
                self._read_one(item, followed=item.format.carries and self._follows(item, waiting))
                waiting.put_back()
            if self._full():
                self._commit()

    def _prepare(self, found: Located) -> Prepared | Located | None:
        """What there is to read of an input, if anything."""
        self._progress(found.source)
        if found.problem:
            self._refused.append(refused(found, found.problem))
            return None
        if found.url:
            return found
        outcome = prepare(found, found.path or self._spool(), self._options, self._known)
        if isinstance(outcome, Refused | Waiting):
            self._set_aside(outcome)
            return None
        name = outcome.format.name
        self._formats_in.setdefault(found.rotation[0], set()).add(name)
        if isinstance(outcome, AlreadyKnown):
            self._report.of(name).known += 1
            self._carry(found, outcome.format, outcome.known.resume)
            return None
        return outcome

    def _set_aside(self, outcome: Refused | Waiting) -> None:
        if isinstance(outcome, Refused):
            self._refused.append(outcome)
        else:
            self._waiting.append(outcome)

    def _spool(self) -> Path:
        """Standard input as a file, which can be read twice."""
        path = self._warehouse.aside(".stdin")
        self._spooled.append(path)
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)
        return path

    # --- reading -------------------------------------------------------------------------------------------------

    def _read_one(self, item: Prepared, *, followed: bool = False) -> None:
        item = self._with_carried(item, followed)
        number = self._batch.open(item.context, item.format.name, item.before)
        try:
            progress = item.format.load().read(item.stream.buffered(), item.context, InputSink(self._batch, number))
        except (SpecledgerError, MemoryError):
            item.stream.close()
            raise
        except Exception as error:
            self._fail(item, number, error)
            return
        self._bytes += item.stream.position
        self._finish(item, number, progress)

    def _read_many(self, kind: Format, waiting: _Lookahead) -> None:
        """Read as many inputs of a format as one batch may hold; where that fails, one after the other."""
        self._commit()
        sink, taken = ManySink(self._batch), list[Prepared]()

        def inputs() -> Iterator[Input]:
            while isinstance(item := waiting.peek(), Prepared) and item.format is kind and not self._full():
                waiting.take()
                taken.append(item)
                sink.numbers.append(self._batch.open(item.context, kind.name, item.before))
                yield Input(item.stream.buffered(), item.context)
                self._bytes += item.stream.position
                item.stream.release()
                self._known.add(item.known(item.stream.position))

        try:
            progresses = kind.load().read_many(inputs(), sink)
        except (SpecledgerError, MemoryError):
            for item in taken:
                item.stream.close()
            raise
        except Exception:
            logger.debug("reading %d inputs at once failed", len(taken), exc_info=True)
            self._batch.discard()
            self._batch = self._new_batch()
            for item in taken:
                self._read_one(item.reopened())
            return
        for item, number, progress in zip(taken, sink.numbers, progresses, strict=True):
            self._finish(item, number, progress)

    def _full(self) -> bool:
        return len(self._batch.tallies) >= BATCH_INPUTS or self._bytes >= BATCH_BYTES

    def _finish(self, item: Prepared, number: int, progress: Progress) -> None:
        if item.stream.damage:
            self._batch.reject(number, item.stream.position, item.stream.damage, "", 1)
        known = replace(item.known(progress.offset), resume=progress.resume, waiting=progress.waiting)
        self._known.add(known)
        self._batch.finish(number, known)
        self._carry(item.located, item.format, progress.resume, None if item.stream.damage else progress.torn)
        item.stream.close()

    def _fail(self, item: Prepared, number: int, error: Exception) -> None:
        """A failing reader is a fault of ours: what it read is kept, the rest refused, and the next run tries again."""
        logger.debug("reading %s failed", item.located.source, exc_info=True)
        what = f"{type(error).__name__}: {str(error)[:200]}"
        reason = f"Reading stopped by a fault of specledger ({what}): please report it."
        self._batch.reject(number, item.stream.position, reason, "", 1)
        identity = hexdigest(digest(f"failed\0{item.located.source}".encode("utf-8", "surrogateescape")))
        self._batch.finish(number, Known(item.located.source, 0, "", identity))
        item.stream.close()

    def _read_url(self, found: Located) -> None:
        kind = FORMATS["prometheus"]
        identity = hexdigest(digest(b"url\0" + found.source.encode()))
        known = self._known.same(identity, None)
        context = InputContext(
            source=found.source,
            deployment=self._options.deployment,
            instance=self._options.server,
            modified_at=self._now,
            offset=known.bytes if known else 0,
            resume=known.resume if known else {},
            instance_given=self._options.instance is not None,
        )
        number = self._batch.open(context, kind.name)
        progress = kind.load().read_url(found.url, context, InputSink(self._batch, number))
        if known is None or dict(progress.resume) != dict(known.resume) or self._batch.tallies[number].records:
            now_known = Known(found.source, progress.offset, "", identity, progress.resume, progress.offset)
            self._known.add(now_known)
            self._batch.finish(number, now_known)

    # --- what goes on from one file of a rotated set to the next -----------------------------------------------------

    def _carry(self, found: Located, kind: Format, resume: Mapping[str, Any], torn: Any = None) -> None:
        if kind.carries:
            self._carried[found.rotation] = (kind.name, resume, torn)

    def _with_carried(self, item: Prepared, followed: bool) -> Prepared:
        """A file read from its start with what the reader remembered at the end of the file before."""
        context = replace(item.context, followed=followed)
        name, resume, torn = self._carried.get(item.located.rotation, ("", {}, None))
        if name == item.format.name and not context.offset:
            context = replace(context, resume=resume, torn=torn)
        return replace(item, context=context)

    @staticmethod
    def _follows(item: Prepared, waiting: _Lookahead) -> bool:
        """Whether the next input is the next file of the same set, new, not a copy, and at least a line long."""
        following = waiting.peek() if waiting.rotation == item.located.rotation else None
        return (
            isinstance(following, Prepared)
            and following.format is item.format
            and following.located.rotation == item.located.rotation
            and not following.context.offset
            and b"\n" in following.head
            and not following.head.startswith(item.head[: len(following.head)])
            and not item.head.startswith(following.head)
        )

    # --- refusing ------------------------------------------------------------------------------------------------

    def _refuse_all(self) -> None:
        """Keep refusals as rejects: among scrapes, what is none is a failed one; elsewhere an empty file is nothing."""
        empty = 0
        for one in self._refused:
            scrape = one.perhaps_scrape and "exposition" in self._formats_in.get(one.located.rotation[0], ())
            if one.empty and not scrape:
                empty += 1
            else:
                self._refuse(one, "exposition" if scrape else UNKNOWN)
        if empty:
            self._batch.note(f"{empty:,} inputs with nothing in them were left out.")

    def _remember_waiting(self) -> None:
        for one in self._waiting:
            number = self._batch.open(self._context(one.located), UNKNOWN)
            self._batch.finish(number, one.known)
        if self._waiting:
            self._batch.note(f"{len(self._waiting):,} inputs hold less than a line: ingest them again when they grew.")

    def _refuse(self, one: Refused, name: str) -> None:
        if self._known.same(one.identity, None):
            self._report.of(name).known += 1
            return
        known = Known(one.located.source, 0, "", one.identity)
        number = self._batch.open(self._context(one.located), name)
        self._batch.reject(number, 0, one.reason, "", 1)
        self._batch.finish(number, known)
        self._known.add(known)

    def _context(self, located: Located) -> InputContext:
        return InputContext(
            source=located.source,
            deployment=self._options.deployment,
            instance=self._options.server,
            modified_at=modified_at(located.path),
            named_at=named_instant(located.source),
        )

    # --- committing ----------------------------------------------------------------------------------------------

    def _new_batch(self) -> Batch:
        return Batch(self._warehouse, self._notes, self._now)

    def _commit(self) -> None:
        self._batch.commit()
        self._deployments |= self._batch.deployments
        self._report.partitions += self._batch.written
        for tally in self._batch.tallies:
            report = self._report.of(tally.format)
            report.files += 1
            report.records += tally.records
            report.rejects += tally.rejects
            report.duplicates += tally.duplicates
            for table, count in tally.table_rows.items():
                self._report.rows[table] = self._report.rows.get(table, 0) + count
            if tally.first_reject:
                self._report.rejected.append((tally.context.source, tally.first_reject))
        self._batch, self._bytes = self._new_batch(), 0


class _Lookahead:
    """The inputs in order, of which the next can be looked at; each is prepared when nothing before it is unread."""

    def __init__(self, located: list[Located], prepare: Callable[[Located], Prepared | Located | None]) -> None:
        self._located = deque(located)
        self._prepare = prepare
        self._next: Prepared | Located | None = None

    @property
    def rotation(self) -> tuple[str, str] | None:
        """The rotated set of the next input that was not prepared."""
        return self._located[0].rotation if self._located else None

    def peek(self) -> Prepared | Located | None:
        while self._next is None and self._located:
            self._next = self._prepare(self._located.popleft())
        return self._next

    def take(self) -> None:
        self._next = None

    def put_back(self) -> None:
        """Have the next input prepared anew, as more is known by now."""
        if isinstance(self._next, Prepared):
            self._located.appendleft(self._next.located)
            self.close()
            self._next = None

    def close(self) -> None:
        """Close the input that nobody came to take."""
        if isinstance(self._next, Prepared):
            self._next.stream.close()
