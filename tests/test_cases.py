"""Every acceptance case, through the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import acceptance
from tests.command_line import CommandLine

NOT_YET: frozenset[str] = frozenset()
"""Cases that need a part which is not built yet."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.xfail(strict=True, reason="not built yet") if name in NOT_YET else ())
        for name in acceptance.names()
    ],
)
def test_case(name: str, cli: CommandLine, tmp_path: Path) -> None:
    assert acceptance.failures(acceptance.CASES / name, cli, tmp_path / "out") == []
