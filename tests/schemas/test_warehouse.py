"""Where the files of a warehouse are, and what it says when it may not look."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

import pytest

from specledger.schemas import TABLES
from specledger.schemas.errors import WarehouseError
from specledger.schemas.warehouse import Warehouse, damaged

TABLE = TABLES["quality"]
NOBODY = 65_534


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    warehouse = Warehouse(tmp_path / "warehouse")
    for day in (1, 2):
        for name in ("a", "a b/ä%", "deployment=*"):
            warehouse.write(TABLE, dt.date(2026, 11, day), name, "x", TABLE.arrow_schema().empty_table())
    return warehouse


def test_files_are_found_by_date_and_deployment_whatever_its_name(warehouse: Warehouse) -> None:
    assert len(warehouse.files(TABLE)) == 6
    for name in ("a", "a b/ä%", "deployment=*"):
        found = warehouse.files(TABLE, deployment=name)
        assert [(file.date.day, file.deployment) for file in found] == [(1, name), (2, name)]
    assert [file.deployment for file in warehouse.files(TABLE, date=dt.date(2026, 11, 2), deployment="a")] == ["a"]
    assert warehouse.files(TABLE, deployment="*") == warehouse.files(TABLE, date=dt.date(2026, 11, 3)) == []
    assert warehouse.files(TABLES["requests"]) == []


def test_a_folder_that_may_not_be_read_is_an_error_and_not_an_empty_one(warehouse: Warehouse) -> None:
    folder = warehouse.partition(TABLE, dt.date(2026, 11, 1), "a")
    folder.chmod(0)
    child = os.fork() if os.geteuid() == 0 else None
    if child == 0:
        # Root may read everything: another user asks.
        for parent in (warehouse.root, *warehouse.root.parents[:3]):
            parent.chmod(0o755)
        os.setuid(NOBODY)
        os._exit(0 if _refused(warehouse) else 1)
    try:
        if child is None:
            assert _refused(warehouse)
        else:
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        folder.chmod(0o700)


def _refused(warehouse: Warehouse) -> bool:
    try:
        warehouse.files(TABLE)
    except WarehouseError as error:
        return "may not be read" in str(error)
    return False


@pytest.mark.parametrize(
    ("table", "helps"),
    [
        ("latency", "transform --force"),
        ("cells_snapshots", "transform --force"),
        ("snapshots", "ingest the inputs again"),
    ],
)
def test_of_a_damaged_file_is_said_which_it_is_and_what_helps(tmp_path: Path, table: str, helps: str) -> None:
    path = Warehouse(tmp_path).partition(TABLES[table], dt.date(2026, 11, 1), "a") / "x.parquet"
    assert damaged(path, "it is cut.").startswith(f"{path} is damaged (it is cut): ")
    assert helps in damaged(path, "it is cut.")
