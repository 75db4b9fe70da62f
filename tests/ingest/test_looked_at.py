"""Known files that have not changed are not read again; whatever changed is."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from specledger.ingest import ingest, looked_at
from specledger.ingest.prepare import Outcome, prepare
from tests.nightly.simulated import day, started, trace, write_night
from tests.simulator import text


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were opened, as they are."""
    names: list[str] = []

    def noted(found: looked_at.Located, *rest: object) -> Outcome:
        names.append(Path(found.source).name)
        return prepare(found, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(looked_at, "prepare", noted)
    return names


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of a night, all of them settled and found to be known."""
    monkeypatch.setattr(looked_at, "SETTLED_S", 0.0)
    write_night(tmp_path / "input", 0)
    take_in(tmp_path / "input")
    take_in(tmp_path / "input")
    return tmp_path / "input"


def take_in(folder: Path, **options: object) -> tuple[int, int]:
    """Ingest it; how many inputs were known, and how many rows were new."""
    report = ingest(folder.with_name("warehouse"), [folder], year=2026, timezone="UTC", **options)  # type: ignore[arg-type]
    return sum(counts.known for counts in report.formats.values()), sum(report.rows.values())


def test_what_has_not_changed_is_known_without_being_opened(folder: Path, opened: list[str]) -> None:
    assert (take_in(folder), opened) == ((3, 0), [])
    write_night(folder, 1)
    assert take_in(folder)[0] == 3
    assert opened == [f"{day(1)}.jsonl", f"{day(1)}.log", f"{day(1)}.prom"]


def test_a_change_that_keeps_size_and_time_is_seen(folder: Path, opened: list[str]) -> None:
    path = folder / f"{day(0)}.jsonl"
    status, content = path.stat(), path.read_text()
    path.write_text(content.replace(str(started(day(0)))[:6], str(started(day(0)) + 10_000)[:6]))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    known, new = take_in(folder)
    assert (known, new > 0, opened) == (2, True, [path.name])


@pytest.mark.parametrize("which", ["moved", "grown", "exchanged"])
def test_another_file_at_a_known_place_is_opened(folder: Path, opened: list[str], which: str) -> None:
    path = folder / f"{day(0)}.jsonl"
    if which == "moved":
        path.rename(folder / "moved.jsonl")
    elif which == "grown":
        with path.open("a") as file:
            file.write(text.responses(trace(3), started(day(0)) + 3600))
    else:
        other = path.with_name("other")
        other.write_bytes(path.read_bytes())
        os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
        other.replace(path)
    known, new = take_in(folder)
    assert (known, new > 0) == ((2, True) if which == "grown" else (3, False))
    assert opened == ["moved.jsonl" if which == "moved" else path.name]


def test_a_file_that_may_still_change_within_a_tick_of_the_clock_is_opened(
    folder: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looked_at, "SETTLED_S", 1e6)
    assert (take_in(folder), len(opened)) == ((3, 0), 3)


def test_a_clock_that_was_set_back_has_files_opened(
    folder: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looked_at.time, "time", lambda before=time.time: before() - 86_400)
    assert (take_in(folder), len(opened)) == ((3, 0), 3)


def test_notes_that_cannot_be_read_or_speak_of_rows_that_are_gone_are_nothing(folder: Path, opened: list[str]) -> None:
    (notes,) = (folder.with_name("warehouse") / "_state" / "looked_at").rglob("*.parquet")
    content = notes.read_bytes()
    notes.write_bytes(b"no Parquet")
    assert (take_in(folder), len(opened)) == ((3, 0), 3)
    for path in folder.with_name("warehouse").rglob("ingested_files/**/*.parquet"):
        path.unlink()
    notes.write_bytes(content)
    take_in(folder)
    assert len(opened) == 6


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: list[str]) -> Path:
    """The files of a night, settled and read once; what was opened for that is forgotten."""
    monkeypatch.setattr(looked_at, "SETTLED_S", 0.0)
    write_night(tmp_path / "input", 0)
    take_in(tmp_path / "input")
    opened.clear()
    return tmp_path / "input"


def test_what_was_read_to_its_end_is_not_opened_the_next_time(fresh: Path, opened: list[str]) -> None:
    assert (take_in(fresh), opened) == ((3, 0), [])


def test_a_file_of_which_a_line_was_left_is_opened_until_that_is_settled(fresh: Path, opened: list[str]) -> None:
    path = fresh / "later.jsonl"
    lines = text.responses(trace(3), started(day(0)) + 3600)
    path.write_text(lines[:-10])
    first, left, settled = (take_in(fresh)[1], len(opened)), take_in(fresh), len(opened)
    assert (first[0] > 0, first[1], left[0], settled) == (True, 1, 3, 2)
    path.write_text(lines)
    assert take_in(fresh)[1] > 0


def test_a_file_that_grew_while_it_was_read_is_opened_again(
    fresh: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = fresh / "later.jsonl"
    first, *more = text.responses(trace(3), started(day(0)) + 3600).splitlines(keepends=True)
    path.write_text(first)
    before = looked_at.prepare

    def prepared(found: looked_at.Located, *rest: object) -> Outcome:
        outcome = before(found, *rest)  # type: ignore[arg-type]
        path.write_text("".join([first, *more]))
        return outcome

    with monkeypatch.context() as patched:
        patched.setattr(looked_at, "prepare", prepared)
        assert take_in(fresh)[1] > 0
    opened.clear()
    assert (take_in(fresh)[1] > 0, opened) == (True, [path.name])
