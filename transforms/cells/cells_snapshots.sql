-- cells_snapshots: one row per date, deployment, instance, engine, hour, block, load and set of histogram edges, over
-- scrape intervals.
-- Reads intervals, scrapes.
--   date                  UTC date of the moment the row was complete; partition column.
--   deployment            Deployment named at ingest; partition column.
--   instance              One server process group; the deployment's name unless said otherwise.
--   engine                Engine number inside the instance; null where the origin has none.
--   origin                snapshots, requests, log_stats or iterations.
--   hour                  UTC hour of the day, 0 to 23. [h]
--   block                 10-minute block of the UTC day, 0 to 143.
--   load                  Requests running: exact up to 64, lower edge of a 5 % step above; null when not known.
--                         [requests]
--   edges                 Hash of all edge lists: cells of other edges never mix.
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
--   preemptions           Preemptions. [preemptions]
--   restarts              Processes that started anew. [restarts]
--   damaged               Scrapes left out because a counter fell though the process went on. [scrapes]
--   accepted_at           C_i by position. [tokens]
--   drafted_at            Draft tokens by position, where a build exposes it. [tokens]
--   decode_sum_ns         Σ request_decode_time_seconds of finished requests. [ns]
--   itl                   Step time: counts by bucket, edges as the server has them.
--   itl_n                 Step time: observations. [observations]
--   itl_sum               Step time: sum, in ns or tokens. [ns or tokens]
--   ttft                  Time to first token: counts by bucket, edges as the server has them.
--   ttft_n                Time to first token: observations. [observations]
--   ttft_sum              Time to first token: sum, in ns or tokens. [ns or tokens]
--   e2e                   End-to-end time of requests: counts by bucket, edges as the server has them.
--   e2e_n                 End-to-end time of requests: observations. [observations]
--   e2e_sum               End-to-end time of requests: sum, in ns or tokens. [ns or tokens]
--   request_tpot          Time per output token of requests; requests of one token taken out of the first bucket:
--                         counts by bucket, edges as the server has them.
--   request_tpot_n        Time per output token of requests; requests of one token taken out of the first bucket:
--                         observations. [observations]
--   request_tpot_sum      Time per output token of requests; requests of one token taken out of the first bucket: sum,
--                         in ns or tokens. [ns or tokens]
--   queue                 Time in queue: counts by bucket, edges as the server has them.
--   queue_n               Time in queue: observations. [observations]
--   queue_sum             Time in queue: sum, in ns or tokens. [ns or tokens]
--   prefill               Prefill time: counts by bucket, edges as the server has them.
--   prefill_n             Prefill time: observations. [observations]
--   prefill_sum           Prefill time: sum, in ns or tokens. [ns or tokens]
--   prompt_len            Prompt tokens of requests: counts by bucket, edges as the server has them.
--   prompt_len_n          Prompt tokens of requests: observations. [observations]
--   prompt_len_sum        Prompt tokens of requests: sum, in ns or tokens. [ns or tokens]
--   output_len            Output tokens of requests: counts by bucket, edges as the server has them.
--   output_len_n          Output tokens of requests: observations. [observations]
--   output_len_sum        Output tokens of requests: sum, in ns or tokens. [ns or tokens]
--   kv_n                  Observations of KV use. [observations]
--   kv_ppm                Σ KV use in millionths. [ppm]
--   kv_max_ppm            Greatest KV use in millionths. [ppm]
--   kv_hist               KV use by thousandths (plain thousandths, not log-spaced).
--   waiting_n             Observations of waiting requests. [observations]
--   waiting               Σ waiting requests, rounded to whole requests. [requests]
--   waiting_max           Most requests waiting. [requests]
--   running_n             Observations of running requests. [observations]
--   running_milli         Σ running requests in thousandths (interval means). [milli-requests]
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
-- Algorithm, buckets: over a stretch of intervals in one cell, the counts at the inner scrapes cancel, so a bucket's growth
-- is the sum of its running totals at the ends (+) minus those at the starts (-): only scrapes at which the cell changes
-- are read, and no interval's buckets are ever formed.
WITH grain AS MATERIALIZED (
    SELECT *, row_number() OVER () AS cell
    FROM (SELECT DISTINCT date, deployment, instance, engine, hour, block, load, edges FROM intervals)
),

