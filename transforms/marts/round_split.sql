-- round_split: one row per deployment, date, origin, load band, draft length: what a round is made of, by the fit of
-- all engines together or by printed stage times.
-- Reads cost_observations, round_cost, log_stats.
--   date               UTC date of the moment the row was complete; partition column.
--   deployment         Deployment named at ingest; partition column.
--   origin             iterations or snapshots, of the fit; log_stats where the log prints stage times (V0).
--   load_band          Band of requests running on the engine; 'unknown' where load is not known.
--   draft_length       Draft length of the rounds. [tokens]
--   iterations         Engine iterations observed, or log records. [iterations]
--   steps              Steps of those rounds. [steps]
--   requests           Requests decoding in the round, mean over steps. [requests]
--   prefill_tokens     Tokens of prompts computed in the round, mean over steps. [tokens]
--   round_time_ms      Time of the round as measured, mean over steps. [ms]
--   model_ms           What the fit gives for the same work; log_stats: sum of the stages. [ms]
--   ordinary_ms        Time of a round without a draft at the same requests and prefill work, by the fit; null where it
--                      is not identified. [ms]
--   ordinary_ms_lower  ordinary_ms: lower end of its 95 % interval. [ms]
--   ordinary_ms_upper  ordinary_ms: upper end of its 95 % interval. [ms]
--   draft_ms           Draft part of a round: c4 x K, or as printed; null where it is not identified. [ms]
--   draft_ms_lower     draft_ms: lower end of its 95 % interval. [ms]
--   draft_ms_upper     draft_ms: upper end of its 95 % interval. [ms]
--   verify_ms          What verifying the draft adds to an ordinary round: c2 x requests x K, or all of the target pass
--                      as printed; null where it is not identified. [ms]
--   verify_ms_lower    verify_ms: lower end of its 95 % interval. [ms]
--   verify_ms_upper    verify_ms: upper end of its 95 % interval. [ms]
--   prefill_ms         What prefill work adds to the round: c3 x prefill tokens; null where it is not identified. [ms]
--   other_ms           Acceptance, as printed (V0); null for fits, where it is part of ordinary_ms. [ms]
--   not_identified     What the data do not tell, and why; null where they tell all.
--   evidence           measured, derived or estimated.
-- -----------------------------------------------------------------------------
-- Algorithm: mean work of a step in each band; the fit of all engines together at that work, and at the same work without
-- a draft; the difference between both where the fit tells its parts. V0 prints its stages: draft per token, target
-- pass and acceptance per round.
WITH bands AS (
    SELECT
        date,
        deployment,
        origin,
        load_band(load) AS load_band,
        draft_length,
        list({
            'iterations': iterations,
            'steps': iterations * requests,
            'requests': iterations * requests * requests,
            'prefill_tokens': iterations * requests * prefill_tokens,
            'time': iterations * requests * round_time_ms
        } ORDER BY instance, engine, hour, load, prefill) AS parts,
        list_sum(list_transform(parts, lambda part: part.iterations)) AS iterations,
        list_sum(list_transform(parts, lambda part: part.steps)) AS steps,
        list_sum(list_transform(parts, lambda part: part.requests)) / steps AS requests,
        list_sum(list_transform(parts, lambda part: part.prefill_tokens)) / steps AS prefill_tokens,
        list_sum(list_transform(parts, lambda part: part.time)) / steps AS round_time_ms
    FROM cost_observations
    GROUP BY ALL
),

modelled AS (
    SELECT
        bands.* EXCLUDE (parts),
        cost.not_identified,
        cost.c2,
        cost.c2_lower,
        cost.c2_upper,
        cost.c3,
        cost.c4,
        cost.c4_lower,
        cost.c4_upper,
        {
            'lengths': cost.lengths,
            'requests_from': cost.requests_from,
            'requests_to': cost.requests_to,
            'verified_min': cost.verified_min,
            'verified_max': cost.verified_max,
            'relative_error': cost.relative_error,
            'solution': cost.solution,
            'covariance': cost.covariance,
            'blind': cost.blind,
            'quantile': cost.quantile
        } AS model,
        predicted_cost(model, bands.requests, bands.draft_length, bands.prefill_tokens) AS whole,
        predicted_cost(model, bands.requests, 0, bands.prefill_tokens) AS ordinary
    FROM bands
    LEFT JOIN round_cost AS cost
        ON
            bands.date = cost.date
            AND bands.deployment = cost.deployment
            AND bands.origin = cost.origin
            AND cost.engine IS NULL
),

