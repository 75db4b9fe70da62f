"""The command ``chart``: one chart of a report as a picture or a page."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import click

from ..schemas.errors import UsageError
from ..schemas.kept import settings_to_read
from ..schemas.options import config_option, warehouse_option_beside
from ..schemas.published import published
from . import model
from .charts import CHARTS

WIDTH = max(map(len, CHARTS)) + 1
HELP = "Draw one chart of a finished report, or of a comparison in the warehouse.\n\n\b\nCharts:\n" + "\n".join(
    f"{name:<{WIDTH}}{described.title}" for name, described in CHARTS.items()
)
KINDS = (".png", ".svg", ".html", ".json")


@click.command(help=HELP)
@click.argument("name", type=click.Choice(list(CHARTS)), metavar="NAME")
@click.option(
    "--report",
    "source",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="A report.json, or the folder that a report was written to.",
)
@click.option("--baseline", metavar="EXPR", help="Without a report: what is held against, as in `report`.")
@click.option("--candidate", metavar="EXPR", help="Without a report: what is looked at, as in `report`.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="Picture (.png, .svg), page (.html) or Vega-Lite specification (.json).",
)
@click.option("--dark", is_flag=True, help="For a dark background.")
@config_option
@warehouse_option_beside("baseline")
def chart(
    name: str,
    source: Path | None,
    baseline: str | None,
    candidate: str | None,
    out: Path,
    dark: bool,
    config: Path | None,
    warehouse: str,
) -> None:
    """Write the chart and print where it is."""
    from . import html, pictures
    from .writers import publish, read

    kind = out.suffix.lower()
    if kind not in KINDS:
        raise UsageError(f"{out}: the name must end in one of {', '.join(KINDS)}.")
    if source is not None:
        report = read(source)
    elif baseline is not None and candidate is not None:
        report = _compared(warehouse, baseline, candidate, config)
    else:
        raise UsageError("Give --report, or --baseline and --candidate.")
    chosen = CHARTS[name]
    rows = chosen.rows(report)
    if not rows:
        raise UsageError(f"There is nothing to draw for {name}: {chosen.missing}")
    if kind == ".html":
        content = html.chart_page(chosen, rows, dark=dark).encode()
    else:
        content = _drawn(kind, pictures.titled(chosen, rows, dark=dark))
    publish(out, content)
    click.echo(str(out))


def _compared(warehouse: str, baseline: str, candidate: str, config: Path | None) -> model.Report:
    from .build import Question, build

    house = published(warehouse)
    question = Question(baseline, candidate, settings=settings_to_read(house, config))
    return build(house, question, dt.datetime.now(dt.UTC).replace(tzinfo=None))


def _drawn(kind: str, spec: dict[str, Any]) -> bytes:
    from . import pictures

    if kind == ".json":
        return json.dumps(spec, indent=2).encode()
    return pictures.png(spec) if kind == ".png" else pictures.svg(spec)
