-- draft_settings: one row per server start: what it says of drafting until the next start.
-- Reads deployments.
--   deployment     Deployment named at ingest; partition column.
--   instance       Instance that started; null for what the deployment's latest starts agree on.
--   started_at     Start from which it holds (UTC).
--   until          Next start (UTC); infinity for the last one.
--   speculative    Whether the server speculates; null when not known.
--   draft_method   Speculative method in lower case; null without speculation.
--   draft_limit    Configured maximum draft length K. [tokens]
--   always_drafts  Whether every step carries a draft of the full length K; null when not known.
--   engines        Engines of the instance (data-parallel size); null when not known. [engines]
-- -----------------------------------------------------------------------------
-- Algorithm: what a start-up record says holds until the next start of its instance. Instances without a record of their
-- own get what the deployment's starts of the last day agree on.
WITH starts AS (
    SELECT
        deployment,
        instance,
        started_at,
        max(speculative) AS speculative,
        max(lower(draft_method)) AS draft_method,
        max(draft_limit) AS draft_limit,
        bool_or(draft_schedule IS NOT NULL) AS scheduled,
        max(data_parallel) AS engines
    FROM deployments
    WHERE started_at IS NOT NULL
    GROUP BY ALL
),

told AS (
    SELECT
        *,
        {
            'speculative': speculative,
            'draft_method': draft_method,
            'draft_limit': draft_limit,
            'scheduled': scheduled
        } AS said
    FROM starts
),

agreed AS (
    SELECT
        *,
        min(said) OVER recent IS NOT DISTINCT FROM max(said) OVER recent AS agree
    FROM told
    WINDOW
        recent AS (
            PARTITION BY deployment ORDER BY started_at
            RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND CURRENT ROW
        )
),

known AS (
    SELECT deployment, instance, started_at, speculative, draft_method, draft_limit, scheduled, engines
    FROM told
    UNION ALL BY NAME
    SELECT DISTINCT
        deployment,
        started_at,
        CASE WHEN agree THEN speculative END AS speculative,
        CASE WHEN agree THEN draft_method END AS draft_method,
        CASE WHEN agree THEN draft_limit END AS draft_limit,
        CASE WHEN agree THEN scheduled END AS scheduled
    FROM agreed
)

SELECT
    CAST(deployment AS VARCHAR) AS deployment,
    CAST(instance AS VARCHAR) AS instance,
    CAST(started_at AS TIMESTAMP) AS started_at,
    CAST(
        coalesce(lead(started_at) OVER (PARTITION BY deployment, instance ORDER BY started_at), 'infinity') AS TIMESTAMP
    ) AS until,
    CAST(speculative AS BOOLEAN) AS speculative,
    CAST(draft_method AS VARCHAR) AS draft_method,
    CAST(draft_limit AS INTEGER) AS draft_limit,
    CAST(speculative AND NOT scheduled AND NOT regexp_matches(draft_method, 'ngram|suffix') AS BOOLEAN) AS always_drafts,
    CAST(engines AS INTEGER) AS engines
FROM known
