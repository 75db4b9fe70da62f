-- cells_log_stats: one row per date, deployment, instance, engine, hour, block, load, over stats and spec records of
-- the log.
-- Reads log_windows.
--   date               UTC date of the moment the row was complete; partition column.
--   deployment         Deployment named at ingest; partition column.
--   instance           One server process group; the deployment's name unless said otherwise.
--   engine             Engine number inside the instance; null where the origin has none.
--   origin             snapshots, requests, log_stats or iterations.
--   hour               UTC hour of the day, 0 to 23. [h]
--   block              10-minute block of the UTC day, 0 to 143.
--   load               Requests running: exact up to 64, lower edge of a 5 % step above; null when not known.
--                      [requests]
--   n                  Log records. [records]
--   duration_ns        Σ windows of spec records. [ns]
--   rounds             R, best estimate. [rounds]
--   rounds_min         Least R. [rounds]
--   rounds_max         Greatest R. [rounds]
--   drafted            Draft tokens D. [tokens]
--   accepted           Accepted draft tokens C (V0: emitted - rounds). [tokens]
--   accepted_at        C_i by position: printed rate times R, rounded; estimated. [tokens]
--   rounds_rounds      Σ R².
--   rounds_accepted    Σ R·C.
--   accepted_accepted  Σ C².
--   drafted_drafted    Σ D².
--   drafted_accepted   Σ D·C.
--   kv_n               Observations of KV use. [observations]
--   kv_ppm             Σ KV use in millionths. [ppm]
--   kv_max_ppm         Greatest KV use in millionths. [ppm]
--   kv_hist            KV use by thousandths (plain thousandths, not log-spaced).
--   waiting_n          Observations of waiting requests. [observations]
--   waiting            Σ waiting requests, rounded to whole requests. [requests]
--   waiting_max        Most requests waiting. [requests]
--   running_n          Observations of running requests. [observations]
--   running_milli      Σ running requests in thousandths (interval means). [milli-requests]
-- -----------------------------------------------------------------------------
WITH cells AS (
    SELECT
        date,
        deployment,
        instance,
        engine,
        hour,
        block,
        load,
        count(*) AS n,
        sum(window_ns) AS duration_ns,
        sum(rounds) AS rounds,
        sum(rounds_min) AS rounds_min,
        sum(rounds_max) AS rounds_max,
        sum(drafted) AS drafted,
        sum(accepted) AS accepted,
        sum_of_products(rounds, rounds) AS rounds_rounds,
        sum_of_products(rounds, accepted) AS rounds_accepted,
        sum_of_products(accepted, accepted) AS accepted_accepted,
        sum_of_products(drafted, drafted) AS drafted_drafted,
        sum_of_products(drafted, accepted) AS drafted_accepted,
        count(kv_ppm) AS kv_n,
        sum(kv_ppm) AS kv_ppm,
        max(kv_ppm) AS kv_max_ppm,
        tally(CAST(round(kv_ppm / 1000) AS INTEGER)) AS kv_hist,
        count(waiting) AS waiting_n,
        sum(waiting) AS waiting,
        max(waiting) AS waiting_max,
        count(running_milli) AS running_n,
        sum(running_milli) AS running_milli
    FROM log_windows
    GROUP BY ALL
),

position_sums AS (
    SELECT date, deployment, instance, engine, hour, block, load, position, sum(accepted) AS accepted
    FROM (
        SELECT
            date,
            deployment,
            instance,
            engine,
            hour,
            block,
            load,
            unnest(range(1, len(accepted_at) + 1)) AS position,
            unnest(accepted_at) AS accepted
        FROM log_windows
    )
    GROUP BY ALL
),

positions AS (
    SELECT
        date,
        deployment,
        instance,
        engine,
        hour,
        block,
        load,
        list(coalesce(accepted, 0) ORDER BY position) AS accepted_at
    FROM position_sums
    GROUP BY ALL
),

complete AS (
    SELECT cells.*, positions.accepted_at
    FROM cells
    LEFT JOIN positions
        ON
            cells.date = positions.date
            AND cells.deployment = positions.deployment
            AND cells.instance = positions.instance
            AND cells.engine IS NOT DISTINCT FROM positions.engine
            AND cells.hour = positions.hour
            AND cells.block = positions.block
            AND cells.load IS NOT DISTINCT FROM positions.load
)

SELECT
    CAST(date AS DATE) AS date,
    CAST(deployment AS VARCHAR) AS deployment,
    CAST(instance AS VARCHAR) AS instance,
    CAST(engine AS INTEGER) AS engine,
    CAST('log_stats' AS VARCHAR) AS origin,
    CAST(hour AS TINYINT) AS hour,
    CAST(block AS SMALLINT) AS block,
    CAST(load AS INTEGER) AS load,
    CAST(n AS BIGINT) AS n,
    CAST(duration_ns AS BIGINT) AS duration_ns,
    CAST(rounds AS BIGINT) AS rounds,
    CAST(rounds_min AS BIGINT) AS rounds_min,
    CAST(rounds_max AS BIGINT) AS rounds_max,
    CAST(drafted AS BIGINT) AS drafted,
    CAST(accepted AS BIGINT) AS accepted,
    CAST(accepted_at AS BIGINT[]) AS accepted_at,
    CAST(rounds_rounds AS HUGEINT) AS rounds_rounds,
    CAST(rounds_accepted AS HUGEINT) AS rounds_accepted,
    CAST(accepted_accepted AS HUGEINT) AS accepted_accepted,
    CAST(drafted_drafted AS HUGEINT) AS drafted_drafted,
    CAST(drafted_accepted AS HUGEINT) AS drafted_accepted,
    CAST(kv_n AS BIGINT) AS kv_n,
    CAST(kv_ppm AS BIGINT) AS kv_ppm,
    CAST(kv_max_ppm AS BIGINT) AS kv_max_ppm,
    CAST(kv_hist AS MAP(INTEGER, BIGINT)) AS kv_hist,
    CAST(waiting_n AS BIGINT) AS waiting_n,
    CAST(waiting AS BIGINT) AS waiting,
    CAST(waiting_max AS BIGINT) AS waiting_max,
    CAST(running_n AS BIGINT) AS running_n,
    CAST(running_milli AS BIGINT) AS running_milli
FROM complete
