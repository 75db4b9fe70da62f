"""Evaluation figures: result files of lm-evaluation-harness, or CSV ``deployment,task,metric,value,stderr,n``."""

from __future__ import annotations

import csv
import datetime as dt
import io
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from ..schemas.errors import UsageError
from ..schemas.warehouse import check_deployment
from .client_rows import Row, frame
from .json_input import Documents
from .reader import InputContext, Progress, Sink
from .values import count, instant, local_time, number, text

_NEEDED = ("task", "metric", "value")
LONGEST = 64 << 20
"""Bytes of one input that are read: results with every option of a large suite are some MiB."""
_CHUNK = 1 << 20
_NO_METRICS = {"alias", "samples", "sample_len", "name", "sample_count"}


def read(stream: BinaryIO, context: InputContext, sink: Sink) -> Progress:
    """Figures with their standard errors and samples; the instant is the file's own, else that of its last change."""
    body = stream.read(LONGEST)
    size = len(body)
    while more := stream.read(_CHUNK):
        size += len(more)
    if size > len(body):
        sink.reject(0, f"These are more than {LONGEST >> 20} MiB, which no evaluation writes: see what it is.", "")
        return Progress(size)
    if body.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"["):
        return _read_csv(body, context, sink)
    documents = Documents(io.BytesIO(body), context, sink)
    for offset, document in documents:
        results = document.get("results")
        if not isinstance(results, Mapping):
            sink.reject(
                offset, "The document has no results: it is not of lm-evaluation-harness.", str(list(document)[:20])
            )
            continue
        figures = list(_figures(document, results, _evaluated_at(document, context), offset))
        rows = [row for row in figures if row["value"] is not None]
        if rows:
            sink.rows("quality", frame("quality", rows))
        for row in figures:
            if row["value"] is None:
                sink.reject(offset, "The figure is no finite number.", f"{row['task']}: {row['metric']}")
        if not figures:
            sink.reject(offset, "The results hold no figure.", str(list(results)[:20]))
    return documents.progress


def _evaluated_at(document: Mapping[str, Any], context: InputContext) -> dt.datetime:
    return instant(document.get("date")) or context.named_at or context.modified_at


def _figures(
    document: Mapping[str, Any], results: Mapping[str, Any], moment: dt.datetime, offset: int
) -> Iterator[Row]:
    samples = _mapping(document.get("n-samples"))
    better = _mapping(document.get("higher_is_better"))
    for task, figures in results.items():
        for name, value in _mapping(figures).items():
            metric, _, filtered = name.partition(",")
            # A group that adds nothing up has blank text under a blank name.
            if metric.endswith("_stderr") or metric in _NO_METRICS or not metric.strip():
                continue
            used = _mapping(samples.get(task))
            direction = _mapping(better.get(task)).get(metric)
            stderr = figures.get(f"{metric}_stderr,{filtered}", figures.get(f"{metric}_stderr"))
            yield {
                "byte_offset": offset,
                "task": str(task)[:500],
                "metric": name[:500],
                "value": None if isinstance(value, str) else number(value),
                "stderr": number(stderr) if not isinstance(stderr, str) else None,
                "n": count(used.get("effective", used.get("original", figures.get("sample_len")))),
                "higher_is_better": direction if isinstance(direction, bool) else None,
                "evaluated_at": moment,
            }


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _read_csv(body: bytes, context: InputContext, sink: Sink) -> Progress:
    content = body.decode("utf-8-sig", "replace")
    lines = csv.reader(io.StringIO(content, newline=""), skipinitialspace=True)
    rows: list[Row] = []
    header: list[str] | None = None
    figures = 0
    try:
        for cells in lines:
            if not any(cell.strip() for cell in cells):
                continue
            if header is None:
                header = [cell.strip().lower() for cell in cells]
                missing = [name for name in _NEEDED if name not in header]
                if missing:
                    sink.reject(
                        0, f"The CSV has no column {missing[0]}: it needs task, metric and value.", content[:200]
                    )
                    return Progress(len(body))
                continue
            figures += 1
            named = dict(zip(header, (cell.strip() for cell in cells), strict=False))
            try:
                check_deployment(named.get("deployment") or context.deployment)
            except UsageError as error:
                sink.reject(None, f"Line {lines.line_num}: {error}", ",".join(cells))
                continue
            row = _csv_row(named, context)
            if row is None or len(cells) > len(header):
                reason = f"Line {lines.line_num} is no figure: task, metric and a numeric value are needed."
                sink.reject(None, reason, ",".join(cells))
            else:
                rows.append(row)
    except csv.Error as error:
        sink.reject(None, f"The CSV cannot be read from line {lines.line_num} on: {error}.", "")
        figures += 1
    if not figures and body.strip():
        sink.reject(
            0, "The CSV holds no figure: it needs a header with task, metric and value, and lines.", content[:200]
        )
    if rows:
        sink.rows("quality", frame("quality", rows))
    return Progress(len(body))


def _csv_row(cells: Mapping[str, str], context: InputContext) -> Row | None:
    value = number(cells.get("value"))
    task, metric = text(cells.get("task")), text(cells.get("metric"))
    if value is None or task is None or metric is None:
        return None
    stated = {name: cells.get(name) or None for name in ("stderr", "n", "evaluated_at")}
    stderr, samples = number(stated["stderr"]), count(stated["n"])
    moment = _csv_moment(stated["evaluated_at"], context)
    if (stated["stderr"] and stderr is None) or (stated["n"] and samples is None) or moment is None:
        return None
    return {
        "deployment": text(cells.get("deployment")) or context.deployment,
        "task": task,
        "metric": metric,
        "value": value,
        "stderr": stderr,
        "n": samples,
        "evaluated_at": moment,
    }


def _csv_moment(stated: str | None, context: InputContext) -> dt.datetime | None:
    if stated is None:
        return context.named_at or context.modified_at
    try:
        return local_time(dt.datetime.fromisoformat(stated), context.timezone)
    except ValueError:
        return None
