-- step_cliffs: one row per deployment, date, origin, draft length at which the time of a round steps up as its tokens
-- pass a captured size.
-- Reads cost_observations, deployments.
--   date                 UTC date of the moment the row was complete; partition column.
--   deployment           Deployment named at ingest; partition column.
--   origin               iterations, or snapshots (scrape intervals of one load and draft length).
--   draft_length         Draft length that ran. [tokens]
--   size                 Greatest number of verified tokens before the step. [tokens]
--   first_beyond         Least number of verified tokens beyond it. [tokens]
--   captured_size        Captured graph size of the start-up record that lies between the two; null where none does or
--                        none is known. [tokens]
--   requests_beyond      Least requests running beyond it. [requests]
--   ratio                Time beyond the step over what the times before it foretell. [ratio]
--   jump_ms              Time beyond the step less what the times before it foretell. [ms]
--   jump_ms_lower        jump_ms: lower end of its 95 % interval. [ms]
--   jump_ms_upper        jump_ms: upper end of its 95 % interval. [ms]
--   share_beyond         Share of the rounds of that length that were beyond the step. [ratio]
--   draft_length_within  Greatest draft length that keeps the greatest load seen within the size; null where none does.
--                        [tokens]
--   capture_size_needed  Captured size that would hold every round seen. [tokens]
--   evidence             measured, derived or estimated.
-- -----------------------------------------------------------------------------
-- Algorithm: at each draft length the time of a round grows along a line with its tokens; the greatest step above the
-- line through all lighter rounds is looked for (found_cliff, transforms/step_cliff.py). Prefill work has tokens of its
-- own, so iterations that had any are left out.
WITH searched AS (
    SELECT
        date,
        deployment,
        origin,
        draft_length,
        max(verified_tokens) AS most_tokens,
        max(requests) AS most_requests,
        list({'tokens': verified_tokens, 'time_ms': round_time_ms, 'n': CAST(n AS DOUBLE), 'spread_ms': spread_ms}
            ORDER BY verified_tokens, instance, engine, hour, load) AS rounds,
        found_cliff(
            list_transform(rounds, lambda x: x.tokens),
            list_transform(rounds, lambda x: x.time_ms),
            list_transform(rounds, lambda x: x.n),
            list_transform(rounds, lambda x: x.spread_ms)
        ) AS cliff
    FROM cost_observations
    WHERE NOT coalesce(prefill, false)
    GROUP BY ALL
),

captured AS (
    SELECT DISTINCT searched.date, searched.deployment, unnest(record.capture_sizes) AS captured_size
    FROM searched
    INNER JOIN deployments AS record
        ON searched.deployment = record.deployment AND record.started_at < searched.date + INTERVAL 1 DAY
),

found AS (
    SELECT
        searched.*,
        list_sum(list_transform(list_filter(rounds, lambda x: x.tokens > cliff.size), lambda x: x.n)) AS n_beyond,
        list_sum(list_transform(rounds, lambda x: x.n)) AS n_all,
        (
            SELECT max(captured.captured_size)
            FROM captured
            WHERE
                captured.date = searched.date
                AND captured.deployment = searched.deployment
                AND captured.captured_size >= searched.cliff.size
                AND captured.captured_size < searched.cliff.first_beyond
        ) AS captured_size
    FROM searched
    WHERE cliff IS NOT NULL
)

SELECT
    CAST(date AS DATE) AS date,
    CAST(deployment AS VARCHAR) AS deployment,
    CAST(origin AS VARCHAR) AS origin,
    CAST(draft_length AS INTEGER) AS draft_length,
    CAST(cliff.size AS BIGINT) AS size,
    CAST(cliff.first_beyond AS BIGINT) AS first_beyond,
    CAST(captured_size AS BIGINT) AS captured_size,
    CAST(cliff.first_beyond / (draft_length + 1) AS DOUBLE) AS requests_beyond,
    CAST(cliff.ratio AS DOUBLE) AS ratio,
    CAST(cliff.jump_ms AS DOUBLE) AS jump_ms,
    CAST(cliff.jump_ms_lower AS DOUBLE) AS jump_ms_lower,
    CAST(cliff.jump_ms_upper AS DOUBLE) AS jump_ms_upper,
    CAST(ratio(n_beyond, n_all) AS DOUBLE) AS share_beyond,
    CAST(
        CASE WHEN most_requests <= coalesce(captured_size, cliff.size)
            THEN floor(coalesce(captured_size, cliff.size) / most_requests) - 1
        END AS INTEGER
    ) AS draft_length_within,
    CAST(round(most_tokens) AS BIGINT) AS capture_size_needed,
    CAST('derived' AS VARCHAR) AS evidence
FROM found
