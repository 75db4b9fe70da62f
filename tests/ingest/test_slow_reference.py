"""Reading one line after the other gives the very tables that the fast paths give."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import numpy as np
import polars as pl
import pytest

from specledger.ingest import exposition_repeats, log_scan, responses
from specledger.ingest.exposition_line import LineError, parse_sample, parse_series
from specledger.ingest.exposition_scan import Reading, Scrape
from specledger.ingest.log_program import Integers
from specledger.ingest.metric_names import meaning
from specledger.ingest.response_lines import Lines
from specledger.ingest.run import ingest
from specledger.ingest.series_rows import FOREIGN
from tests import captures
from tests.bench.inputs import text
from tests.ingest import exposition_writer, log_writer, response_writer
from tests.ingest.contents import contents
from tests.scale import SCALE, scaled, tried

CAPTURES = ["default_flags", "dynamic_sd"]
if SCALE > 1:
    CAPTURES = [*captures.FOLDERS, *(path.name for path in captures.DATA.iterdir() if path.is_dir())]
FILES_OF_A_KIND = 4


def _by_line(scanner: exposition_repeats.Scanner, scrapes: Sequence[Scrape]) -> list[Reading]:
    return [_reading(scanner, scrape) for scrape in scrapes]


def _reading(scanner: exposition_repeats.Scanner, scrape: Scrape) -> Reading:
    codes: list[int] = []
    values: list[float] = []
    stamps: list[float] = []
    bad: list[tuple[int, str, bytes]] = []
    comments, foreign, last = 0, False, False
    end = scrape.offset - scrape.begin + scrape.start
    for line in scrape.raw[scrape.start : scrape.stop].split(b"\n")[:-1]:
        start, end = end, end + len(line) + 1
        comments += line.startswith(b"#")
        if not line or line.startswith(b"#"):
            continue
        whole, last = line.rstrip(b"\r"), False
        if not whole.strip():
            foreign = True
            continue
        try:
            sample = parse_sample(whole)
        except LineError as why:
            if _is_foreign(line):
                foreign = True
            else:
                bad.append((start, str(why), whole))
            continue
        stamps += [sample.timestamp] if sample.timestamp is not None else []
        code = scanner.vocabulary.number(sample.series)
        last = code != FOREIGN
        foreign = foreign or not last
        if last:
            codes.append(code)
            values.append(sample.value)
    told = np.array(codes, np.int32), np.array(values, np.float64)
    return Reading(scrape, *told, comments, foreign, last, max(stamps, default=None), bad)


def _is_foreign(line: bytes) -> bool:
    """Whether a line names a series of another program, whose values are not looked at."""
    with contextlib.suppress(LineError):
        return meaning(parse_series(line.rpartition(b" ")[0]).name) is None
    return False


def _every_line(lines: log_scan._Lines) -> tuple[Integers, Integers]:
    """Lines that are read by the grammar, markers or not."""
    begins = lines.starts >= lines.block.skipped
    begins &= ~np.isin(lines.starts, np.fromiter(lines.block.pieces, dtype=np.int64))
    return np.empty(0, np.int64), np.flatnonzero(begins)


def _record_by_record(lines: Lines, shapes: object, *, hashed: bool) -> responses._Read:
    rejects: list[tuple[int, str]] = []
    found = responses._read_again(lines, list(range(len(lines))), rejects)
    if not found:
        return responses._Read(pl.DataFrame(), rejects, lines)
    return responses._finish(found[0], lines, rejects, hashed=hashed)


@pytest.fixture
def slowly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Compares what both ways find in a folder."""

    def compare(folder: Path) -> None:
        def found(name: str) -> dict[str, list[str]]:
            warehouse = tmp_path / f"{folder.name}-{name}"
            ingest(warehouse, [folder], deployment="d", year=2026, timezone="UTC")
            return contents(warehouse)

        fast = found("fast")
        with monkeypatch.context() as patched:
            patched.setattr(exposition_repeats.Scanner, "scan", _by_line)
            patched.setattr(log_scan._Lines, "of_interest", _every_line)
            patched.setattr(responses, "_read_lines", _record_by_record)
            slow = found("slow")
        assert fast.keys() >= {"snapshots", "log_stats"}
        assert fast == slow
        tried("rows of both ways compared", sum(map(len, fast.values())))

    return compare


@pytest.mark.parametrize("capture", CAPTURES)
def test_a_capture_is_read_alike(capture: str, tmp_path: Path, slowly: Callable[[Path], None]) -> None:
    folder = tmp_path / capture
    folder.mkdir()
    scrapes = re.split(r"(?m)^(?=# scraped_at )", text(capture, "metrics.prom.zst"))
    (folder / "metrics.prom").write_text("".join(scrapes[:: max(1, 8 // SCALE)]))
    for name in ("server.log", "responses.jsonl"):
        if (captures.folder(capture) / f"{name}.zst").exists():
            (folder / name).write_text(text(capture, f"{name}.zst"))
    slowly(folder)


@pytest.mark.parametrize("seed", range(scaled(1)))
def test_files_of_all_kinds_are_read_alike(seed: int, tmp_path: Path, slowly: Callable[[Path], None]) -> None:
    random, folder = Random(seed), tmp_path / "files"
    folder.mkdir()
    for number in range(FILES_OF_A_KIND):
        for name, content in (
            (f"metrics-{number}.prom", _scrapes(random)),
            (f"server-{number}.log", log_writer.write(random, records=60).content),
            (f"responses-{number}.jsonl", _responses(random)),
        ):
            (folder / name).write_bytes(content if number < 2 else _damaged(content, random))
            tried("files read both ways")
    slowly(folder)


def _scrapes(random: Random) -> bytes:
    """Scrapes of one server, which repeat each other but for values."""
    facts = exposition_writer.draw(random)
    model = exposition_writer.write(facts, random, openmetrics=random.random() < 0.5)
    some = (
        f"# scraped_at {1_789_372_800 + 5 * number}\n"
        + re.sub(r" [0-9.]+\n", lambda found: random.choice([found[0], f" {random.randint(0, 9**9)}\n"]), model)
        for number in range(random.randint(1, 12))
    )
    return "".join(some).encode()


def _responses(random: Random) -> bytes:
    return b"".join(response_writer.line(random, response_writer.facts(random, number)) for number in range(40))


def _damaged(content: bytes, random: Random) -> bytes:
    text_ = bytearray(content)
    for _ in range(random.randint(1, 20)):
        place = random.randrange(len(text_))
        if b"Received request" in text_[text_.rfind(b"\n", 0, place) + 1 : text_.find(b"\n", place)]:
            continue  # by form a request is counted by how its line begins, whatever follows
        text_[place] = random.choice(b'\n\r\t {}",=#\\0e\xff') if random.random() < 0.7 else text_[place] ^ 1
    return bytes(text_)
