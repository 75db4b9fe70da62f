"""What the last transform left for those who read: its settings, and when it began."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from .config import DEFAULT_SETTINGS, Settings, load_settings, settings_from
from .errors import ConfigError, UsageError
from .raw import INGESTED_FILES
from .toml_lines import TomlLines
from .warehouse import Warehouse

log = logging.getLogger(__name__)


def settings_to_compute(warehouse: Warehouse, config: Path | None) -> Settings:
    """The settings of a configuration file; without one those of the last run, else the defaults.

    Raises ConfigError with the key at fault.
    """
    return load_settings(config) if config is not None else _kept(warehouse) or DEFAULT_SETTINGS


def settings_to_read(warehouse: Warehouse, config: Path | None) -> Settings:
    """The settings that the marts were computed with; a configuration file must say the same.

    Raises UsageError where it says something else, for the marts would answer for other bands than those asked for.
    """
    kept = _kept(warehouse)
    asked = settings_to_compute(warehouse, config)
    if kept is not None and asked != kept:
        raise UsageError(
            f"{config} has other bands or limits than the warehouse was computed with: "
            f"run specledger transform --config {config} first, or leave --config out."
        )
    if behind(warehouse):
        log.warning(
            "Something was ingested after the last transform and is not in the marts: run specledger transform."
        )
    return asked


def behind(warehouse: Warehouse) -> bool:
    """Whether something was ingested after the last transform of everything began."""
    began = _began(warehouse)
    return began is not None and any(file.path.stat().st_mtime > began for file in warehouse.files(INGESTED_FILES))


def computed(warehouse: Warehouse) -> bool:
    """Whether a transform of everything ever ended."""
    return _began(warehouse) is not None


def keep_beginning(warehouse: Warehouse, began: float) -> None:
    """Note when a transform of everything began (seconds since 1970), once it has ended."""
    aside = warehouse.aside(".json")
    aside.write_text(json.dumps({"began": began}), encoding="utf-8")
    warehouse.publish(aside, warehouse.root / "_state" / "computed.json")


def _began(warehouse: Warehouse) -> float | None:
    try:
        return float(json.loads((warehouse.root / "_state" / "computed.json").read_text(encoding="utf-8"))["began"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep_settings(warehouse: Warehouse, settings: Settings) -> None:
    """Note the settings of a run in the warehouse, in one step."""
    if settings == _kept(warehouse):
        return
    aside = warehouse.aside(".json")
    aside.write_text(json.dumps(settings.document(), indent=2), encoding="utf-8")
    warehouse.publish(aside, _path(warehouse))


def _kept(warehouse: Warehouse) -> Settings | None:
    path = _path(warehouse)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    try:
        return settings_from(json.loads(text), TomlLines(path, ""))
    except (ValueError, AttributeError) as error:
        raise ConfigError(f"{path} is damaged: run specledger transform with --config, or remove the file.") from error


def _path(warehouse: Warehouse) -> Path:
    return warehouse.root / "_state" / "settings.json"
