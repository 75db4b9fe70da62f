"""``specledger status``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ..schemas.options import format_option, warehouse_option

if TYPE_CHECKING:
    from .status import Status

DATES_SHOWN = 5


@click.command()
@format_option("table", "json")
@warehouse_option
def status(form: str, warehouse: str) -> None:
    """Show what a warehouse holds, how fresh it is, and what is late."""
    from ..schemas.published import published
    from .status import read

    found = read(published(warehouse))
    if form == "json":
        click.echo(json.dumps(asdict(found), indent=2))
        return
    for line in _lines(found):
        click.echo(line)


def _lines(found: Status) -> Iterator[str]:
    yield f"{found.warehouse}: {_size(found.bytes)}, layout {found.layout}"
    if found.working_copy:
        yield f"working copy: {found.working_copy}"
    yield ""
    yield f"{'table':<22}{'files':>8}{'size':>10}  dates"
    for table in found.tables:
        yield f"{table.table:<22}{table.files:>8,}{_size(table.bytes):>10}  {table.first} to {table.last}"
    for one in found.deployments:
        yield ""
        yield f"{_plain(one.deployment)}: {one.nights:,} nights, {one.first} to {one.last}; newest row {one.newest} UTC"
        if one.missing:
            yield f"  without rows: {_dates(one.missing)}"
        if one.late:
            yield f"  written more than a day late: {_dates(one.late)}"
        if one.uncomputed:
            yield f"  to be computed by specledger transform: {_dates(one.uncomputed)}"
    yield ""
    for work, owner in found.running.items():
        yield f"{work} runs since {owner.get('since')} on {owner.get('host')}, process {owner.get('pid')}."
    if found.unfinished or found.leftovers:
        yield (
            f"Runs that were ended left {found.unfinished:,} unfinished batches and {found.leftovers:,} old files "
            "aside; the next ingest puts that right."
        )
    else:
        yield "Nothing is left over from runs that were ended."


def _dates(dates: Sequence[str]) -> str:
    more = f" and {len(dates) - DATES_SHOWN:,} more" if len(dates) > DATES_SHOWN else ""
    return ", ".join(dates[-DATES_SHOWN:]) + more


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1000
    return f"{count:,.1f} TB"


def _plain(text: str) -> str:
    """A name as one line that a terminal shows and does not obey."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
