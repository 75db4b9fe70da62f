"""The year that a log does not print, and the zone that it does not name."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from specledger.ingest.log_time import AFTER_NOTE, UTC_NOTE
from specledger.schemas.errors import UsageError
from tests.ingest.log_reading import LogSink, read, read_in_parts

MESSAGE = (
    "[loggers.py:123] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 1.0 tokens/s, "
    "Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%"
)


def log(*times: str) -> str:
    return "".join(f"INFO {time} {MESSAGE}\n" for time in times)


def outer(*times: tuple[str, str]) -> str:
    return "".join(f"{before} INFO {time} {MESSAGE}\n" for before, time in times)


def instants(sink: LogSink) -> list[str]:
    return [str(row["logged_at"]) for row in sink.stats]


def read_at(content: str, modified_at: str, **facts: Any) -> list[str]:
    return instants(read(content, modified_at=dt.datetime.fromisoformat(modified_at), **facts))


def test_the_given_year_is_that_of_the_first_record_and_rolls_over_at_local_new_year() -> None:
    found = read(log("12-31 23:59:30", "01-01 00:00:20", "02-29 00:00:00"), year=2027, timezone="Europe/Berlin")
    assert instants(found) == ["2027-12-31 22:59:30", "2027-12-31 23:00:20", "2028-02-28 23:00:00"]


def test_a_log_may_cross_several_new_years() -> None:
    found = read(
        log("06-01 00:00:00", "12-30 00:00:00", "02-01 00:00:00", "11-01 00:00:00", "01-05 00:00:00"), year=2025
    )
    assert [time[:4] for time in instants(found)] == ["2025", "2025", "2026", "2026", "2027"]


def test_a_record_of_last_year_that_comes_late_stays_in_it() -> None:
    found = read(log("12-31 23:59:59", "01-01 00:00:00", "12-31 23:59:59", "01-01 00:00:01"), year=2026)
    assert [time[:4] for time in instants(found)] == ["2026", "2027", "2026", "2027"]


def test_an_outer_timestamp_gives_year_and_zone() -> None:
    content = outer(("2026-12-31T22:59:30.5Z", "12-31 23:59:30"), ("2026-12-31T23:00:20.5Z", "01-01 00:00:20"))
    assert instants(read(content)) == ["2026-12-31 22:59:30", "2026-12-31 23:00:20"]


def test_an_outer_timestamp_may_be_in_a_third_zone() -> None:
    # 07:15 in Tokyo is 22:15 UTC the day before, which a server in Kolkata prints as 03:45.
    content = outer(("2026-03-02T07:15:00.123+09:00", "03-02 03:45:00"))
    assert instants(read(content)) == ["2026-03-01 22:15:00"]


def test_a_given_zone_stands_above_the_outer_timestamp() -> None:
    content = outer(("2026-12-31T22:59:30Z", "12-31 23:59:30"))
    assert instants(read(content, timezone="Asia/Tokyo")) == ["2026-12-31 14:59:30"]


def test_an_outer_timestamp_without_a_zone_gives_the_year_only() -> None:
    found = read(outer(("2024-02-29 10:00:00,123", "02-29 10:00:00")))
    assert (instants(found), found.notes) == (["2024-02-29 10:00:00"], [UTC_NOTE])


def test_records_without_an_outer_timestamp_follow_those_with_one() -> None:
    content = outer(("2026-07-01T10:00:00Z", "07-01 12:00:00")) + log("07-01 12:00:10")
    assert instants(read(content)) == ["2026-07-01 10:00:00", "2026-07-01 10:00:10"]


def test_without_anything_the_last_change_gives_the_year_and_utc_is_said() -> None:
    found = read(log("03-01 10:00:00"), modified_at=dt.datetime(2026, 3, 1, 10, 5))
    assert (instants(found), found.notes) == (["2026-03-01 10:00:00"], [UTC_NOTE])


def test_the_last_change_of_a_log_over_new_year_lies_in_the_new_one() -> None:
    assert read_at(log("12-31 23:00:00", "01-02 08:00:00"), "2027-01-02 09:00") == [
        "2026-12-31 23:00:00",
        "2027-01-02 08:00:00",
    ]


def test_a_date_after_the_last_change_is_of_the_year_before() -> None:
    assert read_at(log("11-29 15:00:00"), "2026-11-03 00:00") == ["2025-11-29 15:00:00"]


def test_a_clock_ahead_of_utc_may_be_a_little_after_the_last_change() -> None:
    assert read_at(log("11-29 15:00:00"), "2026-11-29 06:01") == ["2026-11-29 15:00:00"]


def test_a_log_of_more_than_a_year_is_told_to_need_its_year() -> None:
    content = log("11-01 00:00:00", "02-01 00:00:00", "06-01 00:00:00", "11-01 00:00:00", "02-01 00:00:00")
    assert AFTER_NOTE in read(content, modified_at=dt.datetime(2026, 2, 1)).notes
    assert AFTER_NOTE not in read(content, modified_at=dt.datetime(2026, 2, 1), year=2024).notes


def test_29_february_is_of_a_leap_year() -> None:
    assert read_at(log("02-29 15:00:00"), "2026-11-29 06:01") == ["2024-02-29 15:00:00"]


@pytest.mark.parametrize("time", ["13-01 00:00:00", "02-30 00:00:00", "01-01 24:00:00", "00-00 00:00:00"])
def test_an_impossible_date_is_rejected(time: str) -> None:
    found = read(log(time, "03-01 10:00:00"), year=2026)
    assert (instants(found), len(found.rejects)) == (["2026-03-01 10:00:00"], 1)


def test_29_february_in_a_given_common_year_is_rejected() -> None:
    assert len(read(log("02-29 10:00:00"), year=2026).rejects) == 1


def test_summer_time_moves_the_instants() -> None:
    found = read(log("03-29 01:59:59", "03-29 03:00:00"), year=2026, timezone="Europe/Berlin")
    assert instants(found) == ["2026-03-29 00:59:59", "2026-03-29 01:00:00"]


def test_an_hour_that_comes_twice_is_told_by_the_order() -> None:
    times = ("10-25 02:10:00", "10-25 02:59:50", "10-25 02:00:00", "10-25 02:59:50", "10-25 03:00:00")
    found = read(log(*times), year=2026, timezone="Europe/Berlin")
    assert instants(found) == [
        "2026-10-25 00:10:00",
        "2026-10-25 00:59:50",
        "2026-10-25 01:00:00",
        "2026-10-25 01:59:50",
        "2026-10-25 02:00:00",
    ]


def test_an_hour_that_comes_twice_is_told_across_reads() -> None:
    content = log("10-25 02:59:50", "10-25 02:00:00", "10-25 02:30:00")
    third = len(content) // 3
    facts: dict[str, Any] = {"year": 2026, "timezone": "Europe/Berlin"}
    assert instants(read_in_parts(content, [third, 2 * third], **facts)) == instants(read(content, **facts))


def test_a_fixed_offset_is_a_zone() -> None:
    assert instants(read(log("06-01 10:00:00"), year=2026, timezone="+05:30")) == ["2026-06-01 04:30:00"]


def test_an_unknown_zone_is_wrong_use() -> None:
    with pytest.raises(UsageError, match="Mars/Phobos"):
        read(log("06-01 10:00:00"), timezone="Mars/Phobos")


def test_a_record_with_its_own_year_needs_no_other() -> None:
    assert instants(read(log("2024-06-01 10:00:00"), year=2026)) == ["2024-06-01 10:00:00"]
