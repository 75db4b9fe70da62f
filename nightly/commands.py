"""``specledger nightly``."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path

import click

from ..schemas.errors import UsageError
from ..schemas.options import engine_name_option

MOST_DAYS = 3_660
"""Ten years: more is a slip of the keyboard."""


@click.command()
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    default=Path("specledger.toml"),
    show_default=True,
    metavar="FILE",
    help="What to read, what to compare and where to write; specledger init writes one.",
)
@click.option("--date", metavar="YYYY-MM-DD", help="The night to judge, a UTC date.  [default: yesterday]")
@click.option("--backfill", metavar="FIRST..LAST", help="Judge every night from one date to another.")
@click.option("--check-config", is_flag=True, help="Only check the configuration.")
@engine_name_option
def nightly(config: Path, date: str | None, backfill: str | None, check_config: bool, engine: str | None) -> int:
    """Ingest, transform and judge a night, and keep its reports.

    Whatever happened before, to files or to earlier runs, the next run puts it right: it can be started at any time,
    again, and beside others.

    Exit codes: 0 no gate failed; 1 a gate failed; 2 wrong use; 3 a required gate has no answer; 4 the run failed.
    """
    from ..reports.format import plural
    from .config import load
    from .run import run

    dates = _dates(date, backfill)
    loaded = load(config)
    if engine is not None:
        loaded = replace(loaded, engine=replace(loaded.engine, name=engine))
    if check_config:
        sources, reports = plural(len(loaded.sources), "source"), plural(len(loaded.comparisons), "report")
        click.echo(f"{config} can be used: {sources}, {reports}.")
        return 0
    return run(loaded, dates)


def _dates(date: str | None, backfill: str | None) -> list[dt.date]:
    if date is not None and backfill is not None:
        raise UsageError("Give either --date or --backfill.")
    if backfill is None:
        return [_date(date) if date else dt.datetime.now(dt.UTC).date() - dt.timedelta(1)]
    first, dots, last = backfill.partition("..")
    if not dots:
        raise UsageError(f"--backfill {backfill!r} is not understood: write 2026-11-01..2026-11-30.")
    days = (_date(last) - _date(first)).days + 1
    if not 1 <= days <= MOST_DAYS:
        raise UsageError(f"--backfill {backfill!r} must rise, and span at most {MOST_DAYS:,} days.")
    return [_date(first) + dt.timedelta(n) for n in range(days)]


def _date(text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"{text!r} is not a date: write it as 2026-11-30.") from error
