-- positions: one row per deployment, date, origin, load band, context band, task, position.
-- Reads cells_snapshots, cells_draft_lengths, cells_log_stats.
--   date              UTC date of the moment the row was complete; partition column.
--   deployment        Deployment named at ingest; partition column.
--   origin            snapshots, requests, log_stats or iterations; origins are never added.
--   load_band         Band of requests running on the engine; 'unknown' where load is not known.
--   context_band      Band of prompt + half the output tokens; null where the origin has none.
--   task              Task label; null where the origin has none.
--   position          Draft position, 1-based.
--   rounds            R_i, rounds that drafted at least this many tokens (R where censored); null where ΣC_i is not C.
--                     [rounds]
--   accepted          C_i. [tokens]
--   survival          S_i = C_i / R_i (C_i / R where censored); null where ΣC_i is not C. [ratio]
--   conditional       a_i = S_i / S_(i-1); null where censored. [ratio]
--   predicted_length  E[L] at draft length i = 1 + Σ S_j for j up to i. [tokens]
--   marginal_gain     S of the next position; beyond the last one extrapolated with its a_i. [tokens]
--   censored          True where the rounds that drafted position i cannot be told.
--   extrapolated      True where marginal_gain is extrapolated.
--   evidence          measured, derived or estimated.
-- -----------------------------------------------------------------------------
WITH counters AS (
    SELECT date, deployment, origin, load, rounds, accepted, accepted_at, drafted_at, drafted
    FROM cells_snapshots
    UNION ALL BY NAME
    SELECT date, deployment, origin, load, rounds, accepted, accepted_at, drafted
    FROM cells_log_stats
),

-- Counters tell the length of their rounds only where D = R * (positions seen): then every round had that length.
counted AS (
    SELECT
        *,
        CASE WHEN drafted = rounds * len(accepted_at) THEN len(accepted_at) END AS draft_length
    FROM counters
),

parts AS (
    SELECT date, deployment, origin, load, rounds, accepted, accepted_at, drafted_at, draft_length
    FROM counted
    UNION ALL BY NAME
    SELECT date, deployment, origin, load, context_band, task, rounds, accepted, accepted_at, draft_length
    FROM cells_draft_lengths
    WHERE origin = 'requests'
),

known_parts AS (
    SELECT
        date,
        deployment,
        origin,
        load_band(load) AS load_band,
        context_band,
        task,
        rounds,
        accepted,
        accepted_at,
        drafted_at,
        draft_length,
        draft_length IS NULL AND drafted_at IS NULL AS untold,
        greatest(len(accepted_at), coalesce(len(drafted_at), draft_length, 0)) AS positions
    FROM parts
    WHERE rounds > 0 AND accepted_at IS NOT NULL
),

band_rows AS (
    SELECT
        date,
        deployment,
        origin,
        load_band,
        context_band,
        task,
        sum(rounds) AS rounds,
        bool_or(untold) AS untold,
        sum(accepted) AS accepted,
        sum(list_sum(accepted_at)) AS accepted_by_position
    FROM known_parts
    GROUP BY ALL
),

-- Positions that miss part of C belong to fewer rounds than R, and nobody knows to how many. Printed rates are rounded.
closures AS (
    SELECT
        *,
        origin = 'log_stats' OR accepted = accepted_by_position AS closed
    FROM band_rows
),

position_sums AS (
    SELECT
        date,
        deployment,
        origin,
        load_band,
        context_band,
        task,
        position,
        sum(coalesce(accepted_at[position], 0)) AS accepted,
        sum(
            CASE
                WHEN drafted_at IS NOT NULL THEN coalesce(drafted_at[position], 0)
                WHEN draft_length >= position THEN rounds
                ELSE 0
            END
        ) AS rounds_drafting
    FROM known_parts, unnest(range(1, positions + 1)) AS unnested (position)
    GROUP BY ALL
),

denominators AS (
    SELECT
        sums.*,
        NOT band.closed OR band.untold AS censored,
        CASE
            WHEN NOT band.closed THEN NULL
            WHEN band.untold THEN band.rounds
            ELSE sums.rounds_drafting
        END AS rounds
    FROM position_sums AS sums
    INNER JOIN closures AS band
        ON
            sums.date = band.date
            AND sums.deployment = band.deployment
            AND sums.origin = band.origin
            AND sums.load_band = band.load_band
            AND sums.context_band IS NOT DISTINCT FROM band.context_band
            AND sums.task IS NOT DISTINCT FROM band.task
),

survivals AS (
    SELECT
        *,
        ratio(accepted, rounds) AS survival
    FROM denominators
    WHERE rounds IS DISTINCT FROM 0
),

chained AS (
    SELECT
        *,
        CASE WHEN NOT censored THEN ratio(survival, lag(survival, 1, 1) OVER along) END AS conditional,
        CASE WHEN survival IS NOT NULL THEN 1 + sum(survival) OVER along END AS predicted_length,
        lead(survival) OVER along AS next_survival,
        lead(position) OVER along IS NULL AS last_position
    FROM survivals
    WINDOW along AS (PARTITION BY date, deployment, origin, load_band, context_band, task ORDER BY position)
),

gains AS (
    SELECT
        *,
        CASE
            WHEN NOT last_position THEN next_survival
            WHEN NOT censored AND survival = 0 THEN 0
            ELSE survival * conditional
        END AS marginal_gain
    FROM chained
)

SELECT
    CAST(date AS DATE) AS date,
    CAST(deployment AS VARCHAR) AS deployment,
    CAST(origin AS VARCHAR) AS origin,
    CAST(load_band AS VARCHAR) AS load_band,
    CAST(context_band AS VARCHAR) AS context_band,
    CAST(task AS VARCHAR) AS task,
    CAST(position AS INTEGER) AS position,
    CAST(rounds AS BIGINT) AS rounds,
    CAST(accepted AS BIGINT) AS accepted,
    CAST(survival AS DOUBLE) AS survival,
    CAST(conditional AS DOUBLE) AS conditional,
    CAST(predicted_length AS DOUBLE) AS predicted_length,
    CAST(marginal_gain AS DOUBLE) AS marginal_gain,
    CAST(censored AS BOOLEAN) AS censored,
    CAST(last_position AND marginal_gain IS NOT NULL AS BOOLEAN) AS extrapolated,
    CAST(CASE WHEN origin = 'log_stats' THEN 'estimated' ELSE 'measured' END AS VARCHAR) AS evidence
FROM gains
