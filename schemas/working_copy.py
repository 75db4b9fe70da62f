"""A warehouse wherever it lies: a folder as it is, and for one in an object store a folder on this machine.

A reader gets one published state, whose files come when they are looked at. A writer takes the lease, gets the published
state whole, works on it as on any folder, and publishes what it has changed by replacing the root of the manifest, in one
step and only if nobody else did. A run that is ended in between has changed nothing; what it had uploaded is removed by
the next, which finds it in a list that was written before.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from .cache import UNFINISHED, Cache, digest, walk
from .errors import RemoteError, SpecledgerError, UsageError, WarehouseError, WarehouseLocked
from .lease import KEY, Lease
from .lock import WAIT_S, exclusive
from .manifest import (
    DIGITS,
    ROOT,
    Entry,
    Manifest,
    key,
    new_run,
    shard_key,
    sharded,
    version_of,
)
from .object_store import ObjectGone, Store, StoreFailed, is_url, together
from .warehouse import ON_DEMAND

T = TypeVar("T")
PENDING = "_pending"
GRACE_S = 3600.0
"""How long objects that nothing names any more are kept for those who read an earlier state."""
OPEN: dict[Path, list[Cache]] = {}
"""What the folders that are open at the moment are copies of, once for everyone who has opened them."""
_PUBLISHERS: dict[Path, Callable[[], None]] = {}
_REGISTERING = threading.Lock()


@contextlib.contextmanager
def opened(place: str, *, writing: bool = False, wait_s: float = WAIT_S) -> Iterator[Path]:
    """The folder of a warehouse. What was changed in it is published at the end of the block.

    It is published as well after an error that says that part of the work could not be done, and not after one of the
    warehouse itself or wrong use. Raises RemoteError where the store does not answer, WarehouseLocked where another run
    does not end within ``wait_s``.
    """
    if not is_url(place):
        yield Path(place)
        return
    cache = Cache(Store(place))
    with _writing(cache, wait_s) if writing else _reading(cache) as root:
        try:
            with _known(OPEN, root, cache):
                yield root
        except SpecledgerError as error:
            error.args = (str(error).replace(str(root), cache.store.url), *error.args[1:])
            raise


def read(place: str, work: Callable[[Path], T]) -> T:
    """What work gives that only reads; it is done again where the state that it began with has gone meanwhile."""
    try:
        with opened(place) as root:
            return work(root)
    except ObjectGone:
        with opened(place) as root:
            return work(root)


def publish(root: Path) -> None:
    """Publish what was changed so far in a folder that is open for writing; nothing where it is the warehouse itself."""
    if root in _PUBLISHERS:
        _PUBLISHERS[root]()


@contextlib.contextmanager
def _reading(cache: Cache) -> Iterator[Path]:
    manifest, _ = cache.manifest()
    with cache.view(manifest) as root, _known(ON_DEMAND, root, lambda paths: cache.fill(root, manifest, paths)):
        yield root


@contextlib.contextmanager
def _known(registry: dict[Path, list[T]], root: Path, item: T) -> Iterator[None]:
    """Have an item of a folder known inside the block; threads that read the same state share its folder."""
    with _REGISTERING:
        registry.setdefault(root, []).append(item)
    try:
        yield
    finally:
        with _REGISTERING:
            registry[root].remove(item)
            if not registry[root]:
                del registry[root]


@contextlib.contextmanager
def _writing(cache: Cache, wait_s: float) -> Iterator[Path]:
    with exclusive(cache.folder, "writer", wait_s), Lease(cache.store, cache.identity(), wait_s) as lease:
        publisher = _Publisher(cache, lease)
        cache.place(cache.copy, publisher.base, whole=True)
        root = cache.copy.resolve()
        _PUBLISHERS[root] = publisher.publish
        try:
            yield root
        except (WarehouseError, UsageError, StoreFailed):
            raise
        except SpecledgerError:
            publisher.publish()
            raise
        finally:
            del _PUBLISHERS[root]
        publisher.publish()


@dataclass(frozen=True)
class _Upload:
    name: str
    content: Path | bytes


class _Publisher:
    """Brings changes of the working copy into the store, under a lease."""

    def __init__(self, cache: Cache, lease: Lease) -> None:
        self._cache = cache
        self._store = cache.store
        self._lease = lease
        self._now = self._clock()
        self.base, self._tag = cache.manifest()
        self._settle()

    def publish(self) -> None:
        """Publish the present state of the working copy; nothing happens if it is the published one."""
        if any((self._cache.copy / UNFINISHED[1]).glob("*.json")):
            return  # the next run puts right what was begun
        run = new_run()
        after, files = self._present(run)
        shards = self._other_shards(after)
        if after.shards == self.base.shards:
            return
        expired = [name for name, since in self.base.obsolete.items() if self._now - since > GRACE_S]
        uploads = [*files, *(_Upload(name, body) for name, body in shards.items())]
        pending = f"{PENDING}/{run}.json"
        names = [upload.name for upload in uploads]
        listed = {"copy": self._cache.identity(), "objects": [*names, *expired]}
        self._store.put(pending, json.dumps(listed).encode())
        together(lambda upload: self._store.put(upload.name, upload.content), uploads)
        try:
            self._lease.check()
            kept = {name: since for name, since in self.base.obsolete.items() if name not in expired}
            now = self._clock()
            after.obsolete = kept | dict.fromkeys(sorted(self.base.keys() - after.keys()), now)
            self._put_root(after)
        except WarehouseLocked:
            with contextlib.suppress(RemoteError):
                self._store.delete([*names, pending])
            raise
        before, self.base = self.base, after
        self._store.delete([*expired, pending])
        for name, body in shards.items():
            self._cache.keep_shard(name, body)
        for path, entry in after.files.items():
            if before.files.get(path) != entry:
                self._cache.keep(self._cache.copy / path, entry)
        self._cache.tidy(after)

    def _present(self, run: str) -> tuple[Manifest, list[_Upload]]:
        """The state that the working copy is in, and the files that the store has not got."""
        after, uploads = Manifest(run), []
        for path, status in walk(self._cache.copy):
            if path.endswith(".json"):
                after.texts[path] = (self._cache.copy / path).read_text(encoding="utf-8")
                continue
            known = self.base.files.get(path)
            if known is None or (known.size, known.modified_ns) != (status.st_size, status.st_mtime_ns):
                place = self._cache.copy / path
                content = digest(place)
                version = known.version if known and known.digest == content else version_of(content, run)
                if known is None or known.version != version:
                    uploads.append(_Upload(key(path, version), place))
                known = Entry(version, content, status.st_size, status.st_mtime_ns)
            after.files[path] = known
        return after, uploads

    def _other_shards(self, after: Manifest) -> dict[str, bytes]:
        """Give a state its shards; those that the store has not got."""
        other = {}
        for part, shard in sharded(after.files, after.texts).items():
            body = shard.body()
            version = version_of(hashlib.sha256(body).hexdigest(), after.run)
            known = self.base.shards.get(part, "")
            if known[:DIGITS] == version[:DIGITS]:
                version = known
            else:
                other[shard_key(part, version)] = body
            after.shards[part] = version
        return other

    def _clock(self) -> float:
        """Now, by the clock of the store, as far as the lease was just renewed."""
        return self._store.clock(KEY).timestamp()

    def _put_root(self, manifest: Manifest) -> None:
        tag = self._store.replace(ROOT, manifest.body(), self._tag)
        if tag is None:
            raise WarehouseLocked(
                f"Another run has published into {self._store.url} meanwhile: nothing of this one was, "
                "run the same again."
            )
        self._tag = tag

    def _settle(self) -> None:
        """Remove what runs that were ended had uploaded, once none of them can publish it any more."""
        found = self._store.below(PENDING)
        if not found:
            return
        self.base.run = new_run()
        self._put_root(self.base)  # whoever read the root before can no longer replace it
        needed = self.base.keys() | self.base.obsolete.keys()
        for name, written in found.items():
            listed = self._store.get(name)
            own, objects = _listed(listed.body) if listed else (None, [])
            if own == self._cache.identity() or self._now - written.timestamp() > GRACE_S:
                self._store.delete([*(one for one in objects if one not in needed), name])


def _listed(body: bytes) -> tuple[str | None, Sequence[str]]:
    """Which working copy a list of uploads belongs to, and their keys; nothing if it cannot be read."""
    try:
        found = json.loads(body)
        return found["copy"], [str(name) for name in found["objects"]]
    except (ValueError, KeyError, TypeError):
        return None, []
