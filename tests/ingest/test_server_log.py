"""Server logs: literal lines beside literal rows, one wording or one damage each."""

from __future__ import annotations

import datetime as dt
import json
from operator import itemgetter
from typing import Any

import pytest

from specledger.ingest import log_stats
from tests.ingest.log_reading import LogSink, read, read_in_parts, read_rotated
from tests.ingest.log_writer import TRAP

STATS = (
    "INFO 09-14 08:01:00 [loggers.py:123] Engine 000: Avg prompt throughput: 12.5 tokens/s, Avg generation throughput: "
    "97.5 tokens/s, Running: 4 reqs, Waiting: 2 reqs, GPU KV cache usage: 12.5%, Prefix cache hit rate: 20.0%\n"
)
SPEC = (
    "INFO 09-14 08:01:00 [metrics.py:101] SpecDecoding metrics: Mean acceptance length: 2.47, Accepted throughput: "
    "58.00 tokens/s, Drafted throughput: 118.50 tokens/s, Accepted: 580 tokens, Drafted: 1185 tokens, "
    "Per-position acceptance rate: 0.714, 0.504, 0.251, Avg Draft acceptance rate: 48.9%\n"
)
ITERATION = (
    "(APIServer pid=7) INFO 09-14 08:01:14 [loggers.py:199] Engine 001: Iteration(46): 2 context requests, "
    "510 context tokens, 3 generation requests, 12 generation tokens, iteration elapsed time: 428.11 ms{dummy}, "
    "CPU KV cache usage: 23.2%\n"
)
AT = dt.datetime(2026, 9, 14, 8, 1)
YEAR: dict[str, Any] = {"year": 2026, "timezone": "UTC"}


def only(sink: LogSink) -> dict[str, Any]:
    assert sink.rejects == []
    (row,) = sink.stats
    return row


def said(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None and name != "byte_offset"}


def stats(engine: int = 0, second: int = 0, process: str = "APIServer pid=1", running: int = 4) -> str:
    return f"({process}) " + STATS.replace("08:01:00", f"08:01:{second:02d}").replace(
        "Engine 000", f"Engine {engine:03d}"
    ).replace("Running: 4", f"Running: {running}")


def spec(accepted: int = 580, second: int = 0, process: str = "APIServer pid=1") -> str:
    line = SPEC.replace("08:01:00", f"08:01:{second:02d}")
    return f"({process}) " + line.replace("Accepted: 580 tokens", f"Accepted: {accepted} tokens")


def owners(sink: LogSink) -> list[tuple[int | None, int | None]]:
    """Engine and accepted tokens of each row with a spec record."""
    return [(row["engine"], row["accepted"]) for row in sink.stats if row["accepted"] is not None]


class TestStats:
    def test_a_stats_record_is_a_row(self) -> None:
        assert said(only(read(STATS, **YEAR))) == {
            "logged_at": AT,
            "engine": 0,
            "prompt_tps": 12.5,
            "generation_tps": 97.5,
            "running": 4.0,
            "waiting": 2.0,
            "kv_usage": 0.125,
            "prefix_hit_rate": 0.2,
        }

    def test_parts_that_come_and_go_are_read_by_their_label(self) -> None:
        line = STATS.replace(", GPU KV", ", Deferred: 3 reqs, Preemptions: 5, KV fetch: 1.5 GB/s, XPU KV").replace(
            "20.0%", "20.0%, External prefix cache hit rate: 7.0%, MM cache hit rate: 1.0%, Corrupted: 2 reqs"
        )
        row = only(read(line, **YEAR))
        assert (row["waiting"], row["preemptions"], row["kv_usage"], row["prefix_hit_rate"]) == (2.0, 5, 0.125, 0.2)

    def test_aggregated_engines_are_no_engine(self) -> None:
        row = only(read(STATS.replace("Engine 000", "4 Engines Aggregated"), **YEAR))
        assert (row["engine"], row["engines"]) == (None, 4)

    def test_the_old_engine_prints_pending_and_two_caches(self) -> None:
        row = only(
            read(
                "INFO 09-14 08:01:00 metrics.py:295] Avg prompt throughput: 12.5 tokens/s, Avg generation throughput: "
                "75.3 tokens/s, Running: 6 reqs, Swapped: 1 reqs, Pending: 9 reqs, GPU KV cache usage: 9.2%, "
                "CPU KV cache usage: 3.0%.\n",
                **YEAR,
            )
        )
        assert (row["engine"], row["running"], row["waiting"], row["kv_usage"]) == (0, 6.0, 9.0, 0.092)

    @pytest.mark.parametrize("last", ["Avg prompt", "97.5", "4 reqs, Wai", "12.5%, Prefix cache", "hit rate:", "20.0"])
    def test_a_record_that_ends_early_is_rejected(self, last: str) -> None:
        end = STATS.index(last) + len(last)
        sink = read(STATS[:end] + "\n" + SPEC, **YEAR)
        assert [row["drafted"] for row in sink.stats] == [1185]
        assert len(sink.rejects) == 1
        assert sink.rejects[0][0] == 0