observed AS (
    SELECT intervals.*, grain.cell, itl.sum IS NOT NULL AND later_tokens IS NOT NULL AS timed
    FROM intervals
    INNER JOIN grain
        ON
            intervals.date = grain.date
            AND intervals.deployment = grain.deployment
            AND intervals.instance = grain.instance
            AND intervals.engine = grain.engine
            AND intervals.block = grain.block
            AND intervals.edges = grain.edges
            AND intervals.load IS NOT DISTINCT FROM grain.load
),

measured AS (
    SELECT
        *,
        CASE WHEN timed THEN itl.sum END AS decode_ns,
        CASE WHEN timed THEN later_tokens END AS decode_tokens,
        CASE WHEN timed THEN itl.count END AS steps,
        CASE WHEN timed THEN coalesce(rounds, 0) END AS step_rounds,
        CASE WHEN timed THEN coalesce(accepted, 0) END AS step_accepted
    FROM observed
),

sums AS (
    SELECT
        cell,
        count(*) AS n,
        sum(duration_ns) AS duration_ns,
        sum(ttft.count) AS requests,
        sum(output_tokens) AS output_tokens,
        sum(prompt_tokens) AS prompt_tokens,
        sum(cached_tokens) AS cached_tokens,
        sum(rounds) AS rounds,
        sum(drafted) AS drafted,
        sum(accepted) AS accepted,
        sum(decode_ns) AS decode_ns,
        sum(decode_tokens) AS decode_tokens,
        sum(steps) AS steps,
        sum(step_rounds) AS step_rounds,
        sum(step_accepted) AS step_accepted,
        sum(succeeded) AS succeeded,
        sum(failed) AS failed,
        sum(preemptions) AS preemptions,
        countif(restarted) AS restarts,
        countif(damaged) AS damaged,
        sum(decode_sum_ns) AS decode_sum_ns,
        sum(itl.count) AS itl_n,
        sum(itl.sum) AS itl_sum,
        sum(ttft.count) AS ttft_n,
        sum(ttft.sum) AS ttft_sum,
        sum(e2e.count) AS e2e_n,
        sum(e2e.sum) AS e2e_sum,
        sum(request_tpot.count) AS request_tpot_n,
        sum(request_tpot.sum) AS request_tpot_sum,
        sum(queue.count) AS queue_n,
        sum(queue.sum) AS queue_sum,
        sum(prefill.count) AS prefill_n,
        sum(prefill.sum) AS prefill_sum,
        sum(prompt_len.count) AS prompt_len_n,
        sum(prompt_len.sum) AS prompt_len_sum,
        sum(output_len.count) AS output_len_n,
        sum(output_len.sum) AS output_len_sum,
        count(kv_ppm) AS kv_n,
        sum(kv_ppm) AS kv_ppm,
        max(kv_ppm) AS kv_max_ppm,
        tally(CAST(round(kv_ppm / 1000) AS INTEGER)) AS kv_hist,
        count(waiting) AS waiting_n,
        sum(waiting) AS waiting,
        max(waiting) AS waiting_max,
        count(running_milli) AS running_n,
        sum(running_milli) AS running_milli,
        sum_of_products(rounds, rounds) AS rounds_rounds,
        sum_of_products(rounds, accepted) AS rounds_accepted,
        sum_of_products(accepted, accepted) AS accepted_accepted,
        sum_of_products(drafted, drafted) AS drafted_drafted,
        sum_of_products(drafted, accepted) AS drafted_accepted,
        sum_of_products(decode_ns, decode_ns) AS decode_decode,
        sum_of_products(decode_tokens, decode_ns) AS decode_tokens_decode,
        sum_of_products(decode_tokens, decode_tokens) AS decode_tokens_tokens,
        sum_of_products(steps, steps) AS steps_steps,
        sum_of_products(steps, decode_tokens) AS steps_step_tokens,
        sum_of_products(steps, decode_ns) AS steps_step_decode,
        sum_of_products(steps, step_rounds) AS steps_step_rounds,
        sum_of_products(step_rounds, step_rounds) AS step_rounds_rounds
    FROM measured
    GROUP BY cell
),

position_sums AS (
    SELECT cell, position, sum(accepted) AS accepted, sum(drafted) AS drafted
    FROM (
        SELECT
            cell,
            unnest(range(1, greatest(len(accepted_at), len(drafted_at)) + 1)) AS position,
            unnest(accepted_at) AS accepted,
            unnest(drafted_at) AS drafted
        FROM observed
    )
    GROUP BY cell, position
),

