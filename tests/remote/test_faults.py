"""A store that stutters: every command succeeds after trying again, or ends in one sentence and exit code 4."""

from __future__ import annotations

import contextlib
import itertools
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from specledger.schemas import object_store
from specledger.schemas.errors import RemoteError
from tests.command_line import CommandLine
from tests.remote import seaweed
from tests.remote.proxy import Fault, Handler, Proxy, proxy
from tests.remote.test_publishing import found, left_over, published
from tests.scale import scaled

FILES = {f"file{number}": str(number) * 1000 for number in range(6)}


@pytest.fixture
def between(port: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy in front of the store, and a client that waits briefly."""
    monkeypatch.setattr(object_store, "RETRY_S", 20.0)
    monkeypatch.setattr(object_store, "FIRST_PAUSE_S", 0.02)
    monkeypatch.setattr(object_store, "LONGEST_PAUSE_S", 0.1)
    with proxy(port) as server:
        yield server


@pytest.fixture
def stuttering(between: Proxy, path: str) -> str:
    """The warehouse of the test, through the proxy."""
    return seaweed.url(between.port, path)


def every(count: int, fault: Fault) -> Fault:
    """The fault at one request out of several, beginning with the first."""
    numbers = itertools.count()
    return lambda request: next(numbers) % count == 0 and fault(request)


def once_each(fault: Fault) -> Fault:
    """The fault at the first request of each kind for each object."""
    seen: set[tuple[str, str]] = set()

    def happens(request: Handler) -> bool:
        name = (request.command, request.path)
        known = name in seen
        seen.add(name)
        return not known and fault(request)

    return happens


FAULTS = {
    "500": every(3, lambda request: request.refuse(500)),
    "503 in a row": every(2, lambda request: request.refuse(503)),
    "cut while sending": once_each(lambda request: request.command == "PUT" and request.cut()),
    "cut while answering": once_each(lambda request: request.command == "GET" and request.forget()),
    "no answer": every(13, lambda request: request.hang(1.5)),
    "an answer that is lost": once_each(lambda request: request.command == "PUT" and request.forget()),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_store_that_stutters_is_asked_again(
    name: str, between: Proxy, stuttering: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "no answer":
        monkeypatch.setattr(object_store, "ANSWER_S", 1.0)
    between.fault = FAULTS[name]
    published(stuttering, **FILES)
    published(stuttering, one="1")
    shutil.rmtree(tmp_path / "cache")
    assert found(stuttering) == FILES | {"one": "1"}
    assert left_over(place) == set()


def test_a_large_file_goes_in_parts_of_which_some_are_cut(
    between: Proxy, stuttering: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "PART_BYTES", 5 << 20)
    between.fault = once_each(lambda request: "partNumber" in request.path and request.cut())
    content = random.Random(1).randbytes(6 << 20).hex()
    published(stuttering, large=content)
    assert sum("partNumber" in path for _, path in between.requests) >= 6, "three parts, each twice"
    assert found(place) == {"large": content}


@pytest.mark.parametrize("writing", [True, False], ids=["writing", "reading"])
def test_a_store_that_stays_away_is_one_sentence_and_the_next_run_succeeds(
    writing: bool, between: Proxy, stuttering: str, place: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    published(place, one="1")
    monkeypatch.setattr(object_store, "RETRY_S", 0.2)
    cli = CommandLine(stuttering)
    between.fault = lambda request: request.refuse(503)
    result = cli.run("transform") if writing else cli.run("sql", "SELECT 1")
    assert result.exit_code == 4
    (line,) = result.stderr.splitlines()
    assert line.startswith("s3://specledger/test-")
    assert line.endswith("cannot be reached (InternalError): run the same again once it answers.")
    assert seaweed.SECRET not in line
    between.fault = lambda _: False
    assert found(stuttering) == {"one": "1"}


@pytest.mark.parametrize("seed", range(scaled(4)))
def test_a_store_that_goes_away_in_the_middle_changes_nothing(
    seed: int, between: Proxy, stuttering: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    published(place, one="0", two="0")
    monkeypatch.setattr(object_store, "RETRY_S", 0.2)
    last = random.Random(seed).randrange(30)
    numbers = itertools.count()
    between.fault = lambda request: next(numbers) > last and request.refuse(500)
    with contextlib.suppress(RemoteError):
        published(stuttering, one="1", two="1")
    between.fault = lambda _: False
    before = found(place)
    assert set(before.values()) in ({"0"}, {"1"})
    published(stuttering, three="3")
    assert found(place) == before | {"three": "3"}
    assert left_over(place) == set()


def test_the_cache_on_a_full_or_forbidden_disk_is_one_sentence(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SPECLEDGER_CACHE", str(tmp_path / "file"))
    for command in (("sql", "SELECT 1"), ("transform",)):
        result = CommandLine(place).run(*command)
        assert result.exit_code == 4
        (line,) = result.stderr.splitlines()
        assert str(tmp_path / "file") in line
        assert line.endswith(".")
