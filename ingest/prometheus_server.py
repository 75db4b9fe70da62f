"""A live Prometheus server: the raw samples of a span of time, page by page.

Form: ``prometheus://HOST:PORT[/PREFIX]?start=…&end=…&match=…&step=…`` (``prometheus+https://`` for TLS). Without
``step`` the samples are those of the scrapes themselves, at their own times, asked for by range selectors
(``vllm:…[5m]``): nothing is seen twice and no scrape is left out, so counts are right to the unit. With ``step`` the
server resamples by ``query_range``: fewer samples, each the last one within its look-back, at times that are not those
of scrapes.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import time
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus

from ..schemas.errors import RemoteError, SpecledgerError, UsageError
from ..schemas.vllm_metrics import INSTANCE_LABEL, JOB_LABEL, METRICS, PROCESS_START, SERVERS
from .durations import UNIT_S, parse_duration
from .prometheus_answer import take_answer
from .reader import BatchOfOne, InputContext, Progress, Sink
from .series_points import PointCollector
from .web import Address, ExchangeError, address, exchange

SCHEMES = {"prometheus": "http", "prometheus+http": "http", "prometheus+https": "https"}
TOKEN_VARIABLE = "SPECLEDGER_PROMETHEUS_TOKEN"  # noqa: S105 - the name of a variable
"""Environment variable with a bearer token, for servers that want one."""

TIMEOUT_S = 120.0
MAX_ANSWER = 64 << 20
PAGE_SAMPLES = 250_000
"""Samples an answer should have: about 8 MiB of JSON."""
MAX_POINTS = 11_000
"""Points a series that a Prometheus server gives at most in one answer to query_range."""
FIRST_PAGE_S = 60.0
SHORTEST_PAGE_S = 1.0
RETRY_PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0)
TARGETS_A_QUERY = 50

_RE2_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")
_PREFIX = f"([a-zA-Z0-9_]*[_:])?({'|'.join(SERVERS)})[:_]"
_VLLM = f'__name__=~"{_PREFIX}.+"'
_NAMES = "|".join(name.name for metric in METRICS if metric.column == "running" for name in metric.names)
_RUNNING = f'__name__=~"{_PREFIX}({_NAMES})"'


@dataclass(frozen=True)
class Question:
    """What to ask which server: a span in unix seconds, label matchers, and a step in seconds to resample by."""

    server: Address
    start: float
    end: float
    match: str = ""
    step: float | None = None


def public_url(url: str) -> str:
    """The URL without user and password."""
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def parse_url(url: str, now: float, since: float | None = None) -> Question:
    """What a ``prometheus://`` URL asks for; UsageError where it is not clear.

    Times are unix seconds, ISO dates or times (UTC unless they say otherwise), ``now``, or a duration before now such
    as ``-6h``. Without ``start`` the span begins at ``since``, else a day before its end.
    """
    parts = urllib.parse.urlsplit(url)
    shown = public_url(url)
    # A plus is a plus here: matchers and time zones have them.
    options = urllib.parse.parse_qs(parts.query.replace("+", "%2B"), keep_blank_values=True)
    if unknown := options.keys() - {"start", "end", "match", "step"}:
        raise UsageError(f"{shown} has the option {min(unknown)!r}: only start, end, match and step are known.")
    if twice := [name for name, values in options.items() if len(values) > 1 and name != "match"]:
        raise UsageError(f"{shown} gives {twice[0]} twice: give it once.")
    try:
        server = address(urllib.parse.urlunsplit((SCHEMES[parts.scheme], parts.netloc, parts.path.rstrip("/"), "", "")))
    except (ValueError, KeyError):
        raise UsageError(f"{shown} is no address of a server: write prometheus://HOST:PORT?start=-1d.") from None
    if token := os.environ.get(TOKEN_VARIABLE):
        server = Address(server.url, {"Authorization": f"Bearer {token}"})
    end = _time(options["end"][0], now, shown) if "end" in options else now
    if "start" in options:
        start = _time(options["start"][0], now, shown)
    else:
        start = since if since is not None else end - UNIT_S["d"]
    if start > end:
        raise UsageError(f"{shown} starts after its end: give a start before {_shown(end)}.")
    step = None
    if "step" in options:
        step = parse_duration(options["step"][0])
        if not step:
            raise UsageError(f"{shown} has the step {options['step'][0]!r}: give a duration such as 15s.")
    return Question(server, start, end, ",".join(one.strip().strip("{}") for one in options.get("match", [])), step)


def read_url(
    url: str,
    context: InputContext,
    sink: Sink,
    *,
    clock: Callable[[], float] = time.time,
    pause: Callable[[float], None] = time.sleep,
) -> Progress:
    """Rows of the vLLM servers that a Prometheus server has seen, from ``start`` to ``end``, both included.

    UsageError where the server refuses the question, RemoteError where it does not answer; rows of the pages before
    that are with the sink. ``resume`` of the Progress has the end of the span (``until``, unix seconds), where a later
    read of a URL without ``start`` goes on.
    """
    question = parse_url(url, clock(), context.resume.get("until"))
    server = _Server(question.server, pause)
    batch = BatchOfOne(sink)
    collector = PointCollector(batch, [context])
    targets = server.targets(question)
    if not targets:
        span = f"from {_shown(question.start)} to {_shown(question.end)}"
        sink.reject(
            None, f"the server has no vLLM series {span}: check the span and what the server scrapes", public_url(url)
        )
    for labels in targets:
        collector.expect(0, labels)
    received = 0
    pages = _Pages(question)
    while targets and (page := pages.next()) is not None:
        try:
            answers = [server.samples(question, page, selector) for selector in _selectors(question, targets)]
        except _TooMuch as why:
            pages.shorten(str(why))
            continue
        samples = 0
        for answer in answers:
            received += len(answer)
            samples += take_answer(answer.decode("utf-8", "replace"), 0, None, collector, batch, within=page.within)
        collector.flush()
        pages.taken(samples)
    return Progress(received, {"until": question.end})


class _TooMuch(Exception):
    """The server cannot, or we do not want to, answer for so long a span at once."""


@dataclass(frozen=True)
class _Page:
    """A part of the span, in unix seconds: after ``start`` (with a step: from it) up to ``end``."""

    start: float
    end: float
    within: tuple[int, int] | None


class _Pages:
    """Cuts the span into pages whose answers have about PAGE_SAMPLES samples, by what the pages before had."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._step = question.step
        # Prometheus counts time in milliseconds; the first page includes its start.
        self._at = question.start if self._step else round(question.start, 3) - 0.001
        self._length = FIRST_PAGE_S if self._step is None else FIRST_PAGE_S * self._step
        self._page: _Page | None = None

    def next(self) -> _Page | None:
        """The next page, None after the last."""
        if self._step is not None:
            if self._at > self._question.end:
                return None
            points = max(1, min(int(self._length / self._step), MAX_POINTS))
            end = min(self._at + (points - 1) * self._step, self._question.end)
            self._page = _Page(self._at, end, None)
        else:
            if self._at >= self._question.end:
                return None
            end = min(round(self._at + self._length, 3), self._question.end)
            self._page = _Page(self._at, end, (round(self._at * 1e6), round(end * 1e6)))
        return self._page

    def taken(self, samples: int) -> None:
        """Go on behind the page, which had so many samples."""
        if self._page is None:
            return
        if self._step is None:
            self._at = self._page.end
        else:
            # Counted from the start, so that no rounding adds up.
            taken = int((self._page.end - self._question.start) / self._step + 1e-6) + 1
            self._at = self._question.start + taken * self._step
        growth = PAGE_SAMPLES / samples if samples else 4.0
        self._length = max(self._length * min(growth, 4.0), SHORTEST_PAGE_S)

    def shorten(self, why: str) -> None:
        """Ask for less; RemoteError if that is not possible."""
        shortest = SHORTEST_PAGE_S if self._step is None else self._step
        if self._length <= shortest:
            raise RemoteError(
                f"{self._question.server.url} cannot answer even for {shortest:g} s ({why}): "
                "narrow the question with match=…, or raise the server's query limits."
            )
        self._length = max(self._length / 4, shortest)


