"""Predicates select nights, and can do nothing else."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from specledger.reports.selection import Night, Selector
from specledger.schemas.errors import UsageError

MONDAY, TUESDAY = dt.date(2026, 9, 14), dt.date(2026, 9, 15)


def record(deployment: str, **said: Any) -> dict[str, Any]:
    return {"deployment": deployment, "started_at": None, "labels": None, "labelled_at": None, **said}


def selector() -> Selector:
    nights = [Night(MONDAY, "a"), Night(TUESDAY, "a"), Night(TUESDAY, "b")]
    return Selector(
        nights,
        [
            record("a", started_at=dt.datetime(2026, 9, 14, 1), draft_limit=3, model="m"),
            record("a", started_at=dt.datetime(2026, 9, 15, 1), draft_limit=5, quantization="fp8"),
            record("a", labels={"quant": "fp8", "gpus": "1"}, labelled_at=dt.datetime(2026, 9, 14)),
            record("a", labels={"gpus": "2"}, labelled_at=dt.datetime(2026, 9, 16)),
            record("b", labels={"quant": "none", "Model": "other"}, labelled_at=dt.datetime(2026, 9, 16)),
        ],
    )


@pytest.mark.parametrize(
    ("where", "nights"),
    [
        ("deployment = 'a' and date >= '2026-09-15'", [(TUESDAY, "a")]),
        ("labels['quant'] = 'fp8'", [(MONDAY, "a"), (TUESDAY, "a")]),
        ("quant = 'none'", [(TUESDAY, "b")]),
        ("gpus = '2'", [(MONDAY, "a"), (TUESDAY, "a")]),
        ("draft_limit = 3", [(MONDAY, "a")]),
        ("draft_limit = 5", [(TUESDAY, "a")]),
        ("model = 'm'", [(MONDAY, "a")]),
        ("quantization IS NULL AND draft_limit IS NOT NULL", [(MONDAY, "a")]),
        ("labels['Model'] = 'other'", [(TUESDAY, "b")]),
        ("labels['nothing'] = 'x'", []),
        ("deployment = 'b' -- a comment", [(TUESDAY, "b")]),
        ("date IN (SELECT max(date) FROM selection) AND deployment LIKE 'a%'", [(TUESDAY, "a")]),
    ],
)
def test_a_predicate_selects_nights(where: str, nights: list[tuple[dt.date, str]]) -> None:
    selection = selector().select(where)
    assert [(night.date, night.deployment) for night in selection.nights] == nights


@pytest.mark.parametrize(
    "where",
    [
        "",
        "deploymnt = 'a'",
        "true); DROP TABLE selection; SELECT (true",
        "deployment = 'a') OR (true",
        "deployment = 'a' FROM selection WHERE (true",
        "true, false",
        "true ORDER BY 1",
        "random() < 0.5",
        "EXISTS (SELECT 1 WHERE Random() < 0.5)",
        "uuid()::VARCHAR < '8'",
        "EXISTS (FROM read_csv('/etc/passwd'))",
        "EXISTS (FROM glob('/*'))",
        "EXISTS (FROM rows)",
        "deployment = 'a",
        "date = 'yesterday'",
        "deployment = '\udcff'",
        "(" * 30_000,
        "(" * 501 + "true" + ")" * 501,
    ],
)
def test_what_is_no_predicate_over_the_table_is_refused_in_one_sentence(where: str) -> None:
    with pytest.raises(UsageError) as refused:
        selector().select(where)
    message = str(refused.value)
    assert message.startswith("The expression")
    assert message.endswith(".")
    assert "\n" not in message


def test_the_refusal_names_the_columns_that_there_are() -> None:
    with pytest.raises(UsageError, match=r"columns are date, deployment, labels, .*draft_limit.*, gpus, quant\."):
        selector().select("deploymnt = 'a'")


def test_a_warehouse_without_nights_selects_nothing() -> None:
    assert Selector([], []).select("true").nights == ()
