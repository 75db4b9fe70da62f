-- latency: one row per deployment, date, origin, load band, context band, task.
-- Reads band_totals, cells_snapshots, cells_requests.
--   date                       UTC date of the moment the row was complete; partition column.
--   deployment                 Deployment named at ingest; partition column.
--   origin                     snapshots, requests, log_stats or iterations; origins are never added.
--   load_band                  Band of requests running on the engine; 'unknown' where load is not known.
--   context_band               Band of prompt + half the output tokens; null where the origin has none.
--   task                       Task label; null where the origin has none.
--   requests                   Requests that returned a first token. [requests]
--   tokens                     Output tokens after the first whose decode time is known. [tokens]
--   ttft_ms_p50                Time to first token, p50: point inside its bucket; null where that is open. [ms]
--   ttft_ms_p50_lower          Time to first token, p50: lower edge of its bucket. [ms]
--   ttft_ms_p50_upper          Time to first token, p50: upper edge of its bucket; null where it is open. [ms]
--   ttft_ms_p95                Time to first token, p95: point inside its bucket; null where that is open. [ms]
--   ttft_ms_p95_lower          Time to first token, p95: lower edge of its bucket. [ms]
--   ttft_ms_p95_upper          Time to first token, p95: upper edge of its bucket; null where it is open. [ms]
--   ttft_ms_p99                Time to first token, p99: point inside its bucket; null where that is open. [ms]
--   ttft_ms_p99_lower          Time to first token, p99: lower edge of its bucket. [ms]
--   ttft_ms_p99_upper          Time to first token, p99: upper edge of its bucket; null where it is open. [ms]
--   tpot_ms                    Σ decode time / Σ (N_out - 1), token-weighted. [ms]
--   request_tpot_ms_p50        Time per output token of a request, p50: point inside its bucket; null where that is
--                              open. [ms]
--   request_tpot_ms_p50_lower  Time per output token of a request, p50: lower edge of its bucket. [ms]
--   request_tpot_ms_p50_upper  Time per output token of a request, p50: upper edge of its bucket; null where it is
--                              open. [ms]
--   request_tpot_ms_p95        Time per output token of a request, p95: point inside its bucket; null where that is
--                              open. [ms]
--   request_tpot_ms_p95_lower  Time per output token of a request, p95: lower edge of its bucket. [ms]
--   request_tpot_ms_p95_upper  Time per output token of a request, p95: upper edge of its bucket; null where it is
--                              open. [ms]
--   request_tpot_ms_p99        Time per output token of a request, p99: point inside its bucket; null where that is
--                              open. [ms]
--   request_tpot_ms_p99_lower  Time per output token of a request, p99: lower edge of its bucket. [ms]
--   request_tpot_ms_p99_upper  Time per output token of a request, p99: upper edge of its bucket; null where it is
--                              open. [ms]
--   itl_ms_p50                 Stream gap, p50: point inside its bucket; null where that is open. [ms]
--   itl_ms_p50_lower           Stream gap, p50: lower edge of its bucket. [ms]
--   itl_ms_p50_upper           Stream gap, p50: upper edge of its bucket; null where it is open. [ms]
--   itl_ms_p95                 Stream gap, p95: point inside its bucket; null where that is open. [ms]
--   itl_ms_p95_lower           Stream gap, p95: lower edge of its bucket. [ms]
--   itl_ms_p95_upper           Stream gap, p95: upper edge of its bucket; null where it is open. [ms]
--   itl_ms_p99                 Stream gap, p99: point inside its bucket; null where that is open. [ms]
--   itl_ms_p99_lower           Stream gap, p99: lower edge of its bucket. [ms]
--   itl_ms_p99_upper           Stream gap, p99: upper edge of its bucket; null where it is open. [ms]
--   longest_pause_ms           Longest stream gap; null where only buckets are known. [ms]
--   e2e_ms_p50                 End-to-end time, p50: point inside its bucket; null where that is open. [ms]
--   e2e_ms_p50_lower           End-to-end time, p50: lower edge of its bucket. [ms]
--   e2e_ms_p50_upper           End-to-end time, p50: upper edge of its bucket; null where it is open. [ms]
--   e2e_ms_p95                 End-to-end time, p95: point inside its bucket; null where that is open. [ms]
--   e2e_ms_p95_lower           End-to-end time, p95: lower edge of its bucket. [ms]
--   e2e_ms_p95_upper           End-to-end time, p95: upper edge of its bucket; null where it is open. [ms]
--   e2e_ms_p99                 End-to-end time, p99: point inside its bucket; null where that is open. [ms]
--   e2e_ms_p99_lower           End-to-end time, p99: lower edge of its bucket. [ms]
--   e2e_ms_p99_upper           End-to-end time, p99: upper edge of its bucket; null where it is open. [ms]
--   burstiness                 p99 stream gap / TPOT. [ratio]
--   evidence                   measured, derived or estimated.
-- -----------------------------------------------------------------------------
-- Algorithm: each row of band_totals gets a number, under which its buckets are added up. Server histograms of other
-- edges meet on the edges that all of them have: counts up to such an edge are exact, whatever edges lie between.
WITH bands AS (
    SELECT *, row_number() OVER () AS band
    FROM band_totals
    WHERE origin IN ('snapshots', 'requests')
),

