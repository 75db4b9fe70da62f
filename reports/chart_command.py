"""The command ``chart``: one chart of a report as a picture or a page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from ..schemas.errors import UsageError
from . import model
from .charts import CHARTS

KINDS = (".png", ".svg", ".html", ".json")


@click.command()
@click.argument("name", type=click.Choice(list(CHARTS)), metavar="NAME")
@click.option(
    "--report",
    "source",
    type=click.Path(path_type=Path),
    required=True,
    metavar="PATH",
    help="A report.json, or the folder that a report was written to.",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="Picture (.png, .svg), page (.html) or Vega-Lite specification (.json).",
)
@click.option("--dark", is_flag=True, help="For a dark background.")
def chart(name: str, source: Path, out: Path, dark: bool) -> None:
    """Draw one chart of a report.

    \b
    Charts: {names}
    """
    from . import html, pictures
    from .writers import publish

    kind = out.suffix.lower()
    if kind not in KINDS:
        raise UsageError(f"{out}: the name must end in one of {', '.join(KINDS)}.")
    report = read_report(source)
    chosen = CHARTS[name]
    rows = chosen.rows(report)
    if not rows:
        raise UsageError(f"{source} has nothing to draw for {name}: {chosen.missing}")
    if kind == ".html":
        content = html.chart_page(chosen, rows, dark=dark).encode()
    else:
        content = _drawn(kind, pictures.titled(chosen, rows, dark=dark))
    publish(out, content)
    click.echo(str(out))


chart.help = (chart.help or "").replace("{names}", ", ".join(CHARTS))


def _drawn(kind: str, spec: dict[str, Any]) -> bytes:
    from . import pictures

    if kind == ".json":
        return json.dumps(spec, indent=2).encode()
    return pictures.png(spec) if kind == ".png" else pictures.svg(spec)


def read_report(source: Path) -> model.Report:
    """The report of a report.json or of the folder that holds it; UsageError if there is none."""
    path = source / "report.json" if source.is_dir() else source
    try:
        return model.from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror or error}; give a report.json or its folder.") from error
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path} is not a report of this version: write it again with `specledger report`.") from error
