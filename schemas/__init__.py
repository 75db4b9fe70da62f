"""Every table, name and setting that more than one room needs, declared once."""

from __future__ import annotations

from .cells import CELL_TABLES
from .marts import MART_TABLES
from .raw import RAW_TABLES
from .table import Column, Table

TABLES: dict[str, Table] = {table.name: table for table in (*RAW_TABLES, *CELL_TABLES, *MART_TABLES)}
"""Every table of the warehouse by name, raw tables first."""

__all__ = ["CELL_TABLES", "MART_TABLES", "RAW_TABLES", "TABLES", "Column", "Table"]
