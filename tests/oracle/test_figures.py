"""The figures of the real captures: as published, as counted independently, and as the warehouse gives them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache

import pytest

from tests import captures
from tests.command_line import CommandLine
from tests.oracle import count

PAIR = ("spec_k3_draft", "baseline_nospec")
SPECULATIVE, BASELINE = PAIR
COUNTS = {
    # capture: rounds, drafted, accepted, output tokens, steps, requests
    "spec_k3_draft": (22_524, 67_572, 40_613, 63_003, 22_524, 859),
    "baseline_nospec": (None, None, None, 48_247, 47_589, 658),
    "preemption": (8_432, 25_296, 15_205, 23_680, 8_484, 74),
    "dynamic_sd": (7_507, 14_497, 9_241, 26_508, 17_115, 346),
    "otel": (6_157, 18_471, 11_267, 17_376, 6_157, 252),
    "dp2_one_api_server": (4_669, 14_007, 8_326, 12_938, 4_669, 185),
    "default_flags": (2_712, 8_136, 5_103, 7_830, 2_712, 146),
}
PER_CLIENTS = {
    # clients: TPOT without and with speculation (ms), speedup, break-even length, by the client's clock
    1: ("15.33", "11.32", "1.35", "2.00"),
    2: ("19.41", "14.07", "1.38", "2.10"),
    4: ("22.38", "21.32", "1.05", "2.63"),
    8: ("32.40", "33.63", "0.96", "2.86"),
    16: ("56.27", "52.14", "1.08", "2.54"),
    32: ("100.94", "106.85", "0.94", "2.89"),
}
Captured = Callable[..., CommandLine]


def printed(value: float, like: str) -> bool:
    """Whether a value rounds to a printed one."""
    digits = len(like.partition(".")[2])
    return round(value, digits) == float(like)


@cache
def counters(name: str) -> count.Counters:
    return count.counters(captures.folder(name) / "metrics.prom.zst")


@cache
def responses(name: str, clients: int | None = None) -> count.Requests:
    return count.responses(captures.folder(name) / "responses.jsonl.zst", clients)


@cache
def log(name: str) -> count.Log:
    return count.log(captures.folder(name) / "server.log.zst")


@pytest.mark.parametrize("name", COUNTS)
def test_an_independent_count_gives_the_published_totals(name: str) -> None:
    grown = counters(name).grown
    series = (
        "spec_decode_num_drafts_total",
        "spec_decode_num_draft_tokens_total",
        "spec_decode_num_accepted_tokens_total",
        "generation_tokens_total",
        "inter_token_latency_seconds_count",
        "time_to_first_token_seconds_count",
    )
    assert tuple(grown.get(key) for key in series) == COUNTS[name]


@pytest.mark.parametrize("clients", PER_CLIENTS)
def test_an_independent_count_gives_the_published_figures_by_load(clients: int) -> None:
    plain, drafted = responses(BASELINE, clients), responses(SPECULATIVE, clients)
    t0 = plain.client_decode_ms / plain.tokens
    tpot = drafted.client_decode_ms / drafted.tokens
    round_time = drafted.client_decode_ms / drafted.rounds
    assert all(
        printed(value, like)
        for value, like in zip((t0, tpot, t0 / tpot, round_time / t0), PER_CLIENTS[clients], strict=True)
    )


@pytest.mark.parametrize("name", COUNTS)
def test_scrapes_give_every_total_to_the_unit(name: str, captured: Captured) -> None:
    cli = captured(*(PAIR if name in PAIR else (name,)))
    (row,) = cli.rows(
        "SELECT sum(rounds) AS rounds, sum(drafted) AS drafted, sum(accepted) AS accepted,"
        " sum(output_tokens) AS output_tokens, sum(steps) AS steps, sum(requests) AS requests"
        f" FROM acceptance WHERE deployment = '{name}' AND origin = 'snapshots'"
    )
    assert tuple(row.values()) == COUNTS[name]


@pytest.mark.parametrize("name", [name for name in COUNTS if name not in (BASELINE, "default_flags")])
def test_responses_give_every_total_to_the_unit(name: str, captured: Captured) -> None:
    cli = captured(*(PAIR if name in PAIR else (name,)))
    expected = responses(name)
    (row,) = cli.rows(
        "SELECT sum(rounds) AS rounds, sum(drafted) AS drafted, sum(accepted) AS accepted,"
        " sum(output_tokens) AS output_tokens, sum(requests) AS requests"
        f" FROM acceptance WHERE deployment = '{name}' AND origin = 'requests'"
    )
    counted = (expected.rounds, expected.drafted, expected.accepted, expected.output_tokens, expected.requests)
    assert tuple(row.values()) == counted
    assert expected.rounds == COUNTS[name][0]


@pytest.mark.parametrize("name", [name for name in COUNTS if name != BASELINE])
def test_the_log_gives_drafted_and_accepted_to_the_unit_and_rounds_within_its_bounds(
    name: str, captured: Captured
) -> None:
    cli = captured(*(PAIR if name in PAIR else (name,)))
    (row,) = cli.rows(
        "SELECT count(drafted) AS records, sum(drafted) AS drafted, sum(accepted) AS accepted, sum(rounds) AS rounds,"
        f" sum(rounds_min) AS low, sum(rounds_max) AS high FROM log_stats WHERE deployment = '{name}'"
    )
    assert (row["records"], row["drafted"], row["accepted"]) == (
        log(name).spec_records, log(name).drafted, log(name).accepted,
    )  # fmt: skip
    rounds = COUNTS[name][0]
    assert rounds is not None
    assert row["low"] <= rounds <= row["high"]
    assert abs(row["rounds"] - rounds) <= 0.002 * rounds


@pytest.mark.parametrize("origin", ["snapshots", "requests"])
def test_positions_add_up_to_the_published_counts(origin: str, captured: Captured) -> None:
    rows = captured(*PAIR).rows(
        f"SELECT position, sum(accepted) AS accepted FROM positions WHERE deployment = '{SPECULATIVE}'"
        f" AND origin = '{origin}' GROUP BY position ORDER BY position"
    )
    assert [row["accepted"] for row in rows] == [17_132, 13_040, 10_441] == counters(SPECULATIVE).accepted_at


def test_requests_tell_survival_and_conditional_rates_under_a_varying_length(captured: Captured) -> None:
    cli = captured("dynamic_sd")
    counted = count.positions(captures.folder("dynamic_sd") / "responses.jsonl.zst")
    assert counted == {1: (7_507, 5_700), 2: (3_495, 1_972), 3: (3_495, 1_569)}
    found = cli.rows(
        "SELECT position, sum(rounds) AS rounds, sum(accepted) AS accepted, bool_or(censored) AS censored"
        " FROM positions WHERE origin = 'requests' GROUP BY position ORDER BY position"
    )
    assert {row["position"]: (row["rounds"], row["accepted"]) for row in found} == counted
    assert not any(row["censored"] for row in found)
    bands: dict[str, float] = {}
    for row in cli.rows("SELECT * FROM positions WHERE origin = 'requests' ORDER BY load_band, position"):
        assert row["survival"] == row["accepted"] / row["rounds"]
        assert row["conditional"] == row["survival"] / bands.get(row["load_band"], 1.0)
        bands[row["load_band"]] = row["survival"]
    assert len(bands) == 5
    (whole,) = cli.rows(
        "SELECT survival, conditional, censored FROM acceptance_by WHERE dimension = 'draft_limit' AND value = '3'"
    )
    survival = [hits / rounds for rounds, hits in counted.values()]
    assert whole["survival"] == survival
    assert whole["conditional"] == [now / before for before, now in itertools.pairwise([1.0, *survival])]


def test_counters_alone_leave_a_varying_length_censored(captured: Captured) -> None:
    rows = captured("dynamic_sd").rows(
        "SELECT load_band, position, rounds, survival, conditional, censored FROM positions"
        " WHERE origin = 'snapshots' AND rounds > 0 ORDER BY load_band, position"
    )
    # One request at a time always ran at K = 3, so that D = 3 R: every other band saw lengths come and go.
    assert {row["load_band"] for row in rows if not row["censored"]} == {"1"}
    assert all((row["conditional"] is None) is row["censored"] for row in rows)
    busy = [row for row in rows if row["load_band"] == "5-8"]
    assert len({row["rounds"] for row in busy}) == 1
    assert busy[1]["survival"] < 0.01  # not drafted, which the counters cannot tell from rejected


@pytest.mark.parametrize("origin", ["snapshots", "requests"])
def test_lengths_and_truncation_are_as_published(origin: str, captured: Captured) -> None:
    (row,) = captured(*PAIR).rows(
        "SELECT 1 + sum(accepted) / sum(rounds) AS length, sum(output_tokens - requests) / sum(steps) AS effective,"
        f" sum(truncated) AS truncated FROM acceptance WHERE deployment = '{SPECULATIVE}' AND origin = '{origin}'"
    )
    assert printed(row["length"], "2.8031")
    assert printed(row["effective"], "2.7590")
    assert row["truncated"] == 993 == responses(SPECULATIVE).truncated


def test_truncation_is_found_in_the_published_number_of_requests(captured: Captured) -> None:
    found = captured(*PAIR).value(
        "SELECT count(*) FROM requests"
        f" WHERE deployment = '{SPECULATIVE}' AND 1 + rounds + accepted - output_tokens > 0"
    )
    assert found == 545 == responses(SPECULATIVE).truncated_requests


@pytest.mark.parametrize("origin", ["snapshots", "requests"])
def test_round_time_and_time_per_token_are_as_published(origin: str, captured: Captured) -> None:
    cli = captured(*PAIR)
    pooled = cli.rows(
        "SELECT deployment, round_time_ms, tpot_ms FROM ledger"
        f" WHERE origin = '{origin}' AND load_band = 'all' ORDER BY deployment"
    )
    (plain, drafted) = pooled
    assert printed(drafted["round_time_ms"], "139.517")
    assert printed(drafted["tpot_ms"], "50.568")
    assert printed(plain["tpot_ms"], "53.10")
    grown = counters(SPECULATIVE)
    assert drafted["round_time_ms"] == pytest.approx(
        1000 * grown["inter_token_latency_seconds_sum"] / grown["inter_token_latency_seconds_count"], rel=1e-6
    )


def test_the_mean_of_requests_is_another_figure(captured: Captured) -> None:
    mean = captured(*PAIR).value(
        "SELECT avg(decode_ms / (output_tokens - 1)) FROM requests"
        f" WHERE deployment = '{SPECULATIVE}' AND output_tokens > 1"
    )
    assert printed(mean, "51.619")
    assert mean == pytest.approx(responses(SPECULATIVE).request_tpot_ms / responses(SPECULATIVE).longer, rel=1e-9)


def test_step_time_adds_up_to_decode_time(captured: Captured) -> None:
    (row,) = captured(*PAIR).rows(
        "SELECT max(itl.sum) - min(itl.sum) AS steps_s, max(decode.sum) - min(decode.sum) AS decode_s"
        f" FROM snapshots WHERE deployment = '{SPECULATIVE}'"
    )
    assert printed(row["steps_s"], "3142.473843")
    assert printed(row["decode_s"], "3142.473843")


def test_iterations_are_as_published(captured: Captured) -> None:
    (row,) = captured(*PAIR).rows(
        "SELECT count(*) AS n, sum(generation_requests) AS requests, sum(generation_tokens) AS tokens"
        f" FROM iterations WHERE deployment = '{SPECULATIVE}'"
    )
    assert tuple(row.values()) == (4_990, 22_524, 90_096)
    counted = log(SPECULATIVE)
    assert tuple(row.values()) == (counted.iterations, counted.generation_requests, counted.generation_tokens)


@pytest.mark.parametrize(("name", "n", "mean"), [(SPECULATIVE, 1_693, "28.672"), (BASELINE, 2_881, "13.814")])
def test_iterations_of_one_request_without_prefill_are_as_published(
    name: str, n: int, mean: str, captured: Captured
) -> None:
    (row,) = captured(*PAIR).rows(
        "SELECT count(*) AS n, avg(elapsed_ms) AS mean FROM iterations"
        f" WHERE deployment = '{name}' AND context_requests = 0 AND generation_requests = 1"
    )
    assert row["n"] == n == log(name).alone
    assert printed(row["mean"], mean)
    (row,) = captured(*PAIR).rows(
        "SELECT n, round_time_ms FROM round_time"
        f" WHERE deployment = '{name}' AND origin = 'iterations' AND load_band = '1'"
    )
    assert row["n"] == n
    assert printed(row["round_time_ms"], mean)


@pytest.mark.parametrize("clients", PER_CLIENTS)
def test_one_query_gives_the_published_figures_by_load(clients: int, captured: Captured) -> None:
    cli = captured(*PAIR)

    def totals(name: str) -> tuple[float, int, int | None]:
        (step,) = [step for step in captures.load_steps(name) if step.concurrency == clients]
        (row,) = cli.rows(
            "SELECT sum(list_sum(gaps_ms)) AS ms, sum(output_tokens - 1) AS tokens, sum(rounds) AS rounds FROM requests"
            f" WHERE deployment = '{name}' AND epoch(arrived_at) BETWEEN {step.start_unix - 1} AND {step.end_unix + 1}"
        )
        return row["ms"], row["tokens"], row["rounds"]

    plain_ms, plain_tokens, _ = totals(BASELINE)
    drafted_ms, drafted_tokens, rounds = totals(SPECULATIVE)
    assert rounds is not None
    t0, tpot = plain_ms / plain_tokens, drafted_ms / drafted_tokens
    found = (t0, tpot, t0 / tpot, drafted_ms / rounds / t0)
    assert all(printed(value, like) for value, like in zip(found, PER_CLIENTS[clients], strict=True))


def test_time_per_token_is_round_time_over_effective_length_everywhere(captured: Captured) -> None:
    rows = captured(*PAIR).rows(
        "SELECT tpot_ms, round_time_ms, effective_length FROM ledger"
        " WHERE tpot_ms IS NOT NULL AND round_time_ms IS NOT NULL AND effective_length IS NOT NULL"
    )
    assert len(rows) > 12
    for row in rows:
        assert row["tpot_ms"] == pytest.approx(row["round_time_ms"] / row["effective_length"], rel=1e-9)


def test_the_ledger_is_complete_for_every_band_that_both_ran(captured: Captured) -> None:
    rows = captured(*PAIR).rows(
        f"SELECT * FROM ledger WHERE deployment = '{SPECULATIVE}' AND origin = 'snapshots' AND load_band <> '0'"
    )
    assert {row["load_band"] for row in rows} >= {"all", "1", "2-4", "5-8", "9-16", "17-32"}
    for row in rows:
        figures = ("t0_ms", "round_time_ms", "acceptance_length", "effective_length", "tpot_ms", "speedup")
        assert all(row[name] is not None for name in (*figures, "break_even_length")), row["load_band"]
        assert row["t0_origin"] == "same_date"


def test_speculation_pays_at_low_load_and_not_at_high_load(captured: Captured) -> None:
    rows = captured(*PAIR).rows(
        f"SELECT load_band, speedup FROM ledger WHERE deployment = '{SPECULATIVE}' AND origin = 'snapshots'"
    )
    speedup = {row["load_band"]: row["speedup"] for row in rows}
    assert speedup["1"] > 1.2
    assert speedup["17-32"] < 1.0


def test_preemption_costs_steps_without_a_draft(captured: Captured) -> None:
    cli = captured("preemption")
    (row,) = cli.rows(
        "SELECT sum(steps) - sum(rounds) AS resumed, sum(truncated) AS truncated,"
        " sum(output_tokens - requests) / sum(steps) AS effective FROM acceptance WHERE origin = 'snapshots'"
    )
    assert (row["resumed"], row["truncated"]) == (52, 83)
    assert printed(row["effective"], "2.782")
    assert cli.value("SELECT sum(preemptions) FROM preemption WHERE origin = 'snapshots'") == 52


def test_recomputed_tokens_are_what_iterations_scheduled_beyond_steps_and_drafts(captured: Captured) -> None:
    cli = captured("preemption")
    found = cli.value(
        "SELECT (SELECT sum(generation_tokens) FROM iterations)"
        " - (SELECT sum(steps) + sum(drafted) FROM acceptance WHERE origin = 'snapshots')"
    )
    grown = counters("preemption").grown
    steps_and_drafts = grown["inter_token_latency_seconds_count"] + grown["spec_decode_num_draft_tokens_total"]
    assert found == 7_637 == log("preemption").generation_tokens - steps_and_drafts
    assert cli.value("SELECT sum(recomputed_tokens) FROM preemption") == 7_637


def test_aborts_are_counted_where_they_show(captured: Captured) -> None:
    cli = captured("default_flags")
    grown = counters("default_flags")
    time_ms = 1000 * grown["inter_token_latency_seconds_sum"]
    expected = time_ms / (grown["generation_tokens_total"] - grown["time_to_first_token_seconds_count"])
    found = cli.value("SELECT tpot_ms FROM ledger WHERE origin = 'snapshots' AND load_band = 'all'")
    assert printed(expected, "100.67")
    assert found == pytest.approx(expected, rel=1e-6)
    assert cli.value("SELECT sum(requests) FROM acceptance WHERE origin = 'snapshots'") == 146


@pytest.mark.parametrize("name", [name for name in COUNTS if name not in PAIR])
def test_nothing_healthy_is_called_a_fault(name: str, captured: Captured) -> None:
    faults = captured(name).rows("SELECT check_name, origin, detail FROM reconciliation WHERE verdict = 'fail'")
    assert faults == []


def test_nothing_healthy_is_called_a_fault_in_the_pair(captured: Captured) -> None:
    faults = captured(*PAIR).rows("SELECT check_name, origin, detail FROM reconciliation WHERE verdict = 'fail'")
    assert faults == []
