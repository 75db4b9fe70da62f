"""What a raw table means when it is asked: one request is one row whoever reported it, one scrape is one row in however
many parts it came, one server start has its labels.
"""

from __future__ import annotations

from collections.abc import Iterable

from .raw import DEPLOYMENTS, HISTOGRAM, REQUESTS, SNAPSHOTS
from .table import quote

TRUST = ("responses", "otlp", "guidellm", "aiperf", "bench")
"""Formats in which the same request may be seen, most trusted first.

A response holds what the server itself measured and counted, a span what it measured; client tools see a request from
outside, and the later ones in this list keep less of what the server said.
"""
SAME_REQUEST_WITHIN = "INTERVAL 10 MINUTES"
"""Reports with one request id that lie further apart are different requests: clients use ids again."""

_BOUND = (("arrived_at", "finished_at", "e2e_ms"), ("decode_ms", "decode_from"), ("gaps_ms", "gaps_from"))
"""Columns that only mean something together: they are taken from one report, the first that has the first of them."""
_WHOLE = ("date", "instance", "source", "byte_offset", "ingested_at", "format", "request_id")
"""Columns that every report has: those of the most trusted one."""


def merged_requests(rows: str) -> str:
    """A SELECT of the columns of ``requests`` from a SELECT of rows of several formats, one row a request.

    Reports belong together where deployment and request id agree, without what vLLM puts around the id of its client,
    and their times are close. Each field is the first that is known, in order of TRUST; the server's decode time goes
    before the client's.
    """
    rank = "list_position([" + ", ".join(f"'{name}'" for name in TRUST) + "], format)"
    columns = ", ".join(quote(name) for name in REQUESTS.names)
    return f"""
WITH reported AS ({rows}),
known AS (
    SELECT
        *,
        {rank} AS trust,
        coalesce(arrived_at, finished_at) AS reported_at,
        regexp_replace(
            CASE
                WHEN format = 'otlp' AND starts_with(request_id, 'cmpl-') THEN regexp_replace(request_id, '-0$', '')
                ELSE coalesce(tags['response_id'], request_id)
            END, '^(chatcmpl|cmpl|resp)[-_]', ''
        ) AS plain_id
    FROM reported
),
seen_twice AS (
    SELECT deployment, plain_id FROM known GROUP BY deployment, plain_id HAVING count(DISTINCT format) > 1
),
spaced AS (
    SELECT
        known.*,
        reported_at - lag(reported_at) OVER (PARTITION BY deployment, plain_id ORDER BY reported_at)
            > {SAME_REQUEST_WITHIN} AS apart
    FROM known
    SEMI JOIN seen_twice USING (deployment, plain_id)
),
clustered AS (
    SELECT
        * EXCLUDE (apart),
        count(*) FILTER (apart) OVER (PARTITION BY deployment, plain_id ORDER BY reported_at) AS occasion
    FROM spaced
),
numbered AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY deployment, plain_id, occasion, format ORDER BY reported_at, byte_offset)
            AS repetition
    FROM clustered
),
merged AS (
    SELECT {", ".join(_merged())}
    FROM numbered
    GROUP BY deployment, plain_id, occasion, repetition
)
SELECT {columns} FROM known ANTI JOIN seen_twice USING (deployment, plain_id)
UNION ALL
SELECT {columns} FROM merged
"""


def _merged() -> Iterable[str]:
    bound = {name: group for group in _BOUND for name in group}
    for name in REQUESTS.names:
        column = quote(name)
        if name == "deployment":
            yield column
        elif name in _WHOLE:
            yield f"arg_min({column}, trust) AS {column}"
        elif name == "status":
            yield f"coalesce(arg_min(status, trust) FILTER (status <> 'unknown'), 'unknown') AS {column}"
        elif name in bound:
            leader = bound[name][0]
            order = f"trust + CASE WHEN {name.split('_', maxsplit=1)[0]}_from = 'server' THEN 0 ELSE 100 END"
            order = order if leader in ("decode_ms", "gaps_ms") else "trust"
            yield f"arg_min_null({column}, {order}) FILTER ({leader} IS NOT NULL) AS {column}"
        else:
            yield f"arg_min({column}, trust) FILTER ({column} IS NOT NULL) AS {column}"


