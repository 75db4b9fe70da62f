-- reconciliation: one row per deployment, date, instance, engine, check.
-- Reads deployment_days, cells_snapshots, cells_requests, cells_log_stats, cells_iterations, cells_draft_lengths,
--       snapshots, requests, run_totals.
--   date        UTC date of the moment the row was complete; partition column.
--   deployment  Deployment named at ingest; partition column.
--   instance    Instance checked; null for the whole deployment.
--   engine      Engine checked; null for the whole instance.
--   check_name  What must hold, for example positions_add_up.
--   origin      Origins compared, for example snapshots, or requests/snapshots.
--   expected    What the identity asks for. [as checked]
--   found       What the data hold. [as checked]
--   difference  found - expected; 0 where a bound is kept. [as checked]
--   verdict     ok, fail or no_data.
--   detail      What the difference means, in words; null where nothing is to be said.
-- -----------------------------------------------------------------------------
-- Every origin in one shape. Printed windows of a log tell the rounds within bounds; all other counts are exact.
WITH parts AS (
    SELECT
        date, deployment, instance, engine, origin, requests, output_tokens, rounds, rounds AS rounds_most, drafted,
        accepted, steps, step_tokens, step_rounds, step_accepted, preemptions,
        requests - succeeded - coalesce(failed, 0) AS unfinished, len(accepted_at) AS positions
    FROM cells_snapshots
    UNION ALL BY NAME
    SELECT
        date, deployment, instance, engine, origin, requests, output_tokens, rounds, rounds AS rounds_most, drafted,
        accepted, steps, step_tokens, step_rounds, step_accepted, preemptions, draft_limit
    FROM cells_requests
    UNION ALL BY NAME
    SELECT
        date, deployment, instance, engine, origin, rounds, rounds_max AS rounds_most, drafted, accepted,
        len(accepted_at) AS positions
    FROM cells_log_stats
),

limited_parts AS (
    SELECT
        parts.*,
        coalesce(parts.positions, parts.draft_limit, nullif(days.draft_limit, 0)) AS longest
    FROM parts
    LEFT JOIN deployment_days AS days USING (date, deployment)
),

sums AS (
    SELECT
        date,
        deployment,
        instance,
        engine,
        origin,
        sum(requests) AS requests,
        sum(output_tokens) AS output_tokens,
        sum(rounds) AS rounds,
        sum(drafted) AS drafted,
        sum(accepted) AS accepted,
        sum(steps) AS steps,
        sum(step_tokens) AS step_tokens,
        sum(step_rounds) AS step_rounds,
        sum(step_accepted) AS step_accepted,
        sum(preemptions) AS preemptions,
        greatest(sum(unfinished), 0) AS unfinished,
        max(longest) AS longest,
        bool_and(longest IS NOT NULL) FILTER (rounds > 0) AS limited,
        CASE WHEN limited THEN sum(longest * rounds) END AS draftable,
        CASE WHEN limited THEN sum(longest * rounds_most) END AS draftable_most
    FROM limited_parts
    GROUP BY ALL
),

position_parts AS (
    SELECT date, deployment, instance, engine, origin, accepted, accepted_at FROM cells_snapshots
    UNION ALL
    SELECT date, deployment, instance, engine, origin, accepted, accepted_at FROM cells_draft_lengths
    WHERE origin = 'requests'
),

position_counts AS (
    SELECT date, deployment, instance, engine, origin, position, sum(coalesce(accepted_at[position], 0)) AS accepted
    FROM position_parts, unnest(range(1, len(accepted_at) + 1)) AS unnested (position)
    GROUP BY ALL
),

position_rises AS (
    SELECT
        *,
        accepted - lag(accepted) OVER (
            PARTITION BY date, deployment, instance, engine, origin ORDER BY position
        ) AS rise
    FROM position_counts
),

position_sums AS (
    SELECT date, deployment, instance, engine, origin, sum(accepted) AS found, max(rise) AS rise
    FROM position_rises
    GROUP BY ALL
),

position_totals AS (
    SELECT date, deployment, instance, engine, origin, sum(accepted) AS expected
    FROM position_parts
    WHERE accepted_at IS NOT NULL
    GROUP BY ALL
),

