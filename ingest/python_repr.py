"""Reads what Python's ``repr`` and ``str`` print of settings, without running any of it.

Start-up records mix literals, calls (``SpeculativeConfig(method='eagle')``), bare words (``torch.bfloat16``, ``auto``)
and objects in angle brackets, so neither JSON nor ``ast.literal_eval`` can read them.
"""

from __future__ import annotations

import math
import re
from typing import Any

MAX_DEPTH = 40
"""Deeper nesting is no server's configuration."""

_SPACE = re.compile(r"\s*")
_STRING = re.compile(r"[rbu]?'((?:[^'\\]++|\\.)*+)'|[rbu]?\"((?:[^\"\\]++|\\.)*+)\"", re.DOTALL)
_NUMBER = re.compile(r"[+-]?(?:\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+|\d+)(?![\w.])", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z_][\w.]*")
_KEY = re.compile(r"[\w.-]+(?=\s*:)")
_BARE = re.compile(r"[^\s,()\[\]{}]+")
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
_WORDS: dict[str, Any] = {
    "None": None,
    "True": True,
    "False": False,
    "null": None,
    "true": True,
    "false": False,
}
_CLOSING = {"[": "]", "(": ")", "{": "}"}


class NotRead(ValueError):
    """The text is not a complete value; ``found`` holds the arguments that were read before it broke."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.found: dict[str, Any] = {}


def read_value(text: str, start: int = 0) -> tuple[Any, int]:
    """The value at a position and where it ends; raises NotRead.

    Tuples and sets become lists, calls dictionaries of their keyword arguments, bare words and objects strings.
    """
    return _value(text, _skip(text, start), MAX_DEPTH)


def read_arguments(text: str, start: int = 0) -> tuple[dict[str, Any], int]:
    """``name=value, name=value, …`` up to the end or a closing bracket, and where it ends; raises NotRead."""
    found: dict[str, Any] = {}
    try:
        return found, _arguments(text, start, MAX_DEPTH, found)
    except NotRead as error:
        error.found = found
        raise


def _value(text: str, at: int, depth: int) -> tuple[Any, int]:
    if depth <= 0:
        raise NotRead("nested too deeply")
    if at >= len(text):
        raise NotRead("the text ends early")
    character = text[at]
    if character in "'\"" or text[at : at + 2] in ("b'", 'b"', "r'", 'r"', "u'", 'u"'):
        match = _STRING.match(text, at)
        if not match:
            raise NotRead("a string without its end")
        body = match[1] if match[1] is not None else match[2]
        return _ESCAPE.sub(_unescaped, body), match.end()
    if character in "[(":
        return _sequence(text, at, depth)
    if character == "{":
        return _mapping(text, at, depth)
    if character == "<":
        return _object(text, at)
    return _word(text, at, depth)


def _word(text: str, at: int, depth: int) -> tuple[Any, int]:
    number = _NUMBER.match(text, at)
    if number:
        digits = number[0]
        value: int | float = int(digits) if re.fullmatch(r"[+-]?\d{1,400}", digits) else float(digits)
        return (value if isinstance(value, int) or math.isfinite(value) else digits), number.end()
    name = _NAME.match(text, at)
    if name and text[name.end() : name.end() + 1] == "(":
        arguments: dict[str, Any] = {}
        end = _arguments(text, name.end() + 1, depth - 1, arguments)
        if text[end : end + 1] != ")":
            raise NotRead("a call without its end")
        return arguments, end + 1
    bare = _BARE.match(text, at)
    if not bare:
        raise NotRead("no value where one was expected")
    return _WORDS.get(bare[0], bare[0]), bare.end()


def _arguments(text: str, at: int, depth: int, found: dict[str, Any]) -> int:
    at = _skip(text, at)
    while at < len(text) and text[at] != ")":
        name = _NAME.match(text, at)
        if name and text[name.end() : name.end() + 1] == "=":
            found[name[0]], at = _value(text, _skip(text, name.end() + 1), depth - 1)
        else:
            _, at = _value(text, at, depth - 1)
        # A word that is no value of ours (``192.0.2.2 (local)``) belongs to the value before it.
        while (at := _skip(text, at)) < len(text) and text[at] not in ",)":
            _, at = _value(text, at, depth - 1)
        if at < len(text) and text[at] == ",":
            at = _skip(text, at + 1)
    return at


def _sequence(text: str, at: int, depth: int) -> tuple[list[Any], int]:
    closing, items = _CLOSING[text[at]], []
    at = _skip(text, at + 1)
    while text[at : at + 1] != closing:
        item, at = _value(text, at, depth - 1)
        items.append(item)
        at = _separator(text, at, closing)
    return items, at + 1


def _mapping(text: str, at: int, depth: int) -> tuple[Any, int]:
    found: dict[str, Any] = {}
    items: list[Any] = []
    at = _skip(text, at + 1)
    while text[at : at + 1] != "}":
        key, at = _value_or_key(text, at, depth - 1)
        at = _skip(text, at)
        if text[at : at + 1] == ":":
            found[str(key)], at = _value(text, _skip(text, at + 1), depth - 1)
        else:
            items.append(key)
        at = _separator(text, at, "}")
    return (items if items and not found else found), at + 1


def _value_or_key(text: str, at: int, depth: int) -> tuple[Any, int]:
    name = _KEY.match(text, at)
    if name:
        return _WORDS.get(name[0], name[0]), name.end()
    return _value(text, at, depth)


def _object(text: str, at: int) -> tuple[str, int]:
    """``<CompilationMode.NONE: 0>``, kept as its text; angle brackets may be nested."""
    depth = 0
    for position in range(at, min(len(text), at + 10_000)):
        depth += text[position] == "<"
        depth -= text[position] == ">"
        if depth == 0:
            return text[at : position + 1], position + 1
    raise NotRead("an object without its end")


def _separator(text: str, at: int, closing: str) -> int:
    at = _skip(text, at)
    if text[at : at + 1] == ",":
        return _skip(text, at + 1)
    if text[at : at + 1] != closing:
        raise NotRead("a list without its end")
    return at


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _unescaped(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    if code:
        value = int(code, 16)
        return chr(value) if value < 0x110000 else "\ufffd"
    return _ESCAPED.get(match[4], match[4])
