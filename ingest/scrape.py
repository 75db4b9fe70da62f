"""Collects ``/metrics`` of servers into rotated, compressed files that ingest reads.

One folder a server, one file a rotation: each scrape behind its ``# scraped_at`` line. A file is written under a hidden
name and gets its own name when it is whole, so nobody reads half of it; what a crash leaves under a hidden name is made
whole by the next start.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO

import zstandard

from ..schemas.errors import UsageError, WarehouseError
from .exposition_split import MARK, MAX_SCRAPE, SERVER_MARK
from .web import Address, ExchangeError, address, exchange

logger = logging.getLogger(__name__)

SUFFIX = ".prom.zst"
PART = ".part"
ROTATE_BYTES = 256 << 20
"""Compressed size at which a file is closed before its time."""
ACCEPT = "text/plain;version=0.0.4;q=1,*/*;q=0.1"
_COMPRESSION = zstandard.ZstdCompressionParameters.from_level(3, window_log=20)
# A window of 1 MiB holds the scrapes before, which the next one mostly repeats, at 2 MiB of memory a server.
_UNSAFE = re.compile(r"[^A-Za-z0-9.-]+")


@dataclass(frozen=True)
class Server:
    """A server to scrape, and the name of its folder."""

    address: Address
    folder: str


@dataclass
class Count:
    """What became of the scrapes of one server."""

    saved: int = 0
    failed: int = 0


@dataclass(frozen=True)
class Schedule:
    """How often and how long to scrape (seconds); None is without end."""

    every: float
    timeout: float
    rotate: float
    duration: float | None = None
    count: int | None = None


def servers(urls: Sequence[str]) -> list[Server]:
    """The servers that the URLs name, each with a folder of its own; UsageError for what is no address.

    ``host:8000`` stands for ``http://host:8000/metrics``.
    """
    found: dict[str, Server] = {}
    for text in urls:
        url = text if "://" in text else f"http://{text}"
        try:
            to = address(url)
        except ValueError:
            raise UsageError(f"{text.rpartition('@')[2]} is no address to scrape: give http://HOST:PORT.") from None
        scheme, rest = to.url.split("://", 1)
        host, slash, path = rest.partition("/")
        if not path:
            to = Address(f"{scheme}://{host}/metrics", to.headers)
        name = _UNSAFE.sub("_", host if path in {"", "metrics"} else f"{host}{slash}{path}").strip("._-")[:100]
        name = name or "server"
        folder, number = name, 2
        while folder.lower() in found and found[folder.lower()].address.url != to.url:
            folder, number = f"{name}-{number}", number + 1
        found[folder.lower()] = Server(to, folder)
    return list(found.values())


def collect(targets: Sequence[Server], out: Path, schedule: Schedule, stop: threading.Event) -> dict[str, Count]:
    """Scrape the servers until the schedule ends or ``stop`` is set; what became of the scrapes, by URL.

    UsageError where another run writes into the same folder, WarehouseError where the folder cannot be written.
    """
    with _only_run(out):
        runs = [_Run(target, out / target.folder, schedule, stop) for target in targets]
        threads = [
            threading.Thread(target=run.loop, args=(schedule.every * number / len(runs),), name=run.server.folder)
            for number, run in enumerate(runs)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return {run.server.address.url: run.count for run in runs}


class _Run:
    """The scrapes of one server."""

    def __init__(self, server: Server, folder: Path, schedule: Schedule, stop: threading.Event) -> None:
        self.server = server
        self.count = Count()
        self._schedule = schedule
        self._stop = stop
        self._file = RotatedFile(folder, schedule.rotate)
        self._file.recover()
        self._answers: bool | None = None

    def loop(self, delay: float) -> None:
        begin = time.monotonic() + min(delay, 1.0)
        tick = 0
        while not self._done(tick, begin):
            wait = begin + tick * self._schedule.every - time.monotonic()
            if self._stop.wait(max(0.0, wait)):
                break
            self._scrape()
            # A scrape that took longer than the interval does not make those behind it late.
            tick = max(tick + 1, int((time.monotonic() - begin) / self._schedule.every))
        self._save(None)

    def _done(self, tick: int, begin: float) -> bool:
        schedule = self._schedule
        made = self.count.saved + self.count.failed
        if schedule.count is not None and made >= schedule.count:
            return True
        return schedule.duration is not None and tick * schedule.every >= schedule.duration and time.monotonic() > begin

    def _scrape(self) -> None:
        at = time.time()
        problem = None
        body = b""
        try:
            answer = exchange(self.server.address, timeout=self._schedule.timeout, limit=MAX_SCRAPE // 2, accept=ACCEPT)
        except ExchangeError as why:
            problem = str(why)
        else:
            body = answer.body
            if answer.status != HTTPStatus.OK:
                problem = f"HTTP {answer.status}"
            elif not body.strip() or "html" in answer.headers.get("content-type", ""):
                problem = "the answer is no exposition"
        if problem is None:
            head = b"%s %.3f\n%s%s\n" % (MARK, at, SERVER_MARK, self.server.address.url.encode())
            self._save(head + body + (b"" if body.endswith(b"\n") else b"\n"), at)
        else:
            self.count.failed += 1
        self._tell(problem)

    def _save(self, scrape: bytes | None, at: float = 0.0) -> None:
        """Write a scrape, or with None close the file; a full disk costs scrapes, not the run."""
        try:
            if scrape is None:
                self._file.close()
            else:
                self._file.write(scrape, at)
                self.count.saved += 1
        except OSError as error:
            self.count.failed += scrape is not None
            logger.error("Cannot write to %s: %s; scrapes are lost until it can.", self._file.folder, error.strerror)

    def _tell(self, problem: str | None) -> None:
        """Say when a server is lost and when it is back, not at every scrape."""
        if problem is not None and self._answers is not False:
            logger.warning("%s does not answer (%s); it is asked again at every interval.", self._url, problem)
        elif problem is None and self._answers is False:
            logger.warning("%s answers again.", self._url)
        self._answers = problem is None

    @property
    def _url(self) -> str:
        return self.server.address.url


class RotatedFile:
    """Scrapes of one server in files of at most ``rotate`` seconds, each named after its first scrape (unix ms)."""

    def __init__(self, folder: Path, rotate: float) -> None:
        self.folder = folder
        self._rotate = rotate
        self._file: BinaryIO | None = None
        self._opened_at = 0.0
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WarehouseError(f"Cannot make the folder {folder}: {error.strerror}; give another --out.") from error

    def write(self, scrape: bytes, at: float) -> None:
        """Append a scrape taken at ``at`` (unix seconds); it is on its way to the disk when this returns."""
        if self._file is not None and (at - self._opened_at >= self._rotate or self._file.tell() >= ROTATE_BYTES):
            self.close()
        if self._file is None:
            self._open(at)
        assert self._file is not None  # noqa: S101 - opened above
        try:
            self._file.write(self._compressor.compress(scrape))
            self._file.write(self._compressor.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))
            self._file.flush()
        except OSError:
            # Nothing behind the gap could be read: the next scrape begins another file, this one waits for recovery.
            with suppress(OSError):
                self._file.close()
            self._file = None
            raise

    def close(self) -> None:
        """End the file and give it its name."""
        if self._file is None:
            return
        file, self._file = self._file, None
        with file:
            file.write(self._compressor.flush(zstandard.COMPRESSOBJ_FLUSH_FINISH))
            os.fsync(file.fileno())
        self._publish(Path(file.name))

    def recover(self) -> None:
        """Make whole what a crash has left."""
        for part in sorted(self.folder.glob(f".*{PART}")):
            scrapes = _whole_scrapes(part)
            if scrapes:
                whole = part.with_suffix(".whole")
                with whole.open("wb") as file:
                    file.write(zstandard.ZstdCompressor(compression_params=_COMPRESSION).compress(scrapes))
                    os.fsync(file.fileno())
                whole.replace(part)
                self._publish(part)
                logger.warning("Recovered %s, which an earlier run left unfinished.", self.folder / _final_name(part))
            else:
                part.unlink()

    def _open(self, at: float) -> None:
        stem = f"{round(at * 1000)}"
        number = 1
        while (self.folder / f"{stem}{SUFFIX}").exists() or (self.folder / f".{stem}{SUFFIX}{PART}").exists():
            stem, number = f"{round(at * 1000)}-{number}", number + 1
        self._file = (self.folder / f".{stem}{SUFFIX}{PART}").open("xb")
        self._compressor = zstandard.ZstdCompressor(compression_params=_COMPRESSION).compressobj()
        self._opened_at = at

    def _publish(self, part: Path) -> None:
        part.replace(self.folder / _final_name(part))
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _final_name(part: Path) -> str:
    return part.name.removeprefix(".").removesuffix(PART)


def _whole_scrapes(part: Path) -> bytes:
    """What of an unfinished file can be read, up to the end of its last whole scrape."""
    pieces = []
    with part.open("rb") as file:
        unpacker = zstandard.ZstdDecompressor().decompressobj()
        try:
            while block := file.read(1 << 20):
                pieces.append(unpacker.decompress(block))
        except zstandard.ZstdError:
            pass
    text = b"".join(pieces)
    if text and not text.endswith(b"\n"):
        text = text[: text.rfind(b"\n" + MARK) + 1]
    return text


@contextmanager
def _only_run(out: Path) -> Iterator[None]:
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = (out / ".lock").open("w")
    except OSError as error:
        raise WarehouseError(f"Cannot write to {out}: {error.strerror}; give another --out.") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(f"Another specledger scrape writes into {out}: give another --out.") from None
        yield
