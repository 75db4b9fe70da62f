"""The SQL that turns lines of JSON into rows of ``requests``: one SELECT over a table of lines."""

from __future__ import annotations

from functools import lru_cache

from .response_fields import (
    ABORTS,
    BODIES,
    CHUNK_MILLISECONDS,
    CHUNK_SECONDS,
    CODES,
    ENDS,
    FIRST_MILLISECONDS,
    FIRST_SECONDS,
    GAP_MILLISECONDS,
    GAP_SECONDS,
    IDS,
    LABELS,
    MILLISECONDS,
    PATHS,
    REASONS,
    SECONDS,
    SHORT_TAGS,
    STARTS,
    Shape,
    column,
)

LONGEST_TAG = 200
"""Characters of a tag's value; what is longer is text, not a label, and left out."""
_TEXT_KEYS = ("prompt", "messages", "input", "output", "content", "text", "completion", "response", "query", "answer")

MACROS = (
    "finite(x) AS CASE WHEN isfinite(x) THEN x END",
    "duration(x) AS CASE WHEN isfinite(x) AND x >= 0 THEN x END",
    # Seconds, milliseconds, microseconds and nanoseconds since 1970 are told apart by their size.
    """unix_us(x) AS CAST(round(CASE
        WHEN x >= 1e17 THEN x / 1e3 WHEN x >= 1e14 THEN x WHEN x >= 1e11 THEN x * 1e3 ELSE x * 1e6 END) AS BIGINT)""",
    """plausible(t) AS
        CASE WHEN t BETWEEN TIMESTAMP '2001-01-01' AND TIMESTAMP '2101-01-01' THEN t END""",
    """instant(x) AS plausible(CASE
        WHEN TRY_CAST(x AS DOUBLE) BETWEEN 9e8 AND 5e18 THEN make_timestamp(unix_us(TRY_CAST(x AS DOUBLE)))
        WHEN TRY_CAST(x AS DOUBLE) IS NULL THEN TRY_CAST(x AS TIMESTAMP) END)""",
    "number_instant(x) AS plausible(CASE WHEN x BETWEEN 9e8 AND 5e18 THEN make_timestamp(unix_us(x)) END)",
    "after(t, ms) AS t + to_microseconds(CAST(round(ms * 1e3) AS BIGINT))",
    f"""short_tags(m) AS map_from_entries(list_filter(map_entries(m), lambda e:
        e.value IS NOT NULL AND length(e.value) <= {LONGEST_TAG} AND length(e.key) <= 64
        AND lower(e.key) NOT IN ({", ".join(repr(key) for key in _TEXT_KEYS)})))""",
    """dense(h) AS list_transform(
        range(0, 1 + list_max(list_transform(map_keys(h), lambda k: TRY_CAST(k AS INTEGER)))),
        lambda i: coalesce(h[CAST(i AS VARCHAR)], 0))""",
    """histogram(j) AS CASE
        WHEN json_type(j) = 'ARRAY' THEN TRY_CAST(j AS BIGINT[])
        WHEN json_type(j) = 'OBJECT' THEN dense(TRY_CAST(j AS MAP(VARCHAR, BIGINT))) END""",
)
"""Conversions by name, to be created once in a connection."""

_SPECULATION = "metrics.speculative_decoding"
_ENDPOINTS = "completions|responses|generate|messages|/chat"
"""What the path of a request contains that asks for tokens; health checks and model lists are no requests here."""
_OK = "'ok', 'success', 'succeeded', 'completed', 'complete', 'incomplete', 'finished', 'done'"
_FAILED = "'error', 'failed', 'failure', 'timeout'"
_ABORTED = "'aborted', 'abort', 'cancelled', 'canceled'"


def _first_of_units(shape: Shape, seconds: tuple[str, ...], milliseconds: tuple[str, ...]) -> str:
    return f"coalesce({shape.first(*milliseconds)}, 1e3 * {shape.first(*seconds)})"


def _histogram_as_json(shape: Shape) -> str:
    """The histogram as JSON, wherever it stands; asked only where it is no dense list."""
    places = [".".join(filter(None, (body, _SPECULATION, "acceptance_histogram"))) for body in shape.bodies or ("",)]
    found = [f"json_extract(line, '$.{place}')" for place in places]
    return found[0] if len(found) == 1 else f"coalesce({', '.join(found)})"


