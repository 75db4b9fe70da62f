"""Which engine computes, and what is said where Spark cannot."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from specledger.schemas.config import read_toml
from specledger.schemas.engine import EngineChoice, engine_from, load_engine
from specledger.schemas.errors import ConfigError, MissingExtra
from specledger.schemas.spark import check_java, said
from tests.command_line import CommandLine


def written(folder: Path, text: str) -> Path:
    path = folder / "specledger.toml"
    path.write_text(text)
    return path


def test_settings_of_spark_are_passed_on_whether_their_dots_are_quoted_or_not(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        'engine.name = "spark"\nengine.master = "local[2]"\n[engine.conf]\n"spark.executor.memory" = "2g"\n'
        "spark.cores.max = 8\nspark.speculation = true\n",
    )
    conf = {"spark.executor.memory": "2g", "spark.cores.max": "8", "spark.speculation": "true"}
    assert engine_from(*read_toml(path)) == EngineChoice("spark", "local[2]", conf)
    assert load_engine(path, "duckdb").name == "duckdb"
    assert load_engine(None, None) == EngineChoice("duckdb")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("engine = 1", r"line 1: \[engine\] must be a table"),
        ('engine.name = "flink"', "engine.name must be duckdb or spark"),
        ('engine.masters = "x"', "engine.masters is not known; known are name, master, conf"),
        ("[engine]\nmaster = 7", "line 2: engine.master must be text such as"),
        ("engine.conf = 7", "engine.conf must be a table"),
        ('engine.conf."spark.x" = []', "line 1: engine.conf.spark.x must be text, a number"),
        ("[engine.conf]\n\nspark.x = []", "line 3: engine.conf.spark.x must be text, a number"),
    ],
)
def test_what_is_wrong_is_said_with_its_key(tmp_path: Path, text: str, told: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError, match=told):
        engine_from(*read_toml(path))


@pytest.mark.parametrize("command", [("transform",), ("ingest", "input")])
def test_without_the_extra_one_sentence_says_what_to_install(
    cli: CommandLine, command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cli.warehouse / "snapshots").mkdir(parents=True)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    result = cli.run(*command, "--engine", "spark")
    assert (result.exit_code, result.stderr) == (
        2, "Spark is not installed: pip install 'specledger[spark]', or use --engine duckdb.\n",
    )  # fmt: skip


def test_without_java_or_with_an_old_one_one_sentence_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingExtra, match="needs Java 17 or newer, and there is none: install it, or use --engine"):
        check_java()
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    java.chmod(0o755)
    with pytest.raises(MissingExtra, match=r"and .*/bin/java is Java 8: install a newer one and set JAVA_HOME"):
        check_java()
    java.write_text("#!/bin/sh\necho 'openjdk version \"21.0.3\" 2024-04-16' >&2\n")
    check_java()


def test_an_error_of_spark_becomes_one_sentence() -> None:
    missing = "Traceback\n  File \"x\"\nModuleNotFoundError: No module named 'specledger'\n"
    assert said(missing).startswith("The workers of Spark have no specledger: install it there")
    other = (
        "An exception was thrown\nTraceback (most recent call last):\nOSError: [Errno 28] No space left\n\tat org.x\n"
    )
    assert said(other) == "Spark could not end the work (OSError: [Errno 28] No space left): run it again."
