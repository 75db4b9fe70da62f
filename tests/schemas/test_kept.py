"""The settings that a warehouse keeps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specledger.schemas.config import DEFAULT_SETTINGS, settings_from
from specledger.schemas.errors import ConfigError
from specledger.schemas.kept import keep_settings, settings_to_compute
from specledger.schemas.toml_lines import TomlLines
from specledger.schemas.warehouse import Warehouse
from tests import captures
from tests.command_line import CommandLine

OTHER = """
[bands]
load = ["1", "2", "3-8", "9+"]
context = [100, 2000]
[goodput]
ttft_ms = 800
"""


@pytest.fixture(scope="module")
def computed(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    folder = tmp_path_factory.mktemp("kept")
    (folder / "specledger.toml").write_text(OTHER)
    line = CommandLine(folder / "warehouse")
    line.ok("ingest", captures.folder("dynamic_sd"), "--deployment", "one")
    line.ok("transform", "--config", folder / "specledger.toml")
    return line


def bands(line: CommandLine) -> set[str]:
    return {row["load_band"] for row in line.rows("SELECT DISTINCT load_band FROM ledger")} - {"0", "all", "unknown"}


def test_reports_use_the_bands_of_the_transforms_without_being_told(computed: CommandLine, tmp_path: Path) -> None:
    assert bands(computed) <= {"1", "2", "3-8", "9+"}
    where = "deployment = 'one'"
    computed.run("report", "--baseline", where, "--candidate", where, "--out", tmp_path)
    report = json.loads((tmp_path / "report.json").read_text())
    places = {gate["stratum"]["load_band"] for gate in report["gates"] if gate["stratum"]}
    assert places
    assert places <= {"1", "2", "3-8", "9+"}


def test_transforms_keep_the_settings_until_others_are_given(computed: CommandLine) -> None:
    before = bands(computed)
    computed.ok("transform", "--force")
    assert bands(computed) == before


@pytest.mark.parametrize("command", ["report", "recommend", "chart"])
def test_other_bands_than_those_computed_are_refused(computed: CommandLine, tmp_path: Path, command: str) -> None:
    config = tmp_path / "other.toml"
    config.write_text('[bands]\nload = ["1", "2+"]\n')
    where = ("--baseline", "true", "--candidate", "true")
    arguments = {
        "report": (*where, "--out", tmp_path / "out"),
        "recommend": ("--deployment", "one"),
        "chart": ("speedup", *where, "--warehouse", computed.warehouse, "--out", tmp_path / "chart.svg"),
    }[command]
    result = computed.run(command, *arguments, "--config", config)
    assert result.exit_code == 2
    assert f"run specledger transform --config {config} first" in result.stderr


def test_settings_come_back_as_they_were_kept(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    assert settings_to_compute(warehouse, None) == DEFAULT_SETTINGS
    config = tmp_path / "specledger.toml"
    config.write_text(OTHER)
    kept = settings_to_compute(warehouse, config)
    assert settings_from(kept.document(), TomlLines(config, "")) == kept
    for settings in (kept, DEFAULT_SETTINGS):
        keep_settings(warehouse, settings)
        assert settings_to_compute(warehouse, None) == settings


@pytest.mark.parametrize("text", ["{", "[]", '{"bands": {"load": 3}}'])
def test_damaged_settings_are_named(tmp_path: Path, text: str) -> None:
    warehouse = Warehouse(tmp_path)
    keep_settings(warehouse, DEFAULT_SETTINGS)
    path = tmp_path / "_state" / "settings.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"settings\.json"):
        settings_to_compute(warehouse, None)


@pytest.mark.parametrize("command", ["check", "recommend"])
def test_what_was_ingested_after_the_transform_is_told(tmp_path: Path, command: str) -> None:
    line = CommandLine(tmp_path / "warehouse")
    source = tmp_path / "in"
    source.mkdir()
    request = json.dumps({"id": "a", "usage": {"prompt_tokens": 3, "completion_tokens": 5}, "created": 1764400000})
    (source / "one.jsonl").write_text(request + "\n")
    line.ok("ingest", source, "--deployment", "one")
    line.ok("transform")
    arguments = {"check": (), "recommend": ("--deployment", "one")}[command]
    assert "run specledger transform" not in line.run(command, *arguments).stderr
    line.ok("ingest", source, "--deployment", "one")
    assert "run specledger transform" not in line.run(command, *arguments).stderr
    (source / "two.jsonl").write_text(request.replace('"a"', '"b"') + "\n")
    line.ok("ingest", source, "--deployment", "one")
    assert "run specledger transform" in line.run(command, *arguments).stderr
    line.ok("transform")
    assert "run specledger transform" not in line.run(command, *arguments).stderr
