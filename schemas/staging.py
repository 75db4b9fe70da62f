"""The staging tables: raw rows brought to the form from which cells are summed. They are never stored."""

from __future__ import annotations

from .raw import DATE, DEPLOYMENT, INSTANCE, SNAPSHOTS
from .table import Column, Table

GROWTH = "STRUCT(count BIGINT, sum BIGINT, since TIMESTAMP)"
"""What a server histogram grew by: count, sum (ns or tokens), and the scrape since which its buckets grew: -infinity where
they count from zero, null where they tell nothing."""

HOUR = Column("hour", "TINYINT", "UTC hour of the day, 0 to 23.", "h", nullable=False)
BLOCK = Column("block", "SMALLINT", "10-minute block of the UTC day, 0 to 143.", nullable=False)
LOAD = Column(
    "load",
    "INTEGER",
    "Requests running: exact up to 64, lower edge of a 5 % step above; null when not known.",
    "requests",
)


RESTARTED = Column("restarted", "BOOLEAN", "Whether the process started anew since the scrape before.", nullable=False)
DAMAGED = Column(
    "damaged", "BOOLEAN", "Whether a counter fell though the process went on: the scrape is left out.", nullable=False
)


def _count(name: str, doc: str, unit: str) -> Column:
    return Column(name, "BIGINT", doc, unit)


REPEATED_SCRAPES = Table(
    "repeated_scrapes",
    "staging",
    "scrape of one engine and model that several rows tell, and which of them counts",
    tuple(
        SNAPSHOTS.column(name)
        for name in ("deployment", "instance", "engine", "model_name", "scraped_at", "source", "byte_offset")
    ),
    key=("deployment", "instance", "engine", "model_name", "scraped_at"),
    reads=("snapshots",),
)

SCRAPES = Table(
    "scrapes",
    "staging",
    "scrape of one engine and model, repeated ones left out",
    SNAPSHOTS.columns,
    key=SNAPSHOTS.key,
    reads=("snapshots", "repeated_scrapes"),
)

PROCESSES = Table(
    "processes",
    "staging",
    "scrape: which process its counters are of, and whether they can be believed",
    (
        DATE,
        DEPLOYMENT,
        INSTANCE,
        *(SNAPSHOTS.column(name) for name in ("engine", "model_name", "scraped_at")),
        Column("scraped_before", "TIMESTAMP", "Time of the scrape before (UTC)."),
        SNAPSHOTS.column("running"),
        Column("running_before", "DOUBLE", "Requests running at the scrape before.", "requests"),
        *(SNAPSHOTS.column(name) for name in ("waiting", "kv_usage")),
        Column(
            "process",
            "BIGINT",
            "Number of the process in its series: counters are differenced inside one.",
            nullable=False,
        ),
        RESTARTED,
        Column("counts_from_zero", "BOOLEAN", "Whether the process was born between two scrapes.", nullable=False),
        DAMAGED,
    ),
    key=("deployment", "instance", "engine", "model_name", "scraped_at"),
    reads=("scrapes",),
)

DRAFT_SETTINGS = Table(
    "draft_settings",
    "staging",
    "server start: what it says of drafting until the next start",
    (
        DEPLOYMENT,
        Column("instance", "VARCHAR", "Instance that started; null for what the deployment's latest starts agree on."),
        Column("started_at", "TIMESTAMP", "Start from which it holds (UTC).", nullable=False),
        Column("until", "TIMESTAMP", "Next start (UTC); infinity for the last one.", nullable=False),
        Column("speculative", "BOOLEAN", "Whether the server speculates; null when not known."),
        Column("draft_method", "VARCHAR", "Speculative method in lower case; null without speculation."),
        Column("draft_limit", "INTEGER", "Configured maximum draft length K.", "tokens"),
        Column(
            "always_drafts", "BOOLEAN", "Whether every step carries a draft of the full length K; null when not known."
        ),
        Column("engines", "INTEGER", "Engines of the instance (data-parallel size); null when not known.", "engines"),
    ),
    key=("deployment", "instance", "started_at"),
    reads=("deployments",),
)

