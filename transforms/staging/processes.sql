-- processes: one row per scrape: which process its counters are of, and whether they can be believed.
-- Reads scrapes.
--   date              UTC date of the moment the row was complete; partition column.
--   deployment        Deployment named at ingest; partition column.
--   instance          One server process group; the deployment's name unless said otherwise.
--   engine            Engine number inside the instance; 0 where the metric has no such label.
--   model_name        Served model name.
--   scraped_at        Time of the scrape (UTC).
--   scraped_before    Time of the scrape before (UTC).
--   running           Requests running. [requests]
--   running_before    Requests running at the scrape before. [requests]
--   waiting           Requests waiting. [requests]
--   kv_usage          Share of KV cache in use, 0 to 1. [ratio]
--   process           Number of the process in its series: counters are differenced inside one.
--   restarted         Whether the process started anew since the scrape before.
--   counts_from_zero  Whether the process was born between two scrapes.
--   damaged           Whether a counter fell though the process went on: the scrape is left out.
-- -----------------------------------------------------------------------------
-- Algorithm: 1. scrapes whose starts differ by a second at most are of one process; a scrape that tells none is of the
-- process that its neighbours tell of. So one odd start makes no restart. 2. A process counts from zero if it was born
-- after the scrape before; any other that comes up (a second server behind the address, another kind of evidence) only
-- gives a base. 3. Where no start is told, a process is new when most counters fell or the bucket edges changed. An
-- exporter can outlive its server and keep its start: then most counters stay below half of what they were for three
-- scrapes. 4. A process never counts down: a scrape at which a counter fell, or from which it falls back, is damaged.
WITH numbers AS MATERIALIZED (
    SELECT *, row_number() OVER () AS series
    FROM (SELECT DISTINCT deployment, instance, engine, model_name FROM scrapes)
),

scraped AS (
    SELECT
        date,
        numbers.*,
        scraped_at,
        possible_load(running) AS running,
        possible_count(waiting) AS waiting,
        kv_usage,
        -- No process was born after it was scraped; clocks may differ.
        CASE WHEN process_started_at <= scraped_at + INTERVAL 1 HOUR THEN process_started_at END AS told_at,
        CASE WHEN itl.count IS NOT NULL AND ttft.count IS NOT NULL THEN hash(itl.le, ttft.le) END AS edges,
        [
            CAST(rounds AS DOUBLE),
            CAST(drafted AS DOUBLE),
            CAST(accepted AS DOUBLE),
            CAST(list_sum(accepted_at) AS DOUBLE),
            CAST(prompt_tokens AS DOUBLE),
            CAST(generation_tokens AS DOUBLE),
            CAST(itl.count AS DOUBLE),
            CAST(ttft.count AS DOUBLE),
            itl.sum
        ] AS counters
    FROM scrapes
    INNER JOIN numbers
        ON
            scrapes.deployment = numbers.deployment
            AND scrapes.instance = numbers.instance
            AND scrapes.engine = numbers.engine
            AND scrapes.model_name IS NOT DISTINCT FROM numbers.model_name
),

-- Dates are computed one after the other: none may see what the next one brings.
neighboured AS MATERIALIZED (
    SELECT
        *,
        lag(scraped_at) OVER along AS scraped_before,
        lag(running) OVER along AS running_before,
        lag(told_at IGNORE NULLS) OVER along AS told_before,
        lead(CASE WHEN told_at IS NOT NULL THEN {'at': told_at, 'date': date} END IGNORE NULLS) OVER along AS told_next,
        CASE WHEN told_next['date'] = date THEN told_next['at'] END AS told_after,
        coalesce(told_at, CASE WHEN told_after <= scraped_at THEN told_after END, told_before) AS born_at,
        lag(edges) OVER along AS edges_before,
        CASE WHEN lead(date) OVER along = date THEN lead(edges) OVER along END AS edges_after,
        coalesce(edges <> edges_before AND edges_before = edges_after, false) AS odd_edges
    FROM scraped
    WINDOW along AS (PARTITION BY series ORDER BY scraped_at)
),

births_apart AS (
    SELECT
        *,
        coalesce(born_at > lag(born_at) OVER (PARTITION BY series ORDER BY born_at) + INTERVAL 1 SECOND, false) AS apart
    FROM (SELECT DISTINCT series, born_at FROM neighboured WHERE born_at IS NOT NULL)
),

-- Processes that tell their start are numbered by it; 0 is one that does not.
births AS (
    SELECT
        series,
        born_at,
        1 + countif(apart) OVER (PARTITION BY series ORDER BY born_at) AS birth
    FROM births_apart
),

