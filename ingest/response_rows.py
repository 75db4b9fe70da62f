"""From the places of a record to the columns of ``requests``: what each means, and which goes before which."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from functools import lru_cache

import polars as pl

from .plausible import LONGEST_MS, MOST
from .response_fields import (
    ABORTS,
    BODIES,
    CHUNK_MILLISECONDS,
    CHUNK_SECONDS,
    CODES,
    CREATED,
    ENDS,
    FIRST_MILLISECONDS,
    FIRST_SECONDS,
    GAP_MILLISECONDS,
    GAP_SECONDS,
    HISTOGRAM,
    IDS,
    LABELS,
    MILLISECONDS,
    PATHS,
    REASONS,
    REQUESTS,
    SECONDS,
    SPECULATION,
    STARTS,
    within,
)

_EARLIEST, _LATEST = dt.datetime(2001, 1, 1), dt.datetime(2101, 1, 1)
_OK = ("ok", "success", "succeeded", "completed", "complete", "incomplete", "finished", "done")
_FAILED = ("error", "failed", "failure", "timeout")
_ABORTED = ("aborted", "abort", "cancelled", "canceled")
_ENDPOINTS = "completions|responses|generate|messages|/chat"
"""What the path of a request contains that asks for tokens; health checks and model lists are no requests here."""
_DAY_MS = 86_400_000.0
_AGREE = 0.01
"""Relative difference up to which the generation time and the mean gap say the same."""

_TIMES = ("client_ms", "first_seen_ms", "prefill_ms", "queue_ms", "generation_ms", "mean_ms")
_COUNTED = ("prompt_tokens", "output_tokens", "cached_tokens", "rounds", "drafted", "accepted")

_WHOLE = pl.Int64()
_NUMBER = pl.Float64()
_WORD = pl.String()
_NUMBERS = pl.List(pl.Float64)
_COUNTS = pl.List(pl.Int64)
_TAGS = pl.Map(pl.String, pl.String)


class _Places:
    """Expressions for the places of a decoded frame, whichever of them it has."""

    def __init__(self, have: frozenset[str]) -> None:
        self._have = have

    def first(self, *places: str, kind: pl.DataType) -> pl.Expr:
        """The first of these that is known."""
        used = [pl.col(place).cast(kind) for place in places if place in self._have]
        if len(used) == 1:
            return used[0]
        return pl.coalesce(*used) if used else pl.lit(None, kind)

    def body(self, *fields: str, kind: pl.DataType) -> pl.Expr:
        """The first of these fields that any body has, the record's own body first."""
        return self.first(*(path for field in fields for body in BODIES for path in within(body, field)), kind=kind)

    def request(self, *fields: str, kind: pl.DataType) -> pl.Expr:
        """The first of these sampling parameters that is given."""
        return self.first(*(path for field in fields for place in REQUESTS for path in within(place, field)), kind=kind)

    def instant(self, *places: str) -> pl.Expr:
        """The first of these that is a time between 2001 and 2101."""
        used = [_plausible(_instant(pl.col(place))) for place in places if place in self._have]
        used += [_plausible(pl.col(f"{place}@")) for place in places if f"{place}@" in self._have]
        return pl.coalesce(*used, pl.lit(None, pl.Datetime("us")))

    def duration(self, milliseconds: tuple[str, ...], seconds: tuple[str, ...] = ()) -> pl.Expr:
        """The first of these that is known, in ms."""
        in_ms = _finite(self.first(*milliseconds, kind=_NUMBER))
        in_s = _finite(self.first(*seconds, kind=_NUMBER)) * 1e3
        return pl.coalesce(in_ms, in_s) if seconds else in_ms

    def body_duration(self, field: str) -> pl.Expr:
        return self.duration(tuple(path for body in BODIES for path in within(body, field)))

    def times(self, milliseconds: tuple[str, ...], seconds: tuple[str, ...]) -> pl.Expr:
        """A list of times in ms."""
        in_ms, in_s = self.first(*milliseconds, kind=_NUMBERS), self.first(*seconds, kind=_NUMBERS) * 1e3
        if not self._have.intersection(milliseconds):
            return in_s
        return pl.coalesce(in_ms, in_s) if self._have.intersection(seconds) else in_ms


