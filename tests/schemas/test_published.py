"""What readers see of a warehouse that is being written."""

from __future__ import annotations

import datetime as dt
import errno
import os
import shutil
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specledger.schemas import TABLES
from specledger.schemas.config import DEFAULT_SETTINGS
from specledger.schemas.errors import WarehouseError
from specledger.schemas.lock import exclusive
from specledger.schemas.published import (
    BEGUN,
    GRACE_S,
    STATE,
    UNLIKE,
    Published,
    publish,
    published,
    publishing,
    state_of,
)
from specledger.schemas.warehouse import DATABASE, READ, VIEWS, Warehouse, damaged, schema_version
from specledger.transforms.database import publish_database
from tests.scale import scaled

TABLE = TABLES["quality"]
DAYS = dt.date(2026, 11, 1), dt.date(2026, 11, 2)


def rows(count: int, task: str = "gsm8k") -> pa.Table:
    schema = TABLE.arrow_schema()
    given: dict[str, list[object]] = {"task": [task] * count, "value": [float(number) for number in range(count)]}
    for one in schema:
        given.setdefault(one.name, [None if one.nullable else "x" if pa.types.is_string(one.type) else 0] * count)
    return pa.table(given, schema=schema)


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    made = Warehouse(tmp_path / "warehouse")
    for day in DAYS:
        for deployment in ("a", "b c"):
            made.write(TABLE, day, deployment, "one", rows(2))
    return made


def counted(warehouse: Warehouse) -> int:
    with warehouse.connect([TABLE.name]) as connection:
        (found,) = connection.execute("SELECT count(*) FROM quality").fetchone() or ()
    return int(found)


def linked(warehouse: Warehouse) -> set[tuple[dt.date, str, str, int]]:
    return {(one.date, one.deployment, one.path.name, one.path.stat().st_ino) for one in warehouse.files(TABLE)}


def replace_and_remove(warehouse: Warehouse) -> None:
    warehouse.write(TABLE, DAYS[0], "a", "one", rows(9, "mmlu"))
    (warehouse.partition(TABLE, DAYS[1], "a") / "one.parquet").unlink()


def test_readers_see_the_files_themselves_until_something_was_published(warehouse: Warehouse) -> None:
    assert counted(published(warehouse.root)) == 8
    replace_and_remove(warehouse)
    assert counted(published(warehouse.root)) == 13


def test_readers_see_what_was_published_whatever_is_done_to_the_files(warehouse: Warehouse) -> None:
    publish(warehouse, [TABLE])
    before = published(warehouse.root)
    assert isinstance(before, Published)
    with before.connect([TABLE.name]) as connection:
        replace_and_remove(warehouse)
        assert connection.execute("SELECT count(*), max(task) FROM quality").fetchone() == (8, "gsm8k")
        assert counted(published(warehouse.root)) == 8
        publish(warehouse, [TABLE])
        assert connection.execute("SELECT count(*), max(task) FROM quality").fetchone() == (8, "gsm8k")
    assert counted(before) == 8
    after = published(warehouse.root)
    assert counted(after) == 13
    assert linked(after) == linked(warehouse)
    assert after.files(TABLE, date=DAYS[1], deployment="a") == []
    assert after.files(TABLE, date=dt.date(2026, 11, 3)) == []
    assert counted(Warehouse(warehouse.root)) == 13


def runs(warehouse: Warehouse) -> dict[str, str]:
    """Which run linked each date."""
    state = state_of(warehouse.root)
    assert state
    return {day: links.run for day, links in state.tables[TABLE.name].items()}


