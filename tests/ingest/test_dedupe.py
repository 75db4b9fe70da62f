"""Rows that a partition holds already, against a plain count of what each input gave."""

from __future__ import annotations

import datetime as dt
import itertools
from collections import Counter
from pathlib import Path

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from specledger.ingest.batch import SCHEMAS, TABLES
from specledger.ingest.dedupe import Own, PartitionKeys

NOON = dt.datetime(2026, 9, 14, 12)
MORNING, EVENING = dt.datetime(2026, 9, 14, 20), dt.datetime(2026, 9, 15, 8)
"""When an ingest ran."""
EVENTS = TABLES["events"]


def events(
    messages: list[str], inputs: list[int] | None = None, source: str = "a", start: int = 0, at: dt.datetime = EVENING
) -> pl.DataFrame:
    frame = pl.DataFrame({"message": messages}, schema={"message": pl.String}).with_columns(
        instance=pl.lit("i"),
        source=pl.lit(source),
        byte_offset=pl.int_range(start, start + len(messages)),
        ingested_at=pl.lit(at),
        logged_at=pl.lit(NOON),
        kind=pl.lit("other"),
        _input=pl.Series(inputs or [0] * len(messages), dtype=pl.UInt32),
    )
    missing = {name: kind for name, kind in SCHEMAS["events"].items() if name not in frame.columns}
    frame = frame.with_columns(pl.lit(None, kind).alias(name) for name, kind in missing.items())
    return frame.select(*(pl.col(name).cast(kind) for name, kind in SCHEMAS["events"].items()), "_input")


def requests(ids: list[str], minutes: list[int], source: str = "a") -> pl.DataFrame:
    frame = pl.DataFrame({"request_id": ids}).with_columns(
        instance=pl.lit("i"),
        source=pl.lit(source),
        byte_offset=pl.int_range(pl.len()),
        format=pl.lit("responses"),
        status=pl.lit("ok"),
        arrived_at=pl.Series([NOON + dt.timedelta(minutes=minute) for minute in minutes]),
        _input=pl.lit(0, pl.UInt32),
    )
    missing = {name: kind for name, kind in SCHEMAS["requests"].items() if name not in frame.columns}
    frame = frame.with_columns(pl.lit(None, kind).alias(name) for name, kind in missing.items())
    return frame.select(*(pl.col(name).cast(kind) for name, kind in SCHEMAS["requests"].items()), "_input")


def published(folder: Path, rows: pl.DataFrame) -> Path:
    path = folder / f"{len(list(folder.iterdir()))}.parquet"
    rows.drop("_input").write_parquet(path)
    return path


def new(keys: PartitionKeys, rows: pl.DataFrame, own: Own | None = None) -> list[str]:
    found = keys.new_rows(rows, own or {})
    return found["message" if "message" in found.columns else "request_id"].to_list()


def test_an_empty_partition_holds_nothing() -> None:
    keys = PartitionKeys.of(EVENTS, SCHEMAS["events"], [])
    assert sorted(new(keys, events(["a", "b", "a"]))) == ["a", "a", "b"]


def test_equal_rows_of_one_input_are_told_apart_by_their_number(tmp_path: Path) -> None:
    path = published(tmp_path, events(["a", "a", "b"], source="other"))
    keys = PartitionKeys.of(EVENTS, SCHEMAS["events"], [path])
    assert new(keys, events(["a", "a", "a", "b"])) == ["a"]


def test_the_same_row_of_two_inputs_of_a_batch_is_there_once() -> None:
    keys = PartitionKeys.of(EVENTS, SCHEMAS["events"], [])
    assert new(keys, events(["a", "a", "b"], inputs=[0, 1, 1])).count("a") == 1


def test_what_an_input_gave_before_it_grew_does_not_count_against_it(tmp_path: Path) -> None:
    path = published(tmp_path, events(["a", "b"], at=MORNING))
    grown = events(["a", "b"], start=2)
    keys = PartitionKeys.of(EVENTS, SCHEMAS["events"], [path])
    assert sorted(new(keys, grown, {0: frozenset({("a", MORNING)})})) == ["a", "b"]
    # Another input with the same rows says nothing new.
    again = PartitionKeys.of(EVENTS, SCHEMAS["events"], [path])
    assert new(again, grown) == []


