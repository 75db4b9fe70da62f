"""What `recommend` asks the marts and cells of one deployment; parameters are named in each query."""

READS = (
    "acceptance_by",
    "band_totals",
    "capacity",
    "cells_draft_lengths",
    "cells_requests",
    "cells_snapshots",
    "deployment_days",
    "deployments",
    "latency",
    "ledger",
    "positions",
    "preemption",
    "reconciliation",
    "round_cost",
)
"""The tables that are asked."""

# Requests or scrapes: whichever tells the length of more steps.
ORIGIN = """
WITH told AS (
    SELECT origin, steps FROM cells_draft_lengths
    WHERE deployment = $deployment AND date IN (SELECT unnest($dates)) AND draft_length IS NOT NULL
    UNION ALL
    SELECT origin, steps FROM band_totals WHERE deployment = $deployment AND date IN (SELECT unnest($dates))
)
SELECT origin FROM told WHERE origin IN ('snapshots', 'requests') AND steps > 0
GROUP BY origin ORDER BY sum(steps) DESC, origin LIMIT 1
"""

# A server ran a night at one limit where its starts say the same one and no schedule: all its steps count, also those
# for which the drafter found nothing. Everything else is cut into the lengths that ran.
#
# The time of the step after a preemption holds its stall. That step has no draft: where nearly all others have one,
# scrape intervals in which every step drafted hold no stall. Of blocks of 10 minutes in which much was preempted, and
# of those after them, they are what is priced (``priced``), in place of all that was seen there (``seen``). What cannot
# be told apart like that is not priced.
ROWS = """
WITH totals AS (
    SELECT date, deployment, instance, origin, block, load, steps, step_tokens, step_decode_ns, step_rounds, n,
        steps_steps, steps_step_decode, step_decode_decode
    FROM cells_snapshots WHERE origin = $origin
    UNION ALL BY NAME
    SELECT date, deployment, instance, origin, block, load, steps, step_tokens, step_decode_ns, step_rounds, n,
        steps_steps, steps_step_decode, step_decode_decode
    FROM cells_requests WHERE origin = $origin
),
starts AS (
    SELECT instance, started_at, max(draft_schedule) AS draft_schedule,
        max(CASE WHEN speculative THEN draft_limit WHEN NOT speculative THEN 0 END) AS draft_limit
    FROM deployments WHERE deployment = $deployment AND started_at IS NOT NULL
    GROUP BY ALL
),
lives AS (
    SELECT *, lead(started_at) OVER (PARTITION BY instance ORDER BY started_at) AS until FROM starts
),
fixed AS (
    SELECT nights.date, instance, max(draft_limit) AS draft_limit
    FROM (SELECT unnest($dates) AS date) AS nights
    INNER JOIN lives
        ON lives.started_at < nights.date + INTERVAL 1 DAY AND coalesce(lives.until > nights.date, true)
    GROUP BY nights.date, instance
    HAVING count(draft_schedule) = 0 AND count(draft_limit) = count(*) AND min(draft_limit) = max(draft_limit)
),
plain AS (
    SELECT DISTINCT t0_date AS date, unnest(t0_deployments) AS deployment
    FROM ledger
    WHERE deployment = $deployment AND date IN (SELECT unnest($dates)) AND origin = $origin
        AND load_band <> 'all' AND t0_origin IN ('same_date', 'other_date')
),
looked_at AS (
    SELECT unnest($dates) AS date, $deployment AS deployment
    UNION ALL
    SELECT date, deployment FROM plain
),
counted AS (
    SELECT date, deployment, instance, block, preemptions, steps, steps AS moves, step_rounds
    FROM cells_snapshots SEMI JOIN looked_at USING (date, deployment)
    UNION ALL BY NAME
    SELECT date, deployment, instance, block, preemptions, coalesce(steps, output_tokens) AS moves
    FROM cells_requests SEMI JOIN looked_at USING (date, deployment)
    WHERE preemptions IS NOT NULL
),
preempting AS (
    SELECT deployment, date - DATE '1970-01-01' AS night, block FROM counted
    GROUP BY ALL HAVING sum(preemptions) > $stalled * sum(moves)
),
preempted AS (
    SELECT DISTINCT deployment, unnest([144 * night + block, 144 * night + block + 1]) AS number FROM preempting
),
drafting AS (
    SELECT date, deployment, instance FROM counted
    GROUP BY ALL HAVING sum(steps) - sum(step_rounds) <= sum(preemptions) + $undrafted * sum(steps)
),
cut AS (
    SELECT date, deployment, instance, block, load, steps, step_tokens, step_decode_ns, n, steps_steps,
        steps_step_decode, step_decode_decode, draft_length,
        CASE WHEN draft_length > 0 THEN steps ELSE 0 END AS step_rounds, true AS own,
        $origin = 'snapshots' AND draft_length > 0 AS free
    FROM cells_draft_lengths
    WHERE deployment = $deployment AND date IN (SELECT unnest($dates))
        AND origin = $origin AND draft_length IS NOT NULL
),
observed AS (
    SELECT totals.*, fixed.draft_limit AS draft_length, true AS own, false AS free, true AS seen
    FROM totals INNER JOIN fixed USING (date, instance)
    WHERE deployment = $deployment
    UNION ALL BY NAME
    SELECT cut.*, false AS seen
    FROM cut SEMI JOIN fixed USING (date, instance) SEMI JOIN drafting USING (date, deployment, instance)
    WHERE free
    UNION ALL BY NAME
    SELECT *, true AS seen
    FROM cut ANTI JOIN fixed USING (date, instance)
    UNION ALL BY NAME
    SELECT totals.*, 0 AS draft_length, false AS own, false AS free, true AS seen
    FROM totals INNER JOIN plain USING (date, deployment)
),
judged AS (
    SELECT observed.*, preempted.number IS NULL AS calm
    FROM observed LEFT JOIN preempted
        ON observed.deployment = preempted.deployment
            AND 144 * (observed.date - DATE '1970-01-01') + observed.block = preempted.number
)
SELECT own, seen, CASE WHEN calm THEN seen ELSE free END AS priced,
    CAST(draft_length AS INTEGER) AS draft_length, date - DATE '1970-01-01' AS night, block, load,
    CAST(sum(steps) AS DOUBLE) AS steps, CAST(sum(step_tokens) AS DOUBLE) AS tokens,
    CAST(sum(step_decode_ns) AS DOUBLE) / 1e6 AS decode_ms, CAST(sum(step_rounds) AS DOUBLE) AS rounds,
    CAST(sum(n) AS DOUBLE) AS n, CAST(sum(steps_steps) AS DOUBLE) AS steps_steps,
    CAST(sum(steps_step_decode) AS DOUBLE) / 1e6 AS steps_decode,
    CAST(sum(step_decode_decode) AS DOUBLE) / 1e12 AS decode_decode
FROM judged
WHERE load > 0 AND steps > 0 AND step_tokens > 0 AND (seen OR NOT calm)
GROUP BY ALL ORDER BY ALL
"""

