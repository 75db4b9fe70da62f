"""One input before it is read: what it is, whether it is new, and where reading begins."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass, replace
from pathlib import Path

from .content_hash import digest, hexdigest
from .dedupe import Pass
from .detect import Detected, detect
from .formats import FORMATS, UNKNOWN, Format
from .identity import EMPTY_HASH, Known, KnownInputs, Match, content_key, head_hash, match_prefix
from .object_store import StoredObject
from .opening import Located, modified_at, named_instant
from .reader import InputContext
from .streams import SNIFF_BYTES, InputStream, beginning, open_input, size_of

SECOND_LOOK = 1 << 20
"""Bytes looked at where the first SNIFF_BYTES do not tell the format: a log may open with one very long line."""
_SCRAPED_AT = re.compile(rb"^#\s*scraped_at\s", re.MULTILINE)


@dataclass(frozen=True)
class Options:
    """What the user said about the inputs of one ingest."""

    deployment: str
    instance: str | None
    format: str | None
    year: int | None
    timezone: str | None
    hash_text: bool

    @property
    def server(self) -> str:
        """The instance, which is the deployment's name unless given."""
        return self.instance or self.deployment


@dataclass(frozen=True)
class Prepared:
    """An input that is to be read, its stream standing where reading begins."""

    located: Located
    path: Path | StoredObject
    format: Format
    stream: InputStream
    head: bytes
    context: InputContext
    instant: dt.datetime | None
    """The time in the name, where it is part of what the input is."""
    before: frozenset[Pass] = frozenset()
    """The passes that read what lies before the place where reading begins."""
    settling: bool = False
    """Whether this pass only settles a waiting last line."""

    def reopened(self) -> Prepared:
        """The same input with a fresh stream."""
        self.stream.close()
        stream = open_input(self.path)
        stream.skip(self.context.offset)
        return replace(self, stream=stream)

    def known(self, size: int) -> Known:
        """What is to be remembered of the input once ``size`` bytes of it were read."""
        content = self.stream.prefix_hash(size)
        if content is None:
            with open_input(self.path) as again:
                again.skip(size)
                content = again.prefix_hash(size) or ""
        return Known(
            source=self.located.source,
            bytes=size,
            head_hash=head_hash(self.head, size),
            content_hash=content_key(content, self.instant),
            seen=max(self.stream.position, size),
            settling=self.settling,
            torn=(self.context.settled or self.context.followed)
            and size == self.stream.position
            and self.stream.last not in (b"", b"\n"),
        )


@dataclass(frozen=True)
class AlreadyKnown:
    """An input of which the warehouse holds everything."""

    located: Located
    format: Format
    known: Known


@dataclass(frozen=True)
class Refused:
    """An input that cannot be read, and why; ``identity`` stands for its content, or its name where that is unknown."""

    located: Located
    reason: str
    identity: str
    format: str = UNKNOWN
    perhaps_scrape: bool = False
    empty: bool = False


@dataclass(frozen=True)
class Waiting:
    """An input of which too little has been written to tell what it is; ``known`` is what a later ingest compares."""

    located: Located
    known: Known


Outcome = Prepared | AlreadyKnown | Refused | Waiting


def prepare(found: Located, path: Path | StoredObject, options: Options, known: KnownInputs) -> Outcome:
    """Open an input, tell its format and compare it with what is known; ``path`` is where its bytes are."""
    try:
        stream = open_input(path)
    except OSError as error:
        reason = f"The file cannot be read ({error.strerror or error}): repair it and ingest it again."
        return refused(found, reason)
    try:
        outcome = _identify(found, path, stream, options, known)
    except BaseException:
        stream.close()
        raise
    if not isinstance(outcome, Prepared):
        stream.close()
    return outcome


def refused(found: Located, reason: str) -> Refused:
    """A refusal of an input whose content cannot be known."""
    return Refused(found, reason, _identity(reason, found.source.encode("utf-8", "surrogateescape")))


def _identity(reason: str, content: bytes) -> str:
    return hexdigest(digest(b"refused\0" + reason.encode() + b"\0" + content))


