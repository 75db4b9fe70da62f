"""Exports of client tools from random facts: read back exactly, however they are printed and wherever they are cut."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.ingest.client_writer import WRITERS, Written, same
from tests.ingest.fake_sink import FakeSink, run
from tests.scale import scaled, tried


def agrees(sink: FakeSink, written: Written) -> None:
    for table, expected in written.rows.items():
        found = sink.table(table)
        assert len(found) == len(expected), table
        for row, facts in zip(found, expected, strict=True):
            wrong = {name: (row.get(name), value) for name, value in facts.items() if not same(row.get(name), value)}
            assert wrong == {}


@pytest.mark.parametrize("kind", WRITERS)
def test_what_a_tool_writes_is_read_back_exactly(kind: str) -> None:
    name, write = WRITERS[kind]
    records, number = 0, 0
    while records < scaled(400):
        written = write(Random(f"{kind} {number}"))
        sink, progress = run(name, written.content)
        assert sink.rejects == []
        assert progress.offset == len(written.content)
        agrees(sink, written)
        tried(f"records of {kind} read back", written.records)
        records, number = records + written.records, number + 1


@pytest.mark.parametrize("kind", ["aiperf", "otlp", "otlp protobuf", "bench"])
def test_an_export_that_grows_is_read_in_parts(kind: str) -> None:
    name, write = WRITERS[kind]
    for number in range(scaled(10)):
        random = Random(f"{kind} {number}")
        written = write(random)
        if kind == "bench" and b"\n{" not in written.content:
            continue  # one document that is not whole yet is no line that waits
        content = written.content
        offset, sinks = 0, []
        for end in sorted(random.randint(0, len(content)) for _ in range(3)):
            sink, progress = run(name, content[offset:end], offset=offset, settled=False)
            sinks.append(sink)
            offset = progress.offset
        sinks.append(run(name, content[offset:], offset=offset)[0])
        whole = FakeSink()
        for sink in sinks:
            assert sink.rejects == []
            for table, frames in sink.frames.items():
                whole.frames.setdefault(table, []).extend(frames)
        agrees(whole, written)


@pytest.mark.parametrize("kind", WRITERS)
def test_damage_is_never_fatal_and_never_silent(kind: str) -> None:
    name, write = WRITERS[kind]
    for number in range(scaled(20)):
        random = Random(f"damage {kind} {number}")
        written = write(random)
        content = bytearray(written.content)
        for _ in range(random.randint(1, 4)):
            place = random.randrange(len(content) + 1)
            chosen: Any = random.randrange(3)
            if chosen == 0 and place < len(content):
                content[place] ^= 1 << random.randrange(8)
            elif chosen == 1:
                del content[place : place + random.randint(1, 50)]
            else:
                content[place:place] = random.randbytes(random.randint(1, 20))
        sink, progress = run(name, bytes(content))
        assert progress.offset == len(content)
        tried(f"damaged inputs of {kind}")
        told = sink.rejects or sink.notes or any(sink.frames.values())
        assert told or not written.records or not bytes(content).strip()
