"""Command-line options that mean the same in every room."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from .engine import ENGINES

Command = Callable[..., Any]


def warehouse_option(command: Command) -> Command:
    """Passes ``warehouse: str``, a folder; one that lies in an object store is read, in one published state."""
    return _warehouse(command, _read)


def written_warehouse_option(command: Command) -> Command:
    """Passes ``warehouse: str``, a folder; one that lies in an object store gets what was changed, at the end."""
    return _warehouse(command, _write)


def warehouse_option_beside(other: str) -> Callable[[Command], Command]:
    """As ``warehouse_option``, for a command that needs the warehouse only where another option is given."""

    def decorate(command: Command) -> Command:
        def run(command: Command, warehouse: str, options: dict[str, Any]) -> Any:
            if options[other] is None:
                return command(warehouse=warehouse, **options)
            return _read(command, warehouse, options)

        return _warehouse(command, run)

    return decorate


def _warehouse(command: Command, run: Callable[[Command, str, dict[str, Any]], Any]) -> Command:
    @functools.wraps(command)
    def opened(*, warehouse: str, **options: Any) -> Any:
        return run(command, warehouse, options)

    return click.option(
        "--warehouse",
        envvar="SPECLEDGER_WAREHOUSE",
        default="warehouse",
        show_default="./warehouse",
        show_envvar=True,
        metavar="PLACE",
        help="Where the Parquet tables are: a folder, or s3://, gs:// or az:// BUCKET/PREFIX.",
    )(opened)


def _read(command: Command, warehouse: str, options: dict[str, Any]) -> Any:
    from .working_copy import read

    return read(warehouse, lambda root: command(warehouse=str(root), **options))


def _write(command: Command, warehouse: str, options: dict[str, Any]) -> Any:
    from .working_copy import opened

    with opened(warehouse, writing=True) as root:
        return command(warehouse=str(root), **options)


config_option = click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="TOML file with [bands], [goodput] and [engine] settings.",
)
"""Passes ``config: Path | None``, for ``schemas.config.load_settings``."""


engine_name_option = click.option(
    "--engine",
    type=click.Choice(ENGINES),
    help="What computes: DuckDB on this machine, or the same on Spark.  [default: what [engine] says, else duckdb]",
)
"""Passes ``engine: str | None``, a name."""


def engine_option(command: Command) -> Command:
    """Passes ``engine: EngineChoice``; needs ``config: Path | None`` to be passed too, whose ``[engine]`` it is from."""

    @functools.wraps(command)
    def chosen(*, engine: str | None, config: Path | None, **options: Any) -> Any:
        from .engine import load_engine

        return command(engine=load_engine(config, engine), config=config, **options)

    return engine_name_option(chosen)


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
