"""The configuration is validated whole: what is wrong is one sentence with file, line and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from specledger.nightly.config import load
from specledger.nightly.record import RECORD
from specledger.reports.trend import INDEX
from specledger.reports.trend_page import PAGE
from specledger.reports.writers import WRITERS
from specledger.schemas.errors import ConfigError
from specledger.schemas.raw import RAW_TABLES

SOURCE = '[[source]]\npaths = ["logs"]\n'


def written(folder: Path, text: str) -> Path:
    path = folder / "specledger.toml"
    path.write_text(text)
    return path


def test_everything_that_can_be_said_is_read(tmp_path: Path) -> None:
    (tmp_path / "gates.toml").write_text('[[gate]]\ngate = "latency"\nmeasure = "tpot_ms"\ntolerance = 0.2\n')
    (tmp_path / "accepted.toml").write_text(
        '[[acknowledge]]\nmeasure = "tpot_ms"\nreason = "new driver"\nuntil = 2026-12-31\n'
    )
    text = """
        warehouse = "w"
        out = "/srv/nights"
        metrics = "specledger.prom"

        [bands]
        load = ["1", "2-4", "5+"]

        [goodput]
        ttft_ms = 500

        [[source]]
        paths = ["/var/log/vllm", "prometheus://localhost:9090"]
        deployment = "chat"
        instance = "a"
        format = "server_log"
        year = 2026
        timezone = "Europe/Berlin"
        hash_text = true
        required = true

        [source.labels]
        quant = "fp8"

        [[source]]
        paths = ["logs/*.jsonl"]

        [[report]]
        name = "chat"
        candidate = "deployment = 'chat'"
        nights = 7
        within_days = 30
        gates = "gates.toml"
        acknowledge = "accepted.toml"

        [[report]]
        name = "pinned"
        baseline = "deployment = 'plain' AND date = $night"

        [hook]
        command = ["notify", "--urgent"]
        timeout_s = 5
        required = true

        [housekeeping]
        compact_files = 8

        [housekeeping.keep_days]
        rejects = 30
    """
    config = load(written(tmp_path, text))
    assert (config.warehouse, config.out) == (str(tmp_path / "w"), Path("/srv/nights"))
    assert config.metrics == tmp_path / "specledger.prom"
    assert [band.label for band in config.settings.load_bands] == ["1", "2-4", "5+"]
    assert config.settings.goodput.ttft_ms == 500
    first, second = config.sources
    assert first.paths == ("/var/log/vllm", "prometheus://localhost:9090")
    assert (first.deployment, first.instance, first.format, first.year) == ("chat", "a", "server_log", 2026)
    assert (first.timezone, first.hash_text, first.required) == ("Europe/Berlin", True, True)
    assert first.labels == {"quant": "fp8"}
    assert (second.paths, second.deployment) == ((str(tmp_path / "logs/*.jsonl"),), "default")
    rolling, pinned = config.comparisons
    assert (rolling.name, rolling.candidate, rolling.baseline) == ("chat", "deployment = 'chat'", None)
    assert (rolling.nights, rolling.within_days) == (7, 30)
    assert next(gate.tolerance for gate in rolling.gates.gates if gate.measure == "tpot_ms") == 0.2
    assert [accepted.reason for accepted in rolling.acknowledged] == ["new driver"]
    assert pinned.baseline == "deployment = 'plain' AND date = $night"
    assert config.hook is not None
    assert (config.hook.command, config.hook.timeout_s, config.hook.required) == (("notify", "--urgent"), 5, True)
    assert (config.housekeeping.compact_files, config.housekeeping.keep_days) == (8, {"rejects": 30})


def test_one_report_over_everything_is_the_default(tmp_path: Path) -> None:
    (comparison,) = load(written(tmp_path, SOURCE)).comparisons
    assert (comparison.name, comparison.candidate, comparison.baseline) == (None, "true", None)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", None, "source is missing"),
        ("[[source]\n", None, "not valid TOML"),
        (SOURCE + "warehose = 'w'\n", 3, "source.warehose is not known; known are paths, deployment"),
        ("warehose = 'w'\n" + SOURCE, 1, "warehose is not known; known are warehouse, out"),
        ("warehouse = 3\n" + SOURCE, 1, "warehouse must be text"),
        (SOURCE + "\n[reports]\n", 4, "reports is not known"),
        ("[[source]]\npaths = []\n", 2, "source.paths must be a list of texts with at least one"),
        ("[[source]]\ndeployment = 'a'\n", 1, "source.paths must be a list"),
        ("[[source]]\npaths = ['-']\n", 2, "source.paths cannot hold -"),
        ("[source]\npaths = ['a']\n", 1, "source is written as [[source]] tables"),
        (SOURCE + "deployment = ''\n", 3, "source.deployment must be text"),
        (SOURCE + "format = 'csv'\n", 3, "source.format cannot be used: The format 'csv' is not known"),
        (SOURCE + "year = 26\n", 3, "source.year must be a whole number from 2,000 to 2,100"),
        (SOURCE + "timezone = 'Mars'\n", 3, "source.timezone cannot be used: The time zone 'Mars' is not known"),
        (SOURCE + "hash_text = 'yes'\n", 3, "source.hash_text must be true or false"),
        (SOURCE + "\n[source.labels]\nquant = 8\n", 4, "source.labels must hold texts: write quant in quotes"),
        (SOURCE + "\n" + SOURCE + "year = true\n", 6, "source.year"),
        (SOURCE + '\n[bands]\n# rising\nload = ["1", "3+"]\n', 6, "bands.load"),
        (SOURCE + "\n[goodput]\ntftt_ms = 3\n", 5, "goodput.tftt_ms is not known; known are"),
        (SOURCE + "\n[[report]]\ncandidate = 'deployment ='\n", 5, "report.candidate is no SQL predicate"),
        (SOURCE + "\n[[report]]\nbaseline = 'true); DROP TABLE x; --'\n", 5, "report.baseline"),
        (SOURCE + "\n[[report]]\n\n[[report]]\nname = 'b'\n", 4, "report.name is missing"),
        (SOURCE + "\n[[report]]\nname = '../a'\n", 5, "report.name must be a folder's name"),
        *(
            (SOURCE + f"\n[[report]]\nname = '{name}'\n", 5, "report.name must be a folder's name: a letter or digit, ")
            for name in ("_x", ".a", "-b", "a" * 65)
        ),
        *(
            (SOURCE + f"\n[[report]]\nname = '{name}'\n", 5, "report.name cannot end in .html, .json, .md or .xml")
            for name in (*(file for file, _ in WRITERS), RECORD, PAGE, INDEX, "Report.JSON")
        ),
        (SOURCE + "\n[[report]]\nname = 'a'\n[[report]]\nname = 'a'\n", 7, "report.name must be of its own"),
        (SOURCE + "\n[[report]]\nname = 'Chat'\n[[report]]\nname = 'chat'\n", 7, "report.name must be of its own"),
        ('warehouse = "a\\u0000b"\n' + SOURCE, 1, "warehouse cannot hold the character NUL"),
        ('[[source]]\npaths = ["a", "b\\u0000"]\n', 2, "source.paths cannot hold the character NUL"),
        (SOURCE + '\n[[report]]\ngates = "g\\u0000"\n', 5, "report.gates cannot hold the character NUL"),
        (SOURCE + '\n[hook]\ncommand = ["a\\u0000"]\n', 5, "hook.command cannot hold the character NUL"),
        (SOURCE + "\n[[report]]\nbaseline = 'true'\nnights = 3\n", 6, "report.nights is about the rolling baseline"),
        (SOURCE + "\n[hook]\ncommand = 'notify'\n", 5, "hook.command must be a list of texts"),
        (SOURCE + "\n[hook]\ntimeout_s = 3\n", 4, "hook.command must be a list of texts"),
        (SOURCE + "\n[housekeeping]\ncompact_files = 1\n", 5, "housekeeping.compact_files"),
        (SOURCE + "\n[housekeeping.keep_days]\nledger = 9\n", 5, "housekeeping.keep_days.ledger is not known"),
        (SOURCE + "\n[housekeeping.keep_days]\nrequests = 3\n", 5, "must be a whole number from 8"),
        (SOURCE + "\n[housekeeping.keep_days]\nresults = 90\n", 5, "or they would be computed again"),
        (SOURCE + "\n[housekeeping.keep_days]\ningested_files = 90\n", 5, "ingested_files is not known"),
    ],
)
def test_what_is_wrong_is_said_with_line_and_key(tmp_path: Path, text: str, line: int | None, words: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: " if line is None else f"{path}, line {line}: ") or words == "not valid TOML"
    assert words in message
    assert message.endswith(".")


@pytest.mark.parametrize("key", ["gates", "acknowledge"])
def test_the_files_it_names_are_validated_too(tmp_path: Path, key: str) -> None:
    (tmp_path / "other.toml").write_text("\nnonsense = 1\n")
    path = written(tmp_path, SOURCE + f"[[report]]\n{key} = 'other.toml'\n")
    with pytest.raises(ConfigError, match=r"other\.toml, line 2: nonsense"):
        load(path)


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="specledger init"):
        load(tmp_path / "specledger.toml")


def test_results_can_be_removed_once_their_rows_are(tmp_path: Path) -> None:
    raw = "".join(f"{table.name} = 30\n" for table in RAW_TABLES if table.name not in ("deployments", "ingested_files"))
    config = load(written(tmp_path, SOURCE + "\n[housekeeping.keep_days]\nresults = 90\n" + raw))
    assert config.housekeeping.keep_days["ledger"] == 90
    assert config.housekeeping.keep_days["snapshots"] == 30
