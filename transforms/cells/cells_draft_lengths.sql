-- cells_draft_lengths: one row per cell of snapshots, requests or iterations, split by the draft length that ran.
-- Reads intervals, requests_by_load, iterations, draft_settings.
--   date                UTC date of the moment the row was complete; partition column.
--   deployment          Deployment named at ingest; partition column.
--   instance            One server process group; the deployment's name unless said otherwise.
--   engine              Engine number inside the instance; null where the origin has none.
--   origin              snapshots, requests, log_stats or iterations.
--   hour                UTC hour of the day, 0 to 23. [h]
--   block               10-minute block of the UTC day, 0 to 143.
--   load                Requests running: exact up to 64, lower edge of a 5 % step above; null when not known.
--                       [requests]
--   context_band        Band of prompt + half the output tokens; null where the origin has none.
--   task                Task label; null where there is none.
--   temperature_class   greedy, sampled or null where not said.
--   output_band         Band of output tokens: 1-20, 21-100, 101-500, 501+; null without output.
--   lora                LoRA adapter; null where there is none.
--   draft_limit         Configured draft length K; null where not known. [tokens]
--   draft_length        Draft length of the rounds; 0 for steps without a draft; null where it cannot be told. [tokens]
--   rounds              Rounds of that length. [rounds]
--   drafted             Draft tokens of those rounds. [tokens]
--   accepted            Accepted tokens of those rounds. [tokens]
--   accepted_at         C_i of those rounds. [tokens]
--   steps               Steps of observations that ran at this length alone. [steps]
--   step_decode_ns      Decode time of those observations. [ns]
--   step_tokens         Output tokens after the first of those observations. [tokens]
--   n                   Observations that ran at this length alone. [observations]
--   steps_steps         Σ steps² over those observations.
--   steps_step_decode   Σ steps·step_decode_ns over those observations.
--   step_decode_decode  Σ step_decode_ns² over those observations.
--   steady_steps        Steps of those intervals in which gauge and decode time agree on the load. [steps]
--   steady_decode_ns    Decode time of those intervals. [ns]
--   steady_requests     Σ steps·decoding requests over those intervals. [milli-requests]
--   steady_prefill      Σ prefill tokens·decoding requests over those intervals. [milli-requests]
-- -----------------------------------------------------------------------------
-- Algorithm: every observation is cut into the lengths that ran in it. A request tells them by its histograms or by its
-- single steps, an interval where only one length can have run, an iteration by its scheduled positions.
WITH interval_parts AS (
    SELECT
        date,
        deployment,
        instance,
        engine,
        'snapshots' AS origin,
        hour,
        block,
        load,
        draft_length,
        coalesce(rounds, 0) AS rounds,
        coalesce(drafted, 0) AS drafted,
        coalesce(accepted, 0) AS accepted,
        accepted_at,
        draft_length IS NOT NULL
        AND itl.sum IS NOT NULL
        AND later_tokens IS NOT NULL
        AND (draft_length = 0 OR itl.count = rounds) AS alone,
        itl.count AS steps,
        itl.sum AS step_decode_ns,
        later_tokens AS step_tokens,
        -- Decode time over the length of the interval counts the requests decoding, if the engine was never idle; the
        -- gauge says whether it was, and whether the load stayed what it was.
        CAST(round(ratio(1000 * itl.sum, duration_ns)) AS BIGINT) AS decoding_milli,
        coalesce(
            alone
            AND NOT restarted
            AND duration_ns <= 60_000_000_000
            AND running_milli >= 1000
            AND abs(decoding_milli - running_milli) <= running_milli // 5,
            false
        ) AS steady,
        greatest(prompt_tokens - coalesce(cached_tokens, 0), 0) AS prefill_tokens
    FROM intervals
    WHERE rounds > 0 OR draft_length = 0
),

