-- ledger: one row per deployment, date, origin, load band ('all' for the pooled row), context band.
-- Reads band_totals, deployment_days, cells_draft_lengths, round_cost, round_split.
--   date                   UTC date of the moment the row was complete; partition column.
--   deployment             Deployment named at ingest; partition column.
--   origin                 snapshots, requests, log_stats or iterations; origins are never added.
--   load_band              Band of requests running on the engine; 'unknown' where load is not known.
--   context_band           Band of prompt + half the output tokens; null where the origin has none, and in pooled rows.
--   steps                  Steps. [steps]
--   tokens                 Output tokens after the first. [tokens]
--   t0_ms                  TPOT without speculation at the same model, quantization, load and context band. [ms]
--   t0_origin              same_date, other_date, zero_length or model; null without T0.
--   t0_deployments         Deployments that T0 was taken from.
--   t0_date                Date that T0 was taken from.
--   round_time_ms          T_round = Σ decode time / steps. [ms]
--   acceptance_length      L = 1 + C / R. [tokens]
--   effective_length       L_eff = (N_out - requests) / steps. [tokens]
--   coverage               R / steps. [ratio]
--   tpot_ms                T_round / L_eff. [ms]
--   speedup                S = T0 / TPOT; pooled: Σ tokens x T0(band) / Σ decode time. [ratio]
--   break_even_length      T_round / T0. [tokens]
--   break_even_acceptance  Equal a_i at which 1 + coverage x Σ a^i reaches the break-even length; 0 where T_round <=
--                          T0, null where none does. [ratio]
--   draft_limit            Draft length K used for the break-even: mean D / R rounded up. [tokens]
--   beyond_reach           True where break-even length exceeds 1 + coverage x K: no acceptance could pay here.
--   token_share            Share of the deployment's tokens in this band; pooled: in bands that have T0, to which
--                          t0_ms, speedup and break-even belong. [ratio]
--   evidence               measured, derived or estimated.
-- -----------------------------------------------------------------------------
WITH bands AS (
    SELECT
        date,
        deployment,
        origin,
        load_band,
        context_band,
        sum(rounds) AS rounds,
        sum(drafted) AS drafted,
        sum(accepted) AS accepted,
        sum(decode_ns) AS decode_ns,
        sum(decode_tokens) AS decode_tokens,
        sum(steps) AS steps,
        sum(step_tokens) AS step_tokens,
        sum(step_decode_ns) AS step_decode_ns,
        sum(step_rounds) AS step_rounds
    FROM band_totals
    WHERE origin IN ('snapshots', 'requests')
    GROUP BY ALL
    HAVING sum(decode_tokens) > 0
),

-- Ordinary decode of deployments that serve the same target.
matches AS (
    SELECT
        own.date,
        own.deployment,
        own.origin,
        own.load_band,
        own.context_band,
        plain.date AS t0_date,
        abs(date_diff('day', own.date, plain.date)) AS remoteness,
        CASE WHEN own.date = plain.date THEN 'same_date' ELSE 'other_date' END AS t0_origin,
        list(plain.deployment ORDER BY plain.deployment) AS t0_deployments,
        ratio(sum(plain.decode_ns), sum(plain.decode_tokens)) AS t0_ns
    FROM bands AS own
    INNER JOIN deployment_days AS own_day
        ON own.date = own_day.date AND own.deployment = own_day.deployment
    INNER JOIN bands AS plain
        ON
            own.origin = plain.origin
            AND own.load_band = plain.load_band
            AND own.context_band IS NOT DISTINCT FROM plain.context_band
            AND plain.date BETWEEN own.date - 30 AND own.date + 30
    INNER JOIN deployment_days AS plain_day
        ON plain.date = plain_day.date AND plain.deployment = plain_day.deployment
    WHERE
        own_day.speculative
        AND NOT plain_day.speculative
        AND own.load_band <> 'unknown'
        AND same_target(own_day, plain_day)
    GROUP BY ALL
),

zero_lengths AS (
    SELECT
        cells.date,
        cells.deployment,
        cells.origin,
        load_band(cells.load) AS load_band,
        cells.context_band,
        cells.date AS t0_date,
        31 AS remoteness,
        'zero_length' AS t0_origin,
        [cells.deployment] AS t0_deployments,
        ratio(sum(cells.step_decode_ns), sum(cells.step_tokens)) AS t0_ns
    FROM cells_draft_lengths AS cells
    INNER JOIN deployment_days AS day
        ON cells.date = day.date AND cells.deployment = day.deployment
    WHERE
        day.speculative
        AND cells.draft_length = 0
        AND cells.origin IN ('snapshots', 'requests')
        AND cells.load IS NOT NULL
    GROUP BY ALL
    HAVING sum(cells.step_tokens) > 0
),

