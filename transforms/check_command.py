"""``specledger check``: what the reconciliation says of the data, faults first."""

from __future__ import annotations

import datetime as dt
import json
import logging
import shutil
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Literal

import click

from ..schemas.errors import EmptyWarehouse
from ..schemas.kept import behind, computed
from ..schemas.marts import DEPLOYMENT_DAYS, RECONCILIATION
from ..schemas.options import format_option, warehouse_option
from ..schemas.published import published
from ..schemas.table import quote

if TYPE_CHECKING:
    import duckdb

log = logging.getLogger(__name__)

EXIT_FAULT = 1
"""Exit code where an identity fails, so that a nightly run or a CI job can stop on it."""
LINES_OF_ONE_CHECK = 4
"""Engines shown of one check; the rest is counted."""
REASONS = 5
"""Reasons for rejects shown of one deployment."""

Kind = Literal["fault", "finding", "no data", "holds"]
KINDS: tuple[Kind, ...] = ("fault", "finding", "no data", "holds")


@dataclass(frozen=True)
class Check:
    """One row of the mart ``reconciliation``."""

    date: dt.date
    deployment: str
    instance: str | None
    engine: int | None
    check_name: str
    origin: str
    expected: float | None
    found: float | None
    difference: float | None
    verdict: str
    detail: str | None

    @property
    def kind(self) -> Kind:
        """How the row is shown: a finding is an identity that holds and has something to say."""
        if self.verdict == "fail":
            return "fault"
        if self.verdict == "no_data":
            return "no data"
        return "finding" if self.detail else "holds"


@click.command()
@warehouse_option
@click.option("--deployment", metavar="NAME", help="Only this deployment.")
@click.option("--date", type=click.DateTime(["%Y-%m-%d"]), metavar="YYYY-MM-DD", help="Only this UTC date.")
@format_option("table", "json")
def check(warehouse: str, deployment: str | None, date: dt.datetime | None, form: str) -> int:
    """Show data quality and reconciliation.

    What must hold between all counts is checked; faults come first.

    Exits with 1 where an identity fails, else with 0; findings and what could not be checked are no faults.
    """
    house = published(warehouse).require()
    if not house.files(RECONCILIATION) and not house.files(DEPLOYMENT_DAYS):
        if computed(house):
            raise EmptyWarehouse(f"The warehouse {warehouse} holds no row to compute from: the table rejects says why.")
        raise EmptyWarehouse(f"The warehouse {warehouse} has no marts yet: run 'specledger transform' first.")
    if behind(house):
        log.warning("Something was ingested after the last transform and is not checked: run specledger transform.")
    day = date.date() if date else None
    with house.connect() as connection:
        checks = read_checks(connection, deployment, day)
        rejects = read_rejects(connection, deployment, day)
    if form == "json":
        click.echo(json.dumps([asdict(row) for row in checks], default=dt.date.isoformat, indent=2))
    else:
        for line in render(checks, rejects, min(shutil.get_terminal_size().columns, 100)):
            click.echo(line)
    return EXIT_FAULT if any(row.kind == "fault" for row in checks) else 0


def read_checks(
    connection: duckdb.DuckDBPyConnection, deployment: str | None = None, date: dt.date | None = None
) -> list[Check]:
    """Rows of the mart by deployment and date, faults first, then findings, then what could not be checked."""
    columns = ", ".join(quote(name) for name in RECONCILIATION.names)
    rows = connection.execute(
        f"SELECT {columns} FROM reconciliation WHERE {_CHOSEN} ORDER BY ALL", _parameters(deployment, date)
    ).fetchall()
    checks = [Check(**dict(zip(RECONCILIATION.names, row, strict=True))) for row in rows]
    return sorted(checks, key=lambda row: (row.deployment, row.date, KINDS.index(row.kind), row.check_name, row.origin))


