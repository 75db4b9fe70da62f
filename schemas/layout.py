"""The version of a warehouse's layout: a newer one is refused, an older one is read, and upgraded only on request."""

from __future__ import annotations

import json
from pathlib import Path

from .errors import WarehouseError, WarehouseTooNew

VERSION = 1
"""Raised whenever a specledger of before would misread what this one writes. New tables and columns need no new version."""
FILE = "_layout.json"


def found(root: Path) -> int:
    """The version of a warehouse; one that says nothing has the first."""
    path = root / FILE
    try:
        version = json.loads(path.read_text(encoding="utf-8"))["version"]
    except FileNotFoundError:
        return 1
    except PermissionError as error:
        raise WarehouseError(f"{path} may not be read: give the user of specledger the right to read it.") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise WarehouseError(f"{path} cannot be read ({error}): restore it from a backup.") from error
    if not isinstance(version, int):
        raise WarehouseError(f"{path} holds no version: restore it from a backup.")
    return version


def check(root: Path, *, writing: bool = False) -> None:
    """Raise WarehouseTooNew for a newer warehouse, and WarehouseError for an older one that is about to be written."""
    version = found(root)
    if version > VERSION:
        raise WarehouseTooNew(
            f"The warehouse {root} has layout {version}, and this specledger knows {VERSION}: upgrade specledger."
        )
    if writing and version < VERSION:
        raise WarehouseError(
            f"The warehouse {root} has layout {version} and can only be read: "
            "run specledger housekeeping --upgrade to bring it up to date."
        )


def content() -> str:
    """What the file of an up-to-date warehouse says."""
    return json.dumps({"version": VERSION}) + "\n"