def test_a_new_date_joins_its_month_and_one_that_changes_takes_the_month_along(warehouse: Warehouse) -> None:
    warehouse.write(TABLE, dt.date(2026, 10, 31), "a", "one", rows(1))
    publish(warehouse, [TABLE])
    first = runs(warehouse)
    select = published(warehouse.root).select(TABLE)
    warehouse.write(TABLE, dt.date(2026, 11, 3), "a", "one", rows(1))
    publish(warehouse, [TABLE])
    second = runs(warehouse)
    assert second == first | {"date=2026-11-03": first["date=2026-11-01"]}
    assert published(warehouse.root).select(TABLE) == select
    warehouse.write(TABLE, DAYS[1], "another", "one", rows(1))
    warehouse.write(TABLE, DAYS[1], "a", "two", rows(1))
    publish(warehouse, [TABLE])
    assert runs(warehouse) == second
    assert published(warehouse.root).select(TABLE) == select
    before = state_of(warehouse.root)
    publish(warehouse, [TABLE])
    assert state_of(warehouse.root) == before
    warehouse.write(TABLE, DAYS[0], "b c", "one", rows(3))
    old = published(warehouse.root)
    publish(warehouse, [TABLE])
    third = runs(warehouse)
    assert third["date=2026-10-31"] == first["date=2026-10-31"]
    november = {run for day, run in third.items() if day > "date=2026-11"}
    assert len(november) == 1
    assert not november & set(second.values())
    assert (counted(old), counted(published(warehouse.root))) == (12, 13)


def test_a_run_that_was_ended_after_a_date_had_joined_is_made_good(warehouse: Warehouse) -> None:
    publish(warehouse, [TABLE])
    state = (warehouse.root / READ / STATE).read_text()
    warehouse.write(TABLE, dt.date(2026, 11, 3), "a", "one", rows(1))
    publish(warehouse, [TABLE])
    (warehouse.root / READ / STATE).write_text(state)
    warehouse.write(TABLE, dt.date(2026, 11, 3), "a", "one", rows(2))
    publish(warehouse, [TABLE])
    assert counted(published(warehouse.root)) == 10
    assert linked(published(warehouse.root)) == linked(warehouse)


def test_a_reader_that_comes_too_late_finds_nothing_rather_than_half(warehouse: Warehouse) -> None:
    publish(warehouse, [TABLE], now=1e9)
    with published(warehouse.root).connect([TABLE.name]) as late:
        warehouse.write(TABLE, DAYS[0], "a", "one", rows(9))
        publish(warehouse, [TABLE], now=1e9)
        publish(warehouse, [TABLE], now=1e9 + GRACE_S)
        with pytest.raises(duckdb.IOException, match="No files found"):
            late.execute("SELECT count(*) FROM quality")


def test_many_nights_lie_in_few_folders(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "warehouse")
    for number in range(70):
        warehouse.write(TABLE, DAYS[0] + dt.timedelta(number), "a", "one", rows(1))
        publish(warehouse, [TABLE])
    readable = published(warehouse.root)
    assert len(readable.globs(TABLE)) == 3
    assert linked(readable) == linked(warehouse)
    assert counted(readable) == 70


def test_what_was_followed_goes_after_its_time(warehouse: Warehouse) -> None:
    publish(warehouse, [TABLE], now=1e9)
    old = published(warehouse.root)
    replace_and_remove(warehouse)
    publish(warehouse, [TABLE], now=1e9 + 10)
    publish(warehouse, [TABLE], now=1e9 + 10 + GRACE_S - 1)
    assert counted(old) == 8
    publish(warehouse, [TABLE], now=1e9 + 10 + GRACE_S)
    state = state_of(warehouse.root)
    assert state
    assert not state.followed
    assert {path.name for path in (warehouse.root / READ).iterdir()} == {STATE, *state.runs()}
    assert counted(published(warehouse.root)) == 13


