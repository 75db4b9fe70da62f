"""One writer at a time, whole states for readers, and nothing left over: on a real store, with small files."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from specledger.schemas import lease, working_copy
from specledger.schemas.cache import Cache
from specledger.schemas.errors import RejectedInput, UsageError, WarehouseError, WarehouseLocked
from specledger.schemas.machine import ENVIRONMENT
from specledger.schemas.manifest import ROOT, Manifest
from specledger.schemas.object_store import ObjectGone, Store
from specledger.schemas.working_copy import opened, publish, read

PART = "quality/date=2026-11-02/deployment=a%2Fb"
LOCK = lease.KEY


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """``machine(name)``: go on as on another machine, with another cache."""
    return lambda name: monkeypatch.setenv(ENVIRONMENT, str(tmp_path / name))


def write(root: Path, **files: str) -> None:
    """Write files of one partition, as every writer does: aside, then moved."""
    for name, content in files.items():
        target = root / PART / f"{name}.parquet"
        target.parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
        (root / name).replace(target)


def published(place: str, **files: str) -> None:
    with opened(place, writing=True) as root:
        write(root, **files)


def ended(place: str, error: BaseException, **files: str) -> None:
    """A run that writes, leaves something aside, and ends with an error."""
    with opened(place, writing=True) as root:
        write(root, **files)
        (root / "_tmp").mkdir(exist_ok=True)
        raise error


def found(place: str) -> dict[str, str]:
    """What a machine that was never asked before finds."""

    def contents(root: Path) -> dict[str, str]:
        working_copy.ON_DEMAND[root][-1](list((root / PART).glob("*.parquet")))
        return {path.stem: path.read_text() for path in sorted((root / PART).glob("*.parquet"))}

    return read(place, contents)


def left_over(place: str) -> set[str]:
    """Objects that neither the present state nor the lease needs."""
    manifest, _ = Cache(Store(place)).manifest()
    return Store(place).below("").keys() - manifest.keys() - manifest.obsolete.keys() - {ROOT, LOCK}


def test_what_is_written_changed_and_removed_is_what_others_find(place: str, machine: Callable[[str], None]) -> None:
    published(place, one="1", two="2")
    machine("second")
    assert found(place) == {"one": "1", "two": "2"}
    with opened(place, writing=True) as root:
        write(root, two="3", three="4")
        (root / PART / "one.parquet").unlink()
    machine("third")
    assert found(place) == {"three": "4", "two": "3"}
    assert left_over(place) == set()


def test_files_keep_their_times(place: str, machine: Callable[[str], None]) -> None:
    with opened(place, writing=True) as root:
        write(root, one="1")
        before = (root / PART / "one.parquet").stat().st_mtime_ns
    machine("second")
    assert read(place, lambda root: (root / PART / "one.parquet").stat().st_mtime_ns) == before
    with opened(place, writing=True) as root:
        assert (root / PART / "one.parquet").stat().st_mtime_ns == before


def test_what_a_run_that_was_ended_left_is_gone(place: str) -> None:
    published(place, one="1")
    with pytest.raises(KeyboardInterrupt):
        ended(place, KeyboardInterrupt(), one="2", more="3")
    assert found(place) == {"one": "1"}
    with opened(place, writing=True) as root:
        assert sorted(path.name for path in (root / PART).iterdir()) == ["one.parquet"]
        assert (root / PART / "one.parquet").read_text() == "1"
        assert not (root / "_tmp").exists()


@pytest.mark.parametrize(
    ("error", "kept"),
    [(RejectedInput("Rejected."), True), (WarehouseError("Full."), False), (UsageError("No."), False)],
)
def test_an_error_publishes_what_was_done_unless_it_is_of_the_warehouse(
    place: str, error: Exception, kept: bool
) -> None:
    with pytest.raises(type(error)):
        ended(place, error, one="1")
    assert found(place) == ({"one": "1"} if kept else {})


def test_a_batch_that_was_begun_is_not_published(place: str) -> None:
    with opened(place, writing=True) as root:
        write(root, one="1")
        (root / "_pending").mkdir()
        (root / "_pending" / "batch.json").write_text("{}")
    assert found(place) == {}


def test_errors_name_the_url_and_not_the_copy(place: str) -> None:
    with pytest.raises(UsageError, match=r"^s3://specledger/test-\d+/warehouse/x is empty\.$"), opened(place) as root:
        raise UsageError(f"{root}/x is empty.")


# --- the lease -----------------------------------------------------------------------------------------------------


def test_a_second_writer_waits_or_says_who_writes(place: str, machine: Callable[[str], None]) -> None:
    with opened(place, writing=True) as root:
        write(root, one="1")
        machine("second")
        said = rf"is being written by process {os.getpid()} on .* wait until that run has ended"
        with pytest.raises(WarehouseLocked, match=said), opened(place, writing=True, wait_s=0.1):
            pass
    published(place, two="2")
    assert found(place) == {"one": "1", "two": "2"}


def test_a_second_writer_on_the_same_machine_is_told_without_asking_the_store(place: str) -> None:
    with (
        opened(place, writing=True),
        pytest.raises(WarehouseLocked, match="is held by"),
        opened(place, writing=True, wait_s=0.1),
    ):
        pass


def dead(place: str, copy: str, lease_s: float = 0.3) -> None:
    """Leave the lease of an owner that is no more."""
    record = {"owner": "x", "copy": copy, "host": "h", "pid": 1, "since": "then", "lease_s": lease_s, "count": copy}
    Store(place).put(LOCK, json.dumps(record).encode())


def test_a_lease_that_ran_out_is_taken_over(place: str) -> None:
    dead(place, "elsewhere")
    with pytest.raises(WarehouseLocked), opened(place, writing=True, wait_s=0):
        pass
    published(place, one="1")
    assert found(place) == {"one": "1"}


def test_a_dead_owner_on_this_machine_is_not_waited_for(place: str) -> None:
    published(place, one="1")
    dead(place, Cache(Store(place)).identity(), lease_s=3600)
    published(place, two="2")
    assert found(place) == {"one": "1", "two": "2"}


def test_a_lease_that_cannot_be_read_runs_out(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "LEASE_S", 0.3)
    Store(place).put(LOCK, b"{")
    published(place, one="1")
    assert found(place) == {"one": "1"}


def test_a_lease_is_renewed_as_long_as_its_owner_works(
    place: str, machine: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "LEASE_S", 1.0)
    with opened(place, writing=True) as root:
        machine("second")
        with pytest.raises(WarehouseLocked), opened(place, writing=True, wait_s=2.0):
            pass
        write(root, one="1")
    assert found(place) == {"one": "1"}


def overtaken(place: str, machine: Callable[[str], None]) -> None:
    """A run whose lease is taken by another machine, which publishes first."""
    with opened(place, writing=True) as root:
        write(root, one="lost", more="lost")
        dead(place, "elsewhere")
        machine("second")
        published(place, two="2")


def test_a_writer_that_slept_through_its_lease_publishes_nothing(place: str, machine: Callable[[str], None]) -> None:
    published(place, one="1")
    with pytest.raises(WarehouseLocked, match="nothing of it was published"):
        overtaken(place, machine)
    machine("third")
    assert found(place) == {"one": "1", "two": "2"}
    assert left_over(place) == set()


def test_the_root_tells_a_writer_that_does_not_know_of_its_loss(
    place: str, machine: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease.Lease, "check", lambda _: None)
    with pytest.raises(WarehouseLocked, match="Another run has published"):
        overtaken(place, machine)
    assert found(place) == {"two": "2"}
    assert left_over(place) == set()


# --- leftovers -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def stopped_before_the_root(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Runs end inside the block after everything was uploaded, and before it counts."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(working_copy._Publisher, "_put_root", stop)
        with pytest.raises(KeyboardInterrupt):
            yield


def test_uploads_of_a_run_that_was_ended_are_removed_by_the_next(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    published(place, one="1")
    with stopped_before_the_root(monkeypatch):
        published(place, one="2", two="3")
    assert len(left_over(place)) == 4, "two files, a shard and the list of them"
    with opened(place, writing=True):
        assert left_over(place) == set()
    assert found(place) == {"one": "1"}


def test_uploads_from_another_machine_are_left_until_nobody_can_be_at_it(
    place: str, machine: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with stopped_before_the_root(monkeypatch):
        published(place, one="1")
    machine("second")
    before = left_over(place)
    assert before
    dead(place, "x", lease_s=0.1)
    published(place, two="2")
    assert left_over(place) == before
    monkeypatch.setattr(working_copy, "GRACE_S", -5.0)
    published(place, two="3")
    assert left_over(place) == set()
    assert found(place) == {"two": "3"}


def test_a_run_that_is_only_slow_cannot_publish_what_was_cleared_away(
    place: str, machine: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one has uploaded, and stands right before its last step."""
    publishes = working_copy._Publisher._put_root

    def slow(self: working_copy._Publisher, manifest: Manifest) -> None:
        monkeypatch.setattr(working_copy._Publisher, "_put_root", publishes)
        machine("second")
        dead(place, "elsewhere")
        with opened(place, writing=True):
            pass
        publishes(self, manifest)

    machine("first")
    monkeypatch.setattr(working_copy._Publisher, "_put_root", slow)
    with pytest.raises(WarehouseLocked, match="Another run has published"):
        published(place, one="1")
    assert found(place) == {}
    assert left_over(place) == set()


