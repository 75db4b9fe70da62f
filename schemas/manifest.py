"""What a warehouse in an object store consists of: a small root names shards, one a date, and they name the files.

Objects of files and shards are never written twice: each key holds the hash of its content and the run that wrote it.
So whoever has read the root has one whole state, for as long as its objects are kept.
"""

from __future__ import annotations

import json
import re
import uuid
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from .errors import WarehouseError, WarehouseTooNew

FORMAT = 1
"""Raised whenever a specledger of before would misread what this one writes."""
ROOT = "_manifest.json"
SHARDS = "_manifest"
DIGITS = 16
"""Of a hash, in a key."""
UNDATED = "all"
"""The shard of what belongs to no date."""
_DATED = re.compile(r"(?:^|/)date=(\d{4}-\d\d-\d\d)/")
_NAMED = re.compile(r"(?:^|/)(\d{4}-\d\d-\d\d)\.[^/]*$")


@dataclass(frozen=True)
class Entry:
    """One file: which object holds it, and what it is like on disk."""

    version: str
    """What its key has beyond its path."""
    digest: str
    """SHA-256 of its bytes."""
    size: int
    modified_ns: int


@dataclass
class Shard:
    """The files of one date, and the small texts, which are held in place."""

    files: dict[str, Entry] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    def body(self) -> bytes:
        """As it is stored; equal shards give equal bytes."""
        files = {
            path: [entry.version, entry.digest, entry.size, entry.modified_ns]
            for path, entry in sorted(self.files.items())
        }
        return json.dumps({"files": files, "texts": dict(sorted(self.texts.items()))}, separators=(",", ":")).encode()


@dataclass
class Manifest:
    """One whole state of a warehouse."""

    run: str = ""
    """The one that wrote it; no two roots have the same."""
    shards: dict[str, str] = field(default_factory=dict)
    """The version of each shard, by date."""
    obsolete: dict[str, float] = field(default_factory=dict)
    """Keys that readers of an earlier state may still want, and since when nothing names them (s since 1970)."""
    files: dict[str, Entry] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)

    def body(self) -> bytes:
        """The root as it is stored."""
        root = {"format": FORMAT, "run": self.run, "shards": self.shards, "obsolete": self.obsolete}
        return json.dumps(root, separators=(",", ":"), sort_keys=True).encode()

    def keys(self) -> set[str]:
        """The keys of all objects that this state needs."""
        found = {key(path, entry.version) for path, entry in self.files.items()}
        return found | {shard_key(part, version) for part, version in self.shards.items()}


def read_root(body: bytes, where: str) -> Manifest:
    """The state that a root describes, whose shards are still to be added.

    Raises WarehouseTooNew where a newer specledger wrote it, WarehouseError where it cannot be read.
    """
    try:
        root = json.loads(body)
        if root["format"] > FORMAT:
            raise WarehouseTooNew(
                f"{where} has format {root['format']}, and this specledger knows {FORMAT}: upgrade specledger."
            )
        return Manifest(root["run"], dict(root["shards"]), dict(root["obsolete"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(where, error) from error


def add_shard(manifest: Manifest, body: bytes, where: str) -> None:
    """Add what a shard holds; WarehouseError where it cannot be read."""
    try:
        found = json.loads(body)
        manifest.files |= {_checked(path): Entry(*values) for path, values in found["files"].items()}
        manifest.texts |= {_checked(path): text for path, text in found["texts"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(where, error) from error


def sharded(files: Mapping[str, Entry], texts: Mapping[str, str]) -> dict[str, Shard]:
    """The same by date."""
    shards: dict[str, Shard] = defaultdict(Shard)
    for path, entry in files.items():
        shards[_part(path)].files[path] = entry
    for path, text in texts.items():
        shards[_part(path)].texts[path] = text
    return dict(shards)


def key(path: str, version: str) -> str:
    """``<table>/date=…/deployment=…/<name>.<version>.parquet`` of a file."""
    stem, dot, suffix = path.rpartition(".")
    return f"{stem}.{version}{dot}{suffix}"


def shard_key(part: str, version: str) -> str:
    """Where a shard lies."""
    return f"{SHARDS}/{part}.{version}.json"


def version_of(digest: str, run: str) -> str:
    """What distinguishes content written by a run from all other; ``digest`` is its SHA-256."""
    return f"{digest[:DIGITS]}-{run}"


def new_run() -> str:
    """A name for a run that no other has."""
    return uuid.uuid4().hex[:12]


def _damaged(where: str, error: Exception) -> WarehouseError:
    return WarehouseError(f"{where} is damaged ({error}): restore it from a backup.")


def _part(path: str) -> str:
    """The date of ``…/date=<date>/…`` or of ``…/<date>.<suffix>``."""
    found = _DATED.search(path) or _NAMED.search(path)
    return found[1] if found else UNDATED


def _checked(path: str) -> str:
    """A path that stays inside the warehouse; ValueError otherwise."""
    if path.startswith("/") or "\0" in path or not {"", ".", ".."}.isdisjoint(path.split("/")):
        raise ValueError(f"{path!r} is no path inside a warehouse")
    return path
