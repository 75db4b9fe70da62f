"""``specledger init``."""

from __future__ import annotations

from pathlib import Path

import click

from ..schemas.errors import UsageError


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), metavar="FOLDER")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("specledger.toml"),
    show_default=True,
    metavar="FILE",
    help="Where the configuration goes.",
)
@click.option("--force", is_flag=True, help="Replace a file that is there.")
def init(folder: Path, out: Path, force: bool) -> None:
    """Write a commented configuration for the inputs in a folder.

    Every folder in it is taken for one deployment; or the folder itself, where one server's log or responses lie in it
    beside folders of its other files. Look the file over: it says what can be changed.
    """
    from ..reports.writers import publish
    from .template import find, render

    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder: give the one in which logs, scrapes or responses lie.")
    if out.exists() and not force:
        raise UsageError(f"{out} is there already: give another --out, or --force to replace it.")
    found = find(folder)
    if not found:
        raise UsageError(f"Nothing in {folder} is an input of specledger: see specledger ingest --help.")
    publish(out, render(found).encode())
    for one in found:
        kinds = ", ".join(f"{count:,} {name}" for name, count in sorted(one.formats.items()))
        click.echo(f"{one.deployment}: {kinds}{f', and {one.beyond:,} not looked at' if one.beyond else ''}")
    click.echo(f"Written: {out}. Try it: specledger nightly --config {out} --check-config")
