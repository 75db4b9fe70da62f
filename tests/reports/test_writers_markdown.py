"""Markdown as GitHub renders it."""

from __future__ import annotations

from dataclasses import replace

import cmarkgfm
import pytest
from lxml import html

from specledger.reports import markdown
from specledger.reports.model import Advice, Report, Stratum
from tests.sample_reports import HOSTILE, example, gate, hostile, no_data, not_comparable, one_request, report


def rendered(judged: Report) -> html.HtmlElement:
    """The report as the renderer behind GitHub makes it."""
    page = cmarkgfm.github_flavored_markdown_to_html(markdown.render(judged))
    return html.fromstring(f"<div>{page}</div>")


def test_what_failed_comes_before_everything_else() -> None:
    first = rendered(example()).xpath("//table")[0]
    verdicts = [row.xpath("string(td[1])").split()[-1] for row in first.xpath(".//tbody/tr")]
    assert verdicts == ["fail"] * 5 + ["warn"] * 2


@pytest.mark.parametrize("judged", [example(), no_data(), not_comparable(), one_request(), report(verdict="no_data")])
def test_every_row_of_every_table_has_all_its_cells(judged: Report) -> None:
    for table in rendered(judged).xpath("//table"):
        width = len(table.xpath(".//thead//th"))
        assert all(len(row.xpath("td")) == width for row in table.xpath(".//tbody/tr"))


def test_nothing_hostile_becomes_markup() -> None:
    page = rendered(hostile())
    assert page.xpath("//script | //img | //a | //del | //td//strong | //td//em") == []
    assert page.xpath("//@href") == []


def test_hostile_text_is_still_read_as_it_is() -> None:
    text = rendered(hostile()).text_content().replace("\u200b", "")
    for label in HOSTILE[:3]:
        assert label in text
    assert "a|b`c`*d*_e_[f](javascript:alert(1)) @octocat #1 https://example.org www.example.org $x$" in text


def test_mentions_and_references_are_broken_up() -> None:
    source = markdown.render(hostile())
    table_cells = [line for line in source.splitlines() if line.startswith("| ❌") and "octocat" in line]
    assert table_cells
    assert not any("@octocat" in line or "#1 " in line for line in table_cells)


@pytest.mark.parametrize("text", ["- item", "# title", "1. item", "+ item", "= rule", "> quote"])
def test_text_at_the_start_of_a_line_makes_no_block(text: str) -> None:
    page = rendered(replace(example(), notes=(text,)))
    (item,) = [item for item in page.xpath("//li") if item.text_content().replace("\u200b", "").strip() == text]
    assert item.xpath(".//ul | .//ol | .//h1 | .//blockquote") == []


def test_a_very_long_report_stays_below_what_github_takes() -> None:
    many = report(*(gate(f"task-{n}/acc", reason="x" * 250, load_band=str(n)) for n in range(900)), notes=("y",) * 5000)
    assert len(markdown.render(many).encode()) < 64_000


def test_rows_beyond_what_a_table_holds_are_counted_once() -> None:
    source = markdown.render(report(*(gate(load_band=str(n)) for n in range(markdown.MOST_GATES + 14))))
    assert source.count("14 more") == 1


def test_the_load_of_an_advice_stands_apart_from_its_finding() -> None:
    advice = (Advice("round_time", "TPOT rose.", "a", "b", Stratum("5-8")), Advice("mix", "It moved.", "c", "d"))
    items = rendered(report(gate(), advice=advice)).xpath("//ol/li")
    assert [item.text_content().strip() for item in items] == [
        "At load 5-8: TPOT rose. a Try: b",
        "It moved. c Try: d",
    ]


def test_figures_do_not_look_like_lists() -> None:
    assert "\u200b" not in markdown.render(replace(example(), advice=()))


def test_code_spans_hold_backticks_and_bars() -> None:
    page = html.fromstring(cmarkgfm.github_flavored_markdown_to_html(f"| a |\n| - |\n| {markdown.code('x`|``y')} |\n"))
    assert page.xpath("string(//td/code)") == "x`|``y"


def test_a_command_of_ours_is_the_one_code_span_that_text_makes() -> None:
    assert markdown.escape("Run `specledger check` and `rm x`.") == r"Run `specledger check` and \`rm x\`."
