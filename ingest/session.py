"""One ingest from the first input to the last: prepare each, read what is new, commit in batches."""

from __future__ import annotations

import datetime as dt
import logging
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..schemas import RAW_TABLES
from ..schemas.errors import SpecledgerError
from ..schemas.lock import exclusive
from ..schemas.published import publishing
from .batch import Batch
from .content_hash import digest, hexdigest
from .deployments import ensure_deployments, store_labels
from .formats import FORMATS, UNKNOWN, Format
from .identity import Known, KnownInputs
from .lookahead import Lookahead
from .looked_at import LookedAt
from .opening import Located, modified_at, named_instant
from .prepare import AlreadyKnown, Options, Prepared, Refused, Waiting, refused
from .publishing import recover
from .reader import Input, InputContext, Progress, Sink
from .readings import Read, Reading, Readings, ended, read
from .report import IngestReport
from .rotation import Carried, follows
from .sink import InputSink, ManySink
from .unsaid import Unsaid

if TYPE_CHECKING:
    from ..schemas.warehouse import Warehouse

BATCH_INPUTS = 5_000
BATCH_BYTES = 256 << 20
"""Inputs and decompressed bytes after which a batch is committed."""

logger = logging.getLogger(__name__)


class Session:
    """One run of ``ingest``."""

    def __init__(
        self,
        warehouse: Warehouse,
        options: Options,
        progress: Callable[[str], None] | None = None,
        readings: Readings | None = None,
    ) -> None:
        """``readings`` are what others read of the inputs."""
        self._warehouse = warehouse
        self._options = options
        self._progress = progress or (lambda _: None)
        self._readings = readings
        self._notes: dict[str, None] = {}
        self._now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
        self._looked_at = LookedAt(warehouse, options)
        self._batch = self._new_batch()
        self._bytes = 0
        self._report = IngestReport()
        self._unsaid: dict[str, Unsaid] = {}
        self._deployments = {options.deployment}
        self._formats_in: dict[str, set[str]] = {}
        self._refused: list[Refused] = []
        self._waiting: list[Waiting] = []
        self._carried = Carried()
        self._spooled: list[Path] = []

    def run(self, located: list[Located], labels: dict[str, str]) -> IngestReport:
        """Read all inputs and store the labels."""
        with exclusive(self._warehouse.root, "ingest"), publishing(self._warehouse, RAW_TABLES, "ingest") as days:
            self._warehouse.mark()
            recover(self._warehouse)
            try:
                self._take_in(located)
                deployment, server = self._options.deployment, self._options.server
                days.add(store_labels(self._warehouse, deployment, server, labels, self._now))
                ensure_deployments(self._warehouse, self._deployments, server, self._now)
            finally:
                days |= {self._now.date(), *(day for day, _ in self._report.partitions)}
        self._report.notes = [*self._notes, *(one.note() for one in self._unsaid.values())]
        return self._report

    def _take_in(self, located: list[Located]) -> None:
        self._known = KnownInputs(self._warehouse, self._options.deployment, self._options.server, self._now)
        try:
            self._read_all(located)
            self._refuse_all()
            self._remember_waiting()
            self._commit()
            self._looked_at.save()
        finally:
            self._batch.discard()
            if self._readings:
                self._readings.close()
            for path in self._spooled:
                path.unlink(missing_ok=True)

    # --- the loop ------------------------------------------------------------------------------------------------

    def _read_all(self, located: list[Located]) -> None:
        waiting = Lookahead(located, self._prepare)
        try:
            self._read_waiting(waiting)
        finally:
            waiting.close()

    def _read_waiting(self, waiting: Lookahead) -> None:
        while (item := waiting.peek()) is not None:
            if isinstance(item, Located):
                waiting.take()
                self._read_url(item)
            elif hasattr(item.format.load(), "read_many"):
                self._read_many(item.format, waiting)
            else:
                waiting.take()
                self._read_one(item, followed=follows(item, waiting))
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
        outcome = self._looked_at.prepare(found, found.path or self._spool(), self._known)
        if isinstance(outcome, Refused | Waiting):
            self._set_aside(outcome)
            return None
        name = outcome.format.name
        self._formats_in.setdefault(found.rotation[0], set()).add(name)
        if isinstance(outcome, AlreadyKnown):
            self._report.of(name).known += 1
            self._carried.keep(found, outcome.format, outcome.known.resume)
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
        item = self._carried.given_to(item, followed=followed)
        number = self._batch.open(item.context, item.format.name, item.before)
        try:
            found = self._read(item, InputSink(self._batch, number))
        except (SpecledgerError, MemoryError):
            item.stream.close()
            raise
        except Exception as error:
            self._fail(item, number, error)
            return
        self._bytes += found.position
        self._finish(item, number, found)

    def _read(self, item: Prepared, sink: Sink) -> Read:
        """Read an input, or take what was read of it."""
        if reading := self._reading(item):
            item.stream.close()
            reading.play(sink)
            return reading.reads[0]
        return read(item, sink)

    def _reading(self, item: Prepared) -> Reading | None:
        return self._readings.of(item) if self._readings else None

    def _read_many(self, kind: Format, waiting: Lookahead) -> None:
        """Read as many inputs of a format as one batch may hold; where that fails, one after the other."""
        self._commit()
        if isinstance(item := waiting.peek(), Prepared) and (reading := self._reading(item)):
            self._play_many(reading, waiting)
            return
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
            progresses = self._read_together(kind, inputs(), sink, taken)
        except (SpecledgerError, MemoryError):
            for item in taken:
                item.stream.close()
            raise
        except Exception:
            logger.debug("reading %d inputs at once failed", len(taken), exc_info=True)
            self._read_anew(taken)
            return
        for item, number, progress in zip(taken, sink.numbers, progresses, strict=True):
            self._finish(item, number, ended(item, progress))

    def _read_together(
        self, kind: Format, inputs: Iterator[Input], sink: ManySink, taken: list[Prepared]
    ) -> list[Progress]:
        """Read inputs, which are added to ``taken`` as they are; where each of them ended."""
        del taken
        progresses: list[Progress] = kind.load().read_many(inputs, sink)
        return progresses

    def _play_many(self, reading: Reading, waiting: Lookahead) -> None:
        """Take what was read of several inputs, if they are the next ones; else read those that are."""
        taken: list[Prepared] = []
        for context, found in zip(reading.contexts, reading.reads, strict=True):
            item = waiting.peek()
            if not isinstance(item, Prepared) or item.context != context:
                break
            waiting.take()
            item.stream.close()
            taken.append(item)
            self._known.add(found.known)
        sink = ManySink(self._batch)
        sink.numbers = [self._batch.open(item.context, item.format.name, item.before) for item in taken]
        try:
            if len(taken) < len(reading.contexts):
                raise LookupError("others come between them")
            reading.play(sink)
        except (SpecledgerError, MemoryError):
            raise
        except Exception:
            logger.debug("taking what was read of %d inputs failed", len(taken), exc_info=True)
            self._read_anew(taken)
            return
        finally:
            reading.discard()
        for item, number, found in zip(taken, sink.numbers, reading.reads, strict=True):
            self._bytes += found.position
            self._finish(item, number, found)

    def _read_anew(self, taken: list[Prepared]) -> None:
        """Read the inputs of a batch that failed as a whole, one after the other."""
        self._batch.discard()
        self._batch = self._new_batch()
        for item in taken:
            self._read_one(item.reopened())

    def _full(self) -> bool:
        return len(self._batch.tallies) >= BATCH_INPUTS or self._bytes >= BATCH_BYTES

    def _finish(self, item: Prepared, number: int, found: Read) -> None:
        if found.damage:
            self._batch.reject(number, found.position, found.damage, "", 1)
        self._known.add(found.known)
        self._batch.finish(number, found.known)
        if self._readings is None:  # what workers read may have changed before this process looked at it
            self._looked_at.read(item, found)
        torn = None if found.damage else found.progress.torn
        self._carried.keep(item.located, item.format, found.progress.resume, torn)

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
            if tally.answered and not tally.counted:
                self._unsaid.setdefault(tally.format, Unsaid(tally.context.source)).add(tally.answered)
            if tally.first_reject:
                self._report.rejected.append((tally.context.source, tally.first_reject))
        self._batch, self._bytes = self._new_batch(), 0
