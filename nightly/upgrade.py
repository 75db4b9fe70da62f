"""Bringing a warehouse that an older specledger wrote to the present layout."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..schemas import layout
from ..schemas.lock import exclusive
from ..schemas.warehouse import Warehouse

STEPS: Mapping[int, Callable[[Warehouse], None]] = {}
"""What must be done to a warehouse of each version to make it one of the next; each step may be ended and run again."""


def upgrade(warehouse: Warehouse) -> tuple[int, int]:
    """The version found and the version now. Raises WarehouseTooNew for a newer one."""
    layout.check(warehouse.root)
    with exclusive(warehouse.root, "ingest"), exclusive(warehouse.root, "transform"):
        before = layout.found(warehouse.root)
        for version in range(before, layout.VERSION):
            STEPS[version](warehouse)
        aside = warehouse.aside(".json")
        aside.write_text(layout.content(), encoding="utf-8")
        warehouse.publish(aside, warehouse.root / layout.FILE)
        return before, layout.VERSION
