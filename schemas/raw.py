"""The raw tables: what ingest writes, one fact a row."""

from __future__ import annotations

from .table import Column, Table

HISTOGRAM = "STRUCT(le DOUBLE[], n BIGINT[], sum DOUBLE, count BIGINT)"
"""A server histogram as found: upper edges in the metric's own unit (+Inf last), cumulative counts, sum, count."""

DATE = Column("date", "DATE", "UTC date of the moment the row was complete; partition column.", nullable=False)
DEPLOYMENT = Column("deployment", "VARCHAR", "Deployment named at ingest; partition column.", nullable=False)
INSTANCE = Column(
    "instance", "VARCHAR", "One server process group; the deployment's name unless said otherwise.", nullable=False
)
SOURCE = Column("source", "VARCHAR", "Input file or URL the row was read from.", nullable=False)
BYTE_OFFSET = Column("byte_offset", "BIGINT", "Where the record starts in the decompressed input.", "bytes")
INGESTED_AT = Column(
    "ingested_at", "TIMESTAMP", "When the row was read (UTC); with source, what names its row in ingested_files."
)
HEAD = (DATE, DEPLOYMENT, INSTANCE, SOURCE)


def _histogram(name: str, what: str, metric: str) -> Column:
    return Column(name, HISTOGRAM, f"Histogram of {what}, with its own edges; counts cumulative.", None, source=metric)


DEPLOYMENTS = Table(
    "deployments",
    "raw",
    "what one server start said of itself, or what was said of a deployment at ingest (started_at null)",
    (
        *HEAD,
        Column("started_at", "TIMESTAMP", "Time of the first start-up record (UTC); null for labels without a log."),
        Column("vllm_version", "VARCHAR", "Version the server printed.", source="Initializing a V1 LLM engine"),
        Column("engine_version", "VARCHAR", "Engine generation: V0 or V1."),
        Column("model", "VARCHAR", "Target model as given to the server."),
        Column("served_model_name", "VARCHAR", "First served model name, as metrics and responses show it."),
        Column("draft_method", "VARCHAR", "Speculative method; null without speculation."),
        Column("draft_model", "VARCHAR", "Draft model or head."),
        Column("draft_limit", "INTEGER", "Configured maximum draft length K.", "tokens"),
        Column(
            "draft_schedule", "VARCHAR", "num_speculative_tokens_per_batch_size as JSON, under dynamic speculation."
        ),
        Column("draft_quantization", "VARCHAR", "Quantization of the draft model; null when none or not said."),
        Column("acceptance_rule", "VARCHAR", "Rejection-sampling rule where the start-up record names one."),
        Column("speculative", "BOOLEAN", "Whether the start-up record configures speculation; null when not known."),
        Column("quantization", "VARCHAR", "Quantization of the target; null when none or not said."),
        Column("dtype", "VARCHAR", "Data type of the target, without the torch prefix."),
        Column("kv_cache_dtype", "VARCHAR", "Data type of the KV cache as printed."),
        Column("tensor_parallel", "INTEGER", "Tensor-parallel size.", "GPUs"),
        Column("pipeline_parallel", "INTEGER", "Pipeline-parallel size.", "GPUs"),
        Column("data_parallel", "INTEGER", "Data-parallel size.", "engines"),
        Column("max_num_seqs", "INTEGER", "Largest number of running requests.", "requests"),
        Column("max_model_len", "INTEGER", "Longest context.", "tokens"),
        Column("kv_tokens", "BIGINT", "KV cache size: least over workers, sum over engines.", "tokens"),
        Column("block_size", "INTEGER", "KV block size.", "tokens"),
        Column("enforce_eager", "BOOLEAN", "Whether graph capture is off."),
        Column("prefix_caching", "BOOLEAN", "Whether prefix caching is on."),
        Column("lora", "BOOLEAN", "Whether LoRA is enabled."),
        Column("capture_sizes", "INTEGER[]", "Captured graph sizes, where printed.", "tokens"),
        Column("args", "VARCHAR", "The non-default arguments as JSON, secrets left out.", source="non-default args"),
        Column("labels", "MAP(VARCHAR, VARCHAR)", "Labels given at ingest; the latest value of each key holds."),
        Column("labelled_at", "TIMESTAMP", "When the labels were given (UTC); null where none were."),
    ),
    key=("deployment", "instance", "started_at", "labels", "args", "model", "kv_tokens"),
    moment=(
        "started_at",
        "labelled_at",
    ),
)

