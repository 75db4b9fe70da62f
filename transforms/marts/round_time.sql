-- round_time: one row per deployment, date, origin, load band, context band, task.
-- Reads band_totals, latency, cells_iterations.
--   date                     UTC date of the moment the row was complete; partition column.
--   deployment               Deployment named at ingest; partition column.
--   origin                   snapshots, requests, log_stats or iterations; origins are never added.
--   load_band                Band of requests running on the engine; 'unknown' where load is not known.
--   context_band             Band of prompt + half the output tokens; null where the origin has none.
--   task                     Task label; null where the origin has none.
--   n                        Steps, or iterations for origin iterations. [steps]
--   round_time_ms            Σ decode time / steps; iterations: mean elapsed time without prefill work. [ms]
--   p50                      p50 of single steps (requests: stream gaps): point inside its bucket. [ms]
--   p50_lower                p50: lower edge of its bucket. [ms]
--   p50_upper                p50: upper edge of its bucket. [ms]
--   p95                      p95 of single steps (requests: stream gaps): point inside its bucket. [ms]
--   p95_lower                p95: lower edge of its bucket. [ms]
--   p95_upper                p95: upper edge of its bucket. [ms]
--   p99                      p99 of single steps (requests: stream gaps): point inside its bucket. [ms]
--   p99_lower                p99: lower edge of its bucket. [ms]
--   p99_upper                p99: upper edge of its bucket. [ms]
--   longest_ms               Longest single step (requests: stream gap) seen; null where only buckets are known. [ms]
--   prefill_share            Share of iteration time spent in iterations with prefill work; null for other origins.
--                            [ratio]
--   prefill_interference_ms  What prefill work in the same iteration adds to a step on average, against decode alone at
--                            the same load; null for other origins. [ms]
--   evidence                 measured, derived or estimated.
-- -----------------------------------------------------------------------------
-- A stream gap is one step: the quantiles of single steps are those of the gaps.
WITH stepped AS (
    SELECT
        totals.date,
        totals.deployment,
        totals.origin,
        totals.load_band,
        totals.context_band,
        totals.task,
        totals.steps AS n,
        ratio(totals.step_decode_ns, totals.steps) / 1e6 AS round_time_ms,
        latency.itl_ms_p50 AS p50,
        latency.itl_ms_p50_lower AS p50_lower,
        latency.itl_ms_p50_upper AS p50_upper,
        latency.itl_ms_p95 AS p95,
        latency.itl_ms_p95_lower AS p95_lower,
        latency.itl_ms_p95_upper AS p95_upper,
        latency.itl_ms_p99 AS p99,
        latency.itl_ms_p99_lower AS p99_lower,
        latency.itl_ms_p99_upper AS p99_upper,
        latency.longest_pause_ms AS longest_ms
    FROM band_totals AS totals
    INNER JOIN latency
        ON
            totals.date = latency.date
            AND totals.deployment = latency.deployment
            AND totals.origin = latency.origin
            AND totals.load_band = latency.load_band
            AND totals.context_band IS NOT DISTINCT FROM latency.context_band
            AND totals.task IS NOT DISTINCT FROM latency.task
),

iterated AS (
    SELECT *, load_band(load) AS load_band, NOT prefill AND generation_requests > 0 AS decoding
    FROM cells_iterations
),

iteration_means AS (
    SELECT
        date,
        deployment,
        origin,
        load_band,
        coalesce(sum(n) FILTER (decoding), 0) AS n,
        ratio(sum(elapsed_sum) FILTER (decoding), sum(elapsed_n) FILTER (decoding)) / 1e6 AS round_time_ms,
        max(elapsed_max) FILTER (decoding) / 1e6 AS longest_ms,
        ratio(coalesce(sum(elapsed_sum) FILTER (prefill), 0), sum(elapsed_sum)) AS prefill_share
    FROM iterated
    GROUP BY ALL
),

