"""Random requests in random spellings come back exactly; random damage loses nothing and stops nothing."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ingest import response_writer
from tests.ingest.fake_sink import run
from tests.scale import scaled, tried

RECORDS = scaled(2_000)
BATCH = 250


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, float):
        return found is not None and found == pytest.approx(expected, rel=1e-9, abs=1e-6)
    if isinstance(expected, list) and expected and isinstance(expected[0], float):
        return len(found) == len(expected) and all(
            one == pytest.approx(other, rel=1e-6, abs=1e-3) for one, other in zip(found, expected, strict=True)
        )
    return bool(found == expected)


@pytest.mark.parametrize("seed", range(max(1, RECORDS // BATCH)))
def test_random_requests_come_back_exactly(seed: int) -> None:
    choose = random.Random(seed)
    facts = [response_writer.facts(choose, number) for number in range(BATCH)]
    text = b"".join(response_writer.line(choose, fact) for fact in facts)
    sink, progress = run("responses", text)
    assert sink.rejects == []
    assert progress.offset == len(text)
    rows = sink.table("requests")
    assert len(rows) == BATCH
    for row, fact in zip(rows, facts, strict=True):
        expected = response_writer.row(fact)
        wrong = {name: (row[name], value) for name, value in expected.items() if not same(row[name], value)}
        assert wrong == {}, fact
    tried("responses read back", BATCH)


def damaged(choose: random.Random, text: bytearray) -> bytes:
    """The text with some of its bytes flipped, cut, doubled or replaced."""
    for _ in range(choose.randrange(1, 6)):
        place, size = choose.randrange(len(text) + 1), choose.randrange(1, 60)
        kind = choose.randrange(5)
        if kind == 0 and place < len(text):
            text[place] ^= 1 << choose.randrange(8)
        elif kind == 1:
            del text[place : place + size]
        elif kind == 2:
            text[place:place] = text[place : place + size]
        elif kind == 3:
            text[place:place] = choose.randbytes(size)
        else:
            text[place:place] = choose.choice([b"\n", b"\n\n", b"\0", b"{", b"[", b'"', b"\\", b"\xff\xfe", b"NaN"])
    return bytes(text)


@pytest.mark.parametrize("seed", range(max(1, RECORDS // 100)))
def test_every_record_of_a_damaged_input_is_a_row_or_a_reject(seed: int) -> None:
    choose = random.Random(seed)
    facts = [response_writer.facts(choose, number) for number in range(8)]
    text = damaged(choose, bytearray(b"".join(response_writer.line(choose, fact) for fact in facts)))
    sink, progress = run("responses", text)
    assert progress.offset == len(text)
    if text.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"["):
        return  # one document, whose end is where its first damage is
    lines = [line for line in text.split(b"\n") if line.strip()]
    offsets = {row["byte_offset"] for row in sink.table("requests")} | {offset for offset, _, _ in sink.rejects}
    elsewhere = sum(int(note.split()[0].replace(",", "")) for note in sink.notes if "other endpoints" in note)
    tried("damaged inputs of responses")
    assert len(offsets) + elsewhere >= len(lines) - text.count(b"data:")


@settings(max_examples=scaled(60), deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_read_to_their_end(content: bytes) -> None:
    sink, progress = run("responses", content)
    assert progress.offset == len(content)
    assert all(reason for _, reason, _ in sink.rejects)