def rows_of(decoded: pl.DataFrame) -> pl.DataFrame:
    """The rows of ``requests`` that decoded records say, one each, in order.

    Beside the columns of the table there are five of what is wrong with a record: ``nothing`` (it is no response),
    ``elsewhere`` (it is a call of another endpoint), ``impossible`` (the name of a figure that no server can have),
    ``disagrees`` (generation time and mean gap contradict each other), and ``doubtful``: a fact is missing that may
    stand where the shape did not look.
    """
    found = decoded
    for columns, replaced in _steps(frozenset(decoded.columns)):
        found = found.select_seq(columns) if replaced else found.with_columns_seq(columns)
    return found


@lru_cache(maxsize=64)
def _steps(places: frozenset[str]) -> list[tuple[Sequence[pl.Expr | str], bool]]:
    """What is computed one after the other, and whether it takes the place of all columns before it.

    Kept, because saying it takes as long as computing it for some hundred rows.
    """
    return [
        (_found(_Places(places)), True),
        (_derived(), False),
        (_outcome(), False),
        ([*_columns(), *_faults()], True),
    ]


def _found(places: _Places) -> list[pl.Expr]:
    first, body, request = places.first, places.body, places.request
    usage, speculation = "usage.", f"{SPECULATION}."
    labelled = [(f"{name}:{key}") for key in ("lora", "adapter") for name in LABELS]
    words = (path for field in ("status",) for one in BODIES for path in within(one, field))
    codes = (*CODES, *(path for one in BODIES if one for path in within(one, "status_code", "code")))
    facts: dict[str, pl.Expr] = {
        "client_id": first(*IDS, kind=_WORD),
        "body_id": body("id", kind=_WORD),
        "object": body("object", kind=_WORD),
        "model_name": pl.coalesce(body("model", kind=_WORD), request("model", kind=_WORD)),
        "started": places.instant(*STARTS),
        "ended": places.instant(*ENDS),
        "created": places.instant(*(path for field in CREATED for one in BODIES for path in within(one, field))),
        "client_ms": places.duration(MILLISECONDS, SECONDS),
        "first_seen_ms": places.duration(FIRST_MILLISECONDS, FIRST_SECONDS),
        "chunks": places.times(CHUNK_MILLISECONDS, CHUNK_SECONDS),
        "given_gaps": places.times(GAP_MILLISECONDS, GAP_SECONDS),
        "code": _finite(first(*codes, kind=_NUMBER)),
        "word": first(*(f"{path}~" for path in words), kind=_WORD),
        "error": body("error", kind=_WORD),
        "aborted": first(*ABORTS, kind=pl.Boolean()).fill_null(value=False),
        "finish_reason": pl.coalesce(
            first(*REASONS, kind=_WORD),
            body("choices.finish_reason", kind=_WORD),
            body("incomplete_details.reason", kind=_WORD),
        ),
        "choices": body("choices.finish_reason#", kind=_WHOLE),
        "sequences": request("n", kind=_WHOLE),
        "prompt_tokens": body(usage + "prompt_tokens", usage + "input_tokens", kind=_WHOLE),
        "output_tokens": body(usage + "completion_tokens", usage + "output_tokens", kind=_WHOLE),
        "cached_tokens": body(
            *(f"usage.{name}_tokens_details.cached_tokens" for name in ("prompt", "input")), kind=_WHOLE
        ),
        "prefill_ms": places.body_duration("metrics.time_to_first_token_ms"),
        "queue_ms": places.body_duration("metrics.queue_time_ms"),
        "generation_ms": places.body_duration("metrics.generation_time_ms"),
        "mean_ms": places.body_duration("metrics.mean_itl_ms"),
        "preemptions": body("metrics.num_preemptions", kind=_WHOLE),
        "rounds": body(speculation + "num_spec_steps", kind=_WHOLE),
        "drafted": body(speculation + "num_draft_tokens", kind=_WHOLE),
        "accepted": body(speculation + "num_accepted_draft_tokens", kind=_WHOLE),
        "draft_limit": body(speculation + "num_spec_tokens", kind=pl.Int32()),
        "accepted_hist": body(HISTOGRAM, kind=_COUNTS),
        "accepted_hist_by_length": body(HISTOGRAM + "_by_draft_length", kind=pl.Map(pl.Int32, pl.List(pl.Int64))),
        "step_accepted": body(speculation + "per_step_accepted", kind=pl.List(pl.Int32)),
        "step_drafted": body(speculation + "per_step_drafted", kind=pl.List(pl.Int32)),
        "temperature": _finite(request("temperature", kind=_NUMBER)),
        "top_p": _finite(request("top_p", kind=_NUMBER)),
        "max_tokens": request("max_tokens", "max_completion_tokens", "max_output_tokens", kind=_WHOLE),
        "task": first("task", *(f"{name}:task" for name in LABELS), kind=_WORD),
        "lora": pl.coalesce(request("lora", "lora_name", kind=_WORD), first(*labelled, kind=_WORD)),
        "labels": first("tags", kind=_TAGS),
        "path": first(*PATHS, kind=_WORD),
        "method": first("method", kind=_WORD).str.to_uppercase(),
    }
    return [expression.alias(name) for name, expression in facts.items()]


