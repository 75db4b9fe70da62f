"""What the documentation shows is what the program does."""

from __future__ import annotations

import contextlib
import itertools
import re
import shlex
import tomllib
from pathlib import Path

import click
import pytest

from specledger import __main__ as program
from specledger.reports import acknowledge
from specledger.reports.gates import load_gates
from specledger.schemas.config import DEFAULT_SETTINGS, load_settings

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
pytestmark = pytest.mark.skipif(not (ROOT / "docs").is_dir(), reason="the documentation is not part of the wheel")


def blocks(language: str) -> list[tuple[str, str]]:
    pattern = re.compile(rf"^```{language}\n(.*?)^```", re.MULTILINE | re.DOTALL)
    return [(page.name, block) for page in PAGES for block in pattern.findall(page.read_text(encoding="utf-8"))]


def commands() -> list[str]:
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        found += re.findall(r"`(specledger [a-z][^`]*)`", text)
        for block in re.findall(r"^```(?:sh|console)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            lines = block.replace("\\\n", " ").splitlines()
            found += [line.removeprefix("$ ") for line in lines if line.removeprefix("$ ").startswith("specledger ")]
    return found


@pytest.mark.parametrize("shown", commands())
def test_every_command_shown_is_one_that_the_program_takes(shown: str) -> None:
    words = list(itertools.takewhile(lambda word: word not in {"|", ">"}, shlex.split(shown, comments=True)))[1:]
    command = program.cli.get_command(click.Context(program.cli), words[0])
    assert command is not None, f"there is no command {words[0]}"
    if words[1:] and not words[1].isupper():
        with contextlib.suppress(click.exceptions.Exit):  # --help
            command.make_context(words[0], words[1:])


@pytest.mark.parametrize(("page", "text"), [pair for pair in blocks("toml") if pair[0] == "gates.md"])
def test_every_file_of_gates_is_one_that_can_be_used(tmp_path: Path, page: str, text: str) -> None:
    path = tmp_path / page
    path.write_text(text)
    bands = [band.label for band in DEFAULT_SETTINGS.load_bands]
    if "acknowledge" in tomllib.loads(text):
        assert len(acknowledge.load(path, bands)) == 2
    elif "bands" in tomllib.loads(text):
        assert load_settings(path).goodput.given
    else:
        gates = load_gates(path, bands)
        assert [gate.measure for gate in gates.gates if gate.required] == ["tpot_ms", "gsm8k/exact_match"]


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_every_link_leads_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    broken = []
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)]*))?\)", text):
        path = page.parent / target if target else page
        heads = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE) if anchor else []
        names = {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}
        if not path.exists() or (anchor and anchor not in names):
            broken.append(f"{target}#{anchor}")
    assert broken == []


def test_every_page_is_reached_from_the_readme() -> None:
    seen, pending = set(), [ROOT / "README.md"]
    while pending:
        page = pending.pop()
        if page in seen:
            continue
        seen.add(page)
        links = re.findall(r"\]\((?!https?:)([^)#\s]+\.md)", page.read_text(encoding="utf-8"))
        pending += [(page.parent / link).resolve() for link in links]
    assert {page.resolve() for page in PAGES} - seen == set()
