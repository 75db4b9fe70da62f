"""Blocks of whole lines: together they are the stream, whatever its lines are."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specledger.ingest import lines
from specledger.ingest.lines import Block, Overlong, blocks


@settings(max_examples=100)
@given(
    content=st.lists(st.sampled_from([b"a", b"bb" * 9, b"\n", b"\n", b"c" * 70]), max_size=60).map(b"".join),
    begun=st.integers(0, 40),
    block=st.integers(1, 50),
)
def test_blocks_are_the_stream_cut_at_line_ends(content: bytes, begun: int, block: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lines, "BLOCK_BYTES", block)
        patched.setattr(lines, "MAX_LINE_BYTES", 64)
        found = list(blocks(io.BytesIO(content[begun:]), 0, content[:begun]))
    offset = 0
    for one in found:
        assert one.offset == offset
        if isinstance(one, Overlong):
            text = content[offset : offset + one.size]
            assert one.size > 64
            assert text.endswith(b"\n") == one.terminated
            assert b"\n" not in text[:-1]
        else:
            text = one.data
            assert content[offset:].startswith(text)
            assert text.endswith(b"\n") == one.terminated
        assert one.terminated or one is found[-1]
        offset += len(text)
    assert offset == len(content)


def test_only_the_beginning_of_an_overlong_line_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 100)
    monkeypatch.setattr(lines, "BLOCK_BYTES", 64)
    content = b"one\n" + b"x" * 10_000 + b"\ntwo"
    first, second, third = blocks(io.BytesIO(content), 50)
    assert first == Block(50, b"one\n")
    assert isinstance(second, Overlong)
    assert (second.offset, second.size, len(second.head) <= 4_096) == (54, 10_001, True)
    assert third == Block(10_055, b"two", terminated=False)
