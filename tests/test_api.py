"""The library: its names are few, typed, documented and cheap to import, and it answers as the commands do."""

from __future__ import annotations

import dataclasses
import inspect
import json
import typing
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import specledger
from specledger import api
from tests.command_line import CommandLine, loading

PAGE = Path(__file__).parents[1] / "docs" / "library.md"
METHODS = [name for name in vars(api.Warehouse) if not name.startswith("_")]


@pytest.fixture(scope="module")
def line(captured: Callable[..., CommandLine]) -> CommandLine:
    return captured("dynamic_sd")


@pytest.fixture(scope="module")
def warehouse(line: CommandLine) -> specledger.Warehouse:
    return specledger.Warehouse(line.warehouse)


def test_importing_it_loads_nothing_heavy() -> None:
    assert loading("import specledger\nspecledger.__version__", "click") == (0, "")


def test_what_it_names_is_what_it_has() -> None:
    assert sorted({*api.__all__, "__version__"}) == sorted(specledger.__all__)
    assert all(getattr(specledger, name) is getattr(api, name) for name in api.__all__)
    with pytest.raises(AttributeError, match="nonsense"):
        _ = specledger.nonsense


@pytest.mark.parametrize("name", [*api.__all__, *(f"Warehouse.{method}" for method in METHODS)])
def test_every_name_is_documented_and_typed(name: str) -> None:
    thing = api.Warehouse
    for part in name.split(".")[name.startswith("Warehouse.") :]:
        thing = getattr(thing if "." in name else api, part)
    thing = thing.fget if isinstance(thing, property) else thing  # type: ignore[assignment]
    assert inspect.getdoc(thing)
    if inspect.isfunction(thing):
        signature = inspect.signature(thing)
        told = set(thing.__annotations__)
        assert told == {*signature.parameters} - {"self"} | {"return"}
    elif dataclasses.is_dataclass(thing):
        assert typing.get_type_hints(thing).keys() == {field.name for field in dataclasses.fields(thing)}


@pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not part of the wheel")
@pytest.mark.parametrize("name", [*specledger.__all__, *(f"Warehouse.{method}" for method in METHODS)])
def test_every_name_and_parameter_is_on_its_page(name: str) -> None:
    cells = [line.split(" | ")[0] for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    (told,) = [cell for cell in cells if f"`{name}`" in cell or f"`{name}(" in cell]
    thing = api.Warehouse.__dict__[name.partition(".")[2]] if "." in name else getattr(specledger, name)
    if inspect.isfunction(thing):
        assert [one for one in inspect.signature(thing).parameters if one != "self" and one not in told] == []


def test_a_question_has_the_answer_of_the_command(line: CommandLine, warehouse: specledger.Warehouse) -> None:
    question = "SELECT load_band, tpot_ms FROM ledger WHERE origin = $origin ORDER BY load_band"
    frame = warehouse.query(question, {"origin": "snapshots"})
    assert isinstance(frame, pl.DataFrame)
    assert frame.rows(named=True) == json.loads(
        line.ok("sql", question, "--param", "origin=snapshots", "--format", "json")
    )
    table = warehouse.arrow("SELECT 1 AS a")
    assert isinstance(table, pa.Table)
    assert table.to_pydict() == {"a": [1]}


def test_a_question_cannot_change_or_leave_the_warehouse(warehouse: specledger.Warehouse) -> None:
    with pytest.raises(specledger.SpecledgerError, match="Only one SELECT"):
        warehouse.query("CREATE TABLE t AS SELECT 1")
    with pytest.raises(specledger.SpecledgerError, match="failed"):
        warehouse.query("SELECT * FROM read_text('/etc/hostname')")
    with pytest.raises(specledger.SpecledgerError, match="stopped after"):
        warehouse.query("SELECT sum(a.range * b.range) FROM range(9999999) a, range(9999999) b", timeout_s=0.1)


def test_a_connection_has_the_views_and_macros(warehouse: specledger.Warehouse) -> None:
    with warehouse.connect() as connection:
        assert connection.execute("SELECT load_band(3), count(*) > 0 FROM intervals").fetchone() == ("2-4", True)


def test_a_recommendation_is_that_of_the_command(line: CommandLine, warehouse: specledger.Warehouse) -> None:
    told = json.loads(line.ok("recommend", "--deployment", "dynamic_sd", "--format", "json"))
    assert json.loads(json.dumps(warehouse.recommend("dynamic_sd").as_json(), default=str)) == told
    priced = warehouse.recommend("dynamic_sd", schedule=[[1, 64, 1]])
    assert priced.schedule == [[1, 64, 1]]
    with pytest.raises(specledger.SpecledgerError, match="must be"):
        warehouse.recommend("dynamic_sd", schedule=[[1, 64]])


def test_a_comparison_is_a_report_that_can_be_written_and_read(warehouse: specledger.Warehouse, tmp_path: Path) -> None:
    report = warehouse.compare("deployment = 'dynamic_sd'", "deployment = 'dynamic_sd'")
    assert isinstance(report, specledger.Report)
    paths = specledger.write_report(report, str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in paths} >= {"report.html", "report.json"}
    assert specledger.read_report(tmp_path) == report
    with pytest.raises(specledger.SpecledgerError, match="predicate"):
        warehouse.compare("nonsense", "true")


def test_a_folder_that_holds_no_warehouse_is_told(tmp_path: Path) -> None:
    with pytest.raises(specledger.SpecledgerError, match="ingest something"):
        specledger.Warehouse(tmp_path)
