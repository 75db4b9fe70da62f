"""A span saved metric by metric gives the rows that one answer with everything gives, however it is ingested."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import pytest
import zstandard
from prometheus_client.parser import text_string_to_metric_families

from specledger.schemas.warehouse import Warehouse
from tests.captures import DATA
from tests.command_line import CommandLine
from tests.ingest.contents import contents, rows

MARK = re.compile(r"^# scraped_at (.*)\n", re.MULTILINE)
LEFT_OUT = ("ingested_at", "tool_version", "source", "byte_offset")
EVERYTHING = "SELECT * EXCLUDE (source, byte_offset, ingested_at) FROM snapshots ORDER BY ALL"


def answers(scrapes: int = 6) -> dict[str, str]:
    """What ``query_range`` would answer for each metric of a real server that was scraped a few times."""
    with (DATA / "dp2_one_api_server" / "metrics.prom.zst").open("rb") as file:
        text = zstandard.ZstdDecompressor().stream_reader(file).read().decode()
    _, *parts = MARK.split(text)
    series: dict[str, dict[Any, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for at, scrape in list(zip(parts[::2], parts[1::2], strict=True))[-scrapes:]:
        for family in text_string_to_metric_families(scrape):
            for sample in family.samples:
                labels = {"__name__": sample.name, **sample.labels, "instance": "a:8000", "job": "llm"}
                key = json.dumps(labels, sort_keys=True)
                series[sample.name][key].append([float(at), repr(sample.value)])
    return {
        name: json.dumps(
            {
                "status": "success",
                "data": {
                    "resultType": "matrix",
                    "result": [{"metric": json.loads(key), "values": values} for key, values in found.items()],
                },
            }
        )
        for name, found in series.items()
        if name.startswith("vllm:") and not name.endswith("_created")
    }


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A file for each metric; buckets, sum and count of a histogram are three."""
    folder = tmp_path_factory.mktemp("saved")
    found = []
    for name, text in answers().items():
        path = folder / f"{name.replace(':', '_')}.json"
        path.write_text(text)
        found.append(path)
    return found


@pytest.fixture(scope="module")
def whole(saved: list[Path], tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """A warehouse into which one answer with everything was ingested."""
    folder = tmp_path_factory.mktemp("whole")
    documents = [json.loads(path.read_text()) for path in saved]
    series = [one for document in documents for one in document["data"]["result"]]
    documents[0]["data"]["result"] = series
    (folder / "all.json").write_text(json.dumps(documents[0]))
    cli = CommandLine(folder / "warehouse")
    cli.ok("ingest", folder / "all.json")
    return cli


def same(one: CommandLine, other: CommandLine) -> None:
    assert rows(one.warehouse, EVERYTHING) == rows(other.warehouse, EVERYTHING)
    tables = ("other_samples", "rejects")
    assert contents(one.warehouse, leave_out=LEFT_OUT, tables=tables) == contents(
        other.warehouse, leave_out=LEFT_OUT, tables=tables
    )


def test_files_of_one_ingest_are_one_span(saved: list[Path], whole: CommandLine, cli: CommandLine) -> None:
    cli.ok("ingest", *saved)
    same(cli, whole)
    assert not list(cli.warehouse.glob("snapshots/*/*/parts-*"))


def test_files_ingested_one_after_the_other_are_one_span(
    saved: list[Path], whole: CommandLine, cli: CommandLine
) -> None:
    chosen = [path for path in saved if re.search("inter_token|per_pos|success|running|drafts|waiting", path.name)]
    Random(3).shuffle(chosen)
    for path in chosen:
        cli.ok("ingest", path)
    cli.ok("ingest", *saved)
    same(cli, whole)
    assert len(rows(cli.warehouse, "SELECT scraped_at FROM snapshots")) == 12
    for path in saved[:3]:
        cli.ok("ingest", path)
    same(cli, whole)


def test_marts_see_one_span(saved: list[Path], whole: CommandLine, cli: CommandLine) -> None:
    for path in (saved[::2], saved[1::2]):
        cli.ok("ingest", *path)
    for one in (cli, whole):
        one.ok("transform")
    for table in ("acceptance", "round_time", "latency", "positions", "capacity", "preemption"):
        query = f"SELECT * FROM {table} ORDER BY ALL"
        assert rows(cli.warehouse, query) == rows(whole.warehouse, query), table


def test_a_sum_alone_waits_for_its_buckets(saved: list[Path], cli: CommandLine) -> None:
    (alone,) = (path for path in saved if path.name == "vllm_inter_token_latency_seconds_sum.json")
    cli.ok("ingest", alone)
    found = rows(cli.warehouse, "SELECT DISTINCT itl.le, itl.count, itl.sum IS NULL FROM snapshots")
    assert found == [([], None, False)]
    cli.ok("transform")
    assert rows(cli.warehouse, "SELECT round_time_ms FROM round_time WHERE round_time_ms IS NOT NULL") == []


def test_what_is_told_again_is_no_part(saved: list[Path], cli: CommandLine, tmp_path: Path) -> None:
    (path,) = (path for path in saved if "num_drafts" in path.name)
    cli.ok("ingest", path)
    again = tmp_path / "again.json"
    again.write_text(json.dumps(json.loads(path.read_text()), indent=1))
    cli.ok("ingest", again)
    assert rows(cli.warehouse, "SELECT rows, duplicates FROM ingested_files ORDER BY ingested_at") == [
        (12, 0),
        (12, 12),
    ]
    files = Warehouse(cli.warehouse).root.glob("snapshots/*/*/*.parquet")
    assert len(list(files)) == 1
