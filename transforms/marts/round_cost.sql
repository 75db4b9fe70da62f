-- round_cost: one row per deployment, date, instance, engine and origin of a fit of T = c0 + c1 requests + c2 verified
-- tokens + c3 prefill tokens + c4 draft passes.
-- Reads deployment_days, cost_observations, step_cliffs.
--   date            UTC date of the moment the row was complete; partition column.
--   deployment      Deployment named at ingest; partition column.
--   instance        Instance; null for all engines of the deployment together.
--   engine          Engine; null for all engines of the deployment together.
--   origin          iterations, or snapshots (scrape intervals of one load and draft length).
--   deployments     Whose observations were fitted: its own, and those of ordinary decode where its own do not tell c0,
--                   c1 and c2.
--   baseline_date   Date of the ordinary decode of other deployments; null without.
--   c0              Fixed cost of a round, with the draft passes where one draft length ran; null where it is not
--                   identified. [ms]
--   c0_lower        c0: lower end of its 95 % interval. [ms]
--   c0_upper        c0: upper end of its 95 % interval. [ms]
--   c1              Cost of a request; null where it is not identified. [ms]
--   c1_lower        c1: lower end of its 95 % interval. [ms]
--   c1_upper        c1: upper end of its 95 % interval. [ms]
--   c2              Cost of a verified token; null where it is not identified. [ms]
--   c2_lower        c2: lower end of its 95 % interval. [ms]
--   c2_upper        c2: upper end of its 95 % interval. [ms]
--   c3              Cost of a prefill token; null where it is not identified. [ms]
--   c3_lower        c3: lower end of its 95 % interval. [ms]
--   c3_upper        c3: upper end of its 95 % interval. [ms]
--   c4              Cost of a draft pass; null where it is not identified. [ms]
--   c4_lower        c4: lower end of its 95 % interval. [ms]
--   c4_upper        c4: upper end of its 95 % interval. [ms]
--   slope           c1 + (K + 1) x c2, what a request costs at the one draft length K that ran; null where it is not
--                   identified. [ms]
--   slope_lower     slope: lower end of its 95 % interval. [ms]
--   slope_upper     slope: upper end of its 95 % interval. [ms]
--   not_identified  Which costs the observations do not tell, and why; null where they tell all.
--   lengths         Draft lengths that ran, 0 for ordinary decode. [tokens]
--   requests_from   Least requests at each of the lengths. [requests]
--   requests_to     Most requests at each of the lengths. [requests]
--   verified_min    Least verified tokens of a round. [tokens]
--   verified_max    Most verified tokens of a round: a step in round time ends what the fit tells. [tokens]
--   relative_error  Typical |residual| / time of a round (median over steps). [ratio]
--   observations    Observations fitted. [observations]
--   clusters        Hours of a deployment they come from; below eight, what an hour shares is not in the intervals.
--                   [hours]
--   solution        Fitted costs c0 to c4; 0 for what was not fitted. [ms]
--   covariance      Their covariance, row by row. [ms²]
--   blind           Directions of the costs left open by the data, five numbers each, any scale. [ms]
--   quantile        Quantile of t for the 95 % interval. [ratio]
--   evidence        measured, derived or estimated.
-- -----------------------------------------------------------------------------
-- Algorithm: 1. the observations of a deployment, of all its engines together and, where there are several, of each;
-- 2. those of ordinary decode of the same target, of the nearest date; 3. what lies beyond a step in round time is left
-- out; 4. one robust fit (fitted_cost, transforms/round_cost.py), which turns to ordinary decode of others only where the
-- own observations do not tell c0, c1 and c2.
WITH runs AS (
    SELECT date, deployment, origin, bool_or(draft_length = 0) AS ran_plain
    FROM cost_observations
    GROUP BY ALL
),

