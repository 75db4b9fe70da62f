"""The macros against plain Python."""

from __future__ import annotations

import bisect
import math
from collections import Counter
from functools import cache
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specledger.schemas.config import DEFAULT_SETTINGS, GoodputLimits, Settings, parse_load_bands
from specledger.transforms.macros import create_macros

INF = float("inf")


@cache
def with_macros() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    create_macros(connection, DEFAULT_SETTINGS)
    return connection


@pytest.fixture
def sql() -> duckdb.DuckDBPyConnection:
    return with_macros()


def ask(sql: duckdb.DuckDBPyConnection, expression: str, *parameters: object) -> Any:
    ((value,),) = sql.execute(f"SELECT {expression}", list(parameters)).fetchall()
    return value


@pytest.mark.parametrize("expression", ["ratio(0, 0)", "ratio(1, 0)", "ratio(NULL, 1)", "ratio('NaN'::DOUBLE, 1)"])
def test_a_ratio_that_means_nothing_is_null(sql: duckdb.DuckDBPyConnection, expression: str) -> None:
    assert ask(sql, expression) is None


def test_a_ratio_of_large_integers_is_a_double(sql: duckdb.DuckDBPyConnection) -> None:
    assert ask(sql, "ratio(3000000000000000000000000::HUGEINT, 2000000000000000000000000::HUGEINT)") == pytest.approx(
        1.5
    )


CODES = [
    (0.0, 0), (0.49, 0), (0.5, 1), (1.49, 1), (63.5, 64), (64.4, 64),
    (64.5, 65), (128, 122), (129, 129), (256, 244), (257, 257),
]  # fmt: skip


@pytest.mark.parametrize(("running", "code"), CODES)
def test_load_is_exact_to_64_and_in_steps_above(sql: duckdb.DuckDBPyConnection, running: float, code: int) -> None:
    assert ask(sql, "load_code(?::DOUBLE)", running) == code


@given(st.integers(65, 100_000))
@settings(max_examples=50, deadline=None)
def test_a_step_of_load_is_at_most_6_percent_wide_and_starts_at_or_below_the_load(load: int) -> None:
    code = ask(with_macros(), "load_code(?::DOUBLE)", load)
    assert code <= load < code * 1.052 + 1
    assert ask(with_macros(), "load_code(?::DOUBLE)", code) == code


def test_load_bands_and_codes_agree_at_the_default_edges(sql: duckdb.DuckDBPyConnection) -> None:
    rows = sql.execute("SELECT load, load_band(load), load_band(load_code(load::DOUBLE)) FROM range(600) AS t (load)")
    assert [load for load, exact, coded in rows.fetchall() if exact != coded] == []


def test_bands_of_load_and_context_follow_the_settings() -> None:
    chosen = Settings(parse_load_bands(["1-3", "4+"]), (("<10", 10), ("10+", None)))
    with duckdb.connect() as sql:
        create_macros(sql, chosen)
        assert [ask(sql, f"load_band({load})") for load in ("NULL", 0, 1, 3, 4, 900)] == [
            "unknown", "0", "1-3", "1-3", "4+", "4+",
        ]  # fmt: skip
        assert [ask(sql, f"context_band({tokens})") for tokens in ("NULL", 0, 9.5, 10)] == [None, "<10", "<10", "10+"]


def test_output_bands_and_temperature_classes(sql: duckdb.DuckDBPyConnection) -> None:
    bands = [ask(sql, f"output_band({tokens})") for tokens in ("NULL", 0, 1, 20, 21, 100, 101, 500, 501)]
    assert bands == [None, None, "1-20", "1-20", "21-100", "21-100", "101-500", "101-500", "501+"]
    assert [ask(sql, f"temperature_class({value})") for value in ("NULL", 0, 0.7)] == [None, "greedy", "sampled"]


@pytest.mark.parametrize(
    ("limits", "met"),
    [
        (GoodputLimits(), [None, None, None]),
        (GoodputLimits(ttft_ms=100), [True, False, None]),
        (GoodputLimits(ttft_ms=300, tpot_ms=10), [True, True, None]),
        (GoodputLimits(tpot_ms=9.9), [False, True, False]),
        (GoodputLimits(longest_pause_ms=20), [True, True, None]),
    ],
)
def test_a_request_is_qualified_when_it_met_every_limit(limits: GoodputLimits, met: list[bool | None]) -> None:
    requests = [
        "qualified(true, 100000000, 40000000, 4, 20000000)",
        "qualified(true, 200000000, 0, 0, NULL)",
        "qualified(true, NULL, 40000000, 4, NULL)",
    ]
    with duckdb.connect() as sql:
        create_macros(sql, Settings(DEFAULT_SETTINGS.load_bands, goodput=limits))
        assert [ask(sql, request) for request in requests] == met
        assert ask(sql, "qualified(false, 1, 1, 1, 1)") is (False if limits.given else None)


