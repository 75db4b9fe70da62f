"""What the documentation shows, and how it comes about: ``python -m tests.documented`` writes every answer anew.

In a page of ``docs``, the answer to an ``sql`` or ``python`` block is the ``text`` block after it, and a ``console``
block holds commands, each after ``$``, with what they print. A page that ingests something has a folder of its own; all
others ask the warehouse of six captures that ``build`` makes.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import zstandard
from click.testing import CliRunner

from specledger.__main__ import cli
from tests import captures
from tests.command_line import CommandLine

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
DEPLOYMENTS = {
    "plain": "baseline_nospec",
    "drafted": "spec_k3_draft",
    "dynamic": "dynamic_sd",
    "small-kv": "preemption",
    "two-engines": "dp2_one_api_server",
    "defaults": "default_flags",
}
"""Deployment in the documentation → capture."""
DAMAGED = '{"request_id": "a", "usage": \n{"nothing": 1}\n'
"""Two lines that a gateway might leave behind, for the table of rejects."""
COLUMNS = "100"
"""Width of the terminal of all shown output."""
_BLOCK = re.compile(r"^```(sql|python|console)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
_ORDER = re.compile(r"\bORDER BY ((?:(?!\bORDER BY\b).)*?)(\bLIMIT \d+\s*)?$", re.DOTALL)
_COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


def build(folder: Path) -> None:
    """Make ``folder/warehouse``, and links in the folder to what the pages name."""
    line = CommandLine(folder / "warehouse")
    for deployment, capture in DEPLOYMENTS.items():
        inputs = folder / "logs" / deployment
        inputs.mkdir(parents=True)
        for path in captures.inputs(capture):
            _lay(path, inputs / path.name)
        line.ok("ingest", inputs, "--deployment", deployment, "--label", "gpus=1", *captures.OPTIONS)
    damaged = folder / "logs" / "damaged.jsonl"
    damaged.write_text(DAMAGED)
    line.ok("ingest", damaged, "--deployment", "defaults")
    line.ok("transform")
    link(folder)


def link(folder: Path) -> None:
    """Let the folder hold the example inputs of the repository."""
    (folder / "tests").symlink_to(ROOT / "tests")


def _lay(path: Path, target: Path) -> None:
    """The input as a gateway would have written it that knows which endpoint is which task."""
    if not path.name.startswith("responses"):
        target.symlink_to(path)
        return
    with path.open("rb") as file:
        text = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True).read()
    target.with_suffix("").write_bytes(text.replace(b'"kind": ', b'"task": '))


def pages() -> list[Path]:
    """Every page that shows answers."""
    return [page for page in sorted(DOCS.rglob("*.md")) if _BLOCK.search(page.read_text(encoding="utf-8"))]


def recipes(page: Path) -> list[tuple[str, str, str]]:
    """Heading, question in SQL and answer of every part of a page."""
    return [
        (part.partition("\n")[0], match[2], match[3] or "")
        for part in re.split(r"\n#+ ", page.read_text(encoding="utf-8"))
        for match in _BLOCK.finditer(part)
        if match[1] == "sql"
    ]


def rewritten(text: str, folder: Path) -> str:
    """The page with every answer as it is now, for the present folder being ``folder``."""
    runner = Replay(folder)

    def renew(match: re.Match[str]) -> str:
        language, shown, answer = match.groups()
        if language == "console":
            return f"```console\n{_COMMAND.sub(runner.console, shown)}```\n"
        if answer is None:
            runner.check(language, shown)
            return match[0]
        return f"```{language}\n{shown}```\n\n```text\n{runner.answer(language, shown)}```\n"

    with runner.at_work():
        return _BLOCK.sub(renew, text)


class Replay:
    """Runs what a page shows, one thing after the other, in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names: dict[str, Any] = {"__name__": "documented"}

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Be in the folder, with a terminal of the documented width."""
        before, columns = Path.cwd(), os.environ.get("COLUMNS")
        os.chdir(self._folder)
        os.environ["COLUMNS"] = COLUMNS
        try:
            yield
        finally:
            os.chdir(before)
            os.environ.pop("COLUMNS")
            if columns is not None:
                os.environ["COLUMNS"] = columns

    def answer(self, language: str, shown: str) -> str:
        """What an SQL question or a Python program prints."""
        return self._sql(["sql", shown]) if language == "sql" else self._python(shown)

    def check(self, language: str, shown: str) -> None:
        """Run what is shown without an answer."""
        if language == "python":
            self._python(shown)

    def console(self, match: re.Match[str]) -> str:
        """One command and what it prints; ``| head -N`` is understood."""
        command, _ = match.groups()
        call, _, pipe = command.replace("\\\n", " ").partition(" | ")
        words = shlex.split(call)
        assert words[0] == "specledger", f"only specledger is run, not {words[0]}"
        printed = self._sql(words[1:]) if words[1] == "sql" else self._run(words[1:])
        if pipe:
            head = re.fullmatch(r"head -(\d+)", pipe)
            assert head, f"{pipe} is not understood"
            printed = "".join(printed.splitlines(keepends=True)[: int(head[1])])
        return f"$ {command}\n{printed}"

    def _run(self, arguments: list[str]) -> str:
        done = CliRunner().invoke(cli, arguments, env={"SPECLEDGER_WAREHOUSE": None})
        assert done.exit_code in {0, 1, 3}, f"{arguments} ended with {done.exit_code}: {done.stderr}"
        return done.stdout

    def _sql(self, arguments: list[str]) -> str:
        printed = self._run(arguments)
        if len(printed.splitlines()) > len(("names", "rule", "one row")):
            self._has_one_order(arguments[1])
        return printed

    def _has_one_order(self, sql: str) -> None:
        """Rows that may come in another order tomorrow make no answer to show."""
        order = _ORDER.search(sql.strip())
        assert order, f"no ORDER BY at the end of {sql}"
        if order[1].strip() != "ALL":
            first = json.loads(self._run(["sql", sql, "--format", "json"]))[0]
            up, down = (", ".join(f"{i} {way}" for i in range(1, len(first) + 1)) for way in ("ASC", "DESC"))
            answers = [
                self._run(["sql", f"{sql.strip()[: order.end(1)]}, {ties} {order[2] or ''}"]) for ties in (up, down)
            ]
            assert answers[0] == answers[1], f"ties in the order of {sql}"

    def _python(self, shown: str) -> str:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(shown, "documented", "exec"), self._names)
        return printed.getvalue()


def has_own_folder(text: str) -> bool:
    """Whether a page makes its own warehouse."""
    return any("$ specledger ingest" in match[2] for match in _BLOCK.finditer(text))


def main(names: list[str]) -> None:
    """Write the answers of all pages, or of those named, anew."""
    with tempfile.TemporaryDirectory() as scratch:
        shared = Path(scratch, "shared")
        for page in pages():
            text = page.read_text(encoding="utf-8")
            if names and page.stem not in names:
                continue
            own = has_own_folder(text)
            folder = Path(scratch, page.stem) if own else shared
            if not folder.exists():
                folder.mkdir()
                (link if own else build)(folder)
            page.write_text(rewritten(text, folder), encoding="utf-8")
            sys.stdout.write(f"{page.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