partners AS (
    SELECT own.date, own.deployment, own.origin, plain.date AS plain_date, plain.deployment AS plain_deployment
    FROM runs AS own
    INNER JOIN deployment_days AS own_day
        ON own.date = own_day.date AND own.deployment = own_day.deployment
    INNER JOIN runs AS plain
        ON own.origin = plain.origin AND plain.ran_plain AND plain.date BETWEEN own.date - 30 AND own.date + 30
    INNER JOIN deployment_days AS plain_day
        ON plain.date = plain_day.date AND plain.deployment = plain_day.deployment
    WHERE
        own_day.speculative
        AND NOT plain_day.speculative
        AND same_target(own_day, plain_day)
    QUALIFY
        rank() OVER (
            PARTITION BY own.date, own.deployment, own.origin
            ORDER BY abs(date_diff('day', own.date, plain.date)), plain.date
        ) = 1
),

ends AS (
    SELECT date, deployment, origin, min(size) AS size
    FROM step_cliffs
    GROUP BY ALL
),

usable AS (
    SELECT observations.*
    FROM cost_observations AS observations
    LEFT JOIN ends USING (date, deployment, origin)
    WHERE coalesce(verified_tokens + prefill_tokens <= ends.size, true)
),

engine_counts AS (
    SELECT date, deployment, origin, count(DISTINCT {'instance': instance, 'engine': engine}) AS engines
    FROM usable
    GROUP BY ALL
),

own AS (
    SELECT date, deployment, CAST(NULL AS VARCHAR) AS fit_instance, CAST(NULL AS INTEGER) AS fit_engine, * EXCLUDE (date, deployment)
    FROM usable
    UNION ALL BY NAME
    SELECT usable.*, usable.instance AS fit_instance, usable.engine AS fit_engine
    FROM usable
    INNER JOIN engine_counts USING (date, deployment, origin)
    WHERE engine_counts.engines > 1 AND usable.engine IS NOT NULL
),

fits AS (
    SELECT DISTINCT date, deployment, fit_instance, fit_engine, origin
    FROM own
),

observed AS (
    SELECT date AS seen_date, deployment AS seen_deployment, *
    FROM own
    UNION ALL BY NAME
    SELECT
        usable.date AS seen_date,
        usable.deployment AS seen_deployment,
        fits.fit_instance,
        fits.fit_engine,
        usable.* REPLACE (fits.date AS date, fits.deployment AS deployment)
    FROM fits
    INNER JOIN partners USING (date, deployment, origin)
    INNER JOIN usable
        ON
            usable.date = partners.plain_date
            AND usable.deployment = partners.plain_deployment
            AND usable.origin = fits.origin
    LEFT JOIN ends ON fits.date = ends.date AND fits.deployment = ends.deployment AND fits.origin = ends.origin
    WHERE usable.draft_length = 0 AND coalesce(usable.verified_tokens + usable.prefill_tokens <= ends.size, true)
),

-- Engines of one deployment share their hours: what they saw of equal work is one observation.
merged AS (
    SELECT
        date,
        deployment,
        fit_instance,
        fit_engine,
        origin,
        seen_date,
        seen_deployment,
        hour,
        load,
        draft_length,
        prefill,
        list({
            'weight': iterations,
            'time': iterations * round_time_ms,
            'requests': iterations * requests,
            'prefill_tokens': iterations * prefill_tokens
        } ORDER BY instance, engine) AS parts,
        list_sum(list_transform(parts, lambda part: part.weight)) AS weight,
        list_sum(list_transform(parts, lambda part: part.time)) / weight AS time_ms,
        list_sum(list_transform(parts, lambda part: part.requests)) / weight AS requests,
        list_sum(list_transform(parts, lambda part: part.prefill_tokens)) / weight AS prefill_tokens
    FROM observed
    GROUP BY ALL
),

clustered AS (
    SELECT
        *,
        dense_rank() OVER (
            PARTITION BY date, deployment, fit_instance, fit_engine, origin ORDER BY seen_date, seen_deployment, hour
        ) AS cluster
    FROM merged
),

