"""Files of a report: all of them, each whole, and single charts from a finished report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specledger.reports import writers
from specledger.reports.model import from_json
from specledger.schemas.errors import SpecledgerError
from tests.command_line import CommandLine
from tests.sample_reports import EXAMPLE, example, no_data

NAMES = [name for name, _ in writers.WRITERS]


def test_every_form_is_written(tmp_path: Path) -> None:
    paths = writers.write_all(example(), tmp_path / "out" / "nightly")
    assert [path.name for path in paths] == NAMES
    assert {"report.html", "report.md", "junit.xml"} < set(NAMES)
    assert NAMES[-1] == "report.json"
    assert all(path.stat().st_size > 1000 for path in paths)
    assert from_json(paths[-1].read_text(encoding="utf-8")) == example()


def test_nothing_is_left_beside_the_files(tmp_path: Path) -> None:
    for _ in range(2):
        writers.write_all(no_data(), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(NAMES)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SpecledgerError, match=r"Cannot write .*file/report.html: .*; choose another place with --out"):
        writers.write_all(no_data(), tmp_path / "file")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "report.md"
    target.write_text("old")

    def full(self: Path, content: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(SpecledgerError, match="No space left on device"):
        writers.publish(target, b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["report.md"]
    assert target.read_text() == "old"


@pytest.mark.parametrize(
    ("name", "begins"),
    [("c.png", b"\x89PNG"), ("c.svg", b"<svg"), ("c.html", b"<!doctype html>"), ("c.json", b"{")],
)
def test_a_chart_is_drawn_from_a_finished_report(cli: CommandLine, tmp_path: Path, name: str, begins: bytes) -> None:
    cli.ok("chart", "speedup", "--report", str(EXAMPLE), "--out", str(tmp_path / name))
    assert (tmp_path / name).read_bytes().startswith(begins)


def test_a_chart_is_found_in_the_folder_of_a_report(cli: CommandLine, tmp_path: Path) -> None:
    writers.publish(tmp_path / "report.json", EXAMPLE.read_bytes())
    cli.ok("chart", "split", "--report", str(tmp_path), "--out", str(tmp_path / "split.json"))
    spec = json.loads((tmp_path / "split.json").read_text())
    assert spec["title"]["text"] == "Why tokens got slower or faster"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nope", "--report", str(EXAMPLE), "--out", "x.png"), "'nope' is not one of"),
        (("speedup", "--report", str(EXAMPLE), "--out", "x.gif"), "must end in one of .png, .svg, .html, .json"),
        (("speedup", "--report", "missing", "--out", "x.png"), "Cannot read missing: No such file or directory"),
        (("speedup", "--report", __file__, "--out", "x.png"), "is not a report of this version"),
        (("speedup", "--out", "x.png"), "Give --report, or --baseline and --candidate."),
        (("speedup", "--baseline", "true", "--candidate", "true", "--out", "x.png"), "is empty: ingest something"),
    ],
)
def test_wrong_use_is_one_sentence(cli: CommandLine, arguments: tuple[str, ...], message: str) -> None:
    result = cli.run("chart", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_report_with_nothing_to_draw_says_what_is_lacking(cli: CommandLine, tmp_path: Path) -> None:
    paths = writers.write_all(no_data(), tmp_path)
    result = cli.run("chart", "speedup", "--report", str(paths[-1]), "--out", str(tmp_path / "c.png"))
    assert result.exit_code == 2
    assert "No load band has both speculation and an ordinary decode time T0" in result.stderr
