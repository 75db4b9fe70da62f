"""report.json keeps its published form."""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest

from specledger.reports import json_schema
from specledger.reports.model import Report, from_json, to_json
from tests.sample_reports import example, hostile, no_data, not_comparable, one_request, report

PUBLISHED = json.loads(json_schema.PUBLISHED.read_text(encoding="utf-8"))


def test_the_published_schema_is_that_of_the_declared_structure() -> None:
    assert json_schema.PUBLISHED.read_text(encoding="utf-8") == json_schema.text(), (
        "Publish it anew: python -m specledger.reports.json_schema > reports/report.schema.json"
    )


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(PUBLISHED)


@pytest.mark.parametrize(
    "judged", [example(), hostile(), no_data(), not_comparable(), one_request(), report(verdict="pass")]
)
def test_reports_are_valid(judged: Report) -> None:
    jsonschema.validate(json.loads(to_json(judged)), PUBLISHED)


@pytest.mark.parametrize("judged", [example(), hostile(), one_request()])
def test_a_report_comes_back_as_it_was(judged: Report) -> None:
    assert from_json(to_json(judged)) == judged


@pytest.mark.parametrize(
    ("field", "value"), [("verdict", "fine"), ("schema_version", 2), ("gates", {}), ("exit_code", "1")]
)
def test_other_documents_are_not_valid(field: str, value: object) -> None:
    document = {**json.loads(to_json(example())), field: value}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, PUBLISHED)


def test_every_field_that_has_a_sentence_keeps_it() -> None:
    assert PUBLISHED["$defs"]["GateResult"]["properties"]["unit"]["description"] == (
        "hour, block, request or interval; what n counts."
    )


def test_a_figure_that_is_no_number_is_never_written() -> None:
    with pytest.raises(ValueError, match="Out of range float"):
        to_json(replace(example(), confidence=float("nan")))
