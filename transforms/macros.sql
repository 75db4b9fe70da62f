-- Conversions that repeat: each is written here once, and every transform uses it.
-- The bands of load and context come from the configuration: transforms/macros.py writes those.

-- numerator / denominator as DOUBLE; null for 0/0 and for any division by zero, never NaN.
CREATE OR REPLACE MACRO ratio(numerator, denominator) AS
    nullif(CAST(numerator AS DOUBLE) / nullif(CAST(denominator AS DOUBLE), 0.0::DOUBLE), 'NaN'::DOUBLE);

-- Whether two rows of deployment_days tell of the same target: what a start-up record does not say, served names and
-- labels may say; where nothing says that two targets are the same, they are not.
CREATE OR REPLACE MACRO same_target(a, b) AS
    coalesce(a.model = b.model, a.served_model_name = b.served_model_name)
    AND coalesce(a.quantization, a.quantization_label) = coalesce(b.quantization, b.quantization_label)
    AND coalesce(a.quantization_label = b.quantization_label, true)
    AND coalesce(a.dtype = b.dtype, true)
    AND coalesce(a.tensor_parallel = b.tensor_parallel, true)
    AND coalesce(a.pipeline_parallel = b.pipeline_parallel, true);

-- What can be: a value beyond it is damage, counts as not known, and is told by reconciliation. Counts of one request or
-- record go to a thousand million, its times to 30 days, and a million requests can run on one engine.
CREATE OR REPLACE MACRO possible_count(value) AS CASE WHEN value >= 0 AND value <= 1e9::DOUBLE THEN value END;
CREATE OR REPLACE MACRO possible_ms(value) AS CASE WHEN value >= 0 AND value <= 2.592e9::DOUBLE THEN value END;
CREATE OR REPLACE MACRO possible_load(value) AS CASE WHEN value >= 0 AND value <= 1e6::DOUBLE THEN value END;
CREATE OR REPLACE MACRO possible_counts(list) AS
    CASE WHEN list_min(list) >= 0 AND list_max(list) <= 1e9::DOUBLE THEN list END;

-- Arrival to last token of a request in ms: as told, else between its moments.
CREATE OR REPLACE MACRO lasted_ms(e2e_ms, arrived_at, finished_at) AS
    coalesce(e2e_ms, (epoch_us(finished_at) - epoch_us(arrived_at)) / 1000);

-- Whether a request decoded for longer than it lasted. Two clocks can tell the two times, one of them in whole seconds.
CREATE OR REPLACE MACRO outlasts(decode_ms, e2e_ms) AS decode_ms > 1.05::DOUBLE * e2e_ms + 1000;

-- Whether a request returned more tokens than it asked for.
CREATE OR REPLACE MACRO over_limit(output_tokens, max_tokens, sequences) AS
    output_tokens > CAST(max_tokens AS HUGEINT) * greatest(coalesce(sequences, 1), 1);

-- Seconds or milliseconds as whole nanoseconds; null where they are too many.
CREATE OR REPLACE MACRO s_to_ns(seconds) AS TRY_CAST(round(seconds * 1e9) AS BIGINT);
CREATE OR REPLACE MACRO ms_to_ns(milliseconds) AS TRY_CAST(round(possible_ms(milliseconds) * 1e6) AS BIGINT);

-- A share between 0 and 1 in whole millionths; null for any other.
CREATE OR REPLACE MACRO to_ppm(share) AS CAST(CASE WHEN share >= 0 AND share <= 1 THEN round(share * 1e6) END AS BIGINT);

-- Whether a running total is less than it was; sums of seconds can differ in their last digits.
CREATE OR REPLACE MACRO fell(now, before) AS now < before * (1 - 1e-9::DOUBLE);

-- What a running total grew by since `before`, the last that the same process counted: null where it fell.
-- A process that was born since the scrape before (`anew`) counts from zero; of any other the growth before its first
-- scrape is not known.
CREATE OR REPLACE MACRO counter_delta(now, before, anew) AS
    CASE
        WHEN now >= before THEN now - before
        WHEN before IS NULL AND anew THEN now
        WHEN NOT fell(now, before) THEN 0
    END;

