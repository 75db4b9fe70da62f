-- requests_by_load: one row per request, with its load, its steps where they can be told, and the bands that strata ask
-- for.
-- Reads requests, scrapes, intervals, draft_settings.
--   date                     UTC date of the moment the row was complete; partition column.
--   deployment               Deployment named at ingest; partition column.
--   instance                 One server process group; the deployment's name unless said otherwise.
--   request_id               Request id as client and server know it.
--   model_name               Model that answered.
--   hour                     UTC hour in which the request ended, 0 to 23. [h]
--   block                    10-minute block of the UTC day in which it ended, 0 to 143.
--   load                     Requests running while it decoded, time-weighted mean, as cells keep it; null when not
--                            known. [requests]
--   load_from                gauge or overlap: where the load is from; null when not known.
--   context_band             Band of prompt + half the output tokens.
--   task                     Task label.
--   temperature_class        greedy, sampled or null where not said.
--   output_band              Band of output tokens: 1-20, 21-100, 101-500, 501+; null without output.
--   lora                     LoRA adapter.
--   draft_limit              Configured draft length K. [tokens]
--   status                   ok, failed, aborted or unknown.
--   returned                 Whether it returned a first token.
--   prompt_tokens            Prompt tokens. [tokens]
--   cached_tokens            Prompt tokens served from a cache. [tokens]
--   output_tokens            Output tokens N_out. [tokens]
--   later_tokens             Output tokens after the first; null for several sequences. [tokens]
--   decode_ns                First to last token; null for several sequences. [ns]
--   steps                    Steps, where the rules of counting allow to tell them. [steps]
--   rounds                   Speculative rounds R. [rounds]
--   drafted                  Draft tokens D. [tokens]
--   accepted                 Accepted draft tokens C, truncated ones included. [tokens]
--   accepted_hist            Element j + 1 counts rounds that accepted j tokens. [rounds]
--   accepted_hist_by_length  The same for each draft length.
--   accepted_by_step         Accepted tokens of each drafted step. [tokens]
--   drafted_by_step          Draft length of each drafted step. [tokens]
--   preemptions              Preemptions of the request. [preemptions]
--   ttft_ns                  Time to first token: the server's, else the client's. [ns]
--   e2e_ns                   Arrival to last token. [ns]
--   queue_ns                 Time in queue. [ns]
--   prefill_ns               Prefill time. [ns]
--   gaps_ms                  Gaps between consecutive returns. [ms]
--   gaps_from                client or server: whose clock the gaps are from.
--   longest_pause_ns         Longest of the gaps. [ns]
-- -----------------------------------------------------------------------------
-- Algorithm, load: the time integral of running requests, A, is known at any moment from a running sum; a request's load is
-- (A(last token) - A(first token)) / time between. From the gauge where scrapes cover half of that time or more, else from
-- the requests themselves: with d = +1 at each start and -1 at each end, A(t) = t * sum(d) - sum(d * t), one window sort.
-- A date sees its own scrapes and requests and those of the last hour before it, never those of a later date.
-- Algorithm, steps: rounds are steps where the counters of the same date and instance say so. Without counters, where the
-- drafter always drafts (or is not known) and no request contradicts: R + 1 + C >= N_out and D = R * K.
-- Algorithm, damage: a value that cannot be is not known. A request that returned more tokens than it asked for, or decoded
-- for longer than it lasted, tells neither its tokens nor its decode time: it counts as a request and enters no TPOT.
WITH spans AS (
    SELECT *, row_number() OVER (ORDER BY date, deployment, instance) AS span
    FROM (SELECT DISTINCT date, deployment, instance FROM requests)
),