positions AS (
    SELECT
        cell,
        list(accepted ORDER BY position) FILTER (accepted IS NOT NULL) AS accepted_at,
        list(drafted ORDER BY position) FILTER (drafted IS NOT NULL) AS drafted_at
    FROM position_sums
    GROUP BY cell
),

-- Each interval adds the totals of the scrape that ends it and takes off those of the scrape its growth is counted from.
ends AS (
    SELECT
        cell,
        deployment,
        instance,
        engine,
        model_name,
        ended_at AS scraped_at,
        1 AS sign,
        itl.since IS NOT NULL AS itl,
        ttft.since IS NOT NULL AS ttft,
        e2e.since IS NOT NULL AS e2e,
        request_tpot.since IS NOT NULL AS request_tpot,
        queue.since IS NOT NULL AS queue,
        prefill.since IS NOT NULL AS prefill,
        prompt_len.since IS NOT NULL AS prompt_len,
        output_len.since IS NOT NULL AS output_len
    FROM observed
),

starts AS (
    SELECT
        cell,
        deployment,
        instance,
        engine,
        model_name,
        started_at AS scraped_at,
        -1 AS sign,
        coalesce(itl.since = started_at, false) AS itl,
        coalesce(ttft.since = started_at, false) AS ttft,
        coalesce(e2e.since = started_at, false) AS e2e,
        coalesce(request_tpot.since = started_at, false) AS request_tpot,
        coalesce(queue.since = started_at, false) AS queue,
        coalesce(prefill.since = started_at, false) AS prefill,
        coalesce(prompt_len.since = started_at, false) AS prompt_len,
        coalesce(output_len.since = started_at, false) AS output_len
    FROM observed
),

-- Growth that bridges scrapes without the histogram is counted from an earlier scrape than its neighbours are.
bridges AS (
    SELECT
        *,
        unnest(
            list_filter(
                [
                    {'histogram': 'itl', 'since': itl.since},
                    {'histogram': 'ttft', 'since': ttft.since},
                    {'histogram': 'e2e', 'since': e2e.since},
                    {'histogram': 'request_tpot', 'since': request_tpot.since},
                    {'histogram': 'queue', 'since': queue.since},
                    {'histogram': 'prefill', 'since': prefill.since},
                    {'histogram': 'prompt_len', 'since': prompt_len.since},
                    {'histogram': 'output_len', 'since': output_len.since}
                ],
                lambda bridge: isfinite(bridge.since) AND bridge.since <> started_at
            )
        ) AS bridge
    FROM observed
),

bridged_starts AS (
    SELECT
        cell,
        deployment,
        instance,
        engine,
        model_name,
        bridge.since AS scraped_at,
        -1 AS sign,
        bridge.histogram = 'itl' AS itl,
        bridge.histogram = 'ttft' AS ttft,
        bridge.histogram = 'e2e' AS e2e,
        bridge.histogram = 'request_tpot' AS request_tpot,
        bridge.histogram = 'queue' AS queue,
        bridge.histogram = 'prefill' AS prefill,
        bridge.histogram = 'prompt_len' AS prompt_len,
        bridge.histogram = 'output_len' AS output_len
    FROM bridges
),

sides AS (
    SELECT * EXCLUDE (sign), CAST(sum(sign) AS BIGINT) AS sign
    FROM (FROM ends UNION ALL FROM starts UNION ALL FROM bridged_starts)
    GROUP BY ALL
    HAVING sum(sign) <> 0
),

running_totals AS (
    SELECT
        sides.cell,
        sides.sign,
        unnest(
            range(
                1,
                1 + greatest(
                    len(s.itl.n), len(s.ttft.n), len(s.e2e.n), len(s.request_tpot.n),
                    len(s.queue.n), len(s.prefill.n), len(s.prompt_len.n), len(s.output_len.n)
                )
            )
        ) AS bucket,
        unnest(CASE WHEN sides.itl THEN s.itl.n END) AS itl,
        unnest(CASE WHEN sides.ttft THEN s.ttft.n END) AS ttft,
        unnest(CASE WHEN sides.e2e THEN s.e2e.n END) AS e2e,
        unnest(CASE WHEN sides.request_tpot THEN s.request_tpot.n END) AS request_tpot,
        unnest(CASE WHEN sides.queue THEN s.queue.n END) AS queue,
        unnest(CASE WHEN sides.prefill THEN s.prefill.n END) AS prefill,
        unnest(CASE WHEN sides.prompt_len THEN s.prompt_len.n END) AS prompt_len,
        unnest(CASE WHEN sides.output_len THEN s.output_len.n END) AS output_len
    FROM scrapes AS s
    INNER JOIN sides
        ON
            s.scraped_at = sides.scraped_at
            AND s.deployment = sides.deployment
            AND s.instance = sides.instance
            AND s.engine = sides.engine
            AND s.model_name IS NOT DISTINCT FROM sides.model_name
),

