-- acceptance_by: one row per deployment, date, one property of requests (dimension) and its value, over all loads.
-- Reads cells_requests.
--   date               UTC date of the moment the row was complete; partition column.
--   deployment         Deployment named at ingest; partition column.
--   origin             snapshots, requests, log_stats or iterations; origins are never added.
--   dimension          task, lora, temperature_class, context_band, output_band or draft_limit.
--   value              Value of that property; null where requests do not say.
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
--   short_outputs      True for outputs of up to 20 tokens: they end inside their first rounds, so that L overstates
--                      what they got.
--   evidence           measured, derived or estimated.
-- -----------------------------------------------------------------------------
WITH cells AS (
    SELECT
        *,
        unnest(
            [
                {'dimension': 'task', 'value': task},
                {'dimension': 'lora', 'value': lora},
                {'dimension': 'temperature_class', 'value': temperature_class},
                {'dimension': 'context_band', 'value': context_band},
                {'dimension': 'output_band', 'value': output_band},
                {'dimension': 'draft_limit', 'value': CAST(draft_limit AS VARCHAR)}
            ]
        ) AS property
    FROM cells_requests
),

totals AS (
    SELECT
        date,
        deployment,
        origin,
        property.dimension AS dimension,
        property.value AS value,
        sum(requests) AS requests,
        sum(output_tokens) AS output_tokens,
        sum(rounds) AS rounds,
        sum(drafted) AS drafted,
        sum(accepted) AS accepted,
        sum(steps) AS steps,
        sum(step_tokens) AS step_tokens,
        sum(step_rounds) AS step_rounds,
        sum(step_accepted) AS step_accepted
    FROM cells
    GROUP BY ALL
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
        coalesce(dimension = 'output_band' AND value = output_band(1), false) AS short_outputs
    FROM totals
)

SELECT
    CAST(date AS DATE) AS date,
    CAST(deployment AS VARCHAR) AS deployment,
    CAST(origin AS VARCHAR) AS origin,
    CAST(dimension AS VARCHAR) AS dimension,
    CAST(value AS VARCHAR) AS value,
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
    CAST(short_outputs AS BOOLEAN) AS short_outputs,
    CAST('measured' AS VARCHAR) AS evidence
FROM figures
