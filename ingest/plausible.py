"""What no server can have: a record that says so is refused, so that nothing behind it has to fear its figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from ..schemas.table import Column, Table

LONGEST_S = 30 * 86_400.0
LONGEST_MS = 1e3 * LONGEST_S
"""A month: no request, pause or iteration lasts that long."""
MOST = 10**9
"""Tokens, rounds or requests of one record; no context or batch comes near."""
MOST_IN_ALL = 10**15
"""The same of running totals and whole runs: a million a second for thirty years."""
LONGEST_SUM_S = 9e9
"""Latencies of all requests of a process: 285 years, close to the nanoseconds that 64 bits can hold."""

_OF_ONE = {"tokens": MOST, "rounds": MOST, "steps": MOST, "preemptions": MOST, "requests": MOST}
_OF_ALL = dict.fromkeys(_OF_ONE, MOST_IN_ALL)
_HIGHEST: Mapping[str, Mapping[str, float]] = {
    "requests": {"ms": LONGEST_MS, **_OF_ONE},
    "iterations": {"ms": LONGEST_MS, **_OF_ONE},
    # The old engine prints running totals.
    "log_stats": {"ms": LONGEST_MS, "s": LONGEST_S, "tokens/s": MOST, **_OF_ALL},
    "run_totals": _OF_ALL,
}
"""By table and unit; nothing of these units is negative."""
_ASKED_FOR = ("max_tokens",)
"""What a client may ask for, possible or not."""


def refusal(what: str) -> str:
    """The sentence of a reject."""
    return f"A figure is negative or larger than any server's ({what}): look at what wrote the record."


def impossible(table: Table, rows: pl.DataFrame) -> pl.Series | None:
    """For each row the first column with a value that no server can have, null where there is none; None if nowhere."""
    highest = _HIGHEST.get(table.name, {})
    outside = {
        column.name: _outside(column, highest[column.unit])
        for column in table.stored_columns
        if column.unit is not None and column.unit in highest and column.name not in _ASKED_FOR
    }
    if not outside or not rows.select(pl.any_horizontal(outside.values()).any()).item():
        return None
    named = [pl.when(wrong).then(pl.lit(name)) for name, wrong in outside.items()]
    return rows.select(pl.coalesce(named)).to_series()


def _outside(column: Column, highest: float) -> pl.Expr:
    value = pl.col(column.name)
    if column.type.startswith("MAP"):
        entries = value.cast(pl.List(pl.Struct({"key": pl.Int32, "value": pl.List(pl.Int64)})))
        value = entries.list.eval(pl.element().struct.field("value").list.explode())
    if column.type.startswith("MAP") or column.type.endswith("[]"):
        return (value.list.min() < 0) | (value.list.max() > highest)
    return (value < 0) | (value > highest)