SNAPSHOTS = Table(
    "snapshots",
    "raw",
    "one scrape of one engine and model",
    (
        *HEAD,
        BYTE_OFFSET,
        INGESTED_AT,
        Column("scraped_at", "TIMESTAMP", "Time of the scrape (UTC).", nullable=False),
        Column(
            "engine",
            "INTEGER",
            "Engine number inside the instance; 0 where the metric has no such label.",
            nullable=False,
        ),
        Column("model_name", "VARCHAR", "Served model name."),
        Column(
            "process_started_at",
            "TIMESTAMP",
            "Start of the process or birth of its counters, UTC; a change of more than a second can be a restart.",
        ),
        Column("running", "DOUBLE", "Requests running.", "requests", source="num_requests_running"),
        Column("waiting", "DOUBLE", "Requests waiting.", "requests", source="num_requests_waiting"),
        Column("kv_usage", "DOUBLE", "Share of KV cache in use, 0 to 1.", "ratio", source="kv_cache_usage_perc"),
        Column("rounds", "BIGINT", "Speculative rounds R (running total).", "rounds", source="spec_decode_num_drafts"),
        Column("drafted", "BIGINT", "Draft tokens D (running total).", "tokens", source="spec_decode_num_draft_tokens"),
        Column(
            "accepted",
            "BIGINT",
            "Accepted draft tokens C (running total).",
            "tokens",
            source="spec_decode_num_accepted_tokens",
        ),
        Column(
            "accepted_at",
            "BIGINT[]",
            "C_i for i = 1, 2, … (running totals).",
            "tokens",
            source="spec_decode_num_accepted_tokens_per_pos",
        ),
        Column(
            "drafted_at",
            "BIGINT[]",
            "Draft tokens proposed at position i, where a build exposes it.",
            "tokens",
            source="spec_decode_num_draft_tokens_per_pos",
        ),
        Column("prompt_tokens", "BIGINT", "Prompt tokens (running total).", "tokens", source="prompt_tokens"),
        Column(
            "prompt_tokens_cached",
            "BIGINT",
            "Prompt tokens served from a cache (running total).",
            "tokens",
            source="prompt_tokens_cached",
        ),
        Column(
            "generation_tokens", "BIGINT", "Output tokens N_out (running total).", "tokens", source="generation_tokens"
        ),
        Column("preemptions", "BIGINT", "Preemptions (running total).", "preemptions", source="num_preemptions"),
        Column(
            "prefix_queries",
            "BIGINT",
            "Prefix-cache tokens asked for (running total).",
            "tokens",
            source="prefix_cache_queries",
        ),
        Column(
            "prefix_hits", "BIGINT", "Prefix-cache tokens found (running total).", "tokens", source="prefix_cache_hits"
        ),
        Column(
            "prefix_hit_rate",
            "DOUBLE",
            "Old gauge of the prefix hit rate; null where it said none.",
            "ratio",
            source="gpu_prefix_cache_hit_rate",
        ),
        Column(
            "finished",
            "MAP(VARCHAR, BIGINT)",
            "Finished requests by reason (running totals).",
            "requests",
            source="request_success",
        ),
        Column(
            "waiting_by_reason",
            "MAP(VARCHAR, DOUBLE)",
            "Waiting requests by reason.",
            "requests",
            source="num_requests_waiting_by_reason",
        ),
        _histogram("ttft", "time to first token in seconds; one observation a request", "time_to_first_token_seconds"),
        _histogram("itl", "step time in seconds; one observation a step", "inter_token_latency_seconds"),
        _histogram(
            "request_tpot", "time per output token of a request in seconds", "request_time_per_output_token_seconds"
        ),
        _histogram("e2e", "end-to-end time of a request in seconds", "e2e_request_latency_seconds"),
        _histogram("queue", "time in queue in seconds", "request_queue_time_seconds"),
        _histogram("prefill", "prefill time in seconds", "request_prefill_time_seconds"),
        _histogram("decode", "decode time of a request in seconds", "request_decode_time_seconds"),
        _histogram("inference", "time in the running state in seconds", "request_inference_time_seconds"),
        _histogram("prompt_len", "prompt tokens of a request", "request_prompt_tokens"),
        _histogram("output_len", "output tokens of a request", "request_generation_tokens"),
        _histogram("iteration_tokens", "tokens computed in one engine iteration", "iteration_tokens_total"),
        _histogram("request_preemptions", "preemptions of a request", "request_num_preemptions"),
        Column(
            "kv_tokens",
            "BIGINT",
            "KV cache size of the engine, from the configuration metric.",
            "tokens",
            source="cache_config_info",
        ),
        Column(
            "block_size",
            "INTEGER",
            "KV block size, from the configuration metric.",
            "tokens",
            source="cache_config_info",
        ),
    ),
    key=("deployment", "instance", "engine", "model_name", "scraped_at"),
    moment=("scraped_at",),
)

