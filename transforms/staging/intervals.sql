-- intervals: one row per scrape interval of one (instance, engine, model): what running totals grew by.
-- Reads scrapes, processes, draft_settings.
--   date           UTC date of the moment the row was complete; partition column.
--   deployment     Deployment named at ingest; partition column.
--   instance       One server process group; the deployment's name unless said otherwise.
--   engine         Engine number inside the instance.
--   model_name     Served model name.
--   started_at     Time of the scrape before (UTC).
--   ended_at       Time of the scrape that ends it (UTC); its date and block count.
--   duration_ns    Length of the interval. [ns]
--   hour           UTC hour of the day, 0 to 23. [h]
--   block          10-minute block of the UTC day, 0 to 143.
--   restarted      Whether the process started anew since the scrape before.
--   damaged        Whether a counter fell though the process went on: the scrape is left out.
--   load           Requests running: exact up to 64, lower edge of a 5 % step above; null when not known. [requests]
--   running_milli  Requests running, mean of the gauge at both ends. [milli-requests]
--   waiting        Requests waiting at the end. [requests]
--   kv_ppm         Share of KV cache in use at the end. [ppm]
--   rounds         Speculative rounds R. [rounds]
--   drafted        Draft tokens D. [tokens]
--   accepted       Accepted draft tokens C. [tokens]
--   accepted_at    C_i by position. [tokens]
--   drafted_at     Draft tokens by position, where a build exposes it. [tokens]
--   draft_length   Draft length of all rounds; 0 for steps without a draft; null where it varied or cannot be told.
--                  [tokens]
--   prompt_tokens  Prompt tokens. [tokens]
--   cached_tokens  Prompt tokens served from a cache. [tokens]
--   output_tokens  Output tokens N_out. [tokens]
--   later_tokens   Output tokens after the first ones. [tokens]
--   preemptions    Preemptions. [preemptions]
--   succeeded      Requests finished well (stop, length). [requests]
--   failed         Requests finished otherwise. [requests]
--   decode_sum_ns  Σ request_decode_time_seconds of finished requests. [ns]
--   edges          Hash of the edge lists of all histograms.
--   itl            Step time: one observation a step.
--   ttft           Time to first token: one observation a request.
--   e2e            End-to-end time of requests.
--   request_tpot   Time per output token of requests.
--   queue          Time in queue.
--   prefill        Prefill time.
--   prompt_len     Prompt tokens of requests.
--   output_len     Output tokens of requests.
-- -----------------------------------------------------------------------------
-- Algorithm: 1. running totals as whole numbers, but those of damaged scrapes; 2. they are differenced inside one process,
-- across scrapes that miss a value. Buckets are not differenced here but in cells, where only the ends of a stretch of
-- intervals count.
WITH readings AS (
    SELECT
        deployment,
        instance,
        engine,
        model_name,
        scraped_at,
        rounds,
        drafted,
        accepted,
        accepted_at,
        drafted_at,
        prompt_tokens,
        prompt_tokens_cached AS cached_tokens,
        generation_tokens AS output_tokens,
        preemptions,
        list_sum(map_values(finished)) AS all_finished,
        CASE WHEN all_finished IS NOT NULL THEN coalesce(finished['stop'], 0) + coalesce(finished['length'], 0) END
            AS succeeded,
        all_finished - succeeded AS failed,
        s_to_ns(decode.sum) AS decode_sum_ns,
        histogram_reading(itl, scraped_at, 1e9) AS itl,
        histogram_reading(ttft, scraped_at, 1e9) AS ttft,
        histogram_reading(e2e, scraped_at, 1e9) AS e2e,
        histogram_reading(request_tpot, scraped_at, 1e9) AS request_tpot,
        histogram_reading(queue, scraped_at, 1e9) AS queue,
        histogram_reading(prefill, scraped_at, 1e9) AS prefill,
        histogram_reading(prompt_len, scraped_at, 1) AS prompt_len,
        histogram_reading(output_len, scraped_at, 1) AS output_len
    FROM scrapes
),

totals AS (
    SELECT
        processes.*,
        readings.* EXCLUDE (deployment, instance, engine, model_name, scraped_at, all_finished)
    FROM processes
    LEFT JOIN readings
        ON
            NOT processes.damaged
            AND processes.scraped_at = readings.scraped_at
            AND processes.deployment = readings.deployment
            AND processes.instance = readings.instance
            AND processes.engine = readings.engine
            AND processes.model_name IS NOT DISTINCT FROM readings.model_name
),