class _Server:
    """The HTTP API of one Prometheus server, asked again after failures that pass."""

    def __init__(self, server: Address, pause: Callable[[float], None]) -> None:
        self._server = server
        self._pause = pause

    def targets(self, question: Question) -> list[dict[str, str]]:
        """The distinct instance and job labels of vLLM servers in the span."""
        selector = _selector(_RUNNING, question.match)
        form = {"match[]": selector, "start": f"{question.start:.3f}", "end": f"{question.end:.3f}"}
        found = self._ask("series", form)
        try:
            series = json.loads(found)["data"]
            labels = [{name: one[name] for name in (INSTANCE_LABEL, JOB_LABEL) if name in one} for one in series]
        except (ValueError, KeyError, TypeError):
            raise RemoteError(
                f"{self._server.url} does not answer as a Prometheus server: check host, port and path prefix."
            ) from None
        return [dict(one) for one in dict.fromkeys(tuple(sorted(one.items())) for one in labels)]

    def samples(self, question: Question, page: _Page, selector: str) -> bytes:
        """The answer for one page; _TooMuch if the page is too long."""
        if question.step is not None:
            form = {"query": selector, "start": f"{page.start:.3f}", "end": f"{page.end:.3f}"}
            return self._ask("query_range", form | {"step": f"{question.step:.3f}"})
        # Some servers leave the start of a range out, so it is asked for one millisecond more.
        length = round((page.end - page.start) * 1000) + 1
        return self._ask("query", {"query": f"{selector}[{length}ms]", "time": f"{page.end:.3f}"})

    def _ask(self, endpoint: str, form: dict[str, str]) -> bytes:
        to = Address(f"{self._server.url}/api/v1/{endpoint}", self._server.headers)
        problem = ""
        for wait in (*RETRY_PAUSES_S, None):
            try:
                answer = exchange(to, timeout=TIMEOUT_S, limit=MAX_ANSWER, form=form, accept="application/json")
            except ExchangeError as why:
                if why.too_much:
                    raise _TooMuch(str(why)) from why
                problem = str(why)
            else:
                if answer.status == HTTPStatus.OK:
                    return answer.body
                problem = _said(answer.body) or f"HTTP {answer.status}"
                if answer.status == HTTPStatus.UNPROCESSABLE_ENTITY:
                    raise _TooMuch(problem)
                if answer.status < 500 and answer.status != HTTPStatus.TOO_MANY_REQUESTS:
                    raise self._refusal(answer.status, problem)
            if wait is not None:
                self._pause(wait)
        raise RemoteError(
            f"{self._server.url} did not answer {len(RETRY_PAUSES_S) + 1} times ({problem}): "
            "check that the server runs and can be reached, then ingest again."
        )

    def _refusal(self, status: int, said: str) -> SpecledgerError:
        where = self._server.url
        if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            return RemoteError(
                f"{where} refuses access (HTTP {status}): put user:password@ before the host, or a token into "
                f"{TOKEN_VARIABLE}."
            )
        if status == HTTPStatus.BAD_REQUEST:
            return UsageError(f"{where} refuses the question ({said}): check match, start, end and step.")
        return RemoteError(f"{where} has no Prometheus API (HTTP {status}): check host, port and path prefix.")