-- What the round-cost model says of a round without a draft, relative to what it says of the rounds that ran: so that
-- neither the clock of its origin nor a slow night matters. At the same load, requests and their prompts come as fast as
-- tokens are returned, so a round that returns one token has 1 / L_eff of the prefill work. Only where the costs of
-- requests and of verified tokens are told apart, where the model speaks of nearly all steps, and where it knows the time
-- to 10 %; iterations come before intervals.
modelled AS (
    SELECT
        split.*,
        split.ordinary_ms IS NOT NULL AND (split.prefill_tokens = 0 OR split.prefill_ms IS NOT NULL) AS told
    FROM round_split AS split
    INNER JOIN round_cost AS cost
        ON
            split.date = cost.date
            AND split.deployment = cost.deployment
            AND split.origin = cost.origin
            AND cost.engine IS NULL
    WHERE cost.c1 IS NOT NULL AND cost.c2 IS NOT NULL
),

model_times AS (
    SELECT
        date,
        deployment,
        origin AS model_origin,
        load_band,
        coalesce(sum(steps) FILTER (told), 0) >= 0.8 * sum(steps) AS covers,
        sum(steps * model_ms ORDER BY draft_length) FILTER (told) AS model_ms,
        sum(steps * ordinary_ms ORDER BY draft_length) FILTER (told) AS ordinary_ms,
        coalesce(sum(steps * prefill_ms ORDER BY draft_length) FILTER (told), 0) AS prefill_ms,
        ratio(
            sum(steps * (ordinary_ms_upper - ordinary_ms) ORDER BY draft_length) FILTER (told),
            sum(steps * ordinary_ms ORDER BY draft_length) FILTER (told)
        ) AS half_width
    FROM modelled
    GROUP BY ALL
),

models AS (
    SELECT
        bands.date,
        bands.deployment,
        bands.origin,
        bands.load_band,
        bands.context_band,
        bands.date AS t0_date,
        32 AS remoteness,
        'model' AS t0_origin,
        cost.deployments AS t0_deployments,
        ratio(bands.step_decode_ns, bands.steps)
        * ratio(
            times.ordinary_ms - times.prefill_ms * (1 - ratio(bands.steps, bands.step_tokens)), times.model_ms
        ) AS t0_ns
    FROM bands
    INNER JOIN model_times AS times USING (date, deployment, load_band)
    INNER JOIN deployment_days AS day USING (date, deployment)
    INNER JOIN round_cost AS cost
        ON
            bands.date = cost.date
            AND bands.deployment = cost.deployment
            AND times.model_origin = cost.origin
            AND cost.engine IS NULL
    WHERE
        day.speculative
        AND times.covers
        AND times.half_width <= 0.1
        AND bands.step_tokens >= 0.95 * bands.decode_tokens
    QUALIFY
        row_number() OVER (
            PARTITION BY bands.date, bands.deployment, bands.origin, bands.load_band, bands.context_band
            ORDER BY times.model_origin
        ) = 1
),

candidates AS (
    SELECT * FROM matches
    UNION ALL BY NAME
    SELECT * FROM zero_lengths
    UNION ALL BY NAME
    SELECT * FROM models
),

-- The least remote one: the same date, the nearest other date (the earlier of two), the deployment itself, its model.
ordinary_decode AS (
    SELECT *
    FROM candidates
    QUALIFY
        row_number() OVER (
            PARTITION BY date, deployment, origin, load_band, context_band ORDER BY remoteness, t0_date
        ) = 1
),

-- Time per token, time per step and tokens per step belong to one population: the observations whose steps are known
-- where those hold at least 95 % of the tokens, else all observations, and then nothing is said of steps.
band_accounts AS (
    SELECT
        bands.*,
        coalesce(step_tokens >= 0.95 * decode_tokens, false) AS steps_told,
        CASE WHEN steps_told THEN step_tokens ELSE decode_tokens END AS tokens,
        CASE WHEN steps_told THEN step_decode_ns ELSE decode_ns END AS time_ns,
        CASE WHEN steps_told THEN bands.steps END AS told_steps,
        t0.t0_ns,
        t0.t0_origin,
        t0.t0_date,
        t0.t0_deployments,
        t0.remoteness
    FROM bands
    LEFT JOIN ordinary_decode AS t0
        ON
            bands.date = t0.date
            AND bands.deployment = t0.deployment
            AND bands.origin = t0.origin
            AND bands.load_band = t0.load_band
            AND bands.context_band IS NOT DISTINCT FROM t0.context_band
),