def _tags(shape: Shape) -> str:
    """Labels of the record, short scalars of the envelope, and the server's own id where the client has another."""
    named = [name for name in LABELS if name in shape.leaves]
    parts = [f"coalesce({column(name)}, MAP {{}})" for name in reversed(named)]
    short = [name for name in SHORT_TAGS if name in shape.leaves]
    if short:
        entries = ", ".join(f"{{'key': '{name}', 'value': {column(name)}}}" for name in short)
        parts.insert(0, f"map_from_entries(list_filter([{entries}], lambda e: e.value IS NOT NULL))")
    together = "".join(parts) if len(parts) < 2 else "map_concat(" + ", ".join(parts) + ")"
    given = f"short_tags({together})" if parts else "NULL"
    own_id = "MAP {'response_id': body_id}"
    with_id = f"map_concat({given}, {own_id})" if parts else own_id
    return f"CASE WHEN NOT contains(body_id, client_id) THEN {with_id} ELSE {given} END"


FROM_LINES = "(SELECT line, TRY(from_json(line, '{structure}')) AS r FROM lines)"
FROM_FILE = """read_json('{path}', format = 'newline_delimited', ignore_errors = true,
    maximum_object_size = {longest}, columns = {columns}) AS r"""


def query_lines(shape: Shape) -> str:
    """A SELECT from the table ``lines(line VARCHAR)``, one row a line, in order.

    Besides the columns of ``requests`` (gaps as times that ``_differ`` or not, in ``_in_seconds`` or not) it has
    ``known`` (false where the line is no JSON), ``nothing`` (JSON, but no response), ``negative`` counts, ``disagrees``
    (generation time and mean gap), ``elsewhere`` (a call of another endpoint), and ``doubtful``: a fact is missing that
    may stand where the shape does not look.
    """
    source = FROM_LINES.format(structure=shape.structure())
    own_id = "'line-' || left(md5(trim(line, ' \t\r\n')), 16)"
    return _query(shape, source, "r IS NOT NULL", own_id, _histogram_as_json(shape))


def query_file(shape: Shape, path: str, longest: int) -> str:
    """The same from a file of lines, faster, but with all facts missing where a line is broken."""
    source = FROM_FILE.format(path=path, longest=longest, columns=shape.columns())
    return _query(shape, source, "true", "NULL", "CAST(NULL AS JSON)")


