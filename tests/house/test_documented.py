"""Every answer that the documentation shows is the one that the program gives, and those of the cookbook are right."""

from __future__ import annotations

import fcntl
import json
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import captures, documented
from tests.command_line import CommandLine
from tests.oracle import count

COOKBOOK = documented.DOCS / "cookbook.md"
pytestmark = pytest.mark.skipif(not documented.DOCS.is_dir(), reason="the documentation is not part of the wheel")
RECIPES = documented.recipes(COOKBOOK) if documented.DOCS.is_dir() else []
OTHER_PAGES = [page for page in documented.pages() if page != COOKBOOK] if documented.DOCS.is_dir() else []


@pytest.fixture(scope="session")
def house(shared_folder: Path) -> Path:
    """The folder that the pages are read in; made once a test run."""
    folder = shared_folder / "documented"
    with (shared_folder / "documented.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "made").exists():
            folder.mkdir()
            documented.build(folder)
            (folder / "made").touch()
    return folder


@pytest.fixture(scope="session")
def line(house: Path) -> CommandLine:
    return CommandLine(house / "warehouse")


@pytest.mark.parametrize(("question", "sql", "answer"), RECIPES, ids=[recipe[0] for recipe in RECIPES])
def test_a_recipe_has_the_answer_that_stands_below_it(house: Path, question: str, sql: str, answer: str) -> None:
    replay = documented.Replay(house)
    with replay.at_work():
        assert replay.answer("sql", sql) == answer


def test_the_cookbook_answers_many_questions_and_says_how_to_read_each() -> None:
    parts = COOKBOOK.read_text(encoding="utf-8").split("\n### ")[1:]
    assert len(parts) >= 25
    assert [part.splitlines()[0] for part in parts if "```sql" not in part or "trap" not in part] == []


@pytest.mark.parametrize("page", OTHER_PAGES, ids=[page.stem for page in OTHER_PAGES])
def test_a_page_shows_what_is_printed(house: Path, tmp_path: Path, page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    own = documented.has_own_folder(text)
    if own:
        documented.link(tmp_path)
    assert documented.rewritten(text, tmp_path if own else house) == text


def answers(line: CommandLine, question: str) -> list[dict[str, Any]]:
    """The rows that answer a question of the cookbook."""
    (sql,) = [sql for asked, sql, _ in RECIPES if asked == question]
    return line.rows(sql)


def responses(deployment: str) -> Iterator[dict[str, Any]]:
    """The envelopes of a capture, as the server and the client left them."""
    path = captures.folder(documented.DEPLOYMENTS[deployment]) / "responses.jsonl.zst"
    yield from map(json.loads, count.lines(path))


def test_acceptance_and_truncation_are_those_counted_by_hand(line: CommandLine) -> None:
    counted = count.responses(captures.folder("spec_k3_draft") / "responses.jsonl.zst")
    (drafted,) = [row for row in answers(line, "What did each deployment accept?") if row["deployment"] == "drafted"]
    assert drafted["rounds"] == counted.rounds
    assert drafted["length"] == round(1 + counted.accepted / counted.rounds, 3)
    lost = answers(line, "Which share of the accepted tokens never reached a client?")
    assert {row["truncated"] for row in lost if row["deployment"] == "drafted"} == {counted.truncated}


def test_acceptance_by_task_and_by_length_of_the_prompt_is_that_of_the_responses(line: CommandLine) -> None:
    rounds: Counter[tuple[str, Any]] = Counter()
    accepted: Counter[tuple[str, Any]] = Counter()
    for name in ("drafted", "dynamic"):
        for envelope in responses(name):
            body = envelope.get("response") or {}
            spec = (body.get("metrics") or {}).get("speculative_decoding")
            if spec:
                prompt = min(body["usage"]["prompt_tokens"] // 100 * 100, 400)
                for key in ((name, envelope["kind"]), (name, prompt)):
                    rounds[key] += spec["num_spec_steps"]
                    accepted[key] += spec["num_accepted_draft_tokens"]
    length = {key: 1 + accepted[key] / rounds[key] for key in rounds if rounds[key]}
    for row in answers(line, "Which task lost acceptance?"):
        assert row["lost"] == round(length["dynamic", row["task"]] - length["drafted", row["task"]], 3)
    prompts = answers(line, "Did longer prompts hurt?")
    expected = {
        key: round(found, 3) for (name, key), found in length.items() if name == "drafted" and key in range(500)
    }
    assert {row["prompt_from"]: row["length"] for row in prompts} == expected


def test_the_smallest_change_is_that_of_the_requests_taken_one_by_one(line: CommandLine) -> None:
    pairs = [
        (spec["num_spec_steps"], spec["num_accepted_draft_tokens"])
        for envelope in responses("drafted")
        if (spec := ((envelope.get("response") or {}).get("metrics") or {}).get("speculative_decoding"))
    ]
    whole = sum(rounds for rounds, _ in pairs)
    rate = sum(accepted for _, accepted in pairs) / whole
    error = math.sqrt(2 * sum((accepted - rate * rounds) ** 2 for rounds, accepted in pairs)) / whole
    (row,) = [row for row in answers(line, "Which nights were under-powered?") if row["deployment"] == "drafted"]
    assert row["smallest_change"] == round(100 * 1.96 * error / (1 + rate), 1)


def test_requests_end_as_the_client_saw_them_end(line: CommandLine) -> None:
    sent = [one for one in responses("defaults") if one["kind"] != "probe" and one["status"] == 200]
    whole = [one for one in sent if one.get("finish_reason") or one["kind"].endswith("nonstream")]
    found = Counter[str]()
    for row in answers(line, "How did requests end?"):
        if row["deployment"] == "defaults":
            found[row["status"]] += row["requests"]
    assert (found["ok"], found["aborted"]) == (len(whole), len(sent) - len(whole))


def test_preemptions_are_the_servers(line: CommandLine) -> None:
    counted = count.counters(captures.folder("preemption") / "metrics.prom.zst")
    full = answers(line, "How full was the KV cache, and was anybody put back?")[0]
    assert (full["deployment"], full["preemptions"]) == ("small-kv", counted["num_preemptions_total"])


def test_the_time_of_a_token_is_that_of_the_responses(line: CommandLine) -> None:
    counted = count.responses(captures.folder("spec_k3_draft") / "responses.jsonl.zst")
    rows = {row["deployment"]: row for row in answers(line, "Is the mean of requests the time of a token?")}
    assert rows["drafted"]["by_token"] == pytest.approx(counted.server_decode_ms / counted.tokens, abs=0.006)
    assert rows["drafted"]["by_request"] == pytest.approx(counted.request_tpot_ms / counted.longer, abs=0.006)
