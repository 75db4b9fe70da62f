"""What ``init`` takes for the inputs of one deployment."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from specledger.__main__ import cli as program
from specledger.ingest.opening import locate
from specledger.nightly.config import load

SCRAPE = "# HELP vllm:num_requests_running Running.\n"
FAILED_SCRAPE = "<html>Bad Gateway</html>\n"
RESPONSE = '{"id": "a", "usage": {"completion_tokens": 3}}\n'
LOG = "INFO 11-29 10:00:00 [loggers.py:1] Engine 000: Avg prompt throughput: 1.0 tokens/s\n"
NO_INPUT = '{"model": "a"}\n'


def lay(folder: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def initialised(folder: Path) -> dict[str, set[str]]:
    """The files that the paths of each deployment name in the configuration that init writes."""
    out = folder.parent / "specledger.toml"
    result = CliRunner().invoke(program, ["init", str(folder), "--out", str(out), "--force"])
    assert result.exit_code == 0, result.stderr
    return {
        source.deployment: {str(Path(found.source).relative_to(folder)) for found in locate(source.paths)}
        for source in load(out).sources
    }


def test_the_files_of_one_server_are_one_deployment_without_what_is_no_input(tmp_path: Path) -> None:
    folder = tmp_path / "k3[1]"
    server = {"server.log": LOG, "responses.jsonl": RESPONSE, "metrics/1.prom": SCRAPE, "metrics/2.prom": FAILED_SCRAPE}
    lay(folder, server | {"meta.json": NO_INPUT, "names.txt": "one\ntwo\n", "notes/readme.txt": "nothing\n"})
    assert initialised(folder) == {folder.name: set(server)}
    later = {"server.log.1": LOG, "more.jsonl.gz": RESPONSE, "metrics/3.prom": SCRAPE}
    paths = load(tmp_path / "specledger.toml").sources[0].paths
    lay(folder, later)
    found = {str(Path(found.source).relative_to(folder)) for found in locate(paths)}
    assert found == set(server) | set(later)


def test_a_folder_of_inputs_alone_stands_for_all_that_will_be_in_it(tmp_path: Path) -> None:
    lay(tmp_path / "k3", {"server.log": LOG, "metrics/1.prom": SCRAPE})
    initialised(tmp_path / "k3")
    assert [source.paths for source in load(tmp_path / "specledger.toml").sources] == [(str(tmp_path / "k3"),)]


def test_failed_scrapes_come_along_and_what_only_has_the_ending_of_an_input_does_not(tmp_path: Path) -> None:
    inputs = {"1795966080.txt": SCRAPE, "1795966081.txt": FAILED_SCRAPE, "result1.json": RESPONSE}
    lay(tmp_path / "k3", inputs | {"meta.json": NO_INPUT})
    assert initialised(tmp_path / "k3") == {"k3": set(inputs)}


def test_no_folder_is_joined_that_holds_what_another_holds_too(tmp_path: Path) -> None:
    lay(tmp_path / "logs", {"gateway.log": LOG, "one/1.prom": SCRAPE, "two/1.prom": SCRAPE})
    assert initialised(tmp_path / "logs") == {"one": {"one/1.prom"}, "two": {"two/1.prom"}, "logs": {"gateway.log"}}
    lay(tmp_path / "more", {"stray.log": LOG, "one/1.prom": SCRAPE, "one/server.log": LOG})
    assert initialised(tmp_path / "more") == {"one": {"one/1.prom", "one/server.log"}, "more": {"stray.log"}}


def test_evaluations_beside_folders_join_nothing(tmp_path: Path) -> None:
    lay(tmp_path / "logs", {"quality.csv": "deployment,task,metric,value\n", "chat/1.prom": SCRAPE})
    assert initialised(tmp_path / "logs") == {"chat": {"chat/1.prom"}, "logs": {"quality.csv"}}
