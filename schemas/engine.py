"""Which engine computes: what a command line and the table ``[engine]`` of a configuration say, and what a run tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .config import read_toml, section_of
from .errors import ConfigError
from .toml_lines import TomlLines

ENGINES = ("duckdb", "spark")
KEYS = {
    "name": "`duckdb`, which is this machine, or `spark`; the option `--engine` goes before.",
    "master": "Where Spark's cluster is: `local[4]`, `spark://…`, `yarn`, `k8s://…` or `sc://…`; Spark decides unless named.",
    "conf": "Spark's own settings, passed on as they are.",
}


@dataclass(frozen=True)
class EngineChoice:
    """``name`` of the engine; for Spark where its cluster is, and its own settings as they are passed on."""

    name: str = ENGINES[0]
    master: str | None = None
    """As Spark writes it (``local[4]``, ``spark://…``, ``yarn``, ``k8s://…``, ``sc://…``); None leaves it to Spark."""
    conf: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class StageNumbers:
    """What one stage of a run on a cluster took."""

    stage: str
    tasks: int
    retries: int
    """Runs of tasks that had to be repeated."""
    workers: int
    """Machines and processes that took part."""
    read_bytes: int
    written_bytes: int
    task_seconds: float
    """Of all tasks together."""
    seconds: float
    """From the first task's order to the last one's answer."""


def load_engine(config: Path | None, name: str | None) -> EngineChoice:
    """The engine of that name, or of the configuration's, with what the configuration says of it."""
    found = EngineChoice() if config is None else engine_from(*read_toml(config))
    return found if name is None else replace(found, name=name)


def engine_from(document: Mapping[str, Any], lines: TomlLines) -> EngineChoice:
    """The table ``[engine]`` of a parsed configuration; ConfigError names file, line and key."""
    section = section_of(document, "engine", KEYS, lines)
    name, master, conf = section.get("name", ENGINES[0]), section.get("master"), section.get("conf", {})
    if name not in ENGINES:
        raise ConfigError(f"{lines.at('engine', 'name')}: engine.name must be {' or '.join(ENGINES)}.")
    if master is not None and (not isinstance(master, str) or not master.strip()):
        at = lines.at("engine", "master")
        raise ConfigError(f"{at}: engine.master must be text such as local[4] or spark://host:7077.")
    if not isinstance(conf, dict):
        raise ConfigError(f"{lines.at('engine', 'conf')}: engine.conf must be a table of Spark's settings.")
    return EngineChoice(name, master, dict(_flat(conf, (), lines)))


def _flat(conf: Mapping[str, Any], before: tuple[str, ...], lines: TomlLines) -> list[tuple[str, str]]:
    """Settings by their whole names, whether the dots in these were quoted or made tables of them."""
    found: list[tuple[str, str]] = []
    for key, value in conf.items():
        place = (*before, key)
        name = ".".join(place)
        if isinstance(value, dict):
            found += _flat(value, place, lines)
        elif isinstance(value, bool):
            found.append((name, str(value).lower()))
        elif isinstance(value, str | int | float):
            found.append((name, str(value)))
        else:
            at = lines.at("engine", "conf", *place)
            raise ConfigError(f"{at}: engine.conf.{name} must be text, a number, true or false.")
    return found
