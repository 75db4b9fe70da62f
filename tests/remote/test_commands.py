"""A warehouse in an object store gives what one on disk gives, to every command."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

from specledger.__main__ import cli
from specledger.reports import model, writers
from specledger.schemas.cache import Cache
from specledger.schemas.manifest import ROOT
from specledger.schemas.object_store import Store
from specledger.schemas.working_copy import opened, read
from tests.command_line import CommandLine
from tests.nightly.killed import contents
from tests.nightly.simulated import CONFIG, day, write_night
from tests.remote import seaweed

INGEST = ("--deployment", "chat", "--year", "2026", "--timezone", "UTC")
SIDES = ("--baseline", f"date = '{day(0)}'", "--candidate", f"date = '{day(1)}'")
MOMENTS = ("generated_at", "started_at", "ended_at", "fingerprint", "newest_ns")


@dataclass(frozen=True)
class Pair:
    """The same two nights on disk and in a store."""

    local: CommandLine
    remote: CommandLine


@pytest.fixture(scope="module")
def pair(port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("pair")
    for number in range(2):
        write_night(folder / "input", number)
    found = Pair(CommandLine(folder / "warehouse"), CommandLine(seaweed.url(port, "pair/deep/er")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writers, "WRITERS", (("report.json", model.to_json),))
        for name, value in {**seaweed.ENVIRONMENT, "SPECLEDGER_CACHE": str(folder / "cache")}.items():
            patch.setenv(name, value)
        for line in (found.local, found.remote):
            line.ok("ingest", folder / "input", *INGEST)
            line.ok("transform")
        yield found


pytestmark = pytest.mark.usefixtures("pair", "path")
"""Each test has a cache of its own, as another machine has."""


def objects(place: str) -> dict[str, bytes]:
    store = Store(place)
    return {key: found.body for key in store.below("") if (found := store.get(key))}


def timeless(document: Any) -> Any:
    if isinstance(document, dict):
        return {key: timeless(value) for key, value in document.items() if key not in MOMENTS}
    return [timeless(value) for value in document] if isinstance(document, list) else document


def test_all_tables_hold_the_same(pair: Pair) -> None:
    assert read(str(pair.remote.warehouse), contents) == contents(pair.local.warehouse)


@pytest.mark.parametrize(
    "command",
    [
        ("check", "--format", "json"),
        ("sql", "FROM ledger ORDER BY ALL", "--format", "json"),
        ("sql", "SHOW TABLES"),
        ("sql", "SELECT count(*), sum(rounds) FROM scrapes"),
        ("recommend", "--deployment", "chat", "--format", "json"),
        ("estimate", "--deployment", "chat", "--gamma", 3, "--format", "json"),
    ],
    ids=lambda command: " ".join(map(str, command[:2])),
)
def test_what_is_asked_is_answered_alike(pair: Pair, command: tuple[str, ...]) -> None:
    said = [
        line.run(*command, *(["--warehouse", line.warehouse] if command[0] == "estimate" else []))
        for line in (pair.local, pair.remote)
    ]
    assert said[0].stdout == said[1].stdout != ""
    assert said[0].exit_code == said[1].exit_code


def test_reports_and_charts_are_the_same(pair: Pair, tmp_path: Path) -> None:
    found = []
    for name, line in (("local", pair.local), ("remote", pair.remote)):
        line.run("report", *SIDES, "--out", tmp_path / name)
        line.ok("chart", "survival", *SIDES, "--out", tmp_path / name / "chart.json", "--warehouse", line.warehouse)
        report = json.loads((tmp_path / name / "report.json").read_text())
        found.append((timeless(report), (tmp_path / name / "chart.json").read_text()))
    assert found[0] == found[1]


def test_status_says_what_is_there_and_where_the_working_copy_is(pair: Pair) -> None:
    with opened(str(pair.remote.warehouse), writing=True) as root:
        copy = str(root)
    found = [json.loads(line.ok("status", "--format", "json")) for line in (pair.local, pair.remote)]
    for one in found:
        one["bytes"] = [(table.pop("bytes") > 0) for table in one["tables"]]
    place = found[1].pop("warehouse")
    assert place == "s3://pair/deep/er"
    assert found[1].pop("working_copy") == copy
    assert (found[0].pop("warehouse"), found[0].pop("working_copy")) == (str(pair.local.warehouse), None)
    assert found[0] == found[1]
    assert f"working copy: {copy}\n" in pair.remote.ok("status")


def test_a_question_brings_only_the_tables_that_it_needs(pair: Pair) -> None:
    assert pair.remote.value("SELECT count(*) FROM ledger") > 0
    cache = Cache(Store(str(pair.remote.warehouse)))
    held = {path.name.partition("-")[0] for path in (cache.folder / "objects").iterdir()}
    manifest, _ = cache.manifest()
    assert {path.split("/")[0] for path, entry in manifest.files.items() if entry.digest in held} == {
        "_schema", "ledger",
    }  # fmt: skip


def test_another_machine_goes_on_where_the_first_ended(pair: Pair, tmp_path: Path) -> None:
    pair.remote.ok("transform")
    assert pair.remote.value("SELECT count(*) FROM ingested_files") == pair.local.value(
        "SELECT count(*) FROM ingested_files"
    )
    copy = Cache(Store(str(pair.remote.warehouse))).copy
    with duckdb.connect(str(copy / "specledger.duckdb"), read_only=True) as connection:
        ((rows,),) = connection.execute("SELECT count(*) FROM ledger").fetchall()
    assert rows == pair.local.value("SELECT count(*) FROM ledger")


def test_nothing_new_is_nothing_published(pair: Pair) -> None:
    before = Store(str(pair.remote.warehouse)).get(ROOT)
    pair.remote.ok("ingest", pair.local.warehouse.parent / "input", *INGEST)
    assert Store(str(pair.remote.warehouse)).get(ROOT) == before


def test_credentials_and_options_are_nowhere(pair: Pair) -> None:
    place = str(pair.remote.warehouse)
    for key, body in objects(place).items():
        for word in (seaweed.SECRET, seaweed.KEY, "endpoint_override"):
            assert word.encode() not in body, f"{word} is in {key}"


def test_a_warehouse_that_nobody_wrote_is_empty(place: str) -> None:
    result = CommandLine(place).run("sql", "SELECT 1")
    assert result.exit_code == 2
    assert "s3://specledger/" in result.stderr
    assert "is empty" in result.stderr


def test_wrong_credentials_are_one_sentence_without_them(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another-secret")
    for command in (("sql", "SELECT 1"), ("transform",)):
        result = CommandLine(place).run(*command)
        assert result.exit_code == 4
        (line,) = result.stderr.splitlines()
        assert line.endswith("(SignatureDoesNotMatch): check the credentials and what they allow.")
        assert "secret" not in line
        assert seaweed.KEY not in line


def test_a_missing_library_is_one_sentence(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    result = CommandLine(place).run("sql", "SELECT 1")
    assert result.exit_code == 2
    assert "pip install 'specledger[objects]'" in result.stderr


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("s3://", "names no bucket"),
        ("s3://me:hush@bucket/x", "holds credentials"),
        ("s3://Not A Bucket/x", "names no bucket"),
        ("s3://bucket/x?colour=red", "'colour'"),
        ("ftp://bucket/x", "is no object store"),
        ("az://container/x", "AZURE_STORAGE_ACCOUNT"),
    ],
)
def test_a_url_that_names_no_store_is_wrong_use(url: str, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME"):
        monkeypatch.delenv(name, raising=False)
    result = CommandLine(url).run("sql", "SELECT 1")
    assert result.exit_code == 2
    assert word in result.stderr
    assert "hush" not in result.stderr


def test_the_environment_says_where_the_store_is(pair: Pair, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("SPECLEDGER_WAREHOUSE", "s3://pair/deep/er")
    result = CliRunner().invoke(cli, ["sql", "SELECT count(*) FROM quality", "--format", "csv"])
    assert (result.exit_code, result.stdout.splitlines()[1]) == (0, "0")


@pytest.mark.parametrize("url", ["gs://b/x/y", "gcs://b/x", "az://c/x", "abfss://c@acct.dfs.core.windows.net/x"])
def test_other_stores_are_spoken_to_through_the_same_library(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "acct")
    monkeypatch.setenv("AZURE_STORAGE_KEY", "c2VjcmV0")
    assert Store(url).url == url


def test_commands_that_need_no_warehouse_ask_no_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECLEDGER_WAREHOUSE", "s3://nowhere/x?endpoint_override=127.0.0.1:1&scheme=http")
    assert "speedup" in CommandLine(Path()).ok("estimate", "--acceptance", 0.8, "--gamma", 3)


def test_a_store_that_a_newer_specledger_wrote_is_refused(place: str) -> None:
    Store(place).put(ROOT, b'{"format": 99}')
    for command in (("sql", "SELECT 1"), ("transform",)):
        result = CommandLine(place).run(*command)
        assert result.exit_code == 4
        assert "has format 99" in result.stderr
        assert "upgrade specledger" in result.stderr


def test_a_file_that_was_damaged_is_refused(pair: Pair, place: str) -> None:
    with opened(place, writing=True) as root:
        shutil.copytree(pair.local.warehouse, root, dirs_exist_ok=True)
    (key,) = [key for key in Store(place).below("ledger") if f"date={day(0)}" in key]
    Store(place).put(key, b"PAR1")
    shutil.rmtree(os.environ["SPECLEDGER_CACHE"])
    result = CommandLine(place).run("sql", "FROM ledger")
    assert result.exit_code == 4
    assert f"{key} is damaged" in result.stderr


def test_a_night_is_the_same(pair: Pair, place: str, tmp_path: Path) -> None:
    folders = {}
    for name, warehouse in (("local", "warehouse"), ("remote", place)):
        folders[name] = tmp_path / name
        write_night(folders[name] / "input" / "chat", 0)
        text = CONFIG.replace('"warehouse"', f'"{warehouse}"') + "\n[housekeeping]\ncompact_files = 2\n"
        (folders[name] / "specledger.toml").write_text(text)
        CommandLine(Path()).ok("nightly", "--config", folders[name] / "specledger.toml", "--date", str(day(0)))
        CommandLine(Path()).ok("housekeeping", "--config", folders[name] / "specledger.toml", "--upgrade")
    local, remote = (
        timeless(json.loads((folder / "nights" / str(day(0)) / "report.json").read_text()))
        for folder in folders.values()
    )
    assert local == remote
    assert sorted(path.name for path in (folders["remote"]).iterdir()) == ["input", "nights", "specledger.toml"]