believed AS (
    SELECT
        * EXCLUDE (
            source, byte_offset, ingested_at, status_code, finish_reason, top_p, tags,
            prompt_hash, output_hash, output_prefix_hashes, distinct_4gram_share
        ) REPLACE (
            possible_count(prompt_tokens) AS prompt_tokens,
            possible_count(cached_tokens) AS cached_tokens,
            CASE
                WHEN NOT coalesce(over_limit(output_tokens, max_tokens, sequences), false)
                    THEN possible_count(output_tokens)
            END AS output_tokens,
            possible_count(steps) AS steps,
            possible_count(rounds) AS rounds,
            possible_count(drafted) AS drafted,
            possible_count(accepted) AS accepted,
            possible_count(preemptions) AS preemptions,
            possible_counts(accepted_hist) AS accepted_hist,
            CASE
                WHEN possible_counts(flatten(map_values(accepted_hist_by_length))) IS NOT NULL
                    THEN accepted_hist_by_length
            END AS accepted_hist_by_length,
            possible_ms(ttft_ms) AS ttft_ms,
            possible_ms(client_ttft_ms) AS client_ttft_ms,
            possible_ms(queue_ms) AS queue_ms,
            possible_ms(prefill_ms) AS prefill_ms,
            CASE
                WHEN NOT coalesce(outlasts(decode_ms, lasted_ms(e2e_ms, arrived_at, finished_at)), false)
                    THEN possible_ms(decode_ms)
            END AS decode_ms,
            possible_ms(e2e_ms) AS e2e_ms,
            CASE
                WHEN possible_ms(list_min(gaps_ms)) IS NOT NULL AND possible_ms(list_max(gaps_ms)) IS NOT NULL
                    THEN gaps_ms
            END AS gaps_ms
        )
    FROM requests
),

-- Moments in microseconds since the start of the date; negative on the date before.
timed AS MATERIALIZED (
    SELECT
        believed.* EXCLUDE (max_tokens),
        spans.span,
        row_number() OVER () AS request,
        coalesce(sequences, 1) = 1 AS single,
        coalesce(output_tokens > 0, coalesce(ttft_ms, client_ttft_ms) IS NOT NULL) AS returned,
        epoch_us(CAST(date AS TIMESTAMP)) AS midnight,
        CAST(round(e2e_ms * 1000) AS BIGINT) AS e2e_us,
        coalesce(epoch_us(finished_at), epoch_us(arrived_at) + e2e_us) - midnight AS ends,
        least(
            coalesce(epoch_us(arrived_at) - midnight, ends - e2e_us)
            + coalesce(CAST(round(queue_ms * 1000) AS BIGINT), 0),
            ends
        ) AS starts,
        least(
            greatest(
                coalesce(
                    epoch_us(arrived_at) - midnight + CAST(round(coalesce(ttft_ms, client_ttft_ms) * 1000) AS BIGINT),
                    ends - CAST(round(decode_ms * 1000) AS BIGINT)
                ),
                starts
            ),
            ends
        ) AS first_token,
        CASE WHEN first_token < ends THEN first_token ELSE starts END AS decodes
    FROM believed
    INNER JOIN spans USING (date, deployment, instance)
),

gauges AS (
    SELECT date, deployment, instance, engine, scraped_at, possible_load(running) AS running
    FROM scrapes
    SEMI JOIN requests USING (deployment, instance)
),

seen_gauges AS (
    SELECT * FROM gauges
    UNION ALL
    SELECT * REPLACE (date + 1 AS date)
    FROM gauges
    WHERE scraped_at >= CAST(date + 1 AS TIMESTAMP) - INTERVAL 1 HOUR
),

engines AS (
    SELECT span, count(DISTINCT engine) AS engines
    FROM seen_gauges
    INNER JOIN spans USING (date, deployment, instance)
    GROUP BY span
),

-- One engine can serve several models: they share its batch.
readings AS (
    SELECT
        span,
        epoch_us(scraped_at) - epoch_us(CAST(date AS TIMESTAMP)) AS at_us,
        CASE WHEN count(running) = count(*) THEN CAST(round(sum(running)) AS BIGINT) END AS running
    FROM seen_gauges
    INNER JOIN spans USING (date, deployment, instance)
    SEMI JOIN (FROM engines WHERE engines = 1) USING (span)
    GROUP BY ALL
),

stretches AS (
    SELECT
        *,
        lead(at_us) OVER series - at_us AS length_us,
        lead(running) OVER series AS running_after,
        coalesce(length_us <= 60_000_000 AND running + running_after >= 0, false) AS known
    FROM readings
    WINDOW series AS (PARTITION BY span ORDER BY at_us)
),

