"""Cells and marts that a cluster computes are those of the default engine, whatever happens to its workers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from specledger.schemas.config import DEFAULT_SETTINGS
from specledger.schemas.spark import cluster
from specledger.schemas.warehouse import Warehouse
from specledger.transforms import engines
from specledger.transforms.runner import run
from tests.spark.conftest import contents
from tests.spark.standalone import local, standalone


def test_a_fleet_on_local_cores_is_the_fleet_of_the_default_engine(
    copy: Callable[[], Warehouse], expected: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = copy()
    monkeypatch.setattr(engines, "LEAST_BATCH_BYTES", 50_000)
    with cluster(local(), warehouse) as spark:
        assert spark.slots == 2
        run(warehouse, DEFAULT_SETTINGS, cluster=spark)
        stages = {stage.stage: stage for stage in spark.stages}
        assert run(warehouse, DEFAULT_SETTINGS, cluster=spark).computed == ()
    assert contents(warehouse) == expected
    assert set(stages) == {"cells", "marts", "ledgers"}
    assert stages["cells"].tasks > 8
    assert all(stage.retries == 0 and stage.read_bytes and stage.written_bytes for stage in stages.values())
    assert list((warehouse.root / "_tmp").iterdir()) == []
    assert run(warehouse, DEFAULT_SETTINGS).computed == (), "the default engine goes on from where Spark has ended"


def test_a_cluster_that_loses_a_worker_gives_the_fleet_of_the_default_engine(
    copy: Callable[[], Warehouse], expected: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = copy()
    monkeypatch.setattr(engines, "LEAST_BATCH_BYTES", 50_000)
    with standalone(tmp_path / "spark") as found, cluster(found.choice, warehouse) as spark:
        killer = threading.Thread(target=found.kill_a_worker_that_computes)
        killer.start()
        run(warehouse, DEFAULT_SETTINGS, cluster=spark)
        assert not killer.is_alive(), "the worker was killed while others computed"
        killer.join()
        retries = sum(stage.retries for stage in spark.stages)
    assert contents(warehouse) == expected
    assert retries >= 1