class TestSpec:
    def test_a_spec_record_joins_the_stats_record_before_it(self) -> None:
        row = only(read(STATS + SPEC, **YEAR))
        assert said(row) == {
            "logged_at": AT,
            "engine": 0,
            "prompt_tps": 12.5,
            "generation_tps": 97.5,
            "running": 4.0,
            "waiting": 2.0,
            "kv_usage": 0.125,
            "prefix_hit_rate": 0.2,
            "spec_window_s": 10.0,
            "rounds": 395,
            "rounds_min": 395,
            "rounds_max": 395,
            "drafted": 1185,
            "accepted": 580,
            "survival": [0.714, 0.504, 0.251],
            "printed_length": 2.47,
            "wording": "0.10.2",
            "cumulative": False,
        }

    @pytest.mark.parametrize(
        ("figures", "wording", "length"),
        [
            ("Draft acceptance rate: 48.9%, Accepted: 580 tokens, Drafted: 1185 tokens", "0.8.3", None),
            (
                "Draft acceptance rate: 48.9%, Mean acceptance length: 1.47, Accepted: 580 tokens, "
                "Drafted: 1185 tokens, Per-position acceptance rate: 0.714, 0.504, 0.251",
                "0.8.5",
                1.47,
            ),
            (
                "Draft acceptance rate: 48.9%, Mean acceptance length: 2.47, Accepted: 580 tokens, "
                "Drafted: 1185 tokens, Per-position acceptance rate: 0.714, 0.504, 0.251",
                "0.9",
                2.47,
            ),
        ],
    )
    def test_older_wordings(self, figures: str, wording: str, length: float | None) -> None:
        config = (
            "INFO 09-14 08:00:00 [utils.py:1] non-default args: {'speculative_config': {'num_speculative_tokens': 3}}\n"
        )
        row = only(read(config + STATS + SPEC.partition("metrics: ")[0] + f"metrics: {figures}\n", **YEAR))
        assert (row["wording"], row["printed_length"], row["rounds"]) == (wording, length, 395)
        assert (row["accepted"], row["drafted"], row["draft_limit"]) == (580, 1185, 3)

    def test_fields_nobody_knows_are_passed_over(self) -> None:
        line = SPEC.replace("Accepted throughput", "Drafting depth in use: 3, Accepted throughput")
        assert only(read(STATS + line, **YEAR))["rounds"] == 395

    def test_nan_is_no_rounds_and_never_stored(self) -> None:
        figures = (
            "Draft acceptance rate: nan%, Mean acceptance length: nan, Accepted: 0 tokens, Drafted: 0 tokens, "
            "Per-position acceptance rate: nan, nan, nan\n"
        )
        row = only(read(STATS + SPEC.partition("metrics: ")[0] + "metrics: " + figures, **YEAR))
        assert (row["drafted"], row["accepted"]) == (0, 0)
        assert row["rounds"] is row["rounds_min"] is row["printed_length"] is row["survival"] is None

    def test_all_drafts_voided_is_at_least_one_round(self) -> None:
        line = (
            SPEC.replace("2.47", "1.00")
            .replace("580", "0")
            .replace("1185", "0")
            .replace("0.714, 0.504, 0.251", "0.000, 0.000, 0.000")
            .replace("48.9", "nan")
            .replace("58.00", "0.00")
            .replace("118.50", "0.00")
        )
        row = only(read(STATS + line, **YEAR))
        assert (row["rounds"], row["rounds_min"], row["rounds_max"]) == (None, 1, None)

    @pytest.mark.parametrize("cut", [", Avg Draft", " tokens, Per-pos", "1, Avg", "5 tokens, Per", "Drafted: 1185"])
    def test_a_record_that_ends_early_is_rejected(self, cut: str) -> None:
        sink = read(STATS + SPEC[: SPEC.index(cut) + 1] + "\n", **YEAR)
        assert [row["drafted"] for row in sink.stats] == [None]
        assert [offset for offset, _, _ in sink.rejects] == [len(STATS)]

    def test_0_8_5_cut_within_its_rates_is_rejected(self) -> None:
        figures = (
            "Draft acceptance rate: 48.9%, Mean acceptance length: 1.47, Accepted: 580 tokens, Drafted: 1185 tokens, "
            "Per-position acceptance rate: 0.714, 0.50\n"
        )
        assert len(read(STATS + SPEC.partition("metrics: ")[0] + "metrics: " + figures, **YEAR).rejects) == 1


