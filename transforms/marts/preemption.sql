-- preemption: one row per deployment, date, origin, load band.
-- Reads deployment_days, cells_snapshots, cells_requests, cells_log_stats, cells_iterations.
--   date               UTC date of the moment the row was complete; partition column.
--   deployment         Deployment named at ingest; partition column.
--   origin             snapshots, requests, log_stats or iterations; origins are never added.
--   load_band          Band of requests running on the engine; 'unknown' where load is not known.
--   requests           Requests that returned a first token. [requests]
--   steps              Steps. [steps]
--   preemptions        Preemptions; null where the origin cannot tell (silence of a log is no zero). [preemptions]
--   per_1k_requests    Preemptions per 1,000 requests. [1/1000]
--   per_1k_steps       Preemptions per 1,000 steps. [1/1000]
--   kv_usage_mean      Mean share of KV cache in use. [ratio]
--   kv_usage_p95       p95 of the share of KV cache in use, to 0.001. [ratio]
--   kv_usage_max       Greatest share of KV cache in use. [ratio]
--   waiting_mean       Mean requests waiting. [requests]
--   waiting_max        Most requests waiting. [requests]
--   recomputed_tokens  Origin iterations: positions computed again after a resume. Where no scrapes count the
--                      preemptions of the same steps it is a lower bound: each resume then hides draft limit positions.
--                      [tokens]
--   recompute_ms       Origin iterations: what iterations without prefill that computed again took beyond others at the
--                      same load. [ms]
--   evidence           measured, derived or estimated.
-- -----------------------------------------------------------------------------
WITH observed AS (
    SELECT
        date, deployment, origin, load, requests, steps, preemptions, kv_n, kv_ppm, kv_max_ppm, kv_hist, waiting_n,
        waiting, waiting_max
    FROM cells_snapshots
    UNION ALL BY NAME
    SELECT date, deployment, origin, load, requests, steps, preemptions
    FROM cells_requests
    UNION ALL BY NAME
    SELECT date, deployment, origin, load, kv_n, kv_ppm, kv_max_ppm, kv_hist, waiting_n, waiting, waiting_max
    FROM cells_log_stats
),

counted AS (
    SELECT
        date,
        deployment,
        origin,
        load_band(load) AS load_band,
        sum(requests) AS requests,
        sum(steps) AS steps,
        sum(preemptions) AS preemptions,
        ratio(sum(kv_ppm), sum(kv_n)) / 1e6 AS kv_usage_mean,
        max(kv_max_ppm) / 1e6 AS kv_usage_max,
        ratio(sum(waiting), sum(waiting_n)) AS waiting_mean,
        max(waiting_max) AS waiting_max
    FROM observed
    GROUP BY ALL
),

kv_entries AS (
    SELECT date, deployment, origin, load_band(load) AS load_band, unnest(map_entries(kv_hist)) AS entry
    FROM observed
),

kv_counts AS (
    SELECT date, deployment, origin, load_band, entry.key AS thousandth, sum(entry.value) AS n
    FROM kv_entries
    GROUP BY ALL
),

kv_ranks AS (
    SELECT
        *,
        sum(n) OVER (along ORDER BY thousandth) AS cumulative,
        sum(n) OVER along AS total
    FROM kv_counts
    WINDOW along AS (PARTITION BY date, deployment, origin, load_band)
),

kv_quantiles AS (
    SELECT date, deployment, origin, load_band, min(thousandth) / 1e3 AS kv_usage_p95
    FROM kv_ranks
    WHERE 100 * cumulative >= 95 * total
    GROUP BY ALL
),

-- A resumed request counts as one that decodes, and its whole recompute as its scheduled positions: whatever exceeds
-- draft limit + 1 positions a request was computed again. Prefill iterations are known by their sums only.
-- A resumed request has no draft, so each resume hides draft limit positions: scrapes of the same steps count them.
iterated AS (
    SELECT
        cells.date,
        cells.deployment,
        cells.origin,
        load_band(cells.load) AS load_band,
        cells.load,
        cells.scheduled_tokens IS NULL AS only_sums,
        cells.generation_requests,
        cells.elapsed_sum,
        cells.elapsed_n,
        days.draft_limit,
        cells.generation_tokens - cells.generation_requests * (days.draft_limit + 1) AS excess
    FROM cells_iterations AS cells
    LEFT JOIN deployment_days AS days USING (date, deployment)
),

