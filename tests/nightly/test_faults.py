"""Faults of disks, folders, files and clocks: success, or one clear error and exit code 4; and a later run succeeds."""

from __future__ import annotations

import contextlib
import ctypes
import datetime as dt
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from specledger.ingest import prepare, session
from specledger.ingest.streams import InputStream, open_input
from specledger.reports import model, writers
from tests.command_line import CommandLine
from tests.ingest.contents import contents as raw_contents
from tests.nightly.killed import contents
from tests.nightly.simulated import day, write_config, write_night

CAPABILITY_VERSION = 0x20080522
MODES_PASSED_OVER = 1 << 1 | 1 << 2
"""The capabilities to write and to read whatever the modes say (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH)."""
OPTIONS = ("--deployment", "chat", "--year", "2026", "--timezone", "UTC")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(2):
        write_night(tmp_path / "input", number)
    return tmp_path / "input"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """``small_disk(options)``: a file system in memory with these mount options, mounted again where it is there."""
    mounted = tmp_path / "disk"

    def mount(options: str) -> Path:
        again = "remount," if mounted.exists() else ""
        mounted.mkdir(exist_ok=True)
        call = ["mount", "-t", "tmpfs", "-o", again + options, "tmpfs", str(mounted)]
        if os.getuid() or subprocess.run(call, check=False, capture_output=True).returncode:
            pytest.skip("only root may mount a small disk")
        return mounted

    yield mount
    if mounted.exists():
        subprocess.run(["umount", str(mounted)], check=False, capture_output=True)


def night(cli: CommandLine, folder: Path) -> tuple[int, list[str]]:
    """Ingest and transform; the first exit code that is not 0, with what was said."""
    for call in (("ingest", folder, *OPTIONS), ("transform",)):
        result = cli.run(*call)
        if result.exit_code:
            return result.exit_code, result.stderr.splitlines()
    return 0, []


@pytest.fixture
def undisturbed(folder: Path, cli: CommandLine) -> str:
    assert night(cli, folder) == (0, [])
    return contents(cli.warehouse)


@pytest.mark.parametrize("size", ["100k", "600k", "1m"])
def test_a_full_disk(small_disk: Callable[[str], Path], folder: Path, undisturbed: str, size: str) -> None:
    cli = CommandLine(small_disk(f"size={size}") / "warehouse")
    code, (said,) = night(cli, folder)
    assert code == 4
    assert str(cli.warehouse) in said
    assert re.search("No space (is left for|left on device)", said)
    small_disk("size=50m")
    assert night(cli, folder) == (0, [])
    assert contents(cli.warehouse) == undisturbed


def test_a_folder_that_becomes_read_only(small_disk: Callable[[str], Path], folder: Path, undisturbed: str) -> None:
    cli = CommandLine(small_disk("size=50m") / "warehouse")
    cli.ok("ingest", folder / f"{day(0)}.jsonl", *OPTIONS)
    small_disk("size=50m,ro")
    for call in (("ingest", folder, *OPTIONS), ("transform",)):
        result = cli.run(*call)
        assert (result.exit_code, len(result.stderr.splitlines())) == (4, 1)
        assert f"{cli.warehouse} cannot be written: Read-only file system" in result.stderr
    assert cli.value("SELECT count(*) > 0 FROM requests") is True
    small_disk("size=50m,rw")
    assert night(cli, folder) == (0, [])
    assert contents(cli.warehouse) == undisturbed


@pytest.mark.parametrize("options", ["size=20k", "size=50m,ro"], ids=["full", "read-only"])
def test_no_room_for_reports(
    small_disk: Callable[[str], Path], folder: Path, options: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writers, "WRITERS", (("report.json", model.to_json),))
    nights = small_disk(options)
    config = write_config(folder.parent)
    config.write_text(config.read_text().replace("input/chat", "input").replace('"nights"', f'"{nights}"'))
    cli = CommandLine(folder.parent / "warehouse")
    call = ("nightly", "--config", config, "--backfill", f"{day(0)}..{day(1)}")
    result = cli.run(*call)
    assert (result.exit_code, len(result.stderr.splitlines())) == (4, 1)
    assert str(nights) in result.stderr
    small_disk("size=50m,rw")
    cli.ok(*call)
    assert {path.parent.name for path in nights.glob("*/report.json")} == {str(day(0)), str(day(1))}