class TestOldEngine:
    LINE = (
        "INFO 09-14 08:01:00 metrics.py:316] Speculative metrics: Draft acceptance rate: 0.243, System efficiency: "
        "0.343, Number of speculative tokens: 3, Number of accepted tokens: 3206, Number of draft tokens{t}: 13200, "
        "Number of emitted tokens{t}: 6035.\n"
    )

    @pytest.mark.parametrize("twice", ["", " tokens"])
    def test_totals_are_kept_as_totals(self, twice: str) -> None:
        row = only(read(self.LINE.format(t=twice), **YEAR))
        assert said(row) == {
            "logged_at": AT,
            "rounds": 4400,
            "rounds_min": 4400,
            "rounds_max": 4400,
            "drafted": 13200,
            "accepted": 3206,
            "emitted": 6035,
            "draft_limit": 3,
            "wording": "V0",
            "cumulative": True,
        }

    def test_stage_times_are_a_row_of_their_own(self) -> None:
        row = only(
            read(
                "INFO 09-14 08:01:00 spec_decode_worker.py:790] SpecDecodeWorker stage times: "
                "average_time_per_proposal_tok_ms=4.96 scoring_time_ms=54.92 verification_time_ms=1.20\n",
                **YEAR,
            )
        )
        assert said(row) == {
            "logged_at": AT,
            "engine": 0,
            "proposal_ms": 4.96,
            "scoring_ms": 54.92,
            "verification_ms": 1.2,
        }

    def test_a_total_without_its_end_is_rejected(self) -> None:
        assert len(read(self.LINE.format(t="")[:-2] + "\n", **YEAR).rejects) == 1


class TestIterations:
    def test_an_iteration_is_a_row(self) -> None:
        sink = read(ITERATION.format(dummy=""), **YEAR)
        assert sink.table("iterations") == [
            {
                "byte_offset": 0,
                "logged_at": dt.datetime(2026, 9, 14, 8, 1, 14),
                "engine": 1,
                "process": "APIServer pid=7",
                "iteration": 46,
                "context_requests": 2,
                "context_tokens": 510,
                "generation_requests": 3,
                "generation_tokens": 12,
                "elapsed_ms": 428.11,
                "kv_usage": 0.232,
                "dummy": False,
            }
        ]

    def test_idle_iterations_of_a_group_say_so(self) -> None:
        assert [row["dummy"] for row in read(ITERATION.format(dummy=" (dummy)"), **YEAR).table("iterations")] == [True]

    def test_older_ones_name_their_engine_by_the_process(self) -> None:
        line = (
            "(EngineCore_DP1 pid=1205) INFO 09-14 08:01:14 [v1/engine/core.py:359] Iteration(15): 2 context requests, "
            "7986 context tokens, 14 generation requests, 14 generation tokens, iteration elapsed time: 1115.64 ms\n"
        )
        (row,) = read(line, **YEAR).table("iterations")
        assert (row["engine"], row["elapsed_ms"], row["kv_usage"]) == (1, 1115.64, None)

    def test_a_cut_one_is_rejected(self) -> None:
        line = ITERATION.format(dummy="")
        assert len(read(line[:-20] + "\n" + line, **YEAR).rejects) == 1


