"""The library: what the commands answer, for Python programs and notebooks.

Every method calls what the command of its name calls, so that both say the same. What is raised on purpose is a
SpecledgerError, whose message says what to do.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .reports.build import Question, build
from .reports.estimate import Estimate, RoundTime, estimate
from .reports.gates import load_gates
from .reports.model import Report
from .reports.recommend import Recommendation, recommend_deployment
from .reports.schedule import Limits
from .reports.writers import read as read_report
from .reports.writers import write_all as write_report
from .schemas.errors import SpecledgerError
from .schemas.kept import settings_to_read
from .schemas.published import published
from .transforms.ask import asked
from .transforms.database import connect, create_views

if TYPE_CHECKING:
    import duckdb
    import polars as pl
    import pyarrow as pa

    from .schemas.warehouse import Warehouse as Tables

__all__ = [
    "Estimate",
    "Recommendation",
    "Report",
    "RoundTime",
    "SpecledgerError",
    "Warehouse",
    "estimate",
    "read_report",
    "write_report",
]


class Warehouse:
    """A warehouse that ``specledger ingest`` and ``transform`` have filled, opened to be read.

    Raises EmptyWarehouse where there is none, WarehouseTooNew where a newer specledger wrote it.
    """

    def __init__(self, path: str | os.PathLike[str] = "warehouse") -> None:
        self._root = Path(path)
        self._settings = settings_to_read(self._tables, None)

    @property
    def path(self) -> Path:
        """The folder of the warehouse."""
        return self._root

    @property
    def _tables(self) -> Tables:
        """In the state of this moment."""
        return published(self._root).require()

    def query(
        self, sql: str, parameters: Mapping[str, Any] | None = None, *, timeout_s: float | None = None
    ) -> pl.DataFrame:
        """The answer to one SELECT as a Polars frame; ``parameters`` are the values of ``$name`` in it.

        The question can read nothing outside the warehouse and change nothing in it. Raises UsageError where it cannot
        be answered, or takes longer than ``timeout_s``.
        """
        import polars as pl

        return pl.DataFrame(self.arrow(sql, parameters, timeout_s=timeout_s))

    def arrow(
        self, sql: str, parameters: Mapping[str, Any] | None = None, *, timeout_s: float | None = None
    ) -> pa.Table:
        """The answer to one SELECT as an Arrow table, as ``query`` gives it."""
        with asked(self._tables, self._settings, sql, parameters or {}, timeout_s) as answer:
            return answer.arrow()

    def connect(self) -> duckdb.DuckDBPyConnection:
        """A DuckDB connection of your own, in memory, with a view of every table and all macros.

        Close it yourself. It is not locked: what you write with it goes where you send it, never into the warehouse.
        """
        tables = self._tables
        connection = connect(tables, self._settings)
        create_views(connection, tables)
        return connection

    def compare(
        self,
        baseline: str | None = None,
        candidate: str | None = None,
        *,
        grid: Mapping[str, str] | None = None,
        gates: str | os.PathLike[str] | None = None,
    ) -> Report:
        """The report that ``specledger report`` makes of two SQL predicates over deployments and dates.

        ``grid`` names the four sides ``original``, ``quantized``, ``speculative`` and ``both`` by predicates; with it
        baseline and candidate may be left out. ``gates`` is a TOML file. ``write_report`` puts the report into a
        folder. Raises UsageError where a predicate cannot be used.
        """
        bands = [band.label for band in self._settings.load_bands]
        question = Question(
            baseline,
            candidate,
            grid or {},
            load_gates(Path(gates) if gates is not None else None, bands),
            settings=self._settings,
        )
        return build(self._tables, question, dt.datetime.now(dt.UTC).replace(tzinfo=None))

    def recommend(
        self,
        deployment: str,
        *,
        dates: Iterable[dt.date] | None = None,
        schedule: Sequence[Sequence[int]] | None = None,
        max_gap_ms: float | None = None,
        max_kv_usage: float | None = None,
    ) -> Recommendation:
        """The draft lengths by load that ``specledger recommend`` gives, over the dates or over all.

        With ``schedule`` (``[[1, 4, 3], [5, 64, 0]]``: first and last batch size, draft length) that one is priced
        instead. ``max_gap_ms`` bounds the p99 of stream gaps, ``max_kv_usage`` the KV use. Raises UsageError where
        nothing is known of the deployment.
        """
        return recommend_deployment(
            self._tables,
            deployment,
            self._settings.load_bands,
            dates=list(dates) if dates is not None else None,
            schedule=[list(one) for one in schedule] if schedule is not None else None,
            limits=Limits(max_gap_ms, max_kv_usage),
        )
