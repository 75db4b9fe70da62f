-- acceptance_by: one row per deployment, date, one property of requests (dimension) and its value, over all loads.
-- Reads cells_requests, cells_draft_lengths.
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
--   survival           S_1, S_2, … over these requests; null where ΣC_i is not C. [ratio]
--   conditional        a_1, a_2, …; null where censored. [ratio]
--   predicted_length   E[L] at draft lengths of 1, 2, … tokens. [tokens]
--   censored           True where the rounds that drafted a position cannot be told.
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

parts AS (
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
    FROM cells_draft_lengths
    WHERE origin = 'requests' AND rounds > 0 AND accepted_at IS NOT NULL
),

-- As in positions: rounds of untold length censor what they are pooled with.
told AS (
    SELECT
        date,
        deployment,
        property.dimension AS dimension,
        property.value AS value,
        sum(rounds) AS rounds,
        bool_or(draft_length IS NULL) AS censored,
        sum(accepted) = sum(list_sum(accepted_at)) AS closed
    FROM parts
    GROUP BY ALL
),

position_sums AS (
    SELECT
        date,
        deployment,
        property.dimension AS dimension,
        property.value AS value,
        position,
        sum(coalesce(accepted_at[position], 0)) AS accepted,
        sum(CASE WHEN draft_length >= position THEN rounds ELSE 0 END) AS rounds_drafting
    FROM parts, unnest(range(1, greatest(len(accepted_at), coalesce(draft_length, 0)) + 1)) AS unnested (position)
    GROUP BY ALL
),

survivals AS (
    SELECT
        sums.date,
        sums.deployment,
        sums.dimension,
        sums.value,
        sums.position,
        told.censored,
        ratio(sums.accepted, CASE WHEN told.censored THEN told.rounds ELSE sums.rounds_drafting END) AS survival
    FROM position_sums AS sums
    INNER JOIN told
        ON
            sums.date = told.date
            AND sums.deployment = told.deployment
            AND sums.dimension = told.dimension
            AND sums.value IS NOT DISTINCT FROM told.value
    WHERE told.closed AND (told.censored OR sums.rounds_drafting > 0)
),

chained AS (
    SELECT
        *,
        ratio(survival, lag(survival, 1, 1) OVER along) AS conditional,
        1 + sum(survival) OVER along AS predicted_length
    FROM survivals
    WINDOW along AS (PARTITION BY date, deployment, dimension, value ORDER BY position)
),

by_position AS (
    SELECT
        date,
        deployment,
        dimension,
        value,
        list(survival ORDER BY position) AS survival,
        CASE WHEN NOT any_value(censored) THEN list(conditional ORDER BY position) END AS conditional,
        list(predicted_length ORDER BY position) AS predicted_length
    FROM chained
    GROUP BY ALL
),

figures AS (
    SELECT
        totals.*,
        steps + step_accepted - step_tokens AS truncated,
        1 + ratio(accepted, totals.rounds) AS acceptance_length,
        ratio(step_tokens, steps) AS effective_length,
        ratio(step_rounds, steps) AS coverage,
        ratio(accepted, drafted) AS acceptance_rate,
        ratio(drafted, totals.rounds) AS mean_draft_length,
        mean_draft_length + 1 AS verified_nodes,
        ratio(truncated, step_accepted) AS truncated_share,
        by_position.survival,
        by_position.conditional,
        by_position.predicted_length,
        by_position.survival IS NOT NULL AND by_position.conditional IS NULL AS censored,
        coalesce(totals.dimension = 'output_band' AND totals.value = output_band(1), false) AS short_outputs
    FROM totals
    LEFT JOIN by_position
        ON
            totals.date = by_position.date
            AND totals.deployment = by_position.deployment
            AND totals.dimension = by_position.dimension
            AND totals.value IS NOT DISTINCT FROM by_position.value
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
    CAST(survival AS DOUBLE[]) AS survival,
    CAST(conditional AS DOUBLE[]) AS conditional,
    CAST(predicted_length AS DOUBLE[]) AS predicted_length,
    CAST(censored AS BOOLEAN) AS censored,
    CAST(short_outputs AS BOOLEAN) AS short_outputs,
    CAST('measured' AS VARCHAR) AS evidence
FROM figures