class TestAttribution:
    def test_each_engine_of_a_process_has_its_own(self) -> None:
        log = stats(0) + spec(100) + stats(1) + spec(200)
        assert owners(read(log, **YEAR)) == [(0, 100), (1, 200)]

    def test_as_many_spec_records_as_engines_belong_together_in_order(self) -> None:
        log = stats(0) + stats(1) + spec(100) + spec(200)
        assert owners(read(log, **YEAR)) == [(0, 100), (1, 200)]

    def test_one_engine_without_drafts_leaves_the_record_to_the_one_before_it(self) -> None:
        log = stats(0) + stats(1) + spec(200) + stats(0, 10) + spec(300, 10)
        assert owners(read(log, **YEAR)) == [(1, 200), (0, 300)]

    def test_too_few_to_tell_are_unattributed_and_that_is_said(self) -> None:
        sink = read(stats(0) + stats(1) + stats(2) + spec(100) + spec(200), **YEAR)
        assert owners(sink) == [(None, 100), (None, 200)]
        assert log_stats.UNATTRIBUTED_NOTE in sink.notes

    def test_a_spec_record_of_another_process_belongs_to_no_engine(self) -> None:
        sink = read(stats(0) + spec(100, process="APIServer pid=2"), **YEAR)
        assert owners(sink) == [(None, 100)]
        assert len(sink.stats) == 2

    def test_a_spec_record_long_after_belongs_to_no_engine(self) -> None:
        assert owners(read(stats(0) + spec(100, second=30), **YEAR)) == [(None, 100)]

    def test_a_spec_record_alone_is_a_row_of_its_own(self) -> None:
        assert owners(read(spec(100), **YEAR)) == [(None, 100)]

    def test_processes_may_be_interleaved(self) -> None:
        one, two = "APIServer_0 pid=1", "APIServer_1 pid=2"
        log = stats(0, process=one) + stats(1, process=two) + spec(100, process=one) + spec(200, process=two)
        assert owners(read(log, **YEAR)) == [(0, 100), (1, 200)]


class TestLines:
    def test_two_records_on_one_line_are_two(self) -> None:
        row = only(read("(APIServer pid=1) " + STATS.rstrip("\n") + " (APIServer pid=1) " + SPEC, **YEAR))
        assert (row["running"], row["drafted"]) == (4.0, 1185)

    @pytest.mark.parametrize("opening", ["Received request cmpl-1: prompt: ", "Generated response cmpl-1: output: "])
    def test_what_follows_a_prompt_or_an_output_is_text(self, opening: str) -> None:
        line = f"(APIServer pid=1) INFO 09-14 08:59:59 [request_logger.py:65] {opening}'{TRAP}', params: None\n"
        sink = read(line + stats() + spec(), **YEAR)
        assert (only(sink)["accepted"], sink.records) == (580, 2)

    @pytest.mark.parametrize("wrap", ["{}", '{{"log": "{}\\n", "stream": "stderr", "time": "2026-09-14T08:01:00Z"}}'])
    def test_a_prompt_of_megabytes_is_passed_over(self, wrap: str) -> None:
        said = f"(APIServer pid=1) INFO 09-14 08:00:59 [logger.py:40] Received request cmpl-9: prompt: '{TRAP * 8_000}'"
        sink = read(wrap.format(said) + "\n" + wrap.format(stats().rstrip("\n")) + "\n", **YEAR)
        assert (only(sink)["running"], sink.records) == (4.0, 1)

    def test_bytes_that_are_not_utf8_do_no_harm(self) -> None:
        log = b"\xff\xfe\x80 broken \xc3( bytes \xf0\x9f\n" + STATS.encode() + b"\x80\x81 \xe2\x82\n" + SPEC.encode()
        assert only(read(log, **YEAR))["accepted"] == 580

    def test_a_name_that_is_not_utf8_is_kept_as_far_as_it_can_be(self) -> None:
        sink = read(b"(Work\xffer pid=1) " + STATS.encode(), **YEAR)
        assert only(sink)["process"] == "Work\ufffder pid=1"

    def test_a_record_without_level_and_time_is_rejected(self) -> None:
        sink = read(SPEC.partition("] ")[2], **YEAR)
        assert (sink.stats, len(sink.rejects)) == ([], 1)

    @pytest.mark.parametrize("torn", [1, 6, 12, 22, 24, 32])
    def test_a_record_whose_header_is_cut_off_is_rejected(self, torn: int) -> None:
        sink = read(SPEC[torn:], **YEAR)
        assert (sink.stats, len(sink.rejects)) == ([], 1)

    def test_a_number_that_no_server_prints_is_rejected(self) -> None:
        sink = read(STATS.replace("Running: 4", "Running: " + "9" * 40), **YEAR)
        assert (sink.stats, len(sink.rejects)) == ([], 1)

    def test_nothing_is_lost_or_counted_twice(self) -> None:
        log = stats() + spec() + ITERATION.format(dummy="") + spec()[:200] + "\n" + "chatter\n" + stats(second=10)
        sink = read(log, **YEAR)
        assert sink.records == 5
        assert len(sink.rejects) == 1


