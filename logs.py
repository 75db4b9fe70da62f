"""How the program speaks of its own work: plain sentences on a terminal, JSON for collectors, silence under cron."""

from __future__ import annotations

import datetime as dt
import json
import logging
import sys

import click

ROOT = "specledger"
"""Every module logs to ``logging.getLogger(__name__)``, a child of this logger."""


class _JsonFormatter(logging.Formatter):
    """One JSON object a line: time (UTC), level, logger and message."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": dt.datetime.fromtimestamp(record.created, dt.UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


class _StandardError(logging.Handler):
    """Writes to whatever standard error is at that moment."""

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(self.format(record), err=True)


def configure(log_format: str) -> None:
    """Send the program's own log to standard error as ``text`` or ``json``.

    Text shows progress only where a person watches (a terminal); JSON always has it.
    """
    handler = _StandardError()
    as_json = log_format == "json"
    handler.setFormatter(_JsonFormatter() if as_json else logging.Formatter("%(message)s"))
    logger = logging.getLogger(ROOT)
    logger.handlers[:] = [handler]
    logger.propagate = False
    logger.setLevel(logging.INFO if as_json or sys.stderr.isatty() else logging.WARNING)
