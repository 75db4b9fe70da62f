"""Settings that more than one room reads: load and context bands, goodput limits."""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .errors import ConfigError
from .toml_lines import TomlLines

DEFAULT_LOAD_BANDS = ("1", "2-4", "5-8", "9-16", "17-32", "33-64", "65-128", "129-256", "257+")
DEFAULT_CONTEXT_BANDS = (("<1k", 1_000), ("1-4k", 4_000), ("4-16k", 16_000), ("16-64k", 64_000), ("64k+", None))
"""Label and exclusive upper bound in tokens of each context band."""
LARGEST = 1_000_000_000
"""No edge in tokens and no limit in ms comes near it; larger ones would not fit the columns they are compared with."""


@dataclass(frozen=True)
class LoadBand:
    """One band of requests running on an engine, inclusive on both sides; ``high`` None means open."""

    label: str
    low: int
    high: int | None


@dataclass(frozen=True)
class GoodputLimits:
    """What a request must meet to count as qualified; None means no such limit."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None
    longest_pause_ms: float | None = None

    @property
    def given(self) -> bool:
        return any(limit is not None for limit in (self.ttft_ms, self.tpot_ms, self.longest_pause_ms))


@dataclass(frozen=True)
class Settings:
    """Everything configurable that changes a cell or a mart."""

    load_bands: tuple[LoadBand, ...]
    context_bands: tuple[tuple[str, int | None], ...] = DEFAULT_CONTEXT_BANDS
    goodput: GoodputLimits = GoodputLimits()

    def document(self) -> dict[str, Any]:
        """The settings as a configuration file would say them."""
        bands: dict[str, list[Any]] = {"load": [band.label for band in self.load_bands]}
        if self.context_bands != DEFAULT_CONTEXT_BANDS:
            bands["context"] = [edge for _, edge in self.context_bands if edge is not None]
        limits = {name: limit for name, limit in asdict(self.goodput).items() if limit is not None}
        return {"bands": bands, "goodput": limits}


def parse_load_bands(labels: tuple[str, ...] | list[str]) -> tuple[LoadBand, ...]:
    """Bands from labels such as ``1``, ``2-4``, ``257+``; they must rise, without gaps, from 1, the last one open.

    Raises ConfigError otherwise.
    """
    bands: list[LoadBand] = []
    expected = 1
    for position, label in enumerate(labels):
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9})|(\+))?", str(label).strip().replace("\u2013", "-"))
        if not match:
            raise ConfigError(f"Load band {label!r} is not understood: write 1, 2-4 or 257+.")
        low = int(match[1])
        high = None if match[3] else int(match[2] or low)
        last = position == len(labels) - 1
        if low != expected or (high is not None and high < low) or (high is None) != last:
            raise ConfigError(
                f"Load band {label!r} does not follow: bands start at 1, leave no gap, and only the last one is open."
            )
        bands.append(LoadBand(f"{low}+" if high is None else str(low) if low == high else f"{low}-{high}", low, high))
        expected = (high or 0) + 1
    if not bands:
        raise ConfigError("At least one load band is needed.")
    return tuple(bands)


DEFAULT_SETTINGS = Settings(parse_load_bands(DEFAULT_LOAD_BANDS))


KNOWN_TABLES = {
    "warehouse": "Where the Parquet tables are: a folder, or a place in an object store.",
    "out": "Folder of the nights' reports and their index; `nights` unless said otherwise.",
    "metrics": "File for the textfile collector of Prometheus' node exporter; none unless named.",
    "source": "One table for the inputs of each deployment; at least one.",
    "bands": "Bands of load and context.",
    "goodput": "Limits that a request must meet to count as qualified.",
    "report": "One table for each report of a night; without any, one over everything.",
    "hook": "What is called when a gate fails.",
    "housekeeping": "What is tidied up after the reports.",
    "engine": "What computes, and where its cluster is.",
}
"""What stands at the top of a configuration: that of a night serves every command, which takes its share of it."""
BANDS = {
    "load": "Bands of requests running on an engine, rising without gaps from 1, the last one open.",
    "context": "Edges of the bands of prompt plus half the output, in tokens, rising.",
}
GOODPUT = {
    "ttft_ms": "Longest time to first token, in ms.",
    "tpot_ms": "Longest decode time per output token, in ms.",
    "longest_pause_ms": "Longest gap in the stream, in ms.",
}


def load_settings(path: Path | None) -> Settings:
    """Settings from the ``[bands]`` and ``[goodput]`` tables of a TOML file; the defaults without a file.

    Raises ConfigError with the line and the key at fault.
    """
    if path is None:
        return DEFAULT_SETTINGS
    document, lines = read_toml(path)
    for key in document:
        if key not in KNOWN_TABLES:
            known = ", ".join(KNOWN_TABLES)
            raise ConfigError(f"{lines.at(key)}: {key} is not known in a configuration; known are {known}.")
    return settings_from(document, lines)


def read_toml(path: Path) -> tuple[dict[str, Any], TomlLines]:
    """A TOML file as a dictionary, and where its keys stand; ConfigError with the line if it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"Cannot read {path}: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}.") from error
    except ValueError as error:
        raise ConfigError(f"Cannot read {str(path)!r}: {error}.") from error
    return parse_toml(text, path), TomlLines(path, text)


