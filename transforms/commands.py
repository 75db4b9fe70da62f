"""``specledger transform`` and ``specledger sql``."""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path
from typing import TextIO

import click

from ..schemas.engine import EngineChoice
from ..schemas.errors import UsageError
from ..schemas.kept import settings_to_compute
from ..schemas.options import config_option, engine_option, format_option, warehouse_option, written_warehouse_option
from ..schemas.published import published
from ..schemas.spark import cluster_of
from ..schemas.warehouse import Warehouse


@click.command()
@written_warehouse_option
@config_option
@click.option(
    "--date",
    "dates",
    type=click.DateTime(["%Y-%m-%d"]),
    multiple=True,
    metavar="YYYY-MM-DD",
    help="Only this UTC date; can be given more than once.",
)
@click.option("--force", is_flag=True, help="Compute again what has not changed.")
@engine_option
def transform(
    warehouse: str, config: Path | None, dates: tuple[dt.datetime, ...], force: bool, engine: EngineChoice
) -> None:
    """Compute cells and marts of what changed since the last run.

    The settings of --config stay with the warehouse: later runs and all reports use them until another file is given.
    """
    from .runner import run

    house = Warehouse(warehouse).require()
    settings = settings_to_compute(house, config)
    with cluster_of(engine, house) as cluster:
        run(house, settings, [date.date() for date in dates] or None, force, cluster=cluster)


@click.command()
@warehouse_option
@config_option
@click.argument("query", required=False)
@click.option("--file", type=click.File(encoding="utf-8"), help="Read the query from here; - is standard input.")
@format_option("table", "csv", "json", "parquet")
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write the answer to this file."
)
@click.option("--param", "params", multiple=True, metavar="NAME=VALUE", help="Value of $NAME in the query.")
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="Give up after this time."
)
@click.option("--memory", metavar="SIZE", help="Use no more memory than this, such as 4GB.  [default: most of it]")
def sql(
    warehouse: str,
    config: Path | None,
    query: str | None,
    file: TextIO | None,
    form: str,
    out: Path | None,
    params: tuple[str, ...],
    timeout: float | None,
    memory: str | None,
) -> None:
    """Ask the warehouse a question in SQL.

    QUERY is one SELECT over the raw, staging, cell and mart tables. It can read nothing outside the warehouse and
    change nothing in it.
    """
    from . import answers
    from .ask import asked, parameter

    if form == "parquet" and out is None:
        raise UsageError("Parquet goes to a file: name it with --out.")
    if out is not None and not out.parent.is_dir():
        raise UsageError(f"The folder {out.parent} of --out does not exist: make it first.")
    house = published(warehouse).require()
    values = dict(parameter(text) for text in params)
    with asked(house, settings_to_compute(house, config), _question(query, file), values, timeout, memory) as answer:
        if out is None:
            answers.WRITERS[form](answer, sys.stdout)
        elif form == "parquet":
            answers.write_parquet(answer, out)
        else:
            with out.open("w", encoding="utf-8", newline="") as target:
                answers.WRITERS[form](answer, target)


def _question(query: str | None, file: TextIO | None) -> str:
    if query is not None and file is None:
        return query
    if file is not None and query is None:
        return file.read()
    raise UsageError("Give the query either as an argument or with --file.")
