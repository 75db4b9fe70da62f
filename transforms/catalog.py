"""The transforms in the order in which they run: path = name = table."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ..schemas import TABLES
from ..schemas.staging import STAGING_TABLES
from ..schemas.table import Table

FOLDER = Path(__file__).parent
HEAD_END = "-- " + "-" * 77 + "\n"
"""The line that ends the head of a .sql file: above it stands what the declaration says, below it the query."""

ORDER = (
    "staging/repeated_scrapes",
    "staging/scrapes",
    "staging/processes",
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
    "marts/acceptance_by",
    "marts/positions",
    "marts/draft_lengths",
    "marts/latency",
    "marts/round_time",
    "marts/preemption",
    "marts/capacity",
    "marts/cost_observations",
    "marts/step_cliffs",
    "marts/round_cost",
    "marts/round_split",
    "marts/ledger",
    "marts/load_mix",
    "marts/reconciliation",
)
"""Every transform as ``<folder>/<table>``; a transform reads only raw tables and what stands before it."""


def transforms(folder: str) -> tuple[Table, ...]:
    """The declarations of the tables that the transforms of one folder make, in order."""
    return tuple(declared(path) for path in ORDER if path.startswith(f"{folder}/"))


def declared(path: str) -> Table:
    """The declaration of the table that ``<folder>/<table>`` makes."""
    known = TABLES | {table.name: table for table in STAGING_TABLES}
    return known[path.partition("/")[2]]


@cache
def query(folder: str, name: str) -> str:
    """The SELECT of a transform as its file has it, without the head and the closing semicolon."""
    text = (FOLDER / folder / f"{name}.sql").read_text(encoding="utf-8")
    return text.partition(HEAD_END)[2].rstrip().removesuffix(";")
