"""Reads what servers and clients emit into typed Parquet tables; nothing is added, nothing is lost."""

from __future__ import annotations

from .run import FormatReport, IngestReport, ingest

__all__ = ["FormatReport", "IngestReport", "ingest"]
