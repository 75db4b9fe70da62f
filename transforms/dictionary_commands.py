"""``specledger tables``, ``describe`` and ``explain``: the data dictionary on the command line."""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Iterator
from typing import Any

import click

from ..schemas.options import format_option
from . import dictionary

WIDEST = 110


@click.command()
@format_option("table", "json")
def tables(form: str) -> None:
    """List the tables of a warehouse: what one row of each is.

    They are the same in every warehouse; none is needed to list them.
    """
    rows = dictionary.table_rows()
    click.echo(json.dumps(rows) if form == "json" else "\n".join(_tables(rows)))


@click.command()
@click.argument("table")
@format_option("table", "json")
def describe(table: str, form: str) -> None:
    """Describe the columns of a table: type, unit and meaning."""
    found = dictionary.find_table(table)
    rows = dictionary.column_rows(found)
    if form == "json":
        click.echo(json.dumps({"table": found.name, "kind": found.kind, "one row per": found.grain, "columns": rows}))
        return
    click.echo(f"{found.name} ({found.kind}): one row per {found.grain}.")
    if found.reads:
        click.echo(f"Formed from {', '.join(found.reads)}.")
    click.echo("\n" + "\n".join(_columns(rows)))


@click.command()
@click.argument("measure")
@format_option("table", "json")
def explain(measure: str, form: str) -> None:
    """Explain a measure: definition, formula, SQL, origins and traps."""
    told = dictionary.explanation(dictionary.find_measure(measure))
    click.echo(json.dumps(told, ensure_ascii=False) if form == "json" else "\n".join(_explained(told)))


def _tables(rows: list[dict[str, Any]]) -> Iterator[str]:
    width = max(len(row["table"]) for row in rows)
    kind = None
    for row in rows:
        if row["kind"] != kind:
            kind = row["kind"]
            yield f"{kind}"
        yield from _hanging(f"  {row['table']:{width}}  ", f"one row per {row['one row per']}")


def _columns(rows: list[dict[str, Any]]) -> Iterator[str]:
    width = max(len(row["column"]) for row in rows)
    for row in rows:
        unit = f" [{row['unit']}]" if row["unit"] else ""
        yield from _hanging(f"  {row['column']:{width}}  ", f"{row['type']}{unit}. {row['meaning']}")


def _explained(told: dict[str, Any]) -> Iterator[str]:
    yield from _hanging("", f"{told['measure']}: {told['meaning']}")
    yield f"\n  {told['formula']}"
    yield f"  in {told['unit']}, {told['better']} is better; gate {told['gate']}; mart {told['mart']}"
    yield f"  from {', '.join(told['origins'])}, the first that a comparison has on both sides"
    yield "\nWhat tends to fool its readers:"
    for trap in told["traps"]:
        yield from _hanging("  - ", trap)
    for origin, query in told["sql"].items():
        yield f"\n-- {'read from its mart' if origin == 'mart' else f'from {origin}, whole days'}"
        yield query


def _hanging(head: str, text: str) -> list[str]:
    width = min(shutil.get_terminal_size().columns, WIDEST)
    return textwrap.wrap(text, max(width, 60), initial_indent=head, subsequent_indent=" " * len(head))
