"""Where the real captures lie, and what was done to the server while each was taken."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).resolve().parent
DATA = TESTS / "data" / "vllm_0.32"
DEMO = TESTS.parent / "demo" / "data"
FOLDERS = {
    "spec_k3_draft": DEMO / "vllm_0.32_draft_k3",
    "baseline_nospec": DEMO / "vllm_0.32_baseline",
}
OPTIONS = ("--year", "2026", "--timezone", "UTC")
"""What the logs do not say themselves."""


@dataclass(frozen=True)
class LoadStep:
    """A time in which a fixed number of clients kept the server busy."""

    concurrency: int
    start_unix: float
    end_unix: float
    requests: int


def folder(name: str) -> Path:
    """The folder of a capture."""
    return FOLDERS.get(name, DATA / name)


def inputs(name: str) -> list[Path]:
    """Every input file of a capture."""
    return sorted(folder(name).iterdir())


def load_steps(name: str) -> list[LoadStep]:
    """The load steps of a capture, as the client recorded them."""
    described = json.loads((DATA / "captures.json").read_text())[name]
    return [LoadStep(**step) for step in described.get("steps", [])]
