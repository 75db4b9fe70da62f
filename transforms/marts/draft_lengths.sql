-- draft_lengths: one row per deployment, date, origin, load band, draft length actually run.
-- Reads cells_draft_lengths.
--   date               UTC date of the moment the row was complete; partition column.
--   deployment         Deployment named at ingest; partition column.
--   origin             snapshots, requests, log_stats or iterations; origins are never added.
--   load_band          Band of requests running on the engine; 'unknown' where load is not known.
--   draft_length       Draft length; 0 for steps without a draft. [tokens]
--   rounds             Rounds of that length. [rounds]
--   accepted           Accepted tokens of those rounds. [tokens]
--   acceptance_length  1 + C / R of that length; 1 at length 0. [tokens]
--   n                  Observations (intervals, requests or iterations) that ran at this length alone. [observations]
--   steps              Steps of those observations. [steps]
--   tokens             Output tokens after the first of those observations. [tokens]
--   round_time_ms      Step time at that length; null where no observation ran at it alone. [ms]
--   round_time_error   Relative standard error of the step time over those observations; null below two. [ratio]
--   tpot_ms            Decode time per output token of those observations. [ms]
--   evidence           measured, derived or estimated.
-- -----------------------------------------------------------------------------
WITH cells AS (
    SELECT * FROM cells_draft_lengths WHERE draft_length IS NOT NULL
),

totals AS (
    SELECT
        date,
        deployment,
        origin,
        load_band(load) AS load_band,
        draft_length,
        sum(rounds) AS rounds,
        sum(accepted) AS accepted,
        sum(steps) AS steps,
        sum(step_decode_ns) AS step_decode_ns,
        sum(step_tokens) AS step_tokens,
        sum(n) AS n,
        sum(steps_steps) AS steps_steps,
        sum(steps_step_decode) AS steps_step_decode,
        sum(step_decode_decode) AS step_decode_decode
    FROM cells
    GROUP BY ALL
),

-- Linearised: the squared residuals of decode time about steps x mean step time, over single observations.
residuals AS (
    SELECT
        *,
        ratio(step_decode_ns, steps) AS step_ns,
        step_decode_decode - 2 * step_ns * steps_step_decode + step_ns * step_ns * steps_steps AS squares
    FROM totals
),

figures AS (
    SELECT
        *,
        CASE WHEN draft_length = 0 THEN 1 ELSE 1 + ratio(accepted, rounds) END AS acceptance_length,
        step_ns / 1e6 AS round_time_ms,
        CASE WHEN n > 1 THEN ratio(sqrt(greatest(squares, 0) * ratio(n, n - 1)), step_decode_ns) END AS round_time_error,
        ratio(step_decode_ns, step_tokens) / 1e6 AS tpot_ms,
        CASE WHEN origin = 'requests' THEN 'measured' ELSE 'derived' END AS evidence
    FROM residuals
)

SELECT
    CAST(date AS DATE) AS date,
    CAST(deployment AS VARCHAR) AS deployment,
    CAST(origin AS VARCHAR) AS origin,
    CAST(load_band AS VARCHAR) AS load_band,
    CAST(draft_length AS INTEGER) AS draft_length,
    CAST(rounds AS BIGINT) AS rounds,
    CAST(accepted AS BIGINT) AS accepted,
    CAST(acceptance_length AS DOUBLE) AS acceptance_length,
    CAST(n AS BIGINT) AS n,
    CAST(steps AS BIGINT) AS steps,
    CAST(step_tokens AS BIGINT) AS tokens,
    CAST(round_time_ms AS DOUBLE) AS round_time_ms,
    CAST(round_time_error AS DOUBLE) AS round_time_error,
    CAST(tpot_ms AS DOUBLE) AS tpot_ms,
    CAST(evidence AS VARCHAR) AS evidence
FROM figures