cumulative AS (
    SELECT
        cell,
        bucket,
        sum(sign * itl) AS itl,
        sum(sign * ttft) AS ttft,
        sum(sign * e2e) AS e2e,
        sum(sign * request_tpot) AS request_tpot,
        sum(sign * queue) AS queue,
        sum(sign * prefill) AS prefill,
        sum(sign * prompt_len) AS prompt_len,
        sum(sign * output_len) AS output_len
    FROM running_totals
    GROUP BY cell, bucket
),

buckets AS (
    SELECT
        cell,
        bucket_counts(list(itl ORDER BY bucket) FILTER (itl IS NOT NULL)) AS itl,
        bucket_counts(list(ttft ORDER BY bucket) FILTER (ttft IS NOT NULL)) AS ttft,
        bucket_counts(list(e2e ORDER BY bucket) FILTER (e2e IS NOT NULL)) AS e2e,
        bucket_counts(list(request_tpot ORDER BY bucket) FILTER (request_tpot IS NOT NULL)) AS request_tpot,
        bucket_counts(list(queue ORDER BY bucket) FILTER (queue IS NOT NULL)) AS queue,
        bucket_counts(list(prefill ORDER BY bucket) FILTER (prefill IS NOT NULL)) AS prefill,
        bucket_counts(list(prompt_len ORDER BY bucket) FILTER (prompt_len IS NOT NULL)) AS prompt_len,
        bucket_counts(list(output_len ORDER BY bucket) FILTER (output_len IS NOT NULL)) AS output_len
    FROM cumulative
    GROUP BY cell
),

-- All scrapes with the same hash have the same edges: one of them shows what they are.
samples AS (
    SELECT
        edges,
        min({
            'scraped_at': ended_at,
            'deployment': deployment,
            'instance': instance,
            'engine': engine,
            'model_name': model_name
        }) AS scrape
    FROM observed
    WHERE NOT damaged
    GROUP BY edges
),

edge_lists AS (
    SELECT
        samples.edges,
        s.itl.le AS itl,
        s.ttft.le AS ttft,
        s.e2e.le AS e2e,
        s.request_tpot.le AS request_tpot,
        s.queue.le AS queue,
        s.prefill.le AS prefill,
        s.prompt_len.le AS prompt_len,
        s.output_len.le AS output_len
    FROM scrapes AS s
    INNER JOIN samples
        ON
            s.scraped_at = samples.scrape.scraped_at
            AND s.deployment = samples.scrape.deployment
            AND s.instance = samples.scrape.instance
            AND s.engine = samples.scrape.engine
            AND s.model_name IS NOT DISTINCT FROM samples.scrape.model_name
),

complete AS (
    SELECT
        grain.* EXCLUDE (cell),
        sums.* EXCLUDE (cell),
        positions.accepted_at,
        positions.drafted_at,
        server_histogram(le.itl, n.itl) AS itl,
        server_histogram(le.ttft, n.ttft) AS ttft,
        server_histogram(le.e2e, n.e2e) AS e2e,
        -- Requests of one token are observed as 0 in the first bucket; there are as many as outputs of at most 1 token.
        CASE WHEN le.output_len[1] = 1 THEN n.output_len[1] END AS one_token,
        server_histogram(
            le.request_tpot, list_transform(n.request_tpot, lambda x, i: CASE WHEN i = 1 THEN x - one_token ELSE x END)
        ) AS every_request_tpot,
        CASE WHEN one_token IS NOT NULL THEN every_request_tpot END AS request_tpot,
        server_histogram(le.queue, n.queue) AS queue,
        server_histogram(le.prefill, n.prefill) AS prefill,
        server_histogram(le.prompt_len, n.prompt_len) AS prompt_len,
        server_histogram(le.output_len, n.output_len) AS output_len
    FROM grain
    INNER JOIN sums ON grain.cell = sums.cell
    LEFT JOIN positions ON grain.cell = positions.cell
    LEFT JOIN buckets AS n ON grain.cell = n.cell
    LEFT JOIN edge_lists AS le ON grain.edges = le.edges
)

