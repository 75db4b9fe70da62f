"""The page of all nights: what it reads, what it remembers, and what it shows."""

from __future__ import annotations

import datetime as dt
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from lxml import html as parser

from specledger.reports import trend, trend_page
from specledger.reports.course import HEIGHT, WIDTH, course
from specledger.reports.model import Report, Side, to_json
from specledger.reports.trend import Trend
from specledger.schemas.config import DEFAULT_SETTINGS
from specledger.schemas.errors import UsageError
from specledger.schemas.warehouse import Warehouse
from tests.command_line import CommandLine
from tests.reports.fleet import WORLD, put_requests
from tests.sample_nights import FIRST, fleet, hostile_nights, night, told
from tests.sample_reports import HOSTILE, gate, report

NOW = dt.datetime(2026, 11, 30, 4)


def tree(shown: Trend) -> parser.HtmlElement:
    return parser.document_fromstring(trend_page.render(shown))


def put(folder: Path, name: str, found: Report) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "report.json").write_text(to_json(found), encoding="utf-8")


def nightly(date: str, deployment: str = "a", verdict: str = "fail", at: str = "04:00") -> Report:
    found = report(gate(), verdict=verdict, generated_at=f"2026-11-21T{at}:00Z")
    return replace(found, candidate=Side("candidate", "x", (deployment,), (date,)))


def test_reports_are_found_one_and_two_levels_down_and_told_by_their_own_sentence(tmp_path: Path) -> None:
    put(tmp_path, "2026-11-20", nightly("2026-11-20"))
    put(tmp_path, "2026-11-21/b", nightly("2026-11-21", "b", "pass"))
    (tmp_path / "2026-11-22").mkdir()
    (tmp_path / "2026-11-22" / "report.json").write_text("{", encoding="utf-8")
    reports, notes = trend.nightly_reports(tmp_path)
    assert [(found.path, found.verdict, found.deployments) for found in reports] == [
        ("2026-11-20/report.json", "fail", ("a",)),
        ("2026-11-21/b/report.json", "pass", ("b",)),
    ]
    assert reports[0].sentence.startswith("Failed: TPOT rose by 20.0 %")
    assert notes == ("1 report could not be read, 2026-11-22/report.json first.",)


def test_a_report_that_the_index_knows_is_read_again_only_when_it_changed(tmp_path: Path) -> None:
    put(tmp_path, "2026-11-20", nightly("2026-11-20"))
    written = tmp_path / "2026-11-20" / "report.json"
    (tmp_path / "index.json").write_text(trend.index(trend.nightly_reports(tmp_path)[0]), encoding="utf-8")
    unchanged = written.stat().st_mtime_ns
    written.write_text(to_json(nightly("2026-11-20", verdict="pass")), encoding="utf-8")
    os.utime(written, ns=(unchanged, unchanged))
    assert trend.nightly_reports(tmp_path)[0][0].verdict == "fail"
    os.utime(written, ns=(unchanged + 1, unchanged + 1))
    assert trend.nightly_reports(tmp_path)[0][0].verdict == "pass"


def test_of_two_reports_on_a_night_the_later_one_counts(tmp_path: Path) -> None:
    put(tmp_path, "second", nightly("2026-11-20", verdict="pass", at="05:00"))
    put(tmp_path, "third", nightly("2026-11-20", verdict="fail", at="04:00"))
    reports, _ = trend.nightly_reports(tmp_path)
    page = tree(Trend((), reports))
    assert page.xpath("//a[contains(@class, 'night')]/@href") == ["second/report.html"]


def test_the_page_is_written_from_a_warehouse_and_a_folder(tmp_path: Path) -> None:
    warehouse, days = Warehouse(tmp_path / "warehouse"), [FIRST + dt.timedelta(days=day) for day in range(8)]
    put_requests(warehouse, WORLD, days[:4], 1, per_hour=6, gaps=False)
    put_requests(warehouse, WORLD.with_length(0.85), days[4:], 2, per_hour=6, gaps=False)
    folder = tmp_path / "reports"
    put(folder, days[-1].isoformat(), nightly(days[-1].isoformat(), WORLD.deployment))
    paths = trend_page.write(warehouse, folder, DEFAULT_SETTINGS, NOW)
    assert [path.name for path in paths] == ["index.html", "index.json"]
    page = parser.document_fromstring(paths[0].read_text(encoding="utf-8"))
    assert page.xpath("//a[contains(@class, 'night')]/@href") == [f"{days[-1]}/report.html"]
    assert len(page.xpath("//figure[@class='course']")) == 4
    assert "Acceptance length has a new level from 2026-09-05: −1" in page.xpath("string(//ul[@class='findings'])")
    assert len(json.loads(paths[1].read_text(encoding="utf-8"))["reports"]) == 1