requests_in_lengths AS (
    SELECT
        *,
        CASE
            WHEN cardinality(accepted_hist_by_length) > 0
                THEN list_transform(
                    map_entries(accepted_hist_by_length),
                    lambda part: length_part(part.key, list_sum(part.value), part.value)
                )
            WHEN len(drafted_by_step) > 0 AND len(drafted_by_step) = len(accepted_by_step)
                THEN list_transform(
                    list_distinct(drafted_by_step),
                    lambda k: length_part(
                        k,
                        len(list_filter(drafted_by_step, lambda drafted_tokens: drafted_tokens = k)),
                        list_transform(
                            range(k + 1),
                            lambda j: len(
                                list_filter(
                                    list_zip(drafted_by_step, accepted_by_step), lambda step: step[1] = k AND step[2] = j
                                )
                            )
                        )
                    )
                )
            WHEN rounds > 0 AND drafted = rounds * coalesce(draft_limit, len(accepted_hist) - 1)
                THEN [length_part(coalesce(draft_limit, len(accepted_hist) - 1), rounds, accepted_hist)]
            WHEN rounds > 0 AND drafted = rounds
                THEN [length_part(1, rounds, accepted_hist[:2])]
            WHEN rounds > 0
                THEN [length_part(NULL, rounds, accepted_hist)]
            WHEN steps = later_tokens
                THEN [length_part(0, 0, NULL)]
        END AS parts
    FROM requests_by_load
),

request_parts AS (
    SELECT
        date,
        deployment,
        instance,
        'requests' AS origin,
        hour,
        block,
        load,
        context_band,
        task,
        temperature_class,
        output_band,
        lora,
        draft_limit,
        part.draft_length AS draft_length,
        part.rounds AS rounds,
        CASE WHEN len(parts) = 1 THEN coalesce(drafted, 0) ELSE part.rounds * part.draft_length END AS drafted,
        CASE WHEN len(parts) = 1 THEN coalesce(accepted, 0) ELSE list_sum(part.accepted_at) END AS accepted,
        part.accepted_at AS accepted_at,
        len(parts) = 1
        AND part.draft_length IS NOT NULL
        AND decode_ns IS NOT NULL
        AND later_tokens IS NOT NULL
        AND (part.draft_length = 0 OR steps = part.rounds) AS alone,
        steps,
        decode_ns AS step_decode_ns,
        later_tokens AS step_tokens
    FROM (SELECT *, unnest(parts) AS part FROM requests_in_lengths)
),

-- Positions that a resumed request computes again look like a long draft: lengths beyond K are none.
iteration_parts AS (
    SELECT
        iterations.date,
        iterations.deployment,
        iterations.instance,
        iterations.engine,
        'iterations' AS origin,
        hour(logged_at) AS hour,
        hour(logged_at) * 6 + minute(logged_at) // 10 AS block,
        load_code(generation_requests) AS load,
        generation_tokens // generation_requests - 1 AS draft_length,
        CASE WHEN generation_tokens > generation_requests THEN generation_requests ELSE 0 END AS rounds,
        generation_tokens - generation_requests AS drafted,
        true AS alone,
        generation_requests AS steps,
        TRY_CAST(CAST(ms_to_ns(elapsed_ms) AS HUGEINT) * generation_requests AS BIGINT) AS step_decode_ns
    FROM iterations
    INNER JOIN draft_settings AS settings
        ON
            iterations.deployment = settings.deployment
            AND iterations.instance = settings.instance
            AND iterations.logged_at >= settings.started_at
            AND iterations.logged_at < settings.until
    WHERE
        NOT coalesce(dummy, false)
        AND coalesce(context_tokens, 0) = 0
        AND generation_requests > 0
        AND possible_load(generation_requests) IS NOT NULL
        AND ms_to_ns(elapsed_ms) IS NOT NULL
        AND generation_tokens % generation_requests = 0
        AND generation_tokens // generation_requests - 1
        BETWEEN 0 AND coalesce(settings.draft_limit, CASE WHEN NOT settings.speculative THEN 0 END)
),

