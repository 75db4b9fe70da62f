"""One writer at a time; who holds the lock is told, and whoever dies holds it no longer."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pwd
import signal
import socket
import time
from pathlib import Path

import pytest

from specledger.schemas.errors import WarehouseError, WarehouseLocked
from specledger.schemas.lock import exclusive


def held(root: Path) -> int:
    """The id of a process that holds the lock of ingest until it is killed."""
    process = os.fork()
    if not process:
        with exclusive(root, "ingest"):
            (root / "held").touch()
            time.sleep(60)
        os._exit(0)
    while not (root / "held").exists():
        time.sleep(0.01)
    return process


def test_the_owner_is_named_and_dies_with_its_lock(tmp_path: Path) -> None:
    process = held(tmp_path)
    try:
        with pytest.raises(WarehouseLocked) as told, exclusive(tmp_path, "ingest", wait_s=0):
            pass
        user, host = pwd.getpwuid(os.getuid()).pw_name, socket.gethostname()
        assert f"_ingest.lock is held by process {process} of {user} on {host}, since 20" in str(told.value)
        with exclusive(tmp_path, "transform", wait_s=0):
            pass
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    with exclusive(tmp_path, "ingest", wait_s=0):
        pass


@pytest.mark.parametrize("text", ["", "{", '{"pid": 1}', "[]"])
def test_an_owner_that_cannot_be_told_is_another_process(tmp_path: Path, text: str) -> None:
    with (tmp_path / "_ingest.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(text)
        file.flush()
        with (
            pytest.raises(WarehouseLocked, match="is held by another process: wait"),
            exclusive(tmp_path, "ingest", wait_s=0),
        ):
            pass


def test_what_a_dead_owner_wrote_does_not_count_whatever_its_clock_said(tmp_path: Path) -> None:
    path = tmp_path / "_ingest.lock"
    path.write_text(json.dumps({"user": "kim", "host": "gone", "pid": 1, "since": "2099-01-01T00:00:00+00:00"}))
    os.utime(path, (4_070_908_800, 4_070_908_800))
    with exclusive(tmp_path, "ingest", wait_s=0):
        assert json.loads(path.read_text())["pid"] == os.getpid()
    assert path.read_text() == ""


def test_a_file_system_without_locks_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with (
        pytest.raises(WarehouseError, match=r"_ingest\.lock cannot be locked: No locks available"),
        exclusive(tmp_path, "ingest"),
    ):
        pass
    assert WarehouseError.exit_code == 4