@lru_cache(maxsize=64)
def _query(shape: Shape, source: str, known: str, own_id: str, histogram_json: str) -> str:
    bodies = [body for body in BODIES if body]
    codes = shape.each(
        "TRY_CAST({} AS INTEGER)", *CODES, *(f"{body}.{name}" for name in ("status_code", "code") for body in bodies)
    )
    usage = "usage."
    counted = [f"coalesce(len({column(f'{body}.choices' if body else 'choices')}), 0)" for body in shape.bodies]
    choices = " + ".join(counted) or "0"
    return f"""
WITH found AS (
    SELECT
        {known} AS known,
        {own_id} AS own_id,
        {shape.first(*IDS)} AS client_id,
        {shape.in_body("id")} AS body_id,
        {shape.in_body("object")} AS kind,
        {shape.in_body("model")} AS body_model,
        {shape.in_request("model")} AS asked_model,
        {shape.instants(*STARTS)} AS started_at,
        {shape.instants(*ENDS)} AS ended_at,
        {shape.instants(*(f"{body}.{name}".lstrip(".") for name in ("created", "created_at") for body in BODIES))}
            AS created_at,
        duration({_first_of_units(shape, SECONDS, MILLISECONDS)}) AS client_ms,
        duration({_first_of_units(shape, FIRST_SECONDS, FIRST_MILLISECONDS)}) AS client_first_ms,
        {shape.first(*CHUNK_SECONDS)} AS chunks_s,
        {shape.first(*CHUNK_MILLISECONDS)} AS chunks_ms,
        {shape.first(*GAP_SECONDS)} AS given_gaps_s,
        {shape.first(*GAP_MILLISECONDS)} AS given_gaps_ms,
        {codes} AS code,
        lower(CAST({shape.in_body("status")} AS VARCHAR)) AS status_word,
        {shape.in_body("error")} AS error,
        coalesce({shape.first(*ABORTS)}, false) AS aborted,
        coalesce(
            {shape.first(*REASONS)},
            {shape.in_body("choices.finish_reason").replace('"choices"', '"choices"[1]')},
            {shape.in_body("incomplete_details.reason")}
        ) AS reason,
        {choices}
            AS choices,
        {shape.in_request("n")} AS asked_sequences,
        {shape.in_body(usage + "prompt_tokens", usage + "input_tokens")} AS prompt_tokens,
        {shape.in_body(usage + "completion_tokens", usage + "output_tokens")} AS output_tokens,
        {shape.in_body(*(usage + name + "_tokens_details.cached_tokens" for name in ("prompt", "input")))}
            AS cached_tokens,
        duration({shape.in_body("metrics.time_to_first_token_ms")}) AS first_ms,
        duration({shape.in_body("metrics.queue_time_ms")}) AS queue_ms,
        duration({shape.in_body("metrics.generation_time_ms")}) AS generation_ms,
        duration({shape.in_body("metrics.mean_itl_ms")}) AS mean_ms,
        {shape.in_body("metrics.num_preemptions")} AS preemptions,
        {shape.in_body(_SPECULATION + ".num_spec_steps")} AS rounds,
        {shape.in_body(_SPECULATION + ".num_draft_tokens")} AS drafted,
        {shape.in_body(_SPECULATION + ".num_accepted_draft_tokens")} AS accepted,
        {shape.in_body(_SPECULATION + ".num_spec_tokens")} AS draft_limit,
        {shape.in_body(_SPECULATION + ".acceptance_histogram")} AS dense_hist,
        CASE WHEN dense_hist IS NULL AND rounds IS NOT NULL THEN {histogram_json} END AS other_hist,
        {shape.in_body(_SPECULATION + ".acceptance_histogram_by_draft_length")} AS hist_by_length,
        {shape.in_body(_SPECULATION + ".per_step_accepted")} AS step_accepted,
        {shape.in_body(_SPECULATION + ".per_step_drafted")} AS step_drafted,
        finite({shape.in_request("temperature")}) AS temperature,
        finite({shape.in_request("top_p")}) AS top_p,
        {shape.in_request("max_tokens", "max_completion_tokens", "max_output_tokens")} AS max_tokens,
        {_labelled(shape, shape.first("task"), "task")} AS task,
        {_labelled(shape, shape.in_request("lora", "lora_name"), "lora", "adapter")} AS lora,
        {_tags(shape)} AS tags,
        {shape.first(*PATHS)} AS path,
        upper({shape.first("method")}) AS method
    FROM {source}
),
timed AS (
    SELECT
        *,
        coalesce(asked_sequences, CASE WHEN choices > 1 THEN choices END) AS sequences,
        coalesce(chunks_ms[1], 1e3 * chunks_s[1]) AS chunk_first,
        coalesce(chunks_ms[-1], 1e3 * chunks_s[-1]) AS chunk_last,
        coalesce(len(chunks_ms), len(chunks_s)) > 1 AS chunked,
        coalesce(generation_ms, CASE WHEN output_tokens > 1 THEN mean_ms * (output_tokens - 1) END) AS server_decode_ms,
        first_ms + queue_ms AS server_first_ms
    FROM found
),
placed AS (
    SELECT
        *,
        -- Chunk times are relative to the start, or unix times: the first is a time to first token only if relative.
        coalesce(client_first_ms, CASE WHEN chunk_first BETWEEN 0 AND 864e5 THEN chunk_first END) AS first_seen_ms,
        server_first_ms + server_decode_ms AS server_e2e_ms,
        CASE
            WHEN aborted OR reason = 'abort' OR code = 499 OR status_word IN ({_ABORTED}) THEN 'aborted'
            WHEN code >= 400 OR error IS NOT NULL OR kind = 'error' OR reason = 'error' OR status_word IN ({_FAILED})
                THEN 'failed'
            WHEN reason IS NOT NULL OR output_tokens IS NOT NULL THEN 'ok'
            WHEN (code BETWEEN 200 AND 399 OR status_word IN ({_OK})) AND NOT coalesce(kind LIKE '%.chunk', false)
                THEN 'ok'
            ELSE 'unknown'
        END AS outcome
    FROM timed
),
drawn AS (
    SELECT
        *,
        coalesce(started_at, after(ended_at, -coalesce(client_ms, server_e2e_ms)), created_at) AS arrived,
        CASE WHEN output_tokens > 1 THEN duration(coalesce(
            CASE WHEN chunked THEN chunk_last - chunk_first END, client_ms - first_seen_ms)) END AS client_decode_ms
    FROM placed
)
SELECT
    coalesce(client_id, body_id, own_id) AS request_id,
    coalesce(body_model, asked_model) AS model_name,
    arrived AS arrived_at,
    coalesce(
        ended_at, after(started_at, coalesce(client_ms, chunk_last)),
        after(created_at, coalesce(server_e2e_ms, client_ms)), arrived
    ) AS finished_at,
    outcome AS status,
    CASE WHEN code BETWEEN 100 AND 599 THEN code END AS status_code,
    reason AS finish_reason,
    sequences,
    prompt_tokens,
    cached_tokens,
    output_tokens,
    server_first_ms AS ttft_ms,
    first_seen_ms AS client_ttft_ms,
    queue_ms,
    first_ms AS prefill_ms,
    coalesce(server_decode_ms, client_decode_ms) AS decode_ms,
    CASE
        WHEN server_decode_ms IS NOT NULL THEN 'server'
        WHEN client_decode_ms IS NOT NULL THEN 'client'
    END AS decode_from,
    CASE WHEN output_tokens > 0 THEN coalesce(server_e2e_ms, client_ms) END AS e2e_ms,
    CASE WHEN chunked THEN coalesce(chunks_ms, chunks_s) ELSE coalesce(given_gaps_ms, given_gaps_s) END AS _times,
    CASE WHEN chunked THEN chunks_ms IS NULL ELSE given_gaps_ms IS NULL END AS _in_seconds,
    coalesce(chunked, false) AS _differ,
    rounds,
    drafted,
    accepted,
    draft_limit,
    CASE WHEN other_hist IS NOT NULL THEN histogram(other_hist) ELSE dense_hist END AS accepted_hist,
    CASE WHEN hist_by_length IS NOT NULL THEN map_from_entries(list_transform(
        list_filter(
            map_entries(TRY_CAST(hist_by_length AS MAP(VARCHAR, JSON))),
            lambda e: TRY_CAST(e.key AS INTEGER) IS NOT NULL),
        lambda e: {{'key': TRY_CAST(e.key AS INTEGER), 'value': histogram(e.value)}})) END AS accepted_hist_by_length,
    step_accepted,
    step_drafted,
    preemptions,
    temperature,
    top_p,
    max_tokens,
    task,
    lora,
    CASE WHEN cardinality(tags) > 0 THEN tags END AS tags,
    known,
    known AND prompt_tokens IS NULL AND output_tokens IS NULL AND code IS NULL AND error IS NULL AND first_ms IS NULL
        AND generation_ms IS NULL AND rounds IS NULL AND NOT aborted AND reason IS NULL AND client_ms IS NULL
        AS nothing,
    coalesce(
        output_tokens IS NULL
        AND (NOT regexp_matches(path, '{_ENDPOINTS}') OR method IN ('GET', 'HEAD', 'OPTIONS', 'DELETE')),
        false
    ) AS elsewhere,
    coalesce(least(prompt_tokens, output_tokens, cached_tokens, rounds, drafted, accepted) < 0, false) AS negative,
    coalesce(
        output_tokens > 1 AND abs(generation_ms - mean_ms * (output_tokens - 1)) > 0.01 * generation_ms + 1, false
    ) AS disagrees,
    coalesce(client_id, body_id) IS NULL OR arrived IS NULL OR (output_tokens IS NULL AND outcome <> 'failed')
        OR coalesce(rounds > 0 AND dense_hist IS NULL, false) AS doubtful
FROM drawn
"""


def _labelled(shape: Shape, own: str, *keys: str) -> str:
    """A field of the record, else the label of one of these names."""
    labels = [f"{column(name)}['{key}']" for key in keys for name in LABELS if name in shape.leaves]
    return f"coalesce({', '.join([own, *labels])})" if labels else own
