"""The declarations as text: which tables there are, what is in one, and how a figure is formed."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from ..schemas import CELL_TABLES, TABLES
from ..schemas.errors import UsageError
from ..schemas.measures import MEASURES, Measure
from ..schemas.staging import STAGING_TABLES
from ..schemas.table import Table

ALL: dict[str, Table] = TABLES | {table.name: table for table in STAGING_TABLES}
"""Every table that can be asked, staging tables included."""
KINDS = ("mart", "raw", "cells", "staging")
"""In the order in which people need them."""


def table_rows() -> list[dict[str, Any]]:
    """One row a table: kind, name, what one of its rows is, number of columns."""
    return [
        {"table": table.name, "kind": table.kind, "one row per": table.grain, "columns": len(table.columns)}
        for kind in KINDS
        for table in ALL.values()
        if table.kind == kind
    ]


def find_table(name: str) -> Table:
    """The table of that name; UsageError with the nearest names if there is none."""
    return ALL[_known(name, ALL, "table")]


def column_rows(table: Table) -> list[dict[str, Any]]:
    """One row a column: name, type, unit and the sentence that says what it holds."""
    return [
        {"column": column.name, "type": column.type, "unit": column.unit, "meaning": column.doc}
        for column in table.columns
    ]


def find_measure(name: str) -> Measure:
    """The measure of that name; UsageError with the nearest names if there is none."""
    column = name.strip().lower()
    marts = [table.name for table in TABLES.values() if table.kind == "mart" and column in table.names]
    if marts and column not in MEASURES:
        raise UsageError(f"{column} is a column, not a measure: try specledger describe {marts[-1]}.")
    return MEASURES[_known(name, MEASURES, "measure")]


def explanation(measure: Measure) -> dict[str, Any]:
    """Everything that is declared of a measure, and the SQL that gives it for a whole day of a deployment."""
    return {
        "measure": measure.name,
        "meaning": measure.sentence,
        "formula": measure.formula,
        "unit": measure.unit,
        "better": "higher" if measure.higher_is_better else "lower",
        "gate": measure.gate,
        "mart": measure.mart,
        "origins": list(measure.origins),
        "traps": list(measure.traps),
        "sql": sql_of(measure),
    }


def sql_of(measure: Measure) -> dict[str, str]:
    """A query by origin over the cells that the figure is formed from; over its mart where it is no plain sum."""
    found = {}
    cells = {table.name: table for table in CELL_TABLES}
    for origin in measure.origins:
        table = cells.get(f"cells_{origin}")
        if table is not None and (figure := _over_cells(measure, set(table.names))):
            found[origin] = f"SELECT date, deployment, {figure} AS {measure.name}\nFROM {table.name}\nGROUP BY ALL"
    mart = TABLES[measure.mart]
    if not found and measure.name in mart.names:
        keys = [name for name in mart.key if name in mart.names]
        found["mart"] = f"SELECT {', '.join([*keys, measure.name])}\nFROM {mart.name}"
    return found


def _over_cells(measure: Measure, columns: set[str]) -> str | None:
    if measure.form == "ratio" and {*measure.numerator, measure.denominator} <= columns:
        numerator = " + ".join(f"sum({name})" for name in measure.numerator)
        if len(measure.numerator) > 1:
            numerator = f"({numerator})"
        scale = "" if measure.scale == 1 else f"{measure.scale:g} * "
        return f"{scale}{numerator} / nullif(sum({measure.denominator}), 0)"
    if measure.form == "maximum" and set(measure.numerator) <= columns:
        (name,) = measure.numerator
        return f"{measure.scale:g} * max({name})"
    return None


def _known(name: str, names: Iterable[str], what: str) -> str:
    choices = list(names)
    wanted = name.strip().lower()
    if wanted in choices:
        return wanted
    near = difflib.get_close_matches(wanted, choices, n=3) or [choice for choice in choices if wanted in choice][:3]
    hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(choices)}."
    raise UsageError(f"There is no {what} {name!r}: {hint}")
