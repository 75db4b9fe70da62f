"""One line of a server log as clean text, with the way back from every character to the bytes it came from.

Around a record there can be a JSON object (Docker's json-file, a JSON formatter), an outer timestamp, and colour codes
in three states of decay. All of it is taken off here; the grammar of the records is in ``log_records``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from .json_input import storable

MAPPED_BYTES = 1 << 16
"""Longer lines are read without the way back to their bytes: they are too rare to repay it."""
NESTED_OBJECTS = 3
"""A JSON record inside Docker's json-file inside a shipper's object."""

COLOUR = re.compile(r"(?:\x1b|\^\[)\[[0-9;?]*[A-Za-z]|\[\d{0,3}(?:;\d{1,3})*m")
"""A colour code as ESC, as the two characters ``^[``, or with its ESC lost."""
TIMESTAMP = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)[T ](?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
    r"(?:[.,](?P<fraction>\d{1,9}))?(?: ?(?:(?P<utc>Z|UTC)|(?P<sign>[+-])(?P<zone_hour>\d\d):?(?P<zone_minute>\d\d)))?"
)
STAMP_PARTS = ("year", "month", "day", "hour", "minute", "second", "fraction", "zone_hour", "zone_minute")

TEXT_KEYS = ("log", "message", "msg", "line", "MESSAGE")
NO_TEXT = re.compile(r'"MESSAGE"\s*:\s*[^"\s]')
"""How a journal says what is no plain text: as a list of bytes, or not at all."""
TIME_KEYS = ("time", "timestamp", "asctime", "@timestamp", "ts")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_DECODER = json.JSONDecoder(strict=False)
_PLAIN = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}


@dataclass(frozen=True, slots=True)
class Number:
    """Decimal digits found in a line: their text, and where in the line's bytes they are (None: not in one piece)."""

    text: str
    span: tuple[int, int] | None

    @property
    def decimals(self) -> int:
        return len(self.text.partition(".")[2])

    @property
    def scaled(self) -> int:
        """The number times ten to the power of its decimals."""
        return int(self.text.replace(".", ""))


@dataclass(frozen=True, slots=True)
class Stamp:
    """A date and time with a year, as found; ``sign`` is +1 or −1 where a zone is given (UTC: +1 and no zone parts)."""

    parts: dict[str, Number]
    sign: int | None


@dataclass(frozen=True, slots=True)
class Clean:
    """The text inside a line, one Latin-1 character a byte, so that positions survive whatever the bytes are."""

    text: str
    at: Sequence[int] | None
    """Position in the line of each character, and one more for the end; None where it is not known."""
    stamp: Stamp | None = None
    """The time that a JSON object around the text gives."""
    keys: dict[str, str] = field(default_factory=dict)
    """The other text and numbers of that object."""
    record: bool = False
    """The JSON object is the record itself, not a container of a line."""
    broken: bool = False
    """A JSON object without its end: nothing in it can be trusted."""
    textless: bool = False
    """A journal entry whose MESSAGE is no text, or a list of bytes without its end."""

    def number(self, start: int, end: int) -> Number:
        """The digits between two positions of the text."""
        text = self.text[start:end]
        if self.at is None or self.at[end - 1] - self.at[start] != end - 1 - start:
            return Number(text, None)
        return Number(text, (self.at[start], self.at[end - 1] + 1))


def clean(line: bytes) -> Clean:
    """The text of a line without what is around it; ``line`` has no line end."""
    text = line.decode("latin-1").rstrip("\r\n")
    at = range(len(text) + 1) if len(text) <= MAPPED_BYTES else None
    found = Clean(text, at)
    for _ in range(NESTED_OBJECTS):
        inner = _inside_object(found)
        if inner is None:
            break
        found = inner
        if found.record or found.broken or found.textless:
            break
    return _without_colours(found)


def readable(text: str) -> str:
    """Latin-1 characters of a line as the UTF-8 that they are; what is not UTF-8 becomes U+FFFD."""
    try:
        return text.encode("latin-1").decode("utf-8", errors="replace")
    except UnicodeEncodeError:  # an escape of a JSON object has been decoded already
        return text


def stamp_of(match: re.Match[str], source: Clean) -> Stamp:
    """A match of TIMESTAMP in the text as a Stamp."""
    parts = {name: source.number(*match.span(name)) for name in STAMP_PARTS if match[name] is not None}
    sign = None
    if match["utc"]:
        sign = 1
    elif match["sign"]:
        sign = -1 if match["sign"] == "-" else 1
    return Stamp(parts, sign)


def _without_colours(found: Clean) -> Clean:
    if "m" not in found.text or not COLOUR.search(found.text):
        return found
    kept: list[str] = []
    places: list[int] = []
    position = 0
    for match in COLOUR.finditer(found.text):
        kept.append(found.text[position : match.start()])
        if found.at is not None:
            places.extend(found.at[position : match.start()])
        position = match.end()
    kept.append(found.text[position:])
    if found.at is not None:
        places.extend(found.at[position:])
    return replace(found, text="".join(kept), at=places if found.at is not None else None)


def _inside_object(found: Clean) -> Clean | None:
    """What a JSON object holds, or None where the text is no such object."""
    text = found.text
    lead = len(text) - len(text.lstrip())
    if not text.startswith("{", lead) or '"' not in text[lead : lead + 80]:
        return None
    text = storable(text)
    found = replace(found, text=text)
    try:
        document, end = _DECODER.raw_decode(text, lead)
    except (ValueError, RecursionError):
        if NO_TEXT.search(text):
            return Clean("", None, textless=True)
        head = text[lead : lead + 80]
        wrapped = any(f'"{key}"' in head for key in (*TEXT_KEYS, "asctime", "levelname"))
        return Clean(text, None, broken=True) if wrapped else None
    if text[end:].strip() or not isinstance(document, dict):
        return None
    key = next((key for key in TEXT_KEYS if isinstance(document.get(key), str)), None)
    value: Clean | None = None
    if key is not None:
        value = _string_value(found, key)
    elif "MESSAGE" in document:
        key, value = "MESSAGE", _bytes_value(document["MESSAGE"])
        if value is None:
            return Clean("", None, textless=True)
    if key is None or value is None:
        return None
    stamp = None
    for name in TIME_KEYS:
        place = _string_value(found, name) if isinstance(document.get(name), str) else None
        match = TIMESTAMP.search(place.text) if place else None
        if match and place:
            stamp = stamp_of(match, place)
            break
    keys = {str(name): str(item) for name, item in document.items() if isinstance(item, str | int) and name != key}
    return Clean(
        value.text.rstrip("\r\n"),
        value.at,
        stamp or found.stamp,
        keys,
        record=any(name in document for name in ("asctime", "levelname", "level")) and key != "log",
    )


def _bytes_value(value: object) -> Clean | None:
    """The text that journalctl gives as a list of bytes, as it does where there are control characters in it."""
    if not isinstance(value, list) or not all(isinstance(item, int) and 0 <= item < 256 for item in value):
        return None
    return Clean(bytes(value).decode("latin-1"), None)


def _string_value(found: Clean, key: str) -> Clean | None:
    """The decoded string of a key of an object, character by character with the way back."""
    match = re.search(rf'"{re.escape(key)}"\s*:\s*"((?:[^"\\]++|\\.)*+)"', found.text)
    if not match:
        return None
    start, end = match.span(1)
    raw = found.text[start:end]
    at = found.at
    if "\\" not in raw:
        return Clean(raw, at[start : end + 1] if at is not None else None)
    if at is None:
        return Clean(str(_DECODER.decode(f'"{raw}"')), None)
    text: list[str] = []
    places: list[int] = []
    position = 0
    for escape in _ESCAPE.finditer(raw):
        text.append(raw[position : escape.start()])
        places.extend(at[start + position : start + escape.start()])
        text.append(chr(int(escape[1], 16)) if escape[1] else _PLAIN.get(escape[2], escape[2]))
        places.append(at[start + escape.start()])
        position = escape.end()
    text.append(raw[position:])
    places.extend(at[start + position : end + 1])
    return Clean("".join(text), places)