-- The columns t0_* of a row are over the bands that have T0; in the row of a band they are the band itself.
accounts AS (
    SELECT
        *,
        CASE WHEN t0_ns IS NOT NULL THEN tokens END AS t0_tokens,
        time_ns AS t0_time_ns,
        told_steps AS t0_steps,
        ratio(tokens, sum(tokens) OVER (PARTITION BY date, deployment, origin)) AS token_share
    FROM band_accounts
    UNION ALL BY NAME
    SELECT
        date,
        deployment,
        origin,
        'all' AS load_band,
        sum(rounds) AS rounds,
        sum(drafted) AS drafted,
        sum(accepted) AS accepted,
        sum(step_rounds) AS step_rounds,
        sum(steps) AS steps,
        sum(tokens) AS tokens,
        sum(time_ns) AS time_ns,
        CASE WHEN bool_and(steps_told) THEN sum(told_steps) END AS told_steps,
        ratio(sum(tokens * t0_ns ORDER BY load_band, context_band), sum(tokens) FILTER (t0_ns IS NOT NULL)) AS t0_ns,
        arg_max(t0_origin, remoteness) AS t0_origin,
        CASE WHEN count(DISTINCT t0_date) = 1 THEN any_value(t0_date) END AS t0_date,
        list_sort(list_distinct(flatten(list(t0_deployments) FILTER (t0_deployments IS NOT NULL)))) AS t0_deployments,
        sum(tokens) FILTER (t0_ns IS NOT NULL) AS t0_tokens,
        sum(time_ns) FILTER (t0_ns IS NOT NULL) AS t0_time_ns,
        CASE
            WHEN bool_and(steps_told) FILTER (t0_ns IS NOT NULL) THEN sum(told_steps) FILTER (t0_ns IS NOT NULL)
        END AS t0_steps,
        coalesce(ratio(sum(tokens) FILTER (t0_ns IS NOT NULL), sum(tokens)), 0) AS token_share
    FROM band_accounts
    GROUP BY ALL
),

figures AS (
    SELECT
        *,
        ratio(time_ns, told_steps) AS round_ns,
        ratio(tokens, told_steps) AS effective_length,
        ratio(time_ns, tokens) AS tpot_ns,
        ratio(step_rounds, steps) AS coverage,
        ceil(ratio(drafted, rounds)) AS draft_limit,
        ratio(t0_tokens * t0_ns, t0_time_ns) AS speedup,
        ratio(ratio(t0_time_ns, t0_steps), t0_ns) AS break_even_length
    FROM accounts
),

-- Break-even: coverage * Σ a^i over the draft positions must give what the round costs beyond one ordinary step.
-- Found by bisection: fifty halvings, each kept while the sum stays within what is needed.
needs AS (
    SELECT
        *,
        ratio(break_even_length - 1, coverage) AS needed,
        list_transform(range(1, 51), lambda halving: pow(0.5::DOUBLE, halving)) AS halvings
    FROM figures
),

break_evens AS (
    SELECT
        *,
        break_even_length > 1 + coverage * draft_limit AS beyond_reach,
        CASE
            WHEN break_even_length <= 1 THEN 0
            WHEN needed <= draft_limit THEN
                list_reduce(
                    halvings,
                    lambda found, half: CASE
                        WHEN
                            list_sum(
                                list_transform(
                                    range(1, CAST(draft_limit AS BIGINT) + 1), lambda i: pow(found + half, i)
                                )
                            ) <= needed
                            THEN found + half
                        ELSE found
                    END,
                    0.0::DOUBLE
                )
        END AS break_even_acceptance
    FROM needs
)

SELECT
    CAST(date AS DATE) AS date,
    CAST(deployment AS VARCHAR) AS deployment,
    CAST(origin AS VARCHAR) AS origin,
    CAST(load_band AS VARCHAR) AS load_band,
    CAST(context_band AS VARCHAR) AS context_band,
    CAST(told_steps AS BIGINT) AS steps,
    CAST(tokens AS BIGINT) AS tokens,
    CAST(t0_ns / 1e6 AS DOUBLE) AS t0_ms,
    CAST(t0_origin AS VARCHAR) AS t0_origin,
    CAST(t0_deployments AS VARCHAR[]) AS t0_deployments,
    CAST(t0_date AS DATE) AS t0_date,
    CAST(round_ns / 1e6 AS DOUBLE) AS round_time_ms,
    CAST(1 + ratio(accepted, rounds) AS DOUBLE) AS acceptance_length,
    CAST(effective_length AS DOUBLE) AS effective_length,
    CAST(coverage AS DOUBLE) AS coverage,
    CAST(tpot_ns / 1e6 AS DOUBLE) AS tpot_ms,
    CAST(speedup AS DOUBLE) AS speedup,
    CAST(break_even_length AS DOUBLE) AS break_even_length,
    CAST(break_even_acceptance AS DOUBLE) AS break_even_acceptance,
    CAST(draft_limit AS DOUBLE) AS draft_limit,
    CAST(beyond_reach AS BOOLEAN) AS beyond_reach,
    CAST(token_share AS DOUBLE) AS token_share,
    CAST(
        CASE t0_origin WHEN 'other_date' THEN 'derived' WHEN 'model' THEN 'estimated' ELSE 'measured' END AS VARCHAR
    ) AS evidence
FROM break_evens
