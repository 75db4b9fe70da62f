"""``tables``, ``describe`` and ``explain``: what they say is what the warehouse holds."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

from specledger.schemas import TABLES
from specledger.schemas.measures import MEASURES
from specledger.transforms import dictionary
from tests import captures
from tests.command_line import CommandLine


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    line = CommandLine(tmp_path_factory.mktemp("dictionary") / "warehouse")
    line.ok("ingest", captures.folder("dynamic_sd"), "--deployment", "one", "--label", "gpus=2")
    line.ok("transform")
    return line


def test_every_table_is_listed_once(line: CommandLine) -> None:
    rows = json.loads(line.ok("tables", "--format", "json"))
    assert sorted(row["table"] for row in rows) == sorted(dictionary.ALL)
    assert all(row["one row per"] for row in rows)
    listed = line.ok("tables")
    assert all(f"  {name} " in listed for name in dictionary.ALL)


@pytest.mark.parametrize("name", dictionary.ALL)
def test_a_table_is_described_as_it_is(line: CommandLine, name: str) -> None:
    told = json.loads(line.ok("describe", name, "--format", "json"))
    found = {row["column_name"]: row["column_type"] for row in line.rows(f"DESCRIBE {name}")}
    assert {column["column"]: column["type"] for column in told["columns"]} == found
    shown = line.ok("describe", name.upper())
    assert all(column["column"] in shown for column in told["columns"])


def test_the_views_carry_the_sentences_for_those_who_open_them_elsewhere(line: CommandLine) -> None:
    with duckdb.connect(str(line.warehouse / "specledger.duckdb"), read_only=True) as connection:
        views = connection.execute("SELECT view_name, comment FROM duckdb_views() WHERE NOT internal").fetchall()
        columns = connection.execute("SELECT table_name, column_name, comment FROM duckdb_columns()").fetchall()
    assert dict(views) == {table.name: f"One row per {table.grain}." for table in dictionary.ALL.values()}
    said = {(table, column): comment for table, column, comment in columns if table in dictionary.ALL}
    assert said["ledger", "round_time_ms"] == "T_round = Σ decode time / steps. [ms]"
    assert all(said.values())


@pytest.mark.parametrize("name", MEASURES)
def test_the_query_of_a_measure_gives_what_its_mart_says(line: CommandLine, name: str) -> None:
    told = json.loads(line.ok("explain", name, "--format", "json"))
    assert told["traps"]
    for origin, query in told["sql"].items():
        values = [row[name] for row in line.rows(query)]
        if origin == "mart":
            assert line.value(f"SELECT count(*) FROM {MEASURES[name].mart}") == len(values)
            continue
        assert len(values) == 1
        # Figures of the pooled ledger and the query meet where both exist.
        if name in TABLES["ledger"].names and origin in {"requests", "snapshots"}:
            pooled = line.value(f"SELECT {name} FROM ledger WHERE load_band = 'all' AND origin = '{origin}'")
            assert values[0] == (pooled if pooled is None else pytest.approx(pooled, rel=1e-9))


def test_every_ratio_has_its_query() -> None:
    without = {name for name, measure in MEASURES.items() if measure.form == "ratio" and not dictionary.sql_of(measure)}
    assert without == {"itl_over"}  # Its edge is chosen from the baseline of each comparison.


@pytest.mark.parametrize(
    ("command", "asked", "hint"),
    [
        ("describe", "ledgr", "did you mean ledger?"),
        ("describe", "zzz", "known are"),
        ("explain", "tpot", "tpot_ms"),
        ("explain", "speedup_of_everything", "known are"),
        ("explain", "speedup", "specledger describe ledger."),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(tmp_path: Path, command: str, asked: str, hint: str) -> None:
    result = CommandLine(tmp_path).run(command, asked)
    assert result.exit_code == 2
    assert hint in result.stderr
    assert result.stderr.count("\n") == 1