server_cells AS (
    SELECT bands.band, cells.ttft, cells.request_tpot, cells.itl, cells.e2e
    FROM cells_snapshots AS cells
    INNER JOIN bands
        ON
            cells.date = bands.date
            AND cells.deployment = bands.deployment
            AND cells.origin = bands.origin
            AND load_band(cells.load) = bands.load_band
),

server_histograms AS (
    SELECT band, 'ttft_ms' AS figure, ttft.le AS edges, ttft.n AS counts FROM server_cells
    UNION ALL
    SELECT band, 'request_tpot_ms' AS figure, request_tpot.le AS edges, request_tpot.n AS counts FROM server_cells
    UNION ALL
    SELECT band, 'itl_ms' AS figure, itl.le AS edges, itl.n AS counts FROM server_cells
    UNION ALL
    SELECT band, 'e2e_ms' AS figure, e2e.le AS edges, e2e.n AS counts FROM server_cells
),

server_counts AS (
    SELECT band, figure, edges, unnest(edges) AS edge, unnest(counts) AS n
    FROM server_histograms
    WHERE list_sum(counts) > 0
),

edge_sums AS (
    SELECT band, figure, edges, edge, sum(n) AS n
    FROM server_counts
    GROUP BY ALL
),

cumulated AS (
    SELECT *, sum(n) OVER (PARTITION BY band, figure, edges ORDER BY edge) AS cumulative
    FROM edge_sums
),

edge_lists AS (
    SELECT band, figure, count(DISTINCT edges) AS lists
    FROM edge_sums
    GROUP BY ALL
),

common_edges AS (
    SELECT band, figure, edge, sum(cumulative) AS cumulative
    FROM cumulated
    INNER JOIN edge_lists USING (band, figure)
    GROUP BY ALL
    HAVING count(*) = any_value(lists)
),

server_buckets AS (
    SELECT *, cumulative - lag(cumulative, 1, 0) OVER (PARTITION BY band, figure ORDER BY edge) AS n
    FROM common_edges
),

-- Edges are in seconds.
server_quantiles AS (
    SELECT
        band,
        figure,
        list(1e3 * edge ORDER BY edge) AS edges,
        list(n ORDER BY edge) AS counts,
        1 AS ms,
        server_quantile(edges, counts, 0.50) AS p50,
        server_quantile(edges, counts, 0.95) AS p95,
        server_quantile(edges, counts, 0.99) AS p99
    FROM server_buckets
    GROUP BY ALL
),

request_cells AS (
    SELECT bands.band, cells.ttft, cells.request_tpot, cells.itl, cells.e2e, cells.longest_pause_ns
    FROM cells_requests AS cells
    INNER JOIN bands
        ON
            cells.date = bands.date
            AND cells.deployment = bands.deployment
            AND cells.origin = bands.origin
            AND load_band(cells.load) = bands.load_band
            AND cells.context_band IS NOT DISTINCT FROM bands.context_band
            AND cells.task IS NOT DISTINCT FROM bands.task
),

log_counts AS (
    SELECT band, 'ttft_ms' AS figure, unnest(map_keys(ttft)) AS bucket, unnest(map_values(ttft)) AS n FROM request_cells
    UNION ALL
    SELECT
        band,
        'request_tpot_ms' AS figure,
        unnest(map_keys(request_tpot)) AS bucket,
        unnest(map_values(request_tpot)) AS n
    FROM request_cells
    UNION ALL
    SELECT band, 'itl_ms' AS figure, unnest(map_keys(itl)) AS bucket, unnest(map_values(itl)) AS n FROM request_cells
    UNION ALL
    SELECT band, 'e2e_ms' AS figure, unnest(map_keys(e2e)) AS bucket, unnest(map_values(e2e)) AS n FROM request_cells
),

log_buckets AS (
    SELECT band, figure, bucket, sum(n) AS n
    FROM log_counts
    GROUP BY ALL
),

