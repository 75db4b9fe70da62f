"""Scrapes that were cut, and what was saved in the place of one."""

import datetime as dt
from typing import Any

import pytest

from specledger.ingest import exposition
from tests.ingest.recording import RecordingSink, read_many

AT = dt.datetime(2026, 9, 14, 8, 0, 0)
LABELS = '{engine="0",model_name="m"}'
RUNNING = f"vllm:num_requests_running{LABELS} 3\n"
HISTOGRAM = (
    'vllm:time_to_first_token_seconds_bucket{engine="0",le="0.1",model_name="m"} 1\n'
    'vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="m"} 2\n'
    f"vllm:time_to_first_token_seconds_count{LABELS} 2\n"
    f"vllm:time_to_first_token_seconds_sum{LABELS} 0.5\n"
)


def read(*texts: str | bytes, **known: Any) -> RecordingSink:
    return read_many(exposition.read_many, *texts, **{"named_at": AT, **known})[0]


def test_the_value_of_a_line_without_end_is_not_used() -> None:
    sink = read(RUNNING + f"vllm:generation_tokens_total{LABELS} 36")
    (row,) = sink.snapshots
    assert row["running"] == 3.0
    assert "generation_tokens" not in row
    (reject,) = sink.rejects
    assert "was cut" in reject.reason
    assert reject.byte_offset == len(RUNNING)
    assert reject.text == f"vllm:generation_tokens_total{LABELS} 36"


@pytest.mark.parametrize("left", range(1, len(RUNNING) - 1))
def test_a_scrape_of_one_line_cut_anywhere_gives_no_row(left: int) -> None:
    sink = read(RUNNING[:left])
    assert sink.snapshots == []
    assert len(sink.rejects) == 1


def test_a_cut_list_is_not_taken_for_a_shorter_one() -> None:
    positions = [
        f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="{engine}",position="{position}"}} 9\n'
        for position in range(3)
        for engine in range(2)
    ]
    text = "".join(f'vllm:num_requests_running{{engine="{engine}"}} 1\n' for engine in range(2)) + "".join(positions)
    assert [row["accepted_at"] for row in read(text).snapshots] == [[9, 9, 9], [9, 9, 9]]
    sink = read(text[:-2])
    assert [row.get("accepted_at") for row in sink.snapshots] == [None, None]
    assert [row["running"] for row in sink.snapshots] == [1.0, 1.0]


def test_the_birth_times_of_a_cut_scrape_tell_no_start() -> None:
    text = (
        RUNNING
        + f"vllm:generation_tokens_total{LABELS} 5\nvllm:generation_tokens_created{LABELS} 1789372800\n"
        + f"vllm:prompt_tokens_total{LABELS} 5\nvllm:prompt_tokens_created{LABELS} 1789372799\n"
    )
    assert read(text).snapshots[0]["process_started_at"] == AT - dt.timedelta(seconds=1)
    assert read(text[:-20]).snapshots[0]["process_started_at"] is None


@pytest.mark.parametrize("lines", [1, 2, 3])
def test_a_histogram_that_goes_on_shows_a_cut_between_lines(lines: int) -> None:
    sink = read(RUNNING + "".join(HISTOGRAM.splitlines(keepends=True)[:lines]))
    (row,) = sink.snapshots
    assert row["running"] == 3.0
    assert "ttft" not in row
    assert len(sink.rejects) == 1
    assert "cut between two lines" in sink.reasons[0]


def test_a_histogram_without_infinity_in_the_middle_is_left_out_and_said() -> None:
    sink = read(HISTOGRAM.replace('le="+Inf"', 'le="5"') + RUNNING)
    assert "ttft" not in sink.snapshots[0]
    assert sink.reasons == ["the histogram has no +Inf bucket, so part of it is missing"]


def test_openmetrics_without_end_mark_was_cut() -> None:
    text = f"# TYPE vllm:generation_tokens counter\nvllm_generation_tokens_total{LABELS} 5\n"
    sink = read(text)
    assert [row["generation_tokens"] for row in sink.snapshots] == [5]
    assert len(sink.rejects) == 1
    assert "cut between two lines" in sink.reasons[0]
    assert read(text + "# EOF\n").rejects == []


def test_help_without_what_it_speaks_of_shows_a_cut() -> None:
    assert "cut between two lines" in read(RUNNING + "# HELP vllm:x About x.\n").reasons[0]


def test_a_scrape_that_is_the_start_of_the_one_before_it_was_cut() -> None:
    positions = "".join(
        f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",position="{position}"}} 9\n'
        for position in range(3)
    )
    whole = (
        f"# TYPE vllm:num_requests_running gauge\n{RUNNING}"
        f"# TYPE vllm:spec_decode_num_accepted_tokens_per_pos_total counter\n{positions}"
        f"# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{LABELS} 0\n"
    )
    cut = whole[: whole.index('vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="2"}')]
    sink = read(f"# scraped_at 1\n{whole}# scraped_at 2\n{cut}# scraped_at 3\n{whole}")
    assert [row["accepted_at"] for row in sink.snapshots] == [[9, 9, 9], None, [9, 9, 9]]
    assert len(sink.rejects) == 1


def test_a_restart_with_fewer_series_is_no_cut() -> None:
    lines = [f"# TYPE vllm:a{n} gauge\nvllm:a{n} 1\n" for n in range(3)]
    restarted = lines[0] + "# TYPE vllm:a1 gauge\n# TYPE vllm:a2 gauge\n"
    sink = read(f"# scraped_at 1\n{''.join(lines)}# scraped_at 2\n{restarted}")
    assert sink.rejects == []
    assert len(sink.others) == 4


