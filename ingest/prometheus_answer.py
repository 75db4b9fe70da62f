"""One answer of a Prometheus server's HTTP API: a matrix or vector of series as JSON."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from .exposition_line import Series
from .json_input import storable
from .reader import BatchSink
from .series_points import PointCollector, Times
from .series_rows import Values
from .snapshot_frames import LATEST

SHOWN_SERIES = 10
"""Series of one answer that cannot be read and get a reject of their own; the rest share one."""

_RESULT = re.compile(r'"result"\s*:\s*\[')
_SEPARATOR = re.compile(r"[\s,]*")
_DECODER = json.JSONDecoder()


class AnswerError(ValueError):
    """An answer, or one series of it, cannot be read; the message says why and what to do."""


def take_answer(
    text: str,
    position: int,
    offset: int | None,
    collector: PointCollector,
    sink: BatchSink,
    *,
    within: tuple[int, int] | None = None,
) -> int:
    """Give the samples of one answer to the collector and what cannot be read to the sink; the number of samples.

    Nothing of an answer is used unless all of it is JSON and it says of itself that it succeeded. ``within`` (unix
    microseconds) leaves out samples up to its first and after its second time.
    """
    try:
        elements, envelope = _parse(storable(text))
        _check(envelope)
    except AnswerError as why:
        sink.reject(position, offset, str(why), text[:200])
        return 0
    for warning in envelope.get("warnings") or ():
        sink.note(f"the server said of its answer: {warning}")
    bad = [element for element in elements if isinstance(element, _Unreadable)]
    samples, known = 0, 0
    for element in elements:
        if isinstance(element, _Unreadable):
            continue
        series, times, values = element
        samples += len(times)
        if within is not None:
            wanted = (times > within[0]) & (times <= within[1])
            times, values = times[wanted], values[wanted]
        known += collector.add(position, series, times, values)
    for one in bad[:SHOWN_SERIES]:
        sink.reject(position, offset, one.reason, one.text)
    if rest := bad[SHOWN_SERIES:]:
        sink.reject(position, offset, f"{len(rest)} more series of the answer cannot be read", rest[0].text, len(rest))
    if elements and not known and not bad:
        sink.reject(position, offset, "the answer holds no vLLM series: ask for the series themselves", text[:200])
    return samples


@dataclass(frozen=True, slots=True)
class _Unreadable:
    """A series that cannot be read: why, and how it begins."""

    reason: str
    text: str


_Element = tuple[Series, Times, Values] | _Unreadable


def _parse(text: str) -> tuple[list[_Element], dict[str, Any]]:
    """The series of an answer, and the answer without them.

    Each is turned into arrays as soon as it is decoded, which take a tenth of the memory.
    """
    elements: list[_Element] = []
    found = _RESULT.search(text)
    try:
        if found is not None:
            at = _blank_end(text, found.end())
            while text[at : at + 1] != "]":
                element, at = _DECODER.raw_decode(text, at)
                elements.append(_element(element))
                at = _blank_end(text, at)
            text = f'{text[: found.start()]}"result":[{text[at:]}'
        envelope = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        raise AnswerError("the answer is no JSON, or was cut: ask the server again and save all of it") from None
    if not isinstance(envelope, dict):
        raise AnswerError("the answer is not that of a Prometheus server: save the whole of its JSON")
    return elements, envelope


def _blank_end(text: str, at: int) -> int:
    found = _SEPARATOR.match(text, at)
    return found.end() if found else at


def _check(envelope: dict[str, Any]) -> None:
    if envelope.get("status") == "error" or "error" in envelope:
        said = str(envelope.get("error", "no reason given"))[:200]
        raise AnswerError(f"the server answered with an error ({said}): correct the query and save the answer again")
    data = envelope.get("data", envelope)
    if not isinstance(data, dict) or not isinstance(data.get("result"), list):
        raise AnswerError("the answer holds no query result: save what query or query_range returns")
    if data.get("resultType", "matrix") not in {"matrix", "vector"}:
        raise AnswerError(f"the answer is a {str(data['resultType'])[:20]}, not a matrix or vector of series")


def _element(decoded: Any) -> _Element:
    try:
        return _series(decoded)
    except AnswerError as why:
        return _Unreadable(str(why), json.dumps(decoded)[:200])


def _series(element: Any) -> tuple[Series, Times, Values]:
    """One series of an answer, its times (unix microseconds) and values."""
    try:
        labels = element["metric"]
        pairs = element["values"] if "values" in element else [element["value"]]
        if not all(isinstance(value, str) for value in labels.values()):
            raise TypeError
        times = np.array([time for time, _ in pairs], np.float64)
        values = np.array([float(value) for _, value in pairs], np.float64)
    except (KeyError, TypeError, ValueError, AttributeError):
        if isinstance(element, dict) and element.keys() & {"histogram", "histograms"}:
            raise AnswerError("the series is a native histogram, which has no buckets to read") from None
        raise AnswerError("the series has no labels and values as a Prometheus server writes them") from None
    if "__name__" not in labels:
        raise AnswerError("the series has no metric name, so it is the result of an expression: ask for the series")
    with np.errstate(invalid="ignore"):
        if not ((times > 0) & (times < LATEST)).all():
            raise AnswerError("the series has a time that is no number of unix seconds")
    name = labels["__name__"]
    series = Series(name, tuple(sorted((key, value) for key, value in labels.items() if key != "__name__")))
    return series, np.rint(times * 1e6).astype(np.int64), values
