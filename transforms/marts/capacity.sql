-- capacity: one row per deployment, date, origin, load band.
-- Reads deployment_days, cells_snapshots, cells_requests, cells_log_stats.
--   date                           UTC date of the moment the row was complete; partition column.
--   deployment                     Deployment named at ingest; partition column.
--   origin                         snapshots, requests, log_stats or iterations; origins are never added.
--   load_band                      Band of requests running on the engine; 'unknown' where load is not known.
--   seconds                        Engine seconds observed; requests: their running time / load, an estimate. [s]
--   kv_tokens                      KV cache size of the deployment. [tokens]
--   candidate_kv_share             Running x D / R as a share of KV capacity; an estimate. [ratio]
--   output_tps                     Output tokens per engine second. [tokens/s]
--   prompt_tps                     Prompt tokens per engine second. [tokens/s]
--   succeeded                      Requests finished well. [requests]
--   failed                         Requests failed or aborted. [requests]
--   goodput_tps                    Output tokens per second from requests within every limit; null without limits.
--                                  [tokens/s]
--   gpus                           GPUs of one engine: label gpus (of one instance) over its engines, else TP x PP;
--                                  null when neither is known. [GPUs]
--   gpus_from                      label or parallel sizes (derived).
--   gpu_s_per_1k_tokens            GPU-seconds per 1,000 output tokens. [GPU s]
--   gpu_s_per_1k_qualified_tokens  GPU-seconds per 1,000 tokens within every limit; null without limits. [GPU s]
--   evidence                       measured, derived or estimated.
-- -----------------------------------------------------------------------------
WITH observed AS (
    SELECT
        date, deployment, origin, load, duration_ns, rounds, drafted, output_tokens, prompt_tokens, succeeded, failed,
        running_n, running_milli
    FROM cells_snapshots
    UNION ALL BY NAME
    SELECT date, deployment, origin, load, duration_ns, rounds, drafted, running_n, running_milli
    FROM cells_log_stats
    UNION ALL BY NAME
    -- A request keeps an engine busy for its own running time, shared with the requests that run beside it.
    SELECT
        date,
        deployment,
        origin,
        load,
        CASE WHEN load > 0 AND e2e_n = n AND queue_n = n THEN (e2e_sum - queue_sum) / load END AS duration_ns,
        rounds,
        drafted,
        output_tokens,
        prompt_tokens,
        succeeded,
        failed,
        n AS running_n,
        1000 * n * load AS running_milli,
        qualified_tokens
    FROM cells_requests
),

totals AS (
    SELECT
        date,
        deployment,
        origin,
        load_band(load) AS load_band,
        CASE WHEN count(duration_ns) = count(*) THEN sum(duration_ns) / 1e9 END AS seconds,
        ratio(sum(running_milli), sum(running_n)) / 1e3 AS running,
        sum(rounds) AS rounds,
        sum(drafted) AS drafted,
        sum(output_tokens) AS output_tokens,
        sum(prompt_tokens) AS prompt_tokens,
        sum(succeeded) AS succeeded,
        sum(failed) AS failed,
        sum(qualified_tokens) AS qualified_tokens
    FROM observed
    GROUP BY ALL
),

figures AS (
    SELECT
        totals.*,
        days.kv_tokens,
        ratio(totals.running * ratio(totals.drafted, totals.rounds), days.kv_tokens_per_engine) AS candidate_kv_share,
        days.gpus_per_engine,
        days.gpus_from,
        totals.seconds * days.gpus_per_engine AS gpu_seconds,
        CASE
            WHEN totals.origin <> 'snapshots' THEN 'estimated'
            WHEN days.gpus_from = 'parallel sizes' THEN 'derived'
            ELSE 'measured'
        END AS evidence
    FROM totals
    LEFT JOIN deployment_days AS days USING (date, deployment)
)

SELECT
    CAST(date AS DATE) AS date,
    CAST(deployment AS VARCHAR) AS deployment,
    CAST(origin AS VARCHAR) AS origin,
    CAST(load_band AS VARCHAR) AS load_band,
    CAST(seconds AS DOUBLE) AS seconds,
    CAST(kv_tokens AS BIGINT) AS kv_tokens,
    CAST(candidate_kv_share AS DOUBLE) AS candidate_kv_share,
    CAST(ratio(output_tokens, seconds) AS DOUBLE) AS output_tps,
    CAST(ratio(prompt_tokens, seconds) AS DOUBLE) AS prompt_tps,
    CAST(succeeded AS BIGINT) AS succeeded,
    CAST(failed AS BIGINT) AS failed,
    CAST(ratio(qualified_tokens, seconds) AS DOUBLE) AS goodput_tps,
    CAST(gpus_per_engine AS DOUBLE) AS gpus,
    CAST(gpus_from AS VARCHAR) AS gpus_from,
    CAST(1e3 * ratio(gpu_seconds, output_tokens) AS DOUBLE) AS gpu_s_per_1k_tokens,
    CAST(1e3 * ratio(gpu_seconds, qualified_tokens) AS DOUBLE) AS gpu_s_per_1k_qualified_tokens,
    CAST(evidence AS VARCHAR) AS evidence
FROM figures
