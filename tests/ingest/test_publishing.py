"""What a run that ended in the middle left, and the next one finds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specledger.ingest.publishing import recover
from specledger.schemas.warehouse import Warehouse


@pytest.fixture
def pending(tmp_path: Path) -> Path:
    folder = tmp_path / "_pending"
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    "plan", ["", "[]", '{"commit": 7, "files": []}', json.dumps({"commit": "x" * 300, "files": []})]
)
def test_an_intent_that_cannot_be_followed_stops_nothing(plan: str, pending: Path, tmp_path: Path) -> None:
    (pending / "1.json").write_text(plan)
    (pending / "2.json").write_text(json.dumps({"commit": "gone", "files": ["rows"]}))
    (tmp_path / "rows").touch()
    recover(Warehouse(tmp_path))
    assert not (tmp_path / "rows").exists()
    assert [path.name for path in pending.iterdir()] == ["1.spoilt"]


def test_an_intent_that_the_disk_refuses_is_followed_later(pending: Path, tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()  # what cannot be unlinked
    (pending / "1.json").write_text(json.dumps({"commit": "gone", "files": ["rows"]}))
    recover(Warehouse(tmp_path))
    (tmp_path / "rows").rmdir()
    recover(Warehouse(tmp_path))
    assert list(pending.iterdir()) == []
