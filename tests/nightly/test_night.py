"""Nights from their inputs to their reports."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from prometheus_client.parser import text_string_to_metric_families

from specledger import __version__
from specledger.__main__ import cli
from specledger.ingest import ingest, prometheus_api
from specledger.nightly import hook, record
from specledger.nightly.config import Hook
from specledger.reports import model, writers
from specledger.schemas import TABLES
from specledger.schemas.errors import RemoteError
from specledger.schemas.warehouse import Warehouse
from specledger.transforms.partitions import INPUTS
from specledger.transforms.retire import retire
from tests.nightly.simulated import day, started, trace, write_config, write_night
from tests.simulator import text

ONLY_JSON = (("report.json", model.to_json),)
"""Drawing a page takes longer than all the rest, and has tests of its own."""


@pytest.fixture(autouse=True)
def _only_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "WRITERS", ONLY_JSON)


def nightly(folder: Path, *arguments: object) -> Result:
    """The command over the configuration of a folder."""
    return CliRunner().invoke(
        cli, ["nightly", "--config", str(folder / "specledger.toml"), *(str(argument) for argument in arguments)]
    )


def night(folder: Path, number: int) -> dict[str, Any]:
    """The record of a night."""
    found = record.read(folder / "nights" / str(day(number)) / "run.json")
    assert found is not None
    return found


def last_run(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "nights" / "last_run.json").read_text())
    return found


HOOK = """
[hook]
command = ["tee", "-a", "told.json"]
"""


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """Three nights that were judged one after the other, the last of them much slower; and the exit code."""
    folder = tmp_path_factory.mktemp("judged")
    for number in range(3):
        write_night(folder / "input" / "chat", number, slow=3.0 if number == 2 else 1.0)
    write_config(folder, HOOK)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(writers, "WRITERS", ONLY_JSON)
        code = nightly(folder, "--backfill", f"{day(0)}..{day(2)}").exit_code
    return folder, code


@pytest.fixture
def folder(judged: tuple[Path, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, to go on with."""
    shutil.copytree(judged[0], tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_night_is_held_against_the_good_nights_before_it(judged: tuple[Path, int]) -> None:
    folder, code = judged
    assert code == 1
    assert [night(folder, number)["exit_code"] for number in range(3)] == [0, 0, 1]
    baselines = [night(folder, number)["reports"][0]["baseline"]["dates"] for number in range(3)]
    assert baselines == [[], [str(day(0))], [str(day(0)), str(day(1))]]
    (failed,) = night(folder, 2)["reports"]
    assert failed["verdict"] == "fail"
    assert "tpot_ms" in failed["failed"]


def test_the_run_leaves_its_record_and_the_page_of_all_nights(judged: tuple[Path, int]) -> None:
    folder, _ = judged
    run = last_run(folder)
    assert (run["exit_code"], run["error"], run["partitions"]) == (1, None, 3)
    assert run["dates"] == [str(day(number)) for number in range(3)]
    assert run["started_at"] <= run["ended_at"]
    assert run["versions"]["specledger"] == __version__
    (source,) = run["sources"]
    assert (source["inputs"], source["rejects"]) == (9, 0)
    answers = [line for path in (folder / "input" / "chat").glob("*.jsonl") for line in path.read_text().splitlines()]
    assert source["rows"]["requests"] == len(answers)
    assert (folder / "nights" / "index.html").exists()
    listed = json.loads((folder / "nights" / "index.json").read_text())["reports"]
    assert [report["date"] for report in listed] == run["dates"]


def test_the_hook_gets_the_report_of_a_failed_night_once(folder: Path) -> None:
    told = (folder / "told.json").read_text()
    assert told == (folder / "nights" / str(day(2)) / "report.json").read_text()
    assert night(folder, 2)["reports"][0]["hook"] == "done"
    record_before = (folder / "nights" / str(day(2)) / "run.json").read_bytes()
    assert nightly(folder, "--date", day(2)).exit_code == 1
    assert (folder / "nights" / str(day(2)) / "run.json").read_bytes() == record_before
    write_config(folder, HOOK + "timeout_s = 7\n")
    assert nightly(folder, "--date", day(2)).exit_code == 1
    assert (folder / "nights" / str(day(2)) / "run.json").read_bytes() != record_before
    assert (folder / "told.json").read_text() == told


def test_a_night_judged_bad_is_no_example_for_the_next(folder: Path) -> None:
    write_night(folder / "input" / "chat", 3)
    nightly(folder, "--date", day(3))
    assert night(folder, 3)["reports"][0]["baseline"]["dates"] == [str(day(0)), str(day(1))]


def test_late_rows_change_their_own_night_and_are_told(folder: Path) -> None:
    first, second = night(folder, 0), night(folder, 1)
    late = folder / "input" / "chat" / "late.jsonl"
    late.write_text(text.responses(trace(4), started(day(1)) + 3600))
    nightly(folder, "--date", day(2))
    (told,) = last_run(folder)["late"]
    assert told == {"date": str(day(1)), "rows": {"chat": len(late.read_text().splitlines())}}
    assert night(folder, 0) == first
    assert night(folder, 1)["fingerprint"] != second["fingerprint"]
    assert night(folder, 1)["late"] == [told]


def test_late_rows_are_noticed_whoever_took_them_in(folder: Path) -> None:
    late = folder / "late.jsonl"
    late.write_text(text.responses(trace(4), started(day(1)) + 3600))
    ingest(folder / "warehouse", [late], deployment="chat")
    nightly(folder, "--date", day(2))
    assert last_run(folder)["late"] == [{"date": str(day(1)), "rows": {}}]
    nightly(folder, "--date", day(2))
    assert last_run(folder)["late"] == []


def test_late_rows_are_noticed_after_a_clock_was_set_back(folder: Path) -> None:
    ahead = time.time_ns() + 300 * 86_400 * 10**9
    for name in INPUTS:
        for file in Warehouse(folder / "warehouse").files(TABLES[name], date=day(1)):
            os.utime(file.path, ns=(ahead, ahead))
    record.note_newest(folder / "nights" / str(day(1)) / "run.json", ahead)
    second = night(folder, 1)
    (folder / "input" / "chat" / "late.jsonl").write_text(text.responses(trace(4), started(day(1)) + 3600))
    nightly(folder, "--date", day(2))
    assert [late["date"] for late in last_run(folder)["late"]] == [str(day(1))]
    assert night(folder, 1)["fingerprint"] != second["fingerprint"]
    nightly(folder, "--date", day(2))
    assert last_run(folder)["late"] == []


def test_late_rows_of_a_night_that_is_no_longer_computed_are_told_once(folder: Path) -> None:
    retire(Warehouse(folder / "warehouse"), day(0))
    (folder / "input" / "chat" / "late.jsonl").write_text(text.responses(trace(4), started(day(0)) + 3600))
    judged = night(folder, 0)
    nightly(folder, "--date", day(2))
    assert [late["date"] for late in last_run(folder)["late"]] == [str(day(0))]
    assert night(folder, 0) | {"newest_ns": judged["newest_ns"]} == judged
    nightly(folder, "--date", day(2))
    assert last_run(folder)["late"] == []


def test_a_source_that_is_missing_is_told_and_fails_only_where_it_is_required(folder: Path) -> None:
    config = write_config(folder, '\n[[source]]\npaths = ["absent/*.log"]\ndeployment = "other"\n')
    assert nightly(folder, "--date", day(0)).exit_code == 0
    (note,) = last_run(folder)["sources"][1]["notes"]
    assert "absent/*.log matches nothing" in note
    config.write_text(config.read_text() + "required = true\n")
    result = nightly(folder, "--date", day(0))
    assert result.exit_code == 4
    assert result.stderr.startswith(f"{folder}/absent/*.log matches nothing")
    assert (last_run(folder)["exit_code"], last_run(folder)["error"]) == (4, result.stderr.strip())
    assert night(folder, 0)["exit_code"] == 0


def test_a_source_that_fails_does_not_keep_the_others_from_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RemoteError("The server does not answer.")

    monkeypatch.setattr(prometheus_api, "read_url", fail)
    write_config(folder, '\n[[source]]\npaths = ["prometheus://127.0.0.1:9"]\ndeployment = "other"\n')
    write_night(folder / "input" / "chat", 3)
    result = nightly(folder, "--date", day(3))
    assert (result.exit_code, result.stderr) == (4, "The server does not answer.\n")
    assert last_run(folder)["sources"][1]["error"] == "The server does not answer."
    assert night(folder, 3)["reports"][0]["candidate"]["deployments"] == ["chat"]


def test_a_night_without_data_says_so(folder: Path) -> None:
    assert nightly(folder, "--date", day(9)).exit_code == 0
    assert night(folder, 9)["reports"][0]["verdict"] == "no_data"


def test_nothing_at_all_is_wrong_use(tmp_path: Path) -> None:
    write_config(tmp_path)
    result = nightly(tmp_path, "--date", day(0))
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["does-not-exist"], "cannot be started"),
        ([sys.executable, "-c", "print('no route to pager'); raise SystemExit(7)"], "ended with 7: no route to pager"),
        (["sh", "-c", "sleep 60 & sleep 60"], "was ended after 1 s"),
    ],
)
def test_a_failing_hook_says_why(tmp_path: Path, command: list[str], said: str) -> None:
    (tmp_path / "report.json").write_text("{}" * 100_000)
    assert said in hook.call(Hook(tuple(command), 1, required=False), tmp_path / "report.json", {})


