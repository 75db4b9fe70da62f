"""Inputs in an object store, from a server on loopback."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from specledger.ingest import object_store
from specledger.ingest.opening import locate
from specledger.schemas.errors import NothingFound, RemoteError, UsageError
from tests.command_line import CommandLine
from tests.ingest.contents import contents, rows
from tests.ingest.object_server import ObjectServer, serve

LOG = "".join(
    f"(EngineCore pid=7) INFO 09-14 08:00:{second:02} [loggers.py:123] Engine 000: Avg prompt throughput: {second}.0 "
    "tokens/s, Avg generation throughput: 2.0 tokens/s, Running: 3 reqs, Waiting: 0 reqs, GPU KV cache usage: 4.0%, "
    "Prefix cache hit rate: 0.0%\n"
    for second in range(10, 40)
).encode()
OLDER = b"".join(LOG.splitlines(keepends=True)[:2]).replace(b":10 ", b":08 ").replace(b":11 ", b":09 ")
"""Two records; the last one waits for a spec record, which may stand in the file after, and counts there."""
SCRAPE = b'vllm:generation_tokens_total{engine="0",model_name="m"} %d\nprocess_open_fds 3\n'


@pytest.fixture(scope="module")
def running() -> Iterator[ObjectServer]:
    with serve() as server:
        yield server


@pytest.fixture
def store(running: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> ObjectServer:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    running.objects = {
        "logs/day/server.log": LOG,
        "logs/day/server.log.1.gz": gzip.compress(OLDER),
        "logs/day/metrics/1789372800.prom": SCRAPE % 5,
        "logs/day/metrics/1789372810.prom": SCRAPE % 9,
        "logs/day/.hidden/x.prom": SCRAPE % 1,
    }
    running.gets.clear()
    return running


def names(server: ObjectServer, path: str) -> list[str]:
    return [found.source for found in locate([server.url(path)])]


def test_an_object_a_prefix_and_globs_name_objects(store: ObjectServer) -> None:
    day = "s3://logs/day/"
    log, older = f"{day}server.log", f"{day}server.log.1.gz"
    scrapes = [f"{day}metrics/1789372800.prom", f"{day}metrics/1789372810.prom"]
    assert names(store, "logs/day/server.log") == [log]
    assert names(store, "logs/day") == [older, log, *scrapes]
    assert names(store, "logs/day/server.log*") == [older, log]
    assert names(store, "logs/*/metrics/*[05].prom") == scrapes
    assert names(store, "logs/**/*0.prom") == scrapes


@pytest.mark.parametrize("path", ["logs/nothing", "logs/day/*.prom", "logs/[!d]*/**"])
def test_what_does_not_exist_is_wrong_use(path: str, store: ObjectServer) -> None:
    with pytest.raises(NothingFound, match="s3://logs/"):
        locate([store.url(path)])


def test_objects_give_what_files_give(store: ObjectServer, cli: CommandLine, tmp_path: Path) -> None:
    for name, body in store.objects.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    local = CommandLine(tmp_path / "local")
    options = ("--year", "2026", "--timezone", "UTC")
    local.ok("ingest", tmp_path / "logs/day", *options)
    cli.ok("ingest", store.url("logs/day"), *options)
    leave_out = ("source", "ingested_at", "tool_version")
    assert contents(cli.warehouse, leave_out=leave_out) == contents(local.warehouse, leave_out=leave_out)
    sources = rows(cli.warehouse, "SELECT DISTINCT source FROM log_stats ORDER BY ALL")
    assert sources == [("s3://logs/day/server.log",), ("s3://logs/day/server.log.1.gz",)]


def test_what_is_known_is_not_read_again_and_what_grew_is_continued(store: ObjectServer, cli: CommandLine) -> None:
    half = LOG.index(b"\n", len(LOG) // 2) - 20
    store.objects = {"logs/server.log": LOG[:half]}
    options = (store.url("logs/server.log"), "--year", "2026", "--timezone", "UTC")
    cli.ok("ingest", *options)
    before = cli.value("SELECT count(*) FROM log_stats")
    assert 10 < before < 20
    store.objects["logs/server.log"] = LOG
    cli.ok("ingest", *options)
    cli.ok("ingest", *options)
    assert cli.value("SELECT count(*) FROM log_stats") == 30
    assert cli.value("SELECT count(*) FROM rejects") == 0


def test_the_last_change_of_an_object_gives_the_year(store: ObjectServer, cli: CommandLine) -> None:
    cli.ok("ingest", store.url("logs/day/server.log"))
    assert rows(cli.warehouse, "SELECT DISTINCT year(logged_at) FROM log_stats") == [(2026,)]


def test_credentials_and_options_are_stored_nowhere(store: ObjectServer) -> None:
    (found,) = locate([store.url("me:hush@logs/day/server.log")])
    assert found.source == "s3://logs/day/server.log"


def test_a_store_that_refuses_is_an_error_that_says_so(store: ObjectServer) -> None:
    with pytest.raises(RemoteError, match=r"s3://forbidden/x cannot be listed \([^A-Z]*\): check its name, the cred"):
        locate([store.url("forbidden/x")])


@pytest.mark.parametrize("url", ["s3://", "s3://Not A Bucket/x", "az://logs/x", "s3://logs/x?colour=red"])
def test_a_url_that_no_store_understands_is_wrong_use(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError):
        locate([url])


def test_other_stores_are_asked_by_their_own_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "acct")
    monkeypatch.setenv("AZURE_STORAGE_KEY", "c2VjcmV0")
    found = {
        url: (store.type_name, key)
        for url in ("gs://b/x/y", "gcs://b/x", "az://c/x", "abfss://c@acct.dfs.core.windows.net/x")
        for store, key in [object_store._connect(*_parts(url))]
    }
    assert found == {
        "gs://b/x/y": ("gcs", "b/x/y"),
        "gcs://b/x": ("gcs", "b/x"),
        "az://c/x": ("abfs", "c/x"),
        "abfss://c@acct.dfs.core.windows.net/x": ("abfs", "c/x"),
    }


def _parts(url: str) -> tuple[str, str, str, str]:
    scheme, _, name = url.partition("://")
    return scheme, name, "", url


def test_a_store_that_is_not_there_is_told_from_one_that_refuses(store: ObjectServer) -> None:
    """Nothing of the request is told, but what may be wrong is."""
    with pytest.raises(RemoteError, match=r"^s3://logs/x cannot be listed \([^()]*\): check the endpoint") as failed:
        locate(["s3://logs/x?endpoint_override=127.0.0.1:1&scheme=http"])
    assert "AWS" not in str(failed.value)