def test_what_the_views_of_the_database_name_stays_until_they_name_something_newer(warehouse: Warehouse) -> None:
    def asked() -> int:
        with duckdb.connect(str(warehouse.root / DATABASE), read_only=True) as connection:
            (found,) = connection.execute("SELECT count(*) FROM quality").fetchone() or ()
        return int(found)

    publish(warehouse, [TABLE], now=1e9)
    publish_database(published(warehouse.root), DEFAULT_SETTINGS)
    replace_and_remove(warehouse)
    for day in range(5):
        publish(warehouse, [TABLE], now=1e9 + day * 2 * GRACE_S)
        assert asked() == 8
    (warehouse.root / READ / STATE).unlink()
    publish(warehouse, [TABLE], now=1e9 + 9 * GRACE_S)
    assert asked() == 8
    publish_database(published(warehouse.root), DEFAULT_SETTINGS)
    assert asked() == 13
    publish(warehouse, [TABLE], now=1e9 + 10 * GRACE_S)
    state = state_of(warehouse.root)
    assert state
    assert not state.followed
    assert {path.name for path in (warehouse.root / READ).iterdir()} == {STATE, *state.runs()}
    assert asked() == 13


def test_a_clock_that_was_set_back_keeps_nothing_for_ever(warehouse: Warehouse) -> None:
    publish(warehouse, [TABLE], now=2e9)
    replace_and_remove(warehouse)
    publish(warehouse, [TABLE], now=2e9)
    publish(warehouse, [TABLE], now=1e9)
    state = state_of(warehouse.root)
    assert state
    assert not state.followed


def test_a_run_that_was_ended_leaves_nothing(warehouse: Warehouse) -> None:
    publish(warehouse, [TABLE])
    left = warehouse.root / READ / "0123456789abcdef" / "x"
    left.mkdir(parents=True)
    publish(warehouse, [TABLE])
    assert not left.parent.exists()
    assert counted(published(warehouse.root)) == 8


def test_folders_that_were_lost_are_made_again(warehouse: Warehouse) -> None:
    publish(warehouse, [TABLE])
    state = state_of(warehouse.root)
    assert state
    for run in state.runs():
        shutil.rmtree(warehouse.root / READ / run)
    publish(warehouse, [TABLE])
    assert counted(published(warehouse.root)) == 8


def test_readers_read_the_files_where_a_folder_of_links_was_lost(warehouse: Warehouse) -> None:
    publish(warehouse, [TABLE])
    (folder,) = published(warehouse.root).globs(TABLE)
    shutil.rmtree(folder.partition("/*")[0])
    assert counted(published(warehouse.root)) == 8
    publish(warehouse, [TABLE], days=())
    assert isinstance(published(warehouse.root), Published)
    assert linked(published(warehouse.root)) == linked(warehouse)


def test_links_that_were_lost_come_back_with_their_date(warehouse: Warehouse) -> None:
    publish(warehouse, [TABLE])
    for file in published(warehouse.root).files(TABLE, date=DAYS[0]):
        file.path.unlink()
    assert counted(published(warehouse.root)) == 4
    publish(warehouse, [TABLE], days=[DAYS[0]])
    assert linked(published(warehouse.root)) == linked(warehouse)


@pytest.mark.parametrize("text", [b"\xff\x00", b"[]", b'{"content": "x", "folders": null}', b""])
def test_damage_to_what_is_known_of_the_views_hurts_nobody(text: bytes, warehouse: Warehouse) -> None:
    publish(warehouse, [TABLE])
    publish_database(published(warehouse.root), DEFAULT_SETTINGS)
    said = (warehouse.root / VIEWS).read_bytes()
    (warehouse.root / VIEWS).write_bytes(text)
    replace_and_remove(warehouse)
    publish(warehouse, [TABLE], now=4e9)
    publish(warehouse, [TABLE], now=5e9)
    publish_database(published(warehouse.root), DEFAULT_SETTINGS)
    assert (warehouse.root / VIEWS).read_bytes() != said
    with duckdb.connect(str(warehouse.root / DATABASE), read_only=True) as connection:
        assert connection.execute("SELECT count(*) FROM quality").fetchone() == (13,)


def test_a_copy_of_a_warehouse_is_linked_anew(warehouse: Warehouse, tmp_path: Path) -> None:
    publish(warehouse, [TABLE])
    copy = Warehouse(shutil.copytree(warehouse.root, tmp_path / "copy"))
    assert counted(published(copy.root)) == 8
    replace_and_remove(copy)
    publish(copy, [TABLE])
    assert linked(published(copy.root)) == linked(copy)
    assert counted(published(warehouse.root)) == 8