born AS MATERIALIZED (
    SELECT
        neighboured.* EXCLUDE (told_at, told_before, told_next, told_after, edges_before, edges_after),
        coalesce(birth, 0) AS birth
    FROM neighboured
    LEFT JOIN births USING (series, born_at)
),

-- Most processes only count up: what follows is asked of the others.
followed AS (
    SELECT series, birth, counters, lag(counters) OVER (PARTITION BY series, birth ORDER BY scraped_at) AS counters_before
    FROM born
),

doubtful AS (
    SELECT DISTINCT series, birth
    FROM followed
    WHERE
        counters_before IS NOT NULL
        AND list_bool_or(
            list_transform(
                counters,
                lambda now, i: coalesce(
                    fell(now, counters_before[i]), (now IS NULL) <> (counters_before[i] IS NULL)
                )
            )
        )
),

readings AS (
    SELECT series, scraped_at, date, birth, unnest(range(len(counters))) AS counter, unnest(counters) AS value
    FROM born
    SEMI JOIN doubtful USING (series, birth)
),

around AS (
    SELECT
        series,
        scraped_at,
        value,
        lag(value) OVER along AS before,
        CASE WHEN lead(date) OVER along = date THEN lead(value) OVER along END AS after
    FROM readings
    WHERE isfinite(value)
    WINDOW along AS (PARTITION BY series, birth, counter ORDER BY scraped_at)
),

-- A counter above both neighbours is wrong; where most of them are, the next scrape is that of a new process.
spikes AS (
    SELECT series, scraped_at
    FROM around
    GROUP BY series, scraped_at
    HAVING bool_or(before <= after AND fell(after, value)) AND 2 * countif(fell(after, value)) <= count(after)
),

compared AS (
    SELECT
        *,
        lag(value) OVER along AS before,
        max(value) OVER (along ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS most
    FROM readings
    ANTI JOIN spikes USING (series, scraped_at)
    WHERE isfinite(value)
    WINDOW along AS (PARTITION BY series, birth, counter ORDER BY scraped_at)
),

falls AS (
    SELECT
        series,
        scraped_at,
        2 * countif(fell(value, before)) > countif(before > 0) AS most_fell,
        2 * countif(value < most / 2) > countif(most > 0) AS low
    FROM compared
    GROUP BY series, scraped_at
),

restarts AS (
    SELECT
        born.* EXCLUDE (counters),
        CASE
            WHEN row_number() OVER same = 1 THEN coalesce(born_at > scraped_before, false)
            WHEN birth = 0
                THEN
                    coalesce(most_fell, false)
                    OR coalesce(
                        edges <> lag(CASE WHEN NOT odd_edges THEN edges END IGNORE NULLS) OVER same AND NOT odd_edges,
                        false
                    )
            ELSE
                coalesce(low AND lag(low) OVER same AND lag(low, 2) OVER same, false)
                AND NOT coalesce(lag(low, 3) OVER same, false)
        END AS restarted
    FROM born
    LEFT JOIN falls USING (series, scraped_at)
    WINDOW same AS (PARTITION BY series, birth ORDER BY scraped_at)
),

lives AS (
    SELECT
        *,
        countif(restarted) OVER (PARTITION BY series, birth ORDER BY scraped_at ROWS UNBOUNDED PRECEDING) AS life
    FROM restarts
),

lived AS (
    SELECT
        series,
        scraped_at,
        value,
        max(value) OVER (
            PARTITION BY series, birth, life, counter ORDER BY scraped_at ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS most
    FROM compared
    INNER JOIN (SELECT series, scraped_at, life FROM lives) AS known USING (series, scraped_at)
),

damages AS (
    SELECT series, scraped_at FROM spikes
    UNION
    SELECT series, scraped_at FROM lived WHERE fell(value, most)
)

SELECT
    CAST(date AS DATE) AS date,
    CAST(deployment AS VARCHAR) AS deployment,
    CAST(instance AS VARCHAR) AS instance,
    CAST(engine AS INTEGER) AS engine,
    CAST(model_name AS VARCHAR) AS model_name,
    CAST(scraped_at AS TIMESTAMP) AS scraped_at,
    CAST(scraped_before AS TIMESTAMP) AS scraped_before,
    CAST(running AS DOUBLE) AS running,
    CAST(running_before AS DOUBLE) AS running_before,
    CAST(waiting AS DOUBLE) AS waiting,
    CAST(kv_usage AS DOUBLE) AS kv_usage,
    CAST(1000 * birth + life AS BIGINT) AS process,
    CAST(restarted AS BOOLEAN) AS restarted,
    CAST(life > 0 AS BOOLEAN) AS counts_from_zero,
    CAST(damages.series IS NOT NULL AS BOOLEAN) AS damaged
FROM lives
LEFT JOIN damages USING (series, scraped_at)
