"""A warehouse is kept small and in order, and says what it holds."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import tomllib
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from specledger.__main__ import cli as program
from specledger.ingest import ingest
from specledger.nightly import housekeeping, template, upgrade
from specledger.nightly.config import Housekeeping, load
from specledger.schemas import RAW_TABLES, TABLES, exchange, layout
from specledger.schemas.config import DEFAULT_SETTINGS
from specledger.schemas.errors import WarehouseError, WarehouseTooNew
from specledger.schemas.lock import exclusive
from specledger.schemas.published import BEGUN, publish, published
from specledger.schemas.warehouse import DATABASE, READ, Warehouse
from specledger.transforms.runner import Summary, run
from tests.command_line import CommandLine
from tests.nightly.killed import contents
from tests.nightly.simulated import day, write_night

RAW_KEPT = {"snapshots": 10, "requests": 10, "log_stats": 10}
NOTHING = Summary((), (), ())


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse of two days, eight apart, into which the files of each day came one by one."""
    folder = tmp_path_factory.mktemp("crowded")
    for number in (0, 8):
        for kind, path in write_night(folder / "input", number).items():
            if kind == "responses":
                lines = path.read_text().splitlines(keepends=True)
                for part in range(3):
                    (folder / f"{number}-{part}.jsonl").write_text("".join(lines[part::3]))
                    ingest(folder / "warehouse", [folder / f"{number}-{part}.jsonl"], deployment="chat")
            else:
                ingest(folder / "warehouse", [path], deployment="chat", year=2026, timezone="UTC")
    run(Warehouse(folder / "warehouse"), DEFAULT_SETTINGS)
    return folder


@pytest.fixture
def warehouse(crowded: Path, tmp_path: Path) -> Warehouse:
    shutil.copytree(crowded / "warehouse", tmp_path / "warehouse")
    return Warehouse(tmp_path / "warehouse")


def computed_again(warehouse: Warehouse) -> Summary:
    return run(warehouse, DEFAULT_SETTINGS)


def files(warehouse: Warehouse, table: str) -> int:
    return len(warehouse.files(TABLES[table]))


def test_small_files_are_put_together_and_nothing_else_changes(warehouse: Warehouse, crowded: Path) -> None:
    before = contents(warehouse.root)
    assert (files(warehouse, "requests"), files(warehouse, "snapshots")) == (6, 2)
    assert housekeeping.run(warehouse, Housekeeping(compact_files=3), DEFAULT_SETTINGS)["compacted_files"] >= 4
    assert (files(warehouse, "requests"), files(warehouse, "snapshots")) == (2, 2)
    assert contents(warehouse.root) == before
    assert computed_again(warehouse) == NOTHING
    assert ingest(warehouse, sorted(crowded.glob("*.jsonl")), deployment="chat").rows == {}
    assert list((warehouse.root / "_tmp").iterdir()) == []
    assert housekeeping.run(warehouse, Housekeeping(compact_files=3), DEFAULT_SETTINGS)["compacted_files"] == 0


def test_where_folders_cannot_be_exchanged_files_stay_as_they_are(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "_renameat2", lambda: None)
    before = contents(warehouse.root)
    assert housekeeping.run(warehouse, Housekeeping(compact_files=3), DEFAULT_SETTINGS)["compacted_files"] == 0
    assert (files(warehouse, "requests"), contents(warehouse.root)) == (6, before)


def test_old_rows_go_and_what_was_computed_from_them_stays(warehouse: Warehouse, crowded: Path, tmp_path: Path) -> None:
    with warehouse.connect() as connection:
        acceptance = connection.execute("FROM acceptance ORDER BY ALL").fetchall()
    work = Housekeeping(keep_days=RAW_KEPT)
    assert housekeeping.run(warehouse, work, DEFAULT_SETTINGS, day(9))["removed_partitions"] == 0
    assert housekeeping.run(warehouse, work, DEFAULT_SETTINGS, day(400))["removed_partitions"] == 0
    ingest(warehouse, [write_night(tmp_path / "newer", 10)["responses"]], deployment="chat")
    computed_again(warehouse)
    assert housekeeping.run(warehouse, work, DEFAULT_SETTINGS, day(400))["removed_partitions"] == 3
    assert {file.date for name in RAW_KEPT for file in warehouse.files(TABLES[name])} == {day(8), day(10)}
    assert not (warehouse.root / "requests" / f"date={day(0)}").exists()
    assert computed_again(warehouse) == NOTHING
    with warehouse.connect() as connection:
        kept = connection.execute(f"FROM acceptance WHERE date <= DATE '{day(8)}' ORDER BY ALL").fetchall()
    assert kept == acceptance
    assert ingest(warehouse, sorted(crowded.glob("0-*.jsonl")), deployment="chat").rows == {}


