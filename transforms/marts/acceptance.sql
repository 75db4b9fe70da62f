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
    CAST(evidence AS VARCHAR) AS evidence
FROM figures