def _identify(
    found: Located, path: Path | StoredObject, stream: InputStream, options: Options, known: KnownInputs
) -> Outcome:
    name = options.format
    if name is None:
        detected = _detect(stream)
        if detected.format is None:
            reason = detected.reason or ""
            if _may_grow_into_something(found, stream, known):
                return Waiting(found, Known(found.source, 0, EMPTY_HASH, EMPTY_HASH, seen=len(stream.head)))
            empty = not stream.head.strip() and not stream.damage
            return Refused(
                found, reason, _identity(reason, beginning(path)), perhaps_scrape=detected.perhaps_scrape, empty=empty
            )
        name = detected.format
    kind = FORMATS[name]
    try:
        kind.load()
    except ImportError as error:
        return refused(found, f"Reading {name} needs a library that is not installed ({error}): install it.")
    by_name = kind.timed_by_name and not _names_its_times(stream.head)
    named_at = named_instant(found.source)
    streamed = found.path is None
    context = InputContext(
        source=found.source,
        deployment=options.deployment,
        instance=options.server,
        modified_at=modified_at(None if streamed else path),
        named_at=named_at,
        year=options.year,
        timezone=options.timezone,
        hash_text=options.hash_text,
        instance_given=options.instance is not None,
        settled=stream.compression is not None or streamed,
    )
    item = Prepared(found, path, kind, stream, stream.head, context, named_at if by_name else None)
    return _place(item, known, by_name=by_name)


def _may_grow_into_something(found: Located, stream: InputStream, known: KnownInputs) -> bool:
    """Whether there is less than a line of a plain file, and it was not found just so before."""
    if found.path is None or stream.compression or not stream.exhausted or not stream.head.strip():
        return False
    if b"\n" in stream.head or b"\0" in stream.head:
        return False
    return all(one.seen != len(stream.head) for one in known.prefixes(b"", found.source))


def _names_its_times(head: bytes) -> bool:
    # The plain search comes first because it is a hundred times as fast, and nearly always enough.
    return b"scraped_at" in head and _SCRAPED_AT.search(head) is not None


def _detect(stream: InputStream) -> Detected:
    detected = detect(stream.head)
    if detected.format is None and len(stream.head) == SNIFF_BYTES:
        detected = detect(stream.peek(SECOND_LOOK))
    if detected.format is None and stream.damage and not stream.head.strip():
        return Detected(None, stream.damage)
    return detected


def _place(item: Prepared, known: KnownInputs, *, by_name: bool) -> Outcome:
    """Where reading begins: at the start of a new input, behind what is known of a grown one, nowhere else."""
    if item.stream.exhausted:
        same = known.same(item.stream.rest_hash(), item.instant)
        if same and not same.waiting:
            return AlreadyKnown(item.located, item.format, same)
        if by_name:
            return item  # a single scrape neither grows nor waits
    candidates = known.prefixes(item.head, item.located.source)
    match = match_prefix(lambda: open_input(item.path), candidates) if candidates else None
    if match is None:
        return item
    if match.complete and not match.known.waiting:
        same = known.same(match.known.content_hash.partition("@")[0], item.instant)
        if same:
            return AlreadyKnown(item.located, item.format, same)
    size = size_of(item.path) if item.stream.compression is None else None
    unchanged = any(one.source == item.located.source and one.seen == size for one in candidates)
    item = replace(item, context=replace(item.context, settled=item.context.settled or unchanged))
    grows = item.format.grows and not by_name
    return _continued(item, match, match.steady, unchanged) if grows and match.steady else item


def _continued(item: Prepared, match: Match, start: Known, unchanged: bool) -> Prepared:
    """The input from the end of what was read of it before; where a waiting line was given up, from that line on."""
    item.stream.close()
    stream = open_input(item.path)
    stream.skip(start.bytes)
    context = replace(item.context, offset=start.bytes, resume=start.resume)
    return replace(
        item,
        stream=stream,
        context=context,
        before=match.before,
        settling=unchanged,
    )