-- The same, element by element; an element that was not there before was zero.
CREATE OR REPLACE MACRO list_delta(now, before, anew) AS
    CASE
        WHEN
            (before IS NOT NULL OR anew)
            AND list_min(list_transform(now, lambda x, i: x - coalesce(before[i], 0))) >= 0
            THEN list_transform(now, lambda x, i: x - coalesce(before[i], 0))
    END;

-- The running totals of a server histogram at one scrape, without its buckets: asking for the histogram as a whole would
-- have them read. `per_unit` turns its sum into whole units (1e9: s into ns).
CREATE OR REPLACE MACRO histogram_reading(histogram, scraped_at, per_unit) AS
    CASE WHEN histogram.count IS NOT NULL THEN {
        'count': histogram.count,
        'sum': TRY_CAST(round(histogram.sum * per_unit) AS BIGINT),
        'edges': hash(histogram.le),
        'scraped_at': scraped_at
    } END;

-- What a server histogram grew by, and since which scrape its buckets did: -infinity where they count from zero, null
-- where edges or start are not known and the buckets therefore tell nothing.
CREATE OR REPLACE MACRO histogram_delta(now, before, anew) AS
    CASE WHEN now IS NOT NULL THEN {
        'count': counter_delta(now.count, before.count, anew),
        'sum': counter_delta(now.sum, before.sum, anew),
        'since': CASE
            WHEN before IS NULL AND anew THEN '-infinity'::TIMESTAMP
            WHEN before.edges = now.edges AND before.count <= now.count THEN before.scraped_at
        END
    } END;

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

-- How often each value of a group occurs, as MAP; null for a group of nulls. (Far faster than histogram() over many
-- small groups.)
CREATE OR REPLACE MACRO tally(value) AS list_aggregate(list(value) FILTER (value IS NOT NULL), 'histogram');

-- The log-spaced histogram of a group of values.
CREATE OR REPLACE MACRO log_histogram(value) AS tally(log_bucket(value));

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

-- Of a stretch between two scrapes: microseconds covered, and twice the integral of running requests, up to a moment in it.
CREATE OR REPLACE MACRO covered_until(stretch, moment) AS
    stretch.covered + CASE WHEN stretch.known THEN moment - stretch.at_us ELSE 0 END;
CREATE OR REPLACE MACRO twice_until(stretch, moment) AS
    CAST(stretch.twice AS DOUBLE) + CASE
        WHEN stretch.known THEN
            2 * stretch.running * CAST(moment - stretch.at_us AS DOUBLE)
            + (stretch.running_after - stretch.running) * pow(CAST(moment - stretch.at_us AS DOUBLE), 2) / stretch.length_us
        ELSE 0
    END;

-- A second moment, exact: the sum of x * y over the rows of a group.
CREATE OR REPLACE MACRO sum_of_products(x, y) AS sum(CAST(x AS HUGEINT) * y);

-- Counts by bucket of counts that are cumulative over the edges.
CREATE OR REPLACE MACRO bucket_counts(cumulative) AS
    list_transform(cumulative, lambda n, i: n - coalesce(cumulative[i - 1], 0));

-- A histogram with its own edges; null unless every bucket has its edge.
CREATE OR REPLACE MACRO server_histogram(edges, counts) AS
    CASE WHEN len(edges) = len(counts) THEN {'le': edges, 'n': counts} END;

-- Rounds of one draft length, with C_i from the histogram of accepted tokens (element j + 1 counts rounds that accepted j).
CREATE OR REPLACE MACRO length_part(draft_length, rounds, accepted_hist) AS {
    'draft_length': CAST(draft_length AS INTEGER),
    'rounds': CAST(rounds AS BIGINT),
    'accepted_at': list_transform(
        range(1, len(accepted_hist)), lambda i: CAST(list_sum(accepted_hist[i + 1:]) AS BIGINT)
    )
};
