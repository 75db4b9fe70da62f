"""What a run tells Prometheus through the textfile collector of its node exporter."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..reports.writers import publish
from .record import Record

Sample = tuple[Mapping[str, str], float]


def write(path: Path, run: Record, night: Mapping[str, Any]) -> None:
    """Replace the file in one step; everyone may read it, for the exporter runs as another user.

    ``night`` is the record of the night that the run ended with.
    """
    publish(path, "".join(_lines(run, night)).encode(), mode=0o644)


def _lines(run: Record, night: Mapping[str, Any]) -> Iterator[str]:
    began, ended = _seconds(run.started_at), _seconds(run.ended_at or run.started_at)
    yield from _family("last_run_timestamp_seconds", "When the last run ended.", [({}, ended)])
    yield from _family("last_run_duration_seconds", "How long the last run took.", [({}, ended - began)])
    yield from _family("last_run_exit_code", "Exit code of the last run.", [({}, run.exit_code)])
    rows: Counter[str] = Counter()
    for source in run.sources:
        rows.update(source.rows)
    written = [({"table": table}, float(count)) for table, count in sorted(rows.items())]
    yield from _family("last_run_rows", "Rows that the last run wrote.", written)
    total = sum(source.rejects for source in run.sources)
    yield from _family("last_run_rejects", "Records that the last run could not read.", [({}, total)])
    late = sum(rows for one in run.late for rows in one.rows.values())
    yield from _family("last_run_late_rows", "Rows of nights that had been judged before.", [({}, late)])
    failed = sum(source.error is not None for source in run.sources)
    yield from _family("last_run_failed_sources", "Sources that could not be read.", [({}, failed)])
    verdicts = [
        ({"report": judged["name"] or "", "verdict": judged["verdict"]}, 1.0) for judged in night.get("reports", ())
    ]
    yield from _family("night_verdict", "Verdict of each report of the last night, always 1.", verdicts)
    if night:
        date = dt.datetime.combine(night["date"], dt.time(), dt.UTC).timestamp()
        yield from _family("night_timestamp_seconds", "Start (UTC) of the last night that was judged.", [({}, date)])


def _family(name: str, text: str, samples: Iterable[Sample]) -> Iterator[str]:
    name = f"specledger_{name}"
    yield f"# HELP {name} {text}\n# TYPE {name} gauge\n"
    for labels, value in samples:
        inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        yield f"{name}{{{inside}}} {value:.15g}\n" if inside else f"{name} {value:.15g}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _seconds(stamp: str) -> float:
    return dt.datetime.fromisoformat(stamp).timestamp()
