"""Fixtures that every test may use: the command line in-process, and warehouses built once from real captures."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# Helpers of the tests are imported as tests.…, also where the tests run against an installed wheel.
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from tests import captures  # noqa: E402
from tests.command_line import CommandLine  # noqa: E402
from tests.scale import SCALE, TRIED  # noqa: E402


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch, shared_folder: Path) -> None:
    for name in [name for name in os.environ if name.startswith("SPECLEDGER_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared_folder / "caches"))


@pytest.fixture
def cli(tmp_path: Path) -> CommandLine:
    """The command line with a warehouse of its own, empty at first."""
    return CommandLine(tmp_path / "warehouse")


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all test processes of this run share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def captured(shared_folder: Path) -> Callable[..., CommandLine]:
    """``captured(*names)``: the command line over a transformed warehouse of these captures; read it only.

    A capture is ingested under its own name as deployment. Each combination is built once a test run.
    """

    def build(*names: str) -> CommandLine:
        target = shared_folder / f"captured-{'-'.join(names)}"
        with _locked(target.with_suffix(".lock")):
            if not target.exists():
                aside = CommandLine(target.with_suffix(".building"))
                shutil.rmtree(aside.warehouse, ignore_errors=True)
                for name in names:
                    aside.ok("ingest", *captures.inputs(name), "--deployment", name, *captures.OPTIONS)
                aside.ok("transform")
                aside.warehouse.rename(target)
        return CommandLine(target)

    return build


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say after a lengthened run in one process how much was tried."""
    if SCALE > 1 and TRIED:
        terminalreporter.section("random records and inputs")
        for what, count in sorted(TRIED.items()):
            terminalreporter.write_line(f"{count:>12,} {what}")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
