"""The recipes for running every night are what the programs that read them take."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DEPLOY = Path(__file__).resolve().parents[2] / "docs" / "deploy"
PROGRAMS = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
HADOLINT = shutil.which("hadolint", path=PROGRAMS)
CALLS = ("specledger.service", "specledger.cron", "airflow_dag.py")


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
def test_systemd_takes_service_and_timer(tmp_path: Path) -> None:
    for name in ("specledger.service", "specledger.timer"):
        # The program itself must exist for the checker, wherever it is installed here.
        text = (DEPLOY / name).read_text().replace("/usr/local/bin/specledger", sys.executable)
        (tmp_path / name).write_text(text)
    call = ["systemd-analyze", "verify", "--man=no", *map(str, sorted(tmp_path.iterdir()))]
    done = subprocess.run(call, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("name", ["cronjob.yaml", "cronjob-object-store.yaml"])
def test_kubernetes_takes_the_job(name: str) -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    yaml = importlib.import_module("yaml")
    validate.validate(yaml.safe_load((DEPLOY / name).read_text()), "1.32", strict=True)


@pytest.mark.skipif(HADOLINT is None, reason="hadolint is not installed")
def test_the_container_file_is_linted() -> None:
    assert HADOLINT is not None
    done = subprocess.run([HADOLINT, str(DEPLOY / "Containerfile")], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_cron_has_five_fields_a_user_and_a_command() -> None:
    lines = [line for line in (DEPLOY / "specledger.cron").read_text().splitlines() if not line.startswith("#")]
    assert lines[0] == "CRON_TZ=UTC"
    field = r"(\*|\d+)"
    assert re.fullmatch(rf"{field} {field} {field} {field} {field} [a-z]+ cd /\S+ && /\S+/specledger .+", lines[1])
    assert "%" not in lines[1], "cron takes a percent sign for the end of the line"


@pytest.mark.parametrize("name", CALLS)
def test_recipes_call_the_program_as_it_can_be_called(name: str) -> None:
    """Up to the night's date, which Airflow fills in."""
    call = re.search(r"specledger ((?:--log-format json )?nightly --config \S+)", (DEPLOY / name).read_text())
    assert call is not None
    arguments = [sys.executable, "-m", "specledger", *call[1].strip('"').split(), "--check-config"]
    done = subprocess.run(
        arguments, check=False, capture_output=True, text=True, env={"PYTHONPATH": ":".join(sys.path)}
    )
    assert done.returncode == 2
    assert "Cannot read /etc/specledger/specledger.toml" in done.stderr