def _derived() -> list[pl.Expr]:
    output, chunks = pl.col("output_tokens"), pl.col("chunks")
    start = chunks.list.first()
    # Chunk times are relative to the start, or unix times: only relative ones begin with the time to the first token.
    seen = pl.coalesce("first_seen_ms", pl.when(start.is_between(0, _DAY_MS)).then(start))
    decode = pl.coalesce("generation_ms", pl.when(output > 1).then(pl.col("mean_ms") * (output - 1)))
    chunked = chunks.list.len() > 1
    by_chunks = pl.when(chunked).then(chunks.list.last() - start)
    client = pl.coalesce(by_chunks, pl.col("client_ms") - seen)
    first_token = pl.col("prefill_ms") + pl.col("queue_ms")
    return [
        seen.alias("client_ttft_ms"),
        first_token.alias("ttft_ms"),
        decode.alias("server_decode_ms"),
        pl.when(output > 1, client >= 0).then(client).alias("client_decode_ms"),
        (first_token + decode).alias("server_ms"),
        pl.when(chunked).then(chunks.list.diff(null_behavior="drop")).otherwise("given_gaps").alias("gaps"),
    ]


def _outcome() -> list[pl.Expr]:
    code, word, reason = pl.col("code"), pl.col("word"), pl.col("finish_reason")
    aborted = pl.col("aborted") | (reason == "abort") | (code == 499) | word.is_in(_ABORTED)
    failed = (code >= 400) | (pl.col("object") == "error") | (reason == "error") | word.is_in(_FAILED)
    answered = reason.is_not_null() | pl.col("output_tokens").is_not_null()
    cut = pl.col("object").str.ends_with(".chunk").fill_null(value=False)
    well = (code.is_between(200, 399) | word.is_in(_OK)) & ~cut
    arrived = pl.coalesce(
        "started",
        _after(pl.col("ended"), -pl.coalesce("client_ms", "server_ms")),
        "created",
    )
    return [
        pl.when(aborted)
        .then(pl.lit("aborted"))
        .when(failed | pl.col("error").is_not_null())
        .then(pl.lit("failed"))
        .when(answered)
        .then(pl.lit("ok"))
        .when(well)
        .then(pl.lit("ok"))
        .otherwise(pl.lit("unknown"))
        .alias("status"),
        arrived.alias("arrived_at"),
    ]


