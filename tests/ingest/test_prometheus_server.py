"""A live Prometheus server: what is asked, and what is done when it does not answer."""

import json
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from specledger.ingest import prometheus_server
from specledger.ingest.prometheus_server import parse_url, public_url, read_url
from specledger.schemas.errors import RemoteError, UsageError
from tests.ingest.recording import RecordingSink, context
from tests.serving import serving

NOW = 1_000_000.0
Answer = tuple[int, bytes]


class OneSink(RecordingSink):
    """A plain sink."""

    def reject(self, byte_offset: int | None, reason: str, text: str | bytes, records: int = 1) -> None:  # type: ignore[override]
        super().reject(0, byte_offset, reason, text, records)


@contextmanager
def server(respond: Callable[[str, dict[str, str]], Answer]) -> Iterator[str]:
    """An HTTP server that answers POST requests by path and form."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
            form["authorization"] = self.headers.get("Authorization", "")
            status, body = respond(self.path, form)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with serving(http):
        yield f"prometheus://127.0.0.1:{http.server_port}"


def good(data: Any) -> Answer:
    return 200, json.dumps({"status": "success", "data": data}).encode()


class FakePrometheus:
    """One target with a counter that rises by one a second, scraped every second."""

    def __init__(self, first: int, last: int, most: float = float("inf")) -> None:
        self.times = range(first, last + 1)
        self.most = most
        self.forms: list[tuple[str, dict[str, str]]] = []

    def __call__(self, path: str, form: dict[str, str]) -> Answer:
        self.forms.append((path, form))
        labels = {"instance": "a:1", "job": "j", "engine": "0", "model_name": "m"}
        if path.endswith("/series"):
            return good([labels | {"__name__": "vllm:num_requests_running"}])
        if "process_start" in form["query"]:
            return good({"resultType": "matrix", "result": []})
        if path.endswith("/query"):
            length = int(form["query"].rpartition("[")[2].removesuffix("ms]")) / 1000
            until = float(form["time"])
            times = [time for time in self.times if until - length <= time <= until]
        else:
            step = float(form["step"])
            count = int((float(form["end"]) - float(form["start"])) / step) + 1
            times = [float(form["start"]) + step * number for number in range(count)]  # type: ignore[misc]
        if len(times) > self.most:
            return 422, b'{"status":"error","errorType":"execution","error":"too many samples"}'
        series = {
            "metric": labels | {"__name__": "vllm:generation_tokens_total"},
            "values": [[t, str(int(t))] for t in times],
        }
        return good({"resultType": "matrix", "result": [series]})


def tokens(sink: RecordingSink) -> list[int]:
    return [row["generation_tokens"] for row in sink.snapshots]


def ask(url: str, **known: Any) -> tuple[OneSink, Any]:
    sink = OneSink()
    return sink, read_url(url, context(**known), sink, clock=lambda: NOW, pause=lambda _: None)


def test_every_sample_of_the_span_comes_once_over_many_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus_server, "PAGE_SAMPLES", 70)
    fake = FakePrometheus(900, 2100)
    with server(fake) as url:
        sink, progress = ask(f"{url}?start=1000&end=2000")
    assert tokens(sink) == list(range(1000, 2001))
    assert sink.rejects == []
    assert progress.resume == {"until": 2000.0}
    assert len([form for path, form in fake.forms if path.endswith("/query")]) > 20


def test_a_page_that_is_too_much_for_the_server_is_made_shorter() -> None:
    with server(FakePrometheus(1000, 1100, most=7)) as url:
        sink, _ = ask(f"{url}?start=1000&end=1100")
    assert tokens(sink) == list(range(1000, 1101))


def test_a_server_that_cannot_answer_for_a_second_is_an_error() -> None:
    with server(FakePrometheus(1000, 1100, most=0)) as url, pytest.raises(RemoteError, match="too many samples"):
        ask(f"{url}?start=1000&end=1100")


def test_a_step_asks_the_server_to_resample() -> None:
    fake = FakePrometheus(0, 0)
    with server(fake) as url:
        sink, _ = ask(f"{url}?start=1000&end=100000&step=5s")
    assert tokens(sink) == list(range(1000, 100_001, 5))
    ranges = [form for path, form in fake.forms if path.endswith("/query_range") and "vllm" in form["query"]]
    points = [(float(form["end"]) - float(form["start"])) / 5 + 1 for form in ranges]
    assert max(points) <= prometheus_server.MAX_POINTS
    assert len(points) > 1


def test_matchers_and_targets_narrow_the_question() -> None:
    fake = FakePrometheus(1000, 1001)
    with server(fake) as url:
        ask(f'{url}/prefix?start=1000&end=1001&match=job="llm"&match={{pod=~"a.+"}}')
    assert {path.rpartition("/")[0] for path, _ in fake.forms} == {"/prefix/api/v1"}
    queries = [form["query"] for path, form in fake.forms if path.endswith("/query")]
    assert queries[0] == '{__name__=~"([a-zA-Z0-9_]*[_:])?(vllm)[:_].+",job="llm",pod=~"a.+"}[1002ms]'
    assert queries[1] == 'process_start_time_seconds{instance=~"a:1",job=~"j"}[1002ms]'


def test_a_span_without_vllm_is_a_reject() -> None:
    with server(lambda path, form: good([])) as url:
        sink, progress = ask(f"{url}?start=1000&end=1001")
    assert len(sink.rejects) == 1
    assert "no vLLM series from 1970-01-01T00:16:40Z" in sink.reasons[0]
    assert progress.resume == {"until": 1001.0}


def test_failures_that_pass_are_waited_for() -> None:
    fake = FakePrometheus(1000, 1005)
    troubles = [503, 502, 429]
    pauses: list[float] = []

    def respond(path: str, form: dict[str, str]) -> Answer:
        return (troubles.pop(), b"busy") if troubles else fake(path, form)

    with server(respond) as url:
        sink = OneSink()
        read_url(f"{url}?start=1000&end=1005", context(), sink, clock=lambda: NOW, pause=pauses.append)
    assert tokens(sink) == list(range(1000, 1006))
    assert pauses == [0.5, 1.0, 2.0]


def test_a_server_that_stays_away_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(RemoteError, match=r"did not answer 6 times .*check that the server runs"):
        ask("prometheus://127.0.0.1:9?start=1&end=2")


@pytest.mark.parametrize(
    ("status", "body", "error", "message"),
    [
        (
            400,
            b'{"status":"error","error":"parse error: bad"}',
            UsageError,
            r"refuses the question \(parse error: bad\)",
        ),
        (401, b"", RemoteError, "refuses access"),
        (404, b"<html>", RemoteError, "no Prometheus API"),
        (200, b"<html>", RemoteError, "does not answer as a Prometheus server"),
    ],
)
def test_a_refusal_is_not_repeated(status: int, body: bytes, error: type[Exception], message: str) -> None:
    asked = []

    def respond(path: str, _: dict[str, str]) -> Answer:
        asked.append(path)
        return status, body

    with server(respond) as url, pytest.raises(error, match=message):
        ask(f"{url}?start=1&end=2")
    assert len(asked) == 1


def test_credentials_go_to_the_server_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakePrometheus(1000, 1001)
    with server(fake) as url:
        host = url.removeprefix("prometheus://")
        ask(f"prometheus://me:p%40ss@{host}?start=1000&end=1001")
        assert {form["authorization"] for _, form in fake.forms} == {"Basic bWU6cEBzcw=="}
        monkeypatch.setenv("SPECLEDGER_PROMETHEUS_TOKEN", "abc")
        fake.forms.clear()
        ask(f"{url}?start=1000&end=1001")
        assert {form["authorization"] for _, form in fake.forms} == {"Bearer abc"}
    assert public_url("prometheus://me:p%40ss@h:1/x?start=1") == "prometheus://h:1/x?start=1"


@pytest.mark.parametrize(
    ("query", "start", "end"),
    [
        ("start=100&end=200", 100.0, 200.0),
        ("start=2001-09-09T01:46:40Z&end=1000000001", 1_000_000_000.0, 1_000_000_001.0),
        ("start=2001-09-09T03:46:40+02:00&end=1000000001", 1_000_000_000.0, 1_000_000_001.0),
        ("start=1970-01-02&end=1970-01-03", 86_400.0, 172_800.0),
        ("start=-1h30m", NOW - 5400, NOW),
        ("start=-6h&end=-30m", NOW - 21_600, NOW - 1800),
        ("", NOW - 86_400, NOW),
        ("end=now", NOW - 86_400, NOW),
    ],
)
def test_times_are_given_in_the_usual_ways(query: str, start: float, end: float) -> None:
    question = parse_url(f"prometheus://h:9090?{query}", NOW)
    assert (question.start, question.end) == (start, end)


def test_a_later_read_without_start_goes_on_where_the_last_one_ended() -> None:
    assert parse_url("prometheus://h:9090", NOW, since=NOW - 5).start == NOW - 5
    assert parse_url("prometheus://h:9090?start=-1h", NOW, since=NOW - 5).start == NOW - 3600


def test_the_scheme_tells_http_from_https() -> None:
    assert parse_url("prometheus://h:9090", NOW).server.url == "http://h:9090"
    assert parse_url("prometheus+http://h", NOW).server.url == "http://h"
    assert parse_url("prometheus+https://h/p/", NOW).server.url == "https://h/p"
    assert parse_url("prometheus://[::1]:9090", NOW).server.url == "http://[::1]:9090"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("prometheus://", "is no address"),
        ("prometheus://h:port", "is no address"),
        ("prometheus://h?begin=1", "option 'begin'"),
        ("prometheus://h?start=1&start=2", "start twice"),
        ("prometheus://h?start=yesterday", "time 'yesterday'"),
        ("prometheus://h?step=0", "step '0'"),
        ("prometheus://h?step=often", "step 'often'"),
        ("prometheus://h?start=200&end=100", "starts after its end"),
        ("prometheus://u:secret@h?step=0", "^(?!.*secret)"),
    ],
)
def test_a_url_that_is_not_clear_is_refused(url: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_url(url, NOW)
