-- Conversions that repeat: each is written here once, and every transform uses it.
-- The bands of load and context come from the configuration: transforms/macros.py writes those.

-- numerator / denominator as DOUBLE; null for 0/0 and for any division by zero, never NaN.
CREATE OR REPLACE MACRO ratio(numerator, denominator) AS
    nullif(CAST(numerator AS DOUBLE) / nullif(CAST(denominator AS DOUBLE), 0.0::DOUBLE), 'NaN'::DOUBLE);

-- Seconds or milliseconds as whole nanoseconds.
CREATE OR REPLACE MACRO s_to_ns(seconds) AS CAST(round(seconds * 1e9) AS BIGINT);
CREATE OR REPLACE MACRO ms_to_ns(milliseconds) AS CAST(round(milliseconds * 1e6) AS BIGINT);

-- A share between 0 and 1 in whole millionths.
CREATE OR REPLACE MACRO to_ppm(share) AS CAST(round(share * 1e6) AS BIGINT);

-- What a running total grew by: since `before`, or since zero where the process started anew in between.
CREATE OR REPLACE MACRO counter_delta(now, before, restarted) AS
    CASE WHEN restarted THEN now ELSE now - before END;

-- Requests running as cells keep them: a mean rounded half up; exact to 64, above that the lower edge of a step of
-- about 5 % (14 steps to a doubling, so that 65, 129, 257, … are edges).
CREATE OR REPLACE MACRO load_code(running) AS
    CASE
        WHEN floor(running + 0.5::DOUBLE) <= 64 THEN CAST(floor(running + 0.5::DOUBLE) AS INTEGER)
        ELSE CAST(floor(64 * pow(2, (ceil(14 * log2(floor(running + 0.5::DOUBLE) / 64)) - 1) / 14)) + 1 AS INTEGER)
    END;

-- greedy at temperature 0, sampled above it, null where it is not said.
CREATE OR REPLACE MACRO temperature_class(temperature) AS
    CASE WHEN temperature = 0 THEN 'greedy' WHEN temperature > 0 THEN 'sampled' END;

-- Band of output tokens; null without output.
CREATE OR REPLACE MACRO output_band(tokens) AS
    CASE
        WHEN tokens > 500 THEN '501+'
        WHEN tokens > 100 THEN '101-500'
        WHEN tokens > 20 THEN '21-100'
        WHEN tokens > 0 THEN '1-20'
    END;

-- Log-spaced bucket b with 1.02^b <= value < 1.02^(b+1); -1 holds 0. The logarithm alone can miss at an edge by its
-- last bit, so values that close to one are compared with the edge itself.
CREATE OR REPLACE MACRO log_bucket(value) AS
    CASE
        WHEN value >= 1 THEN
            CASE
                WHEN abs(ln(value) / ln(1.02::DOUBLE) - round(ln(value) / ln(1.02::DOUBLE))) > 1e-9
                    THEN CAST(floor(ln(value) / ln(1.02::DOUBLE)) AS INTEGER)
                WHEN value >= pow(1.02::DOUBLE, round(ln(value) / ln(1.02::DOUBLE)))
                    THEN CAST(round(ln(value) / ln(1.02::DOUBLE)) AS INTEGER)
                ELSE CAST(round(ln(value) / ln(1.02::DOUBLE)) AS INTEGER) - 1
            END
        WHEN value >= 0 THEN -1
    END;

-- Edges of a bucket, and the value that is at most 1 % away from everything in it.
CREATE OR REPLACE MACRO log_bucket_lower(bucket) AS
    CASE WHEN bucket >= 0 THEN pow(1.02::DOUBLE, bucket) ELSE 0.0::DOUBLE END;
CREATE OR REPLACE MACRO log_bucket_upper(bucket) AS
    CASE WHEN bucket >= 0 THEN pow(1.02::DOUBLE, bucket + 1) ELSE 0.0::DOUBLE END;
CREATE OR REPLACE MACRO log_bucket_value(bucket) AS
    CASE WHEN bucket >= 0 THEN pow(1.02::DOUBLE, bucket + 0.5::DOUBLE) ELSE 0.0::DOUBLE END;

-- How many leading elements of `counts` add up to less than `rank` (binary search; up to 4,095 elements).
CREATE OR REPLACE MACRO elements_below(counts, rank) AS
    list_reduce(
        [2048, 1024, 512, 256, 128, 64, 32, 16, 8, 4, 2, 1],
        lambda below, stride: CASE
            WHEN below + stride <= len(counts) AND list_sum(counts[:below + stride]) < rank THEN below + stride
            ELSE below
        END,
        0
    );

-- Quantile of a log-spaced histogram (nearest rank) as STRUCT(point, lower, upper): the point is within 1 % of the exact
-- value, the edges hold it for certain; null without observations.
CREATE OR REPLACE MACRO log_quantile(histogram, share) AS
    list_transform(
        [list_sort(map_entries(histogram))],
        lambda buckets: list_transform(
            [list_transform(buckets, lambda bucket: bucket.value)],
            lambda counts: list_transform(
                [buckets[elements_below(counts, greatest(ceil(share * list_sum(counts) - 1e-9), 1)) + 1].key],
                lambda bucket: CASE WHEN bucket IS NOT NULL THEN {
                    'point': log_bucket_value(bucket),
                    'lower': log_bucket_lower(bucket),
                    'upper': log_bucket_upper(bucket)
                } END
            )[1]
        )[1]
    )[1];

-- Quantile of a server histogram (upper edges, counts by bucket) as STRUCT(point, lower, upper): the point interpolates
-- inside the bucket; above the last finite edge only the lower edge is known, so point and upper edge are null.
CREATE OR REPLACE MACRO server_quantile(edges, counts, share) AS
    list_transform(
        [elements_below(counts, greatest(share * list_sum(counts), 1e-9))],
        lambda below: CASE WHEN below < len(counts) THEN {
            'point': CASE
                WHEN isfinite(edges[below + 1]) THEN
                    coalesce(edges[below], 0.0::DOUBLE)
                    + (edges[below + 1] - coalesce(edges[below], 0.0::DOUBLE))
                    * ratio(greatest(share * list_sum(counts) - coalesce(list_sum(counts[:below]), 0), 0), counts[below + 1])
            END,
            'lower': coalesce(edges[below], 0.0::DOUBLE),
            'upper': CASE WHEN isfinite(edges[below + 1]) THEN edges[below + 1] END
        } END
    )[1];
