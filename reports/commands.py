"""The command ``report``."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from ..schemas.errors import UsageError
from ..schemas.kept import settings_to_read
from ..schemas.options import config_option, warehouse_option


@click.command()
@click.option("--baseline", metavar="EXPR", help="SQL predicate over deployments and dates: what is held against.")
@click.option("--candidate", metavar="EXPR", help="SQL predicate over deployments and dates: what is judged.")
@click.option(
    "--gates", type=click.Path(path_type=Path), metavar="FILE", help="TOML file that changes the gates' defaults."
)
@click.option(
    "--acknowledge", type=click.Path(path_type=Path), metavar="FILE", help="TOML file of accepted regressions."
)
@click.option(
    "--grid",
    multiple=True,
    metavar="NAME=EXPR",
    help="Quantization x speculation: original, quantized, speculative and both.",
)
@click.option(
    "--history",
    is_flag=True,
    help="Write the page of all nights instead, beside the nightly reports that lie in DIR.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="Where report.html and its other forms go (index.html with --history).",
)
@config_option
@warehouse_option
def report(
    baseline: str | None,
    candidate: str | None,
    gates: Path | None,
    acknowledge: Path | None,
    grid: tuple[str, ...],
    history: bool,
    out: Path,
    config: Path | None,
    warehouse: str,
) -> int:
    """Compare a candidate with a baseline and judge the gates.

    A predicate is SQL over the columns of deployments, date and labels, for example
    "deployment = 'llama70b-fp8' and date >= '2026-11-20'" or "labels['quant'] = 'fp8'".

    With --history the page of all nights is written: the course of every deployment's measures (--candidate chooses
    some), and what the reports in the folders below DIR said, each with a link.

    Exit codes: 0 no gate failed; 1 a gate failed; 2 wrong use; 3 a required gate has no answer; 4 the run failed.
    """
    from ..schemas.published import published
    from . import acknowledge as acknowledgements
    from . import grid as grids
    from . import terminal, writers
    from .build import Question, build
    from .gates import load_gates

    if history:
        return _history(warehouse, out, config, candidate, [baseline, gates, acknowledge, *grid])
    cells = grids.parse(grid)
    if (baseline is None) != (candidate is None):
        raise UsageError("Give both --baseline and --candidate.")
    if baseline is None and not cells:
        raise UsageError("Give --baseline and --candidate, or the four --grid options.")
    house = published(warehouse)
    settings = settings_to_read(house, config)
    bands = [band.label for band in settings.load_bands]
    question = Question(
        baseline,
        candidate,
        cells,
        load_gates(gates, bands),
        acknowledgements.load(acknowledge, bands),
        settings,
    )
    answer = build(house, question, dt.datetime.now(dt.UTC).replace(tzinfo=None), meanwhile=writers.prepare)
    paths = writers.write_all(answer, out)
    terminal.show(answer, sys.stdout)
    click.echo(f"Report: {paths[0]}")
    return answer.exit_code


def _history(warehouse: str, out: Path, config: Path | None, where: str | None, others: Sequence[object]) -> int:
    from ..schemas.published import published
    from . import trend_page

    if any(others):
        raise UsageError("--history judges nothing: give --candidate at most.")
    house = published(warehouse)
    house.require()
    now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
    paths = trend_page.write(house, out, settings_to_read(house, config), now, where)
    click.echo(f"Nights: {paths[0]}")
    return 0
