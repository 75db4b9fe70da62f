"""Regressions that were accepted: a TOML file turns their failures into `acknowledged` until a date.

``KEYS`` says what an ``[[acknowledge]]`` table holds. An expired one no longer holds; its reason is still shown beside
the failure.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..schemas.config import read_toml
from ..schemas.errors import ConfigError
from ..schemas.measures import MEASURES
from .gates import CHECKS, OVERALL, Where
from .model import GATE_NAMES, GateResult

KEYS = {
    "measure": "The measure whose regression is accepted.",
    "reason": "Why, in words; it is shown beside the result.",
    "until": "Last date of the candidate for which it holds.",
    "gate": "Only under this gate.",
    "load_band": "Only at this band; `overall` is the overall figure alone.",
    "deployment": "Only for this deployment of the candidate.",
}
NEEDED = ("measure", "reason", "until")
JUDGED = CHECKS | set(MEASURES)
"""What results are about, besides the figures of evaluations, which are named task/metric."""


@dataclass(frozen=True)
class Acknowledgement:
    """One accepted regression."""

    measure: str
    reason: str
    until: dt.date
    gate: str | None = None
    load_band: str | None = None
    deployment: str | None = None

    def covers(self, result: GateResult, deployments: Sequence[str]) -> bool:
        """Whether it is about this result."""
        place = OVERALL if result.stratum is None else result.stratum.load_band
        return (
            self.measure == result.measure
            and self.gate in {None, result.gate}
            and self.load_band in {None, place}
            and (self.deployment is None or self.deployment in deployments)
        )


def load(path: Path | None, bands: Sequence[str]) -> tuple[Acknowledgement, ...]:
    """The accepted regressions of a file, none without one; ``bands`` are the load bands that may be named.

    ConfigError names key and line.
    """
    if path is None:
        return ()
    document, lines = read_toml(path)
    for key in document:
        if key != "acknowledge":
            raise ConfigError(f"{lines.at(key)}: {key} is not known; write [[acknowledge]] tables.")
    tables = document.get("acknowledge", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ConfigError(f"{lines.at('acknowledge')}: accepted regressions are written as [[acknowledge]] tables.")
    places = [partial(lines.at, "acknowledge", number) for number in range(len(tables))]
    return tuple(_read(table, bands, where) for table, where in zip(tables, places, strict=True))


def _read(table: dict[str, Any], bands: Sequence[str], where: Where) -> Acknowledgement:
    for key, value in table.items():
        if key not in KEYS:
            known = ", ".join(sorted(KEYS))
            raise ConfigError(f"{where(key)}: {key} is not known in [[acknowledge]]; known are {known}.")
        if key != "until" and not (isinstance(value, str) and value.strip()):
            raise ConfigError(f"{where(key)}: {key} must be text.")
    for key in NEEDED:
        if key not in table:
            raise ConfigError(f"{where(key)}: [[acknowledge]] needs {key}.")
    if table.get("gate") not in {None, *GATE_NAMES}:
        raise ConfigError(f"{where('gate')}: gate must be one of {', '.join(GATE_NAMES)}.")
    band = table.get("load_band")
    if band not in {None, OVERALL, *bands}:
        raise ConfigError(
            f"{where('load_band')}: load_band {band!r} is not known; known are {OVERALL}, {', '.join(bands)}."
        )
    measure = table["measure"]
    if "/" not in measure and measure not in JUDGED:
        raise ConfigError(
            f"{where('measure')}: measure {measure!r} is judged by no gate; "
            f"known are task/metric and {', '.join(sorted(JUDGED))}."
        )
    return Acknowledgement(**{**table, "until": _date(table["until"], where)})


def _date(value: object, where: Where) -> dt.date:
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value
    try:
        return dt.date.fromisoformat(str(value))
    except ValueError as error:
        raise ConfigError(f"{where('until')}: until must be a date such as 2026-12-31.") from error


def acknowledge(
    results: Sequence[GateResult],
    accepted: Sequence[Acknowledgement],
    deployments: Sequence[str],
    night: dt.date | None,
) -> list[GateResult]:
    """The results with accepted failures marked; ``night`` is the last date of the candidate."""
    marked = []
    for result in results:
        matching = [entry for entry in accepted if entry.covers(result, deployments)]
        if result.verdict not in {"fail", "warn"} or not matching or night is None:
            marked.append(result)
            continue
        entry = max(matching, key=lambda item: item.until)
        if night <= entry.until:
            reason = f"{result.reason} Accepted until {entry.until.isoformat()}: {entry.reason}"
            marked.append(replace(result, verdict="acknowledged", reason=reason, acknowledged=entry.reason))
        else:
            reason = f"{result.reason} It was accepted until {entry.until.isoformat()}."
            marked.append(replace(result, reason=reason, acknowledged=entry.reason, reason_code="expired"))
    return marked