SELECT
    CAST(date AS DATE) AS date,
    CAST(deployment AS VARCHAR) AS deployment,
    CAST(instance AS VARCHAR) AS instance,
    CAST(engine AS INTEGER) AS engine,
    CAST('snapshots' AS VARCHAR) AS origin,
    CAST(hour AS TINYINT) AS hour,
    CAST(block AS SMALLINT) AS block,
    CAST(load AS INTEGER) AS load,
    CAST(edges AS UBIGINT) AS edges,
    CAST(n AS BIGINT) AS n,
    CAST(duration_ns AS BIGINT) AS duration_ns,
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
    CAST(decode_tokens AS BIGINT) AS step_tokens,
    CAST(decode_ns AS BIGINT) AS step_decode_ns,
    CAST(step_rounds AS BIGINT) AS step_rounds,
    CAST(step_accepted AS BIGINT) AS step_accepted,
    CAST(succeeded AS BIGINT) AS succeeded,
    CAST(failed AS BIGINT) AS failed,
    CAST(preemptions AS BIGINT) AS preemptions,
    CAST(restarts AS BIGINT) AS restarts,
    CAST(damaged AS BIGINT) AS damaged,
    CAST(accepted_at AS BIGINT[]) AS accepted_at,
    CAST(drafted_at AS BIGINT[]) AS drafted_at,
    CAST(decode_sum_ns AS BIGINT) AS decode_sum_ns,
    CAST(itl AS STRUCT(le DOUBLE[], n BIGINT[])) AS itl,
    CAST(itl_n AS BIGINT) AS itl_n,
    CAST(itl_sum AS BIGINT) AS itl_sum,
    CAST(ttft AS STRUCT(le DOUBLE[], n BIGINT[])) AS ttft,
    CAST(ttft_n AS BIGINT) AS ttft_n,
    CAST(ttft_sum AS BIGINT) AS ttft_sum,
    CAST(e2e AS STRUCT(le DOUBLE[], n BIGINT[])) AS e2e,
    CAST(e2e_n AS BIGINT) AS e2e_n,
    CAST(e2e_sum AS BIGINT) AS e2e_sum,
    CAST(request_tpot AS STRUCT(le DOUBLE[], n BIGINT[])) AS request_tpot,
    CAST(request_tpot_n - one_token AS BIGINT) AS request_tpot_n,
    CAST(request_tpot_sum AS BIGINT) AS request_tpot_sum,
    CAST(queue AS STRUCT(le DOUBLE[], n BIGINT[])) AS queue,
    CAST(queue_n AS BIGINT) AS queue_n,
    CAST(queue_sum AS BIGINT) AS queue_sum,
    CAST(prefill AS STRUCT(le DOUBLE[], n BIGINT[])) AS prefill,
    CAST(prefill_n AS BIGINT) AS prefill_n,
    CAST(prefill_sum AS BIGINT) AS prefill_sum,
    CAST(prompt_len AS STRUCT(le DOUBLE[], n BIGINT[])) AS prompt_len,
    CAST(prompt_len_n AS BIGINT) AS prompt_len_n,
    CAST(prompt_len_sum AS BIGINT) AS prompt_len_sum,
    CAST(output_len AS STRUCT(le DOUBLE[], n BIGINT[])) AS output_len,
    CAST(output_len_n AS BIGINT) AS output_len_n,
    CAST(output_len_sum AS BIGINT) AS output_len_sum,
    CAST(kv_n AS BIGINT) AS kv_n,
    CAST(kv_ppm AS BIGINT) AS kv_ppm,
    CAST(kv_max_ppm AS BIGINT) AS kv_max_ppm,
    CAST(kv_hist AS MAP(INTEGER, BIGINT)) AS kv_hist,
    CAST(waiting_n AS BIGINT) AS waiting_n,
    CAST(waiting AS BIGINT) AS waiting,
    CAST(waiting_max AS BIGINT) AS waiting_max,
    CAST(running_n AS BIGINT) AS running_n,
    CAST(running_milli AS BIGINT) AS running_milli,
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
    CAST(decode_tokens_tokens AS HUGEINT) AS step_tokens_tokens,
    CAST(steps_step_decode AS HUGEINT) AS steps_step_decode,
    CAST(decode_decode AS HUGEINT) AS step_decode_decode,
    CAST(steps_step_rounds AS HUGEINT) AS steps_step_rounds,
    CAST(step_rounds_rounds AS HUGEINT) AS step_rounds_rounds
FROM complete