def parse_toml(text: str, path: Path) -> dict[str, Any]:
    """The text of a TOML file as a dictionary; ConfigError with the line if it is none."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}.") from error
    except ValueError as error:
        raise ConfigError(f"{path} holds a value that nothing can be: {str(error).partition(';')[0]}.") from error
    except RecursionError as error:
        raise ConfigError(f"{path} cannot be read: its lists or tables are nested too deeply.") from error


def settings_from(document: dict[str, Any], lines: TomlLines) -> Settings:
    """Settings from a parsed configuration; ConfigError names file, line and key."""
    bands = section_of(document, "bands", BANDS, lines)
    limits = section_of(document, "goodput", GOODPUT, lines)
    at_load = lines.at("bands", "load")
    load = bands.get("load")
    if load is not None and not isinstance(load, list):
        raise ConfigError(f'{at_load}: bands.load must be a list such as ["1", "2-4", "5+"].')
    try:
        load_bands = parse_load_bands(load) if load is not None else DEFAULT_SETTINGS.load_bands
    except ConfigError as error:
        raise ConfigError(f"{at_load}: bands.load: {error}") from error
    for key, value in limits.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < LARGEST:
            at = lines.at("goodput", key)
            raise ConfigError(f"{at}: goodput.{key} must be a positive number of milliseconds.")
    return Settings(load_bands, _context_bands(bands.get("context"), lines), GoodputLimits(**limits))


def _context_bands(edges: Any, lines: TomlLines) -> tuple[tuple[str, int | None], ...]:
    if edges is None:
        return DEFAULT_CONTEXT_BANDS
    whole = isinstance(edges, list) and all(isinstance(edge, int) and not isinstance(edge, bool) for edge in edges)
    if not whole or not edges or sorted(set(edges)) != edges or edges[0] <= 0 or edges[-1] >= LARGEST:
        at = lines.at("bands", "context")
        raise ConfigError(f"{at}: bands.context must be rising token counts such as [1000, 4000, 16000].")
    labels = [f"<{edges[0]}", *(f"{low}-{high}" for low, high in itertools.pairwise(edges)), f"{edges[-1]}+"]
    return tuple(zip(labels, [*edges, None], strict=True))


def section_of(document: Mapping[str, Any], name: str, keys: Mapping[str, str], lines: TomlLines) -> dict[str, Any]:
    """A table of a parsed configuration, empty where it is missing; ConfigError for what is none, or has other keys."""
    section = document.get(name, {})
    if not isinstance(section, dict):
        raise ConfigError(f"{lines.at(name)}: [{name}] must be a table.")
    for key in section:
        if key not in keys:
            raise ConfigError(f"{lines.at(name, key)}: {name}.{key} is not known; known are {', '.join(keys)}.")
    return section
