"""The collector of ``/metrics``: whole files whatever happens."""

import gzip
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import zstandard

from specledger.ingest import exposition
from specledger.ingest.scrape import RotatedFile, Schedule, Server, collect, servers
from specledger.ingest.web import Address, ExchangeError, address, exchange
from specledger.schemas.errors import UsageError
from tests.command_line import CommandLine
from tests.ingest.recording import RecordingSink, read_many

BODY = 'vllm:num_requests_running{engine="0",model_name="m"} 3\n'


class Metrics(ThreadingHTTPServer):
    """A server whose answers can be changed while it runs."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.answer: dict[str, Any] = {"body": BODY.encode()}
        self.asked = 0
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/metrics"

    def stop(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Metrics

    def do_GET(self) -> None:
        self.server.asked += 1
        answer = self.server.answer
        body = answer["body"]
        if answer.get("zipped"):
            body = gzip.compress(body)
        self.send_response(answer.get("status", 200))
        for name, value in answer.get("headers", {}).items():
            self.send_header(name, value)
        if answer.get("zipped"):
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body) + answer.get("missing", 0)))
        self.end_headers()
        for part in [body] if not answer.get("drip") else [body[at : at + 1] for at in range(len(body))]:
            try:
                self.wfile.write(part)
            except OSError:
                return
            if answer.get("drip"):
                time.sleep(0.05)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def metrics() -> Iterator[Metrics]:
    server = Metrics()
    yield server
    server.stop()


def run(out: Path, *urls: str, **how: Any) -> dict[str, tuple[int, int]]:
    schedule = Schedule(**{"every": 0.02, "timeout": 5.0, "rotate": 3600.0, "count": 3, **how})
    counts = collect(servers(urls), out, schedule, threading.Event())
    return {url: (count.saved, count.failed) for url, count in counts.items()}


def saved(out: Path) -> list[Path]:
    return sorted(path for path in out.rglob("*") if path.is_file() and not path.name.startswith("."))


def text(path: Path) -> str:
    with path.open("rb") as file:
        return zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True).read().decode()


def read(out: Path) -> RecordingSink:
    return read_many(exposition.read_many, *(text(path) for path in saved(out)))[0]


def test_what_is_collected_is_read_by_ingest(metrics: Metrics, tmp_path: Path) -> None:
    before = time.time()
    assert run(tmp_path, metrics.url) == {metrics.url: (3, 0)}
    (path,) = saved(tmp_path)
    assert re.fullmatch(rf"127\.0\.0\.1_{metrics.server_port}/\d{{13}}\.prom\.zst", str(path.relative_to(tmp_path)))
    sink = read(tmp_path)
    assert sink.rejects == []
    assert [row["running"] for row in sink.snapshots] == [3.0, 3.0, 3.0]
    assert {row["instance"] for row in sink.snapshots} == {f"127.0.0.1:{metrics.server_port}"}
    times = [float(stamp) for stamp in re.findall(r"^# scraped_at (.*)$", text(path), re.MULTILINE)]
    assert before - 0.001 <= times[0] <= times[1] <= times[2] <= time.time()


def test_each_server_has_a_folder_of_its_own(metrics: Metrics, tmp_path: Path) -> None:
    other = Metrics()
    try:
        run(tmp_path, metrics.url, other.url)
    finally:
        other.stop()
    assert {path.parent.name for path in saved(tmp_path)} == {
        f"127.0.0.1_{one.server_port}" for one in (metrics, other)
    }


def test_files_are_rotated(metrics: Metrics, tmp_path: Path) -> None:
    run(tmp_path, metrics.url, rotate=0.03, count=6)
    assert len(saved(tmp_path)) > 1
    assert len(read(tmp_path).snapshots) == 6


def test_a_server_that_vanishes_and_returns_loses_only_what_it_did_not_answer(tmp_path: Path) -> None:
    first = Metrics()
    port = first.server_port
    stop = threading.Event()
    result: dict[str, Any] = {}

    def collecting() -> None:
        result.update(collect(servers([f"127.0.0.1:{port}"]), tmp_path, Schedule(0.05, 1.0, 3600.0), stop))

    thread = threading.Thread(target=collecting)
    thread.start()
    _until(lambda: first.asked >= 2)
    first.stop()
    time.sleep(0.2)
    second = Metrics(port)
    _until(lambda: second.asked >= 2)
    stop.set()
    thread.join()
    second.stop()
    (count,) = result.values()
    assert count.failed >= 1
    assert count.saved >= 4
    sink = read(tmp_path)
    assert len(sink.snapshots) == count.saved
    assert sink.rejects == []


@pytest.mark.parametrize(
    "answer",
    [
        {"body": b"starting", "status": 503},
        {"body": b""},
        {"body": b"<html>", "headers": {"Content-Type": "text/html"}},
        {"body": BODY.encode(), "missing": 10},
        {"body": b"\x1f\x8bbroken", "headers": {"Content-Encoding": "gzip"}},
    ],
)
def test_what_is_no_scrape_is_not_saved(metrics: Metrics, tmp_path: Path, answer: dict[str, Any]) -> None:
    metrics.answer = answer
    assert run(tmp_path, metrics.url, count=2, timeout=0.5) == {metrics.url: (0, 2)}
    assert saved(tmp_path) == []


def test_compressed_answers_are_understood(metrics: Metrics, tmp_path: Path) -> None:
    metrics.answer = {"body": BODY.encode(), "zipped": True}
    assert run(tmp_path, metrics.url, count=1) == {metrics.url: (1, 0)}
    assert BODY in text(saved(tmp_path)[0])


def test_a_last_line_without_newline_does_not_run_into_the_next_scrape(metrics: Metrics, tmp_path: Path) -> None:
    metrics.answer = {"body": BODY.rstrip().encode()}
    run(tmp_path, metrics.url, count=2)
    sink = read(tmp_path)
    assert len(sink.snapshots) == 2
    assert sink.rejects == []


def test_a_slow_server_costs_its_own_time_only(metrics: Metrics, tmp_path: Path) -> None:
    metrics.answer = {"body": BODY.encode() * 20, "drip": True}  # almost a minute
    started = time.monotonic()
    assert run(tmp_path, metrics.url, count=1, timeout=0.2) == {metrics.url: (0, 1)}
    assert time.monotonic() - started < 20


def test_an_answer_without_end_is_given_up(metrics: Metrics) -> None:
    metrics.answer = {"body": b"x" * 3_000_000}
    with pytest.raises(ExchangeError, match="longer than 2 MiB"):
        exchange(Address(metrics.url), timeout=5, limit=2 << 20)
    metrics.answer = {"body": b"x" * 30_000_000, "zipped": True}
    with pytest.raises(ExchangeError, match="longer than 2 MiB"):
        exchange(Address(metrics.url), timeout=5, limit=2 << 20)


def test_a_duration_ends_the_run(metrics: Metrics, tmp_path: Path) -> None:
    started = time.monotonic()
    counts = run(tmp_path, metrics.url, every=0.05, duration=0.2, count=None)
    assert time.monotonic() - started < 60
    assert counts[metrics.url][0] >= 1


def test_two_runs_do_not_write_into_one_folder(metrics: Metrics, tmp_path: Path) -> None:
    stop = threading.Event()
    thread = threading.Thread(
        target=collect, args=(servers([metrics.url]), tmp_path, Schedule(0.05, 1.0, 3600.0), stop)
    )
    thread.start()
    try:
        _until(lambda: metrics.asked)
        with pytest.raises(UsageError, match="Another specledger scrape"):
            run(tmp_path, metrics.url)
    finally:
        stop.set()
        thread.join()


def test_a_file_has_its_name_only_when_it_is_whole(tmp_path: Path) -> None:
    file = RotatedFile(tmp_path, 3600)
    file.write(b"# scraped_at 1\n" + BODY.encode(), 1.0)
    assert saved(tmp_path) == []
    file.close()
    assert [path.name for path in saved(tmp_path)] == ["1000.prom.zst"]


@pytest.mark.parametrize("lost", [0, 1, 30])
def test_what_a_crash_leaves_is_made_whole_by_the_next_start(tmp_path: Path, lost: int) -> None:
    file = RotatedFile(tmp_path / "running", 3600)
    for number in range(1, 4):
        noise = f"vllm:noise {sha256(bytes([number])).hexdigest()[:14]} 1\n"
        file.write(f"# scraped_at {number}\n{BODY}{noise}".encode(), float(number))
    (part,) = (tmp_path / "running").glob(".*.part")
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    (crashed / part.name).write_bytes(part.read_bytes()[: part.stat().st_size - lost])
    file.close()

    RotatedFile(crashed, 3600).recover()
    assert [path.name for path in crashed.iterdir()] == ["1000.prom.zst"]
    whole = text(tmp_path / "running" / "1000.prom.zst")
    found = text(crashed / "1000.prom.zst")
    assert found == (whole if lost == 0 else whole[: whole.index("# scraped_at 3")])


def test_nothing_is_left_of_an_empty_file_of_a_crash(tmp_path: Path) -> None:
    (tmp_path / ".1000.prom.zst.part").touch()
    RotatedFile(tmp_path, 3600).recover()
    assert list(tmp_path.iterdir()) == []


def test_two_files_of_one_moment_do_not_overwrite_each_other(tmp_path: Path) -> None:
    for _ in range(2):
        file = RotatedFile(tmp_path, 3600)
        file.write(b"# scraped_at 1\n", 1.0)
        file.close()
    assert len(saved(tmp_path)) == 2


def test_a_run_that_collects_nothing_has_failed(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        result = CommandLine(tmp_path).run("scrape", url, "--every", "20ms", "--count", 2, "--out", tmp_path / "out")
    assert result.exit_code == 4
    assert "0 scrapes saved, 2 failed" in result.stdout
    assert "Nothing was collected: see that the servers run" in result.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_run_with_whole_files(metrics: Metrics, tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "specledger", "scrape", metrics.url, "--every", "50ms", "--out", str(tmp_path)]
    path = os.pathsep.join([*sys.path])
    with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": path}, stdout=subprocess.PIPE, text=True) as process:
        _until(lambda: metrics.asked >= 3)
        process.send_signal(number)
        said, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert re.search(r"/metrics: \d+ scrapes saved, 0 failed", said)
    assert not list(tmp_path.rglob("*.part"))
    assert len(read(tmp_path).snapshots) >= 2


@pytest.mark.parametrize(
    ("given", "url", "folder"),
    [
        ("host:8000", "http://host:8000/metrics", "host_8000"),
        ("http://host:8000", "http://host:8000/metrics", "host_8000"),
        ("http://host:8000/", "http://host:8000/metrics", "host_8000"),
        ("https://host/a/metrics?x=1", "https://host/a/metrics?x=1", "host_a_metrics_x_1"),
        ("http://me:secret@host:8000", "http://host:8000/metrics", "host_8000"),
        ("http://[::1]:8000/metrics", "http://[::1]:8000/metrics", "1_8000"),
        ("http://host/../../etc/passwd", "http://host/../../etc/passwd", "host_.._.._etc_passwd"),
    ],
)
def test_a_server_is_named_in_the_usual_ways(given: str, url: str, folder: str) -> None:
    (server,) = servers([given])
    assert (server.address.url, server.folder) == (url, folder)
    assert "secret" not in repr(server).replace(repr(server.address.headers), "")


def test_servers_that_would_share_a_folder_do_not() -> None:
    assert [one.folder for one in servers(["h/a/b", "h/a_b", "h/A/B", "h/a/b"])] == ["h_a_b", "h_a_b-2", "h_A_B-3"]


@pytest.mark.parametrize("url", ["ftp://host", "http://", "http://host:port", "host:99999999"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="no address to scrape"):
        servers([url])


def test_credentials_are_kept_out_of_the_address() -> None:
    assert address("http://a%40b:p%3A@h:1/x") == Address("http://h:1/x", {"Authorization": "Basic YUBiOnA6"})
    assert Server(address("http://a:b@h"), "h").address.url == "http://h"


def test_one_ingest_of_the_folder_tells_the_servers_apart(metrics: Metrics, cli: CommandLine, tmp_path: Path) -> None:
    other = Metrics()
    try:
        run(tmp_path / "scraped", metrics.url, other.url)
    finally:
        other.stop()
    cli.ok("ingest", tmp_path / "scraped", "--deployment", "d")
    assert cli.rows("SELECT instance, count(*)::INTEGER AS n FROM snapshots GROUP BY instance ORDER BY instance") == [
        {"instance": f"127.0.0.1:{port}", "n": 3} for port in sorted([metrics.server_port, other.server_port], key=str)
    ]
    assert cli.value("SELECT count(*) FROM rejects") == 0


def _until(done: Any) -> None:
    deadline = time.monotonic() + 30
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)
