"""Every case that is written when it is wanted comes out as it must, through the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests import acceptance
from tests.command_line import CommandLine
from tests.reports.written_cases import CASES, Case


@pytest.mark.parametrize("write", CASES, ids=lambda write: write.__name__)
def test_written_case(write: Callable[[Case], None], cli: CommandLine, tmp_path: Path) -> None:
    case = Case(tmp_path / "case")
    write(case)
    case.write()
    assert acceptance.failures(case.folder, cli, tmp_path / "out") == []
