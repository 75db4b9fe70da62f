"""Whatever lies in a folder is accounted for: no crash, no hang, no silent drop, and memory stays bounded.

Inputs are random bytes and pieces of real captures, cut, flipped, spliced and compressed.
"""

from __future__ import annotations

import faulthandler
import gzip
import io
import resource
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random

import pytest
import zstandard

from specledger.ingest.detect import detect
from specledger.ingest.formats import FORMATS
from specledger.ingest.reader import Input, InputContext, Progress
from specledger.ingest.run import ingest
from specledger.ingest.streams import InputStream
from tests.captures import DATA
from tests.ingest.client_writer import WRITERS
from tests.ingest.contents import rows
from tests.ingest.exposition_writer import answers, draw
from tests.ingest.fake_sink import NOON, FakeSink
from tests.ingest.log_writer import write, write_old
from tests.ingest.recording import RecordingSink
from tests.scale import scaled, tried

INPUTS = 250
"""Inputs of one test by readers alone; through all of ingest, in one folder, a fifth of it."""
SECONDS = 300
"""So many inputs take some seconds; after this one of them hangs."""
MORE_MEMORY = 512 << 20
"""Bytes by which the peak of the process may rise in one test."""
MAY_BE_EMPTY = ("server_log", "responses", "otlp", "prometheus", "unknown")
"""Formats that pass over what is none of their records: lines of other programs, other endpoints, other spans; what
several answers of a Prometheus server say of one scrape is one record.
"""
CONTEXT = InputContext("x", "d", "i", NOON, year=2026, timezone="UTC")
HEADS = (
    b"# HELP vllm:x y\n",
    b"# scraped_at 1789372800\n",
    b'{"resourceSpans": [',
    b'{"status":"success","data":{',
    b"\x0a",
)

REWRITTEN: tuple[Callable[[bytes], bytes], ...] = (
    lambda content: content.decode("utf-8", "replace").encode("utf-16"),
    lambda content: b"\xef\xbb\xbf" + content,
    lambda content: content.replace(b"\n", b"\r\n"),
    lambda content: content.replace(b"\n", b"\r"),
    lambda content: content + bytes(5_000),
    lambda content: bytes(70_000) + content,
    lambda content: b"[" + b",".join(content.splitlines()) + b"]",
    lambda content: gzip.compress(gzip.compress(content, 1), 1),
)
"""What editors, other systems, crashes, log rotation and eager compression make of a file."""


@cache
def captured() -> list[bytes]:
    """The real captures, whole."""
    files = sorted(path for path in DATA.glob("*/*.zst") if path.stat().st_size < 80_000)
    return [zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes()) for path in files]


def fuzzed(random: Random) -> bytes:
    """One input."""
    kind = random.random()
    if kind < 0.1:
        content = bytearray(random.randbytes(int(4_000 ** random.random())))
    elif kind < 0.2:
        content = bytearray(random.choice(written_by_tools()))
    else:
        content = bytearray(piece(random))
    for _ in range(random.choice([0, 1, 1, 2, 5, 20])):
        mutate(random, content)
    if random.random() < 0.1:
        content[:0] = random.choice(HEADS)
    if random.random() < 0.1:
        content = bytearray(random.choice(REWRITTEN)(bytes(content)))
    packed = random.random()
    if packed < 0.05:
        content = bytearray(gzip.compress(content, 1))
    elif packed < 0.1:
        content = bytearray(zstandard.compress(content, 1))
    if packed < 0.1 and random.random() < 0.5:
        mutate(random, content)
    return bytes(content)


@cache
def written_by_tools() -> list[bytes]:
    """Some of what the writers of these tests make; drawing anew for each input would take longer than reading it."""
    return [written(Random(f"written {number}")) for number in range(100)]


def written(random: Random) -> bytes:
    """What one of the writers of these tests makes of random facts."""
    which = random.choice([*WRITERS, "answers", "answers", "log", "old log"])
    if which == "answers":
        told = {1_789_372_800 + 15.0 * number: draw(random) for number in range(random.randint(1, 3))}
        return "\n".join(answers(told, random, {"instance": random.choice("ab")})).encode()
    if which.endswith("log"):
        return (write_old(random) if which == "old log" else write(random)).content
    return WRITERS[which][1](random).content


def piece(random: Random) -> bytes:
    """Part of a capture, mostly from a line's start; its beginning more often than other parts."""
    text = random.choice(captured())
    start = random.choice([0, random.randrange(len(text))])
    if start and random.random() < 0.7:
        start = text.find(b"\n", start) + 1
    return text[start : start + int(20_000 ** random.random())]


