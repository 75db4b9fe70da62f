"""The folder in which this machine keeps what can be had again."""

from __future__ import annotations

import os
from pathlib import Path

ENVIRONMENT = "SPECLEDGER_CACHE"


def caches() -> Path:
    """The folder of all caches of this user, which need not be there."""
    if place := os.environ.get(ENVIRONMENT):
        return Path(place)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "specledger"
