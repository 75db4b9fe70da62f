"""Every error that specledger raises on purpose.

SpecledgerError                 base; the command line catches it once, prints one sentence, exits with `exit_code`
├── UsageError                  2: wrong use (bad option, missing path, bad expression)
│   ├── ConfigError             2: a configuration or gate file that cannot be used; names key and line
│   ├── EmptyWarehouse          2: nothing has been ingested or transformed yet
│   └── NothingFound            2: a path that does not exist, or a pattern that matches nothing
├── MissingExtra                2: an optional dependency is not installed
├── WarehouseError              4: the warehouse cannot be read or written
│   ├── WarehouseLocked         4: another writer holds the lock
│   └── WarehouseTooNew         4: written by a newer specledger
├── RemoteError                 4: a server cannot be reached or does not answer as it should
└── RejectedInput               4: records were rejected under --strict
"""

from __future__ import annotations

import re

_IN_FUNCTION = re.compile(r"executing the UDF: KeyboardInterrupt\b")


def is_interrupt(error: BaseException) -> bool:
    """Whether it is DuckDB's answer to Ctrl-C inside a query, or inside a function of ours that the query calls."""
    if isinstance(error, RuntimeError) and str(error) == "Query interrupted":
        return True
    return "duckdb" in type(error).__module__ and _IN_FUNCTION.search(str(error)) is not None


class SpecledgerError(Exception):
    """Base of all deliberate errors; the message says what, where and what to do, in one sentence."""

    exit_code = 4


class UsageError(SpecledgerError):
    """The command was used wrongly."""

    exit_code = 2


class ConfigError(UsageError):
    """A configuration or gate file cannot be used."""


class EmptyWarehouse(UsageError):
    """The warehouse holds nothing to answer from."""


class NothingFound(UsageError):
    """An input does not exist; ``argument`` is what was asked for."""

    def __init__(self, message: str, argument: str) -> None:
        super().__init__(message)
        self.argument = argument


class MissingExtra(UsageError):
    """An optional dependency is needed and not installed."""


class WarehouseError(SpecledgerError):
    """The warehouse cannot be read or written."""


class WarehouseLocked(WarehouseError):
    """Another writer holds the lock of the warehouse."""


class WarehouseTooNew(WarehouseError):
    """The warehouse was written by a newer specledger."""


class RemoteError(SpecledgerError):
    """A server cannot be reached, or does not answer as it should."""


class RejectedInput(SpecledgerError):
    """Records were rejected and --strict was given."""
