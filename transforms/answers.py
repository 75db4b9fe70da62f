"""The rows of an answer as table, CSV, JSON or Parquet."""

from __future__ import annotations

import base64
import csv
import datetime as dt
import json
import math
from collections.abc import Callable
from decimal import Decimal
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from pathlib import Path

    from .ask import Answer

ROWS_SHOWN = 1000
"""Rows of a table on a terminal; more are better read by a program."""
WIDTH_SHOWN = 60
"""Characters of a cell on a terminal."""


def write_json(answer: Answer, out: TextIO) -> None:
    """One array of objects, a row a line: numbers as numbers, NaN and infinities null, times as ISO 8601."""
    names, rows = answer.fetch()
    separator = "["
    for row in rows:
        cells = dict(zip(names, map(plain, row), strict=True))
        out.write(f"{separator}{json.dumps(cells, ensure_ascii=False, allow_nan=False)}")
        separator = ",\n "
    out.write("[]\n" if separator == "[" else "]\n")


def write_csv(answer: Answer, out: TextIO) -> None:
    """Comma-separated values with a header; null is empty, lists and maps are JSON."""
    names, rows = answer.fetch()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow([_text(value) for value in map(plain, row)])


def write_table(answer: Answer, out: TextIO) -> None:
    """Aligned columns for people, the first thousand rows."""
    names, fetched = answer.fetch()
    rows = [[plain(value) for value in row] for row in islice(fetched, ROWS_SHOWN + 1)]
    cells = [[_shown(value) for value in row] for row in rows[:ROWS_SHOWN]]
    widths = [max(map(len, column)) for column in zip(*([_shown(name) for name in names], *cells), strict=True)]
    right = [
        any(isinstance(row[at], int | float) for row in rows) and not any(isinstance(row[at], str) for row in rows)
        for at in range(len(names))
    ]
    for line in chain([[_shown(name) for name in names], ["─" * width for width in widths]], cells):
        aligned = (
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(line, widths, right, strict=True)
        )
        out.write("  ".join(aligned).rstrip() + "\n")
    if len(rows) > ROWS_SHOWN:
        out.write(f"… more than {ROWS_SHOWN:,} rows: use --format csv, json or parquet for all of them.\n")


def write_parquet(answer: Answer, path: Path) -> None:
    """A Parquet file; 128-bit integers become decimals of 38 digits."""
    import pyarrow.parquet as pq

    pq.write_table(answer.arrow(), path, compression="zstd")


WRITERS: dict[str, Callable[[Answer, TextIO], None]] = {
    "table": write_table,
    "csv": write_csv,
    "json": write_json,
}
"""The formats that are text."""


def plain(value: Any) -> Any:
    """A value of DuckDB as JSON knows values; keys of maps become text."""
    found: Any
    match value:
        case None | bool() | int() | str():
            found = value
        case float():
            found = value if math.isfinite(value) else None
        case Decimal():
            found = int(value) if value == value.to_integral_value() else float(value)
        case dt.date() | dt.time():
            found = value.isoformat()
        case dict():
            found = {_text(plain(key)): plain(held) for key, held in value.items()}
        case list() | tuple():
            found = [plain(held) for held in value]
        case bytes():
            found = base64.b64encode(value).decode("ascii")
        case _:
            found = str(value)
    return found


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _shown(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else _text(value)
    text = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
    return text if len(text) <= WIDTH_SHOWN else f"{text[: WIDTH_SHOWN - 1]}…"
