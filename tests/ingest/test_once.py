"""Exactly once: whatever happens to files and runs between two ingests, the warehouse holds each record once."""

from __future__ import annotations

import datetime as dt
import errno
import gzip
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
import zstandard

from specledger.ingest import ingest
from specledger.ingest.reader import Progress
from specledger.schemas.errors import WarehouseError, WarehouseLocked
from specledger.schemas.lock import exclusive
from specledger.schemas.warehouse import Warehouse
from tests.ingest.contents import WHEN, WHERE, contents, rows

START = 1_789_372_800


def response(number: int) -> str:
    body = {"id": f"cmpl-{number}", "object": "text_completion", "created": START + number}
    return json.dumps({**body, "usage": {"prompt_tokens": 10, "completion_tokens": 5 + number}})


def jsonl(first: int, last: int) -> str:
    return "".join(response(number) + "\n" for number in range(first, last))


def scrape(number: int, rounds: int | None = None) -> str:
    value = 100 * number if rounds is None else rounds
    return (
        "# TYPE vllm:spec_decode_num_drafts_total counter\n"
        f'vllm:spec_decode_num_drafts_total{{engine="0",model_name="m"}} {value}.0\n'
        "# TYPE vllm:num_requests_running gauge\n"
        f'vllm:num_requests_running{{engine="0",model_name="m"}} {number}.0\n'
    )


