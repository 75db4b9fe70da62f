"""Labels given at ingest are stored once, and told without reading the files of all starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from specledger.ingest import deployments, ingest
from specledger.nightly import housekeeping
from specledger.schemas.config import DEFAULT_SETTINGS
from specledger.schemas.raw import DEPLOYMENTS
from specledger.schemas.warehouse import Warehouse
from tests.nightly.simulated import write_night


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    """Starts on three nights, by their logs."""
    for number in range(3):
        write_night(tmp_path / "input", number)
    take_in(warehouse := Warehouse(tmp_path / "warehouse"))
    return warehouse


def take_in(warehouse: Warehouse, **labels: str) -> None:
    ingest(warehouse, [warehouse.root.with_name("input")], deployment="d", labels=labels, year=2026, timezone="UTC")


def files(warehouse: Warehouse) -> int:
    return len(warehouse.files(DEPLOYMENTS))


def test_labels_that_hold_already_are_not_stored_again(warehouse: Warehouse) -> None:
    starts = files(warehouse)
    for labels, stored in (({"quant": "none"}, 1), ({"quant": "none"}, 1), ({"quant": "fp8"}, 2), ({}, 2)):
        take_in(warehouse, **labels)
        assert files(warehouse) == starts + stored


def test_labels_that_were_put_together_hold_as_before(warehouse: Warehouse) -> None:
    take_in(warehouse, quant="none")
    take_in(warehouse, tier="gold")
    assert housekeeping.compact(warehouse, DEFAULT_SETTINGS, 2, set()) > 0
    together = files(warehouse)
    take_in(warehouse, quant="none", tier="gold")
    assert files(warehouse) == together


def test_files_of_starts_are_not_read_for_labels(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    read = list[str]()
    before = deployments.stored
    monkeypatch.setattr(deployments, "stored", lambda path, columns: (read.append(path.name), before(path, columns))[1])
    take_in(warehouse)
    take_in(warehouse, quant="none")
    assert (files(warehouse) >= 4, read) == (True, [])
    take_in(warehouse, quant="fp8")
    assert len(read) == 1
