"""The one function of this room: bytes in, typed rows in the warehouse."""

from __future__ import annotations

import os
import re
import zoneinfo
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from ..schemas.errors import UsageError
from ..schemas.warehouse import Warehouse, check_deployment
from .formats import FORMATS

DEFAULT_DEPLOYMENT = "default"


@dataclass
class FormatReport:
    """What happened to the inputs of one format."""

    files: int = 0
    """Inputs read in this run."""
    known: int = 0
    """Inputs left out because the warehouse holds them already."""
    records: int = 0
    """Records seen: those that became rows, and rejects."""
    rejects: int = 0
    duplicates: int = 0
    """Rows left out because the warehouse held them."""


@dataclass
class IngestReport:
    """What one ingest did."""

    formats: dict[str, FormatReport] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    """Rows written, by table."""
    notes: list[str] = field(default_factory=list)
    """What the user should know, once each."""
    rejected: list[tuple[str, str]] = field(default_factory=list)
    """For each input with rejects: source and the reason of the first."""

    @property
    def rejects(self) -> int:
        return sum(report.rejects for report in self.formats.values())

    def of(self, name: str) -> FormatReport:
        """The figures of a format, which may be new."""
        return self.formats.setdefault(name, FormatReport())


@dataclass(frozen=True)
class Options:
    """What the user said about the inputs of one ingest."""

    deployment: str
    instance: str | None
    format: str | None
    year: int | None
    timezone: str | None
    hash_text: bool


def ingest(
    warehouse: Warehouse | str | os.PathLike[str],
    paths: Iterable[str | os.PathLike[str]],
    *,
    deployment: str = DEFAULT_DEPLOYMENT,
    instance: str | None = None,
    labels: Mapping[str, str] | None = None,
    format: str | None = None,
    year: int | None = None,
    timezone: str | None = None,
    hash_text: bool = False,
    progress: Callable[[str], None] | None = None,
) -> IngestReport:
    """Read inputs into the raw tables of a warehouse; what it holds already changes nothing.

    ``paths`` are files, folders, globs, ``-`` or URLs. ``instance`` is the deployment's name unless given, ``format``
    is told from the content unless given, ``year`` and ``timezone`` are those of log lines that have none,
    ``hash_text`` stores hashes of prompts and outputs (never their text), ``progress`` is told what is being read.

    What cannot be read becomes a row of ``rejects``. Raises UsageError for wrong arguments, WarehouseError if the
    warehouse cannot be written. A run that was ended in the middle leaves nothing half-written: run it again.
    """
    options = Options(
        deployment=check_deployment(deployment),
        instance=check_deployment(instance) if instance is not None else None,
        format=_check_format(format),
        year=_check_year(year),
        timezone=_check_timezone(timezone),
        hash_text=hash_text,
    )
    checked = _check_labels(labels or {})
    from .opening import locate
    from .session import Session

    found = locate(paths)
    place = warehouse if isinstance(warehouse, Warehouse) else Warehouse(warehouse)
    return Session(place, options, progress).run(found, checked)


def _check_format(name: str | None) -> str | None:
    if name is not None and name not in FORMATS:
        raise UsageError(f"The format {name!r} is not known: give one of {', '.join(FORMATS)}.")
    return name


def _check_year(year: int | None) -> int | None:
    if year is not None and not 2000 <= year <= 2100:
        raise UsageError(f"The year {year} cannot be that of a log: give one from 2000 to 2100.")
    return year


def _check_timezone(name: str | None) -> str | None:
    if name is None or re.fullmatch(r"[+-]\d\d:?\d\d", name):
        return name
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UsageError(f"The time zone {name!r} is not known: give one like Europe/Berlin, UTC or +02:00.") from error
    return name


def _check_labels(labels: Mapping[str, str]) -> dict[str, str]:
    for key, value in labels.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}", key):
            raise UsageError(f"The label {key!r} cannot be used: start with a letter, then letters, digits, _ . or -.")
        if len(value) > 500:
            raise UsageError(f"The value of the label {key!r} is too long: give at most 500 characters.")
    return dict(labels)