PARTS = "parts-"
"""How the name of a file of ``snapshots`` begins whose rows tell more of scrapes that other rows tell of."""


def merged_snapshots(rows: str) -> str:
    """A SELECT of the columns of ``snapshots`` from a SELECT of its rows, one row a scrape of an engine and model.

    A scrape comes in parts where answers of a Prometheus server were saved metric by metric, or a cut scrape came again
    whole. Each field is the first that is known, in order of source and place in it.
    """
    columns = ", ".join(quote(name) for name in SNAPSHOTS.names)
    scrape = ("deployment", "instance", "engine", "model_name", "scraped_at")
    same = " AND ".join(f"told.{name} IS NOT DISTINCT FROM repeated.{name}" for name in scrape)
    return f"""
WITH told AS ({rows}),
repeated AS (
    SELECT {", ".join(scrape)} FROM told GROUP BY ALL HAVING count(*) > 1
),
merged AS (
    SELECT {", ".join(_first_known(("date", *scrape)))}
    FROM (SELECT *, {{'source': source, 'byte_offset': byte_offset}} AS place FROM told SEMI JOIN repeated ON {same})
    GROUP BY date, {", ".join(scrape)}
)
SELECT {columns} FROM told ANTI JOIN repeated ON {same}
UNION ALL
SELECT {columns} FROM merged
"""


def _first_known(grouped: tuple[str, ...]) -> Iterable[str]:
    for column in SNAPSHOTS.columns:
        name = quote(column.name)
        if column.name in grouped:
            yield name
        elif column.type == HISTOGRAM:
            edges = (
                f"{part} := coalesce(arg_min({name}.{part}, place) FILTER (len({name}.le) > 0), [])"
                for part in ("le", "n")
            )
            figures = (f"{part} := arg_min({name}.{part}, place)" for part in ("sum", "count"))
            yield (f"CASE WHEN count({name}.count) > 0 THEN struct_pack({', '.join((*edges, *figures))}) END AS {name}")
        elif column.name == "byte_offset":
            yield f"min(place).byte_offset AS {name}"
        else:
            yield f"arg_min({name}, place) AS {name}"


def current_deployments(rows: str) -> str:
    """A SELECT of the columns of ``deployments`` from a SELECT of its rows, with the latest value of each label.

    One row a server start; a deployment of which no start is known has one row, with labels only.
    """
    columns = ", ".join(
        {"labels": "coalesce(current.labels, MAP {}) AS labels", "labelled_at": "current.labelled_at"}.get(
            name, f"said.{quote(name)}"
        )
        for name in DEPLOYMENTS.names
    )
    return f"""
WITH said AS ({rows}),
given AS (
    SELECT deployment, labelled_at, unnest(map_entries(labels)) AS label FROM said
),
latest AS (
    SELECT deployment, label.key AS name, arg_max(label.value, labelled_at) AS value, max(labelled_at) AS labelled_at
    FROM given
    GROUP BY deployment, label.key
),
current AS (
    SELECT
        deployment,
        map_from_entries(list({{'key': name, 'value': value}} ORDER BY name)) AS labels,
        max(labelled_at) AS labelled_at
    FROM latest
    GROUP BY deployment
)
SELECT {columns}
FROM said
LEFT JOIN current ON said.deployment = current.deployment
QUALIFY
    -- A start that was read in two parts has a row for each; the one that knows more holds.
    (
        said.started_at IS NOT NULL
        AND row_number() OVER (
            PARTITION BY said.deployment, said.instance, said.started_at
            ORDER BY said.kv_tokens IS NULL, said.model IS NULL, said.args IS NULL, said.source
        ) = 1
    )
    OR (
        count(said.started_at) OVER (PARTITION BY said.deployment) = 0
        AND row_number() OVER (PARTITION BY said.deployment ORDER BY said.labelled_at, said.instance) = 1
    )
"""
