"""What was computed, as fingerprints: one small JSON file a date, written after the files it speaks of."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ..schemas.warehouse import Warehouse


@dataclass
class DateState:
    """What was computed for one date: the fingerprints of its partitions' cells, of its marts, and of its ledger."""

    cells: dict[str, str] = field(default_factory=dict)
    marts: str | None = None
    ledger: str | None = None
    plain: bool = True
    """Whether a deployment may have run without speculation, so that others can take ordinary decode from it."""
    retired: bool = False
    """Whether rows that it was computed from have been removed, or are about to be: it stays as it is."""
    files: dict[str, int] = field(default_factory=dict)
    """How many files there are of its cells, of its marts, and of its ledger: fewer are a loss, and computed again."""


class State:
    """The fingerprints of everything computed, one small JSON file a date."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._folder = warehouse.root / "_state" / "transforms"

    def dates(self) -> set[dt.date]:
        """Every date for which something was computed."""
        return {dt.date.fromisoformat(path.stem) for path in self._folder.glob("*.json")}

    def read(self, date: dt.date) -> DateState:
        """What is known of a date; nothing if the file is missing or cannot be read, so that the date is computed."""
        try:
            stored = json.loads(self._path(date).read_text(encoding="utf-8"))
            return DateState(
                dict(stored["cells"]),
                stored["marts"],
                stored["ledger"],
                stored.get("plain", True),
                stored.get("retired", False),
                dict(stored.get("files", {})),
            )
        except (OSError, ValueError, KeyError, TypeError):
            return DateState()

    def write(self, date: dt.date, state: DateState) -> None:
        """Replace the file of a date in one step."""
        aside = self._warehouse.aside(".json")
        aside.write_text(json.dumps(asdict(state), sort_keys=True), encoding="utf-8")
        self._warehouse.publish(aside, self._path(date))

    def forget(self, date: dt.date) -> None:
        """Remove the file of a date of which nothing is left."""
        self._path(date).unlink(missing_ok=True)

    def _path(self, date: dt.date) -> Path:
        return self._folder / f"{date}.json"