def _selectors(question: Question, targets: list[dict[str, str]]) -> Iterator[str]:
    """What to ask for each page: the vLLM series, and when the processes of their targets started."""
    yield _selector(_VLLM, question.match)
    for first in range(0, len(targets), TARGETS_A_QUERY):
        some = targets[first : first + TARGETS_A_QUERY]
        matchers = [
            f"{label}=~{json.dumps('|'.join(sorted({_literally(one[label]) for one in some})), ensure_ascii=False)}"
            for label in (INSTANCE_LABEL, JOB_LABEL)
            if all(label in one for one in some)
        ]
        yield f"{PROCESS_START}{{{','.join(matchers)}}}"


def _selector(name: str, match: str) -> str:
    return f"{{{name},{match}}}" if match else f"{{{name}}}"


def _literally(text: str) -> str:
    return _RE2_SPECIAL.sub(lambda found: "\\" + found[0], text)


def _said(body: bytes) -> str:
    """What an error answer says, in one line."""
    try:
        said = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError):
        return ""
    return " ".join(str(said).split())[:300]


def _time(text: str, now: float, shown: str) -> float:
    if text == "now":
        return now
    if text.startswith("-") and (before := parse_duration(text[1:])) is not None:
        return now - before
    try:
        moment = float(text) if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) else _iso(text)
    except ValueError:
        raise UsageError(
            f"{shown} has the time {text!r}: give unix seconds, 2026-11-29T15:00, now, or a duration such as -6h."
        ) from None
    return moment


def _iso(text: str) -> float:
    moment = dt.datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp()


def _shown(moment: float) -> str:
    return dt.datetime.fromtimestamp(moment, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
