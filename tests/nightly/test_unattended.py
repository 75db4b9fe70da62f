"""Nothing that happens to runs hurts: they are killed, or started many at once, or beside readers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.scale import SCALE

ROOT = Path(__file__).resolve().parents[2]


def module(name: str, *arguments: object) -> str:
    """What a module of the tests prints, run as a program; it must succeed."""
    call = [sys.executable, "-m", f"tests.{name}", *map(str, arguments)]
    environment = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(call, cwd=ROOT, check=False, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


@pytest.mark.slow
def test_a_killed_run_leaves_nothing_that_the_next_does_not_put_right() -> None:
    trials = 1 if SCALE == 1 else 2 * SCALE
    assert module("nightly.killed", trials).endswith(f"{trials} runs killed, 0 wrong\n")


@pytest.mark.slow
def test_runs_at_once_give_one_result_and_readers_notice_nothing() -> None:
    assert "same content: True" in module("nightly.concurrent_runs", 2 if SCALE == 1 else 8)
