"""Records that the fast path cannot read: made plain where their meaning is clear, else refused with the reason."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from .response_fields import BODIES

_OTHER_BODIES = ("completion", "result", "output", "resp", "data", "payload", "response_json", "chunk")
_BODY_MARKS = {"usage", "choices", "metrics", "error", "object"}
_LONGEST_SHOWN = 160


def repaired(line: bytes) -> list[dict[str, Any]] | str:
    """The records of a line, none for what is no record; or why it cannot be read, in one sentence.

    Understood are invalid UTF-8, NaN, raw control characters, a stream's ``data:`` in front, arrays of records, bodies
    under other names and bodies that are JSON in a string.
    """
    text = line.decode("utf-8", "replace").strip().removeprefix("\ufeff")
    if text.startswith("data:"):
        text = text.removeprefix("data:").strip()
        if text == "[DONE]":
            return []
    try:
        value = _parse(text)
    except json.JSONDecodeError as error:
        return f"This is not JSON ({error.msg} at character {error.pos + 1}): the record was cut or damaged."
    except (ValueError, RecursionError) as error:
        return f"This JSON cannot be read ({type(error).__name__}): nested too deep, or a number too long."
    records = value if isinstance(value, list) else [value]
    plain = [_plain(record) for record in records if isinstance(record, dict)]
    if len(plain) < len(records) or not records:
        return "This is JSON but no object: a record is an object with a response, its usage or its error."
    return plain


def as_line(record: dict[str, Any]) -> bytes:
    """A record as one line of plain JSON."""
    return json.dumps(record, ensure_ascii=False).encode("utf-8", "replace")


def documents(text: str) -> Iterator[tuple[int, str | None, dict[str, Any] | None]]:
    """Objects of a text that is no JSONL: one array of them, or objects that span lines.

    Yields the character where each begins, and either why it cannot be read or the object. Reading ends at the first
    damage, since where the next object begins is then unknown.
    """
    decoder = json.JSONDecoder(strict=False, parse_constant=_nothing)
    skip = re.compile(r"[\s,\[\]]*")
    position = _end_of(skip, text, 0)
    while position < len(text):
        try:
            value, end = decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            reason = f"This is not JSON ({error.msg} at character {error.pos + 1}): what follows was not read."
            yield position, reason, None
            return
        except (ValueError, RecursionError):
            yield position, "This JSON is nested too deep: what follows was not read.", None
            return
        if isinstance(value, dict):
            yield position, None, _plain(value)
        else:
            yield position, "This is JSON but no object: a record is an object.", None
        position = _end_of(skip, text, end)


def redacted(line: bytes) -> str:
    """The start of a record without any text in it: keys, numbers and structure only."""
    text = line[:2_000].decode("utf-8", "replace").strip()
    if not text.startswith(("{", "[")):
        return f"({len(line)} bytes that are no JSON)"
    shown = re.sub(r'"(?:[^"\\]|\\.)*"(?=\s*:)|"(?:[^"\\]|\\.)*(?:"|\\?$)', _without_text, text)
    # Outside of strings JSON has no words but these: whatever else is there may be text that lost its quotes.
    shown = re.sub(r'("[^"]*"\s*:)|\b(?!true\b|false\b|null\b|NaN\b|[eE]\d)[^\W\d]\w*', lambda m: m[1] or "…", shown)
    return shown[:_LONGEST_SHOWN]


def _without_text(match: re.Match[str]) -> str:
    following = match.string[match.end() :].lstrip()
    word = match[0]
    return word if following.startswith(":") and re.fullmatch(r'"[\w.-]{1,40}"', word) else '"…"'


def _end_of(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return match.end() if match else position


def _nothing(_: str) -> None:
    return None


def _parse(text: str) -> Any:
    return json.loads(text, strict=False, parse_constant=_nothing)


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    """The record with its body where bodies are looked for, as an object."""
    record = {key: _opened(value) for key, value in record.items()}
    response = record.get("response")
    if isinstance(response, dict):
        record["response"] = {key: _opened(value) if key == "body" else value for key, value in response.items()}
    if not any(_is_body(_at(record, place)) for place in BODIES):
        for name in _OTHER_BODIES:
            if _is_body(record.get(name)):
                record["response"] = record.pop(name)
                break
    return record


def _opened(value: object) -> object:
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            return _parse(value)
        except (ValueError, RecursionError):
            return value
    return value


def _at(record: Mapping[str, Any], place: str) -> object:
    value: object = record
    for key in place.split(".") if place else ():
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _is_body(value: object) -> bool:
    return isinstance(value, Mapping) and bool(_BODY_MARKS & value.keys())