class TestTheLastLine:
    def test_it_waits_while_the_log_grows(self) -> None:
        log = stats() + spec()
        assert owners(read_in_parts(log, [len(log) - 1], **YEAR)) == [(0, 580)]

    def test_it_is_rejected_when_it_never_ends(self) -> None:
        sink = read((stats() + spec())[:-1], **YEAR)
        assert ([row["running"] for row in sink.stats], len(sink.rejects)) == ([4.0], 1)

    def test_it_is_no_reject_if_it_is_no_record(self) -> None:
        assert read(stats() + spec() + "bye", **YEAR).rejects == []

    def test_a_spec_record_may_come_with_the_next_read(self) -> None:
        log = stats() + spec()
        sink = read_in_parts(log, [len(stats())], **YEAR)
        assert (owners(sink), len(sink.stats)) == ([(0, 580)], 1)

    def test_only_the_last_record_of_an_engine_waits_for_its_partner(self) -> None:
        log = "".join(stats(engine, second) for second in range(20) for engine in (0, 1))
        seen = read_in_parts(log, [len(log)], **YEAR)
        assert [len(frame) for frame in seen.frames["log_stats"]] == [38, 2]

    def test_a_server_without_speculation_keeps_nothing_back(self) -> None:
        config = (
            "INFO 09-14 08:00:00 [core.py:70] Initializing a V1 LLM engine (v0.19.0) with config: model='m', "
            "speculative_config=None\n"
        )
        log = config + stats()
        seen = read_in_parts(log, [len(log)], **YEAR)
        assert [len(frame) for frame in seen.frames["log_stats"]] == [1]


class TestRotation:
    def test_a_pair_may_be_parted_by_two_files(self) -> None:
        sink = read_rotated(stats() + spec() + stats(second=10), spec(200, second=10) + "chatter\n", **YEAR)
        assert sorted(owners(sink)) == [(0, 200), (0, 580)]

    def test_a_cut_may_lie_anywhere(self) -> None:
        log = "chatter\n" + stats() + spec() + ITERATION.format(dummy="") + stats(second=10) + spec(200, second=10)
        whole = read(log, **YEAR)
        iterations = [{**row, "byte_offset": 0} for row in whole.table("iterations")]
        for cut in range(1, len(log) - 1, 29):
            sink = read_rotated(log[:cut], log[cut:], **YEAR)
            assert sink.rejects == []
            assert sorted(map(said, sink.stats), key=itemgetter("logged_at")) == [said(row) for row in whole.stats]
            assert [{**row, "byte_offset": 0} for row in sink.table("iterations")] == iterations

    def test_a_cut_may_lie_anywhere_in_what_a_container_engine_wrote(self) -> None:
        line = stats().rstrip("\n")
        log = (
            f"2026-09-14T08:01:00.412345678Z stdout P {line[:100]}\n"
            "2026-09-14T08:01:00.412345679Z stderr F a line of the other stream\n"
            f"2026-09-14T08:01:00.412345681Z stdout F {line[100:]}\n"
        )
        for cut in range(1, len(log) - 1, 7):
            row = only(read_rotated(log[:cut], log[cut:]))
            assert (row["logged_at"], row["running"], row["kv_usage"]) == (AT, 4.0, 0.125)

    @pytest.mark.parametrize("following", [ITERATION.format(dummy=""), "INFO:     Started server process [1]\n"])
    @pytest.mark.parametrize("record", [stats(), spec()], ids=["stats", "spec"])
    def test_what_a_killed_server_left_is_not_completed_by_what_the_next_one_says(
        self, record: str, following: str
    ) -> None:
        told = only(read(record, **YEAR))
        for cut in range(1, len(record) - 1, 7):
            sink = read_rotated(record[:cut], following, **YEAR)
            assert len(sink.stats) + len(sink.rejects) <= 1
            assert len(sink.table("iterations")) == following.count("Iteration")
            for row in sink.stats:
                assert said(row).items() <= said(told).items()

    def test_the_year_goes_on_in_the_next_file(self) -> None:
        sink = read_rotated(stats().replace("09-14", "12-31"), stats().replace("09-14", "01-01"), **YEAR)
        assert sorted(row["logged_at"].year for row in sink.stats) == [2026, 2027]