def log(first: int, last: int) -> str:
    """Stats records, each with its spec record, ten seconds apart."""
    lines = []
    for number in range(first, last):
        when = f"(APIServer pid=7) INFO 09-14 08:{number // 6:02}:{number % 6}0"
        lines.append(
            f"{when} [loggers.py:123] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: "
            f"{number}.5 tokens/s, Running: {number} reqs, Waiting: 0 reqs, GPU KV cache usage: 12.5%, Prefix cache "
            "hit rate: 20.0%\n"
        )
        lines.append(
            f"{when} [metrics.py:101] SpecDecoding metrics: Mean acceptance length: 2.50, Accepted throughput: 15.30 "
            "tokens/s, Drafted throughput: 30.60 tokens/s, Accepted: 153 tokens, Drafted: 306 tokens, Per-position "
            "acceptance rate: 0.700, 0.500, 0.300, Avg Draft acceptance rate: 50.0%\n"
        )
    return "".join(lines)


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """Inside of the folder that some tests ingest, as it may be for users."""
    return tmp_path / "warehouse"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Scrapes, a log and responses, with a broken line."""
    folder = tmp_path / "input"
    (folder / "metrics").mkdir(parents=True)
    for number in range(4):
        (folder / "metrics" / f"{(START + number) * 1000}.prom").write_text(scrape(number))
    (folder / "server.log").write_text(log(0, 5))
    (folder / "responses.jsonl").write_text(jsonl(0, 3) + "{broken\n" + jsonl(3, 5))
    return folder


def take(warehouse: Path, *paths: object, **options: object) -> dict[str, int]:
    """Ingest and say how many rows of which table were written."""
    options = {"deployment": "d", "instance": "i", "year": 2026, "timezone": "UTC", **options}
    return ingest(warehouse, [str(path) for path in paths], **options).rows  # type: ignore[arg-type]


def gzipped(folder: Path, aside: Path) -> list[Path]:
    return repacked(folder, aside, ".gz", gzip.compress)


def zstandarded(folder: Path, aside: Path) -> list[Path]:
    return repacked(folder, aside, ".zst", zstandard.ZstdCompressor().compress)


def repacked(folder: Path, aside: Path, suffix: str, pack: Callable[[bytes], bytes]) -> list[Path]:
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        target = aside / path.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.with_name(target.name + suffix).write_bytes(pack(path.read_bytes()))
    return [aside]


def copied(folder: Path, aside: Path) -> list[Path]:
    shutil.copytree(folder, aside, copy_function=shutil.copy)
    return [aside]


WRAPPINGS: dict[str, Callable[[Path, Path], list[Path]]] = {
    "folder": lambda folder, _: [folder],
    "files": lambda folder, _: [path for path in folder.rglob("*") if path.is_file()],
    "globs": lambda folder, _: [folder / "metrics" / "*", folder / "*.*"],
    "copy": copied,
    "gzip": gzipped,
    "zstd": zstandarded,
}


@pytest.mark.parametrize(("first", "second"), list(zip(WRAPPINGS, [*list(WRAPPINGS)[1:], "folder"], strict=True)))
def test_the_same_content_in_any_wrapping_is_there_once(
    first: str, second: str, folder: Path, warehouse: Path, tmp_path: Path
) -> None:
    written = take(warehouse, *WRAPPINGS[first](folder, tmp_path / "first"))
    assert written == {"snapshots": 4, "log_stats": 5, "requests": 5, "rejects": 1}
    before = contents(warehouse)
    assert take(warehouse, *WRAPPINGS[second](folder, tmp_path / "second")) == {}
    assert contents(warehouse) == before


def test_every_wrapping_gives_the_same_tables(folder: Path, tmp_path: Path) -> None:
    found = []
    for name, wrap in WRAPPINGS.items():
        take(tmp_path / f"warehouse {name}", *wrap(folder, tmp_path / f"input {name}"))
        found.append(contents(tmp_path / f"warehouse {name}", leave_out=WHEN + WHERE))
    assert all(one == found[0] for one in found)


def test_a_file_and_its_compressed_twin_in_one_folder_are_one_input(folder: Path, warehouse: Path) -> None:
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
    assert take(warehouse, folder) == {"snapshots": 4, "log_stats": 5, "requests": 5, "rejects": 1}


def test_equal_scrapes_at_two_times_are_two_scrapes(tmp_path: Path, warehouse: Path) -> None:
    for second in (0, 15):
        (tmp_path / f"{START + second}.prom").write_text(scrape(1))
    assert take(warehouse, tmp_path) == {"snapshots": 2}
    # Under a name without a time it is one of them.
    (tmp_path / "copy.prom").write_text(scrape(1))
    assert take(warehouse, tmp_path / "copy.prom") == {}


def test_a_growing_file_is_continued(tmp_path: Path, warehouse: Path) -> None:
    path = tmp_path / "responses.jsonl"
    path.write_text(jsonl(0, 3))
    assert take(warehouse, path) == {"requests": 3}
    path.write_text(jsonl(0, 7))
    assert take(warehouse, path) == {"requests": 4}
    assert rows(warehouse, "SELECT records, bytes FROM ingested_files ORDER BY ingested_at") == [
        (3, len(jsonl(0, 3))),
        (4, len(jsonl(0, 7))),
    ]
    # Rotated and compressed, and grown once more before that.
    (tmp_path / "responses.jsonl.1.gz").write_bytes(gzip.compress(jsonl(0, 9).encode()))
    assert take(warehouse, tmp_path) == {"requests": 2}
    assert rows(warehouse, "SELECT count(*), count(DISTINCT request_id) FROM requests") == [(9, 9)]


@pytest.mark.parametrize("name", ["responses.jsonl", "server.log"])
def test_growing_bit_by_bit_gives_the_same_as_reading_at_once(name: str, tmp_path: Path) -> None:
    whole = (jsonl(0, 12) if name == "responses.jsonl" else log(0, 12)).encode()
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / name).write_bytes(whole)
    path = tmp_path / name
    for size in (1, 90, 91, 600, 601, 900, len(whole)):
        path.write_bytes(whole[:size])
        take(tmp_path / "in parts", path)
    assert take(tmp_path / "in parts", path) == {}
    take(tmp_path / "at once", tmp_path / "whole" / name)
    tables = ("requests", "log_stats", "rejects", "deployments")
    leave_out = WHEN + WHERE
    assert contents(tmp_path / "in parts", leave_out=leave_out, tables=tables) == contents(
        tmp_path / "at once", leave_out=leave_out, tables=tables
    )


def test_an_unterminated_line_waits_and_is_given_up_when_the_file_stays_as_it_is(
    tmp_path: Path, warehouse: Path
) -> None:
    path = tmp_path / "responses.jsonl"
    path.write_text(jsonl(0, 2) + response(2)[:40])
    assert take(warehouse, path) == {"requests": 2}
    assert take(warehouse, path) == {"rejects": 1}
    assert take(warehouse, path) == {}
    # The writer was slow, not dead: its line is read after all.
    path.write_text(jsonl(0, 4))
    assert take(warehouse, path) == {"requests": 2}
    assert take(warehouse, path) == {}


def test_a_file_of_nothing_but_an_unterminated_line_is_known_by_its_name(tmp_path: Path, warehouse: Path) -> None:
    path = tmp_path / "responses.jsonl"
    path.write_text(response(0)[:60])
    assert take(warehouse, path) == {}
    path.write_text(response(0)[:70])
    assert take(warehouse, path) == {}
    assert take(warehouse, path) == {"rejects": 1}
    path.write_text(jsonl(0, 2))
    assert take(warehouse, path) == {"requests": 2}


def test_an_unterminated_line_that_is_whole_is_read_at_once(tmp_path: Path, warehouse: Path) -> None:
    path = tmp_path / "responses.jsonl"
    path.write_text(jsonl(0, 3).rstrip("\n"))
    assert take(warehouse, path) == {"requests": 3}
    assert take(warehouse, path) == {}
    path.write_text(jsonl(0, 4))
    assert take(warehouse, path) == {"requests": 1}


def test_what_cannot_grow_any_more_is_settled_at_once(tmp_path: Path, warehouse: Path) -> None:
    path = tmp_path / "responses.jsonl.gz"
    path.write_bytes(gzip.compress((jsonl(0, 2) + response(2)[:40]).encode()))
    assert take(warehouse, path) == {"requests": 2, "rejects": 1}
    assert take(warehouse, path) == {}


def test_a_compressed_file_that_was_cut_is_read_whole_when_it_comes_whole(tmp_path: Path, warehouse: Path) -> None:
    path = tmp_path / "responses.jsonl.gz"
    path.write_bytes(gzip.compress((jsonl(0, 2) + response(2)[:40]).encode()))
    take(warehouse, path)
    path.write_bytes(gzip.compress(jsonl(0, 4).encode()))
    assert take(warehouse, path) == {"requests": 2}


def test_damaged_files_of_which_nothing_can_be_read_are_told_apart_and_each_known_under_any_name(
    tmp_path: Path, warehouse: Path
) -> None:
    for number in range(2):
        packed = zstandard.ZstdCompressor().compress(jsonl(number, number + 9).encode())
        (tmp_path / f"{number}.zst").write_bytes(packed[:40])
    assert take(warehouse, tmp_path) == {"rejects": 2}
    (tmp_path / "0.zst").rename(tmp_path / "2.zst")
    assert take(warehouse, tmp_path) == {}


@pytest.mark.parametrize("content", ['{"metadata": {"guidellm_version": "0.8.1"}, "benchm', '{"results": {"t": {"acc'])
def test_a_document_that_is_cut_waits_and_is_given_up_when_it_stays_so(
    content: str, tmp_path: Path, warehouse: Path
) -> None:
    path = tmp_path / "results.json"
    path.write_text(content)
    name = "guidellm" if "guidellm" in content else "quality"
    assert take(warehouse, path, format=name) == {}
    assert take(warehouse, path, format=name) == {"rejects": 1}
    assert take(warehouse, path, format=name) == {}


def test_a_line_that_others_begin_with_too_is_given_up_all_the_same(tmp_path: Path, warehouse: Path) -> None:
    whole = jsonl(0, 1)
    (tmp_path / "a.jsonl").write_text(whole)
    (tmp_path / "b.jsonl").write_text(whole + response(1)[:40])
    assert take(warehouse, tmp_path) == {"requests": 1}
    assert take(warehouse, tmp_path) == {"rejects": 1}
    assert take(warehouse, tmp_path) == {}


def test_a_file_rewritten_in_place_with_a_part_of_what_it_held_adds_only_what_is_new(
    tmp_path: Path, warehouse: Path
) -> None:
    path = tmp_path / "last_24h.jsonl"
    path.write_text(jsonl(0, 6))
    take(warehouse, path)
    path.write_text(jsonl(4, 9))
    assert take(warehouse, path) == {"requests": 3}
    assert rows(warehouse, "SELECT duplicates FROM ingested_files ORDER BY ingested_at DESC LIMIT 1") == [(2,)]


def test_a_log_that_was_copied_and_truncated_goes_on(tmp_path: Path, warehouse: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text(log(0, 5))
    take(warehouse, path)
    (tmp_path / "server.log.1").write_text(log(0, 7))
    path.write_text(log(7, 9))
    assert take(warehouse, tmp_path) == {"log_stats": 4}


@pytest.mark.parametrize("pack", [None, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("cut", [0, 10, 60])
def test_a_line_cut_by_the_rotation_is_one_record(
    cut: int, pack: Callable[[bytes], bytes] | None, tmp_path: Path, warehouse: Path
) -> None:
    text, folder = log(0, 9).encode(), tmp_path / "logs"
    folder.mkdir()
    at = len(log(0, 7)) + cut
    (folder / f"server.log.1{'.gz' if pack else ''}").write_bytes(pack(text[:at]) if pack else text[:at])
    (folder / "server.log").write_bytes(text[at:])
    assert take(warehouse, folder) == {"log_stats": 9}
    assert take(warehouse, folder) == {}
    (tmp_path / "whole.log").write_bytes(text)
    assert take(warehouse, tmp_path / "whole.log") == {}
    assert rows(warehouse, "SELECT source FROM ingested_files WHERE records <> rows + rejects OR rejects > 0") == []


@pytest.mark.parametrize("name", ["other.log", "server.log.1"])
def test_a_log_and_its_copy_are_read_once(name: str, tmp_path: Path, warehouse: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    for path in (folder / "server.log", folder / name):
        path.write_text(log(0, 9)[:-10])
    for _ in range(2):
        take(warehouse, folder)
    assert len(contents(warehouse)["log_stats"]) == 9
    assert rows(warehouse, "SELECT sum(rows) FROM ingested_files") == [(17,)]


@pytest.mark.parametrize("part", [jsonl, log], ids=["responses", "log"])
def test_a_rotated_set_put_together_in_one_file_says_nothing_new(
    part: Callable[[int, int], str], tmp_path: Path, warehouse: Path
) -> None:
    path, earlier = tmp_path / "requests", tmp_path / "requests.1"
    path.write_text(part(0, 7))
    take(warehouse, path)
    path.rename(earlier)
    path.write_text(part(7, 12))
    take(warehouse, path)
    whole = tmp_path / "whole"
    whole.write_text(earlier.read_text() + path.read_text())
    assert take(warehouse, whole) == {}
    whole.write_text(whole.read_text() + part(12, 13))
    assert list(take(warehouse, tmp_path).values()) == [1]


def test_records_that_wait_inside_a_reader_come_when_the_file_stays_as_it_is(
    tmp_path: Path, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(stream, context, sink) -> Progress:  # a reader that holds every record back as long as it may
        held = [*context.resume.get("held", ()), *stream.read().decode().split()]
        if context.settled:
            frame = pl.DataFrame({"message": held}).with_columns(logged_at=dt.datetime(2026, 9, 14), kind=pl.lit("x"))
            sink.rows("events", frame.with_row_index("byte_offset"))
            held = []
        return Progress(len(b"a b c\n"), {"held": held}, waiting=bool(held))

    monkeypatch.setattr("specledger.ingest.server_log.read", read)
    path = tmp_path / "server.log"
    path.write_text("a b c\n")
    assert take(warehouse, path, format="server_log") == {}
    assert take(warehouse, path, format="server_log") == {"events": 3}
    assert take(warehouse, path, format="server_log") == {}


def test_records_are_rows_and_rejects(folder: Path, warehouse: Path) -> None:
    (folder / "notes.txt").write_text("nothing that is known here\n")
    take(warehouse, folder)
    assert rows(warehouse, "SELECT count(*) FROM ingested_files WHERE records <> rows + rejects") == [(0,)]
    assert rows(
        warehouse, "SELECT format, sum(records), sum(rejects) FROM ingested_files GROUP BY ALL ORDER BY ALL"
    ) == [
        ("exposition", 4, 0),
        ("responses", 6, 1),
        ("server_log", 10, 0),
        ("unknown", 1, 1),
    ]
    before = contents(warehouse)
    take(warehouse, folder)
    assert contents(warehouse) == before


def test_less_than_a_line_of_nothing_known_is_refused_once_it_stays_so(tmp_path: Path, warehouse: Path) -> None:
    path = tmp_path / "some.log"
    path.write_text("hel")
    assert take(warehouse, path) == {}
    path.write_text("hello")
    assert take(warehouse, path) == {}
    assert take(warehouse, path) == {"rejects": 1}
    assert take(warehouse, path) == {}


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("steps", range(12))
def test_a_run_that_dies_at_any_step_and_is_run_again_ends_in_the_same_state(
    steps: int, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(tmp_path / "undisturbed", folder, labels={"quant": "fp8"})
    warehouse, publish, left = tmp_path / "warehouse", Warehouse.publish, [steps]

    def dying(self: Warehouse, aside: Path, target: Path) -> None:
        if target.name.endswith(".json") or "_schema" not in target.parts:
            if left[0] == 0:
                raise Killed
            left[0] -= 1
        publish(self, aside, target)

    monkeypatch.setattr(Warehouse, "publish", dying)
    died = False
    try:
        take(warehouse, folder, labels={"quant": "fp8"})
    except Killed:
        died = True
    monkeypatch.undo()
    take(warehouse, folder, labels={"quant": "fp8"})
    assert contents(warehouse) == contents(tmp_path / "undisturbed")
    assert not list((warehouse / "_pending").glob("*"))
    assert died or steps > 8


def test_commit_records_are_put_together_without_losing_one(
    tmp_path: Path, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specledger.ingest.batch.RECORD_FILES", 3)
    for number in range(7):
        (tmp_path / f"{number}.jsonl").write_text(jsonl(number, number + 1))
        take(warehouse, tmp_path / f"{number}.jsonl")
        assert len(list(warehouse.glob("ingested_files/*/*/*"))) <= 3
    assert rows(warehouse, "SELECT count(*), count(DISTINCT source) FROM ingested_files") == [(7, 7)]
    assert take(warehouse, tmp_path) == {}


def test_a_full_disk_is_told_with_its_place_and_what_to_do(
    folder: Path, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("specledger.ingest.session.recover", full)
    with pytest.raises(WarehouseError, match=r"No space is left for the warehouse .*/warehouse: free some, then run"):
        take(warehouse, folder)


def test_a_second_writer_waits_its_turn(folder: Path, warehouse: Path) -> None:
    with (
        exclusive(warehouse, "ingest"),
        pytest.raises(WarehouseLocked, match=str(os.getpid())),
        exclusive(warehouse, "ingest", wait_s=0),
    ):
        pass
    take(warehouse, folder)


def test_labels_hold_for_the_deployment_and_are_written_only_when_they_change(folder: Path, warehouse: Path) -> None:
    path = folder / "server.log"
    take(warehouse, path, labels={"quant": "fp8", "gpus": "2"})
    before = contents(warehouse)
    take(warehouse, path, labels={"gpus": "2"})
    take(warehouse, path)
    assert contents(warehouse) == before
    take(warehouse, path, labels={"gpus": "4"}, instance="another")
    assert rows(warehouse, "SELECT deployment, labels, started_at FROM deployments") == [
        ("d", {"gpus": "4", "quant": "fp8"}, None)
    ]


def test_every_deployment_ingested_has_a_row(folder: Path, warehouse: Path) -> None:
    take(warehouse, folder / "metrics", deployment="only metrics")
    assert rows(warehouse, "SELECT deployment, labels FROM deployments") == [("only metrics", {})]


def test_more_days_than_files_may_be_open_are_all_there(
    tmp_path: Path, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specledger.ingest.batch.MOST_GROWING", 2)
    lines = [
        json.dumps({"request_id": f"r{n}", "start_unix": 1_767_225_600 + n % 5 * 86_400, "status": 200, "end_s": 1.0})
        for n in range(20)
    ]
    given = tmp_path / "responses.jsonl"
    given.write_text("\n".join([*lines, lines[0]]) + "\n")
    ingest(Warehouse(warehouse), [str(given)])
    held = pl.read_parquet(warehouse / "requests" / "**" / "*.parquet", hive_partitioning=False)
    assert sorted(held["request_id"]) == sorted(["r0", *(f"r{n}" for n in range(20))])
