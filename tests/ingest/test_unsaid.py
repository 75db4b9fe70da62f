"""What is said of requests that do not say how many tokens they returned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specledger.ingest import ingest

END = 1_795_966_080


def response(number: int, usage: dict[str, int], **more: object) -> str:
    return json.dumps(
        {"id": f"r{number}", "created": END, "choices": [{"finish_reason": "stop"}], "usage": usage, **more}
    )


def span(number: int, attributes: str, status: int = 1) -> str:
    spans = [
        {
            "name": "llm_request",
            "spanId": f"{number:016x}",
            "endTimeUnixNano": str(END * 10**9),
            "status": {"code": status},
            attributes: [{"key": "gen_ai.usage.completion_tokens", "value": {"intValue": "3"}}],
        }
    ]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})


def notes(folder: Path, **files: list[str]) -> list[str]:
    """The notes of the ingest of these files of JSON lines."""
    logs = folder / "logs"
    logs.mkdir()
    for name, lines in files.items():
        (logs / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return ingest(folder / "warehouse", [str(logs)]).notes


RENAMED = [response(number, {"prompt_tokens": 1, "completion": 2}) for number in range(4)]
WHOLE = response(9, {"prompt_tokens": 1, "completion_tokens": 2})
FAILED = response(9, {"prompt_tokens": 1}, status_code=500, error={"message": "no"})
ABORTED = json.dumps({"id": "r9", "created": END, "aborted_by_client": True, "usage": {"prompt_tokens": 1}})


def test_a_renamed_field_of_responses_is_told_with_the_file(tmp_path: Path) -> None:
    assert notes(tmp_path, b=RENAMED, c=[WHOLE]) == [
        f"None of the requests in {tmp_path}/logs/b.jsonl says how many tokens it returned (4 that went well): "
        "is the field renamed or left out?"
    ]


def test_many_files_are_told_in_one_sentence_a_format(tmp_path: Path) -> None:
    spans = [span(number, "attrs") for number in range(3)]
    said = notes(tmp_path, a=spans, b=RENAMED[:2], c=RENAMED[2:])
    assert [note.partition(" says")[0] for note in said] == [
        f"None of the requests in {tmp_path}/logs/a.jsonl",
        f"None of the requests in {tmp_path}/logs/b.jsonl and 1 more input",
    ]


@pytest.mark.parametrize(
    "lines", [[*RENAMED, WHOLE], [FAILED], [ABORTED], [span(1, "attributes")], [span(1, "attrs", status=2)]]
)
def test_one_figure_is_enough_and_of_what_went_wrong_none_is_asked(tmp_path: Path, lines: list[str]) -> None:
    assert notes(tmp_path, a=lines) == []