def test_a_cut_scrape_in_a_file_ends_at_the_next_mark() -> None:
    sink = read(f"# scraped_at 1\n{RUNNING}vllm:num_preemptions_total{LABELS} 4# scraped_at 2\n{RUNNING}")
    assert [(row["scraped_at"].timestamp() % 60, row.get("preemptions")) for row in sink.snapshots] == [
        (1.0, None),
        (2.0, None),
    ]
    assert len(sink.rejects) == 1
    assert "was cut" in sink.reasons[0]


def test_a_growing_file_gives_a_cut_scrape_again_when_there_is_more_of_it() -> None:
    whole = f"# scraped_at 1\n{RUNNING}# scraped_at 2\n{RUNNING}"
    sink, (progress,) = read_many(exposition.read_many, whole[:-4], settled=False)
    assert len(sink.snapshots) == 1
    assert len(sink.rejects) == 1
    assert progress.offset == whole.index("# scraped_at 2")
    later, (end,) = read_many(
        exposition.read_many, whole[progress.offset :], offset=progress.offset, resume=progress.resume
    )
    assert len(later.snapshots) == 1
    assert later.rejects == []
    assert end.offset == len(whole)


def test_a_file_that_stopped_growing_gives_what_is_whole_of_its_last_scrape() -> None:
    sink, (progress,) = read_many(exposition.read_many, f"# scraped_at 1\n{RUNNING}{RUNNING[:-4]}", settled=True)
    assert [row["running"] for row in sink.snapshots] == [3.0]
    assert len(sink.rejects) == 1
    assert progress.offset == len(f"# scraped_at 1\n{RUNNING}{RUNNING[:-4]}")


def test_the_rest_of_a_scrape_without_its_time_is_rejected() -> None:
    sink, _ = read_many(
        exposition.read_many, f"{RUNNING}# scraped_at 2\n{RUNNING}", offset=100, resume={"marked": True}
    )
    assert [row["byte_offset"] for row in sink.snapshots] == [100 + len(RUNNING)]
    assert len(sink.rejects) == 1
    assert "time is not known" in sink.reasons[0]


@pytest.mark.parametrize("stamp", ["soon", "", "1e99", "-5", "17893728000000"])
def test_a_mark_without_a_time_rejects_its_scrape(stamp: str) -> None:
    sink = read(f"# scraped_at {stamp}\n{RUNNING}# scraped_at 5\n{RUNNING}")
    assert len(sink.snapshots) == 1
    assert sink.reasons == [exposition.STAMP_REASON]


def test_two_scrapes_run_into_one_are_rejected() -> None:
    sink = read(RUNNING + RUNNING)
    assert sink.snapshots == []
    assert sink.reasons == ["a series is in the scrape twice: put a '# scraped_at' line before each scrape of a file"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", exposition.EMPTY_REASON),
        (b"\n  \n", exposition.EMPTY_REASON),
        (b"# just a comment\n", exposition.EMPTY_REASON),
        (b"<html><head><title>502 Bad Gateway</title></head>\n<body>down</body></html>\n", exposition.ALIEN_REASON),
        (b'{"status": "error"}\n', exposition.ALIEN_REASON),
        (b"\x00\xff\x80junk\n" * 50, exposition.ALIEN_REASON),
        (b"node_cpu_seconds_total 5\nup 1\n", exposition.FOREIGN_REASON),
        (b"process_start_time_seconds 1789372800\nup 1\n", exposition.FOREIGN_REASON),
    ],
)
def test_what_is_no_scrape_is_one_reject(text: bytes, reason: str) -> None:
    sink = read(text)
    assert sink.snapshots == []
    assert sink.others == []
    assert sink.reasons == [reason]


def test_damaged_lines_are_rejected_one_by_one_and_the_rest_is_read() -> None:
    sink = read(f"{RUNNING}vllm:x{{ 5\nvllm:num_preemptions_total{LABELS} 4\nvllm:y 5 6 7\n")
    assert [(row["running"], row["preemptions"]) for row in sink.snapshots] == [(3.0, 4)]
    assert [reject.text for reject in sink.rejects] == ["vllm:x{ 5", "vllm:y 5 6 7"]
    assert sink.rejects[0].byte_offset == len(RUNNING)


def test_many_damaged_lines_share_one_reject() -> None:
    sink = read(RUNNING + "vllm:x{ 5\n" * 1000)
    assert len(sink.rejects) == exposition.SHOWN_LINES + 1
    assert sum(reject.records for reject in sink.rejects) == 1000


def test_lines_without_end_do_not_fill_the_memory() -> None:
    sink = read(RUNNING + "vllm:x{" + "a" * (2 << 20) + "\n")
    assert len(sink.snapshots) == 1
    assert "longer than" in sink.reasons[0]


def test_a_scrape_that_is_too_long_is_rejected_and_the_next_one_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specledger.ingest.exposition_split.MAX_SCRAPE", 4 << 20)
    text = f"# scraped_at 1\n{RUNNING}# scraped_at 2\n" + "x" * (8 << 20) + f"\n# scraped_at 3\n{RUNNING}"
    sink, (progress,) = read_many(exposition.read_many, text)
    assert [row["byte_offset"] for row in sink.snapshots] == [0, text.index("# scraped_at 3")]
    assert sink.reasons == [exposition.LONG_REASON]
    assert sink.rejects[0].byte_offset == text.index("# scraped_at 2")
    assert progress.offset == len(text)
