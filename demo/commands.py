"""``specledger demo``."""

from __future__ import annotations

import shlex
import shutil
import sys
import textwrap
import time
from pathlib import Path

import click

DATA = Path(__file__).parent / "data"
BASELINE = "baseline"
CANDIDATE = "draft-k3"
RUNS = {BASELINE: "vllm_0.32_baseline", CANDIDATE: "vllm_0.32_draft_k3"}
GATES_FAILED = 1
"""Exit code of a report in which a gate failed: a finding of the demo, not a failure of it."""


@click.command("demo")
@click.option("--out", type=click.Path(path_type=Path), default=Path("specledger-demo"), show_default=True,
              metavar="DIR", help="Where the warehouse and the report go.")  # fmt: skip
@click.pass_context
def demo(context: click.Context, out: Path) -> None:
    """Run the whole pipeline on bundled real logs, ending in a report.

    Six load levels of a real vLLM 0.32 server, once without speculation and once with three draft tokens.
    """
    from ..reports.model import from_json
    from . import story

    warehouse, report = out / "warehouse", out / "report"
    where = ("--warehouse", str(warehouse))
    for deployment, folder in RUNS.items():
        _say(f"Reading what a real vLLM server emitted: {folder}")
        logs = ("--year", "2026", "--timezone", "UTC")
        _run(context, "ingest", str(DATA / folder), "--deployment", deployment, *logs, *where)
    _say("Computing cells and marts")
    _run(context, "transform", *where)
    _say("Comparing speculation with ordinary decoding")
    sides = ("--baseline", f"deployment = '{BASELINE}'", "--candidate", f"deployment = '{CANDIDATE}'")
    _run(context, "report", *sides, "--out", str(report), *where)
    _say("In short")
    click.echo(textwrap.fill(story.tell(from_json((report / "report.json").read_text(encoding="utf-8"))), 80))
    click.echo(f"\nThe report: {report / 'report.html'}")
    program = "specledger" if shutil.which("specledger") else shlex.quote(sys.argv[0])
    click.echo(f'Your own questions: {program} sql "SELECT * FROM ledger" --warehouse {shlex.quote(str(warehouse))}')


def _say(sentence: str) -> None:
    click.secho(f"\n{sentence}", bold=True)


def _run(context: click.Context, *arguments: str) -> None:
    """One command, shown as it would be typed; ends the demo where it fails."""
    click.secho(f"$ specledger {' '.join(map(_typed, arguments))}", dim=True)
    started = time.monotonic()
    group = context.find_root().command
    code = group.main(list(arguments), standalone_mode=False)
    if code not in (0, GATES_FAILED):
        context.exit(code)
    click.secho(f"  {time.monotonic() - started:.1f} s", dim=True)


def _typed(argument: str) -> str:
    """The argument as a person would type it in a shell."""
    plain = not set('"$`\\!') & set(argument)
    return f'"{argument}"' if "'" in argument and plain else shlex.quote(argument)
