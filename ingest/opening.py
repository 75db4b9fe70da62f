"""From the PATH arguments of a user to the ordered list of inputs, each readable or with the reason why it is not."""

from __future__ import annotations

import datetime as dt
import glob
import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ..schemas.errors import NothingFound, UsageError
from ..schemas.object_store import SCHEMES
from . import object_store

STDIN = "-"
SERVERS = ("prometheus", "prometheus+http", "prometheus+https")
"""URL schemes that name a server to ask, not a file to open."""

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)
_COMPRESSION = re.compile(r"\.(gz|gzip|zst|zstd)$", re.IGNORECASE)
_NUMBERED = re.compile(r"\.(\d{1,5})$")
_DATED = re.compile(r"[._-](\d{4}-?\d\d-?\d\d(?:[T_-]?\d\d[:-]?\d\d(?:[:-]?\d\d)?)?|\d{10,13})$")
_INSTANT = re.compile(r"(?<!\d)(\d{10}|\d{13}|\d{16}|\d{19})(?!\d)")
_EARLIEST, _LATEST = 1_000_000_000, 4_102_444_800
"""Seconds between which a number in a file name is taken for a unix time: 2001 to 2100."""


@dataclass(frozen=True)
class Located:
    """One input as found: a file, a stored object, standard input or a server, or why it cannot be read."""

    source: str
    """What the column ``source`` will hold."""
    path: Path | object_store.StoredObject | None = None
    """Where the bytes are; None for standard input and servers."""
    url: str | None = None
    problem: str | None = None

    @property
    def rotation(self) -> tuple[str, str]:
        """What the files of one rotated set have in common: folder and name without number, date and compression."""
        folder, name = os.path.split(self.source)
        return folder, _rotation(name)[0]


def locate(arguments: Iterable[str | os.PathLike[str]], warehouse: Path | None = None) -> list[Located]:
    """The inputs that the arguments name, rotated sets oldest first, each once.

    An argument is a file, a folder (walked; hidden names, links that lead back and the warehouse itself are left out),
    a glob, ``-`` or a URL. Raises NothingFound for a path that does not exist and a glob that matches nothing,
    RemoteError for an object store that cannot be asked.
    """
    files: dict[str, Located] = {}
    others: list[Located] = []
    for argument in arguments:
        text = os.fspath(argument)
        if text == STDIN:
            others.append(Located("stdin"))
        elif scheme := _SCHEME.match(text):
            for found in _locate_url(text, scheme[1].lower()):
                if found.url:
                    others.append(found)
                else:
                    files.setdefault(found.source, found)
        else:
            for found in _locate_files(text, warehouse):
                files.setdefault(found.source, found)
    ordered = sorted(files.values(), key=lambda found: _order(found.source))
    return ordered + list({other.source: other for other in others}.values())


def named_instant(source: str) -> dt.datetime | None:
    """The unix time (s, ms, µs or ns) in a file's name as naive UTC, or None."""
    for match in _INSTANT.finditer(source.rpartition("/")[2]):
        seconds, fraction = int(match[1][:10]), match[1][10:]
        if _EARLIEST <= seconds < _LATEST:
            micros = int(fraction[:6].ljust(6, "0"))
            return dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds, microseconds=micros)
    return None


def modified_at(path: Path | object_store.StoredObject | None) -> dt.datetime:
    """Last change of a file or stored object as naive UTC; now for what is neither."""
    if isinstance(path, object_store.StoredObject):
        return path.modified_at
    try:
        instant = dt.datetime.fromtimestamp(path.stat().st_mtime, dt.UTC) if path else dt.datetime.now(dt.UTC)
    except (OSError, OverflowError, ValueError):
        instant = dt.datetime.now(dt.UTC)
    return instant.replace(tzinfo=None)


