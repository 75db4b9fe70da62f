"""Requests one after the other on a server that is slow for a moment now and then: what their number says."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import signal

from specledger.reports.cells_read import CellReader
from specledger.reports.compare import MOMENT_NS, Comparison
from specledger.reports.interval import Estimate
from specledger.reports.origins import OriginChoice
from specledger.reports.selection import Night, Selection
from specledger.schemas.cells import CELLS_REQUESTS
from specledger.schemas.config import DEFAULT_SETTINGS
from specledger.schemas.warehouse import Warehouse
from tests import captures
from tests.reports.fleet import WORLD
from tests.reports.halves import HALVES, Halves
from tests.simulator import nights

ROUNDS, ROUND_MS, REQUESTS = 30, 20.0, 120
FIRST = dt.date(2026, 1, 1)
ALONE = replace(WORLD, engines=1)


def request_by_request(rng: np.random.Generator, lasting_s: float) -> np.ndarray:
    """The times of the rounds of some requests, one after the other, in ms.

    A slowness of 10 % comes and goes: how alike two rounds are falls by 1/e in ``lasting_s``; 0 for rounds that have
    nothing in common.
    """
    count = REQUESTS * ROUNDS
    kept = np.exp(-ROUND_MS / 1000 / lasting_s) if lasting_s else 0.0
    pushes = rng.normal(0.0, 0.1 * np.sqrt(1 - kept**2), count)
    pushes[0] = rng.normal(0.0, 0.1)
    slow = signal.lfilter([1.0], [1.0, -kept], pushes)
    return (ROUND_MS * np.exp(slow)).reshape(REQUESTS, ROUNDS)


def estimates(root: Path, lasting_s: float, pairs: int) -> list[Estimate]:
    """Round time of one such minute against another, which differ by chance alone."""
    rng, warehouse, sides = np.random.default_rng(3), Warehouse(root), []
    for number in range(2 * pairs):
        date = FIRST + dt.timedelta(days=number)
        gaps = request_by_request(rng, lasting_s)
        ends = gaps.sum(axis=1).cumsum() / 1000
        frame = pl.DataFrame(
            {"finished_s": ends, "decode_ms": gaps.sum(axis=1), "gaps_ms": gaps.tolist()}
        ).with_columns(
            date=pl.lit(date),
            load=pl.lit(1, pl.Int64),
            task=pl.lit("chat"),
            draft_limit=pl.lit(3, pl.Int32),
            ttft_ms=pl.lit(1.0),
            temperature=pl.lit(0.0),
            prompt_tokens=pl.lit(10, pl.Int64),
            output_tokens=pl.lit(2 * ROUNDS + 1, pl.Int64),
            **{name: pl.lit(ROUNDS, pl.Int64) for name in ("steps", "rounds", "accepted")},
            drafted=pl.lit(3 * ROUNDS, pl.Int64),
            engine=pl.lit(0, pl.Int64),
        )
        warehouse.write(CELLS_REQUESTS, date, ALONE.deployment, "cells", nights.cells(ALONE, frame))
        sides.append(Selection("", (Night(date, ALONE.deployment),)))
    reader, choice = CellReader(warehouse), OriginChoice(("requests",), {}, "")
    found = []
    for before, after in zip(sides[::2], sides[1::2], strict=True):
        comparison = Comparison(reader, before, after, DEFAULT_SETTINGS.load_bands, choice)
        found.append(comparison.estimate("round_time_ms").estimate)
    return found


def covered(found: list[Estimate]) -> int:
    """How many intervals hold the truth."""
    return sum(low <= 0 <= (high or 0.0) for low, high in (one.interval or (1.0, 1.0) for one in found))


def test_requests_inside_a_moment_count_as_one(tmp_path: Path) -> None:
    """Rounds that are alike over MOMENT_NS in all (twice the time in which that falls by 1/e)."""
    found = estimates(tmp_path, MOMENT_NS / 2e9, 60)
    assert {one.unit for one in found} == {"request"}
    assert covered(found) >= 52  # three standard errors below 95 % of 60


def test_rounds_that_have_nothing_in_common_leave_requests_to_themselves(tmp_path: Path) -> None:
    found = estimates(tmp_path, 0.0, 20)
    assert covered(found) >= 16
    own = 0.1 / np.sqrt(ROUNDS * REQUESTS) * np.sqrt(2)
    assert 0.9 < np.mean([one.error or 0.0 for one in found]) / own < 1.25


@pytest.mark.parametrize("name", captures.FOLDERS)
def test_batches_of_a_real_server_scatter_no_more_than_is_taken(name: str, tmp_path: Path) -> None:
    """Six seconds after six seconds, at each number of clients: the requests of each are alike to an unknown degree."""
    halves = Halves([path for path in captures.inputs(name) if not path.name.startswith("metrics")], tmp_path / "w")
    halves.split(np.arange(len(halves.finished)) % 2 == 0)
    comparison = Comparison(halves, *HALVES, DEFAULT_SETTINGS.load_bands, OriginChoice(("requests",), {}, ""))
    frames = [halves.with_moments(side, "requests") for side in HALVES]
    strata = comparison.strata("requests")
    taken = comparison.together(frames, [frame.strata(strata) for frame in frames])
    load, steps, took = halves.columns("load", "steps", "step_decode_ns")
    for clients in (1, 2, 4, 8, 16, 32):
        mine = (load == clients) & (steps > 0)
        residual = took[mine] - took[mine].sum() / steps[mine].sum() * steps[mine]
        number = np.unique(halves.finished[mine] // 6, return_inverse=True)[1]
        batches = np.bincount(number, residual)
        alike = (batches**2).sum() * len(batches) / (len(batches) - 1) / (residual**2).sum()
        assert alike < max(taken[i] for i, key in enumerate(strata.keys) if key.low <= clients <= key.high), clients
