"""The demo, from bundled logs to the report."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from specledger.__main__ import cli


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "out"


@pytest.fixture(scope="module")
def result(out: Path) -> Result:
    return CliRunner().invoke(cli, ["demo", "--out", str(out)])


def test_it_ends_well_and_names_the_report(result: Result, out: Path) -> None:
    assert result.exit_code == 0, result.stderr
    assert f"The report: {out / 'report' / 'report.html'}" in result.stdout
    assert (out / "report" / "report.html").stat().st_size > 10_000


def test_it_shows_the_boundary_that_the_pooled_figure_hides(result: Result) -> None:
    said = " ".join(result.stdout.partition("In short")[2].split())
    assert "a token took 53.10 ms without speculation and 50.57 ms with it: 5% faster (" in said
    assert "By load it is not one story" in said
    assert re.search(r"\d+% faster at load 1,", said)
    assert re.search(r"\d+% slower (\(undecided\) )?at load 17-32", said)
    assert "hides this" in " ".join(result.stdout.split())


def test_it_shows_every_command_as_it_would_be_typed(result: Result) -> None:
    commands = re.findall(r"^\$ specledger (\w+)", result.stdout, re.MULTILINE)
    assert commands == ["ingest", "ingest", "transform", "report"]