-- Buckets are in nanoseconds.
log_quantiles AS (
    SELECT
        band,
        figure,
        map(list(bucket), list(n)) AS histogram,
        1e-6 AS ms,
        log_quantile(histogram, 0.50) AS p50,
        log_quantile(histogram, 0.95) AS p95,
        log_quantile(histogram, 0.99) AS p99
    FROM log_buckets
    GROUP BY ALL
),

quantiles AS (
    SELECT band, figure, ms, p50, p95, p99 FROM server_quantiles
    UNION ALL
    SELECT band, figure, ms, p50, p95, p99 FROM log_quantiles
),

spreads AS (
    SELECT
        band,
        max(ms * p50.point) FILTER (figure = 'ttft_ms') AS ttft_ms_p50,
        max(ms * p50.lower) FILTER (figure = 'ttft_ms') AS ttft_ms_p50_lower,
        max(ms * p50.upper) FILTER (figure = 'ttft_ms') AS ttft_ms_p50_upper,
        max(ms * p95.point) FILTER (figure = 'ttft_ms') AS ttft_ms_p95,
        max(ms * p95.lower) FILTER (figure = 'ttft_ms') AS ttft_ms_p95_lower,
        max(ms * p95.upper) FILTER (figure = 'ttft_ms') AS ttft_ms_p95_upper,
        max(ms * p99.point) FILTER (figure = 'ttft_ms') AS ttft_ms_p99,
        max(ms * p99.lower) FILTER (figure = 'ttft_ms') AS ttft_ms_p99_lower,
        max(ms * p99.upper) FILTER (figure = 'ttft_ms') AS ttft_ms_p99_upper,
        max(ms * p50.point) FILTER (figure = 'request_tpot_ms') AS request_tpot_ms_p50,
        max(ms * p50.lower) FILTER (figure = 'request_tpot_ms') AS request_tpot_ms_p50_lower,
        max(ms * p50.upper) FILTER (figure = 'request_tpot_ms') AS request_tpot_ms_p50_upper,
        max(ms * p95.point) FILTER (figure = 'request_tpot_ms') AS request_tpot_ms_p95,
        max(ms * p95.lower) FILTER (figure = 'request_tpot_ms') AS request_tpot_ms_p95_lower,
        max(ms * p95.upper) FILTER (figure = 'request_tpot_ms') AS request_tpot_ms_p95_upper,
        max(ms * p99.point) FILTER (figure = 'request_tpot_ms') AS request_tpot_ms_p99,
        max(ms * p99.lower) FILTER (figure = 'request_tpot_ms') AS request_tpot_ms_p99_lower,
        max(ms * p99.upper) FILTER (figure = 'request_tpot_ms') AS request_tpot_ms_p99_upper,
        max(ms * p50.point) FILTER (figure = 'itl_ms') AS itl_ms_p50,
        max(ms * p50.lower) FILTER (figure = 'itl_ms') AS itl_ms_p50_lower,
        max(ms * p50.upper) FILTER (figure = 'itl_ms') AS itl_ms_p50_upper,
        max(ms * p95.point) FILTER (figure = 'itl_ms') AS itl_ms_p95,
        max(ms * p95.lower) FILTER (figure = 'itl_ms') AS itl_ms_p95_lower,
        max(ms * p95.upper) FILTER (figure = 'itl_ms') AS itl_ms_p95_upper,
        max(ms * p99.point) FILTER (figure = 'itl_ms') AS itl_ms_p99,
        max(ms * p99.lower) FILTER (figure = 'itl_ms') AS itl_ms_p99_lower,
        max(ms * p99.upper) FILTER (figure = 'itl_ms') AS itl_ms_p99_upper,
        max(ms * p50.point) FILTER (figure = 'e2e_ms') AS e2e_ms_p50,
        max(ms * p50.lower) FILTER (figure = 'e2e_ms') AS e2e_ms_p50_lower,
        max(ms * p50.upper) FILTER (figure = 'e2e_ms') AS e2e_ms_p50_upper,
        max(ms * p95.point) FILTER (figure = 'e2e_ms') AS e2e_ms_p95,
        max(ms * p95.lower) FILTER (figure = 'e2e_ms') AS e2e_ms_p95_lower,
        max(ms * p95.upper) FILTER (figure = 'e2e_ms') AS e2e_ms_p95_upper,
        max(ms * p99.point) FILTER (figure = 'e2e_ms') AS e2e_ms_p99,
        max(ms * p99.lower) FILTER (figure = 'e2e_ms') AS e2e_ms_p99_lower,
        max(ms * p99.upper) FILTER (figure = 'e2e_ms') AS e2e_ms_p99_upper
    FROM quantiles
    GROUP BY band
),

pauses AS (
    SELECT band, max(longest_pause_ns) / 1e6 AS longest_pause_ms
    FROM request_cells
    GROUP BY band
),