gathered AS (
    SELECT
        date,
        deployment,
        fit_instance,
        fit_engine,
        origin,
        list_sort(list(DISTINCT seen_deployment)) AS deployments,
        max(seen_date) FILTER (seen_deployment <> deployment) AS baseline_date,
        list(
            {
                'time_ms': time_ms,
                'requests': requests,
                'verified': requests * (draft_length + 1),
                'prefill': prefill_tokens,
                'length': CAST(draft_length AS DOUBLE),
                'weight': weight,
                'cluster': cluster,
                'own': seen_deployment = deployment
            }
            ORDER BY cluster, load, draft_length, prefill
        ) AS rounds
    FROM clustered
    GROUP BY ALL
),

fitted AS (
    SELECT
        * EXCLUDE (rounds),
        fitted_cost(
            list_transform(rounds, lambda x: x.time_ms),
            list_transform(rounds, lambda x: x.requests),
            list_transform(rounds, lambda x: x.verified),
            list_transform(rounds, lambda x: x.prefill),
            list_transform(rounds, lambda x: x.length),
            list_transform(rounds, lambda x: x.weight),
            list_transform(rounds, lambda x: x.cluster),
            list_transform(rounds, lambda x: x.own)
        ) AS cost
    FROM gathered
)

SELECT
    CAST(date AS DATE) AS date,
    CAST(deployment AS VARCHAR) AS deployment,
    CAST(fit_instance AS VARCHAR) AS instance,
    CAST(fit_engine AS INTEGER) AS engine,
    CAST(origin AS VARCHAR) AS origin,
    CAST(CASE WHEN cost.own_alone THEN [deployment] ELSE deployments END AS VARCHAR[]) AS deployments,
    CAST(CASE WHEN NOT cost.own_alone THEN baseline_date END AS DATE) AS baseline_date,
    CAST(cost.c0.value AS DOUBLE) AS c0,
    CAST(cost.c0.lower AS DOUBLE) AS c0_lower,
    CAST(cost.c0.upper AS DOUBLE) AS c0_upper,
    CAST(cost.c1.value AS DOUBLE) AS c1,
    CAST(cost.c1.lower AS DOUBLE) AS c1_lower,
    CAST(cost.c1.upper AS DOUBLE) AS c1_upper,
    CAST(cost.c2.value AS DOUBLE) AS c2,
    CAST(cost.c2.lower AS DOUBLE) AS c2_lower,
    CAST(cost.c2.upper AS DOUBLE) AS c2_upper,
    CAST(cost.c3.value AS DOUBLE) AS c3,
    CAST(cost.c3.lower AS DOUBLE) AS c3_lower,
    CAST(cost.c3.upper AS DOUBLE) AS c3_upper,
    CAST(cost.c4.value AS DOUBLE) AS c4,
    CAST(cost.c4.lower AS DOUBLE) AS c4_lower,
    CAST(cost.c4.upper AS DOUBLE) AS c4_upper,
    CAST(cost.slope.value AS DOUBLE) AS slope,
    CAST(cost.slope.lower AS DOUBLE) AS slope_lower,
    CAST(cost.slope.upper AS DOUBLE) AS slope_upper,
    CAST(
        CASE WHEN cost IS NULL THEN 'too few observations' ELSE cost.not_identified END AS VARCHAR
    ) AS not_identified,
    CAST(cost.lengths AS INTEGER[]) AS lengths,
    CAST(cost.requests_from AS DOUBLE[]) AS requests_from,
    CAST(cost.requests_to AS DOUBLE[]) AS requests_to,
    CAST(cost.verified_min AS DOUBLE) AS verified_min,
    CAST(cost.verified_max AS DOUBLE) AS verified_max,
    CAST(cost.relative_error AS DOUBLE) AS relative_error,
    CAST(cost.observations AS BIGINT) AS observations,
    CAST(cost.clusters AS BIGINT) AS clusters,
    CAST(cost.solution AS DOUBLE[]) AS solution,
    CAST(cost.covariance AS DOUBLE[]) AS covariance,
    CAST(cost.blind AS DOUBLE[]) AS blind,
    CAST(cost.quantile AS DOUBLE) AS quantile,
    CAST('derived' AS VARCHAR) AS evidence
FROM fitted
