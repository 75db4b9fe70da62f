"""Finding inputs: files, folders, globs and URLs, in the order in which they were written."""

from __future__ import annotations

import datetime as dt
import os
import socket
from pathlib import Path

import pytest

from specledger.ingest.opening import locate, named_instant
from specledger.schemas.errors import UsageError


def names(*arguments: object) -> list[str]:
    return [Path(found.source).name for found in locate([str(argument) for argument in arguments])]


def create(folder: Path, *files: str) -> None:
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def test_a_rotated_set_is_read_oldest_first(tmp_path: Path) -> None:
    create(tmp_path, "server.log", "server.log.1", "server.log.2.gz", "server.log.10.gz")
    assert names(tmp_path) == ["server.log.10.gz", "server.log.2.gz", "server.log.1", "server.log"]
    # A shell's glob comes in another order.
    assert names(*sorted(tmp_path.iterdir())) == names(tmp_path)


def test_dated_rotations_are_read_by_date(tmp_path: Path) -> None:
    create(
        tmp_path, "server.log", "server.log-20261129.zst", "server.log-20261128", "0.log.20261128-120000.gz", "0.log"
    )
    assert names(tmp_path) == [
        "0.log.20261128-120000.gz",
        "0.log",
        "server.log-20261128",
        "server.log-20261129.zst",
        "server.log",
    ]


def test_files_of_one_ending_follow_each_other(tmp_path: Path) -> None:
    for name in ("1.prom", "1.log", "2.prom", "2.log.1", "2.log", "note"):
        (tmp_path / name).touch()
    assert [Path(found.source).name for found in locate([tmp_path])] == [
        "note", "1.log", "2.log.1", "2.log", "1.prom", "2.prom",
    ]  # fmt: skip


def test_numbers_in_names_compare_as_numbers(tmp_path: Path) -> None:
    create(tmp_path, "999.prom", "1000.prom", "1001.prom.gz")
    assert names(tmp_path) == ["999.prom", "1000.prom", "1001.prom.gz"]


def test_a_file_named_twice_is_one_input(tmp_path: Path) -> None:
    create(tmp_path, "a.prom")
    assert names(tmp_path, tmp_path / "a.prom", tmp_path / "*.prom", tmp_path / "." / "a.prom") == ["a.prom"]


def test_folders_are_walked_without_hidden_names(tmp_path: Path) -> None:
    create(tmp_path, "a/b/c.log", ".hidden.log", ".git/config", "a/d.log")
    assert names(tmp_path) == ["d.log", "c.log"]


def test_links_that_lead_back_end_the_walk(tmp_path: Path) -> None:
    create(tmp_path, "a/c.log")
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "round").symlink_to("round")
    found = {Path(one.source).name: one.problem for one in locate([str(tmp_path)])}
    assert found["c.log"] is None
    assert "repair the link" in (found["round"] or "")
    assert len(found) == 2


def test_what_is_no_file_has_the_reason_with_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "gone.log").symlink_to(tmp_path / "nowhere")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(tmp_path / "socket"))
        problems = {Path(one.source).name: one.problem or "" for one in locate([str(tmp_path)])}
    assert "a named pipe" in problems["pipe"]
    assert "a socket" in problems["socket"]
    assert "cannot be opened" in problems["gone.log"]


def test_a_missing_path_is_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        locate([str(tmp_path / "nothing.log")])
    with pytest.raises(UsageError, match="matches nothing"):
        locate([str(tmp_path / "*.log")])


def test_a_name_with_glob_characters_is_a_name_first(tmp_path: Path) -> None:
    create(tmp_path, "run[1].log")
    assert names(tmp_path / "run[1].log") == ["run[1].log"]


def test_servers_are_told_by_their_scheme() -> None:
    with pytest.raises(UsageError, match="ftp://"):
        locate(["ftp://host/file"])
    (server,) = locate(["prometheus://user:secret@host:9090?start=1"])
    assert server.source == "prometheus://host:9090?start=1"
    assert server.url == "prometheus://user:secret@host:9090?start=1"


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("/scrapes/1789372800.prom", 1_789_372_800.0),
        ("1789372800123.prom.gz", 1_789_372_800.123),
        ("node-7_1789372800123456.txt", 1_789_372_800.123456),
        ("1789372800000/metrics.prom", None),
        ("metrics.prom", None),
        ("12345678901234.prom", None),
        ("0000000001.prom", None),
        ("9999999999.prom", None),
    ],
)
def test_a_unix_time_in_the_name_is_found(name: str, seconds: float | None) -> None:
    expected = None if seconds is None else dt.datetime(1970, 1, 1) + dt.timedelta(seconds=seconds)
    assert named_instant(name) == expected
