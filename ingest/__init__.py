"""Reads what servers and clients emit into typed Parquet tables; nothing is added, nothing is lost."""

from __future__ import annotations

from .report import FormatReport, IngestReport
from .run import ingest

__all__ = ["FormatReport", "IngestReport", "ingest"]
