"""The HTML page as text: complete in one file, small, escaped, and locked by its own policy."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace

import pytest
from lxml import html as parser

from specledger.reports import html
from specledger.reports.model import Advice, DeploymentFacts, Origin, Report, Side, Stratum
from tests.sample_nights import long_report
from tests.sample_reports import HOSTILE, REPORTS, example, gate, hostile, no_data, report


@pytest.fixture(scope="module", params=REPORTS)
def page(request: pytest.FixtureRequest) -> str:
    return html.render(REPORTS[request.param]())


def tree(page: str) -> parser.HtmlElement:
    return parser.document_fromstring(page)


def test_nothing_is_loaded_from_anywhere(page: str) -> None:
    urls = tree(page).xpath("//@src | //link/@href | //*[local-name()='use']/@href | //a/@href")
    assert all(url.startswith("#") for url in urls)
    assert tree(page).xpath("//link | //iframe | //object | //base") == []


def test_the_policy_names_exactly_the_scripts_of_the_page(page: str) -> None:
    (policy,) = tree(page).xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digests = {base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts}
    assert set(re.findall(r"'sha256-([^']+)'", policy)) == digests
    assert "unsafe-eval" not in policy
    assert policy.startswith("default-src 'none'; script-src 'sha256-")


def test_every_link_inside_the_page_has_its_target(page: str) -> None:
    document = tree(page)
    targets = set(document.xpath("//@id"))
    assert {href[1:] for href in document.xpath("//a/@href")} <= targets
    assert {href[1:] for href in document.xpath("//*[local-name()='use']/@href")} <= targets
    assert len(document.xpath("//@id")) == len(targets)


def test_every_chart_has_data_or_says_what_is_lacking(page: str) -> None:
    document = tree(page)
    for chart in document.xpath("//figure"):
        name = chart.get("id").removeprefix("figure-")
        drawn = document.xpath(f"//script[@id='spec-{name}']")
        assert bool(drawn) != bool(chart.xpath("p[@class='missing']"))
        if drawn:
            assert json.loads(drawn[0].text)["datasets"]["rows"]


def test_the_sentence_is_the_first_heading(page: str) -> None:
    headings = tree(page).xpath("//h1 | //h2 | //h3")
    assert headings[0].tag == "h1"
    assert len(headings[0].text_content()) > 10


def test_hostile_text_is_text() -> None:
    page = html.render(hostile())
    document = tree(page)
    shown = document.text_content()
    for label in HOSTILE[:3]:
        assert label in shown
    assert document.xpath("//img") == []
    assert len(document.xpath("//script[not(@type)]")) == 2
    assert "{{ 7 * 7 }}" in shown
    assert "<!--" not in page
    assert "\u202e" not in shown


def test_data_in_scripts_cannot_end_them() -> None:
    text = str(html.embedded_json({"label": "</script><!--\u2028&"}))
    assert json.loads(text) == {"label": "</script><!--\u2028&"}
    assert not set("<>&\u2028") & set(text)


def test_ninety_nights_of_twenty_deployments_stay_below_three_megabytes() -> None:
    page = html.render(long_report())
    assert len(page.encode()) < 3_000_000
    (table,) = tree(page).xpath("//table[@aria-labelledby='caption-identities-fail']")
    assert [cell.text_content().strip() for cell in table.xpath(".//tbody/tr/*")] == [
        "check 3", "baseline", "requests", "1,800", "20", "90",
        "baseline llama70b-fp8-00, baseline llama70b-fp8-01, baseline llama70b-fp8-02 and 17 more", "3",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("judged", "gates"),
    [(example(), ["pass", "inconclusive", "fail", "fail"]), (no_data(), ["no data", "no data", "no data", "no data"])],
)
def test_the_four_gates_show_their_most_urgent_verdict(judged: Report, gates: list[str]) -> None:
    shown = tree(html.render(judged)).xpath("//a[contains(@class, 'gate ')]//span[contains(@class, 'verdict')]")
    assert [chip.text_content().strip() for chip in shown] == gates


def test_every_figure_can_be_looked_up() -> None:
    document = tree(html.render(example()))
    assert document.xpath("string(//div[@id='term-t0_ms']/dd)").startswith("TPOT without speculation at the same model")
    assert document.xpath("//figure[@id='figure-speedup']//a[@data-term='t0_ms']")


def test_a_measure_has_one_card_with_all_its_loads() -> None:
    page = tree(html.render(report(gate(), gate(load_band="1", change=0.3), gate("e2e_ms_p95"))))
    cards = [" ".join(card.text_content().split()) for card in page.xpath("//section[@id='attention']//li")]
    assert len(cards) == 2
    assert "TPOT 10.00 ms → 12.00 ms +20.0 %" in cards[0]
    assert "Also load 1 +30.0 %." in cards[0]


def test_advice_is_given_once() -> None:
    same = [Advice("round_time", "It rose.", "10 to 20 ms.", "Lower K.", Stratum(name)) for name in ("1", "2-4")]
    page = tree(html.render(report(gate(advice=("Lower K.", "Add memory.")), advice=tuple(same))))
    told = "At load 1 (likewise at 2-4): Lower K."
    assert [text.text for text in page.xpath("//p[@class='try']")] == [told, "Add memory.", "Lower K."]
    assert "At load 1 (likewise at 2-4): It rose." in " ".join(page.xpath("string(//ol)").split())


def test_what_needs_no_look_is_folded_away_where_there_is_much() -> None:
    many = [gate(f"measure_{n}", "inconclusive") for n in range(12)]
    page = tree(html.render(report(gate(), *many)))
    folds = page.xpath("//section[@id='gates']/details")
    assert [(fold.get("open") is not None, fold.xpath("string(summary)")[:24]) for fold in folds] == [
        (True, "Fail: 1 result TPOT"),
        (False, "Inconclusive: 12 results"),
    ]
    few = tree(html.render(report(gate(), *many[:3])))
    assert all(fold.get("open") is not None for fold in few.xpath("//section[@id='gates']/details"))


def test_a_picture_of_each_chart_is_there_before_any_script_runs(page: str) -> None:
    document = tree(page)
    for plot in document.xpath("//div[@data-chart]"):
        assert len(plot.xpath("*[local-name()='svg']")) == 1
    assert len(document.xpath("//div[@data-chart]")) == len(document.xpath("//script[starts-with(@id, 'spec-')]"))


def test_reasons_stand_in_the_row_and_what_they_rest_on_below_them() -> None:
    page = tree(html.render(report(gate())))
    (row,) = page.xpath("//div[@id='table-gates-fail']//tbody/tr")
    why = row.xpath("td[@data-label='Why']")[0]
    assert why.xpath("string(bdi)") == "The whole interval lies beyond +5\N{NO-BREAK SPACE}%."
    assert dict(zip(why.xpath(".//dt/text()"), why.xpath(".//dd//text()"), strict=True))["Baseline"] == "24 hours"


def test_facts_that_all_deployments_share_are_said_once() -> None:
    facts = tuple(DeploymentFacts(name, model="m", dtype=kind) for name, kind in (("a", "fp16"), ("b", "bf16")))
    side = Side("candidate", "x", ("a", "b"), ("2026-11-21",), facts=facts)
    page = tree(html.render(report(gate(), candidate=side)))
    rows = [[cell.text_content().strip() for cell in row] for row in page.xpath("//div[@id='table-facts']//tbody/tr")]
    assert rows == [["model", "–", "m"], ["dtype", "–", "fp16 (a); bf16 (b)"]]


def test_the_recommended_schedule_stands_beside_the_one_in_force() -> None:
    section = tree(html.render(example())).xpath("//section[@id='benefit']")[0]
    assert (
        "Recommended for llama70b-fp8: [[1, 16, 3], [17, 256, 0]] in place of [[1, 256, 3]]" in section.text_content()
    )
    cells = [cell.text_content().strip() for cell in section.xpath(".//div[@id='table-schedule-1']//tbody/tr[2]/td")]
    assert cells[:5] == ["load 17-32", "3", "0", "33.00", "24.10"]


def test_a_schedule_without_a_choice_has_no_table() -> None:
    (schedule,) = example().schedules
    alone = replace(schedule, bands=tuple(replace(band, lengths=(3,)) for band in schedule.bands))
    assert tree(html.render(report(schedules=(alone,)))).xpath("//*[@id='table-schedule-1']") == []


def test_a_grid_alone_stands_first_and_shows_every_load() -> None:
    page = tree(html.render(report(verdict="no_data", grid=example().grid)))
    assert page.xpath("//section/@id")[:2] == ["verdict", "grid"]
    assert page.xpath("//*[@class='gates']") == []
    loads = page.xpath("//*[@id='table-grid-loads']//tbody/tr/td[1]/bdi/text()")
    assert loads == [f"load {load}" for load in example().grid.by_band]


def test_a_chart_whose_rows_do_not_count_tells_the_observations_of_its_sides() -> None:
    sides = [Side(name, "", origins=(Origin("requests", n),)) for name, n in (("baseline", 1), ("candidate", 20))]
    assert html.basis([{"origin": "requests"}], sides) == (
        "From requests: baseline 1 observation, candidate 20 observations."
    )


def test_a_command_in_a_sentence_has_a_type_of_its_own() -> None:
    (command,) = tree(html.render(no_data())).xpath("//p[@class='try']/code/text()")
    assert command == "specledger check"
