-- deployment_days: one row per deployment, date: what was served and with which means, as start-up records, labels and
-- the data of the day tell.
-- Reads deployments, snapshots, requests, cells_snapshots, cells_requests, cells_log_stats, cells_iterations.
--   date                  UTC date of the moment the row was complete; partition column.
--   deployment            Deployment named at ingest; partition column.
--   model                 Target model of the start-up records in force; null without, or where they differ.
--   served_model_name     Model name that metrics and responses show; null where several were served.
--   quantization          Target quantization of the start-up records, none included; null without, or where they
--                         differ.
--   quantization_label    Label quant, in lower case; null where none was given.
--   dtype                 Data type of the start-up records; null without, or where they differ.
--   tensor_parallel       Tensor-parallel size; null where not known. [GPUs]
--   pipeline_parallel     Pipeline-parallel size; null where not known. [GPUs]
--   speculative           Whether rounds were run or configured; null where nothing tells.
--   draft_limit           Greatest configured draft length K; 0 without speculation; null where not known. [tokens]
--   instances             Instances with data on the day. [instances]
--   engines               Engines with data on the day. [engines]
--   kv_tokens_per_engine  Mean KV cache size of the engines whose size is known. [tokens]
--   kv_tokens             KV cache size of all engines; null where that of one is not known. [tokens]
--   gpus_per_engine       Label gpus (GPUs of one instance) over its engines, else TP x PP; null when neither is known.
--                         [GPUs]
--   gpus_from             label, or parallel sizes (derived); null without.
-- -----------------------------------------------------------------------------
WITH observed AS (
    SELECT date, deployment, instance, engine, origin, steps, step_tokens, step_rounds, rounds
    FROM cells_snapshots
    UNION ALL BY NAME
    SELECT date, deployment, instance, engine, origin, steps, step_tokens, step_rounds, rounds
    FROM cells_requests
    UNION ALL BY NAME
    SELECT date, deployment, instance, engine, origin, rounds
    FROM cells_log_stats
    UNION ALL BY NAME
    SELECT date, deployment, instance, engine, origin
    FROM cells_iterations
),

days AS (
    SELECT date, deployment, count(DISTINCT instance) AS instances
    FROM observed
    GROUP BY ALL
),

-- Scrapes name every engine; the engine of a log or a request is only asked where there are none.
engines AS (
    SELECT DISTINCT date, deployment, instance, coalesce(engine, 0) AS engine
    FROM observed
    QUALIFY origin = 'snapshots' OR NOT bool_or(origin = 'snapshots') OVER (PARTITION BY date, deployment)
),

engine_counts AS (
    SELECT date, deployment, count(*) AS engines, count(DISTINCT instance) AS serving_instances
    FROM engines
    GROUP BY ALL
),

-- What each instance said at its last start before the end of the day.
starts AS (
    SELECT days.date, days.deployment, record.instance, arg_max(record, record.started_at) AS start
    FROM days
    INNER JOIN deployments AS record
        ON
            days.deployment = record.deployment
            AND record.started_at < days.date + INTERVAL 1 DAY
    GROUP BY ALL
),

configurations AS (
    SELECT
        date,
        deployment,
        CASE WHEN count(DISTINCT start.model) = 1 THEN any_value(start.model) END AS model,
        CASE
            WHEN count(DISTINCT coalesce(start.served_model_name, start.model)) = 1
                THEN any_value(coalesce(start.served_model_name, start.model))
        END AS served_model_name,
        CASE
            WHEN count(DISTINCT coalesce(start.quantization, 'none')) = 1
                THEN any_value(lower(coalesce(start.quantization, 'none')))
        END AS quantization,
        CASE WHEN count(DISTINCT start.dtype) = 1 THEN any_value(start.dtype) END AS dtype,
        max(start.tensor_parallel) AS tensor_parallel,
        max(start.pipeline_parallel) AS pipeline_parallel,
        bool_or(start.speculative) AS speculative,
        max(CASE WHEN start.speculative THEN start.draft_limit WHEN NOT start.speculative THEN 0 END) AS draft_limit
    FROM starts
    GROUP BY ALL
),

label_entries AS (
    SELECT days.date, days.deployment, record.labelled_at, unnest(map_entries(record.labels)) AS entry
    FROM days
    INNER JOIN deployments AS record ON days.deployment = record.deployment
),

labels AS (
    SELECT
        date,
        deployment,
        lower(arg_max(entry.value, labelled_at) FILTER (entry.key = 'quant')) AS quantization_label,
        try_cast(arg_max(entry.value, labelled_at) FILTER (entry.key = 'gpus') AS DOUBLE) AS gpus
    FROM label_entries
    GROUP BY ALL
),

-- Scrapes show the served name; a response may show the name of an adapter instead.
names AS (
    SELECT date, deployment, 'snapshots' AS origin, model_name FROM snapshots
    UNION
    SELECT date, deployment, 'requests' AS origin, model_name FROM requests WHERE lora IS NULL
),

