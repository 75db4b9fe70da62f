"""The staging tables: raw rows brought to the form from which cells are summed. They are views, never stored."""

from __future__ import annotations

from .raw import DATE, DEPLOYMENT, INSTANCE
from .table import Column, Table

INTERVAL_HISTOGRAM = "STRUCT(le DOUBLE[], n BIGINT[], sum BIGINT, count BIGINT)"
"""What a server histogram grew by: edges as found, counts by bucket (not cumulative), sum in ns or tokens, count."""

HOUR = Column("hour", "TINYINT", "UTC hour of the end, 0 to 23.", "h", nullable=False)
BLOCK = Column("block", "SMALLINT", "10-minute block of the UTC day of the end, 0 to 143.", nullable=False)
LOAD = Column(
    "load", "INTEGER", "Requests running, as cells keep them (load_code); null when not known.", "requests"
)


def _growth(name: str, doc: str, unit: str) -> Column:
    return Column(name, "BIGINT", doc, unit)


def _histogram(name: str, doc: str) -> Column:
    return Column(name, INTERVAL_HISTOGRAM, f"{doc}: what the histogram grew by.", None)


INTERVALS = Table(
    "intervals",
    "staging",
    "scrape interval of one (instance, engine, model)",
    (
        DATE,
        DEPLOYMENT,
        INSTANCE,
        Column("engine", "INTEGER", "Engine number inside the instance.", nullable=False),
        Column("model_name", "VARCHAR", "Served model name."),
        Column("started_at", "TIMESTAMP", "Time of the scrape before (UTC)."),
        Column("ended_at", "TIMESTAMP", "Time of the scrape that ends the interval (UTC).", nullable=False),
        Column("duration_ns", "BIGINT", "Length of the interval.", "ns"),
        HOUR,
        BLOCK,
        Column("restarted", "BOOLEAN", "Whether the process started anew within the interval.", nullable=False),
        LOAD,
    ),
    key=("deployment", "instance", "engine", "model_name", "ended_at"),
    reads=("snapshots",),
)

REQUESTS_BY_LOAD = Table(
    "requests_by_load",
    "staging",
    "request, merged over the inputs that tell of it",
    (
        DATE,
        DEPLOYMENT,
        INSTANCE,
        Column("request_id", "VARCHAR", "Request id.", nullable=False),
    ),
    key=("deployment", "instance", "request_id"),
    reads=("requests", "snapshots", "deployments"),
)

LOG_WINDOWS = Table(
    "log_windows",
    "staging",
    "stats or spec record of the log, as what happened in its window",
    (
        DATE,
        DEPLOYMENT,
        INSTANCE,
        Column("engine", "INTEGER", "Engine number; null where the record belongs to no engine."),
    ),
    key=("deployment", "instance", "engine", "process", "logged_at"),
    reads=("log_stats", "deployments"),
)

STAGING_TABLES: tuple[Table, ...] = (INTERVALS, REQUESTS_BY_LOAD, LOG_WINDOWS)