def _locate_url(text: str, scheme: str) -> list[Located]:
    if scheme in SERVERS:
        return [Located(_without_credentials(text), url=text)]
    if scheme in SCHEMES:
        return [Located(found.url, found) for found in object_store.find(text)]
    kinds = ", ".join(f"{name}://" for name in (*SCHEMES[:2], "az", SERVERS[0]))
    raise UsageError(f"{text}: URLs of the kind {scheme}:// cannot be ingested: give a file, a folder, {kinds}.")


def _without_credentials(url: str) -> str:
    return re.sub(r"//[^/?#]*@", "//", url)


def _locate_files(text: str, warehouse: Path | None) -> Iterator[Located]:
    path = _absolute(text)
    if os.path.lexists(path):
        yield from _walk(path, warehouse)
        return
    matches = glob.glob(text, recursive=True) if glob.has_magic(text) else []  # noqa: PTH207 - the pattern has any root
    if not matches:
        what = "matches nothing" if glob.has_magic(text) else "does not exist"
        raise NothingFound(f"{text} {what}: give an existing file, folder or glob.", text)
    for match in matches:
        yield from _walk(_absolute(match), warehouse)


def _absolute(text: str) -> Path:
    """The path from the root without ``..``; links stay, since their names are what the user knows."""
    return Path(os.path.abspath(text))  # noqa: PTH100


def _walk(top: Path, warehouse: Path | None) -> Iterator[Located]:
    if not top.is_dir():
        yield _check(top)
        return
    visited = {_identity(warehouse)} if warehouse is not None and warehouse.is_dir() else set()
    refused: list[Located] = []

    def refuse(error: OSError) -> None:
        folder = Path(error.filename or top)
        refused.append(Located(_source(folder), folder, problem=_unreadable(error)))

    for folder, folders, names in os.walk(top, followlinks=True, onerror=refuse):
        identity = _identity(Path(folder))
        if identity in visited:
            folders[:] = []
            continue
        visited.add(identity)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if not name.startswith("."):
                yield _check(Path(folder, name))
    yield from refused


def _identity(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def _check(path: Path) -> Located:
    source = _source(path)
    try:
        mode = path.stat().st_mode
    except OSError as error:
        return Located(source, path, problem=_unreadable(error))
    if stat.S_ISREG(mode):
        if not os.access(path, os.R_OK):
            return Located(source, path, problem="The file may not be read: give the user of specledger permission.")
        return Located(source, path)
    kind = next((word for test, word in _KINDS if test(mode)), "special file")
    return Located(source, path, problem=f"This is a {kind}, not a file: read it with a tool of its own into '-'.")


def _source(path: Path) -> str:
    """The path as text that can be stored, whatever bytes are in it."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


_KINDS = (
    (stat.S_ISFIFO, "named pipe"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISBLK, "block device"),
    (stat.S_ISCHR, "character device"),
)


def _unreadable(error: OSError) -> str:
    return f"The file cannot be opened ({error.strerror or error}): repair the link or the permissions."


def _rotation(name: str) -> tuple[str, tuple[int, int, str]]:
    """The name of the set a file belongs to, and its place in it: dated ones first, then numbers falling, then none."""
    stem = _COMPRESSION.sub("", name)
    if match := _NUMBERED.search(stem):
        return stem[: match.start()], (1, -int(match[1]), "")
    if match := _DATED.search(stem):
        return stem[: match.start()], (0, 0, re.sub(r"\D", "", match[1]))
    return stem, (2, 0, "")


def _order(source: str) -> tuple[str, str, list[tuple[int, int, str]], tuple[int, int, str], str]:
    folder, name = os.path.split(source)
    stem, place = _rotation(name)
    # What is of one kind mostly has one ending, and is read faster in one go.
    ending = os.path.splitext(stem)[1]  # noqa: PTH122 - a URL is no path
    # Runs of digits compare as numbers, so that scrape 999 comes before scrape 1000.
    parts = [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.findall(r"\d{1,30}|\D+", stem)]
    return folder, ending, parts, place, name
