"""The SQL macros of the transforms: the fixed ones of macros.sql, and those that follow from the settings."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ..schemas.config import Settings
from ..schemas.table import literal
from .functions import create_functions

if TYPE_CHECKING:
    import duckdb

FOLDER = Path(__file__).parent


def create_macros(connection: duckdb.DuckDBPyConnection, settings: Settings) -> None:
    """Create every macro in the current database of the connection, and the functions in Python."""
    connection.execute(macro_sql(settings))
    create_functions(connection)


def macro_sql(settings: Settings) -> str:
    """CREATE MACRO statements of all macros under these settings."""
    return f"{cell_macros(settings)}\n{load_band_macro(settings)}"


def cell_macros(settings: Settings) -> str:
    """Those that cells depend on: bands of load are formed in marts, so changing them leaves cells as they are."""
    return "\n".join([_fixed_macros(), context_band_macro(settings), qualified_macro(settings)])


@cache
def _fixed_macros() -> str:
    return (FOLDER / "macros.sql").read_text(encoding="utf-8")


def load_band_macro(settings: Settings) -> str:
    """``load_band(load)``: label of the band that holds a load; '0' when idle, 'unknown' for null."""
    closed = [f"WHEN load <= {band.high} THEN {literal(band.label)}" for band in settings.load_bands if band.high]
    return _case("load_band", "load", ["WHEN load IS NULL THEN 'unknown'", "WHEN load <= 0 THEN '0'", *closed],
                 literal(settings.load_bands[-1].label))  # fmt: skip


def context_band_macro(settings: Settings) -> str:
    """``context_band(tokens)``: label of the band that holds a context length; null for null."""
    closed = [
        f"WHEN tokens < {bound} THEN {literal(label)}" for label, bound in settings.context_bands if bound is not None
    ]
    return _case("context_band", "tokens", ["WHEN tokens IS NULL THEN NULL", *closed],
                 literal(settings.context_bands[-1][0]))  # fmt: skip


def qualified_macro(settings: Settings) -> str:
    """``qualified(well, ttft_ns, decode_ns, decode_tokens, longest_pause_ns)``: whether a request met every limit.

    ``well`` is whether it finished well, itself a condition. Null without limits, and where a figure that a limit asks
    for is not known. Without tokens after the first there is neither time per token nor pause.
    """
    limits = settings.goodput
    conditions = ["well"] if limits.given else []
    if limits.ttft_ms is not None:
        conditions.append(f"ttft_ns <= {_ns(limits.ttft_ms)}")
    if limits.tpot_ms is not None:
        conditions.append(f"(decode_tokens = 0 OR decode_ns <= {_ns(limits.tpot_ms)} * CAST(decode_tokens AS HUGEINT))")
    if limits.longest_pause_ms is not None:
        conditions.append(f"(decode_tokens = 0 OR longest_pause_ns <= {_ns(limits.longest_pause_ms)})")
    body = " AND ".join(conditions) or "CAST(NULL AS BOOLEAN)"
    return f"CREATE OR REPLACE MACRO qualified(well, ttft_ns, decode_ns, decode_tokens, longest_pause_ns) AS {body};"


def _case(name: str, argument: str, branches: list[str], otherwise: str) -> str:
    lines = "\n        ".join([*branches, f"ELSE {otherwise}"])
    return f"CREATE OR REPLACE MACRO {name}({argument}) AS\n    CASE\n        {lines}\n    END;"


def _ns(milliseconds: float) -> int:
    return round(milliseconds * 1_000_000)
