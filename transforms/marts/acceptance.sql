-- acceptance: one row per deployment, date, origin, load band, context band, task.
-- Reads band_totals.
--   date               UTC date of the moment the row was complete; partition column.
--   deployment         Deployment named at ingest; partition column.
--   origin             snapshots, requests, log_stats or iterations; origins are never added.
--   load_band          Band of requests running on the engine; 'unknown' where load is not known.
--   context_band       Band of prompt + half the output tokens; null where the origin has none.
--   task               Task label; null where the origin has none.
--   requests           Requests that returned a first token. [requests]
--   steps              Steps of observations whose steps are known; null where none are. [steps]
--   rounds             Speculative rounds R. [rounds]
--   drafted            Draft tokens D. [tokens]
--   accepted           Accepted draft tokens C. [tokens]
--   output_tokens      Output tokens N_out. [tokens]
--   truncated          Accepted tokens that were never returned; null where steps are not known. [tokens]
--   acceptance_length  L = 1 + C / R. [tokens]
--   effective_length   L_eff = (N_out - requests) / steps. [tokens]
--   coverage           R / steps. [ratio]
--   acceptance_rate    C / D; compare only at equal draft length. [ratio]
--   mean_draft_length  D / R. [tokens]
--   verified_nodes     Candidates and the token before them that a round verified: D / R + 1. [tokens]
--   truncated_share    φ = truncated / C of observations whose steps are known. [ratio]
--   evidence           measured, derived or estimated.
-- -----------------------------------------------------------------------------
WITH totals AS (
    SELECT * FROM band_totals
),

figures AS (
    SELECT
        *,
        steps + step_accepted - step_tokens AS truncated,
        1 + ratio(accepted, rounds) AS acceptance_length,
        ratio(step_tokens, steps) AS effective_length,
        ratio(step_rounds, steps) AS coverage,
        ratio(accepted, drafted) AS acceptance_rate,
        ratio(drafted, rounds) AS mean_draft_length,
        mean_draft_length + 1 AS verified_nodes,
        ratio(truncated, step_accepted) AS truncated_share,
        CASE
            WHEN origin <> 'log_stats' THEN 'measured'
            WHEN rounds_min = rounds_max THEN 'derived'
            ELSE 'estimated'
        END AS evidence
    FROM totals
)

SELECT
    CAST(date AS DATE) AS date,
    CAST(deployment AS VARCHAR) AS deployment,
    CAST(origin AS VARCHAR) AS origin,
    CAST(load_band AS VARCHAR) AS load_band,
    CAST(context_band AS VARCHAR) AS context_band,
    CAST(task AS VARCHAR) AS task,
    CAST(requests AS BIGINT) AS requests,
    CAST(steps AS BIGINT) AS steps,
    CAST(rounds AS BIGINT) AS rounds,
    CAST(drafted AS BIGINT) AS drafted,
    CAST(accepted AS BIGINT) AS accepted,
    CAST(output_tokens AS BIGINT) AS output_tokens,
    CAST(truncated AS BIGINT) AS truncated,
    CAST(acceptance_length AS DOUBLE) AS acceptance_length,
    CAST(effective_length AS DOUBLE) AS effective_length,
    CAST(coverage AS DOUBLE) AS coverage,
    CAST(acceptance_rate AS DOUBLE) AS acceptance_rate,
    CAST(mean_draft_length AS DOUBLE) AS mean_draft_length,
    CAST(verified_nodes AS DOUBLE) AS verified_nodes,
    CAST(truncated_share AS DOUBLE) AS truncated_share,
    CAST(evidence AS VARCHAR) AS evidence
FROM figures