def test_the_index_keeps_what_the_page_no_longer_shows(tmp_path: Path) -> None:
    """Or every old report would be read again each night."""
    empty = nightly("2026-11-20")
    put(tmp_path, "2025-01-01", nightly("2025-01-01"))
    put(tmp_path, "2026-11-20", nightly("2026-11-20"))
    put(tmp_path, "2026-11-21", replace(empty, candidate=replace(empty.candidate, dates=(), deployments=())))
    found = trend.build(Warehouse(tmp_path / "none"), tmp_path, DEFAULT_SETTINGS, NOW)
    assert [report.date for report in found.reports] == ["2026-11-20"]
    assert [report.path[:10] for report in found.known] == ["2026-11-21", "2025-01-01", "2026-11-20"]


def test_a_predicate_chooses_deployments(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "warehouse")
    put_requests(warehouse, WORLD, [FIRST], 1, per_hour=6, gaps=False)
    chosen = trend.build(warehouse, tmp_path, DEFAULT_SETTINGS, NOW, f"deployment = '{WORLD.deployment}'")
    assert chosen.deployments == (WORLD.deployment,)
    assert trend.build(warehouse, tmp_path, DEFAULT_SETTINGS, NOW, "deployment = 'typo'").deployments == ()
    with pytest.raises(UsageError, match="is not a predicate"):
        trend.build(warehouse, tmp_path, DEFAULT_SETTINGS, NOW, "deployment =")


def test_the_sentence_counts_last_reports_and_names_the_bad_ones() -> None:
    shown = Trend(
        (night(0), night(1)), (told(0, "fail"), told(1, "pass"), told(0, "fail", "b"), told(0, "inconclusive", "c"))
    )
    assert tree(shown).xpath("string(//h1)") == (
        "3 deployments, 2 nights up to 2026-09-02. By their last reports 1 failed (b), 1 undecided and 1 passed."
    )
    assert tree(shown).xpath("//section[@class='deployment']/h2/bdi/text()") == ["b", "c", "a"]


def test_without_nights_the_page_says_what_to_do() -> None:
    assert "ingest some" in tree(Trend((), ())).xpath("string(//h1)")


def test_a_missing_night_breaks_the_line_and_a_new_level_is_marked() -> None:
    nights = [night(day, 2.7 if day < 6 else 2.43, change_point=day == 6) for day in range(10) if day != 3]
    drawn = course(nights, FIRST, FIRST + dt.timedelta(days=9))
    assert [len(points.split()) for points in drawn.lines] == [3, 6]
    assert [(step.date, round(step.change, 3)) for step in drawn.steps] == [("2026-09-07", -0.1)]
    assert all(0 <= mark.x <= WIDTH and 0 <= mark.y <= HEIGHT for mark in drawn.marks)


@pytest.mark.parametrize("value", [0.0, 2.7, 1e12])
def test_a_level_that_never_moves_is_a_line_in_the_middle(value: float) -> None:
    drawn = course([night(day, value, interval=None) for day in range(3)], FIRST, FIRST + dt.timedelta(days=2))
    assert len({mark.y for mark in drawn.marks}) == 1
    assert drawn.areas == ()


def test_one_wild_interval_flattens_no_other_night() -> None:
    nights = [*(night(day) for day in range(8)), night(8, 2.7, interval=(0.1, 900.0))]
    low, high = (float(text) for _, text in course(nights, FIRST, FIRST + dt.timedelta(days=8)).scale)
    assert 2.5 < low < high < 3


def test_hostile_names_are_text() -> None:
    page = tree(hostile_nights())
    assert page.xpath("//img") == []
    assert len(page.xpath("//script")) == 1
    assert all(
        href.startswith(("#", "2026-09-01/")) for href in page.xpath("//a/@href | //*[local-name()='use']/@href")
    )
    assert HOSTILE[0] in page.text_content()
    assert len(page.xpath("//@id")) == len(set(page.xpath("//@id")))


def test_ninety_nights_of_twenty_deployments_stay_below_three_megabytes() -> None:
    assert len(trend_page.render(fleet(20, 90)).encode()) < 3_000_000


def test_the_command_writes_the_page_of_all_nights_and_judges_nothing(cli: CommandLine, tmp_path: Path) -> None:
    put_requests(Warehouse(cli.warehouse), WORLD, [FIRST], 1, per_hour=6, gaps=False)
    told = cli.ok("report", "--history", "--out", tmp_path / "nights")
    assert told == f"Nights: {tmp_path / 'nights' / 'index.html'}\n"
    assert WORLD.deployment in (tmp_path / "nights" / "index.html").read_text(encoding="utf-8")
    refused = cli.run("report", "--history", "--baseline", "true", "--out", tmp_path)
    assert (refused.exit_code, "--history judges nothing" in refused.stderr) == (2, True)