def _columns() -> list[pl.Expr | str]:
    gaps = pl.col("gaps")
    possible = (gaps.list.min() >= 0) & gaps.list.sum().is_finite()
    own_id = pl.col("client_id").is_not_null() & ~pl.col("body_id").str.contains(pl.col("client_id"), literal=True)
    return [
        pl.coalesce("client_id", "body_id").alias("request_id"),
        pl.lit("responses").alias("format"),
        "model_name",
        "arrived_at",
        pl.coalesce(
            "ended",
            _after(pl.col("started"), pl.coalesce("client_ms", pl.col("chunks").list.last())),
            _after(pl.col("created"), pl.coalesce("server_ms", "client_ms")),
            "arrived_at",
        ).alias("finished_at"),
        "status",
        pl.when(pl.col("code").is_between(100, 599)).then("code").cast(pl.Int32).alias("status_code"),
        "finish_reason",
        pl.coalesce("sequences", pl.when(pl.col("choices") > 1).then("choices")).alias("sequences"),
        "prompt_tokens",
        "cached_tokens",
        "output_tokens",
        "ttft_ms",
        "client_ttft_ms",
        "queue_ms",
        "prefill_ms",
        pl.coalesce("server_decode_ms", "client_decode_ms").alias("decode_ms"),
        pl.when(pl.col("server_decode_ms").is_not_null())
        .then(pl.lit("server"))
        .when(pl.col("client_decode_ms").is_not_null())
        .then(pl.lit("client"))
        .alias("decode_from"),
        pl.when(pl.col("output_tokens") > 0).then(pl.coalesce("server_ms", "client_ms")).alias("e2e_ms"),
        pl.when(possible).then(gaps).cast(pl.List(pl.Float32)).alias("gaps_ms"),
        pl.when(possible).then(pl.lit("client")).alias("gaps_from"),
        "rounds",
        "drafted",
        "accepted",
        "draft_limit",
        "accepted_hist",
        "accepted_hist_by_length",
        "step_accepted",
        "step_drafted",
        "preemptions",
        "temperature",
        "top_p",
        "max_tokens",
        "task",
        "lora",
        "labels",
        pl.when(own_id).then("body_id").alias("response_id"),
    ]


def _faults() -> list[pl.Expr]:
    said = ("prompt_tokens", "output_tokens", "code", "error", "prefill_ms", "generation_ms", "rounds", "finish_reason")
    output, generation = pl.col("output_tokens"), pl.col("generation_ms")
    other = ~pl.col("path").str.contains(_ENDPOINTS) | pl.col("method").is_in(["GET", "HEAD", "OPTIONS", "DELETE"])
    difference = (generation - pl.col("mean_ms") * (output - 1)).abs()
    unknown_id = pl.col("client_id").is_null() & pl.col("body_id").is_null()
    no_tokens = output.is_null() & (pl.col("status") != "failed")
    no_histogram = pl.col("rounds").is_not_null() & pl.col("accepted_hist").is_null()
    return [
        (pl.all_horizontal(pl.col(*said, "client_ms").is_null()) & ~pl.col("aborted")).alias("nothing"),
        (output.is_null() & other).fill_null(value=False).alias("elsewhere"),
        pl.coalesce(*_impossible()).alias("impossible"),
        ((output > 1) & (difference > _AGREE * generation + 1)).fill_null(value=False).alias("disagrees"),
        (unknown_id | pl.col("arrived_at").is_null() | no_tokens | no_histogram.fill_null(value=False)).alias(
            "doubtful"
        ),
    ]


def _impossible() -> list[pl.Expr]:
    """The names of figures that no server can have."""
    gaps = pl.col("gaps")
    return [
        *(pl.when(~pl.col(name).is_between(0, LONGEST_MS)).then(pl.lit(name)) for name in _TIMES),
        *(pl.when(~pl.col(name).is_between(0, MOST)).then(pl.lit(name)) for name in _COUNTED),
        # Chunks that come out of order by a little are a client's clock; the server did nothing wrong.
        pl.when((gaps.list.max() > LONGEST_MS) | (gaps.list.min() < -LONGEST_MS)).then(pl.lit("chunk times")),
    ]


def _finite(number: pl.Expr) -> pl.Expr:
    return pl.when(number.is_finite()).then(number)


def _plausible(instant: pl.Expr) -> pl.Expr:
    return pl.when(instant.is_between(_EARLIEST, _LATEST)).then(instant)


def _instant(number: pl.Expr) -> pl.Expr:
    """Seconds, milliseconds, microseconds and nanoseconds since 1970 are told apart by their size."""
    micros = (
        pl.when(number >= 1e17)
        .then(number / 1e3)
        .when(number >= 1e14)
        .then(number)
        .when(number >= 1e11)
        .then(number * 1e3)
        .otherwise(number * 1e6)
    )
    return pl.when(number.is_between(9e8, 5e18)).then(micros.round().cast(pl.Int64)).cast(pl.Datetime("us"))


def _after(instant: pl.Expr, milliseconds: pl.Expr) -> pl.Expr:
    possible = pl.when(milliseconds.abs() <= LONGEST_MS).then(milliseconds)
    return instant + (possible * 1e3).round().cast(pl.Int64).cast(pl.Duration("us"))