positions_compared AS (
    SELECT totals.*, sums.found, sums.rise
    FROM position_totals AS totals
    INNER JOIN position_sums AS sums
        ON
            totals.date = sums.date
            AND totals.deployment = sums.deployment
            AND totals.instance = sums.instance
            AND totals.engine IS NOT DISTINCT FROM sums.engine
            AND totals.origin = sums.origin
    WHERE totals.expected > 0 OR sums.found > 0
),

position_checks AS (
    SELECT
        date,
        deployment,
        instance,
        engine,
        origin,
        'positions_add_up' AS check_name,
        expected,
        found,
        found - expected AS difference,
        found = expected AS holds,
        CASE
            WHEN found <> expected
                THEN format(
                    'The positions hold {:,} accepted tokens, their total is {:,}: '
                    'the series of an engine may be missing from one of them.', found, expected
                )
        END AS detail
    FROM positions_compared
    UNION ALL
    SELECT
        date,
        deployment,
        instance,
        engine,
        origin,
        'positions_never_rise' AS check_name,
        0 AS expected,
        greatest(rise, 0) AS found,
        greatest(rise, 0) AS difference,
        rise <= 0 AS holds,
        CASE
            WHEN rise > 0
                THEN format('A position was accepted {:,} times more often than the one before it.', rise)
        END AS detail
    FROM positions_compared
    WHERE rise IS NOT NULL
),

bound_checks AS (
    SELECT
        date,
        deployment,
        instance,
        engine,
        origin,
        'accepted_within_drafted' AS check_name,
        drafted AS expected,
        accepted AS found,
        greatest(accepted - drafted, 0) AS difference,
        accepted <= drafted AS holds,
        CASE
            WHEN accepted > drafted
                THEN format('{:,} tokens were accepted, only {:,} drafted.', accepted, drafted)
        END AS detail
    FROM sums
    WHERE rounds > 0
    UNION ALL
    SELECT
        date,
        deployment,
        instance,
        engine,
        origin,
        'drafted_within_limit' AS check_name,
        draftable AS expected,
        drafted AS found,
        greatest(drafted - draftable_most, 0) AS difference,
        drafted <= draftable_most AS holds,
        CASE
            WHEN drafted > draftable_most
                THEN format('{:,} tokens were drafted, {:,} rounds allow {:,}.', drafted, rounds, draftable_most)
            WHEN drafted < draftable
                THEN format(
                    'Rounds drafted {:.2f} of {} tokens on average: {:,} positions were not drafted, not rejected.',
                    ratio(drafted, rounds), longest, draftable - drafted
                )
        END AS detail
    FROM sums
    WHERE rounds > 0 AND draftable IS NOT NULL
    UNION ALL
    SELECT
        date,
        deployment,
        instance,
        engine,
        origin,
        'rounds_within_steps' AS check_name,
        steps AS expected,
        step_rounds AS found,
        greatest(step_rounds - steps, 0) AS difference,
        -- The last rounds of a request that is cut off return nothing; two can be on their way at once.
        step_rounds <= steps + 2 * coalesce(unfinished, 0) AS holds,
        CASE
            WHEN step_rounds > steps + 2 * coalesce(unfinished, 0)
                THEN format('{:,} rounds ran in only {:,} steps.', step_rounds, steps)
            WHEN step_rounds > steps
                THEN format(
                    '{:,} rounds of requests that were cut off or still run returned nothing.', step_rounds - steps
                )
            WHEN step_rounds < steps AND steps - step_rounds = preemptions
                THEN format('{:,} returns after a resume from preemption carried no draft.', preemptions)
            WHEN step_rounds < steps AND preemptions > 0
                THEN format(
                    '{:,} of {:,} steps carried no draft; there were {:,} preemptions.',
                    steps - step_rounds, steps, preemptions
                )
            WHEN step_rounds < steps
                THEN format(
                    '{:,} of {:,} steps carried no draft: coverage is {:.3f}.',
                    steps - step_rounds, steps, ratio(step_rounds, steps)
                )
        END AS detail
    FROM sums
    WHERE step_rounds > 0
    UNION ALL BY NAME
    SELECT
        date,
        deployment,
        instance,
        engine,
        origin,
        unnest(['rounds_within_steps', 'truncated_not_negative']) AS check_name,
        'The requests do not tell their steps: the drafter can leave steps without a draft, the counters hold other '
        'steps, or a request contradicts (1 + R + C < N_out, or D is not R times K).' AS detail
    FROM sums
    WHERE origin = 'requests' AND rounds > 0 AND steps IS NULL
    UNION ALL BY NAME
    SELECT
        date,
        deployment,
        instance,
        engine,
        origin,
        'truncated_not_negative' AS check_name,
        0 AS expected,
        steps + step_accepted - step_tokens AS found,
        least(steps + step_accepted - step_tokens, 0) AS difference,
        steps + step_accepted >= step_tokens AS holds,
        CASE
            WHEN steps + step_accepted < step_tokens
                THEN format(
                    '{:,} tokens after the first came from steps and acceptance that give only {:,}.',
                    step_tokens, steps + step_accepted
                )
        END AS detail
    FROM sums
    WHERE steps IS NOT NULL AND step_accepted IS NOT NULL
),