REQUESTS = Table(
    "requests",
    "raw",
    "one finished or failed request",
    (
        *HEAD,
        BYTE_OFFSET,
        INGESTED_AT,
        Column(
            "format",
            "VARCHAR",
            "Kind of input the row came from (responses, bench, aiperf, guidellm, otlp).",
            nullable=False,
        ),
        Column("request_id", "VARCHAR", "Request id as client and server know it.", nullable=False),
        Column("model_name", "VARCHAR", "Model that answered."),
        Column("arrived_at", "TIMESTAMP", "Arrival of the request (UTC)."),
        Column("finished_at", "TIMESTAMP", "End of the request (UTC)."),
        Column("status", "VARCHAR", "ok, failed, aborted or unknown.", nullable=False),
        Column("status_code", "INTEGER", "HTTP status where known."),
        Column("finish_reason", "VARCHAR", "stop, length, abort, error, repetition, … as reported."),
        Column("sequences", "INTEGER", "Sequences asked for (n); null where not said."),
        Column("prompt_tokens", "BIGINT", "Prompt tokens.", "tokens"),
        Column("cached_tokens", "BIGINT", "Prompt tokens served from a cache.", "tokens"),
        Column("output_tokens", "BIGINT", "Tokens returned N_out, from usage, never from counting chunks.", "tokens"),
        Column(
            "steps", "BIGINT", "Steps where the input itself gives them; null otherwise (staging decides).", "steps"
        ),
        Column(
            "ttft_ms",
            "DOUBLE",
            "Arrival to first token at the server (scheduling + queue where only those are given).",
            "ms",
        ),
        Column("client_ttft_ms", "DOUBLE", "First token as the client saw it, network included.", "ms"),
        Column("queue_ms", "DOUBLE", "Time in queue.", "ms"),
        Column("prefill_ms", "DOUBLE", "Prefill time.", "ms"),
        Column("decode_ms", "DOUBLE", "First to last token.", "ms"),
        Column("e2e_ms", "DOUBLE", "Arrival to last token.", "ms"),
        Column("gaps_ms", "FLOAT[]", "Gaps between consecutive returns.", "ms"),
        Column("gaps_from", "VARCHAR", "client or server: whose clock the gaps are from."),
        Column("decode_from", "VARCHAR", "client or server: whose clock decode_ms is from."),
        Column(
            "rounds",
            "BIGINT",
            "Speculative rounds R; null where the input does not tell.",
            "rounds",
            source="num_spec_steps",
        ),
        Column("drafted", "BIGINT", "Draft tokens D.", "tokens", source="num_draft_tokens"),
        Column(
            "accepted",
            "BIGINT",
            "Accepted draft tokens C, truncated ones included.",
            "tokens",
            source="num_accepted_draft_tokens",
        ),
        Column("draft_limit", "INTEGER", "Configured draft length K.", "tokens", source="num_spec_tokens"),
        Column(
            "accepted_hist",
            "BIGINT[]",
            "Rounds by accepted tokens: element j + 1 counts rounds that accepted j.",
            "rounds",
            source="acceptance_histogram",
        ),
        Column(
            "accepted_hist_by_length",
            "MAP(INTEGER, BIGINT[])",
            "The same histogram for each draft length.",
            "rounds",
            source="acceptance_histogram_by_draft_length",
        ),
        Column(
            "step_accepted", "INTEGER[]", "Accepted tokens of each drafted step.", "tokens", source="per_step_accepted"
        ),
        Column("step_drafted", "INTEGER[]", "Draft length of each drafted step.", "tokens", source="per_step_drafted"),
        Column("preemptions", "BIGINT", "Preemptions of the request, where given.", "preemptions"),
        Column("temperature", "DOUBLE", "Sampling temperature; null where not said."),
        Column("top_p", "DOUBLE", "Nucleus-sampling mass; null where not said."),
        Column("max_tokens", "BIGINT", "Output cap asked for.", "tokens"),
        Column("task", "VARCHAR", "Task label of the request."),
        Column("lora", "VARCHAR", "LoRA adapter of the request."),
        Column("tags", "MAP(VARCHAR, VARCHAR)", "Other labels of the request; never prompt or output text."),
        Column("prompt_hash", "VARCHAR", "Hash of the prompt, only where asked for."),
        Column("output_hash", "VARCHAR", "Hash of the output, only where asked for."),
        Column("output_prefix_hashes", "UBIGINT[]", "Chained hash after every 16 output tokens, only where asked for."),
        Column(
            "distinct_4gram_share",
            "DOUBLE",
            "Distinct 4-grams over all 4-grams of the output, only where asked for.",
            "ratio",
        ),
    ),
    key=("deployment", "request_id", "format"),
    moment=(
        "finished_at",
        "arrived_at",
    ),
)

