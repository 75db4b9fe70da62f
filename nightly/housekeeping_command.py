"""``specledger housekeeping``."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    default=Path("specledger.toml"),
    show_default=True,
    metavar="FILE",
    help="Its [housekeeping] says what is put together and what is removed.",
)
@click.option("--upgrade", is_flag=True, help="Bring a warehouse of an older specledger up to date.")
def housekeeping(config: Path, upgrade: bool) -> None:
    """Put small files together and remove rows that have had their time.

    A nightly run does the same at its end. Readers and other runs need not stop.
    """
    from ..schemas.warehouse import Warehouse
    from ..schemas.working_copy import opened
    from .config import load
    from .housekeeping import run
    from .upgrade import upgrade as bring_up_to_date

    loaded = load(config)
    with opened(loaded.warehouse, writing=True) as root:
        warehouse = Warehouse(root)
        if upgrade:
            before, after = bring_up_to_date(warehouse)
            click.echo(f"Layout {before}, now {after}." if before != after else f"Layout {after} is the present one.")
        warehouse.require()
        done = run(warehouse, loaded.housekeeping, loaded.settings)
    click.echo(f"{done['compacted_files']:,} files put together, {done['removed_partitions']:,} partitions removed.")