seen_names AS (
    SELECT
        date,
        deployment,
        count(model_name) FILTER (origin = 'snapshots') AS scraped_names,
        any_value(model_name) FILTER (origin = 'snapshots') AS scraped_name,
        count(model_name) FILTER (origin = 'requests') AS answered_names,
        any_value(model_name) FILTER (origin = 'requests') AS answered_name
    FROM names
    GROUP BY ALL
),

-- Without a start-up record the data tell: without drafts a step returns one token.
behaviour_by_origin AS (
    SELECT
        date,
        deployment,
        origin,
        sum(rounds) > 0 AS ran_rounds,
        sum(steps) > 0 AND sum(step_rounds) = 0 AND sum(step_tokens) <= 1.1 * sum(steps) AS ran_plain_steps
    FROM observed
    GROUP BY ALL
),

behaviour AS (
    SELECT date, deployment, bool_or(ran_rounds) AS ran_rounds, bool_or(ran_plain_steps) AS ran_plain_steps
    FROM behaviour_by_origin
    GROUP BY ALL
),

scraped_sizes AS (
    SELECT date, deployment, instance, engine, arg_max(kv_tokens, scraped_at) AS kv_tokens
    FROM snapshots
    GROUP BY ALL
),

kv_sizes AS (
    SELECT
        engines.date,
        engines.deployment,
        avg(coalesce(scraped.kv_tokens, starts.start.kv_tokens / greatest(starts.start.data_parallel, 1)))
            AS kv_tokens_per_engine,
        count(coalesce(scraped.kv_tokens, starts.start.kv_tokens)) AS known
    FROM engines
    LEFT JOIN scraped_sizes AS scraped USING (date, deployment, instance, engine)
    LEFT JOIN starts USING (date, deployment, instance)
    GROUP BY ALL
),

joined AS (
    SELECT
        days.date,
        days.deployment,
        configurations.model,
        CASE
            WHEN seen_names.scraped_names = 1 THEN seen_names.scraped_name
            WHEN seen_names.scraped_names = 0 AND seen_names.answered_names = 1 THEN seen_names.answered_name
            WHEN seen_names.scraped_names > 1 OR seen_names.answered_names > 1 THEN NULL
            ELSE configurations.served_model_name
        END AS served_model_name,
        configurations.quantization,
        CASE
            WHEN labels.quantization_label IN ('', 'no', 'off', 'none', 'null', 'false', 'unquantized') THEN 'none'
            ELSE labels.quantization_label
        END AS quantization_label,
        configurations.dtype,
        configurations.tensor_parallel,
        configurations.pipeline_parallel,
        CASE
            WHEN behaviour.ran_rounds THEN true
            WHEN configurations.speculative IS NOT NULL THEN configurations.speculative
            WHEN behaviour.ran_plain_steps THEN false
        END AS speculative,
        configurations.draft_limit,
        days.instances,
        engine_counts.engines,
        kv_sizes.kv_tokens_per_engine,
        CASE
            WHEN kv_sizes.known = engine_counts.engines THEN kv_sizes.kv_tokens_per_engine * engine_counts.engines
        END AS kv_tokens,
        coalesce(
            CASE WHEN labels.gpus > 0 THEN labels.gpus * engine_counts.serving_instances / engine_counts.engines END,
            configurations.tensor_parallel * configurations.pipeline_parallel
        ) AS gpus_per_engine,
        CASE
            WHEN labels.gpus > 0 THEN 'label'
            WHEN configurations.tensor_parallel * configurations.pipeline_parallel IS NOT NULL THEN 'parallel sizes'
        END AS gpus_from
    FROM days
    LEFT JOIN engine_counts USING (date, deployment)
    LEFT JOIN configurations USING (date, deployment)
    LEFT JOIN labels USING (date, deployment)
    LEFT JOIN seen_names USING (date, deployment)
    LEFT JOIN behaviour USING (date, deployment)
    LEFT JOIN kv_sizes USING (date, deployment)
)

SELECT
    CAST(date AS DATE) AS date,
    CAST(deployment AS VARCHAR) AS deployment,
    CAST(model AS VARCHAR) AS model,
    CAST(served_model_name AS VARCHAR) AS served_model_name,
    CAST(quantization AS VARCHAR) AS quantization,
    CAST(quantization_label AS VARCHAR) AS quantization_label,
    CAST(dtype AS VARCHAR) AS dtype,
    CAST(tensor_parallel AS INTEGER) AS tensor_parallel,
    CAST(pipeline_parallel AS INTEGER) AS pipeline_parallel,
    CAST(speculative AS BOOLEAN) AS speculative,
    CAST(draft_limit AS INTEGER) AS draft_limit,
    CAST(instances AS BIGINT) AS instances,
    CAST(engines AS BIGINT) AS engines,
    CAST(kv_tokens_per_engine AS DOUBLE) AS kv_tokens_per_engine,
    CAST(kv_tokens AS BIGINT) AS kv_tokens,
    CAST(gpus_per_engine AS DOUBLE) AS gpus_per_engine,
    CAST(gpus_from AS VARCHAR) AS gpus_from
FROM joined