ITERATIONS = Table(
    "iterations",
    "raw",
    "one engine iteration from the log",
    (
        *HEAD,
        BYTE_OFFSET,
        INGESTED_AT,
        Column("logged_at", "TIMESTAMP", "Time of the record (UTC).", nullable=False),
        Column("engine", "INTEGER", "Engine number."),
        Column("process", "VARCHAR", "Innermost process prefix of the record, for example APIServer pid=7."),
        Column("iteration", "BIGINT", "Iteration number as printed."),
        Column("context_requests", "BIGINT", "Requests with prefill work.", "requests"),
        Column("context_tokens", "BIGINT", "Prefill tokens computed.", "tokens"),
        Column("generation_requests", "BIGINT", "Requests decoding.", "requests"),
        Column(
            "generation_tokens", "BIGINT", "Scheduled decode positions, drafts (and recomputes) included.", "tokens"
        ),
        Column("elapsed_ms", "DOUBLE", "Elapsed time of the iteration.", "ms"),
        Column("kv_usage", "DOUBLE", "Share of KV cache in use, 0 to 1.", "ratio"),
        Column("dummy", "BOOLEAN", "An idle iteration of a data-parallel group."),
    ),
    key=("deployment", "instance", "process", "engine", "iteration", "logged_at"),
    moment=("logged_at",),
)