INTERVALS = Table(
    "intervals",
    "staging",
    "scrape interval of one (instance, engine, model): what running totals grew by",
    (
        DATE,
        DEPLOYMENT,
        INSTANCE,
        Column("engine", "INTEGER", "Engine number inside the instance.", nullable=False),
        Column("model_name", "VARCHAR", "Served model name."),
        Column("started_at", "TIMESTAMP", "Time of the scrape before (UTC).", nullable=False),
        Column(
            "ended_at", "TIMESTAMP", "Time of the scrape that ends it (UTC); its date and block count.", nullable=False
        ),
        _count("duration_ns", "Length of the interval.", "ns"),
        HOUR,
        BLOCK,
        RESTARTED,
        DAMAGED,
        LOAD,
        _count("running_milli", "Requests running, mean of the gauge at both ends.", "milli-requests"),
        _count("waiting", "Requests waiting at the end.", "requests"),
        _count("kv_ppm", "Share of KV cache in use at the end.", "ppm"),
        _count("rounds", "Speculative rounds R.", "rounds"),
        _count("drafted", "Draft tokens D.", "tokens"),
        _count("accepted", "Accepted draft tokens C.", "tokens"),
        Column("accepted_at", "BIGINT[]", "C_i by position.", "tokens"),
        Column("drafted_at", "BIGINT[]", "Draft tokens by position, where a build exposes it.", "tokens"),
        Column(
            "draft_length",
            "INTEGER",
            "Draft length of all rounds; 0 for steps without a draft; null where it varied or cannot be told.",
            "tokens",
        ),
        _count("prompt_tokens", "Prompt tokens.", "tokens"),
        _count("cached_tokens", "Prompt tokens served from a cache.", "tokens"),
        _count("output_tokens", "Output tokens N_out.", "tokens"),
        _count("later_tokens", "Output tokens after the first ones.", "tokens"),
        _count("preemptions", "Preemptions.", "preemptions"),
        _count("succeeded", "Requests finished well (stop, length).", "requests"),
        _count("failed", "Requests finished otherwise.", "requests"),
        _count("decode_sum_ns", "Σ request_decode_time_seconds of finished requests.", "ns"),
        Column("edges", "UBIGINT", "Hash of the edge lists of all histograms.", nullable=False),
        Column("itl", GROWTH, "Step time: one observation a step."),
        Column("ttft", GROWTH, "Time to first token: one observation a request."),
        Column("e2e", GROWTH, "End-to-end time of requests."),
        Column("request_tpot", GROWTH, "Time per output token of requests."),
        Column("queue", GROWTH, "Time in queue."),
        Column("prefill", GROWTH, "Prefill time."),
        Column("prompt_len", GROWTH, "Prompt tokens of requests."),
        Column("output_len", GROWTH, "Output tokens of requests."),
    ),
    key=("deployment", "instance", "engine", "model_name", "ended_at"),
    reads=("scrapes", "processes", "draft_settings"),
)

