"""Real A/A: one half of a capture's requests against the other: ``python -m tests.reports.halves [FOLDER…]``.

Halves are random, or made of alternate stretches of time. Nothing differs between them, so no gate may fail. Ends with
1 if one does.
"""

from __future__ import annotations

import argparse
import datetime as dt
import itertools
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from specledger.reports.cells_read import CellReader, Part
from specledger.reports.interval import upper_bound
from specledger.reports.model import GateResult
from specledger.reports.selection import Night, Selection
from specledger.schemas.raw import REQUESTS
from specledger.schemas.warehouse import Warehouse
from tests import captures
from tests.command_line import CommandLine
from tests.reports.pool import gates

DAY = dt.date(2026, 1, 1)
HALVES = tuple(Selection(name, (Night(DAY, name),)) for name in ("one", "other"))
NAME = "json_extract_string(rest::VARCHAR, '$[4]')"
"""SQL of the name that each request has as its adapter."""
STRETCHES_S = (10.0, 60.0)
"""Shortest and longest stretch of time that goes to one half."""


class Halves(CellReader):
    """Reads the cells of a capture, each request a cell of its own, as two halves of them."""

    def __init__(self, inputs: Sequence[Path], root: Path) -> None:
        command = CommandLine(root)
        command.ok("ingest", *inputs, "--deployment", "capture", *captures.OPTIONS)
        warehouse = Warehouse(root)
        finished = _one_cell_each(warehouse)
        command.ok("transform")
        super().__init__(warehouse)
        nights = tuple(Night(file.date, file.deployment) for file in warehouse.files(REQUESTS))
        everything = Selection("all", tuple(sorted(set(nights))))
        self._all = {part: self._table(everything, "requests", part) for part in get_args(Part)}
        names = self._connection.execute(f"SELECT {NAME} FROM {self._all['figures']} ORDER BY {NAME}").fetchall()
        self._names = [name for (name,) in names]
        self.finished = np.array([finished[name] for name in self._names])
        """When each request was done, in seconds, by name."""

    def columns(self, *names: str) -> list[np.ndarray]:
        """Columns of the cells, by name; 0 for what is not known."""
        query = f"SELECT {', '.join(names)} FROM {self._all['figures']} ORDER BY {NAME}"
        found = self._connection.execute(query).fetchall()
        return list(np.array([[value or 0 for value in row] for row in found], dtype=float).T)

    def split(self, first: np.ndarray) -> None:
        """Put the cells that a mask names into the first half, the others into the second."""
        self._frames.clear()
        self._with_moments.clear()
        self._histograms.clear()
        self._tables = {key: name for key, name in self._tables.items() if key[1] != "requests"}
        half = pa.table({"name": self._names, "half": np.where(first, HALVES[0].where, HALVES[1].where)})
        self._connection.register("halves", half)
        for side, (part, cells) in itertools.product(HALVES, self._all.items()):
            name = f"half_{side.where}_{part}"
            self._connection.execute(
                f"CREATE OR REPLACE TEMP TABLE {name} AS "
                f"SELECT * REPLACE (json_array(keys->0, keys->1, keys->2, keys->3, NULL)::VARCHAR AS rest) "
                f"FROM (SELECT *, rest::VARCHAR AS keys FROM {cells}) JOIN halves ON {NAME} = name "
                f"WHERE half = '{side.where}'"
            )
            self._tables[(side, "requests", part)] = name


def _one_cell_each(warehouse: Warehouse) -> dict[str, float]:
    """Give every request an adapter of its own, so that no two share a cell; the time of each by this name."""
    finished: dict[str, float] = {}
    for file in warehouse.files(REQUESTS):
        rows = pq.ParquetFile(file.path).read()
        names = [f"{len(finished) + number}" for number in range(rows.num_rows)]
        finished |= {
            name: moment.timestamp() for name, moment in zip(names, rows["finished_at"].to_pylist(), strict=True)
        }
        place = rows.schema.names.index("lora")
        kept = rows.set_column(place, rows.schema.field("lora"), pa.array(names, rows.schema.field("lora").type))
        pq.write_table(kept, file.path)
    return finished


def masks(finished: np.ndarray, splits: int, seed: int) -> Iterator[tuple[str, np.ndarray]]:
    """So many random halves, and as many of alternate stretches of time of random length."""
    rng = np.random.default_rng(seed)
    for _ in range(splits):
        yield "random halves", rng.permutation(len(finished)) % 2 == 0
    for _ in range(splits):
        length = rng.uniform(*STRETCHES_S)
        yield "alternate stretches", (finished + rng.uniform(0, 2 * length)) // length % 2 == 0


def judged(halves: Halves, splits: int, seed: int = 1) -> dict[str, list[list[GateResult]]]:
    """The gates of every split, by kind of split."""
    found: dict[str, list[list[GateResult]]] = {}
    for kind, first in masks(halves.finished, splits, seed):
        halves.split(first)
        found.setdefault(kind, []).append(gates(halves, *HALVES, "requests"))
    return found


def failed(results: Sequence[GateResult]) -> list[str]:
    """The gates that failed, with their places."""
    return [
        f"{result.measure} at {result.stratum.load_band if result.stratum else 'all loads'}"
        for result in results
        if result.verdict == "fail"
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print how many of the splits failed a gate."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="*", help="captures; without any the ones of the demo")
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument(
        "--without-scrapes",
        action="store_true",
        help="leave the scrapes out: loads then come from overlapping requests",
    )
    given = parser.parse_args(arguments)
    folders = given.folders or list(captures.FOLDERS.values())
    worst = 0
    for folder in folders:
        with tempfile.TemporaryDirectory() as root:
            inputs = [
                path for path in sorted(folder.iterdir()) if not (given.without_scrapes and "metrics" in path.name)
            ]
            halves = Halves(inputs, Path(root) / "warehouse")
            for kind, splits in judged(halves, given.splits).items():
                bad = [named for results in splits if (named := failed(results))]
                passed = sum(result.verdict == "pass" for results in splits for result in results)
                named = ", ".join(sorted({name for names in bad for name in names})) or "no gate"
                bound = upper_bound(len(bad), len(splits))
                print(
                    f"{folder.name}, {len(halves.finished)} requests, {len(splits)} {kind}: {len(bad)} with a failed "
                    f"gate ({named}), at most {bound:.1%} at 95 % confidence; {passed / len(splits):.1f} gates passed",
                    flush=True,
                )
                worst = max(worst, len(bad))
    return min(worst, 1)


if __name__ == "__main__":
    sys.exit(main())
