WITH repeated AS (
    SELECT
        deployment,
        instance,
        engine,
        model_name,
        scraped_at,
        min({'source': source, 'byte_offset': byte_offset}) AS kept
    FROM snapshots
    GROUP BY ALL
    HAVING count(*) > 1
)

SELECT found.*
FROM snapshots AS found
LEFT JOIN repeated
    ON
        found.scraped_at = repeated.scraped_at
        AND found.deployment = repeated.deployment
        AND found.instance = repeated.instance
        AND found.engine = repeated.engine
        AND found.model_name IS NOT DISTINCT FROM repeated.model_name
WHERE
    repeated.kept IS NULL
    OR (
        found.source = repeated.kept.source
        AND found.byte_offset IS NOT DISTINCT FROM repeated.kept.byte_offset
    )
