"""SQL that a user typed, looked at before DuckDB's parser sees it."""

from __future__ import annotations

from .warehouse import is_text

DEEPEST = 500
"""Open brackets at one place. The parser's memory grows with their square, outside its limit: 0.5 GB at 2,000."""


def unreadable(text: str) -> str | None:
    """Why the parser must not see this text, to follow its name in a sentence; None if it may."""
    if not is_text(text):
        return "is no valid UTF-8"
    depth = 0
    for character in text:
        depth = max(0, depth + (character == "(") - (character == ")"))
        if depth > DEEPEST:
            return f"opens more than {DEEPEST} brackets inside each other"
    return None
