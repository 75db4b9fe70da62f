"""Intervals against a bootstrap over the same units, computed from single requests by nothing that reports use."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest
import zstandard

from specledger.reports import quantile
from specledger.reports.cells_read import CellReader
from specledger.reports.compare import Comparison
from specledger.reports.interval import Estimate
from specledger.reports.origins import OriginChoice
from specledger.reports.ratio import RatioRule, compare
from specledger.reports.selection import Night, Selection
from specledger.reports.sums import Sums
from specledger.schemas.config import DEFAULT_SETTINGS
from specledger.schemas.warehouse import Warehouse
from tests import captures
from tests.reports.fleet import FIRST, LAST, WORLD, put_requests

DRAWS = 5000
BANDS = DEFAULT_SETTINGS.load_bands


def width(estimate: Estimate) -> float:
    assert estimate.interval is not None
    assert estimate.interval[1] is not None
    return estimate.interval[1] - estimate.interval[0]


def counts(rng: np.random.Generator, units: int) -> np.ndarray:
    """How often each unit is drawn: one draw less than there are units, so that the variance is not understated."""
    return rng.multinomial(units - 1, np.full(units, 1 / units), DRAWS)


def bootstrap_width(logs: np.ndarray) -> float:
    low, high = np.expm1(np.quantile(logs, [0.025, 0.975]))
    return float(high - low)


@pytest.fixture(scope="module")
def two_nights(tmp_path_factory: pytest.TempPathFactory) -> tuple[Comparison, list[pl.DataFrame]]:
    warehouse = Warehouse(tmp_path_factory.mktemp("nights"))
    frames = [
        put_requests(warehouse, WORLD, [date], seed, per_hour=30.0, gaps=False).with_columns(
            hour=(pl.col("finished_s") // 3600).cast(pl.Int64), band=band(pl.col("load"))
        )
        for date, seed in ((FIRST, 1), (LAST, 2))
    ]
    sides = [Selection("", (Night(date, WORLD.deployment),)) for date in (FIRST, LAST)]
    choice = OriginChoice(("requests",), {}, "")
    return Comparison(CellReader(warehouse), *sides, BANDS, choice, pooled=True), frames


def band(load: pl.Expr) -> pl.Expr:
    """The number of the load band."""
    return sum((load > limits.high for limits in BANDS if limits.high is not None), pl.lit(0)).cast(pl.Int64)


@pytest.mark.parametrize(
    ("measure", "num", "den"),
    [
        ("acceptance_length", pl.col("rounds") + pl.col("accepted"), pl.col("rounds")),
        ("tpot_ms", pl.col("decode_ms"), pl.col("output_tokens") - 1),
    ],
)
def test_ratios_of_nights(
    two_nights: tuple[Comparison, list[pl.DataFrame]], measure: str, num: pl.Expr, den: pl.Expr
) -> None:
    comparison, frames = two_nights
    rng = np.random.default_rng(1)
    sums = []
    for frame in frames:
        drawn = counts(rng, 24)
        parts = []
        for column in (num, den):
            table = np.zeros((24, len(BANDS)))
            place = frame["hour"].to_numpy(), frame["band"].to_numpy()
            np.add.at(table, place, frame.select(column).to_series().to_numpy())
            parts.append(drawn @ table)
        sums.append(parts)
    (num_b, den_b), (num_c, den_c) = sums
    common = (den_b > 0) & (den_c > 0)
    share = np.where(common, den_b, 0) / np.where(common, den_b, 0).sum(axis=1, keepdims=True)
    ratio_b, ratio_c = (n / np.maximum(d, 1e-9) for n, d in ((num_b, den_b), (num_c, den_c)))
    logs = np.log((share * ratio_c).sum(axis=1) / (share * ratio_b).sum(axis=1))
    assert width(comparison.estimate(measure).estimate) == pytest.approx(bootstrap_width(logs), rel=0.10)


@pytest.mark.parametrize(("measure", "share"), [("ttft_ms_p95", 0.95), ("e2e_ms_p50", 0.50)])
def test_quantiles_of_nights(two_nights: tuple[Comparison, list[pl.DataFrame]], measure: str, share: float) -> None:
    comparison, frames = two_nights
    rng = np.random.default_rng(2)
    value = pl.col("ttft_ms") if measure.startswith("ttft") else pl.col("ttft_ms") + pl.col("decode_ms")
    weight = np.bincount(frames[0]["band"].to_numpy(), minlength=len(BANDS))
    logs = []
    for frame in frames:
        ordered = frame.with_columns(value=value).sort("value")
        bands, hours, values = (ordered[name].to_numpy() for name in ("band", "hour", "value"))
        held = np.zeros((24, len(BANDS)))
        np.add.at(held, (hours, bands), 1.0)
        found = []
        for drawn in counts(rng, 24):
            each = weight / np.maximum(drawn @ held, 1e-9)
            mass = np.cumsum(drawn[hours] * each[bands])
            found.append(values[np.searchsorted(mass, share * mass[-1])])
        logs.append(np.log(found))
    assert width(comparison.estimate(measure).estimate) == pytest.approx(bootstrap_width(logs[1] - logs[0]), rel=0.10)


@pytest.fixture(scope="module")
def answers() -> list[dict[str, Any]]:
    """The responses of a real capture."""
    with (captures.folder("spec_k3_draft") / "responses.jsonl.zst").open("rb") as file:
        lines = zstandard.ZstdDecompressor().stream_reader(file).read().decode().splitlines()
    found = [json.loads(line) for line in lines]
    assert len(found) == 859
    return found


def one_a_request(num: np.ndarray, den: np.ndarray) -> Sums:
    unit, ones = np.arange(len(den)), np.ones(len(den))
    return Sums(unit, unit * 0, unit * 0, num, den, ones, (num**2, num * den, den**2))


def test_a_ratio_of_the_requests_of_a_capture(answers: list[dict[str, Any]]) -> None:
    told = [answer["response"]["metrics"]["speculative_decoding"] for answer in answers]
    rounds = np.array([float(one["num_spec_steps"]) for one in told])
    tokens = rounds + np.array([float(one["num_accepted_draft_tokens"]) for one in told])
    rng = np.random.default_rng(3)
    sides, logs = [], []
    for half in (slice(0, None, 2), slice(1, None, 2)):
        num, den = tokens[half], rounds[half]
        sides.append(one_a_request(num, den))
        drawn = counts(rng, len(den))
        logs.append(np.log(drawn @ num / (drawn @ den)))
    found = compare(*sides, 1, "request", RatioRule())
    assert width(found) == pytest.approx(bootstrap_width(logs[1] - logs[0]), rel=0.10)


def test_a_quantile_of_the_requests_of_a_capture(answers: list[dict[str, Any]]) -> None:
    took_ns = np.array([1e9 * answer["end_s"] for answer in answers])
    rng = np.random.default_rng(4)
    sides, logs = [], []
    for half in (slice(0, None, 2), slice(1, None, 2)):
        values = np.sort(took_ns[half])
        bucket = np.floor(np.log(values) / np.log(quantile.GROWTH)).astype(np.int64)
        ones = np.ones(len(values))
        sides.append(quantile.Histogram(np.arange(len(values)), bucket, ones, one_a_request(ones * 0, ones)))
        mass = np.cumsum(counts(rng, len(values)), axis=1)
        logs.append(np.log(values[(mass < 0.75 * mass[:, -1:]).sum(axis=1)]))
    found = quantile.compare(sides[0], sides[1], 1, "request", 0.75, 1e-6)
    assert width(found) == pytest.approx(bootstrap_width(logs[1] - logs[0]), rel=0.10)
