"""JUnit XML that stock tools read."""

from __future__ import annotations

import io

import pytest
from junitparser import JUnitXml
from lxml import etree

from specledger.reports import junit
from specledger.reports.model import Report
from tests.sample_reports import EXAMPLE, REPORTS, gate, report

SCHEMA = etree.XMLSchema(file=str(EXAMPLE.with_name("junit.xsd")))


def cases(judged: Report) -> dict[str, list[tuple[str, str]]]:
    """What a stock parser sees: test case → (kind of result, message)."""
    suites = JUnitXml.fromroot(JUnitXml.fromstring(junit.render(judged).encode())._elem)
    return {
        f"{case.classname}: {case.name}": [(type(result).__name__, result.message) for result in case.result]
        for suite in suites
        for case in suite
    }


@pytest.mark.parametrize("name", REPORTS)
def test_every_report_is_valid_against_the_common_schema(name: str) -> None:
    SCHEMA.assertValid(etree.parse(io.BytesIO(junit.render(REPORTS[name]()).encode())))


def test_each_gate_result_is_a_test_case_with_its_reason() -> None:
    seen = cases(
        report(
            gate(),
            gate(load_band="2-4", verdict="pass"),
            gate("longest_pause_ms", "warn", reason="Rose by 80 %."),
            gate("goodput_tps", "no_data", gate="capacity", reason="No limits."),
        )
    )
    assert seen == {
        "specledger.latency: TPOT": [("Failure", "The whole interval lies beyond +5 %.")],
        "specledger.latency: TPOT, load 2-4": [],
        "specledger.latency: Longest pause": [("Skipped", "warn: Rose by 80 %.")],
        "specledger.capacity: Goodput": [("Skipped", "no data: No limits.")],
    }


@pytest.mark.parametrize("verdict", ["inconclusive", "no_data", "not_comparable"])
def test_a_required_gate_that_was_not_decided_is_a_failure(verdict: str) -> None:
    (results,) = cases(report(gate(verdict=verdict, required=True))).values()
    assert [kind for kind, _ in results] == ["Failure"]


def test_suites_count_their_results() -> None:
    root = etree.fromstring(junit.render(report(gate(), gate("e2e_ms_p95", "warn"), gate("x", "pass"))).encode())
    latency = root.find("testsuite[@name='specledger.latency']")
    assert latency is not None
    assert {key: latency.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "3",
        "failures": "1",
        "errors": "0",
        "skipped": "1",
    }


def test_equal_titles_get_numbers() -> None:
    names = list(cases(report(gate("same", gate="quality"), gate("same", gate="quality"))))
    assert names == ["specledger.quality: same", "specledger.quality: same (2)"]
