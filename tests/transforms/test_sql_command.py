"""``specledger sql``: what an answer looks like in each format, and what cannot be asked."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from specledger.__main__ import cli
from specledger.schemas import TABLES
from specledger.schemas.warehouse import Warehouse
from tests.transforms.raw import DAY, at, full_row


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with three rows of one raw table, and a secret beside it."""
    root = tmp_path_factory.mktemp("sql") / "warehouse"
    table = TABLES["quality"]
    told = [{"task": f"t{n}", "metric": "acc", "value": n / 4, "n": n, "evaluated_at": at(0)} for n in range(3)]
    rows = [full_row("quality", row) for row in told]
    Warehouse(root).write(table, DAY, "d", "x", pa.Table.from_pylist(rows, schema=table.arrow_schema()))
    (root.parent / "secret.txt").write_text("secret")
    return root


def ask(house: Path, *arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["sql", *arguments, "--warehouse", str(house)], input=stdin)


def rows(house: Path, question: str, *arguments: str) -> Any:
    result = ask(house, question, "--format", "json", *arguments)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def refused(house: Path, *arguments: str) -> str:
    result = ask(house, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    return result.stderr


def test_json_is_one_array_of_objects(house: Path) -> None:
    assert rows(house, "SELECT task, value FROM quality ORDER BY task LIMIT 2") == [
        {"task": "t0", "value": 0.0},
        {"task": "t1", "value": 0.25},
    ]
    assert rows(house, "SELECT task FROM quality WHERE false") == []


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("12345678901234567890123::HUGEINT", 12345678901234567890123),
        ("sum(n)", 3),
        ("1.50::DECIMAL(9, 2)", 1.5),
        ("2.00::DECIMAL(9, 2)", 2),
        ("'NaN'::DOUBLE", None),
        ("'-inf'::DOUBLE", None),
        ("true", True),
        ("NULL", None),
        ("DATE '2026-11-29'", "2026-11-29"),
        ("TIMESTAMP '2026-11-29 08:00:00.25'", "2026-11-29T08:00:00.250000"),
        ("[1, NULL, 3]", [1, None, 3]),
        ("MAP {2: 'b', 1: 'a'}", {"2": "b", "1": "a"}),
        ("MAP {DATE '2026-11-29': ['NaN'::DOUBLE]}", {"2026-11-29": [None]}),
        ("{'le': [0.1], 'n': 4}", {"le": [0.1], "n": 4}),
        ("'ä\u2028\"'", 'ä\u2028"'),
        ("'ab'::BLOB", "YWI="),
        ("INTERVAL 1 DAY", "1 day, 0:00:00"),
    ],
)
def test_every_kind_of_value_has_its_place_in_json(house: Path, expression: str, value: Any) -> None:
    assert rows(house, f"SELECT {expression} AS x FROM quality GROUP BY ALL LIMIT 1") == [{"x": value}]


def test_a_name_that_comes_twice_gets_a_number(house: Path) -> None:
    assert rows(house, "SELECT 1 AS a, 2 AS a, 3 AS a") == [{"a": 1, "a_1": 2, "a_2": 3}]


def test_raw_staging_cell_and_mart_tables_can_be_asked(house: Path) -> None:
    for name in ("quality", "intervals", "requests_by_load", "cells_requests", "ledger"):
        assert rows(house, f"SELECT count(*) AS n FROM {name}") == [{"n": 3 if name == "quality" else 0}]
    shown = {row["name"] for row in rows(house, "SHOW TABLES")}
    assert set(TABLES) <= shown
    assert rows(house, "PIVOT quality ON task USING sum(n) GROUP BY metric") == [
        {"metric": "acc", "t0": 0, "t1": 1, "t2": 2}
    ]
    assert rows(house, "SELECT load_band(3) AS band, ratio(0, 0) AS r") == [{"band": "2-4", "r": None}]


def test_parameters_are_values_never_sql(house: Path) -> None:
    injected = "t0' OR true OR 'x"
    assert rows(house, "SELECT count(*) AS n FROM quality WHERE task = $t", "--param", f"t={injected}") == [{"n": 0}]
    assert rows(house, "SELECT task FROM quality WHERE n = $n", "--param", "n=2") == [{"task": "t2"}]
    assert rows(house, "SELECT $x AS x", "--param", 'x="2"') == [{"x": "2"}]
    assert "write NAME=VALUE" in refused(house, "SELECT 1", "--param", "x")