paired AS (
    SELECT
        *,
        lag(rounds IGNORE NULLS) OVER along_process AS rounds_before,
        lag(drafted IGNORE NULLS) OVER along_process AS drafted_before,
        lag(accepted IGNORE NULLS) OVER along_process AS accepted_before,
        lag(accepted_at IGNORE NULLS) OVER along_process AS accepted_at_before,
        lag(drafted_at IGNORE NULLS) OVER along_process AS drafted_at_before,
        lag(prompt_tokens IGNORE NULLS) OVER along_process AS prompt_tokens_before,
        lag(cached_tokens IGNORE NULLS) OVER along_process AS cached_tokens_before,
        lag(output_tokens IGNORE NULLS) OVER along_process AS output_tokens_before,
        lag(preemptions IGNORE NULLS) OVER along_process AS preemptions_before,
        lag(succeeded IGNORE NULLS) OVER along_process AS succeeded_before,
        lag(failed IGNORE NULLS) OVER along_process AS failed_before,
        lag(decode_sum_ns IGNORE NULLS) OVER along_process AS decode_sum_ns_before,
        lag(itl IGNORE NULLS) OVER along_process AS itl_before,
        lag(ttft IGNORE NULLS) OVER along_process AS ttft_before,
        lag(e2e IGNORE NULLS) OVER along_process AS e2e_before,
        lag(request_tpot IGNORE NULLS) OVER along_process AS request_tpot_before,
        lag(queue IGNORE NULLS) OVER along_process AS queue_before,
        lag(prefill IGNORE NULLS) OVER along_process AS prefill_before,
        lag(prompt_len IGNORE NULLS) OVER along_process AS prompt_len_before,
        lag(output_len IGNORE NULLS) OVER along_process AS output_len_before
    FROM totals
    WINDOW along_process AS (PARTITION BY deployment, instance, engine, model_name, process ORDER BY scraped_at)
),

grown AS (
    SELECT
        date,
        deployment,
        instance,
        engine,
        model_name,
        scraped_before AS started_at,
        scraped_at AS ended_at,
        1000 * epoch_us(scraped_at) - 1000 * epoch_us(scraped_before) AS duration_ns,
        restarted,
        damaged,
        running,
        running_before,
        waiting,
        kv_usage,
        counter_delta(rounds, rounds_before, counts_from_zero) AS rounds,
        counter_delta(drafted, drafted_before, counts_from_zero) AS drafted,
        counter_delta(accepted, accepted_before, counts_from_zero) AS accepted,
        list_delta(accepted_at, accepted_at_before, counts_from_zero) AS accepted_at,
        list_delta(drafted_at, drafted_at_before, counts_from_zero) AS drafted_at,
        counter_delta(prompt_tokens, prompt_tokens_before, counts_from_zero) AS prompt_tokens,
        counter_delta(cached_tokens, cached_tokens_before, counts_from_zero) AS cached_tokens,
        counter_delta(output_tokens, output_tokens_before, counts_from_zero) AS output_tokens,
        counter_delta(preemptions, preemptions_before, counts_from_zero) AS preemptions,
        counter_delta(succeeded, succeeded_before, counts_from_zero) AS succeeded,
        counter_delta(failed, failed_before, counts_from_zero) AS failed,
        counter_delta(decode_sum_ns, decode_sum_ns_before, counts_from_zero) AS decode_sum_ns,
        -- A damaged scrape holds nothing, so it may stand in the cell of the one before.
        CASE
            WHEN damaged
                THEN hash(
                    itl_before.edges, ttft_before.edges, e2e_before.edges, request_tpot_before.edges,
                    queue_before.edges, prefill_before.edges, prompt_len_before.edges, output_len_before.edges
                )
            ELSE hash(
                itl.edges, ttft.edges, e2e.edges, request_tpot.edges,
                queue.edges, prefill.edges, prompt_len.edges, output_len.edges
            )
        END AS edges,
        histogram_delta(itl, itl_before, counts_from_zero) AS itl,
        histogram_delta(ttft, ttft_before, counts_from_zero) AS ttft,
        histogram_delta(e2e, e2e_before, counts_from_zero) AS e2e,
        histogram_delta(request_tpot, request_tpot_before, counts_from_zero) AS request_tpot,
        histogram_delta(queue, queue_before, counts_from_zero) AS queue,
        histogram_delta(prefill, prefill_before, counts_from_zero) AS prefill,
        histogram_delta(prompt_len, prompt_len_before, counts_from_zero) AS prompt_len,
        histogram_delta(output_len, output_len_before, counts_from_zero) AS output_len
    FROM paired
),

