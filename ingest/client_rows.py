"""Rows of client tools: few enough to be built one by one, typed by the declaration of their table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from ..schemas import TABLES
from .values import SMALL, count, duration_ms, histogram

Row = dict[str, Any]


def frame(table: str, rows: Sequence[Row]) -> pl.DataFrame:
    """The rows as a frame with the declared types of every column that a row has."""
    types = dict(pl.DataFrame(TABLES[table].arrow_schema().empty_table()).schema) | {"deployment": pl.String()}
    present = dict.fromkeys(name for row in rows for name in row)
    return pl.DataFrame(rows, schema={name: types[name] for name in present})


def server_metrics(metrics: object) -> Row:
    """The columns that vLLM's per-request ``metrics`` object fills; times are the server's.

    Time to first token there starts at scheduling, so the queue is added; without a queue time it stays unknown.
    """
    if not isinstance(metrics, Mapping):
        return {}
    first, queue = duration_ms(metrics.get("time_to_first_token_ms")), duration_ms(metrics.get("queue_time_ms"))
    decode = duration_ms(metrics.get("generation_time_ms"))
    row: Row = {
        "queue_ms": queue,
        "prefill_ms": first,
        "decode_ms": decode,
        "decode_from": "server" if decode else None,
    }
    if first is not None and queue is not None:
        row["ttft_ms"] = first + queue
    return row | speculation(metrics.get("speculative_decoding"))


def speculation(facts: object) -> Row:
    """The columns that a ``speculative_decoding`` object fills; a request that never speculated gives none."""
    if not isinstance(facts, Mapping) or not count(facts.get("num_spec_steps")):
        return {}
    by_length = facts.get("acceptance_histogram_by_draft_length")
    return {
        "rounds": count(facts.get("num_spec_steps")),
        "drafted": count(facts.get("num_draft_tokens")),
        "accepted": count(facts.get("num_accepted_draft_tokens")),
        "draft_limit": count(facts.get("num_spec_tokens"), SMALL),
        "accepted_hist": histogram(facts.get("acceptance_histogram")),
        "accepted_hist_by_length": _by_length(by_length) if isinstance(by_length, Mapping) else None,
        "step_accepted": _lengths(facts.get("per_step_accepted")),
        "step_drafted": _lengths(facts.get("per_step_drafted")),
    }


def _by_length(histograms: Mapping[str, object]) -> list[dict[str, Any]] | None:
    found = [{"key": count(length, SMALL), "value": histogram(rounds)} for length, rounds in histograms.items()]
    return None if any(None in entry.values() for entry in found) else found


def _lengths(values: object) -> list[int] | None:
    found = [count(value, SMALL) for value in values] if isinstance(values, list) else [None]
    return None if None in found else [value for value in found if value is not None]