def test_what_nothing_names_any_more_goes_after_a_while(
    place: str, machine: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    published(place, one="1")
    (old,) = Store(place).below(PART)
    published(place, one="2")
    assert old in Store(place).below(PART)
    monkeypatch.setattr(working_copy, "GRACE_S", -5.0)
    published(place, one="3")
    assert old not in Store(place).below(PART)
    machine("second")
    assert found(place) == {"one": "3"}


def test_nothing_stays_in_the_cache_that_nothing_needs(place: str) -> None:
    for number in range(3):
        published(place, one=str(number))
        found(place)
    folder = Cache(Store(place)).folder
    assert len(list((folder / "objects").iterdir())) <= 2, "the present file, and perhaps the one of the last reader"
    assert len([path for path in (folder / "views").iterdir() if path.is_dir()]) == 1
    assert len(list((folder / "shards").iterdir())) == 1


# --- readers -------------------------------------------------------------------------------------------------------


def test_a_reader_keeps_its_state_while_others_publish(place: str, machine: Callable[[str], None]) -> None:
    published(place, one="1", two="1")
    with opened(place) as root:
        machine("second")
        published(place, one="2", two="2")
        working_copy.ON_DEMAND[root][-1](list((root / PART).glob("*")))
        assert {path.read_text() for path in (root / PART).iterdir()} == {"1"}
    assert found(place) == {"one": "2", "two": "2"}


def test_a_reader_whose_state_has_gone_begins_again(
    place: str, machine: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    published(place, one="1")
    machine("second")
    monkeypatch.setattr(working_copy, "GRACE_S", -5.0)
    states: list[str] = []

    def overtaken(root: Path) -> str:
        if not states:
            states.append("first")
            machine("third")
            published(place, one="2")
            published(place, one="3")
            machine("second")
        working_copy.ON_DEMAND[root][-1]([root / PART / "one.parquet"])
        return (root / PART / "one.parquet").read_text()

    assert read(place, overtaken) == "3"


def test_a_reader_that_is_overtaken_twice_says_so(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_: Path) -> None:
        raise ObjectGone("x does not exist.")

    with pytest.raises(ObjectGone):
        read(place, gone)


def test_readers_see_whole_states_while_a_writer_publishes(place: str, tmp_path: Path) -> None:
    """Every state has two equal files; readers share the cache of the writer."""
    published(place, one="0", two="0")
    states: list[dict[str, str]] = []
    errors: list[Exception] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            try:
                states.append(found(place))
            except Exception as error:
                errors.append(error)

    readers = [threading.Thread(target=look) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(1, 9):
        with opened(place, writing=True) as root:
            write(root, one=str(number))
            time.sleep(0.02)
            write(root, two=str(number))
            if number % 2:
                publish(root)
                write(root, one=str(-number))
                time.sleep(0.02)
                write(root, two=str(-number))
    done.set()
    for reader in readers:
        reader.join()
    assert errors == []
    assert {len(set(state.values())) for state in states} == {1}
    assert len({state["one"] for state in states}) > 3
    assert found(place) == {"one": "8", "two": "8"}


def test_nothing_is_tidied_away_from_a_reader(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    published(place, one="1")
    shutil.rmtree(Cache(Store(place))._shards)
    fetch = Cache._fetch_shard
    held: list[list[str]] = []

    def overtaken(reader: Cache, name: str) -> None:
        fetch(reader, name)
        (reader._shards / ".aside").touch()
        Cache(reader.store).tidy(Manifest())
        held.append(sorted(path.name for path in reader._shards.iterdir()))

    monkeypatch.setattr(Cache, "_fetch_shard", overtaken)
    assert found(place) == {"one": "1"}
    assert [len(names) for names in held] == [2]
    writer = Cache(Store(place))
    writer.tidy(writer.manifest()[0])
    assert len(list(writer._shards.iterdir())) == 1


def test_those_who_read_one_state_share_its_folder(place: str) -> None:
    published(place, one="1")
    with opened(place) as first:
        with opened(place) as second:
            assert first == second
        working_copy.ON_DEMAND[first][-1]([first / PART / "one.parquet"])
        assert (first / PART / "one.parquet").read_text() == "1"
    assert first not in working_copy.ON_DEMAND


def test_a_cache_that_was_removed_is_made_anew(place: str, tmp_path: Path) -> None:
    published(place, one="1")
    found(place)
    shutil.rmtree(tmp_path / "cache")
    assert found(place) == {"one": "1"}
    published(place, two="2")
    assert found(place) == {"one": "1", "two": "2"}


def test_a_path_that_leaves_the_warehouse_is_refused(place: str) -> None:
    published(place, one="1")
    manifest, _ = Cache(Store(place)).manifest()
    ((part, version),) = manifest.shards.items()
    key = f"_manifest/{part}.{version}.json"
    body = Store(place).get(key)
    assert body is not None
    Store(place).put(key, body.body.replace(b"quality/date", b"../../date"))
    shutil.rmtree(Cache(Store(place)).folder)
    with pytest.raises(WarehouseError, match="is damaged"):
        found(place)