by_model AS (
    SELECT
        * EXCLUDE (not_identified),
        whole.value AS model_ms,
        ordinary.value AS ordinary_ms,
        ordinary.lower AS ordinary_ms_lower,
        ordinary.upper AS ordinary_ms_upper,
        CASE WHEN draft_length = 0 THEN 0 ELSE c4 * draft_length END AS draft_ms,
        CASE WHEN draft_length = 0 THEN 0 ELSE c4_lower * draft_length END AS draft_ms_lower,
        CASE WHEN draft_length = 0 THEN 0 ELSE c4_upper * draft_length END AS draft_ms_upper,
        CASE WHEN draft_length = 0 THEN 0 ELSE c2 * requests * draft_length END AS verify_ms,
        CASE WHEN draft_length = 0 THEN 0 ELSE c2_lower * requests * draft_length END AS verify_ms_lower,
        CASE WHEN draft_length = 0 THEN 0 ELSE c2_upper * requests * draft_length END AS verify_ms_upper,
        c3 * prefill_tokens AS prefill_ms,
        CASE
            WHEN model.solution IS NULL THEN 'no fit: too few observations'
            WHEN whole IS NULL THEN 'this work lies outside of what the fit tells'
            WHEN ordinary IS NULL THEN concat_ws('; ', 'a round without a draft at this load', not_identified)
            ELSE not_identified
        END AS not_identified
    FROM modelled
),

stages AS (
    SELECT
        date,
        deployment,
        'log_stats' AS origin,
        load_band(load_code(running)) AS load_band,
        draft_limit AS draft_length,
        CAST(count(*) AS DOUBLE) AS iterations,
        sum(running ORDER BY running) AS steps,
        avg(running ORDER BY running) AS requests,
        avg(proposal_ms * draft_limit ORDER BY proposal_ms) AS draft_ms,
        avg(scoring_ms ORDER BY scoring_ms) AS verify_ms,
        avg(verification_ms ORDER BY verification_ms) AS other_ms,
        avg(
            proposal_ms * draft_limit + scoring_ms + verification_ms
            ORDER BY proposal_ms * draft_limit + scoring_ms + verification_ms
        ) AS model_ms,
        'the share of an ordinary round in the target pass: the log prints none' AS not_identified
    FROM log_stats
    WHERE proposal_ms IS NOT NULL AND scoring_ms IS NOT NULL AND verification_ms IS NOT NULL AND draft_limit > 0
    GROUP BY ALL
),

both_sources AS (
    SELECT 'derived' AS evidence, *
    FROM by_model
    UNION ALL BY NAME
    SELECT 'measured' AS evidence, *
    FROM stages
)

SELECT
    CAST(date AS DATE) AS date,
    CAST(deployment AS VARCHAR) AS deployment,
    CAST(origin AS VARCHAR) AS origin,
    CAST(load_band AS VARCHAR) AS load_band,
    CAST(draft_length AS INTEGER) AS draft_length,
    CAST(iterations AS DOUBLE) AS iterations,
    CAST(steps AS DOUBLE) AS steps,
    CAST(requests AS DOUBLE) AS requests,
    CAST(prefill_tokens AS DOUBLE) AS prefill_tokens,
    CAST(round_time_ms AS DOUBLE) AS round_time_ms,
    CAST(model_ms AS DOUBLE) AS model_ms,
    CAST(ordinary_ms AS DOUBLE) AS ordinary_ms,
    CAST(ordinary_ms_lower AS DOUBLE) AS ordinary_ms_lower,
    CAST(ordinary_ms_upper AS DOUBLE) AS ordinary_ms_upper,
    CAST(draft_ms AS DOUBLE) AS draft_ms,
    CAST(draft_ms_lower AS DOUBLE) AS draft_ms_lower,
    CAST(draft_ms_upper AS DOUBLE) AS draft_ms_upper,
    CAST(verify_ms AS DOUBLE) AS verify_ms,
    CAST(verify_ms_lower AS DOUBLE) AS verify_ms_lower,
    CAST(verify_ms_upper AS DOUBLE) AS verify_ms_upper,
    CAST(prefill_ms AS DOUBLE) AS prefill_ms,
    CAST(other_ms AS DOUBLE) AS other_ms,
    CAST(not_identified AS VARCHAR) AS not_identified,
    CAST(evidence AS VARCHAR) AS evidence
FROM both_sources
