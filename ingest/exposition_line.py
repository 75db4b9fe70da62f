"""The grammar of one sample line, in the Prometheus text format and in OpenMetrics."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_LABELS = 256
"""More labels than any metric has; a bound against hostile lines."""

_NAME = re.compile(rb"[a-zA-Z_:][a-zA-Z0-9_:]*")
_BLANKS = re.compile(rb"[ \t]*")
# Lines can be a megabyte long: what has matched is never tried again in another way (the + behind a quantifier).
_QUOTED = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
# A quoted word without a value is the metric's name (names outside the classic character set).
_LABEL = re.compile(
    rb"[ \t]*+(?:(?P<name>[a-zA-Z_][a-zA-Z0-9_]*+|" + _QUOTED + rb")"
    rb"[ \t]*+(?:=[ \t]*+(?P<value>" + _QUOTED + rb"))?+[ \t]*+(?P<next>[,}])|(?P<end>\}))"
)
_VALUE = re.compile(
    rb"[+-]?(?:(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?[0-9]+)?|[iI][nN][fF](?:[iI][nN][iI][tT][yY])?)|[nN][aA][nN]"
)
# Milliseconds in the Prometheus text format, seconds with a fraction in OpenMetrics.
_TIMESTAMP = re.compile(rb"-?[0-9]{1,15}(?:\.[0-9]{1,9})?")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_UNESCAPED = {"n": "\n", "\\": "\\", '"': '"'}


class LineError(ValueError):
    """The line is no sample; the message says why."""


@dataclass(frozen=True, slots=True)
class Series:
    """A series: the sample name as found, and its labels, unescaped, sorted by name."""

    name: str
    labels: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample line; the timestamp is unix seconds, None where the line has none."""

    series: Series
    value: float
    timestamp: float | None = None


def parse_series(text: bytes) -> Series:
    """The series that the text, and nothing but it, names; LineError if it is none."""
    series, end = _series(text)
    if text[end:].strip(b" \t"):
        raise LineError("it goes on after the labels")
    return series


def parse_sample(line: bytes) -> Sample:
    """The sample in a line without its newline; an exemplar after it is skipped. LineError if it is none."""
    series, end = _series(line)
    rest = line[end:].split(b"#", 1)[0].split()
    if not rest:
        raise LineError("it has no value")
    if len(rest) > 2:
        raise LineError("it has more than a value and a timestamp")
    if end < len(line) and line[end] not in b" \t" and not line[:end].endswith(b"}"):
        raise LineError("its name holds a character that names cannot have")
    timestamp = None
    if len(rest) == 2:
        if not _TIMESTAMP.fullmatch(rest[1]):
            raise LineError("its timestamp is no number")
        number = float(rest[1])
        timestamp = number if b"." in rest[1] or abs(number) < 1e11 else number / 1e3
    return Sample(series, parse_value(rest[0]), timestamp)


def parse_value(text: bytes) -> float:
    """The number as both formats write it, NaN and ±Inf included; LineError if it is none."""
    if not _VALUE.fullmatch(text):
        raise LineError("its value is no number")
    return float(text)


def _series(text: bytes) -> tuple[Series, int]:
    """The series at the start of the text, and where it ends."""
    start = _BLANKS.match(text).end()  # type: ignore[union-attr]
    named = _NAME.match(text, start)
    name = named[0].decode() if named else None
    end = named.end() if named else start
    brace = _BLANKS.match(text, end).end()  # type: ignore[union-attr]
    labels: dict[str, str] = {}
    if text[brace : brace + 1] == b"{":
        end = brace + 1
        while True:
            found = _LABEL.match(text, end)
            if found is None:
                raise LineError("its labels do not follow the format")
            end = found.end()
            if found["end"]:
                break
            word = _text(found["name"])
            if found["value"] is None:
                if name is not None or not found["name"].startswith(b'"'):
                    raise LineError("a label has no value")
                name = word
            elif word in labels:
                raise LineError(f"its label {word!r} is given twice")
            else:
                labels[word] = _text(found["value"])
            if len(labels) > MAX_LABELS:
                raise LineError(f"it has more than {MAX_LABELS} labels")
            if found["next"] == b"}":
                break
    if name is None:
        raise LineError("it does not start with a metric name")
    return Series(name, tuple(sorted(labels.items()))), end


def _text(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace")
    if text.startswith('"'):
        text = text[1:-1]
    if "\\" in text:
        text = _ESCAPE.sub(lambda found: _UNESCAPED.get(found[1], found[0]), text)
    return text
