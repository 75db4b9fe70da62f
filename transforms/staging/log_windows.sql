-- log_windows: one row per stats or spec record of the log: what happened in its window.
-- Reads log_stats.
--   date           UTC date of the moment the row was complete; partition column.
--   deployment     Deployment named at ingest; partition column.
--   instance       One server process group; the deployment's name unless said otherwise.
--   engine         Engine number; null where the record belongs to no engine.
--   process        Innermost process prefix of the record.
--   logged_at      Time of the record (UTC).
--   hour           UTC hour of the day, 0 to 23. [h]
--   block          10-minute block of the UTC day, 0 to 143.
--   window_ns      Window of the counts; null where it is not known. [ns]
--   load           Requests running: exact up to 64, lower edge of a 5 % step above; null when not known. [requests]
--   running_milli  Requests running at the instant of the line. [milli-requests]
--   waiting        Requests waiting at the instant of the line. [requests]
--   kv_ppm         Share of KV cache in use. [ppm]
--   rounds         Speculative rounds R, best estimate. [rounds]
--   rounds_min     Least R. [rounds]
--   rounds_max     Greatest R. [rounds]
--   drafted        Draft tokens D. [tokens]
--   accepted       Accepted draft tokens C (V0: emitted - rounds). [tokens]
--   accepted_at    C_i by position: printed rate times R, rounded. [tokens]
-- -----------------------------------------------------------------------------
-- Algorithm: V1 records hold what happened in their window. V0 records hold running totals: they are differenced inside one
-- process, the first one only sets the base, and what V0 calls accepted is replaced by emitted - rounds.
WITH ordered AS (
    SELECT
        * REPLACE (possible_load(running) AS running, possible_count(waiting) AS waiting),
        coalesce(cumulative, false) AS totals,
        lag(running) OVER neighbours AS running_before,
        lag(logged_at) OVER neighbours AS logged_before,
        lag(CASE WHEN cumulative THEN logged_at END IGNORE NULLS) OVER engine_records AS totals_before,
        lag(CASE WHEN cumulative THEN process END IGNORE NULLS) OVER engine_records AS process_before,
        lag(CASE WHEN cumulative THEN drafted END IGNORE NULLS) OVER engine_records AS drafted_before,
        lag(CASE WHEN cumulative THEN emitted END IGNORE NULLS) OVER engine_records AS emitted_before,
        lag(CASE WHEN cumulative THEN rounds END IGNORE NULLS) OVER engine_records AS rounds_before
    FROM log_stats
    WINDOW
        neighbours AS (PARTITION BY deployment, instance, engine, process ORDER BY logged_at, source, byte_offset),
        engine_records AS (PARTITION BY deployment, instance, engine ORDER BY logged_at, source, byte_offset)
),

compared AS (
    SELECT
        *,
        totals AND totals_before IS NOT NULL AND (
            process <> process_before OR drafted < drafted_before OR emitted < emitted_before
        ) IS TRUE AS restarted,
        totals AND totals_before IS NOT NULL AS differenced
    FROM ordered
),

counted AS (
    SELECT
        * REPLACE (
            CASE
                WHEN NOT totals THEN drafted
                WHEN differenced THEN drafted - CASE WHEN restarted THEN 0 ELSE drafted_before END
            END AS drafted,
            CASE
                WHEN differenced THEN emitted - CASE WHEN restarted THEN 0 ELSE emitted_before END
            END AS emitted,
            CASE
                WHEN NOT totals THEN rounds
                WHEN differenced THEN rounds - CASE WHEN restarted THEN 0 ELSE rounds_before END
            END AS rounds
        )
    FROM compared
),

windows AS (
    SELECT
        * REPLACE (
            CASE
                WHEN totals AND drafted % nullif(draft_limit, 0) = 0 THEN drafted // draft_limit
                ELSE rounds
            END AS rounds
        )
    FROM counted
)

SELECT
    CAST(date AS DATE) AS date,
    CAST(deployment AS VARCHAR) AS deployment,
    CAST(instance AS VARCHAR) AS instance,
    CAST(engine AS INTEGER) AS engine,
    CAST(process AS VARCHAR) AS process,
    CAST(logged_at AS TIMESTAMP) AS logged_at,
    CAST(hour(logged_at) AS TINYINT) AS hour,
    CAST(hour(logged_at) * 6 + minute(logged_at) // 10 AS SMALLINT) AS block,
    CAST(
        CASE
            WHEN NOT totals THEN s_to_ns(spec_window_s)
            WHEN differenced AND NOT restarted THEN 1000 * (epoch_us(logged_at) - epoch_us(totals_before))
        END AS BIGINT
    ) AS window_ns,
    CAST(
        CASE
            WHEN coalesce(engines, 1) > 1 THEN NULL
            WHEN logged_at - logged_before <= INTERVAL 1 MINUTE
                THEN load_code(coalesce((running + running_before) / 2, running))
            ELSE load_code(running)
        END AS INTEGER
    ) AS load,
    CAST(round(running * 1000) AS BIGINT) AS running_milli,
    CAST(round(waiting) AS BIGINT) AS waiting,
    CAST(to_ppm(kv_usage) AS BIGINT) AS kv_ppm,
    CAST(rounds AS BIGINT) AS rounds,
    CAST(CASE WHEN totals THEN rounds ELSE rounds_min END AS BIGINT) AS rounds_min,
    CAST(CASE WHEN totals THEN rounds ELSE rounds_max END AS BIGINT) AS rounds_max,
    CAST(drafted AS BIGINT) AS drafted,
    CAST(
        CASE
            WHEN NOT totals THEN accepted
            WHEN emitted > rounds THEN emitted - rounds
            WHEN emitted <= rounds THEN 0
        END AS BIGINT
    ) AS accepted,
    CAST(list_transform(survival, lambda share: CAST(round(share * rounds) AS BIGINT)) AS BIGINT[]) AS accepted_at
FROM windows
