"""The same data in any wrapping is the same data, and seen twice it is there once."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from tests import captures
from tests.command_line import CommandLine

TABLES = ("snapshots", "requests", "iterations", "log_stats", "events", "deployments", "other_samples", "rejects")
SCRAPES_KEPT = 12


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small capture as plain files: scrapes one a file, the log and the responses cut short."""
    folder = tmp_path_factory.mktemp("plain")
    source = captures.folder("preemption")
    (folder / "metrics").mkdir()
    scrapes = _text(source / "metrics.prom.zst").split("# scraped_at ")[1 : SCRAPES_KEPT + 1]
    for scrape in scrapes:
        moment, _, text = scrape.partition("\n")
        (folder / "metrics" / f"{round(float(moment) * 1000)}.prom").write_text(text)
    (folder / "server.log").write_text(_head(source / "server.log.zst", 400))
    (folder / "responses.jsonl").write_text(_head(source / "responses.jsonl.zst", 20))
    return folder


def _text(path: Path) -> str:
    with path.open("rb") as file:
        return zstandard.ZstdDecompressor().stream_reader(file).read().decode()


def _head(path: Path, lines: int) -> str:
    return "".join(_text(path).splitlines(keepends=True)[:lines])


def _directory(plain: Path, _: Path) -> list[str]:
    return [str(plain)]


def _files(plain: Path, _: Path) -> list[str]:
    return [str(path) for path in sorted(plain.rglob("*")) if path.is_file()]


def _globs(plain: Path, _: Path) -> list[str]:
    return [str(plain / "metrics" / "*.prom"), str(plain / "*.log"), str(plain / "resp*")]


def _gzipped(plain: Path, aside: Path) -> list[str]:
    return [_packed(plain, aside, ".gz", gzip.compress)]


def _zstandard(plain: Path, aside: Path) -> list[str]:
    return [_packed(plain, aside, ".zst", zstandard.ZstdCompressor().compress)]


def _in_members(plain: Path, aside: Path) -> list[str]:
    def two_members(data: bytes) -> bytes:
        return gzip.compress(data[: len(data) // 2]) + gzip.compress(data[len(data) // 2 :])

    return [_packed(plain, aside, ".gz", two_members)]


def _packed(plain: Path, aside: Path, suffix: str, pack: Callable[[bytes], bytes]) -> str:
    for path in plain.rglob("*"):
        if path.is_file():
            target = aside / path.relative_to(plain).with_name(path.name + suffix)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(pack(path.read_bytes()))
            shutil.copystat(path, target)
    return str(aside)


def contents(cli: CommandLine) -> dict[str, list[tuple[object, ...]]]:
    """All rows of all raw tables, but for the name of the file that they came from, and when."""
    columns = "COLUMNS(lambda name: name NOT IN ('source', 'ingested_at'))"
    return {
        table: sorted((tuple(map(repr, row.values())) for row in cli.rows(f"SELECT {columns} FROM {table}")), key=repr)
        for table in TABLES
    }


OPTIONS = ("--deployment", "d", *captures.OPTIONS)


@pytest.mark.parametrize("wrapping", [_files, _globs, _gzipped, _zstandard, _in_members])
def test_any_wrapping_gives_the_tables_of_the_plain_directory(
    wrapping: Callable[[Path, Path], list[str]], plain: Path, tmp_path: Path
) -> None:
    expected, found = CommandLine(tmp_path / "expected"), CommandLine(tmp_path / "found")
    expected.ok("ingest", *_directory(plain, tmp_path), *OPTIONS)
    found.ok("ingest", *wrapping(plain, tmp_path / "aside"), *OPTIONS)
    assert contents(found) == contents(expected)
    assert len(contents(expected)["snapshots"]) == SCRAPES_KEPT


@pytest.mark.parametrize("again", [_directory, _files, _globs, _gzipped, _zstandard])
def test_a_second_ingest_in_any_wrapping_adds_no_row(
    again: Callable[[Path, Path], list[str]], plain: Path, cli: CommandLine, tmp_path: Path
) -> None:
    cli.ok("ingest", *_directory(plain, tmp_path), *OPTIONS)
    before = contents(cli)
    cli.ok("ingest", *again(plain, tmp_path / "aside"), *OPTIONS)
    assert contents(cli) == before
    assert before["requests"]