-- Values of requests that cannot be: they enter no figure. A few are told, many are a fault.
request_damage AS (
    SELECT
        date,
        deployment,
        instance,
        output_tokens IS NOT NULL AND max_tokens IS NOT NULL AS limited,
        over_limit(output_tokens, max_tokens, sequences) AS over_limit,
        decode_ms IS NOT NULL AND lasted_ms(e2e_ms, arrived_at, finished_at) IS NOT NULL AS timed,
        outlasts(decode_ms, lasted_ms(e2e_ms, arrived_at, finished_at)) AS outlasts,
        list_bool_or(
            list_transform(
                [prompt_tokens, cached_tokens, output_tokens, steps, rounds, drafted, accepted, preemptions],
                lambda told: told IS NOT NULL AND possible_count(told) IS NULL
            )
        )
        OR list_bool_or(
            list_transform(
                [
                    ttft_ms, client_ttft_ms, queue_ms, prefill_ms, decode_ms, e2e_ms,
                    CAST(list_min(gaps_ms) AS DOUBLE), CAST(list_max(gaps_ms) AS DOUBLE)
                ],
                lambda told: told IS NOT NULL AND possible_ms(told) IS NULL
            )
        ) AS impossible
    FROM requests
),

request_damages AS (
    SELECT
        date,
        deployment,
        instance,
        unnest(
            [
                {
                    'check_name': 'values_are_possible',
                    'checked': count(*),
                    'found': countif(impossible),
                    'what': 'tell a count or a time that cannot be; that value was left out'
                },
                {
                    'check_name': 'output_within_limit',
                    'checked': countif(limited),
                    'found': countif(over_limit),
                    'what': 'returned more tokens than max_tokens allows; their tokens were left out'
                },
                {
                    'check_name': 'decode_within_request',
                    'checked': countif(timed),
                    'found': countif(outlasts),
                    'what': 'decoded for longer than they lasted; their decode time was left out'
                }
            ],
            recursive := true
        )
    FROM request_damage
    GROUP BY date, deployment, instance
),

request_damage_checks AS (
    SELECT
        date,
        deployment,
        instance,
        'requests' AS origin,
        check_name,
        0 AS expected,
        found,
        found AS difference,
        found <= 0.01 * checked AS holds,
        CASE WHEN found > 0 THEN format('{:,} of {:,} requests {}.', found, checked, what) END AS detail
    FROM request_damages
    WHERE checked > 0
),

-- What a bucket of a server histogram grew by is never negative, and all buckets grew by the count of observations.
bucket_readings AS (
    SELECT
        date,
        deployment,
        instance,
        engine,
        unnest(
            [
                {'histogram': 'itl', 'counts': itl.n, 'total': itl_n},
                {'histogram': 'ttft', 'counts': ttft.n, 'total': ttft_n},
                {'histogram': 'e2e', 'counts': e2e.n, 'total': e2e_n},
                {'histogram': 'queue', 'counts': queue.n, 'total': queue_n},
                {'histogram': 'prefill', 'counts': prefill.n, 'total': prefill_n}
            ],
            recursive := true
        )
    FROM cells_snapshots
),

buckets_judged AS (
    SELECT *, list_min(counts) < 0 OR list_sum(counts) <> total AS wrong
    FROM bucket_readings
    WHERE len(counts) > 0 AND total > 0
),