def test_rows_that_come_after_theirs_have_gone_do_not_replace_what_was_computed(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    cli = CommandLine(warehouse.root)
    cli.ok("ingest", write_night(tmp_path / "newer", 10)["responses"], "--deployment", "chat")
    computed_again(warehouse)
    housekeeping.run(warehouse, Housekeeping(keep_days=RAW_KEPT), DEFAULT_SETTINGS, day(11))
    before = cli.rows("FROM acceptance ORDER BY ALL")
    late = write_night(tmp_path / "late", 0)["responses"]
    late.write_text(late.read_text().replace("cmpl-", "cmpl-late"))
    cli.ok("ingest", late, "--deployment", "chat")
    assert cli.value(f"SELECT count(*) FROM requests WHERE date = DATE '{day(0)}'") > 0
    assert computed_again(warehouse) == NOTHING
    assert cli.rows("FROM acceptance ORDER BY ALL") == before


def asked(warehouse: Warehouse) -> int:
    """How many dates the views of the database have."""
    with duckdb.connect(str(warehouse.root / DATABASE), read_only=True) as connection:
        ((dates,),) = connection.execute("SELECT count(DISTINCT date) FROM acceptance").fetchall()
    return int(dates)


@pytest.mark.parametrize("moment", ["schemas.published.publish", "nightly.housekeeping.publish_database"])
def test_readers_see_what_a_run_removed_that_was_ended_then(
    moment: str, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def killed(*_: object, **__: object) -> None:
        raise Killed

    work = Housekeeping(keep_days={"acceptance": 8})
    computed_again(warehouse)
    publish(warehouse, TABLES.values())
    with monkeypatch.context() as patched:
        patched.setattr(f"specledger.{moment}", killed)
        with pytest.raises(Killed):
            housekeeping.run(warehouse, work, DEFAULT_SETTINGS, day(8))
    if not moment.endswith("publish_database"):
        seen = published(warehouse.root).files(TABLES["acceptance"])
        assert {file.date for file in seen} == {day(0), day(8)}
    assert asked(warehouse) == 2
    assert housekeeping.run(warehouse, work, DEFAULT_SETTINGS, day(8))["removed_partitions"] == 0
    seen = published(warehouse.root).files(TABLES["acceptance"])
    assert {file.date for file in seen} == {day(8)}
    assert asked(warehouse) == 1
    assert not list((warehouse.root / READ).glob(f"*{BEGUN}"))


def test_results_go_once_their_time_has_come(warehouse: Warehouse) -> None:
    work = Housekeeping(
        keep_days={**RAW_KEPT, "iterations": 10, "run_totals": 10, "acceptance": 8, "cells_requests": 8}
    )
    housekeeping.run(warehouse, work, DEFAULT_SETTINGS, day(8))
    assert {file.date for file in warehouse.files(TABLES["acceptance"])} == {day(8)}
    assert computed_again(warehouse) == NOTHING


def test_an_empty_warehouse_has_nothing_to_tidy(tmp_path: Path) -> None:
    work = Housekeeping(compact_files=2, keep_days=RAW_KEPT)
    done = housekeeping.run(Warehouse(tmp_path / "empty"), work, DEFAULT_SETTINGS)
    assert done == {"compacted_files": 0, "removed_partitions": 0}


@pytest.mark.parametrize("command", [["transform"], ["check"], ["sql", "SELECT 1"], ["ingest", __file__], ["status"]])
def test_a_newer_warehouse_is_refused_in_one_sentence(cli: CommandLine, command: list[str]) -> None:
    cli.warehouse.mkdir()
    (cli.warehouse / "requests").mkdir()
    (cli.warehouse / layout.FILE).write_text('{"version": 99}')
    result = cli.run(*command)
    assert (result.exit_code, len(result.stderr.splitlines())) == (WarehouseTooNew.exit_code, 1)
    assert "has layout 99, and this specledger knows 1: upgrade specledger." in result.stderr


def test_a_layout_that_is_damaged_and_one_that_may_not_be_read_need_different_help(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.warehouse.mkdir()
    (cli.warehouse / layout.FILE).write_text("{")
    assert "restore it from a backup" in cli.run("status").stderr

    def refused(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_text", refused)
    result = cli.run("status")
    assert (result.exit_code, "backup" in result.stderr) == (WarehouseError.exit_code, False)
    assert f"{layout.FILE} may not be read: give the user of specledger the right to read it." in result.stderr


def test_an_older_warehouse_is_read_and_upgraded_only_on_request(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    upgraded = []
    monkeypatch.setattr(layout, "VERSION", 2)
    monkeypatch.setattr(upgrade, "STEPS", {1: lambda warehouse: upgraded.append(warehouse.root)})
    cli = CommandLine(warehouse.root)
    assert cli.value("SELECT count(*) FROM requests") > 0
    result = cli.run("transform")
    assert result.exit_code == WarehouseError.exit_code
    assert "run specledger housekeeping --upgrade" in result.stderr
    config = warehouse.root.parent / "specledger.toml"
    config.write_text('[[source]]\npaths = ["input"]\n')
    done = CliRunner().invoke(program, ["housekeeping", "--upgrade", "--config", str(config)])
    assert done.stdout == "Layout 1, now 2.\n0 files put together, 0 partitions removed.\n"
    assert upgraded == [warehouse.root]
    cli.ok("transform")


def test_status_tells_what_is_there_and_what_is_not(warehouse: Warehouse) -> None:
    for name in ("snapshots", "requests", "log_stats"):
        for file in warehouse.files(TABLES[name]):
            at = dt.datetime.combine(file.date, dt.time(23), dt.UTC).timestamp()
            os.utime(file.path, (at, at))
    late = warehouse.files(TABLES["requests"], date=day(0))[0].path
    os.utime(late)
    publish(warehouse, RAW_TABLES)
    (warehouse.root / "_pending").mkdir(exist_ok=True)
    (warehouse.root / "_pending" / "batch.json").touch()
    (warehouse.root / "_tmp" / "old-aside").mkdir()
    os.utime(warehouse.root / "_tmp" / "old-aside", (0, 0))
    (warehouse.root / "_tmp" / "young.parquet").touch()
    with exclusive(warehouse.root, "ingest"):
        found = json.loads(CommandLine(warehouse.root).ok("status", "--format", "json"))
    (chat,) = found["deployments"]
    assert (chat["deployment"], chat["nights"], chat["newest"]) == ("chat", 2, f"{day(8)} 02:00:30")
    assert chat["missing"] == [str(day(number)) for number in range(1, 8)]
    assert (chat["late"], chat["uncomputed"]) == ([str(day(0))], [])
    assert (found["leftovers"], found["unfinished"]) == (1, 1)
    assert found["running"]["ingest"]["pid"] == os.getpid()
    assert found["bytes"] == sum(table["bytes"] for table in found["tables"])
    text = CommandLine(warehouse.root).ok("status")
    assert "without rows: " in text
    assert f"written more than a day late: {day(0)}" in text
    assert "1 unfinished batches and 1 old files aside" in text
    assert "runs since" not in text


def test_init_writes_a_configuration_that_can_be_used(tmp_path: Path) -> None:
    write_night(tmp_path / "logs" / "chat", 0)
    write_night(tmp_path / "logs" / 'od"d\\', 0)
    (tmp_path / "logs" / "notes").mkdir()
    (tmp_path / "logs" / "notes" / "readme.txt").write_text("nothing\n")
    out = tmp_path / "specledger.toml"
    call = ["init", str(tmp_path / "logs"), "--out", str(out)]
    result = CliRunner().invoke(program, call)
    assert result.exit_code == 0, result.stderr
    config = load(out)
    assert [source.deployment for source in config.sources] == ["chat", 'od"d\\']
    assert [source.paths for source in config.sources] == [
        (str(tmp_path / "logs" / name),) for name in ("chat", 'od"d\\')
    ]
    assert "chat: 1 exposition, 1 responses, 1 server_log" in result.stdout
    again = CliRunner().invoke(program, call)
    assert (again.exit_code, "--force" in again.stderr) == (2, True)


def test_init_counts_every_file_or_says_how_many_it_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "logs" / "chat"
    folder.mkdir(parents=True)
    for number in range(301):
        (folder / f"{1795966080 + number}.prom").write_text("# HELP vllm:num_requests_running Running.\n")
    (folder / "zz.txt").write_text("nothing\n")
    call = ["init", str(tmp_path / "logs"), "--out", str(tmp_path / "specledger.toml"), "--force"]
    assert "chat: 301 exposition\n" in CliRunner().invoke(program, call).stdout
    monkeypatch.setattr(template, "MOST_LOOKED_AT", 10)
    assert "chat: 10 exposition, and 292 not looked at\n" in CliRunner().invoke(program, call).stdout


def test_every_line_that_init_comments_out_can_be_used(tmp_path: Path) -> None:
    """What follows ``# `` and looks like TOML is TOML, and the configuration accepts it."""
    write_night(tmp_path / "logs" / "chat", 0)
    out = tmp_path / "specledger.toml"
    CliRunner().invoke(program, ["init", str(tmp_path / "logs"), "--out", str(out)])
    lines = []
    for line in out.read_text().splitlines():
        bare = line.removeprefix("# ")
        lines.append(bare if bare.startswith("[") or bare.partition(" = ")[0].isidentifier() else line)
    (tmp_path / "gates.toml").touch()
    (tmp_path / "acknowledged.toml").touch()
    text = "\n".join(lines)
    out.write_text(text)
    assert {"metrics", "report", "hook", "bands", "goodput", "housekeeping"} <= tomllib.loads(text).keys()
    config = load(out)
    assert config.hook is not None
    assert [comparison.name for comparison in config.comparisons] == ["chat", "against-plain"]
    assert (config.housekeeping.keep_days["requests"], config.housekeeping.keep_days["ledger"]) == (90, 1000)


def test_folders_change_places(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    exchange.exchange(tmp_path / "a", tmp_path / "b")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]
    with pytest.raises(OSError, match="No such file"):
        exchange.exchange(tmp_path / "a", tmp_path / "absent")