-- At each load: how much longer steps took in iterations with prefill work than in those without.
load_means AS (
    SELECT
        date,
        deployment,
        origin,
        load_band,
        load,
        sum(generation_requests) AS steps,
        sum(generation_requests) FILTER (prefill) AS prefill_steps,
        ratio(sum(elapsed_sum) FILTER (prefill), sum(elapsed_n) FILTER (prefill)) AS with_prefill_ns,
        ratio(sum(elapsed_sum) FILTER (decoding), sum(elapsed_n) FILTER (decoding)) AS alone_ns
    FROM iterated
    WHERE generation_requests > 0
    GROUP BY ALL
),

interferences AS (
    SELECT
        date,
        deployment,
        origin,
        load_band,
        ratio(
            sum(coalesce(prefill_steps * (with_prefill_ns - alone_ns), 0) ORDER BY load),
            sum(steps) FILTER (alone_ns IS NOT NULL)
        ) / 1e6 AS prefill_interference_ms
    FROM load_means
    GROUP BY ALL
),

iteration_entries AS (
    SELECT date, deployment, origin, load_band, unnest(map_entries(elapsed)) AS entry
    FROM iterated
    WHERE decoding
),

iteration_buckets AS (
    SELECT date, deployment, origin, load_band, entry.key AS bucket, sum(entry.value) AS n
    FROM iteration_entries
    GROUP BY ALL
),

iteration_quantiles AS (
    SELECT
        date,
        deployment,
        origin,
        load_band,
        map(list(bucket), list(n)) AS histogram,
        log_quantile(histogram, 0.50) AS p50,
        log_quantile(histogram, 0.95) AS p95,
        log_quantile(histogram, 0.99) AS p99
    FROM iteration_buckets
    GROUP BY ALL
),

both_origins AS (
    SELECT * FROM stepped
    UNION ALL BY NAME
    SELECT
        means.*,
        quantiles.p50.point / 1e6 AS p50,
        quantiles.p50.lower / 1e6 AS p50_lower,
        quantiles.p50.upper / 1e6 AS p50_upper,
        quantiles.p95.point / 1e6 AS p95,
        quantiles.p95.lower / 1e6 AS p95_lower,
        quantiles.p95.upper / 1e6 AS p95_upper,
        quantiles.p99.point / 1e6 AS p99,
        quantiles.p99.lower / 1e6 AS p99_lower,
        quantiles.p99.upper / 1e6 AS p99_upper,
        interferences.prefill_interference_ms
    FROM iteration_means AS means
    LEFT JOIN interferences USING (date, deployment, origin, load_band)
    LEFT JOIN iteration_quantiles AS quantiles USING (date, deployment, origin, load_band)
)

SELECT
    CAST(date AS DATE) AS date,
    CAST(deployment AS VARCHAR) AS deployment,
    CAST(origin AS VARCHAR) AS origin,
    CAST(load_band AS VARCHAR) AS load_band,
    CAST(context_band AS VARCHAR) AS context_band,
    CAST(task AS VARCHAR) AS task,
    CAST(n AS BIGINT) AS n,
    CAST(round_time_ms AS DOUBLE) AS round_time_ms,
    CAST(p50 AS DOUBLE) AS p50,
    CAST(p50_lower AS DOUBLE) AS p50_lower,
    CAST(p50_upper AS DOUBLE) AS p50_upper,
    CAST(p95 AS DOUBLE) AS p95,
    CAST(p95_lower AS DOUBLE) AS p95_lower,
    CAST(p95_upper AS DOUBLE) AS p95_upper,
    CAST(p99 AS DOUBLE) AS p99,
    CAST(p99_lower AS DOUBLE) AS p99_lower,
    CAST(p99_upper AS DOUBLE) AS p99_upper,
    CAST(longest_ms AS DOUBLE) AS longest_ms,
    CAST(prefill_share AS DOUBLE) AS prefill_share,
    CAST(prefill_interference_ms AS DOUBLE) AS prefill_interference_ms,
    CAST('measured' AS VARCHAR) AS evidence
FROM both_origins
