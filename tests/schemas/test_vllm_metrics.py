from specledger.ingest.metric_names import meaning
from specledger.schemas.raw import HISTOGRAM, SNAPSHOTS
from specledger.schemas.vllm_metrics import METRICS

FROM_ELSEWHERE = {
    "date",
    "deployment",
    "instance",
    "source",
    "byte_offset",
    "ingested_at",
    "scraped_at",
    "engine",
    "model_name",
    "process_started_at",
}
"""Columns of a snapshot that are labels, times and places, not the value of one metric."""


def test_every_column_of_snapshots_has_its_names() -> None:
    assert [metric.column for metric in METRICS if metric.column in SNAPSHOTS.names] == [m.column for m in METRICS]
    assert {metric.column for metric in METRICS} == set(SNAPSHOTS.names) - FROM_ELSEWHERE


def test_kinds_fit_the_types_of_the_columns() -> None:
    for metric in METRICS:
        declared = SNAPSHOTS.column(metric.column).type
        value = "BIGINT" if metric.kind == "counter" else "DOUBLE"
        if metric.kind == "histogram":
            assert declared == HISTOGRAM, metric.column
        elif metric.kind == "info":
            assert declared in {"BIGINT", "INTEGER"}, metric.column
        elif metric.index == "position":
            assert declared == f"{value}[]", metric.column
        elif metric.index is not None:
            assert declared == f"MAP(VARCHAR, {value})", metric.column
        else:
            assert declared == value, metric.column


def test_no_name_means_two_things() -> None:
    samples: dict[tuple[str, str], str] = {}
    for metric in METRICS:
        for name in metric.names:
            suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_sum", "_count"]}.get(metric.kind, [""])
            for suffix in suffixes:
                sample = (name.server, name.name + suffix)
                assert metric.kind == "info" or sample not in samples, sample
                samples[sample] = metric.column


def test_the_source_a_column_names_is_the_newest_name_of_a_server() -> None:
    for metric in METRICS:
        assert SNAPSHOTS.column(metric.column).source in {name.server: name.name for name in metric.names}.values()


def test_a_histogram_whose_name_ends_like_a_counter_is_no_counter() -> None:
    found = meaning("vllm:iteration_tokens_total_bucket")
    assert found is not None
    assert (found.part, found.metrics[0].column) == ("bucket", "iteration_tokens")
    total = meaning("vllm:iteration_tokens_total")
    assert total is not None
    assert total.part == "unknown"


def test_names_of_other_programs_mean_nothing() -> None:
    for name in ("python_info", "http_requests_total", "vllm", "myvllm:x", "up", "nginx:num_requests_running"):
        assert meaning(name) is None
