"""Exposition ingest, end to end to Parquet, against ``prometheus_client.parser`` on the same scrapes.

``python -m tests.bench.bench_exposition [MEGABYTES]``
"""

from __future__ import annotations

import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import zstandard
from prometheus_client.parser import text_string_to_metric_families

from specledger.ingest.run import ingest
from tests.captures import DATA

GOAL = 50.0
"""Times the throughput of the anchor."""
REPEATS = 3
ANCHOR_SCRAPES = 12


def scrapes() -> list[str]:
    """Real scrapes of one server under load."""
    with (DATA / "default_flags" / "metrics.prom.zst").open("rb") as file:
        text = zstandard.ZstdDecompressor().stream_reader(file).read().decode()
    return re.split(r"^# scraped_at .*\n", text, flags=re.MULTILINE)[1:]


def one_file(folder: Path, texts: list[str], size: int) -> Path:
    """A file of at least ``size`` bytes, 5 s between scrapes."""
    path = folder / "metrics.prom"
    with path.open("w") as file:
        number = 0
        while file.tell() < size:
            file.write(f"# scraped_at {1_789_372_800 + 5 * number}\n{texts[number % len(texts)]}")
            number += 1
    return path


def anchor(texts: list[str]) -> float:
    """Bytes a second of the anchor, every sample taken."""
    some = texts[:: max(1, len(texts) // ANCHOR_SCRAPES)]

    def work() -> None:
        for text in some:
            for family in text_string_to_metric_families(text):
                for _ in family.samples:
                    pass

    return sum(map(len, some)) / _seconds(work)


def product(path: Path, folder: Path) -> float:
    """Bytes a second of ``ingest`` into an empty warehouse."""
    runs = iter(range(1_000))
    return path.stat().st_size / _seconds(lambda: ingest(folder / f"warehouse-{next(runs)}", [path], deployment="d"))


def _seconds(work: Callable[[], object]) -> float:
    """Median wall time of a few runs after one to warm up."""
    work()
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def main(megabytes: int = 50) -> float:
    """Print the throughputs and the ratio; the ratio."""
    texts = scrapes()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ours = product(one_file(folder, texts, megabytes << 20), folder)
        theirs = anchor(texts)
    ratio = ours / theirs
    print(
        f"exposition ingest of {megabytes} MiB: {ours / 1e6:.0f} MB/s; prometheus_client.parser: "
        f"{theirs / 1e6:.2f} MB/s; ratio {ratio:.0f} (goal {GOAL:.0f})"
    )
    return ratio


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
