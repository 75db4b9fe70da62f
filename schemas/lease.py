"""One writer of a warehouse in an object store at a time: an object that its owner renews as long as it lives.

No clock is compared with another: whoever waits takes over what it has seen unchanged for the lease's whole length. An
owner that was only asleep is told by the root of the manifest, which it can then no longer replace.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import socket
import threading
import time
from dataclasses import dataclass
from typing import Any

from .errors import RemoteError, WarehouseLocked
from .object_store import Found, Store, Tag

KEY = "_lock.json"
LEASE_S = 60.0
RENEWALS = 4
"""How often a lease is renewed in its length."""
POLL_S = 0.2
LONGEST_POLL_S = 5.0


@dataclass(frozen=True)
class _Record:
    """What the object says."""

    owner: str | None
    copy: str | None
    lease_s: float
    said: str


class Lease:
    """The right to publish; a context that takes it and gives it back."""

    def __init__(self, store: Store, copy: str, wait_s: float) -> None:
        """``copy`` is the name of the working copy, whose lock the caller holds: an owner with the same is dead."""
        self._store = store
        self._copy = copy
        self._wait_s = wait_s
        self._owner = os.urandom(8).hex()
        self._since = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        self._count = 0
        self._tag: Tag = {}
        self._guard = threading.Lock()
        self._ended = threading.Event()
        self._renewing = threading.Thread(target=self._renew_on, daemon=True)
        self.lost = False

    def __enter__(self) -> Lease:
        """Wait for it; WarehouseLocked if somebody else has it for too long."""
        deadline = time.monotonic() + self._wait_s
        seen: Tag | None = None
        since, pause = time.monotonic(), POLL_S
        while True:
            found = self._store.get(KEY)
            record = _read(found) if found else None
            if found is not None and found.tag != seen:
                seen, since = found.tag, time.monotonic()
            if record is None or self._is_over(record, time.monotonic() - since):
                tag = self._store.replace(KEY, self._body(self._owner), found.tag if found else None)
                if tag is not None:
                    self._tag = tag
                    self._renewing.start()
                    return self
                continue
            if time.monotonic() > deadline:
                raise WarehouseLocked(
                    f"{self._store.url} is being written by {record.said}: wait until that run has ended, or end it."
                )
            time.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - spreads those who wait
            pause = min(pause * 1.5, LONGEST_POLL_S)

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._renewing.join()
        if not self.lost:
            try:
                self._store.replace(KEY, self._body(None), self._tag)
            except RemoteError:
                return  # it will run out

    def check(self) -> None:
        """Renew it now; WarehouseLocked if it was lost, RemoteError if the store does not say."""
        with self._guard:
            if not self.lost:
                tag = self._store.replace(KEY, self._body(self._owner), self._tag)
                self.lost, self._tag = tag is None, tag or {}
        if self.lost:
            raise WarehouseLocked(
                f"Another run took {self._store.url} over, as this one did not renew its lease for {LEASE_S:g} s: "
                "nothing of it was published, run the same again."
            )

    def _renew_on(self) -> None:
        while not self._ended.wait(LEASE_S / RENEWALS):
            try:
                self.check()
            except WarehouseLocked:
                return
            except RemoteError:
                continue

    def _is_over(self, record: _Record, unchanged_s: float) -> bool:
        return record.owner is None or record.copy == self._copy or unchanged_s >= record.lease_s

    def _body(self, owner: str | None) -> bytes:
        """No two are the same, or a tag would not tell a renewal."""
        self._count += 1
        record = {
            "owner": owner,
            "copy": self._copy,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "since": self._since,
            "lease_s": LEASE_S,
            "count": f"{self._owner}-{self._count}",
        }
        return json.dumps(record).encode()


def _read(found: Found) -> _Record:
    """What a lease says; one that cannot be read is treated as one that runs out."""
    try:
        record: dict[str, Any] = json.loads(found.body)
        said = f"process {record['pid']} on {record['host']} since {record['since']}"
        return _Record(record["owner"], record["copy"], float(record["lease_s"]), said)
    except (ValueError, KeyError, TypeError):
        return _Record("", None, LEASE_S, "a run that does not say which")
