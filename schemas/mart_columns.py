"""Columns that many marts share."""

from __future__ import annotations

from .table import Column

EVIDENCE = Column("evidence", "VARCHAR", "measured, derived or estimated.", nullable=False)
LOAD_BAND = Column(
    "load_band", "VARCHAR", "Band of requests running on the engine; 'unknown' where load is not known.", nullable=False
)


def count(name: str, doc: str, unit: str) -> Column:
    """A nullable whole number."""
    return Column(name, "BIGINT", doc, unit)


def figure(name: str, doc: str, unit: str) -> Column:
    """A nullable figure."""
    return Column(name, "DOUBLE", doc, unit)