def test_rows_that_a_file_of_the_same_name_gave_at_another_time_are_not_the_inputs_own(tmp_path: Path) -> None:
    path = published(tmp_path, events(["a"], at=MORNING))
    keys = PartitionKeys.of(EVENTS, SCHEMAS["events"], [path])
    assert new(keys, events(["a"], start=9), {0: frozenset({("a", EVENING)})}) == []


def test_a_row_that_another_input_gave_as_often_is_not_new_to_one_that_grows(tmp_path: Path) -> None:
    paths = [published(tmp_path, events(["a"], at=MORNING)), published(tmp_path, events(["a"], source="b"))]
    keys = PartitionKeys.of(EVENTS, SCHEMAS["events"], paths)
    assert new(keys, events(["a"], start=1), {0: frozenset({("a", MORNING)})}) == []
    assert new(keys, events(["a", "a"], start=1), {0: frozenset({("a", MORNING)})}) == ["a"]


def test_rows_of_an_older_specledger_which_did_not_say_when_they_were_read_are_known(tmp_path: Path) -> None:
    path = tmp_path / "old.parquet"
    events(["a"]).drop("_input", "ingested_at").write_parquet(path)
    keys = PartitionKeys.of(EVENTS, SCHEMAS["events"], [path])
    assert new(keys, events(["a", "b"]), {0: frozenset({("a", MORNING)})}) == ["b"]


def test_files_of_other_times_and_servers_are_not_read(tmp_path: Path) -> None:
    other = events(["a"]).with_columns(instance=pl.lit("j"))
    later = events(["a"]).with_columns(logged_at=pl.col("logged_at") + dt.timedelta(hours=1))
    paths = [published(tmp_path, other), published(tmp_path, later)]
    keys = PartitionKeys.of(EVENTS, SCHEMAS["events"], paths)
    assert new(keys, events(["a"])) == ["a"]
    assert len(keys._unread) == 2


def test_a_request_id_that_is_used_again_later_is_another_request(tmp_path: Path) -> None:
    table, schema = TABLES["requests"], SCHEMAS["requests"]
    path = published(tmp_path, requests(["r1", "r2"], [0, 0]))
    keys = PartitionKeys.of(table, schema, [path])
    found = keys.new_rows(requests(["r1", "r2", "r3"], [1, 60, 60], source="b"), {})
    assert sorted(found["request_id"]) == ["r2", "r3"]
    keys.staged(published(tmp_path, found))
    assert new(keys, requests(["r2", "r3", "r1"], [61, 55, 5], source="c")) == []


batches = st.lists(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from("abc")), min_size=1, max_size=12), min_size=1, max_size=4
)


@settings(max_examples=60, deadline=None)
@given(batches)
def test_a_partition_holds_each_row_as_often_as_the_input_that_gave_it_most_often(
    tmp_path_factory, batches: list[list[tuple[int, str]]]
) -> None:
    folder = tmp_path_factory.mktemp("partition")
    most: Counter[str] = Counter()
    held: Counter[str] = Counter()
    for number, batch in enumerate(batches):
        keys = PartitionKeys.of(EVENTS, SCHEMAS["events"], sorted(folder.iterdir()))
        rows = events([message for _, message in batch], [one for one, _ in batch], source=f"batch {number}")
        found = keys.new_rows(rows, {})
        held.update(found["message"].to_list())
        published(folder, found)
        for one in {one for one, _ in batch}:
            most |= Counter(message for other, message in batch if other == one)
    assert held == most


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=30), st.lists(st.integers(1, 29), max_size=4))
def test_writing_one_input_in_parts_changes_nothing(tmp_path_factory, messages: list[str], cuts: list[int]) -> None:
    folder = tmp_path_factory.mktemp("parts")
    keys = PartitionKeys.of(EVENTS, SCHEMAS["events"], [])
    found: list[str] = []
    edges = sorted({0, *(cut for cut in cuts if cut < len(messages)), len(messages)})
    for start, end in itertools.pairwise(edges):
        rows = keys.new_rows(events(messages[start:end], start=start), {0: frozenset({("a", EVENING)})})
        keys.staged(published(folder, rows))
        found += rows["message"].to_list()
    assert sorted(found) == sorted(messages)
