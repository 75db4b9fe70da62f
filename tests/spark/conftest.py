"""A fleet of many partitions, and warehouses that the default engine has computed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from specledger.schemas import TABLES
from specledger.schemas.config import DEFAULT_SETTINGS
from specledger.schemas.warehouse import Warehouse
from specledger.transforms.runner import run
from tests.spark import fleet, standalone


@pytest.fixture(autouse=True, scope="session")
def _spark() -> None:
    """Skip where Spark cannot run; where CI is to run it, fail."""
    why = standalone.missing()
    if why and os.environ.get("SPARK_TESTS") != "required":
        pytest.skip(why)
    assert why is None


@pytest.fixture(scope="session")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """The raw tables of a fleet, to be read only."""
    warehouse = Warehouse(tmp_path_factory.mktemp("fleet") / "raw")
    assert fleet.write(warehouse) >= 50
    return warehouse


@pytest.fixture(scope="session")
def expected(raw: Warehouse) -> dict[str, list[str]]:
    """All rows of the fleet as the default engine computes them."""
    computed = Warehouse(raw.root.with_name("expected"))
    shutil.copytree(raw.root, computed.root)
    run(computed, DEFAULT_SETTINGS)
    return contents(computed)


@pytest.fixture
def copy(raw: Warehouse, tmp_path: Path) -> Callable[[], Warehouse]:
    """Makes a warehouse with the raw tables of the fleet, to be changed."""

    def copied() -> Warehouse:
        return Warehouse(shutil.copytree(raw.root, tmp_path / "warehouse"))

    return copied


def contents(warehouse: Warehouse) -> dict[str, list[str]]:
    """All rows of all tables, whatever their order and files, with every digit; when they were taken in left out."""
    moments = ("ingested_at", "labelled_at")
    found = {}
    with warehouse.connect() as connection:
        for table in TABLES.values():
            names = ", ".join(f'"{name}"' for name in table.names if name not in moments)
            rows = connection.execute(f"SELECT {names} FROM {table.name}").fetchall()
            found[table.name] = sorted(map(repr, rows))
    return found
