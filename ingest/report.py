"""What one ingest did, as figures."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import dataclass, field


@dataclass
class FormatReport:
    """What happened to the inputs of one format."""

    files: int = 0
    """Inputs read in this run."""
    known: int = 0
    """Inputs left out because the warehouse holds them already."""
    records: int = 0
    """Records seen: those that became rows, and rejects."""
    rejects: int = 0
    duplicates: int = 0
    """Rows left out because the warehouse held them."""


@dataclass
class IngestReport:
    """What one ingest did."""

    formats: dict[str, FormatReport] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    """Rows written, by table."""
    partitions: Counter[tuple[dt.date, str]] = field(default_factory=Counter)
    """Rows written, by date and deployment."""
    notes: list[str] = field(default_factory=list)
    """What the user should know, once each."""
    rejected: list[tuple[str, str]] = field(default_factory=list)
    """For each input with rejects: source and the reason of the first."""

    @property
    def rejects(self) -> int:
        return sum(report.rejects for report in self.formats.values())

    def of(self, name: str) -> FormatReport:
        """The figures of a format, which may be new."""
        return self.formats.setdefault(name, FormatReport())
