"""What is known of inputs is read from few files, and nothing that is known is lost by that."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from specledger.ingest import ingest, known_records
from specledger.schemas.raw import INGESTED_FILES
from specledger.schemas.warehouse import Warehouse
from tests.ingest.contents import contents

INPUTS = 9


def response(number: int) -> str:
    body = {"id": f"cmpl-{number}", "object": "text_completion", "created": 1_789_372_800 + number}
    return json.dumps({**body, "usage": {"prompt_tokens": 10, "completion_tokens": 5}}) + "\n"


@pytest.fixture
def sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Files that were ingested one by one, with records copied after every few of them."""
    monkeypatch.setattr(known_records, "MOST_APART", 3)
    paths = [tmp_path / f"{number}.jsonl" for number in range(INPUTS)]
    for number, path in enumerate(paths):
        path.write_text(response(number))
        ingest(tmp_path / "warehouse", [path])
    return paths


def copy_of(warehouse: Path) -> Path:
    (path,) = (warehouse / "_state" / "known").iterdir()
    return path


def test_few_files_are_opened_however_many_ingests_there_were(
    sent: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, opened = pl.read_parquet, list[Path]()

    def counted(path: Path, **options: object) -> pl.DataFrame:
        opened.append(path)
        return read(path, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(pl, "read_parquet", counted)
    warehouse = Warehouse(tmp_path / "warehouse")
    found = known_records.records(warehouse, "default")
    assert len(warehouse.files(INGESTED_FILES)) == INPUTS
    assert sorted(found["source"]) == [str(path) for path in sent]
    assert len(opened) <= 1 + known_records.MOST_APART


def test_an_old_input_that_is_sent_again_is_known(sent: list[Path], tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    before = contents(warehouse)
    again = sent[0].rename(tmp_path / "again.jsonl")
    report = ingest(warehouse, [again])
    assert (report.rows, report.formats["responses"].known) == ({}, 1)
    with again.open("a") as file:
        file.write(response(100))
    assert ingest(warehouse, [again]).rows == {"requests": 1}
    assert len(contents(warehouse)["requests"]) == len(before["requests"]) + 1


@pytest.mark.parametrize("damage", [b"", b"PAR1 nothing else", None])
def test_a_copy_that_is_damaged_or_gone_is_made_again(sent: list[Path], tmp_path: Path, damage: bytes | None) -> None:
    copy = copy_of(tmp_path / "warehouse")
    copy.unlink() if damage is None else copy.write_bytes(damage)
    assert ingest(tmp_path / "warehouse", sent).rows == {}
    assert pl.read_parquet(copy, hive_partitioning=False).height == INPUTS


def test_a_copy_says_nothing_of_records_that_are_gone(sent: list[Path], tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "warehouse")
    for file in warehouse.files(INGESTED_FILES):
        file.path.unlink()
    assert known_records.records(warehouse, "default").is_empty()


def test_a_copy_that_cannot_be_written_stops_nothing(
    sent: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("no")

    copy_of(tmp_path / "warehouse").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(Warehouse, "publish", refuse)
        assert known_records.records(Warehouse(tmp_path / "warehouse"), "default").height == INPUTS
    assert list((tmp_path / "warehouse" / "_tmp").iterdir()) == []
    assert ingest(tmp_path / "warehouse", sent).rows == {}
