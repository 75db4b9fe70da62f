"""The demo's words follow from the report."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specledger.demo.story import tell
from specledger.reports.model import BandFigures, Report, Side


def report(*speedups: tuple[str, float, tuple[float, float] | None]) -> Report:
    pooled = [
        BandFigures("baseline", "all", "requests", tpot_ms=53.1),
        BandFigures("candidate", "all", "requests", tpot_ms=50.57, speedup=1.01),
    ]
    bands = [
        BandFigures(
            "candidate", load, "requests", speedup=speedup, speedup_interval=interval,
            break_even_length=2.5 / speedup, effective_length=2.5,
        )
        for load, speedup, interval in speedups
    ]  # fmt: skip
    sides = {name: Side(name, "true") for name in ("baseline", "candidate")}
    return Report(verdict="pass", bands=(*bands, *pooled), **sides)


def test_the_pooled_figure_stands_beside_what_it_hides() -> None:
    said = tell(report(("1", 1.29, (1.19, 1.40)), ("5-8", 0.96, (0.92, 1.01)), ("17-32", 0.94, (0.89, 0.99))))
    assert said.startswith("Pooled over everything, a token took 53.10 ms without speculation and 50.57 ms with it: 5%")
    assert "5% faster (1% faster at an equal mix of loads)." in said
    assert "29% faster at load 1, 4% slower (undecided) at load 5-8 and 6% slower at load 17-32." in said
    assert "At load 17-32 a round takes 2.66 ordinary steps and returns 2.50 tokens; at load 1 it takes 1.94" in said


@pytest.mark.parametrize(
    ("speedup", "interval", "effect"), [(1.2, (1.1, 1.3), "20% faster"), (0.8, (0.7, 0.9), "20% slower")]
)
def test_where_all_loads_agree_no_boundary_is_made_up(
    speedup: float, interval: tuple[float, float], effect: str
) -> None:
    said = tell(report(("1", speedup, interval), ("2-4", speedup, interval)))
    assert f"Every load says the same: {effect} at load 1 and {effect} at load 2-4." in said
    assert "not one story" not in said


def test_a_load_without_an_interval_is_undecided() -> None:
    assert "10% slower (undecided) at load 2-4" in tell(report(("1", 1.3, (1.2, 1.4)), ("2-4", 0.9, None)))


def test_without_a_shared_load_nothing_is_compared() -> None:
    assert "nothing to compare" in tell(replace(report(), bands=()))