figures AS (
    SELECT
        *,
        ratio(decode_ns, decode_tokens) / 1e6 AS tpot_ms
    FROM bands
    LEFT JOIN spreads USING (band)
    LEFT JOIN pauses USING (band)
)

SELECT
    CAST(date AS DATE) AS date,
    CAST(deployment AS VARCHAR) AS deployment,
    CAST(origin AS VARCHAR) AS origin,
    CAST(load_band AS VARCHAR) AS load_band,
    CAST(context_band AS VARCHAR) AS context_band,
    CAST(task AS VARCHAR) AS task,
    CAST(requests AS BIGINT) AS requests,
    CAST(decode_tokens AS BIGINT) AS tokens,
    CAST(ttft_ms_p50 AS DOUBLE) AS ttft_ms_p50,
    CAST(ttft_ms_p50_lower AS DOUBLE) AS ttft_ms_p50_lower,
    CAST(ttft_ms_p50_upper AS DOUBLE) AS ttft_ms_p50_upper,
    CAST(ttft_ms_p95 AS DOUBLE) AS ttft_ms_p95,
    CAST(ttft_ms_p95_lower AS DOUBLE) AS ttft_ms_p95_lower,
    CAST(ttft_ms_p95_upper AS DOUBLE) AS ttft_ms_p95_upper,
    CAST(ttft_ms_p99 AS DOUBLE) AS ttft_ms_p99,
    CAST(ttft_ms_p99_lower AS DOUBLE) AS ttft_ms_p99_lower,
    CAST(ttft_ms_p99_upper AS DOUBLE) AS ttft_ms_p99_upper,
    CAST(tpot_ms AS DOUBLE) AS tpot_ms,
    CAST(request_tpot_ms_p50 AS DOUBLE) AS request_tpot_ms_p50,
    CAST(request_tpot_ms_p50_lower AS DOUBLE) AS request_tpot_ms_p50_lower,
    CAST(request_tpot_ms_p50_upper AS DOUBLE) AS request_tpot_ms_p50_upper,
    CAST(request_tpot_ms_p95 AS DOUBLE) AS request_tpot_ms_p95,
    CAST(request_tpot_ms_p95_lower AS DOUBLE) AS request_tpot_ms_p95_lower,
    CAST(request_tpot_ms_p95_upper AS DOUBLE) AS request_tpot_ms_p95_upper,
    CAST(request_tpot_ms_p99 AS DOUBLE) AS request_tpot_ms_p99,
    CAST(request_tpot_ms_p99_lower AS DOUBLE) AS request_tpot_ms_p99_lower,
    CAST(request_tpot_ms_p99_upper AS DOUBLE) AS request_tpot_ms_p99_upper,
    CAST(itl_ms_p50 AS DOUBLE) AS itl_ms_p50,
    CAST(itl_ms_p50_lower AS DOUBLE) AS itl_ms_p50_lower,
    CAST(itl_ms_p50_upper AS DOUBLE) AS itl_ms_p50_upper,
    CAST(itl_ms_p95 AS DOUBLE) AS itl_ms_p95,
    CAST(itl_ms_p95_lower AS DOUBLE) AS itl_ms_p95_lower,
    CAST(itl_ms_p95_upper AS DOUBLE) AS itl_ms_p95_upper,
    CAST(itl_ms_p99 AS DOUBLE) AS itl_ms_p99,
    CAST(itl_ms_p99_lower AS DOUBLE) AS itl_ms_p99_lower,
    CAST(itl_ms_p99_upper AS DOUBLE) AS itl_ms_p99_upper,
    CAST(longest_pause_ms AS DOUBLE) AS longest_pause_ms,
    CAST(e2e_ms_p50 AS DOUBLE) AS e2e_ms_p50,
    CAST(e2e_ms_p50_lower AS DOUBLE) AS e2e_ms_p50_lower,
    CAST(e2e_ms_p50_upper AS DOUBLE) AS e2e_ms_p50_upper,
    CAST(e2e_ms_p95 AS DOUBLE) AS e2e_ms_p95,
    CAST(e2e_ms_p95_lower AS DOUBLE) AS e2e_ms_p95_lower,
    CAST(e2e_ms_p95_upper AS DOUBLE) AS e2e_ms_p95_upper,
    CAST(e2e_ms_p99 AS DOUBLE) AS e2e_ms_p99,
    CAST(e2e_ms_p99_lower AS DOUBLE) AS e2e_ms_p99_lower,
    CAST(e2e_ms_p99_upper AS DOUBLE) AS e2e_ms_p99_upper,
    CAST(ratio(itl_ms_p99, tpot_ms) AS DOUBLE) AS burstiness,
    CAST('measured' AS VARCHAR) AS evidence
FROM figures