bucket_checks AS (
    SELECT
        date,
        deployment,
        instance,
        engine,
        'snapshots' AS origin,
        'buckets_add_up' AS check_name,
        sum(total) AS expected,
        sum(list_sum(list_filter(counts, lambda grown: grown > 0))) AS found,
        found - expected AS difference,
        NOT bool_or(wrong) AS holds,
        CASE
            WHEN bool_or(wrong)
                THEN format(
                    'Buckets of {} fall from one edge to the next or do not end at their count: '
                    'quantiles of them mean nothing.',
                    string_agg(DISTINCT histogram, ', ' ORDER BY histogram) FILTER (wrong)
                )
        END AS detail
    FROM buckets_judged
    GROUP BY date, deployment, instance, engine
),

-- What scrapes say of their own span: where it ends, whether requests were running there, whether a server restarted.
edges AS (
    SELECT
        date,
        deployment,
        instance,
        engine,
        min(scraped_at) AS first_at,
        max(scraped_at) AS last_at,
        arg_min(running, scraped_at) AS running_first,
        arg_max(running, scraped_at) AS running_last
    FROM snapshots
    GROUP BY ALL
),

readings AS (
    SELECT
        date,
        deployment,
        instance,
        engine,
        sum(n) AS scrapes,
        sum(damaged) AS damaged,
        coalesce(sum(restarts) > 0, false) AS restarted
    FROM cells_snapshots
    GROUP BY ALL
),

spans AS (
    SELECT edges.*, coalesce(restarted, false) AS restarted
    FROM edges
    LEFT JOIN readings USING (date, deployment, instance, engine)
),

reading_checks AS (
    SELECT
        date,
        deployment,
        instance,
        engine,
        'snapshots' AS origin,
        'counters_never_fall' AS check_name,
        0 AS expected,
        damaged AS found,
        damaged AS difference,
        -- The scrapes around a damaged one tell the same sums; where there are many, the processes are not what they seem.
        damaged <= 0.1 * scrapes AS holds,
        CASE
            WHEN damaged > 0
                THEN format(
                    '{:,} of {:,} scrapes were left out: a counter fell though no server restarted.', damaged, scrapes
                )
        END AS detail
    FROM readings
    WHERE scrapes > 0 AND damaged IS NOT NULL
),

finishes AS (
    SELECT
        date,
        deployment,
        instance,
        engine,
        sum(requests) AS requests,
        sum(succeeded) + coalesce(sum(failed), 0) AS finished,
        sum(itl_sum) / 1e9 AS step_seconds,
        sum(decode_sum_ns) / 1e9 AS decode_seconds
    FROM cells_snapshots
    GROUP BY ALL
),

finish_checks AS (
    SELECT
        date,
        deployment,
        instance,
        engine,
        'snapshots' AS origin,
        'first_tokens_finish' AS check_name,
        requests AS expected,
        finished AS found,
        finished - requests AS difference,
        true AS holds,
        CASE
            WHEN finished < requests
                THEN format(
                    '{:,} of {:,} requests with a first token are in no finished series: aborted, or still running.',
                    requests - finished, requests
                )
            WHEN finished > requests
                THEN format('{:,} requests had their first token before the span.', finished - requests)
        END AS detail
    FROM finishes
    WHERE requests > 0 AND finished IS NOT NULL
    UNION ALL BY NAME
    SELECT
        date,
        deployment,
        instance,
        engine,
        'snapshots' AS origin,
        'decode_time_adds_up' AS check_name,
        step_seconds AS expected,
        decode_seconds AS found,
        decode_seconds - step_seconds AS difference,
        CASE
            WHEN requests = finished AND running_first = 0 AND running_last = 0 AND NOT restarted
                -- Sums of seconds are rounded, and a scrape can fall between the update of one series and the next.
                THEN abs(decode_seconds - step_seconds) <= 0.001 * step_seconds
        END AS holds,
        CASE
            WHEN requests <> finished
                THEN format(
                    '{:,} requests had a first token and {:,} finished: some were aborted or in flight.',
                    requests, finished
                )
            WHEN restarted THEN 'A server restarted within the span.'
            WHEN running_first > 0 OR running_last > 0 THEN 'Requests were running at an edge of the span.'
            WHEN running_first IS NULL OR running_last IS NULL OR finished IS NULL
                THEN 'No gauge tells whether requests were in flight.'
            WHEN abs(decode_seconds - step_seconds) > 0.001 * step_seconds
                THEN 'The time of all steps is not the decode time of all requests.'
        END AS detail
    FROM finishes
    LEFT JOIN spans USING (date, deployment, instance, engine)
    WHERE step_seconds > 0 AND decode_seconds IS NOT NULL
),