LOG_STATS = Table(
    "log_stats",
    "raw",
    "one stats record of the log with its spec record where one belongs to it, or a spec record of no engine",
    (
        *HEAD,
        BYTE_OFFSET,
        INGESTED_AT,
        Column("logged_at", "TIMESTAMP", "Time of the record (UTC).", nullable=False),
        Column(
            "engine", "INTEGER", "Engine number; null for a spec record that belongs to no engine, or a sum of engines."
        ),
        Column("engines", "INTEGER", "Engines summed in the record (Aggregated); null for one engine.", "engines"),
        Column("process", "VARCHAR", "Innermost process prefix of the record."),
        Column("prompt_tps", "DOUBLE", "Average prompt throughput of the window.", "tokens/s"),
        Column("generation_tps", "DOUBLE", "Average generation throughput of the window.", "tokens/s"),
        Column("running", "DOUBLE", "Requests running at the instant of the line.", "requests"),
        Column("waiting", "DOUBLE", "Requests waiting at the instant of the line.", "requests"),
        Column("kv_usage", "DOUBLE", "Share of KV cache in use, 0 to 1.", "ratio"),
        Column("prefix_hit_rate", "DOUBLE", "Prefix-cache hit rate, 0 to 1.", "ratio"),
        Column("preemptions", "BIGINT", "Preemptions where printed; silence is null, not zero.", "preemptions"),
        Column("spec_window_s", "DOUBLE", "Window of the spec record: drafted / drafted throughput.", "s"),
        Column("rounds", "BIGINT", "Best estimate of R from the printed figures (V0: running total).", "rounds"),
        Column("rounds_min", "BIGINT", "Least R for which every printed figure rounds right.", "rounds"),
        Column("rounds_max", "BIGINT", "Greatest R for which every printed figure rounds right.", "rounds"),
        Column("drafted", "BIGINT", "Draft tokens D of the window (V0: running total).", "tokens"),
        Column(
            "accepted", "BIGINT", "Accepted tokens C of the window (V0: running total, with another meaning).", "tokens"
        ),
        Column("emitted", "BIGINT", "V0 only: tokens emitted (running total).", "tokens"),
        Column("survival", "DOUBLE[]", "Printed acceptance rate by position, 0 to 1.", "ratio"),
        Column("printed_length", "DOUBLE", "Mean acceptance length as printed, whatever its meaning.", "tokens"),
        Column("draft_limit", "INTEGER", "K: V0 as printed, V1 from the start-up record, else null.", "tokens"),
        Column("wording", "VARCHAR", "Which wording the spec record had (0.8.3, 0.8.5, 0.9, 0.10.2, V0)."),
        Column("cumulative", "BOOLEAN", "True where the totals run since the start (V0)."),
        Column("proposal_ms", "DOUBLE", "V0 stage time: draft.", "ms"),
        Column("scoring_ms", "DOUBLE", "V0 stage time: target forward.", "ms"),
        Column("verification_ms", "DOUBLE", "V0 stage time: acceptance.", "ms"),
    ),
    key=(
        "deployment",
        "instance",
        "process",
        "engine",
        "logged_at",
        "drafted",
        "accepted",
        "running",
        "generation_tps",
    ),
    moment=("logged_at",),
)

EVENTS = Table(
    "events",
    "raw",
    "anything else in the log worth knowing",
    (
        *HEAD,
        BYTE_OFFSET,
        INGESTED_AT,
        Column(
            "logged_at",
            "TIMESTAMP",
            "Time of the record (UTC); of the record before where it has none.",
            nullable=False,
        ),
        Column("process", "VARCHAR", "Innermost process prefix of the record."),
        Column("level", "VARCHAR", "Level as printed."),
        Column(
            "kind",
            "VARCHAR",
            "abort, preemption, compilation, warmup, connector, traceback, death, request_parameters, other.",
            nullable=False,
        ),
        Column("message", "VARCHAR", "Message without prompt or output text, cut at 2,000 characters.", nullable=False),
        Column(
            "records",
            "BIGINT",
            "Records that the row stands for: requests with the same parameters are counted.",
            "records",
        ),
    ),
    key=("deployment", "instance", "process", "logged_at", "kind", "message"),
    moment=("logged_at",),
)

RUN_TOTALS = Table(
    "run_totals",
    "raw",
    "the totals a client tool printed for its run",
    (
        *HEAD,
        BYTE_OFFSET,
        INGESTED_AT,
        Column("tool", "VARCHAR", "vllm-bench, aiperf or guidellm.", nullable=False),
        Column("started_at", "TIMESTAMP", "Start of the run (UTC)."),
        Column("finished_at", "TIMESTAMP", "End of the run (UTC).", nullable=False),
        Column("requests", "BIGINT", "Completed requests.", "requests"),
        Column("failed", "BIGINT", "Failed requests.", "requests"),
        Column("prompt_tokens", "BIGINT", "Prompt tokens.", "tokens"),
        Column("output_tokens", "BIGINT", "Output tokens.", "tokens"),
        Column("rounds", "BIGINT", "Rounds R where printed.", "rounds"),
        Column("drafted", "BIGINT", "Draft tokens D where printed.", "tokens"),
        Column("accepted", "BIGINT", "Accepted tokens C where printed.", "tokens"),
        Column("figures", "MAP(VARCHAR, DOUBLE)", "Every other number the tool printed, under its own name."),
    ),
    key=("deployment", "instance", "tool", "finished_at", "requests", "output_tokens"),
    moment=("finished_at",),
)

