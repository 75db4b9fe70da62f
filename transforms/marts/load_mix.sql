-- load_mix: one row per deployment, date, origin, load band, context band, task.
-- Reads band_totals.
--   date          UTC date of the moment the row was complete; partition column.
--   deployment    Deployment named at ingest; partition column.
--   origin        snapshots, requests, log_stats or iterations; origins are never added.
--   load_band     Band of requests running on the engine; 'unknown' where load is not known.
--   context_band  Band of prompt + half the output tokens; null where the origin has none.
--   task          Task label; null where the origin has none.
--   token_share   Share of output tokens after the first. [ratio]
--   step_share    Share of steps. [ratio]
--   seconds       Engine seconds observed in the band; decode seconds for origin requests. [s]
--   evidence      measured, derived or estimated.
-- -----------------------------------------------------------------------------
WITH totals AS (
    SELECT
        *,
        greatest(output_tokens - requests, 0) AS tokens
    FROM band_totals
),

shares AS (
    SELECT
        *,
        ratio(tokens, sum(tokens) OVER (PARTITION BY date, deployment, origin)) AS token_share,
        ratio(steps, sum(steps) OVER (PARTITION BY date, deployment, origin)) AS step_share,
        CASE WHEN origin = 'requests' THEN decode_ns ELSE duration_ns END / 1e9 AS seconds
    FROM totals
)

SELECT
    CAST(date AS DATE) AS date,
    CAST(deployment AS VARCHAR) AS deployment,
    CAST(origin AS VARCHAR) AS origin,
    CAST(load_band AS VARCHAR) AS load_band,
    CAST(context_band AS VARCHAR) AS context_band,
    CAST(task AS VARCHAR) AS task,
    CAST(token_share AS DOUBLE) AS token_share,
    CAST(step_share AS DOUBLE) AS step_share,
    CAST(seconds AS DOUBLE) AS seconds,
    CAST('measured' AS VARCHAR) AS evidence
FROM shares
