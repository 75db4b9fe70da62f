-- cost_observations: one row per deployment, date, instance, engine, origin, hour, load, draft length and whether there
-- was prefill work: mean time of a round under known work.
-- Reads deployment_days, cells_iterations, cells_draft_lengths.
--   date             UTC date of the moment the row was complete; partition column.
--   deployment       Deployment named at ingest; partition column.
--   instance         One server process group; the deployment's name unless said otherwise.
--   engine           Engine number inside the instance.
--   origin           iterations, or snapshots (scrape intervals of one load and draft length).
--   hour             UTC hour of the day, 0 to 23. [h]
--   load             Requests running, as cells keep it. [requests]
--   draft_length     Draft length of every request of the rounds. [tokens]
--   prefill          Whether the iterations had prefill work; null for snapshots, which mix both.
--   n                Observations behind it: iterations or scrape intervals. [observations]
--   iterations       Engine iterations behind it; snapshots: steps / decoding requests. [iterations]
--   requests         Mean requests decoding in a round. [requests]
--   verified_tokens  Mean tokens that a round verified: requests x (draft length + 1). [tokens]
--   prefill_tokens   Mean tokens of prompts computed in the same round. [tokens]
--   round_time_ms    Mean time of a round. [ms]
--   spread_ms        Standard deviation of one observation about it. [ms]
-- -----------------------------------------------------------------------------
-- Algorithm: iterations whose scheduled positions are (K + 1) times their requests, and the scrape intervals that cells
-- found to be of one load and one draft length. What a resumed request computes again looks like a long draft: lengths
-- beyond the configured one are none.
WITH decoding AS (
    SELECT
        date,
        deployment,
        instance,
        engine,
        origin,
        hour,
        load,
        prefill,
        CASE
            WHEN prefill THEN CAST(round(ratio(generation_tokens, generation_requests)) AS BIGINT)
            ELSE scheduled_tokens * n // generation_requests
        END AS positions,
        CASE
            WHEN prefill THEN abs(ratio(generation_tokens, generation_requests) - positions) < 0.02
            ELSE scheduled_tokens * n % generation_requests = 0
        END AS alike,
        n,
        generation_requests,
        context_tokens,
        elapsed_sum,
        elapsed_elapsed
    FROM cells_iterations
    WHERE generation_requests > 0 AND elapsed_n = n
),

from_iterations AS (
    SELECT
        date,
        deployment,
        instance,
        engine,
        origin,
        hour,
        load,
        positions - 1 AS draft_length,
        prefill,
        sum(n) AS n,
        CAST(sum(n) AS DOUBLE) AS iterations,
        ratio(sum(generation_requests), sum(n)) AS requests,
        coalesce(ratio(sum(context_tokens), sum(n)), 0) AS prefill_tokens,
        ratio(sum(elapsed_sum), sum(n)) AS time_ns,
        ratio(sum(elapsed_elapsed), sum(n)) - time_ns * time_ns AS variance
    FROM decoding
    WHERE alike
    GROUP BY ALL
),

interval_sums AS (
    SELECT
        date,
        deployment,
        instance,
        engine,
        origin,
        hour,
        load,
        draft_length,
        sum(n) AS n,
        sum(steps) AS steps,
        ratio(sum(step_decode_ns), sum(steps)) AS step_ns,
        -- Squared residuals of decode time about steps x mean step time, over single intervals.
        sum(step_decode_decode) - 2 * step_ns * sum(steps_step_decode) + step_ns * step_ns * sum(steps_steps) AS squares,
        sum(steady_steps) AS steady_steps,
        sum(steady_decode_ns) AS steady_decode_ns,
        ratio(sum(steady_requests), sum(steady_steps)) / 1000 AS requests,
        ratio(sum(steady_prefill), sum(steady_steps)) / 1000 AS prefill_tokens
    FROM cells_draft_lengths
    WHERE origin = 'snapshots' AND draft_length IS NOT NULL
    GROUP BY ALL
    HAVING sum(steady_steps) > 0
),

from_intervals AS (
    SELECT
        date,
        deployment,
        instance,
        engine,
        origin,
        hour,
        load,
        draft_length,
        n,
        ratio(steady_steps, requests) AS iterations,
        requests,
        coalesce(prefill_tokens, 0) AS prefill_tokens,
        ratio(steady_decode_ns, steady_steps) AS time_ns,
        ratio(squares * n, pow(steps, 2)) AS variance
    FROM interval_sums
),

observations AS (
    SELECT * FROM from_iterations
    UNION ALL BY NAME
    SELECT * FROM from_intervals
)

SELECT
    CAST(observations.date AS DATE) AS date,
    CAST(observations.deployment AS VARCHAR) AS deployment,
    CAST(instance AS VARCHAR) AS instance,
    CAST(engine AS INTEGER) AS engine,
    CAST(origin AS VARCHAR) AS origin,
    CAST(hour AS TINYINT) AS hour,
    CAST(load AS INTEGER) AS load,
    CAST(draft_length AS INTEGER) AS draft_length,
    CAST(prefill AS BOOLEAN) AS prefill,
    CAST(n AS BIGINT) AS n,
    CAST(iterations AS DOUBLE) AS iterations,
    CAST(requests AS DOUBLE) AS requests,
    CAST(requests * (draft_length + 1) AS DOUBLE) AS verified_tokens,
    CAST(prefill_tokens AS DOUBLE) AS prefill_tokens,
    CAST(time_ns / 1e6 AS DOUBLE) AS round_time_ms,
    CAST(sqrt(greatest(variance, 0)) / 1e6 AS DOUBLE) AS spread_ms
FROM observations
INNER JOIN deployment_days AS days
    ON observations.date = days.date AND observations.deployment = days.deployment
WHERE
    time_ns > 0
    AND draft_length BETWEEN 0 AND coalesce(days.draft_limit, CASE WHEN NOT days.speculative THEN 0 END)