def test_where_files_cannot_be_linked_readers_get_the_files(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(warehouse, [TABLE])

    def refused(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    replace_and_remove(warehouse)
    publish(warehouse, [TABLE])
    assert not (warehouse.root / READ).exists()
    assert not list((warehouse.root / "_tmp").glob("*-aside"))
    assert counted(published(warehouse.root)) == 13


@pytest.mark.parametrize("place", [(os, "link"), (Path, "rename"), (Warehouse, "publish")])
def test_an_interrupt_leaves_nothing_aside_and_the_next_publishes(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, place: tuple[object, str]
) -> None:
    publish(warehouse, [TABLE])
    replace_and_remove(warehouse)
    of_another = warehouse.aside("-aside")
    of_another.mkdir()
    left: list[Path] = []

    def interrupted(*_: object) -> None:
        left.extend((warehouse.root / "_tmp").iterdir())
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(*place, interrupted)
        with pytest.raises(KeyboardInterrupt):
            publish(warehouse, [TABLE])
    assert len(left) > 1
    assert list((warehouse.root / "_tmp").iterdir()) == [of_another]
    assert counted(published(warehouse.root)) == 8
    publish(warehouse, [TABLE])
    assert counted(published(warehouse.root)) == 13


def test_a_full_disk_is_an_error_and_readers_see_what_they_saw(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(warehouse, [TABLE])

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    replace_and_remove(warehouse)
    with monkeypatch.context() as patched:
        patched.setattr(os, "link", full)
        with pytest.raises(Exception, match="No space is left"):
            publish(warehouse, [TABLE])
    assert counted(published(warehouse.root)) == 8
    publish(warehouse, [TABLE])
    assert counted(published(warehouse.root)) == 13


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 2}', '{"format": 1, "tables": 3, "followed": {}}'])
def test_a_state_that_cannot_be_read_is_made_anew(text: str, warehouse: Warehouse) -> None:
    publish(warehouse, [TABLE])
    (warehouse.root / READ / STATE).write_text(text)
    assert counted(published(warehouse.root)) == 8
    replace_and_remove(warehouse)
    assert counted(published(warehouse.root)) == 13
    publish(warehouse, [TABLE])
    assert isinstance(published(warehouse.root), Published)


def test_whoever_writes_next_after_the_state_was_lost_shows_all_tables(warehouse: Warehouse) -> None:
    mart = TABLES["acceptance"]
    warehouse.write(mart, DAYS[0], "a", "part", mart.arrow_schema().empty_table())
    for tables in ([TABLE], [mart]):
        publish(warehouse, TABLES.values())
        shutil.rmtree(warehouse.root / READ)
        with publishing(warehouse, tables, "some") as days:
            days.add(DAYS[1])
        readable = published(warehouse.root)
        assert isinstance(readable, Published)
        assert counted(readable) == 8
        assert len(readable.files(mart)) == 1
    shutil.rmtree(warehouse.root / READ)
    with exclusive(warehouse.root, "transform"):
        publish(warehouse, [TABLE])
    assert not published(warehouse.root).files(mart)
    publish(warehouse, [mart], days=())
    assert len(published(warehouse.root).files(mart)) == 1


def test_files_with_other_columns_lie_apart_and_are_read_by_name(warehouse: Warehouse) -> None:
    publish(warehouse, [TABLE])
    older = warehouse.partition(TABLE, DAYS[0], "a") / "older.parquet"
    pq.write_table(rows(1).select(["task", "value"]), older)
    publish(warehouse, [TABLE])
    state = state_of(warehouse.root)
    assert state
    schemas = {day: links.schema for day, links in state.tables[TABLE.name].items()}
    assert schemas == {"date=2026-11-01": UNLIKE, "date=2026-11-02": schema_version(TABLE)}
    readable = published(warehouse.root)
    assert "union_by_name" in readable.select(TABLE)
    assert "union_by_name" not in readable.select_dates(TABLE, [DAYS[1]])
    assert counted(readable) == 9
    older.unlink()
    publish(warehouse, [TABLE])
    assert "union_by_name" not in published(warehouse.root).select(TABLE)


def test_damage_is_told_of_the_file_that_can_be_mended(warehouse: Warehouse) -> None:
    publish(warehouse, [TABLE])
    link = published(warehouse.root).files(TABLE)[0].path
    kept = warehouse.files(TABLE)[0].path
    assert f"/{READ}/" in str(link)
    assert damaged(link, "no footer") == damaged(kept, "no footer")
    assert str(kept) in damaged(link, "no footer")
    (pattern,) = published(warehouse.root).globs(TABLE)
    assert damaged(pattern, "No files found").startswith(
        f"{warehouse.root / READ} has lost files (No files found): remove"
    )


CHANGES = st.lists(
    st.tuples(st.sampled_from(["write", "remove", "publish"]), st.sampled_from(DAYS), st.sampled_from("ab")),
    max_size=12,
)


@given(changes=CHANGES)
@settings(max_examples=scaled(40), deadline=None)
def test_what_is_published_last_is_what_is_there(changes: list[tuple[str, dt.date, str]], tmp_path_factory) -> None:  # type: ignore[no-untyped-def]
    warehouse = Warehouse(tmp_path_factory.mktemp("changed"))
    for number, (change, day, deployment) in enumerate(changes):
        if change == "write":
            warehouse.write(TABLE, day, deployment, f"n{number % 3}", rows(1 + number % 2))
        elif change == "remove":
            for file in warehouse.files(TABLE, date=day, deployment=deployment)[:1]:
                file.path.unlink()
        else:
            publish(warehouse, [TABLE])
    publish(warehouse, [TABLE])
    assert linked(published(warehouse.root)) == linked(warehouse)
    assert counted(published(warehouse.root)) == counted(warehouse)


def test_a_session_of_plain_duckdb_is_not_disturbed(warehouse: Warehouse) -> None:
    publish(warehouse, [TABLE])
    with duckdb.connect() as connection:
        connection.execute(f"CREATE VIEW seen AS {published(warehouse.root).select(TABLE)}")
        for count in range(1, 6):
            warehouse.write(TABLE, DAYS[0], "a", "one", rows(count, "mmlu"))
            publish(warehouse, [TABLE])
            assert connection.execute("SELECT count(*), max(task) FROM seen").fetchone() == (8, "gsm8k")


def test_a_run_shows_the_dates_it_wrote_and_after_one_that_was_ended_all(warehouse: Warehouse) -> None:
    publish(warehouse, [TABLE])
    with publishing(warehouse, [TABLE], "ingest") as days:
        for day in DAYS:
            warehouse.write(TABLE, day, "a", "one", rows(5))
        days.add(DAYS[1])
    assert counted(published(warehouse.root)) == 11
    killed = publishing(warehouse, [TABLE], "ingest")
    killed.__enter__()
    with publishing(warehouse, [TABLE], "ingest"):
        pass
    assert counted(published(warehouse.root)) == 14


def test_what_was_written_before_an_error_is_shown(warehouse: Warehouse) -> None:
    publish(warehouse, [TABLE])

    def failing() -> None:
        with publishing(warehouse, [TABLE], "ingest") as days:
            warehouse.write(TABLE, DAYS[0], "a", "one", rows(5))
            days.add(DAYS[0])
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert counted(published(warehouse.root)) == 11
    assert not list((warehouse.root / READ).glob(f"*{BEGUN}"))


def test_where_links_may_not_be_made_one_sentence_says_so(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(warehouse, [TABLE])
    replace_and_remove(warehouse)

    def refused(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "somewhere")

    monkeypatch.setattr(os, "link", refused)
    with pytest.raises(WarehouseError, match=r"somewhere: Permission denied.*: mend that, then run the same again"):
        publish(warehouse, [TABLE])
    assert counted(published(warehouse.root)) == 8
    assert not list((warehouse.root / "_tmp").glob("*-aside"))
