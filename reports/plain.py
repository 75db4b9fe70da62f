"""Text from logs made safe for places that have no escaping of their own: terminals, XML, one line of anything."""

from __future__ import annotations

import re
import unicodedata

NO_BREAK = "\N{NO-BREAK SPACE}"
_FIGURE = re.compile(r"(?<=\d) (?=%|(?:ms|s|points|tokens|GPU)\b)|(?<=\bK) (?==)|(?<=\bK =) (?=\d)")
_TURNS = re.compile("[\u202a-\u202e\u2066-\u2069]")
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
DIRECTION_MARKS = frozenset("\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that turn the direction of what follows, and so can make one text look like another."""


def one_line(text: str) -> str:
    """The text on one line, without anything that moves a cursor, changes colours or turns the direction."""
    joined = " ".join(text.split())
    return "".join(REPLACEMENT if _acts(character) else character for character in joined)


def straight(text: str) -> str:
    """The text without characters that turn what follows: letters of either direction still run as they do."""
    return _TURNS.sub(REPLACEMENT, text)


def unbroken(text: str) -> str:
    """The text with figures and their units held together by spaces at which no line breaks."""
    return _FIGURE.sub(NO_BREAK, text)


def width(text: str) -> int:
    """Columns that the text takes on a terminal."""
    return sum(_columns(character) for character in text)


def cut(text: str, columns: int) -> str:
    """The text in at most that many columns, an ellipsis where something was cut."""
    if width(text) <= columns:
        return text
    taken, used = [], 0
    for character in text:
        used += _columns(character)
        if used > columns - 3:
            break
        taken.append(character)
    return "".join(taken) + "..."


def padded(text: str, columns: int) -> str:
    """The text in exactly that many columns."""
    shown = cut(text, columns)
    return shown + " " * (columns - width(shown))


def _acts(character: str) -> bool:
    return character in DIRECTION_MARKS or unicodedata.category(character) in {"Cc", "Cs", "Co", "Cn", "Zl", "Zp"}


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1
