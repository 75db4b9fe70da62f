"""Asked tables: one row a request whoever reported it, one row a server start with its labels."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from specledger.ingest.batch import SCHEMAS, TABLES
from specledger.schemas.warehouse import Warehouse, scan
from tests.ingest.contents import rows

NOON = dt.datetime(2026, 9, 14, 12)
DAY = NOON.date()


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    return tmp_path / "warehouse"


def write(warehouse: Path, table: str, name: str, *facts: dict[str, Any], deployment: str = "d") -> None:
    said = [{"instance": "i", "source": name, **fact} for fact in facts]
    frame = pl.DataFrame(said, schema=SCHEMAS[table])
    Warehouse(warehouse).write(TABLES[table], DAY, deployment, name, frame.to_arrow())


def request(format_name: str, request_id: str, minute: float = 0, **facts: Any) -> dict[str, Any]:
    at = NOON + dt.timedelta(minutes=minute)
    known = {"format": format_name, "request_id": request_id, "status": "ok", "byte_offset": 0}
    return {**known, "arrived_at": at, "finished_at": at + dt.timedelta(seconds=2), **facts}


def test_a_request_that_two_inputs_report_is_one(warehouse: Path) -> None:
    write(
        warehouse,
        "requests",
        "responses-1",
        request("responses", "req-1", output_tokens=10, rounds=4, decode_ms=90.0, decode_from="client"),
        request("responses", "req-2", output_tokens=20),
    )
    write(
        warehouse,
        "requests",
        "otlp-1",
        request("otlp", "cmpl-req-1-0", 0.01, output_tokens=11, queue_ms=3.0, decode_ms=80.0, decode_from="server"),
        request("otlp", "chatcmpl-req-3", output_tokens=30),
    )
    found = rows(
        warehouse,
        "SELECT request_id, format, output_tokens, rounds, queue_ms, decode_ms, decode_from FROM requests ORDER BY ALL",
    )
    assert found == [
        ("chatcmpl-req-3", "otlp", 30, None, None, None, None),
        ("req-1", "responses", 10, 4, 3.0, 80.0, "server"),
        ("req-2", "responses", 20, None, None, None, None),
    ]


def test_the_servers_own_id_connects_what_the_clients_does_not(warehouse: Path) -> None:
    write(warehouse, "requests", "responses-1", request("responses", "mine", tags={"response_id": "chatcmpl-abc"}))
    write(warehouse, "requests", "otlp-1", request("otlp", "chatcmpl-abc", 0.02))
    assert rows(warehouse, "SELECT request_id FROM requests") == [("mine",)]


def test_an_id_used_again_later_is_another_request(warehouse: Path) -> None:
    for format_name in ("responses", "bench"):
        reports = [request(format_name, "req-1", minute) for minute in (0, 60)]
        write(warehouse, "requests", f"{format_name}-1", *reports)
    assert rows(warehouse, "SELECT count(*) FROM requests") == [(2,)]


def test_repetitions_inside_one_input_stay(warehouse: Path) -> None:
    write(warehouse, "requests", "responses-1", request("responses", "r"), request("responses", "r", 0.1))
    write(warehouse, "requests", "bench-1", request("bench", "r"))
    assert rows(warehouse, "SELECT format FROM requests ORDER BY ALL") == [("responses",), ("responses",)]


def test_the_same_id_in_two_deployments_is_two_requests(warehouse: Path) -> None:
    write(warehouse, "requests", "responses-1", request("responses", "r"))
    write(warehouse, "requests", "otlp-1", request("otlp", "r"), deployment="other")
    assert rows(warehouse, "SELECT count(*) FROM requests") == [(2,)]


def test_an_unknown_status_gives_way(warehouse: Path) -> None:
    write(warehouse, "requests", "responses-1", request("responses", "r", status="unknown"))
    write(warehouse, "requests", "aiperf-1", request("aiperf", "r", status="failed"))
    assert rows(warehouse, "SELECT status FROM requests") == [("failed",)]


def test_rows_of_one_format_are_read_as_they_are(warehouse: Path) -> None:
    write(warehouse, "requests", "responses-1", request("responses", "r"))
    select = Warehouse(warehouse).select(TABLES["requests"])
    assert "JOIN" not in select
    paths = [str(file.path) for file in Warehouse(warehouse).files(TABLES["requests"])]
    assert "JOIN" not in scan(TABLES["requests"], paths)
    write(warehouse, "requests", "bench+otlp-2", request("otlp", "s"))
    assert "JOIN" in Warehouse(warehouse).select(TABLES["requests"])


@pytest.mark.parametrize("formats", [1, 2])
def test_the_merged_columns_are_the_declared_ones(formats: int, warehouse: Path) -> None:
    for format_name in ("responses", "otlp")[:formats]:
        write(warehouse, "requests", f"{format_name}-1", request(format_name, "r"))
    with Warehouse(warehouse).connect() as connection:
        for table in (TABLES["requests"], TABLES["deployments"]):
            described = connection.execute(f"DESCRIBE {table.name}").fetchall()
            assert [(name, kind) for name, kind, *_ in described] == [
                (column.name, column.type.replace(",", ", ").replace(",  ", ", ")) for column in table.columns
            ]


def test_labels_hold_for_every_start_of_the_deployment_the_latest_value_first(warehouse: Path) -> None:
    write(warehouse, "deployments", "l1", {"labels": {"quant": "fp8", "gpus": "1"}, "labelled_at": NOON})
    later = NOON + dt.timedelta(hours=1)
    write(warehouse, "deployments", "l2", {"labels": {"gpus": "2"}, "labelled_at": later, "instance": "j"})
    assert rows(warehouse, "SELECT started_at, labels, labelled_at FROM deployments") == [
        (None, {"gpus": "2", "quant": "fp8"}, later)
    ]
    write(warehouse, "deployments", "s", {"started_at": NOON, "model": "a"}, {"started_at": later, "model": "b"})
    assert rows(warehouse, "SELECT model, labels['gpus'], labels['quant'] FROM deployments ORDER BY ALL") == [
        ("a", "2", "fp8"),
        ("b", "2", "fp8"),
    ]
    write(warehouse, "deployments", "l3", {"labels": {"gpus": "8"}, "labelled_at": NOON}, deployment="other")
    assert rows(warehouse, "SELECT deployment, count(*) FROM deployments GROUP BY ALL ORDER BY ALL") == [
        ("d", 2),
        ("other", 1),
    ]


def test_a_scrape_in_parts_is_one_row_with_the_first_that_is_known_of_each_field(warehouse: Path) -> None:
    def part(**facts: Any) -> dict[str, Any]:
        return {"scraped_at": NOON, "engine": 0, **facts}

    def histogram(le: list[float], n: list[int], total: float | None, count: int | None) -> dict[str, Any]:
        return {"le": le, "n": n, "sum": total, "count": count}

    whole = part(scraped_at=NOON + dt.timedelta(seconds=5), rounds=9, itl=histogram([1.0], [9], 4.0, 9))
    write(warehouse, "snapshots", "b", part(rounds=7, itl=histogram([], [], 3.5, None)), whole)
    write(
        warehouse,
        "snapshots",
        "parts-c",
        part(rounds=8, running=2.0, itl=histogram([0.5, 1.0], [3, 7], None, 7), ttft=histogram([], [], 1.0, None)),
        part(engine=1, running=3.0),
    )
    query = "SELECT engine, rounds, running, itl, ttft, source FROM snapshots ORDER BY scraped_at, engine"
    assert rows(warehouse, query) == [
        (0, 7, 2.0, histogram([0.5, 1.0], [3, 7], 3.5, 7), None, "b"),
        (1, None, 3.0, None, None, "parts-c"),
        (0, 9, None, histogram([1.0], [9], 4.0, 9), None, "b"),
    ]


def test_without_a_file_of_parts_nothing_is_put_together(warehouse: Path) -> None:
    for name in ("b", "c"):
        write(warehouse, "snapshots", name, {"scraped_at": NOON, "engine": 0, "rounds": 7})
    assert rows(warehouse, "SELECT rounds FROM snapshots") == [(7,), (7,)]