-- Before each scrape: microseconds that stretches cover, and twice the integral over them.
integrals AS (
    SELECT
        *,
        coalesce(sum(CASE WHEN known THEN length_us END) OVER before, 0) AS covered,
        coalesce(sum(CASE WHEN known THEN length_us * (running + running_after) END) OVER before, 0) AS twice
    FROM stretches
    WINDOW
        before AS (PARTITION BY span ORDER BY at_us ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),

running_windows AS (
    SELECT request, span, decodes, ends
    FROM timed
    WHERE returned AND decodes < ends
),

gauged AS (
    SELECT
        windows.request,
        windows.span,
        windows.ends - windows.decodes AS length_us,
        covered_until(last_before, windows.ends)
        - coalesce(covered_until(first_before, windows.decodes), 0) AS covered,
        twice_until(last_before, windows.ends)
        - coalesce(twice_until(first_before, windows.decodes), 0) AS twice
    FROM (FROM running_windows SEMI JOIN readings USING (span)) AS windows
    ASOF LEFT JOIN integrals AS first_before
        ON windows.span = first_before.span AND windows.decodes >= first_before.at_us
    ASOF INNER JOIN integrals AS last_before
        ON windows.span = last_before.span AND windows.ends >= last_before.at_us
),

loads_from_gauges AS (
    SELECT request, ratio(twice, 2 * covered) AS load
    FROM gauged
    WHERE covered > 0 AND 2 * covered >= length_us
),

settings AS (
    SELECT
        spans.*,
        coalesce(own.speculative, agreed.speculative) AS speculative,
        coalesce(own.always_drafts, agreed.always_drafts) AS always_drafts,
        own.engines
    FROM spans
    LEFT JOIN draft_settings AS own
        ON
            spans.deployment = own.deployment
            AND spans.instance = own.instance
            AND CAST(spans.date + 1 AS TIMESTAMP) > own.started_at
            AND CAST(spans.date + 1 AS TIMESTAMP) <= own.until
    LEFT JOIN draft_settings AS agreed
        ON
            agreed.instance IS NULL
            AND spans.deployment = agreed.deployment
            AND CAST(spans.date + 1 AS TIMESTAMP) > agreed.started_at
            AND CAST(spans.date + 1 AS TIMESTAMP) <= agreed.until
),

several_engines AS (
    SELECT span
    FROM settings
    LEFT JOIN engines USING (span)
    WHERE coalesce(engines.engines, settings.engines, 1) > 1
),

overlapping AS (
    SELECT DISTINCT span
    FROM running_windows
    ANTI JOIN loads_from_gauges USING (request)
    ANTI JOIN several_engines USING (span)
),

events AS (
    SELECT
        span,
        request,
        unnest([starts, decodes, ends]) AS at_us,
        unnest([1, 0, -1]) AS change,
        unnest([0, -1, 1]) AS side
    FROM timed
    SEMI JOIN overlapping USING (span)
    WHERE returned AND starts < ends
    UNION ALL
    SELECT
        spans.span,
        NULL AS request,
        unnest([starts, ends]) - 86_400_000_000 AS at_us,
        unnest([1, -1]) AS change,
        0 AS side
    FROM timed
    INNER JOIN spans
        ON
            timed.date + 1 = spans.date
            AND timed.deployment = spans.deployment
            AND timed.instance = spans.instance
    SEMI JOIN overlapping ON spans.span = overlapping.span
    WHERE returned AND starts < ends AND ends >= 86_400_000_000 - 3_600_000_000
),

areas AS (
    SELECT
        request,
        side,
        at_us,
        at_us * sum(change) OVER until_now - sum(change * at_us) OVER until_now AS area
    FROM events
    WINDOW until_now AS (PARTITION BY span ORDER BY at_us ROWS UNBOUNDED PRECEDING)
),

loads_from_overlap AS (
    SELECT request, ratio(sum(side * area), sum(side * at_us)) AS load
    FROM areas
    WHERE side <> 0
    GROUP BY request
),

counters AS (
    SELECT
        date,
        deployment,
        instance,
        sum(itl.count) AS steps,
        sum(rounds) AS rounds,
        sum(drafted) AS drafted,
        sum(later_tokens) AS later_tokens
    FROM intervals
    GROUP BY ALL
),

evidence AS (
    SELECT
        span,
        coalesce(bool_or(rounds > 0), false) AS any_rounds,
        coalesce(
            bool_or(1 + rounds + accepted < output_tokens OR drafted IS DISTINCT FROM rounds * draft_limit)
            FILTER (rounds > 0 AND single AND status = 'ok'),
            false
        ) AS contradicted
    FROM timed
    GROUP BY span
),

rules AS (
    SELECT
        evidence.span,
        CASE
            WHEN counters.steps > 0 AND coalesce(counters.rounds, counters.drafted, 0) > 0
                THEN CASE WHEN counters.steps = counters.rounds THEN 'rounds' END
            WHEN counters.steps > 0
                THEN CASE WHEN NOT any_rounds AND counters.later_tokens <= 1.1 * counters.steps THEN 'tokens' END
            WHEN any_rounds THEN CASE WHEN coalesce(always_drafts, true) AND NOT contradicted THEN 'rounds' END
            WHEN NOT speculative THEN 'tokens'
        END AS rule
    FROM evidence
    INNER JOIN settings USING (span)
    LEFT JOIN counters USING (date, deployment, instance)
),

complete AS (
    SELECT
        timed.*,
        load_code(coalesce(gauge.load, overlap.load)) AS load,
        CASE
            WHEN gauge.load IS NOT NULL THEN 'gauge'
            WHEN overlap.load IS NOT NULL THEN 'overlap'
        END AS load_from,
        CASE
            WHEN NOT single OR NOT returned THEN NULL
            WHEN timed.steps IS NOT NULL THEN timed.steps
            WHEN rule = 'rounds' AND (rounds > 0 OR output_tokens = 1) THEN rounds
            WHEN rule = 'tokens' THEN output_tokens - 1
        END AS known_steps,
        -- A request that tells no time at all still counts, at the start of the date that its file gave it.
        coalesce(finished_at, arrived_at, CAST(date AS TIMESTAMP)) AS moment
    FROM timed
    LEFT JOIN loads_from_gauges AS gauge USING (request)
    LEFT JOIN loads_from_overlap AS overlap USING (request)
    LEFT JOIN rules USING (span)
)

SELECT
    CAST(date AS DATE) AS date,
    CAST(deployment AS VARCHAR) AS deployment,
    CAST(instance AS VARCHAR) AS instance,
    CAST(request_id AS VARCHAR) AS request_id,
    CAST(model_name AS VARCHAR) AS model_name,
    CAST(hour(moment) AS TINYINT) AS hour,
    CAST(hour(moment) * 6 + minute(moment) // 10 AS SMALLINT) AS block,
    CAST(load AS INTEGER) AS load,
    CAST(load_from AS VARCHAR) AS load_from,
    CAST(context_band(prompt_tokens + output_tokens / 2) AS VARCHAR) AS context_band,
    CAST(task AS VARCHAR) AS task,
    CAST(temperature_class(temperature) AS VARCHAR) AS temperature_class,
    CAST(output_band(output_tokens) AS VARCHAR) AS output_band,
    CAST(lora AS VARCHAR) AS lora,
    CAST(draft_limit AS INTEGER) AS draft_limit,
    CAST(status AS VARCHAR) AS status,
    CAST(returned AS BOOLEAN) AS returned,
    CAST(prompt_tokens AS BIGINT) AS prompt_tokens,
    CAST(cached_tokens AS BIGINT) AS cached_tokens,
    CAST(output_tokens AS BIGINT) AS output_tokens,
    CAST(CASE WHEN single AND output_tokens > 0 THEN output_tokens - 1 END AS BIGINT) AS later_tokens,
    CAST(CASE WHEN single AND output_tokens > 0 AND decode_ms >= 0 THEN ms_to_ns(decode_ms) END AS BIGINT) AS decode_ns,
    CAST(known_steps AS BIGINT) AS steps,
    CAST(rounds AS BIGINT) AS rounds,
    CAST(drafted AS BIGINT) AS drafted,
    CAST(accepted AS BIGINT) AS accepted,
    CAST(accepted_hist AS BIGINT[]) AS accepted_hist,
    CAST(accepted_hist_by_length AS MAP(INTEGER, BIGINT[])) AS accepted_hist_by_length,
    CAST(step_accepted AS INTEGER[]) AS accepted_by_step,
    CAST(step_drafted AS INTEGER[]) AS drafted_by_step,
    CAST(preemptions AS BIGINT) AS preemptions,
    CAST(ms_to_ns(coalesce(ttft_ms, client_ttft_ms)) AS BIGINT) AS ttft_ns,
    CAST(ms_to_ns(lasted_ms(e2e_ms, arrived_at, finished_at)) AS BIGINT) AS e2e_ns,
    CAST(ms_to_ns(queue_ms) AS BIGINT) AS queue_ns,
    CAST(ms_to_ns(prefill_ms) AS BIGINT) AS prefill_ns,
    CAST(gaps_ms AS FLOAT[]) AS gaps_ms,
    CAST(gaps_from AS VARCHAR) AS gaps_from,
    CAST(ms_to_ns(CAST(list_max(gaps_ms) AS DOUBLE)) AS BIGINT) AS longest_pause_ns
FROM complete
