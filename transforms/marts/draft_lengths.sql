WITH cells AS (
    SELECT * FROM cells_draft_lengths WHERE draft_length IS NOT NULL
),

totals AS (
    SELECT
        date,
        deployment,
        origin,
        load_band(load) AS load_band,
        draft_length,
        sum(rounds) AS rounds,
        sum(accepted) AS accepted,
        sum(steps) AS steps,
        sum(step_decode_ns) AS step_decode_ns,
        sum(step_tokens) AS step_tokens
    FROM cells
    GROUP BY ALL
),

figures AS (
    SELECT
        *,
        CASE WHEN draft_length = 0 THEN 1 ELSE 1 + ratio(accepted, rounds) END AS acceptance_length,
        ratio(step_decode_ns, steps) / 1e6 AS round_time_ms,
        ratio(step_decode_ns, step_tokens) / 1e6 AS tpot_ms,
        CASE WHEN origin = 'requests' THEN 'measured' ELSE 'derived' END AS evidence
    FROM totals
)

SELECT
    CAST(date AS DATE) AS date,
    CAST(deployment AS VARCHAR) AS deployment,
    CAST(origin AS VARCHAR) AS origin,
    CAST(load_band AS VARCHAR) AS load_band,
    CAST(draft_length AS INTEGER) AS draft_length,
    CAST(rounds AS BIGINT) AS rounds,
    CAST(accepted AS BIGINT) AS accepted,
    CAST(acceptance_length AS DOUBLE) AS acceptance_length,
    CAST(steps AS BIGINT) AS steps,
    CAST(round_time_ms AS DOUBLE) AS round_time_ms,
    CAST(tpot_ms AS DOUBLE) AS tpot_ms,
    CAST(evidence AS VARCHAR) AS evidence
FROM figures
