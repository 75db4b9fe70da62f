"""The transforms in the order in which they run: path = name = table."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ..schemas import TABLES
from ..schemas.staging import STAGING_TABLES
from ..schemas.table import Table

FOLDER = Path(__file__).parent

ORDER = (
    "staging/scrapes",
    "staging/draft_settings",
    "staging/intervals",
    "staging/requests_by_load",
    "staging/log_windows",
    "cells/cells_snapshots",
    "cells/cells_requests",
    "cells/cells_log_stats",
    "cells/cells_iterations",
    "cells/cells_draft_lengths",
    "marts/band_totals",
    "marts/deployment_days",
    "marts/acceptance",
    "marts/positions",
    "marts/draft_lengths",
    "marts/latency",
    "marts/round_time",
    "marts/preemption",
    "marts/capacity",
    "marts/ledger",
    "marts/load_mix",
    "marts/reconciliation",
)
"""Every transform as ``<folder>/<table>``; a transform reads only raw tables and what stands before it."""


def transforms(folder: str) -> tuple[Table, ...]:
    """The declarations of the tables that the transforms of one folder make, in order."""
    known = TABLES | {table.name: table for table in STAGING_TABLES}
    return tuple(known[path.partition("/")[2]] for path in ORDER if path.startswith(f"{folder}/"))


@cache
def query(folder: str, name: str) -> str:
    """The SELECT of a transform as its file has it, without the closing semicolon."""
    return (FOLDER / folder / f"{name}.sql").read_text(encoding="utf-8").rstrip().removesuffix(";")