def read_rejects(
    connection: duckdb.DuckDBPyConnection, deployment: str | None = None, date: dt.date | None = None
) -> list[tuple[str, str, int]]:
    """Deployment, reason and number of rejected records, most frequent reason first."""
    return connection.execute(
        f"SELECT deployment, reason, count(*) FROM rejects WHERE {_CHOSEN} GROUP BY ALL ORDER BY 1, 3 DESC, 2",
        _parameters(deployment, date),
    ).fetchall()


_CHOSEN = "coalesce(deployment = $deployment, $deployment IS NULL) AND coalesce(date = $date, $date IS NULL)"


def _parameters(deployment: str | None, date: dt.date | None) -> dict[str, str | dt.date | None]:
    return {"deployment": deployment, "date": date}


def render(checks: Sequence[Check], rejects: Iterable[tuple[str, str, int]], width: int) -> Iterator[str]:
    """The lines of the table: one block for each deployment and date, then the rejected records."""
    if not checks:
        yield "There is nothing to check in this selection."
    for (deployment, date), rows in groupby(checks, key=lambda row: (row.deployment, row.date)):
        yield from _block(deployment, date, list(rows), width)
        yield ""
    for deployment, reasons in groupby(rejects, key=lambda row: row[0]):
        yield from _rejected(deployment, [(reason, count) for _, reason, count in reasons], width)
        yield ""
    yield _sum(checks)


def _block(deployment: str, date: dt.date, rows: Sequence[Check], width: int) -> Iterator[str]:
    yield _plain(f"{deployment}, {date}")
    for (kind, _, _), of_check in groupby(rows, key=lambda row: (row.kind, row.check_name, row.origin)):
        if kind == "holds":
            continue
        group = list(of_check)
        for row in group[:LINES_OF_ONE_CHECK]:
            yield from _wrapped(f"  {kind:<8} ", _sentence(row), width)
        if len(group) > LINES_OF_ONE_CHECK:
            yield f"{'':11}… and {len(group) - LINES_OF_ONE_CHECK} more of {group[0].check_name}."
    holding = sum(row.verdict == "ok" for row in rows)
    yield f"  {holding} of {len(rows)} identities hold."


def _sentence(row: Check) -> str:
    place = [] if row.instance in (None, row.deployment) else [str(row.instance)]
    if row.engine is not None:
        place.append(f"engine {row.engine}")
    where = f" [{row.origin}{''.join(f', {part}' for part in place)}]"
    numbers = f" Expected {_number(row.expected)}, found {_number(row.found)}." if row.kind == "fault" else ""
    return f"{row.check_name}{where}: {row.detail or ''}{numbers}"


def _rejected(deployment: str, reasons: Sequence[tuple[str, int]], width: int) -> Iterator[str]:
    total = sum(count for _, count in reasons)
    yield _plain(f"{deployment}: {_counted(total, 'record')} rejected (table rejects)")
    for reason, count in reasons[:REASONS]:
        yield from _wrapped("  ", f"{count:,} × {reason}", width)
    if len(reasons) > REASONS:
        yield f"  … and {len(reasons) - REASONS} more reasons."


def _sum(checks: Sequence[Check]) -> str:
    kinds = Counter(row.kind for row in checks)
    holding = kinds["holds"] + kinds["finding"]
    return (
        f"{_counted(kinds['fault'], 'fault')}, {_counted(kinds['finding'], 'finding')}; "
        f"{holding:,} of {len(checks):,} identities hold, {kinds['no data']:,} could not be checked."
    )


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _wrapped(head: str, text: str, width: int) -> Iterator[str]:
    yield from textwrap.wrap(
        _plain(text), width, initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False
    )


def _plain(text: str) -> str:
    """Text from a log as one line that a terminal shows and does not obey."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def _number(value: float | None) -> str:
    if value is None:
        return "nothing"
    return f"{value:,.0f}" if value == round(value) else f"{value:,.6f}"
