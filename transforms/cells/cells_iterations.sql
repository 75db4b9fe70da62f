-- cells_iterations: one row per date, deployment, instance, engine, hour, block, load (generation requests), prefill
-- and scheduled tokens, over engine iterations.
-- Reads iterations.
--   date                 UTC date of the moment the row was complete; partition column.
--   deployment           Deployment named at ingest; partition column.
--   instance             One server process group; the deployment's name unless said otherwise.
--   engine               Engine number inside the instance; null where the origin has none.
--   origin               snapshots, requests, log_stats or iterations.
--   hour                 UTC hour of the day, 0 to 23. [h]
--   block                10-minute block of the UTC day, 0 to 143.
--   load                 Requests running: exact up to 64, lower edge of a 5 % step above; null when not known.
--                        [requests]
--   prefill              Whether the iteration had prefill work.
--   scheduled_tokens     Scheduled decode positions of the iteration; null with prefill work. [tokens]
--   n                    Iterations (dummy ones left out). [iterations]
--   generation_requests  Σ requests decoding. [requests]
--   generation_tokens    Σ scheduled decode positions. [tokens]
--   context_requests     Σ requests with prefill work. [requests]
--   context_tokens       Σ prefill tokens. [tokens]
--   elapsed              Iteration time: log-spaced histogram of ns.
--   elapsed_n            Iteration time: observations. [observations]
--   elapsed_sum          Iteration time: sum. [ns]
--   elapsed_max          Iteration time: exact maximum. [ns]
--   elapsed_elapsed      Σ elapsed_ns².
-- -----------------------------------------------------------------------------
WITH measured AS (
    SELECT
        * REPLACE (
            possible_load(generation_requests) AS generation_requests,
            possible_count(generation_tokens) AS generation_tokens,
            possible_load(context_requests) AS context_requests,
            possible_count(context_tokens) AS context_tokens
        ),
        context_tokens > 0 AS prefill,
        ms_to_ns(elapsed_ms) AS elapsed_ns
    FROM iterations
    WHERE NOT coalesce(dummy, false)
),

cells AS (
    SELECT
        date,
        deployment,
        instance,
        engine,
        hour(logged_at) AS hour,
        hour(logged_at) * 6 + minute(logged_at) // 10 AS block,
        load_code(generation_requests) AS load,
        coalesce(prefill, false) AS prefill,
        CASE WHEN NOT coalesce(prefill, false) THEN generation_tokens END AS scheduled_tokens,
        count(*) AS n,
        sum(generation_requests) AS generation_requests,
        sum(generation_tokens) AS generation_tokens,
        sum(context_requests) AS context_requests,
        sum(context_tokens) AS context_tokens,
        log_histogram(elapsed_ns) AS elapsed,
        count(elapsed_ns) AS elapsed_n,
        sum(elapsed_ns) AS elapsed_sum,
        max(elapsed_ns) AS elapsed_max,
        sum_of_products(elapsed_ns, elapsed_ns) AS elapsed_elapsed
    FROM measured
    GROUP BY ALL
)

SELECT
    CAST(date AS DATE) AS date,
    CAST(deployment AS VARCHAR) AS deployment,
    CAST(instance AS VARCHAR) AS instance,
    CAST(engine AS INTEGER) AS engine,
    CAST('iterations' AS VARCHAR) AS origin,
    CAST(hour AS TINYINT) AS hour,
    CAST(block AS SMALLINT) AS block,
    CAST(load AS INTEGER) AS load,
    CAST(prefill AS BOOLEAN) AS prefill,
    CAST(scheduled_tokens AS INTEGER) AS scheduled_tokens,
    CAST(n AS BIGINT) AS n,
    CAST(generation_requests AS BIGINT) AS generation_requests,
    CAST(generation_tokens AS BIGINT) AS generation_tokens,
    CAST(context_requests AS BIGINT) AS context_requests,
    CAST(context_tokens AS BIGINT) AS context_tokens,
    CAST(elapsed AS MAP(INTEGER, BIGINT)) AS elapsed,
    CAST(elapsed_n AS BIGINT) AS elapsed_n,
    CAST(elapsed_sum AS BIGINT) AS elapsed_sum,
    CAST(elapsed_max AS BIGINT) AS elapsed_max,
    CAST(elapsed_elapsed AS HUGEINT) AS elapsed_elapsed
FROM cells
