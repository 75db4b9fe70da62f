-- scrapes: one row per scrape of one engine and model, repeated ones left out.
-- Reads snapshots, repeated_scrapes.
--   date                  UTC date of the moment the row was complete; partition column.
--   deployment            Deployment named at ingest; partition column.
--   instance              One server process group; the deployment's name unless said otherwise.
--   source                Input file or URL the row was read from.
--   byte_offset           Where the record starts in the decompressed input. [bytes]
--   ingested_at           When the row was read (UTC); with source, what names its row in ingested_files.
--   scraped_at            Time of the scrape (UTC).
--   engine                Engine number inside the instance; 0 where the metric has no such label.
--   model_name            Served model name.
--   process_started_at    Start of the process or birth of its counters, UTC; a change of more than a second can be a
--                         restart.
--   running               Requests running. [requests]
--   waiting               Requests waiting. [requests]
--   kv_usage              Share of KV cache in use, 0 to 1. [ratio]
--   rounds                Speculative rounds R (running total). [rounds]
--   drafted               Draft tokens D (running total). [tokens]
--   accepted              Accepted draft tokens C (running total). [tokens]
--   accepted_at           C_i for i = 1, 2, … (running totals). [tokens]
--   drafted_at            Draft tokens proposed at position i, where a build exposes it. [tokens]
--   prompt_tokens         Prompt tokens (running total). [tokens]
--   prompt_tokens_cached  Prompt tokens served from a cache (running total). [tokens]
--   generation_tokens     Output tokens N_out (running total). [tokens]
--   preemptions           Preemptions (running total). [preemptions]
--   prefix_queries        Prefix-cache tokens asked for (running total). [tokens]
--   prefix_hits           Prefix-cache tokens found (running total). [tokens]
--   prefix_hit_rate       Old gauge of the prefix hit rate; null where it said none. [ratio]
--   finished              Finished requests by reason (running totals). [requests]
--   waiting_by_reason     Waiting requests by reason. [requests]
--   ttft                  Histogram of time to first token in seconds; one observation a request, with its own edges;
--                         counts cumulative.
--   itl                   Histogram of step time in seconds; one observation a step, with its own edges; counts
--                         cumulative.
--   request_tpot          Histogram of time per output token of a request in seconds, with its own edges; counts
--                         cumulative.
--   e2e                   Histogram of end-to-end time of a request in seconds, with its own edges; counts cumulative.
--   queue                 Histogram of time in queue in seconds, with its own edges; counts cumulative.
--   prefill               Histogram of prefill time in seconds, with its own edges; counts cumulative.
--   decode                Histogram of decode time of a request in seconds, with its own edges; counts cumulative.
--   inference             Histogram of time in the running state in seconds, with its own edges; counts cumulative.
--   prompt_len            Histogram of prompt tokens of a request, with its own edges; counts cumulative.
--   output_len            Histogram of output tokens of a request, with its own edges; counts cumulative.
--   iteration_tokens      Histogram of tokens computed in one engine iteration, with its own edges; counts cumulative.
--   request_preemptions   Histogram of preemptions of a request, with its own edges; counts cumulative.
--   kv_tokens             KV cache size of the engine, from the configuration metric. [tokens]
--   block_size            KV block size, from the configuration metric. [tokens]
-- -----------------------------------------------------------------------------
SELECT found.*
FROM snapshots AS found
LEFT JOIN repeated_scrapes AS repeated
    ON
        found.scraped_at = repeated.scraped_at
        AND found.deployment = repeated.deployment
        AND found.instance = repeated.instance
        AND found.engine = repeated.engine
        AND found.model_name IS NOT DISTINCT FROM repeated.model_name
WHERE
    repeated.scraped_at IS NULL
    OR (found.source = repeated.source AND found.byte_offset IS NOT DISTINCT FROM repeated.byte_offset)