recomputed AS (
    SELECT
        date,
        deployment,
        origin,
        load_band,
        sum(generation_requests) AS steps,
        sum(excess) FILTER (NOT only_sums AND excess > 0) AS excess_by_iteration,
        sum(excess) FILTER (only_sums) AS excess_of_prefill,
        bool_or(excess IS NULL) AS limit_unknown,
        any_value(draft_limit) AS draft_limit
    FROM iterated
    GROUP BY ALL
),

-- Days on which nearly every step that scrapes count is in the log as well.
logged_days AS (
    SELECT date, deployment
    FROM counted
    WHERE origin = 'snapshots'
    GROUP BY ALL
    HAVING
        sum(steps) <= 1.01 * (
            SELECT sum(iterated.generation_requests)
            FROM iterated
            WHERE iterated.date = counted.date AND iterated.deployment = counted.deployment
        )
),

resumes AS (
    SELECT date, deployment, load_band, preemptions
    FROM counted
    INNER JOIN logged_days USING (date, deployment)
    WHERE origin = 'snapshots'
),

load_means AS (
    SELECT
        date,
        deployment,
        origin,
        load_band,
        load,
        sum(elapsed_n) FILTER (excess > 0) AS again_n,
        ratio(sum(elapsed_sum) FILTER (excess > 0), sum(elapsed_n) FILTER (excess > 0)) AS again_ns,
        ratio(sum(elapsed_sum) FILTER (excess <= 0), sum(elapsed_n) FILTER (excess <= 0)) AS ordinary_ns
    FROM iterated
    WHERE NOT only_sums AND generation_requests > 0
    GROUP BY ALL
),

recompute_times AS (
    SELECT
        date,
        deployment,
        origin,
        load_band,
        sum(again_n * (again_ns - ordinary_ns) ORDER BY load) / 1e6 AS recompute_ms
    FROM load_means
    GROUP BY ALL
),

band_rows AS (
    SELECT counted.*, kv_quantiles.kv_usage_p95, 'measured' AS evidence
    FROM counted
    LEFT JOIN kv_quantiles USING (date, deployment, origin, load_band)
    UNION ALL BY NAME
    SELECT
        date,
        deployment,
        origin,
        load_band,
        steps,
        CASE
            WHEN NOT limit_unknown
                THEN coalesce(excess_by_iteration, 0) + greatest(coalesce(excess_of_prefill, 0), 0)
                + draft_limit * coalesce(resumes.preemptions, 0)
        END AS recomputed_tokens,
        recompute_ms,
        'estimated' AS evidence
    FROM recomputed
    LEFT JOIN recompute_times USING (date, deployment, origin, load_band)
    LEFT JOIN resumes USING (date, deployment, load_band)
)

SELECT
    CAST(date AS DATE) AS date,
    CAST(deployment AS VARCHAR) AS deployment,
    CAST(origin AS VARCHAR) AS origin,
    CAST(load_band AS VARCHAR) AS load_band,
    CAST(requests AS BIGINT) AS requests,
    CAST(steps AS BIGINT) AS steps,
    CAST(preemptions AS BIGINT) AS preemptions,
    CAST(1e3 * ratio(preemptions, requests) AS DOUBLE) AS per_1k_requests,
    CAST(1e3 * ratio(preemptions, steps) AS DOUBLE) AS per_1k_steps,
    CAST(kv_usage_mean AS DOUBLE) AS kv_usage_mean,
    CAST(kv_usage_p95 AS DOUBLE) AS kv_usage_p95,
    CAST(kv_usage_max AS DOUBLE) AS kv_usage_max,
    CAST(waiting_mean AS DOUBLE) AS waiting_mean,
    CAST(waiting_max AS DOUBLE) AS waiting_max,
    CAST(recomputed_tokens AS BIGINT) AS recomputed_tokens,
    CAST(recompute_ms AS DOUBLE) AS recompute_ms,
    CAST(evidence AS VARCHAR) AS evidence
FROM band_rows
