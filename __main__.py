"""The command line: finds a command, loads its room only when it is used, and turns every error into one sentence."""

from __future__ import annotations

import gc
import importlib
import io
import logging
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from . import logs
from .schemas.errors import SpecledgerError, is_interrupt
from .version import __version__

PROGRAM = "specledger"

COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("demo.commands:demo", "Run the whole pipeline on bundled real logs, ending in a report."),
    "ingest": ("ingest.commands:ingest", "Read scrapes, logs and client exports into the warehouse."),
    "scrape": ("ingest.scrape_command:scrape", "Collect /metrics of servers into files that ingest reads."),
    "transform": ("transforms.commands:transform", "Compute cells and marts of what changed since the last run."),
    "check": ("transforms.check_command:check", "Show data quality and reconciliation."),
    "report": ("reports.commands:report", "Compare a candidate with a baseline and judge the gates."),
    "chart": (
        "reports.chart_command:chart",
        "Draw one chart of a finished report, or of a comparison in the warehouse.",
    ),
    "recommend": (
        "reports.recommend_command:recommend_command",
        "Recommend draft lengths by load, with their evidence.",
    ),
    "estimate": (
        "reports.estimate_command:estimate_command",
        "Estimate what speculation gains from given numbers, no logs needed.",
    ),
    "init": ("nightly.init_command:init", "Write a commented configuration for the inputs in a folder."),
    "nightly": ("nightly.commands:nightly", "Ingest, transform and judge a night, and keep its reports."),
    "status": ("nightly.status_command:status", "Show what a warehouse holds, how fresh it is, and what is late."),
    "housekeeping": (
        "nightly.housekeeping_command:housekeeping",
        "Put small files together and remove rows that have had their time.",
    ),
    "sql": ("transforms.commands:sql", "Ask the warehouse a question in SQL."),
    "tables": (
        "transforms.dictionary_commands:tables",
        "List the tables of a warehouse: what one row of each is.",
    ),
    "describe": (
        "transforms.dictionary_commands:describe",
        "Describe the columns of a table: type, unit and meaning.",
    ),
    "explain": (
        "transforms.dictionary_commands:explain",
        "Explain a measure: definition, formula, SQL, origins and traps.",
    ),
}
"""Where each command lives (module inside the package, function) and its line in ``--help``, in order of use."""

COLLECT = (100_000, 20, 20)
"""New objects after which Python looks for cycles, and how often it looks at older ones.

By default it looks at all of them again and again while many small ones are made, and finds next to nothing.
"""

EXIT_USAGE = 2
EXIT_FAILED = 4
EXIT_INTERRUPTED = 130
EXIT_READER_GONE = 141
EXIT_TERMINATED = 143
INTERRUPTED = "Interrupted."
EXIT_CODES = {
    0: "Done, and no gate failed.",
    1: "A gate failed; warnings and acknowledged regressions do not count.",
    EXIT_USAGE: "Wrong use: an option, path, expression or configuration that cannot be used, or an empty warehouse.",
    3: "A gate marked `required` has no answer, and none failed.",
    EXIT_FAILED: "The run itself failed: a disk, a server, a lock, rejects under `--strict`, or a fault of specledger.",
    EXIT_INTERRUPTED: "Interrupted from the keyboard.",
    EXIT_READER_GONE: "Whoever read the output closed it.",
    EXIT_TERMINATED: "Ended by SIGTERM, as a shell tells it; for `specledger scrape` that is an ordinary end.",
}
"""What an exit code says."""


class _ReaderGone(Exception):
    """Whoever read our output has closed it: there is nobody left to tell."""


