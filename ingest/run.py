"""The one function of this room: bytes in, typed rows in the warehouse."""

from __future__ import annotations

import functools
import os
import re
import zoneinfo
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from ..schemas.errors import UsageError
from ..schemas.warehouse import Warehouse, check_deployment, is_text
from .formats import FORMATS
from .report import IngestReport

if TYPE_CHECKING:
    from ..schemas.spark import Cluster

DEFAULT_DEPLOYMENT = "default"


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
    cluster: Cluster | None = None,
) -> IngestReport:
    """Read inputs into the raw tables of a warehouse; what it holds already changes nothing.

    ``paths`` are files, folders, globs, ``-`` or URLs. ``instance`` is the deployment's name unless given, ``format``
    is told from the content unless given, ``year`` and ``timezone`` are those of log lines that have none,
    ``hash_text`` stores hashes of prompts and outputs (never their text), ``progress`` is told what is being read. With
    ``cluster`` its workers read what are files, and this process stores what they found.

    What cannot be read becomes a row of ``rejects``. Raises UsageError for wrong arguments, WarehouseError if the
    warehouse cannot be written. A run that was ended in the middle leaves nothing half-written: run it again.
    """
    check_options(deployment=deployment, instance=instance, labels=labels, format=format, year=year, timezone=timezone)
    # What follows needs polars and pyarrow, which take longer to import than a wrong option takes to be told.
    from .opening import locate
    from .prepare import Options
    from .readings import Readings
    from .rehearsal import rehearse
    from .session import Session

    place = warehouse if isinstance(warehouse, Warehouse) else Warehouse(warehouse)
    found = locate(paths, place.root)
    options = Options(deployment, instance, format, year, timezone, hash_text)
    readings = Readings(cluster, functools.partial(rehearse, place, options), found) if cluster else None
    return Session(place, options, progress, readings).run(found, dict(labels or {}))


def check_options(
    *,
    deployment: str | None = None,
    instance: str | None = None,
    labels: Mapping[str, str] | None = None,
    format: str | None = None,
    year: int | None = None,
    timezone: str | None = None,
) -> None:
    """Raise UsageError if one of these arguments of ``ingest`` cannot be used."""
    for name in (deployment, instance):
        if name is not None:
            check_deployment(name)
    _check_labels(labels or {})
    _check_format(format)
    _check_year(year)
    _check_timezone(timezone)


def _check_format(name: str | None) -> None:
    if name is not None and name not in FORMATS:
        raise UsageError(f"The format {name!r} is not known: give one of {', '.join(FORMATS)}.")


def _check_year(year: int | None) -> None:
    if year is not None and not 2000 <= year <= 2100:
        raise UsageError(f"The year {year} cannot be that of a log: give one from 2000 to 2100.")


def _check_timezone(name: str | None) -> None:
    if name is None or re.fullmatch(r"[+-]\d\d:?\d\d", name):
        return
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UsageError(f"The time zone {name!r} is not known: give one like Europe/Berlin, UTC or +02:00.") from error


def _check_labels(labels: Mapping[str, str]) -> None:
    for key, value in labels.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}", key):
            raise UsageError(f"The label {key!r} cannot be used: start with a letter, then letters, digits, _ . or -.")
        if not is_text(value):
            raise UsageError(f"The value of the label {key!r} cannot be used: it is no valid UTF-8.")
        if len(value) > 500:
            raise UsageError(f"The value of the label {key!r} is too long: give at most 500 characters.")
