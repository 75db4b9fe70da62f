"""The reference pages are those of the present program, and nothing that it has is missing in them."""

from __future__ import annotations

import click
import pytest

from specledger import __main__ as program
from specledger.nightly import config
from specledger.reports import gates
from specledger.schemas.measures import MEASURES
from specledger.transforms import dictionary
from tests import reference

pytestmark = pytest.mark.skipif(not reference.FOLDER.is_dir(), reason="the documentation is not part of the wheel")
EVERY_TABLE = pytest.mark.parametrize("table", dictionary.ALL.values(), ids=lambda table: table.name)


def page(name: str) -> str:
    return (reference.FOLDER / f"{name}.md").read_text(encoding="utf-8")


def section(name: str, heading: str) -> str:
    """One section of a page, as it lies in the repository."""
    (found,) = [part for part in page(name).split("\n## ")[1:] if part.partition("\n")[0] == heading]
    return found


@pytest.mark.parametrize("name", reference.PAGES)
def test_a_page_says_what_the_declarations_say(name: str) -> None:
    assert page(name) == reference.text(name), "run python -m tests.reference"


def test_there_is_no_page_that_nobody_writes() -> None:
    assert {path.stem for path in reference.FOLDER.glob("*")} == set(reference.PAGES)


@pytest.mark.parametrize("name", program.COMMANDS)
def test_every_command_and_option_is_documented(name: str) -> None:
    command = program.cli.get_command(click.Context(program.cli), name)
    assert command is not None
    told = section("commands", name)
    names = [one for option in command.params if isinstance(option, click.Option) for one in option.opts]
    assert [one for one in names if one not in told and one not in program.LOG_FORMAT.opts] == []


@EVERY_TABLE
def test_every_table_and_column_is_documented(table: dictionary.Table) -> None:
    assert f"[{table.name}](" in page("tables")
    told = section(reference.KINDS[table.kind][0], table.name)
    assert [name for name in table.names if f"| `{name}` |" not in told] == []


@pytest.mark.parametrize("name", MEASURES)
def test_every_measure_is_documented(name: str) -> None:
    told = section("measures", name)
    assert all(part in told for part in (MEASURES[name].formula, MEASURES[name].sentence, *MEASURES[name].traps))


def test_every_default_gate_is_documented() -> None:
    told = page("gates")
    assert [gate for gate in gates.DEFAULT_GATES if f"| {gate.gate} | `{gate.measure}` |" not in told] == []


@pytest.mark.parametrize("keys", [keys for _, keys in reference.TOML.values()], ids=list(reference.TOML))
def test_every_key_of_a_file_is_documented(keys: dict[str, str]) -> None:
    told = page("configuration")
    assert [key for key, sentence in keys.items() if f"| `{key}` | {sentence} |" not in told] == []


def test_every_table_of_the_configuration_has_its_keys() -> None:
    tables = {place.strip("[]") for place in reference.TOML if place.startswith("[")}
    single = {"warehouse", "out", "metrics"}
    assert set(config.KNOWN_TABLES) - single <= tables
