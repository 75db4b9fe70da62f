"""``specledger ingest`` at the command line: what it says, and how it ends."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest

from specledger.ingest.formats import FORMATS
from tests.command_line import CommandLine

GOOD = json.dumps({"id": "a", "created": 1_789_372_800, "usage": {"prompt_tokens": 1, "completion_tokens": 2}}) + "\n"


@pytest.fixture
def responses(tmp_path: Path) -> Path:
    path = tmp_path / "responses.jsonl"
    path.write_text(GOOD + "{broken\n")
    return path


def test_help_lists_every_kind_of_input(cli: CommandLine) -> None:
    text = cli.run("ingest", "--help").stdout
    assert [
        name for name, entry in FORMATS.items() if f"{name} " not in text or entry.title.split()[0] not in text
    ] == []


def test_rejects_are_no_failure_unless_asked_for(cli: CommandLine, responses: Path) -> None:
    assert cli.run("ingest", responses).exit_code == 0
    assert cli.value("SELECT count(*) FROM rejects") == 1
    strict = cli.run("ingest", responses.rename(responses.with_name("again.jsonl")), "--strict")
    assert strict.exit_code == 0, "nothing new was rejected"
    responses.write_text(GOOD.replace('"a"', '"b"') + "{broken too\n")
    failed = cli.run("ingest", responses, "--strict")
    assert failed.exit_code == 4
    assert "1 record rejected" in failed.stderr


def test_what_was_done_is_said_in_a_line_a_format(
    cli: CommandLine, responses: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(
        logging.getLogger("specledger.ingest.commands"), "info", lambda text, *values: said.append(text % values)
    )
    cli.ok("ingest", responses)
    cli.ok("ingest", responses)
    assert said[0] == "responses: 1 input, 1 record, 1 rejected"
    assert said[1] == "responses: 0 inputs, 0 records, 1 input known"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing.log"], "does not exist"),
        ([], "PATH"),
        (["--label", "quant"], "KEY=VALUE"),
        (["--label", "9=x"], "label"),
        (["--format", "csv"], "csv"),
        (["--year", "26"], "year"),
        (["--timezone", "Mars/Base"], "time zone"),
        (["--deployment", ""], "deployment"),
        (["--deployment", "a\nb"], "deployment"),
        (["--deployment", "é" * 50], "too long"),
        (["--deployment", "\udcff"], "UTF-8"),
        (["--deployment", "__HIVE_DEFAULT_PARTITION__"], "no value"),
        (["--label", "k=\udcff"], "UTF-8"),
    ],
)
def test_wrong_use_is_one_sentence_and_exit_code_2(
    cli: CommandLine, responses: Path, arguments: list[str], words: str
) -> None:
    paths = [] if arguments in ([], ["nothing.log"]) else [responses]
    result = cli.run("ingest", *paths, *arguments)
    assert result.exit_code == 2
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert not cli.warehouse.exists()


def test_standard_input_is_an_input(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    from specledger.__main__ import cli as program

    arguments = ["ingest", "-", "--warehouse", str(cli.warehouse), "--deployment", "piped", "--label", "gpus=2"]
    for _ in range(2):
        assert CliRunner().invoke(program, arguments, input=GOOD).exit_code == 0
    assert cli.rows("SELECT deployment, source, request_id FROM requests") == [
        {"deployment": "piped", "source": "stdin", "request_id": "a"}
    ]
    assert cli.value("SELECT labels['gpus'] FROM deployments") == "2"
    assert list((cli.warehouse / "_tmp").iterdir()) == []


def test_names_and_labels_are_data_not_sql_or_paths(cli: CommandLine, responses: Path) -> None:
    name = "../a'; DROP TABLE requests; --/*?[x]"
    cli.ok("ingest", responses, "--deployment", name, "--instance", "i'", "--label", "k='); DROP")
    assert cli.rows("SELECT deployment, instance, labels['k'] AS k FROM deployments") == [
        {"deployment": name, "instance": "i'", "k": "'); DROP"}
    ]
    assert cli.value("SELECT deployment FROM requests") == name
    assert cli.run("ingest", responses, "--deployment", name, "--instance", "i'").exit_code == 0
    assert cli.value("SELECT count(*) FROM requests") == 1


def test_a_file_whose_name_is_no_utf8_is_read_like_any_other(cli: CommandLine, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "good.jsonl").write_text(GOOD)
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.jsonl")).write_text(GOOD.replace('"a"', '"b"'))
    cli.ok("ingest", folder)
    assert cli.rows("SELECT source, request_id FROM requests ORDER BY ALL") == [
        {"source": f"{folder}/caf\\xe9.jsonl", "request_id": "b"},
        {"source": f"{folder}/good.jsonl", "request_id": "a"},
    ]
    cli.ok("ingest", folder, "--strict")


def test_a_deployment_named_in_data_whose_folder_cannot_be_is_a_reject(cli: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "quality.csv"
    names = ["é" * 50, "__HIVE_DEFAULT_PARTITION__", "fine"]
    path.write_text("deployment,task,metric,value\n" + "".join(f"{name},t,m,0.5\n" for name in names))
    cli.ok("ingest", path)
    assert cli.rows("SELECT deployment FROM quality") == [{"deployment": "fine"}]
    assert cli.value("SELECT count(*) FROM rejects") == 2


def test_a_warehouse_that_cannot_be_written_is_one_sentence(cli: CommandLine, responses: Path, tmp_path: Path) -> None:
    (tmp_path / "warehouse").write_text("a file stands where the folder should be")
    result = cli.run("ingest", responses)
    assert result.exit_code == 4
    assert "cannot be written" in result.stderr


@pytest.mark.parametrize("table", ["requests", "deployments", "ingested_files", "latency"])
def test_a_damaged_file_is_one_sentence_that_names_it(cli: CommandLine, responses: Path, table: str) -> None:
    cli.ok("ingest", responses)
    cli.ok("transform")
    (path, *_) = sorted((cli.warehouse / table).glob("*/*/*.parquet"))
    path.write_bytes(path.read_bytes()[:-20])
    responses.write_text(GOOD.replace('"a"', '"b"'))
    commands = (["sql", f"FROM {table}"], ["check"], ["ingest", str(responses)], ["transform"])
    failed = [result for command in commands if (result := cli.run(*command)).exit_code]
    assert failed
    assert "_read" not in failed[0].stderr
    assert [(one.exit_code, "Traceback" in one.stderr, f"{path.name} is damaged" in one.stderr) for one in failed] == [
        (4, False, True)
    ] * len(failed)
