"""Inputs that workers read give the raw tables that reading them here gives."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest

from specledger.ingest import ingest, readings
from specledger.schemas.config import DEFAULT_SETTINGS
from specledger.schemas.spark import Cluster, cluster
from specledger.schemas.warehouse import Warehouse
from specledger.transforms.runner import run
from tests import captures
from tests.spark.conftest import contents
from tests.spark.standalone import local, standalone

CAPTURES = (
    "spec_k3_draft", "baseline_nospec", "bench_baseline", "bench_spec", "bench_tools", "bf16_spec", "default_flags",
    "dp2_one_api_server", "dynamic_sd", "otel", "preemption",
)  # fmt: skip


def take_in(warehouse: Warehouse, folder: Path, spark: Cluster | None = None) -> list[object]:
    """Ingest everything; the figures of each report."""
    told = []
    for name in CAPTURES:
        report = ingest(warehouse, [captures.folder(name)], deployment=name, year=2026, timezone="UTC", cluster=spark)
        told.append((report.formats, report.rows, sorted(report.notes), sorted(report.rejected)))
    report = ingest(warehouse, [folder], deployment="made", cluster=spark, year=2026)
    return [*told, (report.formats, report.rows, sorted(report.notes), sorted(report.rejected))]


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A rotated log cut within a line, a copy, scrapes one a file of which one is damaged, and what is nothing."""
    from tests.bench import inputs

    folder = tmp_path / "made"
    folder.mkdir()
    log = inputs.text("preemption", "server.log.zst").encode()
    cut = len(log) // 2
    (folder / "server.log.1").write_bytes(log[:cut])
    (folder / "server.log").write_bytes(log[cut:])
    shutil.copy(folder / "server.log.1", folder / "copy.log")
    for number, text in enumerate(inputs.scrape_texts()[:30]):
        (folder / f"{1_789_372_800_000 + 5_000 * number}.prom").write_text(text)
    (folder / "1789373800000.prom").write_text("upstream connect error\n")
    (folder / "nothing.log").write_bytes(b"\x00\x01" * 500)
    return folder


@pytest.mark.parametrize("place", ["local cores", "two workers"])
def test_captures_and_damaged_inputs_read_by_workers_are_those_read_here(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr(readings, "UNIT_INPUTS", 7)
    here, there = Warehouse(tmp_path / "here"), Warehouse(tmp_path / "there")
    told = take_in(here, made)
    run(here, DEFAULT_SETTINGS)
    with ExitStack() as stack:
        alone = place == "local cores"
        choice = local() if alone else stack.enter_context(standalone(tmp_path / "spark")).choice
        spark = stack.enter_context(cluster(choice, there))
        assert take_in(there, made, spark) == told
        ingested = [stage for stage in spark.stages if stage.stage == "ingest"]
        run(there, DEFAULT_SETTINGS, cluster=spark)
        assert ingest(there, [made], deployment="made", cluster=spark, year=2026).rows == {}
    assert contents(there) == contents(here)
    assert len(ingested) == len(CAPTURES) + 1
    assert sum(stage.tasks for stage in ingested) > len(ingested)
    assert list((there.root / "_tmp").iterdir()) == []