def mutate(random: Random, content: bytearray) -> None:
    """Flip, cut, double, insert or splice in place."""
    place, kind = random.randrange(len(content) + 1), random.randrange(7)
    if kind == 0 and place < len(content):
        content[place] ^= 1 << random.randrange(8)
    elif kind == 1:
        del content[place:]
    elif kind == 2:
        del content[place : place + random.randint(1, 200)]
    elif kind == 3:
        content[place:place] = content[place : place + random.randint(1, 500)]
    elif kind == 4:
        content[place:place] = random.randbytes(random.randint(1, 30))
    elif kind == 5:
        content[place:place] = piece(random)[:2_000]
    else:
        content[place:place] = random.choice(
            [
                b"\n",
                b"\0",
                b"\r",
                b'"',
                b"{",
                b"[" * 2_000,
                b"9" * 400,
                b"1e999",
                b"\xff",
                b"\x1b[",
                b"\\",
                b"NaN",
                b"=" * 50,
            ]
        )


@pytest.fixture
def _bounded() -> Iterator[None]:
    """Ends a test that hangs, and fails one that takes up memory without measure."""
    captured()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    faulthandler.dump_traceback_later(SECONDS, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MORE_MEMORY >> 10


@pytest.mark.parametrize("number", range(scaled(1)))
@pytest.mark.usefixtures("_bounded")
def test_every_input_ends_in_rows_or_rejects(number: int) -> None:
    random = Random(f"readers {number}")
    by_format: dict[str, list[InputStream]] = {}
    for _ in range(INPUTS):
        stream = InputStream(io.BytesIO(fuzzed(random)), "x")
        detected = detect(stream.head)
        assert detected.format or detected.reason
        by_format.setdefault(detected.format or random.choice(list(FORMATS)), []).append(stream)
    for name, streams in by_format.items():
        inputs = [Input(stream.buffered(), CONTEXT) for stream in streams]
        for stream, (progress, told) in zip(streams, read(name, inputs), strict=True):
            assert progress.offset == stream.position
            assert stream.at_end()
            assert told or name in MAY_BE_EMPTY or not stream.head.strip()
    tried("inputs of the fuzzer, by readers", INPUTS)


def read(name: str, inputs: list[Input]) -> list[tuple[Progress, bool]]:
    """How far the reader of a format came with each input, and whether it gave a row or reject of it."""
    module = FORMATS[name].load()
    if hasattr(module, "read_many"):
        many = RecordingSink()
        ends = module.read_many(inputs, many)
        told = {reject.position for reject in many.rejects}
        for frames in many.frames.values():
            told.update(*(frame["input"].unique().to_list() for frame in frames))
        return [(end, position in told) for position, end in enumerate(ends)]
    found = []
    for one in inputs:
        sink = FakeSink()
        end = module.read(one.stream, one.context, sink)
        found.append((end, bool(sink.rejects or any(sink.frames.values()))))
    return found


@pytest.mark.parametrize("number", range(scaled(1)))
@pytest.mark.usefixtures("_bounded")
def test_every_file_of_a_folder_is_accounted_for(number: int, tmp_path: Path) -> None:
    random = Random(f"fuzz {number}")
    folder, warehouse = tmp_path / "inputs", tmp_path / "warehouse"
    folder.mkdir()
    contents = {}
    for place in range(INPUTS // 5):
        name = str(folder / f"{place}.{random.choice(['prom', 'log', 'json', 'jsonl', 'gz', '1789372800'])}")
        contents[name] = fuzzed(random)
        Path(name).write_bytes(contents[name])
    # What waited for more at first is given up, and what is known adds nothing.
    reports = [ingest(warehouse, [folder], deployment="d") for _ in range(2)]
    assert rows(warehouse, "SELECT source FROM ingested_files WHERE records <> rows + rejects") == []
    assert rows(warehouse, "SELECT reason FROM rejects WHERE contains(reason, 'fault of specledger')") == []
    query = "SELECT source, list(format), sum(records) FROM ingested_files GROUP BY source"
    recorded = {source: (formats, records) for source, formats, records in rows(warehouse, query)}
    silent = [
        source
        for source, (formats, records) in recorded.items()
        if not records and not set(formats) & set(MAY_BE_EMPTY)
    ]
    assert silent == []
    # An input without a record of its own is empty, or the same as another one.
    missing = [content for name, content in contents.items() if name not in recorded and content.strip()]
    assert len(missing) <= sum(one.known for report in reports for one in report.formats.values())
    shutil.rmtree(tmp_path)
    tried("inputs of the fuzzer, through all of ingest", len(contents))