-- Requests and counters can be compared only where both hold the same requests, each of one sequence.
server_sides AS (
    SELECT
        date,
        deployment,
        min(first_at) AS first_at,
        max(first_at) AS all_from,
        min(last_at) AS all_until,
        bool_or(restarted) AS restarted
    FROM spans
    GROUP BY ALL
),

client_sides AS (
    SELECT
        date,
        deployment,
        min(arrived_at) AS first_arrival,
        max(finished_at) AS last_finish,
        count(*) FILTER (sequences > 1 AND output_tokens > 0) AS several,
        count(*) FILTER (
            status IN ('failed', 'aborted') AND (output_tokens > 0 OR ttft_ms >= 0 OR client_ttft_ms >= 0)
        ) AS cut_off,
        bool_or(arrived_at IS NULL OR finished_at IS NULL) AS untimed
    FROM requests
    GROUP BY ALL
),

deployment_sums AS (
    SELECT
        date,
        deployment,
        origin,
        sum(requests) AS requests,
        sum(rounds) AS rounds,
        sum(drafted) AS drafted,
        sum(accepted) AS accepted,
        sum(output_tokens) AS output_tokens
    FROM sums
    WHERE origin IN ('requests', 'snapshots')
    GROUP BY ALL
),

both_sides AS (
    SELECT
        client.date,
        client.deployment,
        client.requests,
        client.rounds,
        client.drafted,
        client.accepted,
        client.output_tokens,
        server.requests AS server_requests,
        server.rounds AS server_rounds,
        server.drafted AS server_drafted,
        server.accepted AS server_accepted,
        server.output_tokens AS server_output_tokens,
        client_sides.several AS sequences,
        CASE
            WHEN client_sides.untimed THEN 'Some requests have no time of arrival or end.'
            WHEN server_sides.restarted THEN 'A server restarted within the span.'
            WHEN client_sides.first_arrival < server_sides.all_from OR client_sides.last_finish > server_sides.all_until
                THEN 'The scrapes do not span all requests.'
            WHEN client_sides.cut_off > 0
                THEN format(
                    '{:,} requests were cut off: what the servers did for them is not told.', client_sides.cut_off
                )
            WHEN client.requests <> server.requests
                THEN format(
                    'There are {:,} requests with output, the servers counted {:,}.', client.requests, server.requests
                )
        END AS apart
    FROM deployment_sums AS client
    INNER JOIN deployment_sums AS server USING (date, deployment)
    INNER JOIN server_sides USING (date, deployment)
    INNER JOIN client_sides USING (date, deployment)
    WHERE client.origin = 'requests' AND server.origin = 'snapshots'
),

compared_counts AS (
    SELECT
        date,
        deployment,
        apart,
        unnest(
            [
                {'check_name': 'rounds_agree', 'expected': server_rounds, 'found': rounds, 'sequences': sequences},
                {'check_name': 'drafted_agree', 'expected': server_drafted, 'found': drafted, 'sequences': sequences},
                {
                    'check_name': 'accepted_agree',
                    'expected': server_accepted,
                    'found': accepted,
                    'sequences': sequences
                },
                {
                    'check_name': 'output_tokens_agree',
                    'expected': server_output_tokens,
                    'found': output_tokens,
                    'sequences': 0
                }
            ],
            recursive := true
        )
    FROM both_sides
),

request_checks AS (
    SELECT
        date,
        deployment,
        'requests/snapshots' AS origin,
        check_name,
        expected,
        found,
        found - expected AS difference,
        CASE WHEN apart IS NULL AND sequences = 0 THEN found = expected END AS holds,
        CASE
            WHEN expected IS NULL THEN 'The servers do not count this.'
            WHEN found IS NULL THEN 'The requests do not tell this.'
            WHEN apart IS NOT NULL THEN apart
            WHEN sequences > 0
                THEN format('{:,} requests asked for several sequences, which carry no acceptance.', sequences)
            WHEN found <> expected THEN 'The same requests add up to something else than the counters.'
        END AS detail
    FROM compared_counts
    WHERE coalesce(expected, found) > 0
),

log_sides AS (
    SELECT
        date,
        deployment,
        instance,
        sum(rounds) AS rounds,
        sum(rounds_min) AS rounds_min,
        sum(rounds_max) AS rounds_max,
        sum(drafted) AS drafted,
        sum(accepted) AS accepted
    FROM cells_log_stats
    GROUP BY ALL
),