def _log_format(context: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None or context.parent is None:
        logs.configure(value or "text")


LOG_FORMAT = click.Option(
    ["--log-format"],
    type=click.Choice(["text", "json"]),
    expose_value=False,
    is_eager=True,
    callback=_log_format,
    help="How the program's own log is written to standard error.  [default: text]",
)
"""Accepted before and after the name of a command."""


class LazyGroup(click.Group):
    """The group of all commands: imports a command's module when the command is used, and ends every run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, function = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(f"{__package__}.{module}"), function)
        if LOG_FORMAT not in command.params:
            command.params.append(LOG_FORMAT)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, sentence) for name, (_, sentence) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError as error:
            raise _ReaderGone from error
        return result

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = PROGRAM,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        gc.set_threshold(*COLLECT)
        run = super().main
        code = _run(lambda: run(args, prog_name, complete_var, standalone_mode=False, **extra))
        if standalone_mode:
            sys.exit(code)
        return code


def _run(command: Callable[[], Any]) -> int:
    """The exit code of a command; what went wrong is said in one sentence on standard error."""
    log = logging.getLogger(logs.ROOT)
    try:
        result = command()
    except _ReaderGone:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_READER_GONE
    except (SpecledgerError, click.ClickException, click.Abort, OSError) as error:
        sentence, code = _explain(error)
        log.error(sentence)
        return code
    except Exception as error:
        if _interrupted(error):
            log.error(INTERRUPTED)
            return EXIT_INTERRUPTED
        # Exit code 1 says that a gate failed, so a crash must not end with Python's own 1.
        if outside := _explain_duckdb(error):
            log.error(outside)
        else:
            log.exception("This is a fault in specledger, please report it:")
        return EXIT_FAILED
    return result if isinstance(result, int) else 0


def _explain(error: SpecledgerError | click.ClickException | click.Abort | OSError) -> tuple[str, int]:
    """What to say of an error, and the exit code it ends with."""
    if isinstance(error, SpecledgerError):
        return str(error), error.exit_code
    if isinstance(error, click.ClickException):
        return _usage(error), EXIT_USAGE
    if isinstance(error, click.Abort):
        return INTERRUPTED, EXIT_INTERRUPTED
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}.", EXIT_FAILED


def _interrupted(error: BaseException | None) -> bool:
    """Whether an error goes back to a query that Ctrl-C stopped."""
    while error is not None:
        if is_interrupt(error):
            return True
        error = error.__cause__ or error.__context__
    return False


OUTSIDE_DUCKDB = frozenset({"IOException", "OutOfMemoryException", "TransactionException"})
"""Errors of DuckDB whose cause is a disk, a file or memory, not a query."""


def _explain_duckdb(error: Exception) -> str | None:
    """What to say of an error of DuckDB that is no fault of ours; it is told by name, for DuckDB may not be loaded."""
    kind = type(error)
    if "duckdb" not in kind.__module__:
        return None
    from .schemas.warehouse import damage_in

    if said := damage_in(error):
        return said
    if kind.__name__ == "Error":  # what the reader of Parquet's own data throws, which knows no file
        return (
            f"A Parquet file is damaged ({str(error).splitlines()[0].strip(' :.')}): run specledger transform --force, "
            "which writes all anew that was computed; if that fails too, restore the warehouse from a backup."
        )
    if kind.__name__ not in OUTSIDE_DUCKDB:
        return None
    return f"DuckDB could not go on: {str(error).splitlines()[0].rstrip('.')}; run the same again once that is mended."


def _usage(error: click.ClickException) -> str:
    message = error.format_message()
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None or isinstance(error, click.exceptions.NoArgsIsHelpError):
        return message
    return f"{message} See '{context.command_path} --help'."


@click.group(
    PROGRAM,
    cls=LazyGroup,
    params=[LOG_FORMAT],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name=PROGRAM, message="%(prog)s %(version)s")
def cli() -> None:
    """An honest ledger of speculative decoding, from what vLLM servers already emit."""


def main() -> None:
    """Run the command line; ends the process with the exit code of the command.

    Whatever it writes is private to the user: logs name people's deployments, requests and mistakes.
    """
    os.umask(0o077)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal or a log of ASCII cannot show every name: its escape is better than no answer.
            stream.reconfigure(errors="backslashreplace")
    cli.main()


if __name__ == "__main__":
    main()
