-- cells_requests: one row per date, deployment, instance, engine, hour, block, load, context band, task, temperature
-- class, output band, LoRA, draft limit, over requests.
-- Reads requests_by_load.
--   date                  UTC date of the moment the row was complete; partition column.
--   deployment            Deployment named at ingest; partition column.
--   instance              One server process group; the deployment's name unless said otherwise.
--   engine                Engine number inside the instance; null where the origin has none.
--   origin                snapshots, requests, log_stats or iterations.
--   hour                  UTC hour of the day, 0 to 23. [h]
--   block                 10-minute block of the UTC day, 0 to 143.
--   load                  Requests running: exact up to 64, lower edge of a 5 % step above; null when not known.
--                         [requests]
--   context_band          Band of prompt + half the output tokens; null where the origin has none.
--   task                  Task label; null where there is none.
--   temperature_class     greedy, sampled or null where not said.
--   output_band           Band of output tokens: 1-20, 21-100, 101-500, 501+; null without output.
--   lora                  LoRA adapter; null where there is none.
--   draft_limit           Configured draft length K; null where not known. [tokens]
--   n                     Observations: scrape intervals, requests or log records. [observations]
--   duration_ns           Observed time (scrape intervals, log windows). [ns]
--   requests              Requests that returned a first token. [requests]
--   output_tokens         Output tokens N_out. [tokens]
--   prompt_tokens         Prompt tokens. [tokens]
--   cached_tokens         Prompt tokens served from a cache. [tokens]
--   rounds                Speculative rounds R. [rounds]
--   drafted               Draft tokens D. [tokens]
--   accepted              Accepted draft tokens C. [tokens]
--   decode_ns             Decode time of observations whose decode time and tokens are known. [ns]
--   decode_tokens         Output tokens after the first, same observations. [tokens]
--   steps                 Steps of observations whose steps are known. [steps]
--   step_tokens           Output tokens after the first, same observations. [tokens]
--   step_decode_ns        Decode time, same observations. [ns]
--   step_rounds           Rounds, same observations (0 without speculation). [rounds]
--   step_accepted         Accepted tokens, same observations (0 without speculation). [tokens]
--   succeeded             Requests finished well. [requests]
--   failed                Requests that failed or were aborted, where the origin tells. [requests]
--   preemptions           Preemptions, where requests carry them. [preemptions]
--   ttft                  Time to first token: log-spaced histogram of ns.
--   ttft_n                Time to first token: observations. [observations]
--   ttft_sum              Time to first token: sum. [ns]
--   ttft_max              Time to first token: exact maximum. [ns]
--   itl                   Stream gap: log-spaced histogram of ns.
--   itl_n                 Stream gap: observations. [observations]
--   itl_sum               Stream gap: sum. [ns]
--   itl_max               Stream gap: exact maximum. [ns]
--   request_tpot          Time per output token of a request: log-spaced histogram of ns.
--   request_tpot_n        Time per output token of a request: observations. [observations]
--   request_tpot_sum      Time per output token of a request: sum. [ns]
--   request_tpot_max      Time per output token of a request: exact maximum. [ns]
--   e2e                   End-to-end time: log-spaced histogram of ns.
--   e2e_n                 End-to-end time: observations. [observations]
--   e2e_sum               End-to-end time: sum. [ns]
--   e2e_max               End-to-end time: exact maximum. [ns]
--   queue                 Time in queue: log-spaced histogram of ns.
--   queue_n               Time in queue: observations. [observations]
--   queue_sum             Time in queue: sum. [ns]
--   queue_max             Time in queue: exact maximum. [ns]
--   prefill               Prefill time: log-spaced histogram of ns.
--   prefill_n             Prefill time: observations. [observations]
--   prefill_sum           Prefill time: sum. [ns]
--   prefill_max           Prefill time: exact maximum. [ns]
--   longest_pause_ns      Longest stream gap of any request. [ns]
--   longest_pause         Longest stream gap of each request, log-spaced histogram of ns.
--   itl_client_n          Stream gaps measured by clients, network included. [observations]
--   qualified             Requests that met every goodput limit; null without limits. [requests]
--   qualified_tokens      Output tokens of those requests. [tokens]
--   rounds_rounds         Σ R².
--   rounds_accepted       Σ R·C.
--   accepted_accepted     Σ C².
--   drafted_drafted       Σ D².
--   drafted_accepted      Σ D·C.
--   decode_decode         Σ decode_ns².
--   decode_tokens_decode  Σ decode_tokens·decode_ns.
--   decode_tokens_tokens  Σ decode_tokens².
--   steps_steps           Σ steps².
--   steps_step_tokens     Σ steps·step_tokens.
--   step_tokens_tokens    Σ step_tokens².
--   steps_step_decode     Σ steps·step_decode_ns.
--   step_decode_decode    Σ step_decode_ns².
--   steps_step_rounds     Σ steps·step_rounds.
--   step_rounds_rounds    Σ step_rounds².
-- -----------------------------------------------------------------------------
WITH observed AS (
    SELECT
        *,
        list_transform(gaps_ms, lambda gap: ms_to_ns(CAST(gap AS DOUBLE))) AS gaps_ns,
        CASE WHEN later_tokens IS NOT NULL AND decode_ns IS NOT NULL THEN later_tokens END AS decode_tokens,
        -- A step without its time would tilt T_round, a time without its steps as well: both or neither.
        CASE WHEN decode_tokens IS NOT NULL THEN steps END AS timed_steps,
        CASE WHEN timed_steps IS NOT NULL THEN decode_tokens END AS step_tokens,
        CASE WHEN timed_steps IS NOT NULL THEN decode_ns END AS step_decode_ns,
        CASE WHEN timed_steps IS NOT NULL THEN coalesce(rounds, 0) END AS step_rounds,
        CASE WHEN timed_steps IS NOT NULL THEN coalesce(accepted, 0) END AS step_accepted,
        CASE WHEN decode_tokens > 0 THEN CAST(round(decode_ns / decode_tokens) AS BIGINT) END AS request_tpot_ns,
        qualified(status = 'ok', ttft_ns, decode_ns, decode_tokens, longest_pause_ns) AS met_limits
    FROM requests_by_load
),

