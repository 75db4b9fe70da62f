"""The head of every .sql file says what its declaration says."""

from __future__ import annotations

import pytest

from specledger.schemas.table import Column, Table
from specledger.transforms.catalog import FOLDER, HEAD_END, ORDER, declared, query
from specledger.transforms.headers import header, with_header

EXAMPLE = Table(
    "rounds_by_day",
    "mart",
    "deployment, date",
    (Column("date", "DATE", "UTC date."), Column("rounds", "BIGINT", "Rounds that were run.", "rounds")),
    key=("date",),
    reads=("cells_requests", "deployments"),
)
HEAD = f"""\
-- rounds_by_day: one row per deployment, date.
-- Reads cells_requests, deployments.
--   date    UTC date.
--   rounds  Rounds that were run. [rounds]
{HEAD_END}"""


def test_a_head_names_grain_sources_and_columns() -> None:
    assert header(EXAMPLE) == HEAD


def test_a_head_is_put_before_a_query_and_replaced_when_it_is_there() -> None:
    assert with_header(EXAMPLE, "SELECT 1\n") == f"{HEAD}SELECT 1\n"
    assert with_header(EXAMPLE, f"-- what was said before\n{HEAD_END}SELECT 1\n") == f"{HEAD}SELECT 1\n"


@pytest.mark.parametrize("path", ORDER)
def test_every_transform_has_the_head_of_its_declaration(path: str) -> None:
    text = (FOLDER / f"{path}.sql").read_text(encoding="utf-8")
    assert text.startswith(header(declared(path))), "run: python -m specledger.transforms.headers"


def test_a_query_is_what_stands_below_its_head() -> None:
    assert query("marts", "acceptance").startswith("WITH totals AS (")


def test_every_sql_file_is_in_the_order_of_transforms() -> None:
    found = {str(file.relative_to(FOLDER).with_suffix("")) for file in FOLDER.glob("*/*.sql")}
    assert found == set(ORDER)