def test_a_failing_hook_changes_nothing_unless_it_must_succeed(folder: Path) -> None:
    failing = '\n[hook]\ncommand = ["false"]\n'
    (folder / "nights" / str(day(2)) / "run.json").unlink()
    write_config(folder, failing)
    result = nightly(folder, "--date", day(2))
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "The hook false ended with 1: it said nothing.",
        f"{day(2)}: fail (tpot_ms, round_time_ms). {folder / 'nights' / str(day(2))}",
    ]
    assert nightly(folder, "--date", day(2)).stderr == "", "what was judged before is said once"
    write_config(folder, failing + "required = true\n")
    assert nightly(folder, "--date", day(2)).exit_code == 4


def test_several_reports_lie_in_folders_of_their_own_and_may_have_a_pinned_baseline(folder: Path) -> None:
    write_config(
        folder,
        '\n[[report]]\nname = "rolling"\ncandidate = "deployment = \'chat\' -- all of it"\n'
        '\n[[report]]\nname = "pinned"\nbaseline = "date = $night - 2 AND deployment = \'chat\'"\n',
    )
    nightly(folder, "--date", day(2))
    rolling, pinned = night(folder, 2)["reports"]
    assert rolling["baseline"]["dates"] == [str(day(0)), str(day(1))]
    assert pinned["baseline"]["dates"] == [str(day(0))]
    for name in ("rolling", "pinned"):
        report = model.from_json((folder / "nights" / str(day(2)) / name / "report.json").read_text())
        assert report.candidate.dates == (str(day(2)),)


def test_metrics_of_a_run_can_be_read_by_prometheus(folder: Path) -> None:
    config = write_config(folder)
    config.write_text('metrics = "run.prom"\n' + config.read_text())
    write_night(folder / "input" / "chat", 3, slow=3.0)
    nightly(folder, "--date", day(3))
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families((folder / "run.prom").read_text())
        for sample in family.samples
    }
    assert samples["specledger_last_run_exit_code",] == 1
    assert samples["specledger_night_verdict", "", "fail"] == 1
    rows = last_run(folder)["sources"][0]["rows"]
    assert {name[1]: value for name, value in samples.items() if name[0] == "specledger_last_run_rows"} == rows
    assert (folder / "run.prom").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    "arguments",
    [
        ["--date", "yesterday"],
        ["--backfill", "2026-11-01"],
        ["--backfill", "2026-11-03..2026-11-01"],
        ["--date", "2026-11-01", "--backfill", "2026-11-01..2026-11-03"],
    ],
)
def test_dates_that_make_no_sense_are_wrong_use(tmp_path: Path, arguments: list[str]) -> None:
    write_config(tmp_path)
    result = nightly(tmp_path, *arguments)
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert not (tmp_path / "warehouse").exists()
