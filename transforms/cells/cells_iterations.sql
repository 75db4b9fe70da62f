WITH measured AS (
    SELECT
        *,
        context_tokens > 0 AS prefill,
        ms_to_ns(elapsed_ms) AS elapsed_ns
    FROM iterations
    WHERE NOT coalesce(dummy, false)
),

cells AS (
    SELECT
        date,
        deployment,
        instance,
        engine,
        hour(logged_at) AS hour,
        hour(logged_at) * 6 + minute(logged_at) // 10 AS block,
        load_code(generation_requests) AS load,
        coalesce(prefill, false) AS prefill,
        CASE WHEN NOT coalesce(prefill, false) THEN generation_tokens END AS scheduled_tokens,
        count(*) AS n,
        sum(generation_requests) AS generation_requests,
        sum(generation_tokens) AS generation_tokens,
        sum(context_requests) AS context_requests,
        sum(context_tokens) AS context_tokens,
        histogram(log_bucket(elapsed_ns)) AS elapsed,
        count(elapsed_ns) AS elapsed_n,
        sum(elapsed_ns) AS elapsed_sum,
        max(elapsed_ns) AS elapsed_max,
        sum_of_products(elapsed_ns, elapsed_ns) AS elapsed_elapsed
    FROM measured
    GROUP BY ALL
)

SELECT
    CAST(date AS DATE) AS date,
    CAST(deployment AS VARCHAR) AS deployment,
    CAST(instance AS VARCHAR) AS instance,
    CAST(engine AS INTEGER) AS engine,
    CAST('iterations' AS VARCHAR) AS origin,
    CAST(hour AS TINYINT) AS hour,
    CAST(block AS SMALLINT) AS block,
    CAST(load AS INTEGER) AS load,
    CAST(prefill AS BOOLEAN) AS prefill,
    CAST(scheduled_tokens AS INTEGER) AS scheduled_tokens,
    CAST(n AS BIGINT) AS n,
    CAST(generation_requests AS BIGINT) AS generation_requests,
    CAST(generation_tokens AS BIGINT) AS generation_tokens,
    CAST(context_requests AS BIGINT) AS context_requests,
    CAST(context_tokens AS BIGINT) AS context_tokens,
    CAST(elapsed AS MAP(INTEGER, BIGINT)) AS elapsed,
    CAST(elapsed_n AS BIGINT) AS elapsed_n,
    CAST(elapsed_sum AS BIGINT) AS elapsed_sum,
    CAST(elapsed_max AS BIGINT) AS elapsed_max,
    CAST(elapsed_elapsed AS HUGEINT) AS elapsed_elapsed
FROM cells