keyed AS (
    SELECT
        {
            'date': date,
            'deployment': deployment,
            'instance': instance,
            'engine': engine,
            'origin': origin,
            'hour': hour,
            'block': block,
            'load': load,
            'context_band': context_band,
            'task': task,
            'temperature_class': temperature_class,
            'output_band': output_band,
            'lora': lora,
            'draft_limit': draft_limit,
            'draft_length': draft_length
        } AS cell,
        rounds,
        drafted,
        accepted,
        accepted_at,
        alone,
        CASE WHEN alone THEN steps END AS steps,
        CASE WHEN alone THEN step_decode_ns END AS step_decode_ns,
        CASE WHEN alone THEN step_tokens END AS step_tokens,
        CASE WHEN steady THEN decoding_milli END AS decoding_milli,
        prefill_tokens
    FROM (FROM interval_parts UNION ALL BY NAME FROM request_parts UNION ALL BY NAME FROM iteration_parts)
),

sums AS (
    SELECT
        cell,
        sum(rounds) AS rounds,
        sum(drafted) AS drafted,
        sum(accepted) AS accepted,
        sum(steps) AS steps,
        sum(step_decode_ns) AS step_decode_ns,
        sum(step_tokens) AS step_tokens,
        count(*) FILTER (alone) AS n,
        sum_of_products(steps, steps) AS steps_steps,
        sum_of_products(steps, step_decode_ns) AS steps_step_decode,
        sum_of_products(step_decode_ns, step_decode_ns) AS step_decode_decode,
        sum(steps) FILTER (decoding_milli IS NOT NULL) AS steady_steps,
        sum(step_decode_ns) FILTER (decoding_milli IS NOT NULL) AS steady_decode_ns,
        sum_of_products(steps, decoding_milli) AS steady_requests,
        sum_of_products(prefill_tokens, decoding_milli) AS steady_prefill
    FROM keyed
    GROUP BY cell
),

position_sums AS (
    SELECT cell, position, sum(accepted) AS accepted
    FROM (
        SELECT cell, unnest(range(1, len(accepted_at) + 1)) AS position, unnest(accepted_at) AS accepted
        FROM keyed
    )
    GROUP BY cell, position
),

positions AS (
    SELECT cell, list(coalesce(accepted, 0) ORDER BY position) AS accepted_at
    FROM position_sums
    GROUP BY cell
),

complete AS (
    SELECT sums.*, positions.accepted_at
    FROM sums
    LEFT JOIN positions ON sums.cell = positions.cell
)

SELECT
    CAST(cell.date AS DATE) AS date,
    CAST(cell.deployment AS VARCHAR) AS deployment,
    CAST(cell.instance AS VARCHAR) AS instance,
    CAST(cell.engine AS INTEGER) AS engine,
    CAST(cell.origin AS VARCHAR) AS origin,
    CAST(cell.hour AS TINYINT) AS hour,
    CAST(cell.block AS SMALLINT) AS block,
    CAST(cell.load AS INTEGER) AS load,
    CAST(cell.context_band AS VARCHAR) AS context_band,
    CAST(cell.task AS VARCHAR) AS task,
    CAST(cell.temperature_class AS VARCHAR) AS temperature_class,
    CAST(cell.output_band AS VARCHAR) AS output_band,
    CAST(cell.lora AS VARCHAR) AS lora,
    CAST(cell.draft_limit AS INTEGER) AS draft_limit,
    CAST(cell.draft_length AS INTEGER) AS draft_length,
    CAST(rounds AS BIGINT) AS rounds,
    CAST(drafted AS BIGINT) AS drafted,
    CAST(accepted AS BIGINT) AS accepted,
    CAST(accepted_at AS BIGINT[]) AS accepted_at,
    CAST(steps AS BIGINT) AS steps,
    CAST(step_decode_ns AS BIGINT) AS step_decode_ns,
    CAST(step_tokens AS BIGINT) AS step_tokens,
    CAST(n AS BIGINT) AS n,
    CAST(steps_steps AS HUGEINT) AS steps_steps,
    CAST(steps_step_decode AS HUGEINT) AS steps_step_decode,
    CAST(step_decode_decode AS HUGEINT) AS step_decode_decode,
    CAST(steady_steps AS BIGINT) AS steady_steps,
    CAST(steady_decode_ns AS BIGINT) AS steady_decode_ns,
    CAST(steady_requests AS HUGEINT) AS steady_requests,
    CAST(steady_prefill AS HUGEINT) AS steady_prefill
FROM complete
