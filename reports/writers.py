"""Writes a report in every form: HTML, Markdown, JUnit XML and JSON, each file whole or not at all; reads one back."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..schemas.errors import SpecledgerError, UsageError
from . import html, junit, markdown, model, pictures
from .model import Report

WRITERS: tuple[tuple[str, Callable[[Report], str]], ...] = (
    ("report.html", html.render),
    ("report.md", markdown.render),
    ("junit.xml", junit.render),
    ("report.json", model.to_json),
)
"""File name and writer. report.json comes last: where it is new, the others are new too."""


def prepare() -> None:
    """Get ready to write, while a report is being built."""
    pictures.start()


def write_all(report: Report, out_dir: str | os.PathLike[str]) -> tuple[Path, ...]:
    """Write every form of a report into a folder and return the paths, in the order of ``WRITERS``.

    SpecledgerError if a file cannot be written.
    """
    targets = [Path(out_dir) / name for name, _ in WRITERS]
    with ThreadPoolExecutor(len(WRITERS)) as beside:  # the page waits for its pictures
        texts = list(beside.map(lambda write: write(report).encode(), (write for _, write in WRITERS)))
    for target, text in zip(targets, texts, strict=True):
        publish(target, text)
    return tuple(targets)


def read(source: str | os.PathLike[str]) -> Report:
    """The report of a report.json or of the folder that holds it; UsageError if there is none."""
    path = Path(source)
    path = path / "report.json" if path.is_dir() else path
    try:
        return model.from_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror or error}; give a report.json or its folder.") from error
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path} is not a report of this version: write it again with `specledger report`.") from error


def publish(target: Path, content: bytes, mode: int | None = None) -> None:
    """Write a file beside its place and move it there in one step; ``mode`` says who may read it, if given."""
    aside = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            aside.write_bytes(content)
            if mode is not None:
                aside.chmod(mode)
            aside.replace(target)
        finally:
            aside.unlink(missing_ok=True)
    except OSError as error:
        reason = error.strerror or os.strerror(error.errno or 0)
        raise SpecledgerError(f"Cannot write {target}: {reason}; choose another place with --out.") from error
