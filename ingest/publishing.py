"""Making a batch visible as a whole: what was begun and not committed is undone by the next run."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ..schemas.errors import WarehouseError

if TYPE_CHECKING:
    from ..schemas.warehouse import Warehouse

logger = logging.getLogger(__name__)

ABANDONED_S = 86_400.0
"""Age at which a file aside belongs to a run that no longer exists."""


@dataclass
class Publication:
    """Files written aside and where they go; ``commit`` is the one whose appearance makes the batch count."""

    files: list[tuple[Path, Path]] = field(default_factory=list)
    commit: tuple[Path, Path] | None = None
    obsolete: list[Path] = field(default_factory=list)
    """Published files whose rows the commit record repeats; they go once it is there."""


def publish(warehouse: Warehouse, batch: str, publication: Publication) -> None:
    """Move all files of a batch to their places, the commit record last.

    An intent is written before: a run that ends in between leaves it, and ``recover`` undoes what it lists.
    """
    if publication.commit is None:
        raise ValueError("a batch is published with its commit record")
    aside, record = publication.commit
    intent = warehouse.root / "_pending" / f"{batch}.json"
    try:
        for path, _ in (*publication.files, publication.commit):
            _flush(path)
        if publication.files or publication.obsolete:
            text = json.dumps(
                {
                    "commit": str(record.relative_to(warehouse.root)),
                    "files": [str(target.relative_to(warehouse.root)) for _, target in publication.files],
                    "obsolete": [str(path.relative_to(warehouse.root)) for path in publication.obsolete],
                }
            )
            draft = warehouse.aside(".json")
            draft.write_text(text, encoding="utf-8")
            _flush(draft)
            warehouse.publish(draft, intent)
        for path, target in publication.files:
            warehouse.publish(path, target)
        warehouse.publish(aside, record)
        for path in publication.obsolete:
            path.unlink(missing_ok=True)
        intent.unlink(missing_ok=True)
    except OSError as error:
        raise WarehouseError(
            f"Cannot publish into {warehouse.root}: {error.strerror or error}; run the same ingest again, "
            "it starts where this one failed."
        ) from error


def recover(warehouse: Warehouse) -> None:
    """Undo batches that were begun and not committed, end those that were, and remove what dead runs left aside."""
    for intent in sorted((warehouse.root / "_pending").glob("*.json")):
        try:
            _settle(warehouse, intent)
        except (OSError, ValueError, KeyError, TypeError) as error:
            # One intent must not stop every later ingest: rows that stay of its batch are known by their keys.
            logger.warning("%s cannot be followed (%s): ingest again what was being ingested then.", intent, error)
            if not isinstance(error, OSError) or error.errno == errno.ENAMETOOLONG:
                with contextlib.suppress(OSError):  # what no later run can follow either
                    intent.rename(intent.with_suffix(".spoilt"))
    oldest = time.time() - ABANDONED_S
    for path in (warehouse.root / "_tmp").glob("*"):
        try:
            if path.stat().st_mtime < oldest:
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
        except OSError:
            continue


def _settle(warehouse: Warehouse, intent: Path) -> None:
    """Remove what an intent says has to go, then the intent itself."""
    plan = json.loads(intent.read_text(encoding="utf-8"))
    committed = (warehouse.root / plan["commit"]).exists()
    for name in plan["obsolete" if committed else "files"]:
        (warehouse.root / name).unlink(missing_ok=True)
    intent.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
