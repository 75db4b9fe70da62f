"""Blocks of lines, pieces put together, and lines without end."""

from __future__ import annotations

import io
import json
from random import Random

import pytest

from specledger.ingest import log_lines
from specledger.ingest.log_lines import LineSource
from tests.ingest.log_reading import read
from tests.ingest.log_writer import TRAP, cri, docker, write


def lines_of(content: bytes) -> tuple[list[bytes], LineSource]:
    """The lines of a source, pieces left out and lines put together where their first piece stands."""
    source = LineSource(io.BytesIO(content), 0, {})
    found: list[tuple[int, bytes]] = []
    for block in source.blocks():
        start = 0
        for line in bytes(block.data[: block.size]).split(b"\n")[:-1]:
            if start not in block.pieces:
                found.append((block.offset + start, line))
            start += len(line) + 1
        found += [(joined.offset, joined.text) for joined in block.joined]
    return [line for _, line in sorted(found)], source


@pytest.fixture(params=[7, 64, 1 << 20])
def block_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(log_lines, "BLOCK", request.param)
    return int(request.param)


@pytest.mark.usefixtures("block_size")
class TestBlocks:
    def test_lines_come_whole_whatever_the_size_of_a_block(self) -> None:
        assert lines_of(b"one\ntwo\r\n\nthree and a half\n")[0] == [b"one", b"two\r", b"", b"three and a half"]

    def test_a_last_line_without_its_end_is_kept_apart(self) -> None:
        lines, source = lines_of(b"one\ntwo")
        assert (lines, source.rest, source.end, source.offset) == ([b"one"], b"two", 4, 4)

    def test_an_empty_log_has_no_lines(self) -> None:
        assert lines_of(b"")[0] == []

    @pytest.mark.parametrize("shape", [cri, docker])
    def test_pieces_are_joined_across_blocks(self, shape: object) -> None:
        random = Random(3)
        log = write(random, wrap=getattr(shape, "__name__", ""), records=4)
        assert read(log.content, **log.options).rejects == []


def test_pieces_of_both_streams_are_joined_apart() -> None:
    lines, _ = lines_of(
        b"2026-09-14T08:20:00.1Z stdout P out-1 \n"
        b"2026-09-14T08:20:00.2Z stderr P err-1 \n"
        b"2026-09-14T08:20:00.3Z stdout F out-2\n"
        b"2026-09-14T08:20:00.4Z stderr F err-2\n"
    )
    assert lines == [b"2026-09-14T08:20:00.1Z out-1 out-2", b"2026-09-14T08:20:00.2Z err-1 err-2"]


def test_a_source_starts_again_at_the_first_piece_of_an_incomplete_line() -> None:
    head = b"2026-09-14T08:20:00.1Z stdout F whole\n"
    _, source = lines_of(head + b"2026-09-14T08:20:00.1Z stdout P one\n2026-09-14T08:20:00.2Z stderr F other\n")
    assert (source.offset, source.state["done"]) == (len(head), source.end)


def test_a_json_file_may_have_its_text_last() -> None:
    line = json.dumps({"stream": "stdout", "time": "2026-09-14T08:20:00Z", "log": "whole\n"}).encode()
    assert lines_of(line + b"\n")[0] == [line]


class TestLongLines:
    SPEC = TRAP.encode().replace(b"09:00:00", b"10:00:00")

    @pytest.fixture(autouse=True)
    def _small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(log_lines, "BLOCK", 1_000)
        monkeypatch.setattr(log_lines, "LONGEST_LINE", 5_000)

    def test_a_long_line_is_read_whole(self) -> None:
        sink = read(b"progress " * 400 + self.SPEC + b"\n", year=2026)
        assert ([row["accepted"] for row in sink.stats], sink.rejects) == ([147], [])

    def test_of_a_line_without_end_only_the_beginning_is_looked_at_and_that_is_said(self) -> None:
        content = self.SPEC + b" " + b"x" * 20_000 + self.SPEC + b"\n" + self.SPEC.replace(b"10:00", b"11:00") + b"\n"
        sink = read(content, year=2026)
        assert [row["logged_at"].hour for row in sink.stats] == [10, 11]
        assert [(offset, "MiB" in reason) for offset, reason, _ in sink.rejects] == [(0, True)]

    def test_a_line_that_goes_on_in_the_next_read_is_passed_over(self) -> None:
        source = LineSource(io.BytesIO(b"x" * 9_000), 0, {})
        assert [block.too_long for block in source.blocks()] == [True]
        again = LineSource(io.BytesIO(b"yyy" + self.SPEC + b"\nnext\n"), source.offset, source.state)
        assert [bytes(block.data[: block.size]) for block in again.blocks()] == [b"next\n"]
