"""Which inputs are known already: by the hash of their content, and by their head where they have grown since."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from .content_hash import digest, hexdigest
from .dedupe import Pass
from .known_records import records
from .streams import CHUNK, InputStream

if TYPE_CHECKING:
    from ..schemas.warehouse import Warehouse

HEAD_BYTES = 4_096
"""Bytes at the start of an input whose hash finds what it may have grown from."""
EMPTY_HASH = hexdigest(digest())
_KEPT = ("seen", "settling", "waiting", "torn")
_CORE = "core"
"""Key inside the stored resume under which ingest keeps its own facts, beside what the reader returned."""


@dataclass(frozen=True)
class Known:
    """What an earlier pass recorded of an input."""

    source: str
    bytes: int
    head_hash: str
    content_hash: str
    resume: Mapping[str, Any] = field(default_factory=dict)
    seen: int = 0
    """Size of the input at that pass; more than ``bytes`` where an unterminated line was left waiting."""
    settling: bool = False
    """Whether that pass only turned a waiting line into a reject."""
    waiting: bool = False
    """Whether what the reader returned holds records that are no rows yet."""
    torn: bool = False
    """Whether it ended within a line, which was given up or taken for whole: reading cannot go on there."""
    ingested_at: dt.datetime = dt.datetime.min
    """When that pass was, naive UTC."""


def head_hash(head: bytes, size: int) -> str:
    """The hash of the first HEAD_BYTES bytes of an input of that size."""
    return hexdigest(digest(head[: min(HEAD_BYTES, size)]))


def content_key(content_hash: str, instant: dt.datetime | None) -> str:
    """The stored hash of an input whose time lies in its name: equal content at two times is two inputs."""
    if instant is None:
        return content_hash
    return f"{content_hash}@{(instant - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)}"


def pack_resume(known: Known) -> str:
    """The stored form of what a reader returned, with what ingest itself must remember."""
    core = {name: getattr(known, name) for name in _KEPT}
    return json.dumps({**known.resume, _CORE: core}, sort_keys=True, default=str)


class KnownInputs:
    """The inputs of one deployment and instance that the warehouse holds, those of the running ingest included."""

    def __init__(self, warehouse: Warehouse, deployment: str, instance: str, now: dt.datetime) -> None:
        self._now = now
        stored = records(warehouse, deployment).filter(pl.col("instance") == instance).drop("instance")
        stored = stored.sort("ingested_at", maintain_order=True)
        stored = stored.with_columns(base=pl.col("content_hash").str.split("@").list.first())
        self._stored = stored
        self._by_content = _Index(stored["base"])
        self._by_head = _Index(stored["head_hash"])
        sizes = stored["bytes"].clip(upper_bound=HEAD_BYTES).unique().to_list()
        self._head_sizes: set[int] = set(sizes)
        self._new_by_content: dict[str, list[Known]] = {}
        self._new_by_head: dict[str, list[Known]] = {}

    def add(self, known: Known) -> None:
        """Remember an input of the running ingest."""
        known = replace(known, ingested_at=self._now)
        self._new_by_content.setdefault(known.content_hash.partition("@")[0], []).append(known)
        self._new_by_head.setdefault(known.head_hash, []).append(known)
        self._head_sizes.add(min(HEAD_BYTES, known.bytes))

    def same(self, content_hash: str, instant: dt.datetime | None) -> Known | None:
        """The known input with this content; where both have a time in their name, at the same time."""
        wanted = content_key(content_hash, instant)
        for known in self._find(self._by_content, self._new_by_content, content_hash):
            if instant is None or known.content_hash in (wanted, content_hash):
                return known
        return None

    def recorded(self, stored_hash: str) -> Known | None:
        """The last record with this stored hash of the content."""
        found = self._find(self._by_content, self._new_by_content, stored_hash.partition("@")[0])
        return next((known for known in found if known.content_hash == stored_hash), None)

    def prefixes(self, head: bytes, source: str) -> list[Known]:
        """Known inputs that may be the beginning of one with this head; their hash is yet to be checked.

        One of which nothing could be read has no content to be known by: there the source must be the same. Those of
        this source come first, the latest before.
        """
        found: list[Known] = []
        for size in self._head_sizes:
            if size <= len(head):
                found += self._find(self._by_head, self._new_by_head, hexdigest(digest(head[:size])))
        kept = (known for known in found if known.bytes or known.source == source)
        return sorted(kept, key=lambda known: known.source != source)

    def _find(self, index: _Index, new: dict[str, list[Known]], wanted: str) -> Iterator[Known]:
        yield from reversed(new.get(wanted, ()))
        for place in reversed(index.find(wanted)):
            yield _known(self._stored.row(place, named=True))


class _Index:
    """Row numbers of a text column by value; cheap to ask, small to keep."""

    def __init__(self, column: pl.Series) -> None:
        values = np.array(column.fill_null("").to_list(), dtype=np.bytes_)
        self._order: npt.NDArray[np.intp] = np.argsort(values, kind="stable")
        self._values = values[self._order]

    def find(self, wanted: str) -> list[int]:
        if not len(self._values):
            return []
        key = np.bytes_(wanted)
        first, last = np.searchsorted(self._values, key, "left"), np.searchsorted(self._values, key, "right")
        return sorted(self._order[first:last].tolist())


def _known(row: Mapping[str, Any]) -> Known:
    try:
        resume = json.loads(row["resume"] or "{}")
    except ValueError:
        resume = {}
    core = resume.pop(_CORE, {})
    return Known(
        source=row["source"],
        bytes=row["bytes"],
        head_hash=row["head_hash"],
        content_hash=row["content_hash"],
        resume=resume,
        ingested_at=row["ingested_at"],
        **{"seen": row["bytes"], **{name: core[name] for name in _KEPT if name in core}},
    )


@dataclass(frozen=True)
class Match:
    """How an input relates to what is known."""

    known: Known
    """The longest known beginning."""
    complete: bool
    """Whether the input ends where that does."""
    steady: Known | None
    """The longest known beginning behind which reading can go on: no line was given up there."""
    before: frozenset[Pass]
    """The passes that read what lies before its end."""


def match_prefix(open_again: Callable[[], InputStream], candidates: list[Known]) -> Match | None:
    """Read the input up to the longest candidate whose hash it bears out; None if there is none."""
    best: Known | None = None
    steady: Known | None = None
    complete = False
    verified: list[Known] = []
    with open_again() as stream:
        state, position = digest(), 0
        for candidate in sorted(candidates, key=lambda known: known.bytes):
            while position < candidate.bytes:
                chunk = stream.read(min(CHUNK, candidate.bytes - position))
                if not chunk:
                    break
                state.update(chunk)
                position += len(chunk)
            if position < candidate.bytes:
                break
            if hexdigest(state) == candidate.content_hash.partition("@")[0]:
                verified.append(candidate)
                if best is not None and candidate.bytes == best.bytes:
                    continue
                best, complete = candidate, stream.at_end()
                if not candidate.settling and not candidate.torn:
                    steady = candidate
    if best is None:
        return None
    before = {(one.source, one.ingested_at) for one in verified if steady and one.bytes <= steady.bytes}
    return Match(best, complete, steady, frozenset(before))