class TestContainers:
    def test_pieces_of_kubernetes_are_joined_on_each_stream(self) -> None:
        line = stats().rstrip("\n")
        log = (
            f"2026-09-14T08:01:00.412345678Z stdout P {line[:100]}\n"
            "2026-09-14T08:01:00.412345679Z stderr F a line of the other stream\n"
            f"2026-09-14T08:01:00.412345680Z stdout P {line[100:150]}\n"
            f"2026-09-14T08:01:00.412345681Z stdout F {line[150:]}\n"
        )
        row = only(read(log))
        assert (row["logged_at"], row["running"], row["byte_offset"]) == (AT, 4.0, 0)

    def test_pieces_without_their_last_are_rejected_at_rest(self) -> None:
        log = f"2026-09-14T08:01:00.412345678Z stdout P {stats()[:150]}\n2026-09-14T08:01:00.4Z stderr F other\n"
        assert len(read(log).rejects) == 1

    def test_a_json_file_of_docker_is_joined_at_its_newlines(self) -> None:
        line = stats()
        log = "".join(
            json.dumps({"log": piece, "stream": "stderr", "time": "2026-09-14T08:01:00.1Z"}) + "\n"
            for piece in (line[:90], line[90:])
        )
        assert only(read(log))["running"] == 4.0

    def test_a_json_record_in_a_json_file_is_unpacked_twice(self) -> None:
        record = {
            "asctime": "2026-09-14 08:01:00,250",
            "levelname": "INFO",
            "message": STATS.partition("] ")[2].strip(),
        }
        log = (
            json.dumps({"log": json.dumps(record) + "\n", "stream": "stderr", "time": "2026-09-14T08:01:00.3Z"}) + "\n"
        )
        assert only(read(log, timezone="UTC"))["logged_at"] == AT + dt.timedelta(milliseconds=250)

    def test_a_line_inside_a_shipper_s_object_is_a_line(self) -> None:
        shipped = {"level": "info", "message": stats().rstrip("\n"), "@timestamp": "2026-09-14T06:01:00Z"}
        assert only(read(json.dumps(shipped) + "\n"))["logged_at"] == AT - dt.timedelta(hours=2)

    @pytest.mark.parametrize("times", [1, 40])
    def test_a_journal_s_list_of_bytes_is_text(self, times: int) -> None:
        line = stats().rstrip("\n").replace("INFO", "\x1b[32mINFO\x1b[0m") + " 3·2"
        entry = {"__REALTIME_TIMESTAMP": "1789372800000000", "MESSAGE": list(line.encode()), "PRIORITY": "6"}
        sink = read((json.dumps(entry) + "\n") * times, **YEAR)
        assert [(row["logged_at"], row["running"]) for row in sink.stats] == [(AT, 4.0)] * times
        compact = json.dumps(entry, separators=(",", ":")) + "\n"
        assert only(read(compact, **YEAR))["running"] == 4.0

    @pytest.mark.parametrize("message", ["null", "7", "[300]", '["a"]', "{}", "[1, 2"])
    def test_a_journal_entry_without_text_is_rejected(self, message: str) -> None:
        entry = '{"__REALTIME_TIMESTAMP": "1789372800000000", "PRIORITY": "6", "MESSAGE": ' + message
        sink = read(entry + ("\n" if message == "[1, 2" else "}\n") + stats(), **YEAR)
        assert [reason for _, reason, _ in sink.rejects] == [
            "A journal entry whose MESSAGE cannot be read; it was left out."
        ]
        assert len(sink.stats) == 1

    def test_a_prompt_in_a_json_record_is_text(self) -> None:
        said = f"Received request cmpl-1: prompt: '{TRAP}', params: None"
        record = {"asctime": "2026-09-14 08:01:00,250", "levelname": "INFO", "message": said}
        assert read(json.dumps(record) + "\n" + stats(), **YEAR).records == 1

    def test_a_json_object_without_its_end_is_rejected(self) -> None:
        log = json.dumps({"log": stats(), "stream": "stderr", "time": "2026-09-14T08:01:00.1Z"})[:-30] + "\n"
        sink = read(log + "\n", **YEAR)
        assert (sink.stats, len(sink.rejects)) == ([], 1)

    def test_escaped_colours_in_a_json_file_are_taken_off(self) -> None:
        line = stats().replace("INFO", "\x1b[32mINFO\x1b[0m")
        log = json.dumps({"log": line, "stream": "stderr", "time": "2026-09-14T08:01:00.1Z"}) + "\n"
        assert [row["running"] for row in read(log * 40).stats] == [4.0] * 40
