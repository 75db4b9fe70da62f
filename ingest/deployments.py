"""The rows of ``deployments`` that come from the command line: labels, and deployments known by name only."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import polars as pl

from ..schemas.raw import DEPLOYMENTS
from .batch import SCHEMAS
from .content_hash import digest, hexdigest
from .frames import stored

if TYPE_CHECKING:
    from ..schemas.warehouse import Warehouse

_SOURCE = "command line"
_LABELS = "labels-"
"""How the name of a file begins that holds labels."""


def store_labels(
    warehouse: Warehouse, deployment: str, instance: str, labels: Mapping[str, str], now: dt.datetime
) -> dt.date:
    """Add the labels to the deployment, unless all of them hold already; the date of the row that says so."""
    if not labels:
        return now.date()
    current, latest = _current_labels(warehouse, deployment)
    if any(current.get(key) != value for key, value in labels.items()):
        # A clock that was set back must not make the new labels older than those that they replace.
        now = max(now, latest + dt.timedelta(microseconds=1))
        _write(warehouse, deployment, instance, labels, now)
    return now.date()


def ensure_deployments(warehouse: Warehouse, names: Iterable[str], instance: str, now: dt.datetime) -> None:
    """Give each deployment that has no row yet one that says nothing but its name."""
    for name in sorted(names):
        if not warehouse.files(DEPLOYMENTS, deployment=name):
            _write(warehouse, name, instance, {}, now)


def _current_labels(warehouse: Warehouse, deployment: str) -> tuple[dict[str, str], dt.datetime]:
    """The labels that hold, and when the last of them was given."""
    labels: dict[str, str] = {}
    # Starts say no labels, and every night may have one; compaction marks the names of what it puts together.
    files = warehouse.files(DEPLOYMENTS, deployment=deployment)
    paths = [file.path for file in files if file.path.name.startswith(_LABELS) or "-with-" in file.path.name]
    if not paths:
        return labels, dt.datetime.min
    rows = pl.concat([stored(path, ["labels", "labelled_at"]) for path in paths])
    rows = rows.filter(pl.col("labelled_at").is_not_null()).sort("labelled_at", maintain_order=True)
    for given in rows["labels"].to_list():
        labels.update(given or {})
    return labels, max(rows["labelled_at"].to_list(), default=dt.datetime.min)


def _write(warehouse: Warehouse, deployment: str, instance: str, labels: Mapping[str, str], now: dt.datetime) -> None:
    row = {
        "instance": instance,
        "source": _SOURCE,
        "labels": dict(sorted(labels.items())),
        "labelled_at": now if labels else None,
    }
    rows = pl.DataFrame([row], schema=SCHEMAS["deployments"])
    name = hexdigest(digest(repr((deployment, instance, row)).encode()))[:20]
    warehouse.write(DEPLOYMENTS, now.date(), deployment, f"{_LABELS}{name}", rows.to_arrow())
