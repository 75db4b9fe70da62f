"""Start-up records come from few files however many starts there were, and say what the files say."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from specledger.schemas.raw import DEPLOYMENTS
from specledger.schemas.warehouse import Warehouse, reading
from specledger.transforms import start_rows
from tests.transforms.raw import DAY, at, full_row

STARTS = 9


def start(warehouse: Warehouse, number: int, **more: Any) -> Path:
    """The file of a start on a date of its own."""
    date = DAY + dt.timedelta(number)
    row = {"deployment": "d", "started_at": at(0, date), "model": f"model {number}", "labels": [("quant", f"{number}")]}
    full = full_row("deployments", {**row, "labelled_at": at(0, date), "date": date, **more})
    rows = pa.Table.from_pylist([full], schema=DEPLOYMENTS.arrow_schema())
    return warehouse.write(DEPLOYMENTS, date, "d", "x", rows)


@pytest.fixture
def warehouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    """Starts on several dates, copied together."""
    monkeypatch.setattr(start_rows, "MOST_APART", 3)
    warehouse = Warehouse(tmp_path)
    for number in range(STARTS):
        start(warehouse, number)
        start_rows.keep_together(warehouse)
    return warehouse


def records(warehouse: Warehouse) -> list[str]:
    with reading() as connection:
        start_rows.bind_deployments(connection, warehouse)
        return sorted(map(repr, connection.execute("FROM deployments").fetchall()))


def said_by_files(warehouse: Warehouse) -> list[str]:
    with warehouse.connect(["deployments"]) as connection:
        return sorted(map(repr, connection.execute("FROM deployments").fetchall()))


def test_few_files_are_opened_and_say_the_same(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    read, opened = pq.read_table, list[Path]()

    def counted(path: Path, **options: Any) -> pa.Table:
        opened.append(path)
        return read(path, **options)

    monkeypatch.setattr(pq, "read_table", counted)
    found = records(warehouse)
    assert len(opened) <= 1 + start_rows.MOST_APART
    assert len(found) == STARTS
    assert found == said_by_files(warehouse)


def test_what_was_replaced_or_has_gone_since_counts_as_it_is_now(warehouse: Warehouse) -> None:
    start(warehouse, 0, model="another model")
    warehouse.files(DEPLOYMENTS)[2].path.unlink()
    found = records(warehouse)
    assert found == said_by_files(warehouse)
    assert "another model" in str(found)


@pytest.mark.parametrize("content", ["damaged", "older"])
def test_a_copy_that_cannot_be_used_is_written_anew(warehouse: Warehouse, content: str) -> None:
    copy = warehouse.root / "_state" / "start_rows.parquet"
    if content == "damaged":
        copy.write_bytes(b"no Parquet")
    else:
        pq.write_table(pq.read_table(copy, partitioning=None).drop_columns(["model"]), copy)
    assert records(warehouse) == said_by_files(warehouse)
    start_rows.keep_together(warehouse)
    assert "model" in pq.read_schema(copy).names


def test_a_column_that_an_older_specledger_did_not_write_is_null(warehouse: Warehouse) -> None:
    path = start(warehouse, STARTS)
    pq.write_table(pq.read_table(path, partitioning=None).drop_columns(["model"]), path)
    assert records(warehouse) == said_by_files(warehouse)