counter_sides AS (
    SELECT
        date,
        deployment,
        instance,
        sum(rounds) AS rounds,
        sum(drafted) AS drafted,
        sum(accepted) AS accepted
    FROM cells_snapshots
    GROUP BY ALL
),

-- Drafted and accepted tokens are printed exactly: where both agree, log and counters hold the same rounds.
log_checks AS (
    SELECT
        date,
        deployment,
        instance,
        'log_stats/snapshots' AS origin,
        'rounds_within_bounds' AS check_name,
        counters.rounds AS expected,
        logs.rounds AS found,
        logs.rounds - counters.rounds AS difference,
        CASE
            WHEN logs.drafted = counters.drafted AND logs.accepted = counters.accepted
                THEN counters.rounds BETWEEN logs.rounds_min AND logs.rounds_max
        END AS holds,
        CASE
            WHEN logs.drafted <> counters.drafted OR logs.accepted <> counters.accepted
                THEN format(
                    'The log holds {:,} drafted and {:,} accepted tokens, the counters {:,} and {:,}: other spans.',
                    logs.drafted, logs.accepted, counters.drafted, counters.accepted
                )
            WHEN counters.rounds NOT BETWEEN logs.rounds_min AND logs.rounds_max
                THEN format('The printed figures allow {:,} to {:,} rounds.', logs.rounds_min, logs.rounds_max)
        END AS detail
    FROM log_sides AS logs
    INNER JOIN counter_sides AS counters USING (date, deployment, instance)
    WHERE logs.drafted > 0 AND counters.rounds > 0
),

iteration_sides AS (
    SELECT
        date,
        deployment,
        instance,
        coalesce(engine, 0) AS engine,
        sum(generation_requests) AS generation_requests,
        sum(generation_tokens) AS generation_tokens
    FROM cells_iterations
    GROUP BY ALL
),

-- A step schedules one position and one for each draft token; a resumed request schedules its whole recompute.
iteration_checks AS (
    SELECT
        date,
        deployment,
        instance,
        engine,
        'iterations/snapshots' AS origin,
        'scheduled_positions_add_up' AS check_name,
        steps + coalesce(drafted, 0) AS expected,
        generation_tokens AS found,
        generation_tokens - expected AS difference,
        CASE
            WHEN generation_requests = steps
                THEN generation_tokens = expected OR generation_tokens > expected AND preemptions > 0
        END AS holds,
        CASE
            WHEN generation_requests <> steps
                THEN format(
                    'The iterations hold {:,} steps, the counters {:,}: other spans.', generation_requests, steps
                )
            WHEN generation_tokens > expected AND preemptions > 0
                THEN format(
                    '{:,} positions were computed again after {:,} preemptions.', generation_tokens - expected, preemptions
                )
            WHEN generation_tokens <> expected
                THEN 'The iterations scheduled another number of positions than steps and drafts need.'
        END AS detail
    FROM iteration_sides
    INNER JOIN sums USING (date, deployment, instance, engine)
    WHERE origin = 'snapshots' AND steps > 0 AND generation_requests > 0
),

