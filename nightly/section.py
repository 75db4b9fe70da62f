"""One table of the configuration, read key by key; whatever is wrong is said with key and line."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NoReturn, TypeVar

from ..schemas.errors import ConfigError, UsageError
from ..schemas.toml_lines import Key, TomlLines

T = TypeVar("T")


class Section:
    """A table and where it stands. ConfigError for a key that is not known and for a value that is no answer."""

    def __init__(self, table: Mapping[str, Any], place: tuple[Key, ...], lines: TomlLines, known: Collection[str]):
        self._table = table
        self._place = place
        self._lines = lines
        for key in table:
            if key not in known:
                self.refuse(key, f"is not known; known are {', '.join(known)}")

    def __contains__(self, key: str) -> bool:
        return key in self._table

    def refuse(self, key: str, what: str) -> NoReturn:
        """Raise ConfigError: ``file, line n: section.key what.``"""
        names = [str(part) for part in (*self._place, key) if isinstance(part, str)]
        raise ConfigError(f"{self._lines.at(*self._place, key)}: {'.'.join(names)} {what}.")

    def checked(self, key: str, check: Callable[[], T]) -> T:
        """What ``check`` gives; a UsageError that it raises is said of the key."""
        try:
            return check()
        except ConfigError:
            raise
        except UsageError as error:
            self.refuse(key, f"cannot be used: {str(error).rstrip('.')}")

    def text(self, key: str, default: T) -> str | T:
        """Text that is not empty, and holds no NUL, which neither a path nor a program's argument can."""
        value = self._table.get(key)
        if value is None:
            return default
        if not isinstance(value, str) or not value.strip():
            self.refuse(key, "must be text")
        self._without_nul(key, value)
        return value

    def _without_nul(self, key: str, *texts: str) -> None:
        if any("\0" in text for text in texts):
            self.refuse(key, "cannot hold the character NUL (\\u0000): leave it out")

    def flag(self, key: str, default: bool = False) -> bool:
        value = self._table.get(key, default)
        if not isinstance(value, bool):
            self.refuse(key, "must be true or false")
        return value

    def whole(self, key: str, default: T, low: int, high: int) -> int | T:
        """A whole number from ``low`` to ``high``."""
        value = self._table.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self.refuse(key, f"must be a whole number from {low:,} to {high:,}")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts, with at least one."""
        value = self._table.get(key)
        if not isinstance(value, list) or not value or not all(isinstance(item, str) and item for item in value):
            self.refuse(key, "must be a list of texts with at least one")
        self._without_nul(key, *value)
        return tuple(value)

    def table(self, key: str) -> Mapping[str, Any]:
        """A table; empty if it is not there."""
        value = self._table.get(key, {})
        if not isinstance(value, dict):
            self.refuse(key, "must be a table")
        return value

    def section(self, key: str, known: Collection[str]) -> Section:
        """A table of known keys; empty if it is not there."""
        return Section(self.table(key), (*self._place, key), self._lines, known)

    def sections(self, key: str, known: Collection[str]) -> Iterator[Section]:
        """The tables of ``[[key]]``, in order."""
        value = self._table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self.refuse(key, f"is written as [[{key}]] tables")
        for number, table in enumerate(value):
            yield Section(table, (*self._place, key, number), self._lines, known)
