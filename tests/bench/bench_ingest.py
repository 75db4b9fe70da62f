"""Ingest, end to end to Parquet, against what reads the same bytes with less to do."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Iterator
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from specledger.ingest.run import ingest
from tests.bench import inputs
from tests.bench.measure import Row, megabytes, pair

SCRAPES_MB, LOG_MB, RESPONSES_MB = 60.0, 60.0, 40.0
ANCHOR_SCRAPES = 60
"""What the anchor reads of the scrapes: with fewer its speed differs by half from one run to the next."""
GREP = ("grep", "-cE", r"SpecDecoding|Engine [0-9]+: |Iteration")
LOGS = {"default_flags": "default flags", "dynamic_sd": "iteration details, every request"}
"""Captures whose logs are repeated, and what is in them."""
COLUMNS = {
    "request_id": "VARCHAR",
    "response_id": "VARCHAR",
    "start_unix": "DOUBLE",
    "end_s": "DOUBLE",
    "ttft_s": "DOUBLE",
    "status": "BIGINT",
    "finish_reason": "VARCHAR",
    "chunk_times_s": "FLOAT[]",
    "chunk_tokens": "BIGINT[]",
    "request": "STRUCT(model VARCHAR, max_tokens BIGINT, temperature DOUBLE, top_p DOUBLE)",
    "response": (
        "STRUCT(created BIGINT, model VARCHAR, "
        "usage STRUCT(prompt_tokens BIGINT, completion_tokens BIGINT, "
        "prompt_tokens_details STRUCT(cached_tokens BIGINT)), "
        "metrics STRUCT(time_to_first_token_ms DOUBLE, generation_time_ms DOUBLE, queue_time_ms DOUBLE, "
        "speculative_decoding STRUCT(num_spec_steps BIGINT, num_accepted_draft_tokens BIGINT, "
        "num_draft_tokens BIGINT, num_spec_tokens BIGINT, acceptance_histogram BIGINT[], "
        "per_step_accepted SMALLINT[], per_step_drafted SMALLINT[])))"
    ),
}
"""What ingest takes from a logged response."""
FLAT = """
    request_id, response_id, start_unix, end_s, ttft_s, status, finish_reason, chunk_times_s, chunk_tokens,
    request.model AS asked, request.max_tokens, request.temperature, request.top_p,
    response.created, response.model AS served, response.usage.prompt_tokens AS prompt_tokens,
    response.usage.completion_tokens AS completion_tokens,
    response.usage.prompt_tokens_details.cached_tokens AS cached_tokens,
    response.metrics.time_to_first_token_ms AS server_ttft_ms, response.metrics.generation_time_ms AS generation_ms,
    response.metrics.queue_time_ms AS queue_ms, unnest(response.metrics.speculative_decoding)
"""


def rows(scale: float, folder: Path) -> Iterator[Row]:
    """One row an input format."""
    fresh = (folder / f"warehouse-{number}" for number in itertools.count())
    yield _scrapes(inputs.scrapes(folder / "metrics.prom", SCRAPES_MB * scale), fresh)
    yield _responses(inputs.responses(folder / "responses.jsonl", RESPONSES_MB * scale), fresh)
    for capture, title in LOGS.items():
        yield _log(inputs.server_log(folder / f"{capture}.log", capture, LOG_MB * scale), title, fresh)


def _scrapes(path: Path, fresh: Iterator[Path]) -> Row:
    texts = inputs.scrape_texts()
    some = texts[:: max(1, len(texts) // ANCHOR_SCRAPES)]

    def anchor() -> None:
        for text in some:
            for family in text_string_to_metric_families(text):
                for _ in family.samples:
                    pass

    ours, theirs = pair(lambda: ingest(next(fresh), [path], deployment="d"), anchor)
    size, anchor_size = megabytes(path), sum(map(len, some)) / 1e6
    return _speed("exposition ingest", size, size / ours, anchor_size / theirs, 50, "prometheus_client.parser")


def _responses(path: Path, fresh: Iterator[Path]) -> Row:
    import duckdb

    target = path.with_suffix(".parquet")
    columns = ", ".join(f"{name}: '{kind}'" for name, kind in COLUMNS.items())

    def anchor() -> None:
        duckdb.connect().execute(
            f"COPY (SELECT {FLAT} FROM read_json('{path}', format = 'newline_delimited', columns = {{{columns}}})) "
            f"TO '{target}' (FORMAT parquet, COMPRESSION zstd)"
        )

    ours, theirs = pair(lambda: ingest(next(fresh), [path], deployment="d"), anchor)
    size = megabytes(path)
    return _speed(
        "responses ingest, detailed arrays", size, size / ours, size / theirs, 0.8, "DuckDB COPY of read_json"
    )


def _log(path: Path, title: str, fresh: Iterator[Path]) -> Row:
    ours, theirs = pair(
        lambda: ingest(next(fresh), [path], deployment="d", timezone="UTC"),
        lambda: subprocess.run([*GREP, path], stdout=subprocess.PIPE, check=True),
    )
    size = megabytes(path)
    return Row(
        f"server-log ingest, {title}",
        f"{size:.0f} MB",
        f"{ours:.2f} s, {size / ours:.0f} MB/s",
        f"{theirs:.2f} s",
        ours / theirs,
        8.0,
        anchor_name="grep -cE of the records",
    )


def _speed(work: str, size: float, ours: float, theirs: float, goal: float, anchor: str) -> Row:
    return Row(
        work,
        f"{size:.0f} MB",
        f"{ours:.0f} MB/s",
        f"{theirs:.3g} MB/s",
        ours / theirs,
        goal,
        at_least=True,
        anchor_name=anchor,
    )
