"""Where in a TOML file a key stands, for messages; what a key means is left to ``tomllib``."""

from __future__ import annotations

import re
from pathlib import Path

Key = str | int
_PART = r"""(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')"""
_DOTTED = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER = re.compile(rf"\s*(\[\[?)\s*({_DOTTED})\s*\]\]?\s*(?:#.*)?$")
_ASSIGNMENT = re.compile(rf"\s*({_DOTTED})\s*=")


class TomlLines:
    """Finds the line of a key by its path, such as ``("source", 0, "paths")``."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self._lines: dict[tuple[Key, ...], int] = {}
        table: tuple[Key, ...] = ()
        lengths: dict[tuple[Key, ...], int] = {}
        for number, line in enumerate(text.splitlines(), start=1):
            if header := _HEADER.match(line):
                table = ()
                names = _names(header[2])
                for position, name in enumerate(names):
                    table = (*table, name)
                    if header[1] == "[[" and position == len(names) - 1:
                        lengths[table] = lengths.get(table, 0) + 1
                    if table in lengths:
                        table = (*table, lengths[table] - 1)
                self._found(table, number)
            elif assignment := _ASSIGNMENT.match(line):
                self._found((*table, *_names(assignment[1])), number)

    def _found(self, keys: tuple[Key, ...], number: int) -> None:
        """Note the line of a key, and of the tables that begin with it."""
        for end in range(1, len(keys) + 1):
            self._lines.setdefault(keys[:end], number)

    def at(self, *keys: Key) -> str:
        """``file, line n`` of a key, or of the table that it would stand in; the file alone if that is not there."""
        for end in range(len(keys), 0, -1):
            if line := self._lines.get(keys[:end]):
                return f"{self.path}, line {line}"
        return str(self.path)


def _names(dotted: str) -> list[str]:
    return [name.strip("\"'") for name in re.findall(_PART, dotted)]