cells AS (
    SELECT
        date,
        deployment,
        instance,
        hour,
        block,
        load,
        context_band,
        task,
        temperature_class,
        output_band,
        lora,
        draft_limit,
        count(*) AS n,
        count(*) FILTER (returned) AS requests,
        sum(output_tokens) AS output_tokens,
        sum(prompt_tokens) AS prompt_tokens,
        sum(cached_tokens) AS cached_tokens,
        sum(rounds) AS rounds,
        sum(drafted) AS drafted,
        sum(accepted) AS accepted,
        sum(decode_ns) AS decode_ns,
        sum(decode_tokens) AS decode_tokens,
        sum(timed_steps) AS steps,
        sum(step_tokens) AS step_tokens,
        sum(step_decode_ns) AS step_decode_ns,
        sum(step_rounds) AS step_rounds,
        sum(step_accepted) AS step_accepted,
        count(*) FILTER (status = 'ok') AS succeeded,
        count(*) FILTER (status IN ('failed', 'aborted')) AS failed,
        sum(preemptions) AS preemptions,
        log_histogram(ttft_ns) AS ttft,
        count(ttft_ns) AS ttft_n,
        sum(ttft_ns) AS ttft_sum,
        max(ttft_ns) AS ttft_max,
        log_histogram(request_tpot_ns) AS request_tpot,
        count(request_tpot_ns) AS request_tpot_n,
        sum(request_tpot_ns) AS request_tpot_sum,
        max(request_tpot_ns) AS request_tpot_max,
        log_histogram(e2e_ns) AS e2e,
        count(e2e_ns) AS e2e_n,
        sum(e2e_ns) AS e2e_sum,
        max(e2e_ns) AS e2e_max,
        log_histogram(queue_ns) AS queue,
        count(queue_ns) AS queue_n,
        sum(queue_ns) AS queue_sum,
        max(queue_ns) AS queue_max,
        log_histogram(prefill_ns) AS prefill,
        count(prefill_ns) AS prefill_n,
        sum(prefill_ns) AS prefill_sum,
        max(prefill_ns) AS prefill_max,
        list_aggregate(
            flatten(list(list_transform(gaps_ns, lambda gap_ns: log_bucket(gap_ns)))), 'histogram'
        ) AS itl,
        sum(len(gaps_ns)) AS itl_n,
        sum(list_sum(gaps_ns)) AS itl_sum,
        max(list_max(gaps_ns)) AS itl_max,
        sum(len(gaps_ns)) FILTER (gaps_from = 'client') AS itl_client_n,
        max(longest_pause_ns) AS longest_pause_ns,
        log_histogram(longest_pause_ns) AS longest_pause,
        sum(CAST(met_limits AS INTEGER)) AS qualified,
        sum(CASE WHEN met_limits THEN output_tokens WHEN NOT met_limits THEN 0 END) AS qualified_tokens,
        sum_of_products(rounds, rounds) AS rounds_rounds,
        sum_of_products(rounds, accepted) AS rounds_accepted,
        sum_of_products(accepted, accepted) AS accepted_accepted,
        sum_of_products(drafted, drafted) AS drafted_drafted,
        sum_of_products(drafted, accepted) AS drafted_accepted,
        sum_of_products(decode_ns, decode_ns) AS decode_decode,
        sum_of_products(decode_tokens, decode_ns) AS decode_tokens_decode,
        sum_of_products(decode_tokens, decode_tokens) AS decode_tokens_tokens,
        sum_of_products(timed_steps, timed_steps) AS steps_steps,
        sum_of_products(timed_steps, step_tokens) AS steps_step_tokens,
        sum_of_products(step_tokens, step_tokens) AS step_tokens_tokens,
        sum_of_products(timed_steps, step_decode_ns) AS steps_step_decode,
        sum_of_products(step_decode_ns, step_decode_ns) AS step_decode_decode,
        sum_of_products(timed_steps, step_rounds) AS steps_step_rounds,
        sum_of_products(step_rounds, step_rounds) AS step_rounds_rounds
    FROM observed
    GROUP BY ALL
)

