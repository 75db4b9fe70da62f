"""The summary on a terminal: 80 columns, colour only where it is wanted, and no command from a log to the terminal."""

from __future__ import annotations

import io
import re

import pytest

from specledger.reports import terminal
from specledger.reports.model import Report
from specledger.reports.plain import cut, one_line, padded, width
from tests.sample_reports import REPORTS, example, no_data

ALL = {name: made() for name, made in REPORTS.items()}


class Terminal(io.StringIO):
    encoding = "utf-8"  # type: ignore[assignment]

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("name", ALL)
def test_no_line_is_wider_than_80_columns(name: str) -> None:
    assert max(width(line) for line in terminal.render(ALL[name]).splitlines()) <= 80


@pytest.mark.parametrize("name", ALL)
def test_without_colour_there_is_no_escape(name: str) -> None:
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", terminal.render(ALL[name]))


def test_colour_adds_nothing_but_colour() -> None:
    plain, coloured = terminal.render(example()), terminal.render(example(), colour=True)
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain
    assert coloured != plain


def test_the_verdict_is_the_first_word() -> None:
    assert terminal.render(example()).startswith("FAIL  TPOT rose by 10.0 % within like traffic (allowed")


def test_a_failed_measure_is_told_once_with_its_figures_its_reason_and_the_other_loads() -> None:
    lines = terminal.render(example()).splitlines()
    position = lines.index("fail           TPOT                           +10.0 % (+7.8 to +12.2 %)")
    assert lines[position + 1 : position + 3] == [
        "  The whole interval lies beyond +5 %; most of it is acceptance. Also load 2-4",
        "  +11.7 % and load 5-8 +10.1 %.",
    ]


def test_no_line_ends_between_a_figure_and_its_unit() -> None:
    for judged in ALL.values():
        assert not [line for line in terminal.render(judged).splitlines() if line.lstrip().startswith(("%", "ms "))]


def test_the_benefit_boundary_is_a_table_of_the_speculating_side() -> None:
    lines = terminal.render(example()).splitlines()
    position = lines.index("Benefit boundary (candidate)")
    assert lines[position + 2].split() == ["1", "15.10", "22.28", "2.51", "2.48", "1.48", "9.000", "1.68×"]


def test_a_terminal_gets_colour_unless_it_is_told_not_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert terminal.wants_colour(Terminal())
    assert not terminal.wants_colour(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not terminal.wants_colour(Terminal())
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not terminal.wants_colour(Terminal())


@pytest.mark.parametrize("judged", [example(), no_data()])
def test_a_stream_that_lacks_a_sign_gets_a_question_mark_for_it(judged: Report) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    terminal.show(judged, stream)
    stream.flush()
    assert raw.getvalue().decode("ascii").startswith(("FAIL", "NO DATA"))


def test_text_is_cut_by_columns_not_by_characters() -> None:
    assert cut("模型模型模型", 9) == "模型模..."
    assert padded("e\u0301t", 4) == "e\u0301t  "
    assert one_line("a\x1b[1m\n b\u202e") == "a\ufffd[1m b\ufffd"
