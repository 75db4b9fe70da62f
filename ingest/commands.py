"""``specledger ingest``."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from ..schemas.engine import EngineChoice
from ..schemas.errors import RejectedInput
from ..schemas.options import config_option, engine_option, written_warehouse_option
from ..schemas.spark import cluster_of
from ..schemas.warehouse import Warehouse
from .formats import FORMATS
from .report import IngestReport
from .run import DEFAULT_DEPLOYMENT
from .run import ingest as run_ingest

logger = logging.getLogger(__name__)

REJECTS_SHOWN = 5
_KINDS = "\n".join(f"{'  ' + entry.name:<14}{entry.title}" for entry in FORMATS.values())
_HELP = f"""Read scrapes, logs and client exports into the warehouse.

PATH is a file, a folder, a glob, - for standard input, the URL of objects in a store (s3://, gs://, az://), or of a
Prometheus server. Plain, gzip and zstd are told apart by content, and so is the kind of input:

\b
{_KINDS}

What cannot be read is kept as a row of the table rejects; what the warehouse holds already changes nothing.
"""


def _labels(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    labels = {}
    for text in values:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{text!r} is not of the form KEY=VALUE.")
        labels[key] = value
    return labels


@click.command("ingest", help=_HELP)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--deployment", default=DEFAULT_DEPLOYMENT, show_default=True, metavar="NAME", help="What is deployed.")
@click.option("--instance", metavar="NAME", help="Which server of it.  [default: the deployment's name]")
@click.option(
    "--label",
    "labels",
    multiple=True,
    callback=_labels,
    metavar="KEY=VALUE",
    help="A fact about the deployment, for comparisons; the latest value holds. Repeatable.",
)
@click.option("--format", "kind", type=click.Choice(list(FORMATS)), help="Kind of input, where content does not tell.")
@click.option("--year", type=int, metavar="YEAR", help="Year of the first record of a log that prints none.")
@click.option("--timezone", metavar="ZONE", help="Zone of log times, such as Europe/Berlin.  [default: UTC]")
@click.option("--hash-text", is_flag=True, help="Store hashes of prompts and outputs; text is never stored.")
@click.option("--strict", is_flag=True, help="Exit with 4 if anything new was rejected.")
@written_warehouse_option
@config_option
@engine_option
def ingest(
    paths: tuple[str, ...],
    deployment: str,
    instance: str | None,
    labels: dict[str, str],
    kind: str | None,
    year: int | None,
    timezone: str | None,
    hash_text: bool,
    strict: bool,
    warehouse: str,
    config: Path | None,
    engine: EngineChoice,
) -> None:
    del config  # only its [engine] bears on this
    with cluster_of(engine, Warehouse(warehouse)) as cluster:
        report = run_ingest(
            warehouse,
            paths,
            deployment=deployment,
            instance=instance,
            labels=labels,
            format=kind,
            year=year,
            timezone=timezone,
            hash_text=hash_text,
            cluster=cluster,
        )
    _say(report)
    if strict and report.rejects:
        raise RejectedInput(f"{_count(report.rejects, 'record')} rejected: the table rejects says where and why.")


def _say(report: IngestReport) -> None:
    """A line a format and a note, on a terminal or in the JSON log; rejects are told in any case."""
    for name, counts in report.formats.items():
        parts = [_count(counts.files, "input"), _count(counts.records - counts.rejects, "record")]
        if counts.rejects:
            parts.append(f"{counts.rejects:,} rejected")
        if counts.duplicates:
            parts.append(f"{_count(counts.duplicates, 'row')} held already")
        if counts.known:
            parts.append(f"{_count(counts.known, 'input')} known")
        logger.info("%s: %s", name, ", ".join(parts))
    for note in report.notes:
        logger.info(note)
    for source, reason in report.rejected[:REJECTS_SHOWN]:
        logger.warning("%s: %s", source, reason)
    if len(report.rejected) > REJECTS_SHOWN:
        logger.warning(
            "… and rejects in %d more inputs; the table rejects has all.", len(report.rejected) - REJECTS_SHOWN
        )
    if not report.formats:
        logger.warning("Nothing was found to read.")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
