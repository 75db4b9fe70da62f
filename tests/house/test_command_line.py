"""How every command starts and ends: lazily, in one sentence, with the exit code that was promised."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import click
import duckdb
import pytest
from click.testing import CliRunner, Result

from specledger import __main__ as program
from specledger import __version__
from specledger.schemas import errors
from tests.command_line import CommandLine, loading


def run(*arguments: object) -> Result:
    return CliRunner().invoke(program.cli, [str(argument) for argument in arguments])


def assert_one_sentence(result: Result, exit_code: int, *words: str) -> None:
    assert (result.exit_code, result.stdout) == (exit_code, "")
    (line,) = result.stderr.splitlines()
    assert line.endswith(".")
    for word in words:
        assert word in line


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """``command(function)`` makes the function the command ``try``."""

    def install(function: Callable[[], object]) -> None:
        module = ModuleType("specledger.attempt")
        module.run = click.command("try")(function)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(program.COMMANDS, "try", ("attempt:run", "Try something."))

    return install


def raising(error: BaseException) -> Callable[[], object]:
    def function() -> None:
        raise error

    return function


@pytest.mark.parametrize("name", program.COMMANDS)
def test_the_line_in_the_help_is_the_first_line_of_the_commands_own_help(name: str) -> None:
    context = click.Context(program.cli)
    loaded = program.cli.get_command(context, name)
    assert loaded is not None
    assert (loaded.help or "").split("\n\n")[0].replace("\n", " ") == program.COMMANDS[name][1]
    assert loaded.name == name


@pytest.mark.parametrize("name", program.COMMANDS)
def test_every_command_has_help_and_every_option_a_sentence(name: str) -> None:
    result = run(name, "--help")
    assert result.exit_code == 0
    loaded = program.cli.get_command(click.Context(program.cli), name)
    assert loaded is not None
    for parameter in loaded.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert parameter.help, f"{name} {parameter.opts[0]} has no help"


def test_help_and_version_load_nothing_heavy() -> None:
    code = (
        "from specledger.__main__ import cli\n"
        "cli(['--help'], standalone_mode=False)\ncli(['--version'], standalone_mode=False)"
    )
    assert loading(code, "zstandard") == (0, "")
    assert loading("import polars") == (1, "polars\n"), "what is loaded is seen"


def test_the_version_is_the_packages() -> None:
    assert run("--version").stdout == f"specledger {__version__}\n"


def test_the_package_runs_as_a_module() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    call = [sys.executable, "-m", "specledger", "--version"]
    result = subprocess.run(call, check=True, capture_output=True, text=True, env=environment)
    assert result.stdout == f"specledger {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nonsense"], ["'nonsense'", "specledger --help"]),
        (["--nonsense"], ["--nonsense", "specledger --help"]),
        (["--log-format", "xml", "sql"], ["--log-format", "'xml'"]),
        (["report", "--nonsense"], ["--nonsense", "specledger report --help"]),
        (["ingest"], ["specledger ingest --help"]),
    ],
)
def test_wrong_use_is_one_sentence_and_exit_code_2(arguments: list[str], words: list[str]) -> None:
    assert_one_sentence(run(*arguments), 2, *words)


def test_no_command_at_all_shows_the_help_and_exit_code_2() -> None:
    result = run()
    assert result.exit_code == 2
    assert "Commands:" in result.stderr


@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (errors.UsageError("This is wrong."), 2),
        (errors.ConfigError("This is wrong."), 2),
        (errors.EmptyWarehouse("This is wrong."), 2),
        (errors.MissingExtra("This is wrong."), 2),
        (errors.WarehouseError("This is wrong."), 4),
        (errors.WarehouseLocked("This is wrong."), 4),
        (errors.RejectedInput("This is wrong."), 4),
        (click.UsageError("This is wrong."), 2),
        (OSError("This is wrong"), 4),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_deliberate_error_is_its_own_sentence(
    command: Callable[[Callable[[], object]], None], error: Exception, exit_code: int
) -> None:
    command(raising(error))
    assert_one_sentence(run("try"), exit_code, "This is wrong.")


def test_a_failed_read_names_the_file(command: Callable[[Callable[[], object]], None], tmp_path: Path) -> None:
    command((tmp_path / "gone").read_text)
    assert_one_sentence(run("try"), 4, str(tmp_path / "gone"), "No such file")


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), RuntimeError("Query interrupted")])
def test_an_interrupt_ends_with_130(command: Callable[[Callable[[], object]], None], interrupt: BaseException) -> None:
    command(raising(interrupt))
    result = run("try")
    assert result.exit_code == 130
    assert result.stderr.strip() == "Interrupted."


def test_damage_that_names_no_file_is_told(command: Callable[[Callable[[], object]], None]) -> None:
    command(raising(duckdb.Error("don't know what type: ")))
    result = run("try")
    assert result.exit_code == 4
    assert result.stderr.startswith(
        "A Parquet file is damaged (don't know what type): run specledger transform --force,"
    )


def test_ctrl_c_inside_a_function_that_a_query_calls_ends_with_130(
    command: Callable[[Callable[[], object]], None],
) -> None:
    def stopped(_: int) -> int:
        raise KeyboardInterrupt

    def asked() -> None:
        with duckdb.connect() as connection:
            connection.create_function("stopped", stopped, ["BIGINT"], "BIGINT")
            connection.execute("SELECT stopped(1)")

    command(asked)
    result = run("try")
    assert (result.exit_code, result.stderr.strip()) == (130, "Interrupted.")
    with pytest.raises(duckdb.Error, match="KeyboardInterrupt") as raised:
        duckdb.sql("SELECT error('of KeyboardInterrupt')").fetchall()
    assert not errors.is_interrupt(raised.value)


def test_a_reader_that_goes_away_is_nobody_to_complain_to(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    code = (
        "import sys, types, click\nfrom specledger import __main__ as program\n"
        "module = types.ModuleType('specledger.attempt')\n"
        "module.run = click.command('try')(lambda: print('x' * 1_000_000))\n"
        "sys.modules[module.__name__] = module\n"
        "program.COMMANDS['try'] = ('attempt:run', '')\nprogram.cli(['try'])"
    )
    call = [sys.executable, "-c", code]
    with subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        complaint = process.stderr.read()
    assert (process.returncode, complaint) == (141, b"")


def test_a_shell_tells_the_end_by_sigterm_as_143() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    code = (
        "import os, signal, sys, types, click\nfrom specledger import __main__ as program\n"
        "module = types.ModuleType('specledger.attempt')\n"
        "module.run = click.command('try')(lambda: os.kill(os.getpid(), signal.SIGTERM))\n"
        "sys.modules[module.__name__] = module\n"
        "program.COMMANDS['try'] = ('attempt:run', '')\nsys.argv[1:] = ['try']\nprogram.main()"
    )
    call = ["/bin/sh", "-c", '"$0" -c "$1"; exit $?', sys.executable, code]
    result = subprocess.run(call, check=False, capture_output=True, env=environment)
    assert (result.returncode, result.returncode in program.EXIT_CODES) == (143, True)


def test_what_the_output_cannot_show_is_escaped() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONIOENCODING": "ascii"}
    code = (
        "import sys, types, click\nfrom specledger import __main__ as program\n"
        "module = types.ModuleType('specledger.attempt')\n"
        "module.run = click.command('try')(lambda: print('caf\\xe9', file=sys.stdout))\n"
        "sys.modules[module.__name__] = module\n"
        "program.COMMANDS['try'] = ('attempt:run', '')\nsys.argv[1:] = ['try']\nprogram.main()"
    )
    result = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, env=environment)
    assert (result.returncode, result.stdout, result.stderr) == (0, b"caf\\xe9\n", b"")


def test_a_crash_is_never_taken_for_a_failed_gate(command: Callable[[Callable[[], object]], None]) -> None:
    command(raising(ZeroDivisionError("a fault")))
    result = run("try")
    assert result.exit_code == 4
    assert "please report" in result.stderr


def test_a_command_chooses_its_exit_code(command: Callable[[Callable[[], object]], None]) -> None:
    command(lambda: click.get_current_context().exit(3))
    assert run("try").exit_code == 3


@pytest.mark.parametrize("arguments", [["--log-format", "json", "try"], ["try", "--log-format", "json"]])
def test_errors_are_json_for_collectors(command: Callable[[Callable[[], object]], None], arguments: list[str]) -> None:
    command(raising(errors.UsageError('Say "when".')))
    result = run(*arguments)
    assert result.exit_code == 2
    assert json.loads(result.stderr) | {"time": ""} == {
        "time": "", "level": "error", "logger": "specledger", "message": 'Say "when".',
    }  # fmt: skip


def test_a_missing_input_is_wrong_use(cli: CommandLine, tmp_path: Path) -> None:
    missing = tmp_path / "missing.log"
    assert_one_sentence(cli.run("ingest", missing, "--deployment", "d"), 2, str(missing))
    assert not cli.warehouse.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["transform"],
        ["check"],
        ["sql", "SELECT 1"],
        ["report", "--baseline", "true", "--candidate", "true", "--out", "unused"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_an_empty_warehouse_is_wrong_use(cli: CommandLine, arguments: list[str]) -> None:
    assert_one_sentence(cli.run(*arguments), 2, str(cli.warehouse), "ingest")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, []),
        ("[gates\n", ["line 1"]),
        ("[nonsense]\n", ["line 1", "nonsense"]),
    ],
    ids=["missing", "broken", "unknown"],
)
def test_a_gate_file_that_cannot_be_used_is_named(
    captured: Callable[..., CommandLine], tmp_path: Path, text: str | None, words: list[str]
) -> None:
    gates = tmp_path / "gates.toml"
    if text is not None:
        gates.write_text(text)
    sides = ["--baseline", "true", "--candidate", "true"]
    result = captured("bf16_spec").run("report", *sides, "--gates", gates, "--out", tmp_path / "out")
    assert_one_sentence(result, 2, str(gates), *words)


def test_an_expression_that_is_no_sql_is_wrong_use(captured: Callable[..., CommandLine], tmp_path: Path) -> None:
    sides = ["--baseline", "deployment =", "--candidate", "true"]
    result = captured("bf16_spec").run("report", *sides, "--out", tmp_path / "out")
    assert_one_sentence(result, 2, "deployment =")


def test_a_question_that_is_no_sql_is_wrong_use(captured: Callable[..., CommandLine]) -> None:
    assert_one_sentence(captured("bf16_spec").run("sql", "SELECT nonsense FROM ledger"), 2, "nonsense")