REQUESTS_BY_LOAD = Table(
    "requests_by_load",
    "staging",
    "request, with its load, its steps where they can be told, and the bands that strata ask for",
    (
        DATE,
        DEPLOYMENT,
        INSTANCE,
        Column("request_id", "VARCHAR", "Request id as client and server know it.", nullable=False),
        Column("model_name", "VARCHAR", "Model that answered."),
        Column("hour", "TINYINT", "UTC hour in which the request ended, 0 to 23.", "h", nullable=False),
        Column("block", "SMALLINT", "10-minute block of the UTC day in which it ended, 0 to 143.", nullable=False),
        Column(
            "load",
            "INTEGER",
            "Requests running while it decoded, time-weighted mean, as cells keep it; null when not known.",
            "requests",
        ),
        Column("load_from", "VARCHAR", "gauge or overlap: where the load is from; null when not known."),
        Column("context_band", "VARCHAR", "Band of prompt + half the output tokens."),
        Column("task", "VARCHAR", "Task label."),
        Column("temperature_class", "VARCHAR", "greedy, sampled or null where not said."),
        Column("output_band", "VARCHAR", "Band of output tokens: 1-20, 21-100, 101-500, 501+; null without output."),
        Column("lora", "VARCHAR", "LoRA adapter."),
        Column("draft_limit", "INTEGER", "Configured draft length K.", "tokens"),
        Column("status", "VARCHAR", "ok, failed, aborted or unknown.", nullable=False),
        Column("returned", "BOOLEAN", "Whether it returned a first token.", nullable=False),
        _count("prompt_tokens", "Prompt tokens.", "tokens"),
        _count("cached_tokens", "Prompt tokens served from a cache.", "tokens"),
        _count("output_tokens", "Output tokens N_out.", "tokens"),
        _count("later_tokens", "Output tokens after the first; null for several sequences.", "tokens"),
        _count("decode_ns", "First to last token; null for several sequences.", "ns"),
        _count("steps", "Steps, where the rules of counting allow to tell them.", "steps"),
        _count("rounds", "Speculative rounds R.", "rounds"),
        _count("drafted", "Draft tokens D.", "tokens"),
        _count("accepted", "Accepted draft tokens C, truncated ones included.", "tokens"),
        Column("accepted_hist", "BIGINT[]", "Element j + 1 counts rounds that accepted j tokens.", "rounds"),
        Column("accepted_hist_by_length", "MAP(INTEGER, BIGINT[])", "The same for each draft length."),
        Column("accepted_by_step", "INTEGER[]", "Accepted tokens of each drafted step.", "tokens"),
        Column("drafted_by_step", "INTEGER[]", "Draft length of each drafted step.", "tokens"),
        _count("preemptions", "Preemptions of the request.", "preemptions"),
        _count("ttft_ns", "Time to first token: the server's, else the client's.", "ns"),
        _count("e2e_ns", "Arrival to last token.", "ns"),
        _count("queue_ns", "Time in queue.", "ns"),
        _count("prefill_ns", "Prefill time.", "ns"),
        Column("gaps_ms", "FLOAT[]", "Gaps between consecutive returns.", "ms"),
        Column("gaps_from", "VARCHAR", "client or server: whose clock the gaps are from."),
        _count("longest_pause_ns", "Longest of the gaps.", "ns"),
    ),
    key=("date", "deployment", "instance", "request_id"),
    reads=("requests", "scrapes", "intervals", "draft_settings"),
)

LOG_WINDOWS = Table(
    "log_windows",
    "staging",
    "stats or spec record of the log: what happened in its window",
    (
        DATE,
        DEPLOYMENT,
        INSTANCE,
        Column("engine", "INTEGER", "Engine number; null where the record belongs to no engine."),
        Column("process", "VARCHAR", "Innermost process prefix of the record."),
        Column("logged_at", "TIMESTAMP", "Time of the record (UTC).", nullable=False),
        HOUR,
        BLOCK,
        _count("window_ns", "Window of the counts; null where it is not known.", "ns"),
        LOAD,
        _count("running_milli", "Requests running at the instant of the line.", "milli-requests"),
        _count("waiting", "Requests waiting at the instant of the line.", "requests"),
        _count("kv_ppm", "Share of KV cache in use.", "ppm"),
        _count("rounds", "Speculative rounds R, best estimate.", "rounds"),
        _count("rounds_min", "Least R.", "rounds"),
        _count("rounds_max", "Greatest R.", "rounds"),
        _count("drafted", "Draft tokens D.", "tokens"),
        _count("accepted", "Accepted draft tokens C (V0: emitted - rounds).", "tokens"),
        Column("accepted_at", "BIGINT[]", "C_i by position: printed rate times R, rounded.", "tokens"),
    ),
    key=("deployment", "instance", "engine", "process", "logged_at"),
    reads=("log_stats",),
)

STAGING_TABLES: tuple[Table, ...] = (
    REPEATED_SCRAPES,
    SCRAPES,
    PROCESSES,
    DRAFT_SETTINGS,
    INTERVALS,
    REQUESTS_BY_LOAD,
    LOG_WINDOWS,
)
