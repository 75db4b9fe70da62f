"""The command line, run in this process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from specledger.__main__ import cli

WITHOUT_WAREHOUSE = {
    "nightly",
    "housekeeping",
    "init",
    "chart",
    "demo",
    "describe",
    "estimate",
    "explain",
    "scrape",
    "tables",
}


HEAVY = {"altair", "duckdb", "numpy", "polars", "pyarrow", "scipy", "jinja2"}
"""Modules that take long to load."""


def loading(code: str, *more: str) -> tuple[int, str]:
    """Exit code and standard error of a Python that runs the code, then names what it loaded of HEAVY and more."""
    told = f"{code}\nsys.exit(', '.join(sorted({HEAVY | set(more)!r} & sys.modules.keys())) or 0)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    call = [sys.executable, "-c", f"import sys\n{told}"]
    result = subprocess.run(call, check=False, capture_output=True, text=True, env=environment)
    return result.returncode, result.stderr


@dataclass(frozen=True)
class CommandLine:
    """Runs commands over one warehouse."""

    warehouse: Path

    def run(self, command: str, *arguments: object) -> Result:
        """The result of a command, whatever it is: ``exit_code``, ``stdout``, ``stderr``."""
        where = [] if command in WITHOUT_WAREHOUSE else ["--warehouse", str(self.warehouse)]
        return CliRunner().invoke(cli, [command, *map(str, arguments), *where])

    def ok(self, command: str, *arguments: object) -> str:
        """The standard output of a command that must succeed."""
        result = self.run(command, *arguments)
        assert result.exit_code == 0, f"{command} ended with {result.exit_code}: {result.stderr[-2000:]}"
        return result.stdout

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """The rows that a query gives."""
        rows: list[dict[str, Any]] = json.loads(self.ok("sql", sql, "--format", "json"))
        return rows

    def value(self, sql: str) -> Any:
        """The one value that a query gives."""
        ((value,),) = [row.values() for row in self.rows(sql)]
        return value
