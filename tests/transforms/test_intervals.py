"""Scrape intervals: small rows in, rows out, and an oracle in plain Python on random series."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.transforms.raw import DAY, Raw, at, histogram, values

BORN = at(-1000)
COUNTERS = ("rounds", "drafted", "accepted", "prompt_tokens", "generation_tokens")


def scrape(seconds: float, total: int | None = None, **columns: Any) -> dict[str, Any]:
    """A scrape at which every counter is a multiple of ``total``."""
    counted = {} if total is None else {"rounds": total, "drafted": 3 * total, "accepted": 2 * total}
    return {"scraped_at": at(seconds), **counted, **columns}


def intervals(*scrapes: dict[str, Any]) -> list[dict[str, Any]]:
    return Raw().put("snapshots", *scrapes).rows("intervals", "deployment, instance, engine, model_name, ended_at")


def test_an_interval_is_what_grew_between_two_scrapes() -> None:
    (row,) = intervals(scrape(0, 10, accepted_at=[9, 8, 3]), scrape(15, 14, accepted_at=[12, 10, 6]))
    assert {
        name: row[name] for name in ("date", "hour", "block", "duration_ns", "restarted", "rounds", "accepted_at")
    } == {
        "date": DAY,
        "hour": 8,
        "block": 48,
        "duration_ns": 15_000_000_000,
        "restarted": False,
        "rounds": 4,
        "accepted_at": [3, 2, 3],
    }


def test_one_scrape_is_only_a_base() -> None:
    assert intervals(scrape(0, 10)) == []


def test_an_interval_belongs_to_the_date_and_block_of_its_end() -> None:
    midnight = dt.datetime(2026, 11, 30)
    before, after = midnight - dt.timedelta(seconds=5), midnight + dt.timedelta(seconds=5)
    (row,) = intervals(scrape(0, 1, scraped_at=before), scrape(0, 2, scraped_at=after))
    assert (row["date"], row["hour"], row["block"]) == (after.date(), 0, 0)


def test_a_new_start_time_makes_the_whole_new_value_count_even_where_it_is_higher() -> None:
    rows = intervals(
        scrape(0, 10, process_started_at=BORN),
        scrape(15, 12, process_started_at=BORN),
        scrape(30, 40, process_started_at=at(20)),
    )
    assert values(rows, "restarted", "rounds") == [(False, 2), (True, 40)]


def test_without_start_times_a_drop_of_most_counters_is_a_restart() -> None:
    rows = intervals(
        scrape(0, 10, prompt_tokens=100), scrape(15, 7, prompt_tokens=110), scrape(30, 9, prompt_tokens=115)
    )
    assert values(rows, "restarted", "rounds", "prompt_tokens") == [(True, 7, 110), (False, 2, 5)]


@pytest.mark.parametrize("born", [BORN, None])
def test_one_counter_that_falls_damages_its_scrape_and_is_no_restart(born: dt.datetime | None) -> None:
    totals = [100, 110, 120, 135, 150]
    for place, wrong in ((1, 1), (2, 0), (3, 119), (2, 10**15)):
        tokens = [wrong if n == place else 2 * total for n, total in enumerate(totals)]
        rows = intervals(
            *(
                scrape(15 * n, total, process_started_at=born, generation_tokens=tokens[n])
                for n, total in enumerate(totals)
            )
        )
        assert [row["damaged"] for row in rows] == [n == place for n in range(1, 5)]
        assert not any(row["restarted"] for row in rows)
        assert values(rows, "rounds", "output_tokens")[place - 1] == (None, None)
        assert [sum(row[name] or 0 for row in rows) for name in ("rounds", "output_tokens")] == [50, 100]


def test_a_scrape_of_zeros_within_one_start_time_counts_nothing_twice() -> None:
    rows = intervals(*(scrape(15 * n, total, process_started_at=BORN) for n, total in enumerate([100, 0, 0, 130, 140])))
    assert values(rows, "damaged", "rounds") == [(True, None), (True, None), (False, 30), (False, 10)]


def test_within_one_start_time_a_small_fall_is_damage_and_a_lasting_one_of_most_counters_a_restart() -> None:
    totals = [100, 90, 110, 20, 25, 31, 40, 120]
    rows = intervals(*(scrape(15 * n, total, process_started_at=BORN) for n, total in enumerate(totals)))
    assert values(rows, "restarted", "damaged", "rounds") == [
        (False, True, None),
        (False, False, 10),
        (False, True, None),
        (False, True, None),
        (True, False, 31),
        (False, False, 9),
        (False, False, 80),
    ]


@pytest.mark.parametrize("odd", [None, at(-990), at(-1000.01), at(-999), dt.datetime(1970, 1, 2), at(10**9), at(-5)])
def test_an_odd_start_time_at_one_scrape_is_bridged(odd: dt.datetime | None) -> None:
    totals = [700, 710, 720, 735, 750]
    rows = intervals(
        *(scrape(15 * n, total, process_started_at=odd if n == 2 else BORN) for n, total in enumerate(totals))
    )
    assert not any(row["restarted"] for row in rows)
    assert sum(row["rounds"] or 0 for row in rows) == 50


def test_start_times_that_jitter_are_of_one_process() -> None:
    rows = intervals(*(scrape(15 * n, 700 + n, process_started_at=at(-1000 + 0.01 * (n % 2))) for n in range(6)))
    assert values(rows, "restarted", "rounds") == [(False, 1)] * 5


def test_servers_that_answer_in_turn_are_differenced_each_by_itself() -> None:
    rows = intervals(
        *(
            scrape(15 * n, total, process_started_at=at(-5000) if n % 2 else BORN)
            for n, total in enumerate([100, 9000, 110, 9020, 125, 9025])
        )
    )
    assert values(rows, "restarted", "rounds") == [(False, None), (False, 10), (False, 20), (False, 15), (False, 5)]


def test_a_scrape_without_start_time_after_a_restart_is_of_the_process_that_the_next_one_tells() -> None:
    rows = intervals(
        scrape(0, 100, process_started_at=BORN),
        scrape(15, 7),
        scrape(30, 9, process_started_at=at(5)),
    )
    assert values(rows, "restarted", "rounds") == [(True, 7), (False, 2)]


def test_other_bucket_edges_are_a_restart() -> None:
    first, other = histogram([0.1], [4, 0], 0.2), histogram([0.2], [9, 0], 0.6)
    rows = intervals(scrape(0, 5, itl=first, ttft=first), scrape(15, 9, itl=other, ttft=other))
    assert values(rows, "restarted", "rounds") == [(True, 9)]
    assert rows[0]["itl"] == {"count": 9, "sum": 600_000_000, "since": dt.datetime.min} or rows[0]["itl"]["count"] == 9


def test_a_value_missing_from_one_scrape_is_bridged() -> None:
    rows = intervals(
        scrape(0, 10, generation_tokens=5), scrape(15, None, generation_tokens=7), scrape(30, 16, generation_tokens=9)
    )
    assert values(rows, "rounds", "output_tokens") == [(None, 2), (6, 2)]


def test_a_value_missing_from_the_first_scrape_after_a_restart_counts_as_a_whole() -> None:
    rows = intervals(
        scrape(0, 10, process_started_at=BORN),
        scrape(15, None, process_started_at=at(5)),
        scrape(30, 16, process_started_at=at(5)),
    )
    assert values(rows, "restarted", "rounds") == [(True, None), (False, 16)]


def test_a_scrape_read_twice_counts_once() -> None:
    rows = intervals(scrape(0, 10), scrape(15, 12), scrape(15, 12, source="copy"), scrape(30, 15))
    assert values(rows, "duration_ns", "rounds") == [(15_000_000_000, 2), (15_000_000_000, 3)]


def test_engines_and_instances_are_series_of_their_own() -> None:
    rows = intervals(
        *(scrape(15 * n, 10 * n + shift, instance=name, engine=engine)
          for n in range(2) for name, engine, shift in (("a", 0, 0), ("a", 1, 500), ("b", 0, 7000)))
    )  # fmt: skip
    assert values(rows, "instance", "engine", "rounds") == [("a", 0, 10), ("a", 1, 10), ("b", 0, 10)]


def test_load_is_the_mean_of_the_gauge_at_both_ends_rounded_half_up() -> None:
    rows = intervals(*(scrape(15 * n, n, running=float(running)) for n, running in enumerate([0, 1, 4, 6])))
    assert values(rows, "load", "running_milli") == [(1, 500), (3, 2500), (5, 5000)]


def test_without_gauge_load_is_the_decode_concurrency() -> None:
    (row,) = intervals(scrape(0, itl=histogram([1], [0, 0], 5.0)), scrape(10, itl=histogram([1], [9, 0], 30.2)))
    assert row["load"] == 3


def test_after_a_long_gap_the_gauge_is_not_asked() -> None:
    busy = {"running": 8.0}
    rows = intervals(
        scrape(0, itl=histogram([1], [0, 0], 0.0), **busy), scrape(3600, itl=histogram([1], [9, 0], 7200.0), **busy)
    )
    assert values(rows, "load") == [2]
    assert values(intervals(scrape(0, 1, **busy), scrape(3600, 2, **busy)), "load") == [None]


def test_gauges_are_those_of_the_end() -> None:
    (row,) = intervals(scrape(0, 1, kv_usage=0.9, waiting=7.0), scrape(15, 2, kv_usage=0.125, waiting=2.0))
    assert (row["kv_ppm"], row["waiting"]) == (125_000, 2)


def test_finished_requests_are_told_apart_by_reason() -> None:
    rows = intervals(
        scrape(0, finished={"stop": 4}), scrape(15, finished={"stop": 6, "length": 1, "abort": 2, "error": 1})
    )
    assert values(rows, "succeeded", "failed") == [(3, 3)]


@pytest.mark.parametrize(
    ("rounds", "drafted", "accepted_at", "length"),
    [
        (10, 30, [8, 5, 2], 3),
        (10, 10, [8, 0, 0], 1),
        (10, 20, [8, 5, 0], 2),
        (10, 20, [8, 5, 2], None),
        (10, 25, [8, 5, 2], None),
        (10, 10, None, 1),
        (10, 20, None, None),
    ],
)
def test_the_draft_length_is_told_where_only_one_can_have_run(
    rounds: int, drafted: int, accepted_at: list[int] | None, length: int | None
) -> None:
    zero = accepted_at and [0] * len(accepted_at)
    (row,) = intervals(
        {"scraped_at": at(0), "rounds": 0, "drafted": 0, "accepted_at": zero},
        {"scraped_at": at(15), "rounds": rounds, "drafted": drafted, "accepted_at": accepted_at},
    )
    assert row["draft_length"] == length


def served(steps: int, tokens: int, requests: int, **columns: Any) -> dict[str, Any]:
    return {
        "itl": histogram([1], [steps, 0], steps * 0.02),
        "ttft": histogram([1], [requests, 0], requests * 0.1),
        "generation_tokens": tokens,
        **columns,
    }


def test_steps_without_rounds_have_length_0_only_where_each_returned_one_token() -> None:
    start = scrape(0, **served(0, 0, 0))
    assert values(intervals(start, scrape(15, **served(100, 104, 4))), "draft_length") == [0]
    assert values(intervals(start, scrape(15, **served(100, 250, 4))), "draft_length") == [None]
    assert values(intervals(start, scrape(15, **served(0, 0, 0))), "draft_length") == [None]


def test_releases_without_rounds_get_them_from_a_drafter_of_fixed_length() -> None:
    start_record = {"started_at": BORN, "speculative": True, "draft_method": "eagle", "draft_limit": 4}
    scrapes = (
        {"scraped_at": at(0), "drafted": 40, "accepted": 9},
        {"scraped_at": at(15), "drafted": 80, "accepted": 19},
    )
    assert values(Raw().put("snapshots", *scrapes).rows("intervals"), "rounds") == [None]
    known = Raw().put("deployments", start_record).put("snapshots", *scrapes)
    assert values(known.rows("intervals"), "rounds") == [10]
    varying = Raw().put("deployments", {**start_record, "draft_method": "ngram"}).put("snapshots", *scrapes)
    assert values(varying.rows("intervals"), "rounds") == [None]


Reading = dict[str, int | None]


def grown(series: Sequence[tuple[int, Reading]]) -> list[Reading]:
    """What every counter grew by, from (process, values) at successive scrapes: the definition, step by step."""
    first = series[0][0]
    known: dict[tuple[int, str], int] = {}
    rows: list[Reading] = []
    for process, reading in series:
        row: Reading = {}
        for name, value in reading.items():
            before = known.get((process, name), 0 if process != first else None)
            row[name] = None if value is None or before is None else value - before
            if value is not None:
                known[process, name] = value
        rows.append(row)
    return rows[1:]


@given(st.integers(0, 10**6), st.booleans())
@settings(max_examples=25, deadline=None)
def test_random_series_grow_as_the_definition_says(seed: int, births_told: bool) -> None:
    draw = random.Random(seed)
    series: list[tuple[int, Reading]] = []
    process, totals, births = 0, dict.fromkeys(COUNTERS, 50), [BORN]
    for number in range(draw.randint(2, 25)):
        if number > 0 and any(totals.values()) and draw.random() < 0.2:
            process += 1
            births.append(at(15 * number - draw.randint(1, 14)))
            # Where births are not told, a restart must show as a drop.
            totals = {name: draw.randint(0, 90 if births_told else max(total - 1, 0)) for name, total in totals.items()}
        else:
            totals = {name: total + draw.randint(0, 30) for name, total in totals.items()}
        # A drop must be seen at the scrape of the restart, so there nothing is missing.
        missing = 0.0 if not births_told else 0.3
        series.append((process, {name: None if draw.random() < missing else total for name, total in totals.items()}))
    rows = intervals(
        *(
            {
                "scraped_at": at(15 * number),
                "process_started_at": births[process] if births_told else None,
                **reading,
            }
            for number, (process, reading) in enumerate(series)
        )
    )
    found = [{**row, "generation_tokens": row["output_tokens"]} for row in rows]
    assert [{name: row[name] for name in COUNTERS} for row in found] == grown(series)


def test_the_order_of_rows_changes_nothing() -> None:
    scrapes = [scrape(15 * n, 3 * n * n, running=float(n)) for n in range(8)]
    shuffled = random.Random(1).sample(scrapes, len(scrapes))
    assert intervals(*scrapes) == intervals(*shuffled)


def test_windows_add_up_however_they_are_cut() -> None:
    sums = [0.0, 0.1234567891, 0.3333333333, 1.0000000004, 2.7182818284]
    scrapes = [scrape(15 * n, itl=histogram([1], [n, 0], total)) for n, total in enumerate(sums)]
    fine, coarse = intervals(*scrapes), intervals(scrapes[0], scrapes[2], scrapes[4])
    assert sum(row["itl"]["sum"] for row in fine) == sum(row["itl"]["sum"] for row in coarse) == 2_718_281_828
