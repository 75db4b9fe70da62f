"""Colours and lines that every chart and the page share: one measure has one colour, everywhere.

Colours are written as CSS variables, so that a page changes them without drawing again (light, dark, paper);
``resolved`` puts in the values for pictures. The hues are safe for the common kinds of colour blindness and keep a
contrast of at least 3:1 to the surface; no chart relies on them alone.
"""

from __future__ import annotations

import json
from typing import Any

PALETTE: dict[str, tuple[str, str]] = {
    "surface": ("#ffffff", "#161a20"),
    "page": ("#f5f6f8", "#0e1116"),
    "raised": ("#eef0f3", "#20262e"),
    "ink": ("#1a1f26", "#e8ebef"),
    "muted": ("#515b67", "#a5afbb"),
    "line": ("#d3d9e0", "#333b46"),
    "focus": ("#0b5cad", "#7cc0ff"),
    "baseline": ("#6a7583", "#97a3b1"),
    "time": ("#0067b1", "#58b0f2"),
    "acceptance": ("#007a58", "#35c796"),
    "round": ("#bd4b00", "#ff8d54"),
    "memory": ("#98407b", "#e496c8"),
    "load": ("#8a6400", "#dcb53c"),
    "pass": ("#1a6e33", "#56c271"),
    "fail": ("#b3261e", "#ff8379"),
    "warn": ("#8a5a00", "#e3ad3d"),
    "unsure": ("#515b67", "#a5afbb"),
}
"""Name of a colour: its value on a light surface and on a dark one."""

INK, MUTED, LINE, SURFACE, BASELINE = (f"var(--{name})" for name in ("ink", "muted", "line", "surface", "baseline"))
TIME, ACCEPTANCE, ROUND, MEMORY, LOAD = (f"var(--{name})" for name in ("time", "acceptance", "round", "memory", "load"))

VERDICT_COLOURS = {
    "fail": "var(--fail)",
    "warn": "var(--warn)",
    "inconclusive": "var(--unsure)",
    "no_data": "var(--unsure)",
    "not_comparable": "var(--unsure)",
    "acknowledged": "var(--time)",
    "pass": "var(--pass)",
}
VERDICT_SHAPES = {
    "fail": "triangle-up",
    "warn": "square",
    "inconclusive": "circle",
    "no_data": "circle",
    "not_comparable": "circle",
    "acknowledged": "cross",
    "pass": "diamond",
}

PICTURE_WIDTH = 640


def resolved(spec: dict[str, Any], *, dark: bool = False) -> dict[str, Any]:
    """The specification of a picture: colours by value, a width of its own, a surface behind it."""
    text = json.dumps(spec, allow_nan=False)
    for name, values in PALETTE.items():
        text = text.replace(f'"var(--{name})"', f'"{values[dark]}"')
    picture: dict[str, Any] = json.loads(text)
    if picture.get("width") == "container":
        picture["width"] = PICTURE_WIDTH
    picture["config"]["background"] = PALETTE["surface"][dark]
    return picture


def css_variables(*, dark: bool) -> str:
    """The palette as declarations of CSS variables."""
    return "".join(f"--{name}:{values[dark]};" for name, values in PALETTE.items())
