"""A real Prometheus server that scrapes a replay of a capture: what it kept is what the scrapes said."""

import datetime as dt
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import zstandard

from specledger.ingest import exposition
from specledger.ingest.prometheus_server import read_url
from tests.captures import DATA
from tests.command_line import CommandLine
from tests.ingest.recording import RecordingSink, context, read_many
from tests.ingest.test_prometheus_server import OneSink
from tests.serving import serving

PROMETHEUS = shutil.which("prometheus")
SCRAPES = 12
NOT_FROM_THE_SERVER = {"input", "byte_offset", "scraped_at", "instance"}

pytestmark = pytest.mark.skipif(
    PROMETHEUS is None and os.environ.get("CI") != "true", reason="prometheus is not installed (apt install prometheus)"
)


def scrapes() -> list[str]:
    with (DATA / "dp2_one_api_server" / "metrics.prom.zst").open("rb") as file:
        text = zstandard.ZstdDecompressor().stream_reader(file).read().decode()
    found = re.split(r"^# scraped_at .*\n", text, flags=re.MULTILINE)[1:]
    return found[:: max(1, len(found) // SCRAPES)][-SCRAPES:]


class Replay(ThreadingHTTPServer):
    """Gives the scrapes of a capture one after the other, then the last one again."""

    def __init__(self, texts: list[str]) -> None:
        super().__init__(("127.0.0.1", 0), _ReplayHandler)
        self.texts = texts
        self.given = 0


class _ReplayHandler(BaseHTTPRequestHandler):
    server: Replay

    def do_GET(self) -> None:
        body = self.server.texts[min(self.server.given, len(self.server.texts) - 1)].encode()
        self.server.given += 1
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until(done: Any, what: str) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline, f"{what} did not happen within a minute"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[str]]]:
    """The address of a Prometheus server that has scraped everything, and what it was given."""
    assert PROMETHEUS is not None, "CI needs prometheus: apt install prometheus"
    folder = tmp_path_factory.mktemp("prometheus")
    texts = scrapes()
    replay = Replay(texts)
    with serving(replay):
        port = free_port()
        (folder / "prometheus.yml").write_text(
            "scrape_configs:\n- job_name: vllm\n  scrape_interval: 250ms\n  scrape_timeout: 250ms\n"
            f"  static_configs: [{{targets: ['127.0.0.1:{replay.server_port}']}}]\n"
        )
        command = [
            PROMETHEUS,
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        with (folder / "stderr").open("w") as log:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)
        try:
            wait_until(lambda: ready(port) or process.poll() is not None, "the start of Prometheus")
            assert process.poll() is None, Path(folder / "stderr").read_text()[-2000:]
            wait_until(lambda: replay.given >= len(texts) + 3, "the last scrape")
            yield f"prometheus://127.0.0.1:{port}", texts
        finally:
            process.terminate()
            process.wait(30)


def ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def stated(sink: RecordingSink) -> dict[int, list[dict[str, Any]]]:
    """What the rows of each engine say, in order of time, repetitions left out."""
    engines: dict[int, list[dict[str, Any]]] = {}
    for row in sorted(sink.snapshots, key=lambda row: row["scraped_at"]):
        said = {name: value for name, value in row.items() if name not in NOT_FROM_THE_SERVER}
        rows = engines.setdefault(row["engine"], [])
        if not rows or rows[-1] != said:
            rows.append(said)
    return engines


def raw(texts: list[str]) -> RecordingSink:
    marked = "".join(f"# scraped_at {1000 + number}\n{text}" for number, text in enumerate(texts))
    return read_many(exposition.read_many, marked)[0]


def test_every_scrape_of_the_server_says_what_the_raw_scrape_said(kept: tuple[str, list[str]]) -> None:
    url, texts = kept
    sink = OneSink()
    progress = read_url(f"{url}?start=-10m", context(), sink)
    assert sink.rejects == []
    assert stated(sink) == stated(raw(texts))
    assert {row["instance"].split(":")[0] for row in sink.snapshots} == {"127.0.0.1"}
    assert progress.resume["until"] > time.time() - 60


def test_unknown_series_come_along(kept: tuple[str, list[str]]) -> None:
    url, texts = kept
    sink = OneSink()
    read_url(f"{url}?start=-10m", context(), sink)
    names = {row["metric"] for row in sink.others}
    assert names == {row["metric"] for row in raw(texts).others}


def test_resampled_by_a_step_the_totals_are_the_same(kept: tuple[str, list[str]]) -> None:
    url, texts = kept
    sink = OneSink()
    start = (dt.datetime.now(dt.UTC) - dt.timedelta(minutes=2)).isoformat()
    read_url(f"{url}?start={start}&step=500ms", context(), sink)
    last = {engine: rows[-1] for engine, rows in stated(sink).items()}
    assert last == {engine: rows[-1] for engine, rows in stated(raw(texts)).items()}


def test_marts_of_the_server_are_those_of_the_raw_scrapes(
    kept: tuple[str, list[str]], cli: CommandLine, tmp_path: Path
) -> None:
    url, texts = kept
    path = tmp_path / "raw.prom"
    path.write_text("".join(f"# scraped_at {1_795_967_890 + number}\n{text}" for number, text in enumerate(texts)))
    cli.ok("ingest", f"{url}?start=-10m", "--deployment", "server")
    cli.ok("ingest", path, "--deployment", "raw")
    cli.ok("transform")
    for mart, figures in (
        ("acceptance", "requests, steps, rounds, drafted, accepted, output_tokens"),
        ("positions", "rounds, accepted"),
        ("preemption", "requests, steps, preemptions"),
    ):
        sums = ", ".join(f"sum({figure})::BIGINT AS {figure}" for figure in figures.split(", "))
        by = "position" if mart == "positions" else "deployment"
        found = {
            deployment: cli.rows(
                f"SELECT {sums} FROM {mart} WHERE deployment = '{deployment}' AND origin = 'snapshots' "
                f"GROUP BY {by} ORDER BY {by}"
            )
            for deployment in ("server", "raw")
        }
        assert found["server"] == found["raw"]
        assert found["raw"][0][figures.split(", ")[0]] > 0


def test_a_later_ingest_of_the_same_span_adds_nothing(kept: tuple[str, list[str]], cli: CommandLine) -> None:
    url, _ = kept
    end = int(time.time())
    question = f"{url}?start={end - 600}&end={end}"
    for _ in range(2):
        cli.ok("ingest", question, "--deployment", "server")
        rows = cli.value("SELECT count(*) FROM snapshots")
        assert rows == cli.value("SELECT count(DISTINCT (instance, engine, scraped_at)) FROM snapshots")