# How often requests were preempted at each load.
PREEMPTIONS = """
SELECT load_band, CAST(sum(preemptions) AS BIGINT) FROM preemption
WHERE deployment = $deployment AND date IN (SELECT unnest($dates)) AND origin = 'snapshots' AND preemptions > 0
GROUP BY load_band
"""

# T0 of the ledger at the deployment's own mix of contexts, and whose it is.
ORDINARY = """
SELECT load_band, sum(t0_ms * tokens) / sum(tokens),
    array_to_string(list_sort(list_distinct(flatten(list(t0_deployments)))), ', ')
FROM ledger
WHERE deployment = $deployment AND date IN (SELECT unnest($dates)) AND origin = $origin AND load_band <> 'all'
    AND t0_origin IN ('same_date', 'other_date') AND tokens > 0
GROUP BY load_band
"""

POSITIONS = """
WITH told AS (
    SELECT * FROM positions WHERE deployment = $deployment AND date IN (SELECT unnest($dates)) AND NOT censored
),
best AS (SELECT origin FROM told GROUP BY origin ORDER BY sum(rounds) DESC, origin LIMIT 1)
SELECT load_band, position, CAST(sum(accepted) AS DOUBLE), CAST(sum(rounds) AS DOUBLE)
FROM told INNER JOIN best USING (origin)
GROUP BY ALL ORDER BY ALL
"""

TRUNCATED = """
SELECT load_band, CAST(sum(steps + step_accepted - step_tokens) AS DOUBLE), CAST(sum(step_accepted) AS DOUBLE)
FROM band_totals
WHERE deployment = $deployment AND date IN (SELECT unnest($dates)) AND origin = $origin AND step_accepted > 0
GROUP BY load_band
"""

LOADS = """
WITH nights AS (SELECT unnest($dates) AS date),
seconds AS (
    SELECT load_band, sum(seconds) AS seconds, max(gpus) AS gpus
    FROM capacity INNER JOIN nights USING (date)
    WHERE deployment = $deployment
    GROUP BY load_band, origin
    QUALIFY row_number() OVER (PARTITION BY load_band ORDER BY origin = 'snapshots' DESC, origin = 'requests' DESC) = 1
),
cache AS (
    SELECT load_band, avg(kv_usage_mean) AS kv_mean, max(kv_usage_p95) AS kv_p95, max(kv_usage_max) AS kv_max
    FROM preemption INNER JOIN nights USING (date)
    WHERE deployment = $deployment AND origin = 'snapshots'
    GROUP BY load_band
),
gaps AS (
    SELECT load_band, itl_ms_p99 AS gap, itl_ms_p99_lower AS lower, itl_ms_p99_upper AS upper
    FROM latency INNER JOIN nights USING (date)
    WHERE deployment = $deployment AND itl_ms_p99_lower IS NOT NULL
    QUALIFY row_number() OVER (
        PARTITION BY load_band ORDER BY origin = 'snapshots' DESC, coalesce(itl_ms_p99, itl_ms_p99_lower) DESC
    ) = 1
)
SELECT load_band, coalesce(seconds, 0), gpus, kv_mean, kv_p95, kv_max, coalesce(gap, lower), lower, upper
FROM seconds FULL JOIN cache USING (load_band) FULL JOIN gaps USING (load_band)
"""

CAPACITY = """
SELECT max(kv_tokens_per_engine) FROM deployment_days
WHERE deployment = $deployment AND date IN (SELECT unnest($dates))
"""

IN_FORCE = """
SELECT max_num_seqs, draft_limit, draft_schedule, draft_method, draft_model, data_parallel, pipeline_parallel, lora,
    enforce_eager, speculative
FROM deployments WHERE deployment = $deployment
ORDER BY started_at DESC NULLS LAST LIMIT 1
"""

# Nights whose acceptance looks like that of a load generator.
SYNTHETIC = """
SELECT date, detail FROM reconciliation
WHERE deployment = $deployment AND date IN (SELECT unnest($dates))
    AND check_name = 'acceptance_differs_by_request' AND detail IS NOT NULL
ORDER BY ALL
"""

SHORT_OUTPUTS = """
SELECT sum(requests) FILTER (short_outputs) / nullif(sum(requests), 0)
FROM acceptance_by
WHERE deployment = $deployment AND date IN (SELECT unnest($dates)) AND dimension = 'output_band'
"""