SELECT
    CAST(date AS DATE) AS date,
    CAST(deployment AS VARCHAR) AS deployment,
    CAST(instance AS VARCHAR) AS instance,
    CAST(NULL AS INTEGER) AS engine,
    CAST('requests' AS VARCHAR) AS origin,
    CAST(hour AS TINYINT) AS hour,
    CAST(block AS SMALLINT) AS block,
    CAST(load AS INTEGER) AS load,
    CAST(context_band AS VARCHAR) AS context_band,
    CAST(task AS VARCHAR) AS task,
    CAST(temperature_class AS VARCHAR) AS temperature_class,
    CAST(output_band AS VARCHAR) AS output_band,
    CAST(lora AS VARCHAR) AS lora,
    CAST(draft_limit AS INTEGER) AS draft_limit,
    CAST(n AS BIGINT) AS n,
    CAST(NULL AS BIGINT) AS duration_ns,
    CAST(requests AS BIGINT) AS requests,
    CAST(output_tokens AS BIGINT) AS output_tokens,
    CAST(prompt_tokens AS BIGINT) AS prompt_tokens,
    CAST(cached_tokens AS BIGINT) AS cached_tokens,
    CAST(rounds AS BIGINT) AS rounds,
    CAST(drafted AS BIGINT) AS drafted,
    CAST(accepted AS BIGINT) AS accepted,
    CAST(decode_ns AS BIGINT) AS decode_ns,
    CAST(decode_tokens AS BIGINT) AS decode_tokens,
    CAST(steps AS BIGINT) AS steps,
    CAST(step_tokens AS BIGINT) AS step_tokens,
    CAST(step_decode_ns AS BIGINT) AS step_decode_ns,
    CAST(step_rounds AS BIGINT) AS step_rounds,
    CAST(step_accepted AS BIGINT) AS step_accepted,
    CAST(succeeded AS BIGINT) AS succeeded,
    CAST(failed AS BIGINT) AS failed,
    CAST(preemptions AS BIGINT) AS preemptions,
    CAST(ttft AS MAP(INTEGER, BIGINT)) AS ttft,
    CAST(ttft_n AS BIGINT) AS ttft_n,
    CAST(ttft_sum AS BIGINT) AS ttft_sum,
    CAST(ttft_max AS BIGINT) AS ttft_max,
    CAST(itl AS MAP(INTEGER, BIGINT)) AS itl,
    CAST(itl_n AS BIGINT) AS itl_n,
    CAST(itl_sum AS BIGINT) AS itl_sum,
    CAST(itl_max AS BIGINT) AS itl_max,
    CAST(request_tpot AS MAP(INTEGER, BIGINT)) AS request_tpot,
    CAST(request_tpot_n AS BIGINT) AS request_tpot_n,
    CAST(request_tpot_sum AS BIGINT) AS request_tpot_sum,
    CAST(request_tpot_max AS BIGINT) AS request_tpot_max,
    CAST(e2e AS MAP(INTEGER, BIGINT)) AS e2e,
    CAST(e2e_n AS BIGINT) AS e2e_n,
    CAST(e2e_sum AS BIGINT) AS e2e_sum,
    CAST(e2e_max AS BIGINT) AS e2e_max,
    CAST(queue AS MAP(INTEGER, BIGINT)) AS queue,
    CAST(queue_n AS BIGINT) AS queue_n,
    CAST(queue_sum AS BIGINT) AS queue_sum,
    CAST(queue_max AS BIGINT) AS queue_max,
    CAST(prefill AS MAP(INTEGER, BIGINT)) AS prefill,
    CAST(prefill_n AS BIGINT) AS prefill_n,
    CAST(prefill_sum AS BIGINT) AS prefill_sum,
    CAST(prefill_max AS BIGINT) AS prefill_max,
    CAST(longest_pause_ns AS BIGINT) AS longest_pause_ns,
    CAST(longest_pause AS MAP(INTEGER, BIGINT)) AS longest_pause,
    CAST(itl_client_n AS BIGINT) AS itl_client_n,
    CAST(qualified AS BIGINT) AS qualified,
    CAST(qualified_tokens AS BIGINT) AS qualified_tokens,
    CAST(rounds_rounds AS HUGEINT) AS rounds_rounds,
    CAST(rounds_accepted AS HUGEINT) AS rounds_accepted,
    CAST(accepted_accepted AS HUGEINT) AS accepted_accepted,
    CAST(drafted_drafted AS HUGEINT) AS drafted_drafted,
    CAST(drafted_accepted AS HUGEINT) AS drafted_accepted,
    CAST(decode_decode AS HUGEINT) AS decode_decode,
    CAST(decode_tokens_decode AS HUGEINT) AS decode_tokens_decode,
    CAST(decode_tokens_tokens AS HUGEINT) AS decode_tokens_tokens,
    CAST(steps_steps AS HUGEINT) AS steps_steps,
    CAST(steps_step_tokens AS HUGEINT) AS steps_step_tokens,
    CAST(step_tokens_tokens AS HUGEINT) AS step_tokens_tokens,
    CAST(steps_step_decode AS HUGEINT) AS steps_step_decode,
    CAST(step_decode_decode AS HUGEINT) AS step_decode_decode,
    CAST(steps_step_rounds AS HUGEINT) AS steps_step_rounds,
    CAST(step_rounds_rounds AS HUGEINT) AS step_rounds_rounds
FROM cells
