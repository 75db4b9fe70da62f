"""Command-line options that mean the same in every room."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

warehouse_option = click.option(
    "--warehouse",
    envvar="SPECLEDGER_WAREHOUSE",
    default="warehouse",
    show_default="./warehouse",
    show_envvar=True,
    metavar="DIR",
    help="Where the Parquet tables are.",
)
"""Passes ``warehouse: str``, a folder or an object-store prefix."""

config_option = click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="TOML file with [bands] and [goodput] settings.",
)
"""Passes ``config: Path | None``, for ``schemas.config.load_settings``."""


def format_option(*choices: str) -> Callable[[Any], Any]:
    """Passes ``form: str``, one of the choices; the first is the default."""
    return click.option(
        "--format",
        "form",
        type=click.Choice(choices),
        default=choices[0],
        show_default=True,
        help="How the answer is printed.",
    )
