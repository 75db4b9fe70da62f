"""Streams: the same bytes out of plain, gzip and zstd files, whatever their members, cuts and sizes."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from specledger.ingest import content_hash, streams
from specledger.ingest.content_hash import digest, hexdigest
from specledger.ingest.streams import InputStream, open_input

TEXT = b"".join(b"line %d of some log\n" % number for number in range(20_000))


def opened(content: bytes) -> InputStream:
    return InputStream(io.BytesIO(content), "input")


def zstd(content: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(content)


def skippable_frame(content: bytes) -> bytes:
    return b"\x50\x2a\x4d\x18" + len(content).to_bytes(4, "little") + content


@pytest.mark.parametrize(
    "packed",
    [
        TEXT,
        gzip.compress(TEXT),
        gzip.compress(TEXT[:1_000]) + gzip.compress(TEXT[1_000:]),
        gzip.compress(TEXT) + b"\0" * 512,
        zstd(TEXT),
        zstd(TEXT[:1_000]) + zstd(TEXT[1_000:]),
        skippable_frame(b"an index") + zstd(TEXT),
        gzip.compress(TEXT[:10])
        + b"".join(gzip.compress(TEXT[at : at + 50_000]) for at in range(10, len(TEXT), 50_000)),
    ],
    ids=["plain", "gzip", "two members", "padded", "zstd", "two frames", "skippable frame", "many members"],
)
def test_every_wrapping_gives_the_same_bytes(packed: bytes) -> None:
    stream = opened(packed)
    assert stream.buffered().read() == TEXT
    assert stream.damage is None


@pytest.mark.parametrize("pack", [gzip.compress, zstd], ids=["gzip", "zstd"])
def test_of_a_cut_file_all_that_can_be_read_is_read_and_the_cut_is_told(pack) -> None:
    packed = pack(TEXT)
    stream = opened(packed[: len(packed) * 2 // 3])
    content = stream.buffered().read()
    assert content
    assert TEXT.startswith(content)
    assert "is cut after" in (stream.damage or "")


@pytest.mark.parametrize("pack", [gzip.compress, zstd], ids=["gzip", "zstd"])
def test_of_a_damaged_file_the_start_is_read_and_the_damage_is_told(pack) -> None:
    packed = bytearray(pack(TEXT) + pack(TEXT))
    place = len(packed) // 2 + 40
    packed[place : place + 8] = b"\xff" * 8
    stream = opened(bytes(packed))
    content = stream.buffered().read()
    assert (TEXT + TEXT).startswith(content[: len(TEXT)])
    assert "is damaged after" in (stream.damage or "")


def test_a_member_followed_by_something_else_is_damage() -> None:
    stream = opened(gzip.compress(TEXT) + b"not a member")
    assert stream.buffered().read() == TEXT
    assert stream.damage is not None


@pytest.mark.parametrize("pack", [gzip.compress, zstd], ids=["gzip", "zstd"])
def test_a_file_that_grows_without_measure_is_read_no_further(pack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "BOMB_FLOOR", 1 << 20)
    monkeypatch.setattr(streams, "BOMB_RATIO", 100)
    stream = opened(pack(bytes(64 << 20)) * 8)
    size = 0
    while chunk := stream.read(1 << 20):
        size += len(chunk)
    assert size < 8 * 64 << 20
    assert "more than 100 times its size" in (stream.damage or "")


def test_chunks_are_bounded_whatever_the_compression() -> None:
    stream = opened(gzip.compress(bytes(32 << 20)))
    assert all(len(chunk) <= streams.CHUNK for chunk in stream._chunks)


def test_a_plain_file_ends_where_it_ended_when_it_was_opened(tmp_path: Path) -> None:
    path = tmp_path / "growing.log"
    path.write_bytes(b"one\n")
    with open_input(path) as stream:
        with path.open("ab") as writer:
            writer.write(b"two\n")
        assert stream.buffered().read() == b"one\n"


def test_the_head_is_seen_without_being_read() -> None:
    stream = opened(TEXT)
    assert stream.head == TEXT[: streams.SNIFF_BYTES]
    assert stream.peek(100_000)[:100_000] == TEXT[:100_000]
    assert stream.buffered().read() == TEXT


@settings(max_examples=40, deadline=None)
@given(
    content=st.builds(lambda piece, times: piece * times, st.binary(max_size=1_000), st.integers(0, 300)),
    sizes=st.lists(st.integers(1, 90_000), max_size=8),
    offset=st.integers(0, 300_000),
)
def test_the_hash_of_a_prefix_is_that_of_its_bytes(content: bytes, sizes: list[int], offset: int) -> None:
    stream = opened(content)
    position = 0
    for size in sizes:
        position += len(stream.read(size))
    if offset > position:
        assert stream.prefix_hash(offset) is None
    else:
        assert stream.prefix_hash(offset) == hexdigest(digest(content[:offset]))


def test_the_hash_survives_the_release_of_the_stream() -> None:
    for content in (b"small\n", TEXT * 3):
        stream = opened(content)
        if stream.exhausted:
            assert stream.rest_hash() == hexdigest(digest(content))
        stream.buffered().read()
        stream.release()
        assert stream.prefix_hash(len(content)) == hexdigest(digest(content))
        assert stream.prefix_hash(1) is None


def test_what_lies_too_far_back_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_hash, "LAG", 1_000)
    stream = opened(bytes(100_000) + b"x")
    stream.skip(90_000)
    stream.skip(5_000)
    assert stream.prefix_hash(10) is None
    assert stream.prefix_hash(95_000) == hexdigest(digest(bytes(95_000)))
