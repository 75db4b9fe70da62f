-- repeated_scrapes: one row per scrape of one engine and model that several rows tell, and which of them counts.
-- Reads snapshots.
--   deployment   Deployment named at ingest; partition column.
--   instance     One server process group; the deployment's name unless said otherwise.
--   engine       Engine number inside the instance; 0 where the metric has no such label.
--   model_name   Served model name.
--   scraped_at   Time of the scrape (UTC).
--   source       Input file or URL the row was read from.
--   byte_offset  Where the record starts in the decompressed input. [bytes]
-- -----------------------------------------------------------------------------
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

SELECT
    CAST(deployment AS VARCHAR) AS deployment,
    CAST(instance AS VARCHAR) AS instance,
    CAST(engine AS INTEGER) AS engine,
    CAST(model_name AS VARCHAR) AS model_name,
    CAST(scraped_at AS TIMESTAMP) AS scraped_at,
    CAST(kept.source AS VARCHAR) AS source,
    CAST(kept.byte_offset AS BIGINT) AS byte_offset
FROM repeated
