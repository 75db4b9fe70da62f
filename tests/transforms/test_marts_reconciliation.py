"""The reconciliation: healthy data hold every identity, a real fault fails, what cannot be compared is no_data."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from tests.transforms.marts import House, only

SECOND = 1_000_000_000
EIGHT = dt.datetime(2026, 11, 29, 8)
NINE = dt.datetime(2026, 11, 29, 9)
HEALTHY: dict[str, Any] = {
    "requests": 10, "output_tokens": 1_005, "succeeded": 10, "failed": 0,
    "rounds": 400, "drafted": 1_200, "accepted": 600, "accepted_at": [300, 200, 100],
    "steps": 400, "step_tokens": 995, "step_rounds": 400, "step_accepted": 600,
    "preemptions": 0, "itl_sum": 8 * SECOND, "decode_sum_ns": 8 * SECOND,
}  # fmt: skip
"""A cell of counters on which all identities hold."""
ANSWERED: dict[str, Any] = {
    "requests": 10, "output_tokens": 1_005, "rounds": 400, "drafted": 1_200, "accepted": 600, "draft_limit": 3,
    "steps": 400, "step_tokens": 995, "step_rounds": 400, "step_accepted": 600,
}  # fmt: skip
"""The cell of the same ten requests."""


def house(**given: Any) -> House:
    """A server that was idle at both edges of its scrapes."""
    scrapes = [
        {"scraped_at": at, "running": 0.0, "generation_tokens": total} for at, total in ((EIGHT, 0), (NINE, 1_005))
    ]
    return House().put("cells_snapshots", {**HEALTHY, **given}).put("snapshots", *scrapes)


def answered(rows: House, **given: Any) -> House:
    times = {"arrived_at": EIGHT + dt.timedelta(minutes=5), "finished_at": EIGHT + dt.timedelta(minutes=50)}
    return rows.put("cells_requests", {**ANSWERED, **given}).put("requests", times)


def verdicts(rows: House) -> dict[str, str]:
    return {row["check_name"]: row["verdict"] for row in rows.mart("reconciliation")}


def fails(rows: House) -> list[str]:
    return [name for name, verdict in verdicts(rows).items() if verdict == "fail"]


def test_healthy_counters_hold_every_identity() -> None:
    rows = house().mart("reconciliation")
    assert {row["check_name"]: row["verdict"] for row in rows} == dict.fromkeys(
        (
            "positions_add_up", "positions_never_rise", "accepted_within_drafted", "drafted_within_limit",
            "rounds_within_steps", "truncated_not_negative", "first_tokens_finish", "decode_time_adds_up",
        ),
        "ok",
    )  # fmt: skip
    assert {row["detail"] for row in rows} == {None}
    assert all(row["difference"] == 0 for row in rows)


def test_positions_of_one_engine_under_totals_of_two_do_not_add_up_and_the_difference_says_by_how_much() -> None:
    rows = house(accepted_at=[150, 100, 50])
    assert fails(rows) == ["positions_add_up"]
    row = rows.one("reconciliation", check_name="positions_add_up")
    assert only(row, "expected", "found", "difference") == (600.0, 300.0, -300.0)


def test_a_fault_of_one_engine_is_not_hidden_by_another() -> None:
    rows = house(accepted_at=[300, 200, 99]).put(
        "cells_snapshots", {**HEALTHY, "engine": 1, "accepted_at": [300, 201, 100]}
    )
    assert [only(row, "engine", "difference") for row in rows.mart("reconciliation") if row["verdict"] == "fail"] == [
        (0, -1.0),
        (1, 1.0),
    ]


@pytest.mark.parametrize(
    ("given", "failing"),
    [
        ({"accepted_at": [200, 300, 100]}, ["positions_never_rise"]),
        ({"drafted": 599}, ["accepted_within_drafted"]),
        ({"drafted": 1_201}, ["drafted_within_limit"]),
        ({"step_rounds": 401}, ["rounds_within_steps"]),
        ({"step_tokens": 1_001}, ["truncated_not_negative"]),
        ({"decode_sum_ns": 7 * SECOND}, ["decode_time_adds_up"]),
    ],
)
def test_each_broken_identity_fails_alone(given: dict[str, Any], failing: list[str]) -> None:
    assert fails(house(**given)) == failing


def test_returns_after_a_resume_are_explained_by_preemptions() -> None:
    rows = house(steps=452, step_tokens=1_047, preemptions=52)
    row = rows.one("reconciliation", check_name="rounds_within_steps")
    assert only(row, "verdict", "detail") == ("ok", "52 returns after a resume from preemption carried no draft.")


def test_rounds_of_requests_that_were_cut_off_return_nothing() -> None:
    rows = house(step_rounds=402, succeeded=9)
    row = rows.one("reconciliation", check_name="rounds_within_steps")
    assert only(row, "verdict", "detail") == (
        "ok",
        "2 rounds of requests that were cut off or still run returned nothing.",
    )
    assert "rounds_within_steps" in fails(house(step_rounds=403, succeeded=9))


def test_steps_without_a_draft_are_a_finding() -> None:
    row = house(steps=800, step_tokens=1_395).one("reconciliation", check_name="rounds_within_steps")
    assert only(row, "verdict", "detail") == ("ok", "400 of 800 steps carried no draft: coverage is 0.500.")


def test_positions_that_were_not_drafted_are_a_finding_and_no_rejection() -> None:
    row = house(drafted=800).one("reconciliation", check_name="drafted_within_limit")
    assert row["verdict"] == "ok"
    assert row["detail"] == "Rounds drafted 2.00 of 3 tokens on average: 400 positions were not drafted, not rejected."


def test_aborted_requests_are_a_finding_and_leave_decode_time_open() -> None:
    rows = house(succeeded=8)
    row = rows.one("reconciliation", check_name="first_tokens_finish")
    assert only(row, "verdict", "difference") == ("ok", -2.0)
    assert row["detail"] == "2 of 10 requests with a first token are in no finished series: aborted, or still running."
    assert rows.one("reconciliation", check_name="decode_time_adds_up")["verdict"] == "no_data"


@pytest.mark.parametrize("edge", [EIGHT - dt.timedelta(minutes=1), NINE + dt.timedelta(minutes=1)])
@pytest.mark.parametrize("running", [2.0, None])
def test_requests_in_flight_at_an_edge_leave_decode_time_open(edge: dt.datetime, running: float | None) -> None:
    rows = house(decode_sum_ns=7 * SECOND)
    total = 0 if edge < EIGHT else 1_005
    rows.put("snapshots", {"scraped_at": edge, "running": running, "generation_tokens": total})
    expected = "no_data" if running else "fail"
    assert verdicts(rows)["decode_time_adds_up"] == expected


def test_rows_of_ordinary_decode_ask_nothing_of_acceptance() -> None:
    none = dict.fromkeys(("rounds", "drafted", "accepted", "accepted_at"))
    rows = house(steps=995, step_rounds=0, step_accepted=0, **none)
    assert verdicts(rows) == dict.fromkeys(
        ("truncated_not_negative", "first_tokens_finish", "decode_time_adds_up"), "ok"
    )


def test_requests_and_counters_of_the_same_span_agree() -> None:
    found = verdicts(answered(house()))
    agreeing = ("rounds_agree", "drafted_agree", "accepted_agree", "output_tokens_agree")
    assert {name: found[name] for name in agreeing} == dict.fromkeys(agreeing, "ok")


def test_requests_that_add_up_to_something_else_fail() -> None:
    rows = answered(house(), rounds=398, drafted=1_194)
    assert set(fails(rows)) == {"rounds_agree", "drafted_agree"}
    row = rows.one("reconciliation", check_name="rounds_agree")
    assert only(row, "instance", "engine", "origin", "difference") == (None, None, "requests/snapshots", -2.0)


@pytest.mark.parametrize(
    ("request_row", "cell", "reason"),
    [
        ({"arrived_at": EIGHT - dt.timedelta(seconds=1)}, {}, "The scrapes do not span all requests."),
        ({"finished_at": NINE + dt.timedelta(seconds=1)}, {}, "The scrapes do not span all requests."),
        ({"arrived_at": None}, {}, "Some requests have no time of arrival or end."),
        ({}, {"requests": 9, "output_tokens": 900}, "There are 9 requests with output, the servers counted 10."),
        (
            {"status": "aborted", "client_ttft_ms": 9.0},
            {},
            "1 requests were cut off: what the servers did for them is not told.",
        ),
        (
            {"sequences": 2, "output_tokens": 60},
            {},
            "1 requests asked for several sequences, which carry no acceptance.",
        ),
        ({}, {"rounds": None}, "The requests do not tell this."),
    ],
)
def test_what_does_not_hold_the_same_requests_is_not_compared(
    request_row: dict[str, Any], cell: dict[str, Any], reason: str
) -> None:
    rows = house().put("cells_requests", {**ANSWERED, "rounds": 398, **cell})
    rows.put("requests", {"arrived_at": EIGHT, "finished_at": NINE, **request_row})
    row = rows.one("reconciliation", check_name="rounds_agree")
    assert only(row, "verdict", "detail") == ("no_data", reason)


def test_a_restart_leaves_open_what_was_lost_with_the_counters() -> None:
    rows = answered(house(restarts=1), rounds=420)
    assert verdicts(rows)["rounds_agree"] == "no_data"
    assert verdicts(rows)["decode_time_adds_up"] == "no_data"


@pytest.mark.parametrize(
    ("counts", "verdict"), [([3, 5, 2], "ok"), ([12, -2, 0], "fail"), ([3, 5, 0], "fail"), ([3, 5, 3], "fail")]
)
def test_buckets_that_fall_or_do_not_end_at_their_count_fail(counts: list[int], verdict: str) -> None:
    cell = {"itl": {"le": [0.1, 0.2, float("inf")], "n": counts}, "itl_n": 10}
    row = house(**cell).one("reconciliation", check_name="buckets_add_up")
    assert (row["verdict"], "of itl" in (row["detail"] or "")) == (verdict, verdict == "fail")


@pytest.mark.parametrize(
    ("check", "damage"),
    [
        ("values_are_possible", {"output_tokens": 10**15}),
        ("values_are_possible", {"decode_ms": -5.0}),
        ("values_are_possible", {"gaps_ms": [20.0, 1e20]}),
        ("output_within_limit", {"output_tokens": 81}),
        ("decode_within_request", {"decode_ms": 10_000.0}),
    ],
)
@pytest.mark.parametrize(("damaged", "verdict"), [(0, "ok"), (1, "ok"), (2, "fail")])
def test_requests_that_tell_what_cannot_be_are_found_and_many_are_a_fault(
    check: str, damage: dict[str, Any], damaged: int, verdict: str
) -> None:
    sound = {"output_tokens": 80, "max_tokens": 80, "decode_ms": 2_000.0, "e2e_ms": 2_500.0, "gaps_ms": [20.0, 25.0]}
    requests = [{**sound, **(damage if number < damaged else {}), "request_id": str(number)} for number in range(100)]
    row = House().put("requests", *requests).one("reconciliation", check_name=check)
    assert only(row, "verdict", "found") == (verdict, damaged)
    assert (row["detail"] is not None) == (damaged > 0)


def test_requests_whose_steps_are_not_told_say_so() -> None:
    rows = House().put("cells_requests", {**ANSWERED, "steps": None, "step_rounds": None, "step_accepted": None})
    for check in ("rounds_within_steps", "truncated_not_negative"):
        row = rows.one("reconciliation", check_name=check)
        assert (row["verdict"], row["detail"] is not None) == ("no_data", True)


@pytest.mark.parametrize(("damaged", "kind"), [(0, ("ok", False)), (24, ("ok", True)), (25, ("fail", True))])
def test_a_few_damaged_scrapes_are_told_and_many_are_a_fault(damaged: int, kind: tuple[str, bool]) -> None:
    row = house(n=240, damaged=damaged).one("reconciliation", check_name="counters_never_fall")
    assert (row["verdict"], row["detail"] is not None) == kind
    assert only(row, "expected", "found") == (0, damaged)


@pytest.mark.parametrize(
    ("record", "verdict"),
    [
        ({"rounds": 401, "rounds_min": 399, "rounds_max": 402}, "ok"),
        ({"rounds": 404, "rounds_min": 402, "rounds_max": 406}, "fail"),
        ({"rounds": 390, "rounds_min": 388, "rounds_max": 392, "drafted": 1_170, "accepted": 590}, "no_data"),
    ],
)
def test_rounds_recovered_from_the_log_hold_the_counted_ones_where_both_saw_the_same(
    record: dict[str, Any], verdict: str
) -> None:
    rows = house().put("cells_log_stats", {"drafted": 1_200, "accepted": 600, **record})
    assert rows.one("reconciliation", check_name="rounds_within_bounds")["verdict"] == verdict


@pytest.mark.parametrize(
    ("counters", "iterations", "verdict", "detail"),
    [
        ({}, {"generation_requests": 400, "generation_tokens": 1_600}, "ok", None),
        (
            {},
            {"generation_requests": 390, "generation_tokens": 1_560},
            "no_data",
            "The iterations hold 390 steps, the counters 400: other spans.",
        ),
        (
            {"preemptions": 2},
            {"generation_requests": 400, "generation_tokens": 1_900},
            "ok",
            "300 positions were computed again after 2 preemptions.",
        ),
        (
            {},
            {"generation_requests": 400, "generation_tokens": 1_599},
            "fail",
            "The iterations scheduled another number of positions than steps and drafts need.",
        ),
    ],
)
def test_scheduled_positions_are_steps_drafts_and_recomputes(
    counters: dict[str, Any], iterations: dict[str, Any], verdict: str, detail: str | None
) -> None:
    rows = house(**counters).put("cells_iterations", {"n": 50, **iterations})
    row = rows.one("reconciliation", check_name="scheduled_positions_add_up")
    assert only(row, "engine", "verdict", "detail") == (0, verdict, detail)


def run(**given: Any) -> dict[str, Any]:
    return {"started_at": EIGHT, "requests": 2, "output_tokens": 60, "finished_at": NINE, **given}


def client(request_id: str, **given: Any) -> dict[str, Any]:
    return {"request_id": request_id, "format": "aiperf", "source": "records", "output_tokens": 30, **given}


def test_a_tool_s_own_totals_agree_with_its_requests() -> None:
    cut_off = client("c", status="aborted", output_tokens=7)
    rows = House().put("run_totals", run(rounds=20)).put("requests", client("a"), client("b"), cut_off)
    assert verdicts(rows) == {
        "values_are_possible": "ok",
        "run_requests_agree": "ok",
        "run_output_tokens_agree": "ok",
        "run_rounds_agree": "no_data",
    }


def test_a_tool_s_totals_that_its_requests_do_not_reach_fail() -> None:
    rows = House().put("run_totals", run(output_tokens=61)).put("requests", client("a"), client("b"))
    assert fails(rows) == ["run_output_tokens_agree"]


@pytest.mark.parametrize(
    ("given", "ids", "reason"),
    [
        ({}, "", "The tool wrote totals only."),
        ({}, "a", "The tool wrote 1 of 2 requests one by one."),
        ({"started_at": dt.datetime(2026, 11, 28, 23)}, "ab", "The run began on the day before."),
    ],
)
def test_totals_whose_requests_are_not_all_there_are_not_compared(given: dict[str, Any], ids: str, reason: str) -> None:
    rows = House().put("run_totals", run(**given)).put("requests", *map(client, ids))
    row = rows.one("reconciliation", check_name="run_requests_agree")
    assert only(row, "verdict", "detail") == ("no_data", reason)


def test_totals_in_the_file_of_their_requests_are_compared_with_those_alone() -> None:
    rows = House().put("run_totals", run(tool="vllm-bench", source="one"), run(tool="vllm-bench", source="totals only"))
    for name in "ab":
        rows.put("requests", client(name, format="bench", source="one"))
    row = rows.one("reconciliation", check_name="run_requests_agree")
    assert only(row, "expected", "found", "verdict") == (2.0, 2.0, "ok")


def traffic(*requests: tuple[int, int], positions: int = 3) -> House:
    """One cell of requests given as (rounds, accepted), each round of which accepted all or nothing of its draft."""
    rows = House()
    rounds, accepted = (sum(values) for values in zip(*requests, strict=True))
    moments = {
        "rounds_rounds": sum(r * r for r, _ in requests),
        "rounds_accepted": sum(r * c for r, c in requests),
        "accepted_accepted": sum(c * c for _, c in requests),
    }
    counts = {"requests": len(requests), "rounds": rounds, "drafted": positions * rounds, "accepted": accepted}
    rows.put("cells_requests", {**counts, **moments})
    counts = {name: counts[name] for name in ("rounds", "drafted", "accepted")}
    at = [accepted // positions] * positions
    return rows.put(
        "cells_draft_lengths", {"origin": "requests", "draft_length": positions, **counts, "accepted_at": at}
    )


@pytest.mark.parametrize(
    ("requests", "suspicious"),
    [
        ([(20, 57)] * 40, True),
        ([(20, 60)] * 40, True),
        ([(20, 0)] * 40, True),
        ([(20, 0)] * 29, False),
        ([(20, 60)] * 36 + [(20, 36)] * 4, False),
        ([(20, 36)] * 40, False),
    ],
)
def test_acceptance_near_its_limits_without_any_spread_over_requests_is_a_finding(
    requests: list[tuple[int, int]], suspicious: bool
) -> None:
    rows = [row for row in traffic(*requests).mart("reconciliation") if row["check_name"] == "load_looks_natural"]
    assert [row["verdict"] for row in rows] in ([], ["ok"])
    assert any(row["detail"] for row in rows) == suspicious


@pytest.mark.parametrize(
    ("accepted", "spread", "says"),
    [
        (12, 0, "with random tokens or other synthetic load, or with a drafter"),
        (588, 2, "synthetic load. Such figures"),
        (576, 24, None),
        (300, 0, None),
    ],
)
def test_acceptance_that_is_alike_in_all_requests_near_none_or_all_is_a_finding(
    accepted: int, spread: int, says: str | None
) -> None:
    # Forty requests of 600 draft tokens each; every second one accepts more, every other one fewer.
    each = [accepted + (spread if number % 2 else -spread) for number in range(40)]
    house = House().put(
        "cells_requests",
        {
            "n": 40, "rounds": 40 * 200, "drafted": 40 * 600, "accepted": sum(each), "drafted_drafted": 40 * 600**2,
            "drafted_accepted": 600 * sum(each), "accepted_accepted": sum(value**2 for value in each),
        },
    )  # fmt: skip
    row = house.one("reconciliation", check_name="acceptance_differs_by_request")
    assert only(row, "verdict", "found") == ("ok", accepted / 600)
    assert (row["detail"] is None) if says is None else says in row["detail"]
