-- band_totals: one row per deployment, date, origin, load band, context band, task: the sums that the other marts
-- divide.
-- Reads cells_snapshots, cells_requests, cells_log_stats.
--   date            UTC date of the moment the row was complete; partition column.
--   deployment      Deployment named at ingest; partition column.
--   origin          snapshots, requests, log_stats or iterations; origins are never added.
--   load_band       Band of requests running on the engine; 'unknown' where load is not known.
--   context_band    Band of prompt + half the output tokens; null where the origin has none.
--   task            Task label; null where the origin has none.
--   n               Observations. [observations]
--   duration_ns     Observed engine time. [ns]
--   requests        Requests that returned a first token. [requests]
--   output_tokens   Output tokens. [tokens]
--   prompt_tokens   Prompt tokens. [tokens]
--   cached_tokens   Prompt tokens served from a cache. [tokens]
--   rounds          Speculative rounds R. [rounds]
--   rounds_min      Least R (log_stats). [rounds]
--   rounds_max      Greatest R (log_stats). [rounds]
--   drafted         Draft tokens D. [tokens]
--   accepted        Accepted draft tokens C. [tokens]
--   decode_ns       Decode time where time and tokens are known. [ns]
--   decode_tokens   Output tokens after the first, same observations. [tokens]
--   steps           Steps where they are known. [steps]
--   step_tokens     Output tokens after the first, same observations. [tokens]
--   step_decode_ns  Decode time, same observations. [ns]
--   step_rounds     Rounds, same observations. [rounds]
--   step_accepted   Accepted tokens, same observations. [tokens]
--   succeeded       Requests finished well. [requests]
--   failed          Requests failed or aborted. [requests]
--   preemptions     Preemptions; null where the origin cannot tell. [preemptions]
-- -----------------------------------------------------------------------------
WITH cells AS (
    SELECT
        date, deployment, origin, load, n, duration_ns, requests, output_tokens, prompt_tokens, cached_tokens,
        rounds, drafted, accepted, decode_ns, decode_tokens, steps, step_tokens, step_decode_ns, step_rounds,
        step_accepted, succeeded, failed, preemptions
    FROM cells_snapshots
    UNION ALL BY NAME
    SELECT
        date, deployment, origin, load, context_band, task, n, duration_ns, requests, output_tokens, prompt_tokens,
        cached_tokens, rounds, drafted, accepted, decode_ns, decode_tokens, steps, step_tokens, step_decode_ns,
        step_rounds, step_accepted, succeeded, failed, preemptions
    FROM cells_requests
    UNION ALL BY NAME
    SELECT date, deployment, origin, load, n, duration_ns, rounds, rounds_min, rounds_max, drafted, accepted
    FROM cells_log_stats
),

totals AS (
    SELECT
        date,
        deployment,
        origin,
        load_band(load) AS load_band,
        context_band,
        task,
        sum(n) AS n,
        sum(duration_ns) AS duration_ns,
        sum(requests) AS requests,
        sum(output_tokens) AS output_tokens,
        sum(prompt_tokens) AS prompt_tokens,
        sum(cached_tokens) AS cached_tokens,
        sum(rounds) AS rounds,
        sum(rounds_min) AS rounds_min,
        sum(rounds_max) AS rounds_max,
        sum(drafted) AS drafted,
        sum(accepted) AS accepted,
        sum(decode_ns) AS decode_ns,
        sum(decode_tokens) AS decode_tokens,
        sum(steps) AS steps,
        sum(step_tokens) AS step_tokens,
        sum(step_decode_ns) AS step_decode_ns,
        sum(step_rounds) AS step_rounds,
        sum(step_accepted) AS step_accepted,
        sum(succeeded) AS succeeded,
        sum(failed) AS failed,
        sum(preemptions) AS preemptions
    FROM cells
    GROUP BY ALL
)

SELECT
    CAST(date AS DATE) AS date,
    CAST(deployment AS VARCHAR) AS deployment,
    CAST(origin AS VARCHAR) AS origin,
    CAST(load_band AS VARCHAR) AS load_band,
    CAST(context_band AS VARCHAR) AS context_band,
    CAST(task AS VARCHAR) AS task,
    CAST(n AS HUGEINT) AS n,
    CAST(duration_ns AS HUGEINT) AS duration_ns,
    CAST(requests AS HUGEINT) AS requests,
    CAST(output_tokens AS HUGEINT) AS output_tokens,
    CAST(prompt_tokens AS HUGEINT) AS prompt_tokens,
    CAST(cached_tokens AS HUGEINT) AS cached_tokens,
    CAST(rounds AS HUGEINT) AS rounds,
    CAST(rounds_min AS HUGEINT) AS rounds_min,
    CAST(rounds_max AS HUGEINT) AS rounds_max,
    CAST(drafted AS HUGEINT) AS drafted,
    CAST(accepted AS HUGEINT) AS accepted,
    CAST(decode_ns AS HUGEINT) AS decode_ns,
    CAST(decode_tokens AS HUGEINT) AS decode_tokens,
    CAST(steps AS HUGEINT) AS steps,
    CAST(step_tokens AS HUGEINT) AS step_tokens,
    CAST(step_decode_ns AS HUGEINT) AS step_decode_ns,
    CAST(step_rounds AS HUGEINT) AS step_rounds,
    CAST(step_accepted AS HUGEINT) AS step_accepted,
    CAST(succeeded AS HUGEINT) AS succeeded,
    CAST(failed AS HUGEINT) AS failed,
    CAST(preemptions AS HUGEINT) AS preemptions
FROM totals
