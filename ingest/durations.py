"""Durations as people write them: ``5s``, ``1h30m``, or a plain number of seconds."""

from __future__ import annotations

import re

UNIT_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}

_PLAIN = re.compile(r"[0-9]{1,12}(?:\.[0-9]+)?")
_PARTS = re.compile(r"(?:[0-9]{1,12}(?:ms|[smhdw]))+")
_PART = re.compile(r"([0-9]+)(ms|[smhdw])")


def parse_duration(text: str) -> float | None:
    """Seconds; None if the text is no duration."""
    if _PLAIN.fullmatch(text):
        return float(text)
    if not _PARTS.fullmatch(text):
        return None
    return sum(int(number) * UNIT_S[unit] for number, unit in _PART.findall(text))
