"""One writer of a kind at a time: a file that its owner keeps locked as long as it lives.

The lock is ``flock``, which needs no clock and no heartbeat: the kernel drops it with the process. Over NFS the server
holds it and drops it once the client's lease has run out (Linux: 90 s); mounted with ``nolock`` or ``local_lock`` it
keeps apart the processes of one machine only.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import fcntl
import json
import os
import pwd
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from .errors import WarehouseError, WarehouseLocked

WAIT_S = 600.0
"""How long a second writer waits for the first."""
_POLL_S = 0.1
FULL = (errno.ENOSPC, errno.EDQUOT)


@contextlib.contextmanager
def exclusive(root: Path, work: str, wait_s: float = WAIT_S) -> Iterator[None]:
    """Hold the lock of a kind of work (``ingest``, ``transform``) on a warehouse.

    Raises WarehouseLocked if another process still has it after ``wait_s`` seconds, and WarehouseError where the work
    finds no space on the disk.

    The lock belongs to the process: the system drops it when the owner ends, however it ends, so that it is never
    left behind. The file says who the owner is.
    """
    path = root / f"_{work}.lock"
    try:
        root.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise WarehouseError(f"The warehouse {root} cannot be written: {error.strerror or error}.") from error
    try:
        _acquire(file, path, wait_s)
        os.ftruncate(file, 0)
        os.pwrite(file, json.dumps(_me()).encode(), 0)
        yield
        os.ftruncate(file, 0)
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise WarehouseError(
            f"No space is left for {error.filename or f'the warehouse {root}'}: free some, then run the same again; "
            "what was committed is kept."
        ) from error
    finally:
        os.close(file)


def _acquire(file: int, path: Path, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                owner = _said(os.pread(file, 1000, 0))
                raise WarehouseLocked(f"{path} is held by {owner}: wait until that run has ended, or end it.") from None
            time.sleep(_POLL_S)
        except OSError as error:
            raise WarehouseError(
                f"{path} cannot be locked: {error.strerror or error}; put the warehouse on a file system with locks."
            ) from error


def _me() -> dict[str, str | int]:
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container may run as a user that nobody has named
        user = str(os.getuid())
    since = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    return {"user": user, "host": socket.gethostname(), "pid": os.getpid(), "since": since}


def _said(text: bytes) -> str:
    """Who holds a lock, by what its file says."""
    try:
        owner = json.loads(text)
        return f"process {owner['pid']} of {owner['user']} on {owner['host']}, since {owner['since']}"
    except (ValueError, KeyError, TypeError):
        return "another process"
