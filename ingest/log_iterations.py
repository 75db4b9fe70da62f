"""Rows of ``iterations`` from the records of a log."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from .log_records import engine_of
from .log_table import MISSING, Columns, Group, Records

_COUNTS = ("iteration", "context_requests", "context_tokens", "generation_requests", "generation_tokens")


def iterations_of(groups: Sequence[Group]) -> pl.DataFrame | None:
    """A row for each record, in the order of the log; None without any."""
    records = Records(groups)
    if not len(records):
        return None
    processes, names = records.processes()
    engines = np.array([engine_of(name) or 0 for name in names])[processes]
    printed = records.integers("engine")
    dummy, marks = records.marks("dummy")
    columns = Columns()
    columns.whole("byte_offset", records.offsets)
    columns.moment("logged_at", records.instants())
    columns.whole("engine", np.where(printed == MISSING, engines, printed), pl.Int32)
    columns.text("process", processes, names)
    for name in _COUNTS:
        columns.whole(name, records.integers(name))
    columns.real("elapsed_ms", records.floats("elapsed_ms"))
    columns.real("kv_usage", records.floats("kv_usage", percent=True))
    columns.flag("dummy", dummy, [bool(mark) for mark in marks])
    return columns.frame()