-- How far requests differ in acceptance, against what chance alone would do: Σ (C - L' R)² over requests, where L' is
-- C / R, is about R times the variance over rounds where all requests are alike. Real traffic lies well above that.
request_spreads AS (
    SELECT
        date,
        deployment,
        sum(requests) AS requests,
        sum(rounds) AS rounds,
        sum(drafted) AS drafted,
        sum(accepted) AS accepted,
        sum(accepted_accepted)
        - 2 * ratio(sum(accepted), sum(rounds)) * sum(rounds_accepted)
        + ratio(sum(accepted), sum(rounds)) ** 2 * sum(rounds_rounds) AS spread
    FROM cells_requests
    WHERE rounds > 0
    GROUP BY ALL
),

-- Over rounds, accepted tokens have the mean Σ C_i / R and the mean square Σ (2i - 1) C_i / R.
round_spreads AS (
    SELECT
        date,
        deployment,
        sum(accepted) AS positions_accepted,
        sum((2 * position - 1) * accepted) AS squares
    FROM position_counts
    WHERE origin = 'requests'
    GROUP BY ALL
),

spreads AS (
    SELECT
        requests.*,
        ratio(requests.accepted, requests.drafted) AS rate,
        ratio(
            requests.spread,
            rounds.squares - ratio(requests.accepted, requests.rounds) * requests.accepted
        ) AS overdispersion,
        rounds.positions_accepted = requests.accepted AS complete
    FROM request_spreads AS requests
    LEFT JOIN round_spreads AS rounds USING (date, deployment)
),

load_checks AS (
    SELECT
        date,
        deployment,
        'requests' AS origin,
        'load_looks_natural' AS check_name,
        rate AS found,
        true AS holds,
        CASE
            WHEN (rate <= 0.05 OR rate >= 0.95) AND (accepted IN (0, drafted) OR complete AND overdispersion < 1.5)
                THEN format(
                    'Acceptance is {:.3f} in all {:,} requests alike: random or repeated text, or a dead drafter.',
                    rate, requests
                )
        END AS detail
    FROM spreads
    WHERE requests >= 30 AND rate IS NOT NULL
),

run_sides AS (
    SELECT
        date,
        deployment,
        instance,
        CASE WHEN tool = 'vllm-bench' THEN 'bench' ELSE tool END AS format,
        source,
        bool_or(CAST(started_at AS DATE) <> date) AS began_earlier,
        sum(requests) AS requests,
        sum(output_tokens) AS output_tokens,
        sum(rounds) AS rounds,
        sum(drafted) AS drafted,
        sum(accepted) AS accepted
    FROM run_totals
    GROUP BY ALL
),

-- Tools print totals over the requests that ended well.
request_sides AS (
    SELECT
        date,
        deployment,
        instance,
        format,
        source,
        count(*) AS requests,
        sum(output_tokens) AS output_tokens,
        sum(rounds) AS rounds,
        sum(drafted) AS drafted,
        sum(accepted) AS accepted
    FROM requests
    WHERE status = 'ok'
    GROUP BY ALL
),

-- Totals stand beside their requests in one file, or in a file of their own: then they are of all such requests.
run_groups AS (
    SELECT
        runs.* EXCLUDE (source),
        CASE WHEN own.source IS NOT NULL THEN runs.source END AS file
    FROM run_sides AS runs
    LEFT JOIN request_sides AS own USING (date, deployment, instance, format, source)
),

request_groups AS (
    SELECT
        own.* EXCLUDE (source),
        CASE WHEN runs.source IS NOT NULL THEN own.source END AS file
    FROM request_sides AS own
    LEFT JOIN run_sides AS runs USING (date, deployment, instance, format, source)
),

run_totals_by_group AS (
    SELECT
        date,
        deployment,
        instance,
        format,
        file,
        bool_or(began_earlier) AS began_earlier,
        sum(requests) AS requests,
        sum(output_tokens) AS output_tokens,
        sum(rounds) AS rounds,
        sum(drafted) AS drafted,
        sum(accepted) AS accepted
    FROM run_groups
    GROUP BY ALL
),

requests_by_group AS (
    SELECT
        date,
        deployment,
        instance,
        format,
        file,
        sum(requests) AS requests,
        sum(output_tokens) AS output_tokens,
        sum(rounds) AS rounds,
        sum(drafted) AS drafted,
        sum(accepted) AS accepted
    FROM request_groups
    GROUP BY ALL
),

runs AS (
    SELECT
        printed.date,
        printed.deployment,
        printed.instance,
        printed.format,
        CASE
            WHEN printed.began_earlier THEN 'The run began on the day before.'
            WHEN own.requests IS NULL THEN 'The tool wrote totals only.'
            WHEN own.requests < printed.requests
                THEN format('The tool wrote {:,} of {:,} requests one by one.', own.requests, printed.requests)
        END AS apart,
        printed.requests AS printed_requests,
        printed.output_tokens AS printed_output_tokens,
        printed.rounds AS printed_rounds,
        printed.drafted AS printed_drafted,
        printed.accepted AS printed_accepted,
        own.requests,
        own.output_tokens,
        own.rounds,
        own.drafted,
        own.accepted
    FROM run_totals_by_group AS printed
    LEFT JOIN requests_by_group AS own
        ON
            printed.date = own.date
            AND printed.deployment = own.deployment
            AND printed.instance = own.instance
            AND printed.format = own.format
            AND printed.file IS NOT DISTINCT FROM own.file
),

run_counts AS (
    SELECT
        date,
        deployment,
        instance,
        apart,
        unnest(
            [
                {'check_name': 'run_requests_agree', 'expected': printed_requests, 'found': requests},
                {'check_name': 'run_output_tokens_agree', 'expected': printed_output_tokens, 'found': output_tokens},
                {'check_name': 'run_rounds_agree', 'expected': printed_rounds, 'found': rounds},
                {'check_name': 'run_drafted_agree', 'expected': printed_drafted, 'found': drafted},
                {'check_name': 'run_accepted_agree', 'expected': printed_accepted, 'found': accepted}
            ],
            recursive := true
        )
    FROM runs
),

run_checks AS (
    SELECT
        date,
        deployment,
        instance,
        'run_totals/requests' AS origin,
        check_name,
        coalesce(sum(expected) FILTER (apart IS NULL), sum(expected)) AS expected,
        coalesce(sum(found) FILTER (apart IS NULL), sum(found)) AS found,
        bool_and(found = expected) FILTER (apart IS NULL) AS holds,
        CASE
            WHEN holds IS NULL THEN coalesce(min(apart), 'The requests do not tell this.')
            WHEN NOT holds THEN 'The requests of the runs add up to something else than the tool printed.'
        END AS detail
    FROM run_counts
    WHERE expected IS NOT NULL
    GROUP BY ALL
),

-- Real requests differ in how well they are foretold. Between requests the rate C / D varies by what is left of its
-- scatter once that of single tokens is taken out.
rates AS (
    SELECT
        date,
        deployment,
        sum(n) AS requests,
        ratio(sum(accepted), sum(drafted)) AS rate,
        sum(accepted_accepted) - 2 * rate * sum(drafted_accepted) + rate * rate * sum(drafted_drafted) AS squares,
        sqrt(greatest(ratio(squares - rate * (1 - rate) * sum(drafted), sum(drafted_drafted)), 0)) AS spread
    FROM cells_requests
    WHERE rounds > 0 AND drafted_drafted IS NOT NULL
    GROUP BY ALL
    HAVING sum(n) >= 20 AND sum(rounds) >= 300
),

spread_checks AS (
    SELECT
        date,
        deployment,
        'requests' AS origin,
        'acceptance_differs_by_request' AS check_name,
        rate AS found,
        true AS holds,
        CASE
            WHEN (rate <= 0.05 OR rate >= 0.95) AND spread < 0.03
                THEN format(
                    '{:.1f} % of all draft tokens are accepted, alike in {:,} requests: as with random tokens or other '
                    'synthetic load{}. Such figures say nothing of real traffic.',
                    100 * rate,
                    requests,
                    CASE WHEN rate <= 0.05 THEN ', or with a drafter that does not fit' ELSE '' END
                )
        END AS detail
    FROM rates
),

checks AS (
    SELECT * FROM position_checks
    UNION ALL BY NAME
    SELECT * FROM bound_checks
    UNION ALL BY NAME
    SELECT * FROM request_damage_checks
    UNION ALL BY NAME
    SELECT * FROM bucket_checks
    UNION ALL BY NAME
    SELECT * FROM reading_checks
    UNION ALL BY NAME
    SELECT * FROM finish_checks
    UNION ALL BY NAME
    SELECT * FROM request_checks
    UNION ALL BY NAME
    SELECT * FROM log_checks
    UNION ALL BY NAME
    SELECT * FROM iteration_checks
    UNION ALL BY NAME
    SELECT * FROM load_checks
    UNION ALL BY NAME
    SELECT * FROM spread_checks
    UNION ALL BY NAME
    SELECT *, found - expected AS difference FROM run_checks
)

SELECT
    CAST(date AS DATE) AS date,
    CAST(deployment AS VARCHAR) AS deployment,
    CAST(instance AS VARCHAR) AS instance,
    CAST(engine AS INTEGER) AS engine,
    CAST(check_name AS VARCHAR) AS check_name,
    CAST(origin AS VARCHAR) AS origin,
    CAST(expected AS DOUBLE) AS expected,
    CAST(found AS DOUBLE) AS found,
    CAST(difference AS DOUBLE) AS difference,
    CAST(CASE WHEN holds IS NULL THEN 'no_data' WHEN holds THEN 'ok' ELSE 'fail' END AS VARCHAR) AS verdict,
    CAST(detail AS VARCHAR) AS detail
FROM checks