-- Releases that count draft tokens but no rounds: where a drafter always drafts its full length, the rounds follow.
told AS (
    SELECT
        grown.* REPLACE (
            coalesce(
                grown.rounds,
                CASE WHEN grown.drafted % settings.draft_limit = 0 THEN grown.drafted // settings.draft_limit END
            ) AS rounds
        )
    FROM grown
    LEFT JOIN draft_settings AS settings
        ON
            grown.rounds IS NULL
            AND grown.drafted IS NOT NULL
            AND settings.always_drafts
            AND settings.draft_limit > 0
            AND grown.deployment = settings.deployment
            AND grown.instance = settings.instance
            AND grown.ended_at >= settings.started_at
            AND grown.ended_at < settings.until
    WHERE grown.started_at IS NOT NULL
),

-- All rounds of an interval had one length where D / R is the least or the greatest possible, or where nothing beyond
-- it was ever accepted. Without rounds every step returned one token, else drafts went uncounted.
measured AS (
    SELECT
        *,
        CASE WHEN rounds > 0 AND drafted % rounds = 0 THEN drafted // rounds END AS mean_length,
        output_tokens - ttft.count AS later_tokens,
        CASE
            WHEN mean_length = 1 OR list_sum(accepted_at[mean_length + 1:]) = 0 OR mean_length = len(accepted_at)
                THEN mean_length
            WHEN coalesce(rounds, drafted, 0) = 0 AND itl.count > 0 AND later_tokens <= 1.1 * itl.count THEN 0
        END AS draft_length
    FROM told
)

SELECT
    CAST(date AS DATE) AS date,
    CAST(deployment AS VARCHAR) AS deployment,
    CAST(instance AS VARCHAR) AS instance,
    CAST(engine AS INTEGER) AS engine,
    CAST(model_name AS VARCHAR) AS model_name,
    CAST(started_at AS TIMESTAMP) AS started_at,
    CAST(ended_at AS TIMESTAMP) AS ended_at,
    CAST(duration_ns AS BIGINT) AS duration_ns,
    CAST(hour(ended_at) AS TINYINT) AS hour,
    CAST(hour(ended_at) * 6 + minute(ended_at) // 10 AS SMALLINT) AS block,
    CAST(restarted AS BOOLEAN) AS restarted,
    CAST(damaged AS BOOLEAN) AS damaged,
    CAST(
        CASE
            -- The gauge at both ends says little of what lies between them after more than 10 minutes.
            WHEN duration_ns <= 600_000_000_000
                THEN load_code(coalesce((running + running_before) / 2, ratio(itl.sum, duration_ns)))
            ELSE load_code(ratio(itl.sum, duration_ns))
        END AS INTEGER
    ) AS load,
    CAST(round((running + running_before) * 500) AS BIGINT) AS running_milli,
    CAST(round(waiting) AS BIGINT) AS waiting,
    CAST(to_ppm(kv_usage) AS BIGINT) AS kv_ppm,
    CAST(rounds AS BIGINT) AS rounds,
    CAST(drafted AS BIGINT) AS drafted,
    CAST(accepted AS BIGINT) AS accepted,
    CAST(accepted_at AS BIGINT[]) AS accepted_at,
    CAST(drafted_at AS BIGINT[]) AS drafted_at,
    CAST(draft_length AS INTEGER) AS draft_length,
    CAST(prompt_tokens AS BIGINT) AS prompt_tokens,
    CAST(cached_tokens AS BIGINT) AS cached_tokens,
    CAST(output_tokens AS BIGINT) AS output_tokens,
    CAST(later_tokens AS BIGINT) AS later_tokens,
    CAST(preemptions AS BIGINT) AS preemptions,
    CAST(succeeded AS BIGINT) AS succeeded,
    CAST(failed AS BIGINT) AS failed,
    CAST(decode_sum_ns AS BIGINT) AS decode_sum_ns,
    CAST(edges AS UBIGINT) AS edges,
    CAST(itl AS STRUCT(count BIGINT, sum BIGINT, since TIMESTAMP)) AS itl,
    CAST(ttft AS STRUCT(count BIGINT, sum BIGINT, since TIMESTAMP)) AS ttft,
    CAST(e2e AS STRUCT(count BIGINT, sum BIGINT, since TIMESTAMP)) AS e2e,
    CAST(request_tpot AS STRUCT(count BIGINT, sum BIGINT, since TIMESTAMP)) AS request_tpot,
    CAST(queue AS STRUCT(count BIGINT, sum BIGINT, since TIMESTAMP)) AS queue,
    CAST(prefill AS STRUCT(count BIGINT, sum BIGINT, since TIMESTAMP)) AS prefill,
    CAST(prompt_len AS STRUCT(count BIGINT, sum BIGINT, since TIMESTAMP)) AS prompt_len,
    CAST(output_len AS STRUCT(count BIGINT, sum BIGINT, since TIMESTAMP)) AS output_len
FROM measured