@contextlib.contextmanager
def held_to_modes() -> Iterator[None]:
    """Inside, root too is refused what the modes of files refuse: it lays down the capabilities that pass over them."""
    if os.getuid():
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    if libc.capget(header, sets):
        pytest.skip("capabilities cannot be read here")
    effective, sets[0] = sets[0], sets[0] & ~MODES_PASSED_OVER
    if libc.capset(header, sets):
        pytest.skip("capabilities cannot be laid down here")
    try:
        yield
    finally:
        sets[0] = effective
        libc.capset(header, sets)


def test_a_folder_that_may_not_be_written(folder: Path, cli: CommandLine, undisturbed: str) -> None:
    disturbed = CommandLine(cli.warehouse.with_name("disturbed"))
    disturbed.warehouse.mkdir(mode=0o500)
    with held_to_modes():
        code, (said,) = night(disturbed, folder)
    assert code == 4
    assert f"{disturbed.warehouse} cannot be written: Permission denied" in said
    disturbed.warehouse.chmod(0o700)
    with held_to_modes():
        assert night(disturbed, folder) == (0, [])
    assert contents(disturbed.warehouse) == undisturbed


def test_an_input_that_may_not_be_read(folder: Path, cli: CommandLine, undisturbed: str) -> None:
    disturbed = CommandLine(cli.warehouse.with_name("disturbed"))
    locked = folder / f"{day(1)}.jsonl"
    locked.chmod(0)
    with held_to_modes():
        code, said = night(disturbed, folder)
    assert (code, len(said)) in ((0, 0), (4, 1))
    locked.chmod(0o600)
    with held_to_modes():
        assert night(disturbed, folder) == (0, [])
    assert facts(disturbed.warehouse) == facts(cli.warehouse)


def facts(warehouse: Path) -> dict[str, list[str]]:
    """The rows but for rejects and the record of inputs, which tell what was seen of a file at the time."""
    tables = ("snapshots", "requests", "log_stats", "iterations", "events", "deployments")
    return raw_contents(warehouse, tables=tables)


def shrinks(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 3)


def vanishes(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("happens", [shrinks, vanishes])
@pytest.mark.parametrize("kind", ["prom", "log", "jsonl"])
def test_a_file_that_is_gone_or_shorter_when_it_is_read(
    folder: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch, kind: str, happens: Callable[[Path], None]
) -> None:
    """It happens between the look at its head and the rest; large files are read in many steps."""
    cli.ok("ingest", folder, *OPTIONS)
    expected = facts(cli.warehouse)
    victim = folder / f"{day(1)}.{kind}"
    content = victim.read_bytes()

    def opened(path: Path) -> InputStream:
        stream = open_input(path)
        if path == victim and path.exists():
            happens(path)
        return stream

    monkeypatch.setattr("specledger.ingest.streams.SNIFF_BYTES", 2_048)
    monkeypatch.setattr("specledger.ingest.streams.CHUNK", 2_048)
    monkeypatch.setattr(prepare, "open_input", opened)
    disturbed = CommandLine(cli.warehouse.with_name("disturbed"))
    result = disturbed.run("ingest", folder, *OPTIONS)
    assert result.exit_code in (0, 4)
    assert result.exit_code == 0 or len(result.stderr.splitlines()) == 1
    assert happens is vanishes or facts(disturbed.warehouse) != expected
    assert "fault of specledger" not in str(disturbed.rows("SELECT reason FROM rejects"))
    monkeypatch.undo()
    victim.write_bytes(content)
    disturbed.ok("ingest", folder, *OPTIONS)
    assert facts(disturbed.warehouse) == expected


def test_a_clock_that_was_set_back(folder: Path, cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock(dt.datetime):
        moment = dt.datetime(2026, 11, 20, tzinfo=dt.UTC)

        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> dt.datetime:  # type: ignore[override]
            return cls.moment

    monkeypatch.setattr(session.dt, "datetime", Clock)
    first = folder / f"{day(0)}.jsonl"
    cli.ok("ingest", first, *OPTIONS, "--label", "quant=fp8")
    Clock.moment -= dt.timedelta(days=300)
    cli.ok("ingest", folder, *OPTIONS, "--label", "quant=int4")
    cli.ok("ingest", folder, *OPTIONS, "--label", "quant=int4")
    cli.ok("transform")
    assert cli.value("SELECT count(*) = count(DISTINCT request_id || date) FROM requests") is True
    assert cli.rows("SELECT DISTINCT labels FROM deployments") == [{"labels": {"quant": "int4"}}]
    assert len(list((cli.warehouse / "deployments").rglob("labels-*.parquet"))) == 2
