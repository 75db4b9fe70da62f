"""The reference pages, written from the declarations: ``python -m tests.reference`` writes them anew."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from specledger import __main__ as program
from specledger.nightly import config
from specledger.reports import acknowledge, gates, json_schema
from specledger.schemas import config as settings
from specledger.schemas import engine
from specledger.schemas.errors import SpecledgerError
from specledger.schemas.measures import MEASURES
from specledger.schemas.table import Table
from specledger.transforms import dictionary

ROOMS = ("ingest", "nightly", "reports", "schemas", "transforms")
FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"
HEAD = "<!-- Written by python -m tests.reference; change the declarations instead. -->\n\n"
KINDS = {
    "mart": ("marts", "What people query and reports print, one deployment and date at a time."),
    "raw": ("raw", "What ingest writes, one fact a row."),
    "cells": ("cells", "Whole numbers that add up over time, engines and machines; all that is compared is a cell."),
    "staging": ("staging", "Queries between raw rows and cells; views without files."),
}
TOML: dict[str, tuple[str, Mapping[str, str]]] = {
    "at the top": ("specledger.toml", settings.KNOWN_TABLES),
    "[[source]]": ("specledger.toml", config.SOURCE),
    "[[report]]": ("specledger.toml", config.REPORT),
    "[bands]": ("specledger.toml, and every --config", settings.BANDS),
    "[goodput]": ("specledger.toml, and every --config", settings.GOODPUT),
    "[engine]": ("specledger.toml, and every --config", engine.KEYS),
    "[hook]": ("specledger.toml", config.HOOK),
    "[housekeeping]": ("specledger.toml", config.HOUSEKEEPING),
    "[housekeeping.keep_days]": ("specledger.toml", config.KEEP_DAYS),
    "at the top of a gate file": ("--gates", gates.TOP_KEYS),
    "[[gate]]": ("--gates", gates.KEYS),
    "[[acknowledge]]": ("--acknowledge", acknowledge.KEYS),
}
"""Table of a TOML file → where it can stand, and its keys."""


def commands() -> Iterator[str]:
    """Every command with its options, as its help says them."""
    yield "# Commands\n\nAll commands take `--log-format` and `--help`.\n"
    for name in program.COMMANDS:
        command = program.cli.get_command(click.Context(program.cli), name)
        assert command is not None
        context = click.Context(command, info_name=f"specledger {name}")
        yield f"## {name}\n\n```text\n{command.get_usage(context).removeprefix('Usage: ')}\n```\n"
        yield from _help(command.help or "")
        options = [one for one in command.params if isinstance(one, click.Option) and one is not program.LOG_FORMAT]
        if options:
            yield _table(("option", "meaning"), (_option(one, context) for one in options))


def _help(text: str) -> Iterator[str]:
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith("\b\n"):
            shown = textwrap.dedent(paragraph.removeprefix("\b\n"))
            yield f"```text\n{shown}\n```\n"
        else:
            yield f"{paragraph}\n"


def _option(option: click.Option, context: click.Context) -> tuple[str, str]:
    record = option.get_help_record(context)
    assert record is not None
    return f"`{record[0]}`", record[1].replace("  [", " [")


def configuration() -> Iterator[str]:
    """Every key of every TOML file."""
    yield "# Configuration\n"
    yield "`specledger init` writes a first `specledger.toml`; [gates.md](../gates.md) shows the other files.\n"
    for place, (file, keys) in TOML.items():
        yield f"## {place}\n\nIn {file}.\n"
        yield _table(("key", "meaning"), ((f"`{key}`", sentence) for key, sentence in keys.items()))


def tables() -> Iterator[str]:
    """Which tables there are."""
    yield "# Tables\n"
    for kind, (page, sentence) in KINDS.items():
        yield f"## [{page.capitalize()}]({page}.md)\n\n{sentence}\n"
        rows = (table for table in dictionary.ALL.values() if table.kind == kind)
        yield _table(
            ("table", "one row per"), ((f"[{table.name}]({page}.md#{table.name})", table.grain) for table in rows)
        )


def columns(kind: str) -> Iterator[str]:
    """Every column of the tables of one kind."""
    yield f"# {KINDS[kind][0].capitalize()}\n\n{KINDS[kind][1]}\n"
    for table in dictionary.ALL.values():
        if table.kind == kind:
            yield from _columns(table)


def _columns(table: Table) -> Iterator[str]:
    yield f"## {table.name}\n\nOne row per {table.grain}.\n"
    if table.reads:
        yield f"Formed from {', '.join(f'`{name}`' for name in table.reads)}.\n"
    yield _table(
        ("column", "type", "unit", "meaning"),
        ((f"`{column.name}`", f"`{column.type}`", column.unit or "", column.doc) for column in table.columns),
    )


def measures() -> Iterator[str]:
    """Every figure that can be compared and gated."""
    yield "# Measures\n\n`specledger explain MEASURE` shows the same on the command line.\n"
    for measure in MEASURES.values():
        told = dictionary.explanation(measure)
        yield f"## {measure.name}\n\n{measure.sentence}\n"
        yield f"`{measure.formula}`, in {measure.unit}; {told['better']} is better.\n"
        yield f"Gate {measure.gate}, mart `{measure.mart}`.\n"
        yield f"From {', '.join(measure.origins)}, the first that a comparison has on both sides.\n"
        yield "".join(f"- {trap}\n" for trap in measure.traps)
        for origin, query in told["sql"].items():
            yield f"```sql\n-- {'from its mart' if origin == 'mart' else f'from {origin}'}\n{query}\n```\n"


def default_gates() -> Iterator[str]:
    """Every gate that is asked without a gate file."""
    yield "# Gates\n\nWhat is asked without a gate file; [gates.md](../gates.md) says how a file changes them.\n"
    yield _table(
        ("gate", "measure", "kind", "allowed", "severity", "required", "where"),
        (
            (
                gate.gate,
                f"`{gate.measure}`",
                gate.kind,
                _allowed(gate),
                gate.severity,
                "yes" if gate.required else "no",
                "overall and by load band" if gate.banded else "overall",
            )
            for gate in gates.DEFAULT_GATES
        ),
    )


def _allowed(gate: gates.Gate) -> str:
    if gate.tolerance is None:
        return "by definition"
    match gate.kind:
        case "limit":
            return f"at most {gate.tolerance:g}"
        case "difference":
            return f"{gate.tolerance:+g}"
        case _:
            return f"{gate.tolerance:+.0%}"


def exit_codes() -> Iterator[str]:
    """What a process says when it ends, and the errors it ends with."""
    yield "# Exit codes\n"
    yield _table(("code", "meaning"), ((str(code), sentence) for code, sentence in program.EXIT_CODES.items()))
    yield "## Errors\n\nEach is one sentence on standard error: what, where, what to do.\n"
    yield _table(
        ("error", "code", "meaning"),
        ((f"`{kind.__name__}`", str(kind.exit_code), inspect.getdoc(kind) or "") for kind in _every_error()),
    )


def _every_error() -> list[type[SpecledgerError]]:
    """Every kind of error of the package, whichever of its modules this process has loaded."""
    for room in ROOMS:
        package = importlib.import_module(f"specledger.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    return list(_errors(SpecledgerError))


def _errors(kind: type[SpecledgerError]) -> Iterator[type[SpecledgerError]]:
    yield kind
    for under in sorted(kind.__subclasses__(), key=lambda under: under.__name__):
        if under.__module__.startswith("specledger."):
            yield from _errors(under)


def report() -> Iterator[str]:
    """The form of report.json."""
    schema = json_schema.schema()
    version = schema["properties"]["schema_version"]["const"]
    yield f"# report.json\n\nVersion {version}; `reports/report.schema.json` is the JSON Schema.\n"
    yield f"## Report\n\n{schema['description']}\n"
    yield _table(("field", "type", "meaning"), _fields(schema))
    for name, definition in schema["$defs"].items():
        yield f"## {name}\n\n{definition['description']}\n"
        yield _table(("field", "type", "meaning"), _fields(definition))


def _fields(definition: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for name, described in definition["properties"].items():
        yield f"`{name}`", _kind(described), described.get("description", "")


def _kind(described: Mapping[str, Any]) -> str:
    if "$ref" in described:
        name = described["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in described:
        return ", ".join(f"`{value}`" for value in described["enum"])
    if "const" in described:
        return f"`{described['const']}`"
    if "anyOf" in described:
        return " or ".join(_kind(one) for one in described["anyOf"])
    if "prefixItems" in described:
        return f"array of {len(described['prefixItems'])}: {', '.join(_kind(one) for one in described['prefixItems'])}"
    if described["type"] == "array":
        return f"array of {_kind(described['items'])}"
    if described["type"] == "object":
        return f"object of {_kind(described['additionalProperties'])}"
    return str(described["type"])


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(
        f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines
    )


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "commands": commands,
    "configuration": configuration,
    "tables": tables,
    **{page: lambda kind=kind: columns(kind) for kind, (page, _) in KINDS.items()},  # type: ignore[misc]
    "measures": measures,
    "gates": default_gates,
    "exit-codes": exit_codes,
    "report": report,
}


def text(page: str) -> str:
    """The page as it should be."""
    return HEAD + "\n".join(PAGES[page]())


def main() -> None:
    """Write every page."""
    FOLDER.mkdir(exist_ok=True)
    for page in PAGES:
        (FOLDER / f"{page}.md").write_text(text(page), encoding="utf-8")
        sys.stdout.write(f"docs/reference/{page}.md\n")


if __name__ == "__main__":
    main()
