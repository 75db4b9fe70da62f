"""All benchmarks in one table: ``python -m tests.bench [--scale 10] [--only ingest] [--out bench.json]``.

Ratios against anchors that were measured in the same run on the same data; times alone say little about other machines.
Ends with 1 if a goal was missed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from specledger import __version__
from tests.bench.measure import Row, table

BENCHES = ("ingest", "transforms", "report", "fleet", "footprint", "spark")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, row by row on standard error while it grows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="times the usual size of inputs")
    parser.add_argument("--only", choices=BENCHES, action="append", help="only these")
    parser.add_argument("--out", type=Path, help="write the rows as JSON, to compare commits by")
    given = parser.parse_args(arguments)
    rows: list[Row] = []
    for name in given.only or BENCHES:
        with tempfile.TemporaryDirectory() as folder:
            for row in importlib.import_module(f"tests.bench.bench_{name}").rows(given.scale, Path(folder)):
                print(" · ".join(filter(None, row.cells())), file=sys.stderr, flush=True)
                rows.append(row)
    print(table(rows))
    if given.out:
        told = {
            "version": __version__,
            "scale": given.scale,
            "python": platform.python_version(),
            "rows": [asdict(row) for row in rows],
        }
        given.out.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0 if all(row.kept for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
