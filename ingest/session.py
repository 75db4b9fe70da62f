"""One ingest from the first input to the last: tell what each is, leave out what is known, read, commit."""

from __future__ import annotations

import datetime as dt
import logging
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..schemas.errors import SpecledgerError
from .dedupe import Continuation
from .deployments import ensure_deployments, store_labels
from .detect import Detected, detect
from .formats import FORMATS, UNKNOWN, Format
from .identity import Known, KnownInputs, content_key, head_hash, match_prefix
from .lock import exclusive
from .opening import Located, modified_at, named_instant
from .publishing import recover
from .reader import Input, InputContext, Progress
from .run import IngestReport, Options
from .sink import Batch, InputSink, ManySink
from .streams import SNIFF_BYTES, InputStream, digest, hexdigest, open_input

if TYPE_CHECKING:
    from ..schemas.warehouse import Warehouse

BATCH_INPUTS = 5_000
BATCH_BYTES = 256 << 20
"""Inputs and decompressed bytes after which a batch is committed."""
_SECOND_LOOK = 1 << 20
"""Bytes looked at where the first SNIFF_BYTES do not tell the format: a log may open with one very long line."""
_SCRAPED_AT = re.compile(rb"^#\s*scraped_at\s", re.MULTILINE)

logger = logging.getLogger(__name__)


@dataclass
class Prepared:
    """An input that is to be read, its stream standing where reading begins."""

    located: Located
    format: Format
    stream: InputStream
    head: bytes
    context: InputContext
    instant: dt.datetime | None
    """The time in the name, where it is part of what the input is."""
    continuation: Continuation | None = None
    settling: bool = False