def test_csv_has_a_header_and_lists_as_json(house: Path) -> None:
    result = ask(house, "SELECT 'a,b' AS t, [1, 2] AS l, NULL AS n", "--format", "csv")
    assert list(csv.reader(io.StringIO(result.stdout))) == [["t", "l", "n"], ["a,b", "[1, 2]", ""]]


def test_a_table_is_aligned_and_shows_no_control_characters(house: Path) -> None:
    result = ask(house, "SELECT task, n * 1000 AS n, chr(27) || '[2J' AS evil FROM quality ORDER BY task")
    assert result.stdout.splitlines() == [
        "task     n  evil",
        "────  ────  ────",
        "t0       0  \N{REPLACEMENT CHARACTER}[2J",
        "t1    1000  \N{REPLACEMENT CHARACTER}[2J",
        "t2    2000  \N{REPLACEMENT CHARACTER}[2J",
    ]


def test_a_long_table_is_cut_and_says_so(house: Path) -> None:
    lines = ask(house, "SELECT * FROM range(1500)").stdout.splitlines()
    assert len(lines) == 2 + 1000 + 1
    assert "more than 1,000 rows" in lines[-1]


def test_answers_can_go_to_files(house: Path, tmp_path: Path) -> None:
    assert ask(house, "SELECT 1 AS a", "--format", "json", "--out", str(tmp_path / "a.json")).stdout == ""
    assert json.loads((tmp_path / "a.json").read_text()) == [{"a": 1}]
    ask(house, "SELECT task, n FROM quality ORDER BY n", "--format", "parquet", "--out", str(tmp_path / "a.parquet"))
    assert pq.read_table(tmp_path / "a.parquet").to_pydict() == {"task": ["t0", "t1", "t2"], "n": [0, 1, 2]}
    assert "name it with --out" in refused(house, "SELECT 1", "--format", "parquet")
    assert "does not exist" in refused(house, "SELECT 1", "--format", "csv", "--out", str(tmp_path / "no" / "a.csv"))


def test_a_query_can_come_from_a_file_or_from_standard_input(house: Path, tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_text("-- a comment\nSELECT 7 AS a;\n")
    assert json.loads(ask(house, "--file", str(tmp_path / "q.sql"), "--format", "json").stdout) == [{"a": 7}]
    assert json.loads(ask(house, "--file", "-", "--format", "json", stdin="SELECT 8 AS a").stdout) == [{"a": 8}]
    assert "either as an argument or with --file" in refused(house)


@pytest.mark.parametrize(
    "question",
    [
        "SELECT 1; SELECT 2",
        "COPY (SELECT 1) TO '{root}/x.parquet'",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '{root}/x.parquet'",
        "CREATE TABLE t AS SELECT 1",
        "DROP VIEW quality",
        "ATTACH '{root}/x.duckdb'",
        "INSTALL httpfs",
        "SET threads = 1",
        "",
    ],
)
def test_only_one_select_can_be_asked(house: Path, question: str) -> None:
    assert "Only one SELECT" in refused(house, question.format(root=house))
    assert not list(house.glob("x.*"))


@pytest.mark.parametrize(
    "source",
    [
        "read_text('{secret}')",
        "read_csv('{secret}')",
        "glob('{parent}/*')",
        "'{secret}'",
        "read_text('{root}/../secret.txt')",
    ],
)
def test_nothing_outside_the_warehouse_can_be_read(house: Path, source: str) -> None:
    places = {"secret": house.parent / "secret.txt", "parent": house.parent, "root": house}
    assert "secret\n" not in refused(house, f"SELECT * FROM {source.format(**places)}")


def test_a_query_that_fails_is_answered_in_one_sentence(house: Path) -> None:
    assert "nosuch" in refused(house, "SELECT nosuch\nFROM quality")
    assert "syntax error" in refused(house, "SELECT FROM WHERE")
    assert "Conversion" in refused(house, "SELECT CAST(task AS INTEGER) FROM quality")


def test_a_query_can_be_given_a_time_limit(house: Path) -> None:
    endless = "SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b"
    assert "stopped after 0.2 s" in refused(house, endless, "--timeout", "0.2")


def test_a_query_can_be_given_a_bound_of_memory(house: Path) -> None:
    kept = "SELECT len(list(range)) AS n FROM range(20000000)"
    assert "needs more memory than 40MB: ask for less" in refused(house, kept, "--memory", "40MB")
    assert "is not understood: write a size such as 4GB" in refused(house, "SELECT 1", "--memory", "much")


def test_an_empty_warehouse_is_said_to_be_empty(tmp_path: Path) -> None:
    assert "ingest something" in refused(tmp_path, "SELECT 1")
