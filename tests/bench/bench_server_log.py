"""Server-log ingest, end to end to Parquet, against ``grep -c`` for the records on the same file.

``python -m tests.bench.bench_server_log [MEGABYTES]``
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import zstandard

from specledger.ingest.run import ingest
from tests import captures

GOAL = 8.0
"""Times the time of the anchor, at most."""
REPEATS = 5
ANCHOR = ("grep", "-cE", r"SpecDecoding|Engine [0-9]+: |Iteration")
LOGS = {"default_flags": "default flags", "dynamic_sd": "iteration details, each request"}
"""Captures whose logs are repeated, and what is in them."""


def long_log(folder: Path, capture: str, size: int) -> Path:
    """One start of a server and then its working records, again and again, at least ``size`` bytes in all."""
    with (captures.folder(capture) / "server.log.zst").open("rb") as file:
        content = zstandard.ZstdDecompressor().stream_reader(file).read()
    ready = content.index(b"\n", content.index(b"Application startup complete")) + 1
    end = re.search(rb"^.*\[shutdown\].*$", content, re.MULTILINE)
    body = content[ready : end.start() if end else None]
    path = folder / f"{capture}.log"
    with path.open("wb") as out:
        out.write(content[:ready])
        while out.tell() < size:
            out.write(body)
    return path


def seconds(work: Callable[[], object]) -> float:
    """Median wall time of a few runs after one to warm up."""
    work()
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def main(megabytes: int = 50) -> float:
    """Print times and ratios; the worst ratio."""
    worst = 0.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for capture, title in LOGS.items():
            path = long_log(folder, capture, megabytes << 20)
            warehouses = (folder / f"warehouse-{capture}-{number}" for number in range(1_000))
            anchor = seconds(lambda path=path: subprocess.run([*ANCHOR, path], stdout=subprocess.PIPE, check=True))
            product = seconds(
                lambda path=path, warehouses=warehouses: ingest(
                    next(warehouses), [path], deployment="d", timezone="UTC"
                )
            )
            ratio = product / anchor
            worst = max(worst, ratio)
            size = path.stat().st_size
            print(
                f"server log, {title}: {size / 1e6:.0f} MB, grep {anchor * 1e3:.0f} ms, ingest {product * 1e3:.0f} ms "
                f"({size / product / 1e6:.0f} MB/s), {ratio:.1f} times (goal at most {GOAL:.0f})"
            )
    return worst


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
