"""Where the content of a warehouse in an object store lies on this machine, and how folders are made of it.

``objects`` holds every file that was read or written, under its hash; folders link to them, so that a file lies on the
disk once. A file that nobody has asked for yet has its name, size and time in a folder, and no content.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from .errors import WarehouseError
from .machine import caches
from .manifest import ROOT, SHARDS, Entry, Manifest, add_shard, key, read_root, shard_key
from .object_store import ObjectGone, Store, Tag, together
from .warehouse import DATABASE, READ, VIEWS

LOCAL = frozenset({DATABASE, VIEWS, "_state/looked_at", READ})
"""Files and folders of a warehouse that speak of paths or files of this machine, and stay on it."""
UNFINISHED = ("_tmp", "_pending")
"""Folders of a warehouse that hold what a run has not ended."""
ABANDONED_S = 86_400.0
"""Age at which a folder that was being made belongs to nobody."""


class Cache:
    """The folder of one warehouse among the caches of this machine."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.folder = caches() / _name(store)
        self.copy = self.folder / "copy"
        """The writer's working copy."""
        self._objects = self.folder / "objects"
        self._shards = self.folder / "shards"
        self._views = self.folder / "views"
        for folder in (self.folder, self._objects, self._shards, self._views):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def identity(self) -> str:
        """A name that no other cache has; asked for under the lock of the writer."""
        path = self.folder / "identity"
        if not path.exists():
            _write(path, uuid.uuid4().hex.encode())
        return path.read_text()

    # --- the state of the store ------------------------------------------------------------------------------------

    def manifest(self) -> tuple[Manifest, Tag | None]:
        """The state of the store and the tag of its root; an empty one and None where nothing was ever published."""
        found = self.store.get(ROOT)
        if found is None:
            return Manifest(), None
        manifest = read_root(found.body, f"{self.store.url}/{ROOT}")
        keys = [shard_key(*shard) for shard in manifest.shards.items()]
        with self._in_use():
            together(self._fetch_shard, [name for name in keys if not self._shard(name).exists()])
            for name in keys:
                add_shard(manifest, self._shard(name).read_bytes(), f"{self.store.url}/{name}")
        return manifest, found.tag

    def keep_shard(self, name: str, body: bytes) -> None:
        """Keep a shard that was just written."""
        _write(self._shard(name), body)

    def _fetch_shard(self, name: str) -> None:
        found = self.store.get(name)
        if found is None:
            raise ObjectGone(f"{self.store.url}/{name} does not exist.")
        self.keep_shard(name, found.body)

    def _shard(self, name: str) -> Path:
        return self._shards / name.removeprefix(f"{SHARDS}/")

    # --- folders ---------------------------------------------------------------------------------------------------

    def place(self, root: Path, manifest: Manifest, *, whole: bool) -> None:
        """Make a folder equal to a state, whatever was in it; files that are not held are fetched, if ``whole``."""
        for name in UNFINISHED:
            shutil.rmtree(root / name, ignore_errors=True)
        found = {path: (status.st_size, status.st_mtime_ns) for path, status in walk(root)}
        for path in found.keys() - manifest.files.keys() - manifest.texts.keys():
            (root / path).unlink()
            with contextlib.suppress(OSError):
                os.removedirs((root / path).parent)
        wanted = {
            path: entry for path, entry in manifest.files.items() if found.get(path) != (entry.size, entry.modified_ns)
        }
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._in_use():
            if whole:
                self._bring(wanted)
            _make_folders(root, (*wanted, *manifest.texts))
            held = set(os.listdir(self._objects))  # noqa: PTH208 - thousands of names
            for path, entry in wanted.items():
                place = self._held(entry)
                _link(place, root / path) if place.name in held else _hollow(f"{root}/{path}", entry)
        for path, text in manifest.texts.items():
            if path not in found or (root / path).read_text(encoding="utf-8") != text:
                _write(root / path, text.encode())

    def fill(self, root: Path, manifest: Manifest, paths: Iterable[Path]) -> None:
        """Give files of a folder their content."""
        names = (path.relative_to(root).as_posix() for path in paths)
        wanted = {
            name: manifest.files[name]
            for name in names
            if name in manifest.files and (root / name).stat().st_nlink == 1
        }
        if wanted:
            with self._in_use():
                self._bring(wanted)
                for name, entry in wanted.items():
                    _link(self._held(entry), root / name)

    @contextlib.contextmanager
    def view(self, manifest: Manifest) -> Iterator[Path]:
        """A folder with one state, for readers; those of the same state share it, and nobody changes it but by filling."""
        root = self._views / (manifest.run or "empty")
        with _shared(root.with_suffix(".lock")):
            if not root.exists():
                aside = self._views / f".{uuid.uuid4().hex}"
                self.place(aside, manifest, whole=False)
                try:
                    aside.rename(root)
                except OSError:  # another process was first
                    shutil.rmtree(aside, ignore_errors=True)
            self._tidy_views(root)
            yield root.resolve()

    def keep(self, path: Path, entry: Entry) -> None:
        """Hold a file that was just written."""
        with contextlib.suppress(FileExistsError):
            _hard_link(path, self._held(entry))

    def tidy(self, manifest: Manifest) -> None:
        """Let go of what neither a state nor a folder needs any more; not while anybody else fetches or reads it."""
        with (self.folder / "objects.lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            held = {self._held(entry).name for entry in manifest.files.values()}
            for item in os.scandir(self._objects):
                if item.name not in held and item.stat().st_nlink == 1:
                    Path(item.path).unlink(missing_ok=True)
            shards = {self._shard(shard_key(*shard)).name for shard in manifest.shards.items()}
            for item in os.scandir(self._shards):
                if item.name not in shards:
                    Path(item.path).unlink(missing_ok=True)

    def _tidy_views(self, own: Path) -> None:
        for item in list(os.scandir(self._views)):
            path = Path(item.path)
            if item.name.startswith("."):
                with contextlib.suppress(OSError):
                    if item.stat().st_mtime < time.time() - ABANDONED_S:
                        shutil.rmtree(path, ignore_errors=True)
            elif path.suffix == ".lock" and path.stem != own.name:
                with contextlib.suppress(OSError), path.open("r+") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(path.with_suffix(""), ignore_errors=True)
                    path.unlink()

    @contextlib.contextmanager
    def _in_use(self) -> Iterator[None]:
        """Inside the block nothing that is held goes."""
        with (self.folder / "objects.lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            yield

    def _held(self, entry: Entry) -> Path:
        return self._objects / f"{entry.digest}-{entry.modified_ns}"

    def _bring(self, files: Mapping[str, Entry]) -> None:
        missing = {self._held(entry): (path, entry) for path, entry in files.items()}
        together(self._download, [one for held, one in missing.items() if not held.exists()])

    def _download(self, one: tuple[str, Entry]) -> None:
        path, entry = one
        held = self._held(entry)
        aside = held.with_name(f".{uuid.uuid4().hex}")
        name = key(path, entry.version)
        try:
            if self.store.download(name, aside) != entry.digest:
                raise WarehouseError(f"{self.store.url}/{name} is damaged: restore it from a backup.")
            os.utime(aside, ns=(entry.modified_ns, entry.modified_ns))
            aside.replace(held)
        finally:
            aside.unlink(missing_ok=True)


def walk(root: Path) -> Iterator[tuple[str, os.stat_result]]:
    """The files of a warehouse, as paths inside it, but for those that concern this machine only."""
    folders = [""]
    while folders:
        inside = folders.pop()
        with contextlib.suppress(FileNotFoundError), os.scandir(f"{root}/{inside}") as items:
            for item in items:
                path = f"{inside}{item.name}"
                if item.is_dir(follow_symlinks=False):
                    if path not in LOCAL.union(UNFINISHED):
                        folders.append(f"{path}/")
                elif path not in LOCAL and not path.endswith(".lock"):
                    yield path, item.stat()


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _link(held: Path, target: Path) -> None:
    """Put a file that is held into a folder, in one step."""
    try:
        _hard_link(held, target)
    except FileExistsError:
        aside = target.with_name(f".{uuid.uuid4().hex}")
        _hard_link(held, aside)
        aside.replace(target)


def _hard_link(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        shutil.copy2(source, target)


def _hollow(target: str, entry: Entry) -> None:
    """A file that says of itself what it will be, and cannot be taken for it: DuckDB refuses to read it."""
    file = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.truncate(file, entry.size)
    os.utime(file, ns=(entry.modified_ns, entry.modified_ns))
    os.close(file)


def _make_folders(root: Path, paths: Iterable[str]) -> None:
    """Make the folders that paths inside the root need."""
    wanted: set[str] = set()
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder and folder not in wanted:
            wanted.add(folder)
            folder = folder.rpartition("/")[0]
    for folder in sorted(wanted):
        with contextlib.suppress(FileExistsError):
            os.mkdir(f"{root}/{folder}", 0o700)  # noqa: PTH102 - thousands of names


def _write(path: Path, content: bytes) -> None:
    aside = path.with_name(f".{uuid.uuid4().hex}")
    aside.write_bytes(content)
    aside.replace(path)


@contextlib.contextmanager
def _shared(path: Path) -> Iterator[None]:
    """Hold a lock file together with others; whoever removes it holds it alone, and one that was removed is no lock."""
    while True:
        with path.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            if os.fstat(file.fileno()).st_nlink:
                yield
                return


def _name(store: Store) -> str:
    """A folder's name for a place in a store; options tell places of the same name apart."""
    said = hashlib.sha256(f"{store.url}?{store.options}".encode()).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9.-]+', '-', store.url)[:80].strip('-.')}-{said}"
