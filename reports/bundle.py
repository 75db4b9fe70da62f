"""The chart JavaScript of a page: seconds of work to put together, and the same until one of its parts is replaced.

So it is kept among the caches of this user. It runs where reports are read: what was kept is taken only where it is
whole and nobody else could have written it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import uuid
from functools import cache
from importlib import metadata
from pathlib import Path

from ..schemas.machine import caches

VEGA_LITE = "6.4"
"""Version of Vega-Lite that both Altair's charts and the bundle speak."""
SCRIPT = "window.vegaEmbed = vegaEmbed;"
"""What a page needs of the libraries."""
WRITABLE_BY_OTHERS = 0o022


@cache
def vega_bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that can stand inside a page."""
    import vl_convert

    path = _place(repr((metadata.version("vl-convert-python"), VEGA_LITE, SCRIPT)))
    if path is not None and (kept := _kept(path)) is not None:
        return kept
    made: str = vl_convert.javascript_bundle(SCRIPT, vl_version=VEGA_LITE)
    made = made.replace("</script", "<\\/script").replace("<!--", "<\\!--")
    if path is not None:
        _keep(path, made)
    return made


def _place(parts: str) -> Path | None:
    """Where the script of these parts is kept; None for a user without a home."""
    with contextlib.suppress(RuntimeError):
        return caches() / "scripts" / f"vega-{hashlib.sha256(parts.encode()).hexdigest()[:16]}.js"
    return None


def _kept(path: Path) -> str | None:
    """What was kept at a place; None where there is nothing, or nothing to be relied on."""
    try:
        with path.open("rb") as file:
            told = os.fstat(file.fileno())
            digest, _, content = file.read().partition(b"\n")
    except OSError:
        return None
    own = told.st_uid == os.geteuid() and not told.st_mode & WRITABLE_BY_OTHERS
    return content.decode() if own and _digest(content) == digest else None


def _keep(path: Path, text: str) -> None:
    """Keep a text with its hash; where that cannot be done, it is made again the next time."""
    content, aside = text.encode(), path.with_name(f".{uuid.uuid4().hex}")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            aside.touch(mode=0o600)
            aside.write_bytes(_digest(content) + b"\n" + content)
            aside.replace(path)
        finally:
            aside.unlink(missing_ok=True)


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()