QUALITY = Table(
    "quality",
    "raw",
    "one evaluation figure",
    (
        *HEAD,
        BYTE_OFFSET,
        INGESTED_AT,
        Column("task", "VARCHAR", "Evaluation task.", nullable=False),
        Column("metric", "VARCHAR", "Metric name, filter included.", nullable=False),
        Column("value", "DOUBLE", "Value of the metric as reported.", nullable=False),
        Column("stderr", "DOUBLE", "Standard error as reported."),
        Column("n", "BIGINT", "Samples.", "samples"),
        Column("higher_is_better", "BOOLEAN", "Direction as reported; null where not said."),
        Column("evaluated_at", "TIMESTAMP", "When it was evaluated (UTC).", nullable=False),
    ),
    key=("deployment", "task", "metric", "evaluated_at", "value"),
    moment=("evaluated_at",),
)

OTHER_SAMPLES = Table(
    "other_samples",
    "raw",
    "a sample of a vllm: series that no column takes",
    (
        *HEAD,
        BYTE_OFFSET,
        INGESTED_AT,
        Column("scraped_at", "TIMESTAMP", "Time of the scrape (UTC).", nullable=False),
        Column("metric", "VARCHAR", "Sample name as found.", nullable=False),
        Column("labels", "MAP(VARCHAR, VARCHAR)", "Labels, unescaped."),
        Column("value", "DOUBLE", "Value of the sample."),
    ),
    key=("deployment", "instance", "metric", "labels", "scraped_at"),
    moment=("scraped_at",),
)

REJECTS = Table(
    "rejects",
    "raw",
    "a record that could not be read",
    (
        *HEAD,
        BYTE_OFFSET,
        Column("format", "VARCHAR", "Format the input was read as.", nullable=False),
        Column("reason", "VARCHAR", "What was wrong and what to do, in one sentence.", nullable=False),
        Column("text", "VARCHAR", "Start of the record, shortened; message text of requests left out."),
    ),
    key=("deployment", "instance", "source", "byte_offset", "reason"),
)

INGESTED_FILES = Table(
    "ingested_files",
    "raw",
    "one input file at one size",
    (
        *HEAD,
        Column("format", "VARCHAR", "Format the input was read as.", nullable=False),
        Column("bytes", "BIGINT", "Decompressed bytes read so far, from the start of the input.", "bytes"),
        Column("head_hash", "VARCHAR", "Hash of the first 4,096 bytes, by which growth is found."),
        Column("content_hash", "VARCHAR", "Hash of all bytes read so far.", nullable=False),
        Column("records", "BIGINT", "Records seen in this pass.", "records"),
        Column("rows", "BIGINT", "Records of this pass that became rows.", "records"),
        Column("rejects", "BIGINT", "Records of this pass that were rejected.", "records"),
        Column("duplicates", "BIGINT", "Rows of this pass left out because the warehouse held them.", "rows"),
        Column("table_rows", "MAP(VARCHAR, BIGINT)", "Rows written by table.", "rows"),
        Column("resume", "VARCHAR", "What the reader needs to go on where this pass ended, as JSON."),
        Column("ingested_at", "TIMESTAMP", "When (UTC).", nullable=False),
        Column("tool_version", "VARCHAR", "specledger that read it.", nullable=False),
    ),
    key=("deployment", "instance", "content_hash", "bytes"),
    moment=("ingested_at",),
)

RAW_TABLES: tuple[Table, ...] = (
    DEPLOYMENTS,
    SNAPSHOTS,
    REQUESTS,
    ITERATIONS,
    LOG_STATS,
    EVENTS,
    RUN_TOTALS,
    QUALITY,
    OTHER_SAMPLES,
    REJECTS,
    INGESTED_FILES,
)