class Session:
    """One run of ``ingest``."""

    def __init__(self, warehouse: Warehouse, options: Options, progress: Callable[[str], None] | None) -> None:
        self._warehouse = warehouse
        self._options = options
        self._instance = options.instance or options.deployment
        self._progress = progress or (lambda _: None)
        self._report = IngestReport()
        self._notes: dict[str, None] = {}
        self._now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
        self._deployments = {options.deployment}
        self._formats_in: dict[str, set[str]] = {}
        self._doubtful: list[tuple[Located, Detected, bytes]] = []
        self._carried: dict[tuple[str, str], tuple[str, Any]] = {}
        self._empty = 0

    def run(self, located: list[Located], labels: dict[str, str]) -> IngestReport:
        """Read all inputs and store the labels."""
        with exclusive(self._warehouse.root):
            recover(self._warehouse)
            self._known = KnownInputs(self._warehouse, self._options.deployment, self._instance)
            self._batch = self._new_batch()
            self._bytes = 0
            self._read_all(located)
            self._settle_doubtful()
            self._commit()
            store_labels(self._warehouse, self._options.deployment, self._instance, labels, self._now)
            ensure_deployments(self._warehouse, self._deployments, self._instance, self._now)
        if self._empty:
            self._notes.setdefault(f"{self._empty} empty inputs were left out: there was nothing to read in them.")
        self._report.notes = list(self._notes)
        return self._report

    # --- the loop ------------------------------------------------------------------------------------------------

    def _read_all(self, located: list[Located]) -> None:
        waiting = _Lookahead(self._prepare(located))
        while (item := waiting.peek()) is not None:
            if hasattr(item.format.load(), "read_many"):
                self._read_many(item.format, waiting)
            else:
                waiting.take()
                self._read_one(item)
            if len(self._batch.tallies) >= BATCH_INPUTS or self._bytes >= BATCH_BYTES:
                self._commit()

    def _prepare(self, located: list[Located]) -> Iterator[Prepared]:
        for found in located:
            self._progress(found.source)
            if found.problem:
                self._refuse(found, found.problem, UNKNOWN, found.source.encode("utf-8", "surrogateescape"))
            elif found.url:
                self._read_url(found)
            else:
                try:
                    prepared = self._open(found if found.path else self._spool(found))
                except OSError as error:
                    reason = f"The file cannot be read ({error.strerror or error}): repair it and ingest it again."
                    self._refuse(found, reason, UNKNOWN, found.source.encode("utf-8", "surrogateescape"))
                    continue
                if prepared:
                    yield prepared

    def _spool(self, found: Located) -> Located:
        """Standard input as a file, which can be read twice."""
        path = self._warehouse.aside(".stdin")
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file, 1 << 20)
        return replace(found, path=path)

    # --- one input: what is it, and is it new? -------------------------------------------------------------------

    def _open(self, found: Located) -> Prepared | None:
        path = found.path
        assert path is not None
        stream = open_input(path)
        try:
            return self._identify(found, path, stream)
        except BaseException:
            stream.close()
            raise

    def _identify(self, found: Located, path: Path, stream: InputStream) -> Prepared | None:
        head = stream.head
        name = self._options.format
        if name is None:
            detected = self._detect(found, stream)
            if detected is None:
                stream.close()
                return None
            name = detected
        kind = FORMATS[name]
        self._formats_in.setdefault(found.rotation[0], set()).add(name)
        by_name = kind.timed_by_name and not _SCRAPED_AT.search(head)
        instant = named_instant(found.source) if by_name else None
        context = InputContext(
            source=found.source,
            deployment=self._options.deployment,
            instance=self._instance,
            modified_at=modified_at(path if found.source != "stdin" else None),
            named_at=named_instant(found.source),
            year=self._options.year,
            timezone=self._options.timezone,
            hash_text=self._options.hash_text,
            instance_given=self._options.instance is not None,
            settled=stream.compression is not None or found.source == "stdin",
        )
        prepared = Prepared(found, kind, stream, head, context, instant)
        return self._place(prepared, path, grows=kind.grows and not by_name)

    def _detect(self, found: Located, stream: InputStream) -> str | None:
        """The format; None once the input was refused, left out, or put aside until its siblings are known."""
        detected = detect(stream.head)
        if detected.format is None and len(stream.head) == SNIFF_BYTES:
            detected = detect(stream.peek(_SECOND_LOOK))
        if detected.format is not None:
            return detected.format
        if detected.perhaps_scrape:
            self._doubtful.append((found, detected, stream.head))
        else:
            reason = stream.damage or detected.reason or ""
            self._refuse(found, reason, UNKNOWN, stream.head)
        return None

    def _place(self, item: Prepared, path: Path, *, grows: bool) -> Prepared | None:
        """Where reading begins: at the start of a new input, behind what is known of a grown one, nowhere else."""
        if item.stream.exhausted:
            whole = hexdigest(digest(item.stream.peek(1 << 62)))
            if known := self._known.same(whole, item.instant):
                return self._skip(item, known)
        elif item.instant is not None:
            grows = False
        candidates = self._known.prefixes(item.head, item.located.source)
        match = match_prefix(lambda: open_input(path), candidates) if candidates else None
        if match is None:
            return self._carry(item)
        if match.complete and (item.instant is None or self._known.same(match.known.content_hash, item.instant)):
            return self._skip(item, match.known)
        if not grows:
            return item
        start = match.steady if match.known.settling and match.steady else match.known
        item.stream.close()
        stream = open_input(path)
        stream.skip(start.bytes)
        unchanged = stream.compression is None and path.stat().st_size == start.seen
        context = replace(
            item.context,
            offset=start.bytes,
            resume=start.resume,
            settled=item.context.settled or unchanged,
        )
        sources = match.sources | {item.located.source}
        return replace(
            item,
            stream=stream,
            context=context,
            continuation=Continuation(sources, start.bytes),
            settling=unchanged,
        )

    def _skip(self, item: Prepared, known: Known) -> None:
        item.stream.close()
        self._report.of(item.format.name).known += 1
        if item.format.carries:
            self._carried[item.located.rotation] = (item.format.name, known.resume)

    def _carry(self, item: Prepared) -> Prepared:
        """Give a new file of a rotated set what the reader remembered at the end of the file before."""
        name, resume = self._carried.get(item.located.rotation, ("", {}))
        if name == item.format.name:
            item.context = replace(item.context, resume=resume)
        return item

    # --- reading -------------------------------------------------------------------------------------------------

    def _read_one(self, item: Prepared) -> None:
        number = self._batch.open(item.context, item.format.name, item.continuation)
        try:
            progress = item.format.load().read(item.stream.buffered(), item.context, InputSink(self._batch, number))
        except (SpecledgerError, MemoryError):
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
            while (item := waiting.peek()) is not None and item.format is kind and not self._full():
                waiting.take()
                taken.append(item)
                sink.numbers.append(self._batch.open(item.context, kind.name, item.continuation))
                yield Input(item.stream.buffered(), item.context)
                self._bytes += item.stream.position
                item.stream.release()
                self._remember(item, item.stream.position)

        try:
            progresses = kind.load().read_many(inputs(), sink)
        except (SpecledgerError, MemoryError):
            raise
        except Exception:
            if len(taken) == 1 and not hasattr(kind.load(), "read"):
                raise
            logger.debug("reading %d inputs at once failed", len(taken), exc_info=True)
            self._batch.discard()
            self._batch = self._new_batch()
            for item in taken:
                item.stream.close()
                again = self._reopen(item)
                self._read_one(again)
            return
        for item, number, progress in zip(taken, sink.numbers, progresses, strict=True):
            self._finish(item, number, progress)

    def _reopen(self, item: Prepared) -> Prepared:
        assert item.located.path is not None
        stream = open_input(item.located.path)
        stream.skip(item.context.offset)
        return replace(item, stream=stream)

    def _full(self) -> bool:
        return len(self._batch.tallies) >= BATCH_INPUTS or self._bytes >= BATCH_BYTES

    def _finish(self, item: Prepared, number: int, progress: Progress) -> None:
        stream = item.stream
        if stream.damage:
            self._batch.reject(number, stream.position, stream.damage, "", 1)
        known = self._remember(item, progress.offset, progress.resume)
        self._batch.finish(number, known)
        if item.format.carries:
            self._carried[item.located.rotation] = (item.format.name, progress.resume)
        stream.close()

    def _remember(self, item: Prepared, size: int, resume: Mapping[str, Any] | None = None) -> Known:
        """What is known of an input from now on, of which ``size`` bytes were read."""
        known = Known(
            source=item.located.source,
            bytes=size,
            head_hash=head_hash(item.head, size),
            content_hash=content_key(item.stream.prefix_hash(size) or self._hash_again(item, size), item.instant),
            resume=resume or {},
            seen=max(item.stream.position, size),
            settling=item.settling,
        )
        self._known.add(known)
        return known

    def _hash_again(self, item: Prepared, size: int) -> str:
        assert item.located.path is not None
        with open_input(item.located.path) as stream:
            stream.skip(size)
            return stream.prefix_hash(size) or ""

    def _fail(self, item: Prepared, number: int, error: Exception) -> None:
        """A reader that fails is a fault of ours: what it read is kept, the rest is a reject, the next run tries again."""
        logger.debug("reading %s failed", item.located.source, exc_info=True)
        reason = (
            f"Reading stopped by a fault of specledger ({type(error).__name__}: {str(error)[:200]}): please report it."
        )
        self._batch.reject(number, item.stream.position, reason, "", 1)
        self._batch.finish(number, Known(item.located.source, 0, "", f"failed {item.located.source}"))
        item.stream.close()

    def _read_url(self, found: Located) -> None:
        kind = FORMATS["prometheus"]
        identity = hexdigest(digest(b"url\0" + found.source.encode()))
        known = self._known.same(identity, None)
        context = InputContext(
            source=found.source,
            deployment=self._options.deployment,
            instance=self._instance,
            modified_at=self._now,
            offset=known.bytes if known else 0,
            resume=known.resume if known else {},
            instance_given=self._options.instance is not None,
        )
        number = self._batch.open(context, kind.name)
        progress = kind.load().read_url(found.url, context, InputSink(self._batch, number))
        if known is None or dict(progress.resume) != dict(known.resume) or self._batch.tallies[number].records:
            self._batch.finish(
                number, Known(found.source, progress.offset, "", identity, progress.resume, progress.offset)
            )

    # --- refusing ------------------------------------------------------------------------------------------------

    def _refuse(self, found: Located, reason: str, name: str, identity: bytes) -> None:
        content = hexdigest(digest(b"refused\0" + reason.encode() + b"\0" + identity))
        if self._known.same(content, None):
            self._report.of(name).known += 1
            return
        context = InputContext(
            source=found.source,
            deployment=self._options.deployment,
            instance=self._instance,
            modified_at=modified_at(found.path),
            named_at=named_instant(found.source),
        )
        number = self._batch.open(context, name)
        self._batch.reject(number, 0, reason, "", 1)
        refused = Known(found.source, 0, "", content)
        self._known.add(refused)
        self._batch.finish(number, refused)

    def _settle_doubtful(self) -> None:
        """Among scrapes, what is no scrape is a failed one; elsewhere it is of no known kind, or empty."""
        for found, detected, head in self._doubtful:
            scrape = "exposition" in self._formats_in.get(found.rotation[0], ())
            if not scrape and not head.strip():
                self._empty += 1
                continue
            self._refuse(found, detected.reason or "", "exposition" if scrape else UNKNOWN, head)

    # --- committing ----------------------------------------------------------------------------------------------

    def _new_batch(self) -> Batch:
        return Batch(self._warehouse, self._notes, self._now)

    def _commit(self) -> None:
        batch, self._batch, self._bytes = self._batch, self._new_batch(), 0
        batch.commit()
        self._deployments |= batch.deployments
        for tally in batch.tallies:
            report = self._report.of(tally.format)
            report.files += 1
            report.records += tally.records
            report.rejects += tally.rejects
            report.duplicates += tally.duplicates
            for table, count in tally.table_rows.items():
                self._report.rows[table] = self._report.rows.get(table, 0) + count
            if tally.first_reject:
                self._report.rejected.append((tally.context.source, tally.first_reject))


class _Lookahead:
    """An iterator whose next item can be looked at."""

    def __init__(self, items: Iterator[Prepared]) -> None:
        self._items = items
        self._next: Prepared | None = None

    def peek(self) -> Prepared | None:
        if self._next is None:
            self._next = next(self._items, None)
        return self._next

    def take(self) -> None:
        self._next = None