def test_zero_has_a_bucket_of_its_own_and_negative_values_none(sql: duckdb.DuckDBPyConnection) -> None:
    assert [ask(sql, f"log_bucket({value})") for value in ("NULL", -1, 0, 1)] == [None, None, -1, 0]
    assert [ask(sql, f"log_bucket_{what}(-1)") for what in ("lower", "value", "upper")] == [0, 0, 0]


def test_a_log_bucket_holds_its_value_also_at_every_edge(sql: duckdb.DuckDBPyConnection) -> None:
    rows = sql.execute(
        """
        SELECT value, log_bucket(value) AS bucket
        FROM (
            SELECT unnest([ceil(pow(1.02::DOUBLE, b)), ceil(pow(1.02::DOUBLE, b)) - 1, ceil(pow(1.02::DOUBLE, b)) + 1])
                AS value
            FROM range(1, 1700) AS t (b)
        )
        WHERE value >= 1
        """
    ).fetchall()
    assert [value for value, bucket in rows if not 1.02**bucket <= value < 1.02 ** (bucket + 1)] == []


observed = st.lists(st.integers(0, 10**15), min_size=1, max_size=60)
shares = st.sampled_from([0.5, 0.95, 0.99])


@given(observed, shares)
@settings(max_examples=80, deadline=None)
def test_a_quantile_of_a_log_histogram_is_within_1_percent(values: list[int], share: float) -> None:
    found = ask(
        with_macros(),
        "(SELECT log_quantile(histogram(log_bucket(v)), ?) FROM unnest(?::BIGINT[]) AS t (v))",
        share,
        values,
    )
    exact = sorted(values)[max(math.ceil(share * len(values) - 1e-9), 1) - 1]
    assert found["lower"] <= exact <= found["upper"]
    assert abs(found["point"] - exact) <= 0.01 * exact


edges = st.lists(st.integers(1, 50), min_size=1, max_size=8, unique=True).map(sorted)


@given(edges, st.lists(st.integers(1, 60), min_size=1, max_size=60), shares)
@settings(max_examples=80, deadline=None)
def test_a_quantile_of_a_server_histogram_lies_in_its_bucket(le: list[int], values: list[int], share: float) -> None:
    counts = Counter(bisect.bisect_left(le, value) for value in values)
    found = ask(
        with_macros(),
        "server_quantile(?::DOUBLE[], ?::BIGINT[], ?)",
        [*map(float, le), INF],
        [counts[bucket] for bucket in range(len(le) + 1)],
        share,
    )
    exact = sorted(values)[max(math.ceil(share * len(values) - 1e-9), 1) - 1]
    assert found["lower"] < exact
    if exact > le[-1]:
        assert found["point"] is None
        assert found["upper"] is None
    else:
        assert exact <= found["upper"]
        assert found["lower"] <= found["point"] <= found["upper"]


def test_a_server_quantile_is_interpolated_inside_its_bucket(sql: duckdb.DuckDBPyConnection) -> None:
    found = ask(sql, "server_quantile([0.1, 0.2, 'inf'::DOUBLE], [5, 4, 1]::BIGINT[], 0.7)")
    assert found == pytest.approx({"point": 0.15, "lower": 0.1, "upper": 0.2})


@pytest.mark.parametrize(
    "expression",
    [
        "log_quantile(NULL::MAP(INTEGER, BIGINT), 0.5)",
        "log_quantile(MAP {}::MAP(INTEGER, BIGINT), 0.5)",
        "server_quantile(NULL::DOUBLE[], NULL::BIGINT[], 0.5)",
        "server_quantile([1.0, 2.0]::DOUBLE[], [0, 0]::BIGINT[], 0.5)",
    ],
)
def test_nothing_observed_has_no_quantile(sql: duckdb.DuckDBPyConnection, expression: str) -> None:
    assert ask(sql, expression) is None
