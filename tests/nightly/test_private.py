"""What is private in the inputs is in nothing that a night leaves behind, and nobody else may read any of that."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from specledger.schemas import TABLES
from specledger.schemas.warehouse import Warehouse
from tests.nightly.simulated import day, started, trace, write_config, write_night
from tests.simulator import text

PROMPT = "Tell nobody about zebra-prompt-4711"
ANSWER = "The answer is zebra-answer-4712"
KEY = "sk-zebra4713abcdefghijklmnopqrstuvwxyz"
TOKEN = "hf_zebra4714abcdefghijklmnopqrstuv"
PASSWORD = "zebra4715"
ADDRESS = "203.0.113.47"
MAIL = "zebra4716@example.org"
SECRETS = (PROMPT, ANSWER, KEY, TOKEN, PASSWORD, ADDRESS, MAIL, "zebra")
LOG = f"""\
(APIServer pid=7) INFO 11-02 02:00:01 [api_utils.py:286] non-default args: {{'api_key': ['{KEY}'], \
'model': '/models/target', 'hf_token': '{TOKEN}', 'served_model_name': ['tiny-llama'], 'max_num_seqs': 64}}
(APIServer pid=7) INFO 11-02 02:00:02 [logger.py:41] Received request cmpl-1: prompt: '{PROMPT}', params: \
SamplingParams(n=1, temperature=0.0), prompt_token_ids: [1, 2], lora_request: None.
(APIServer pid=7) INFO 11-02 02:00:02 [logger.py:41] Generated response cmpl-1: output: '{ANSWER}', reason: stop
(APIServer pid=7) INFO:     {ADDRESS}:50412 - "POST /v1/completions?user={MAIL} HTTP/1.1" 200 OK
(APIServer pid=7) WARNING 11-02 02:00:03 [serving.py:88] The request of {MAIL} with Authorization: Bearer {KEY} was slow
(EngineCore pid=7) ERROR 11-02 02:00:04 [core.py:500] EngineCore failed on {{'prompt': '{PROMPT}', 'url': \
'https://user:{PASSWORD}@{ADDRESS}/x'}}
(EngineCore pid=7) ERROR 11-02 02:00:04 [core.py:500] Traceback (most recent call last):
(EngineCore pid=7) ERROR 11-02 02:00:04 [core.py:500] ValueError: {PROMPT}
"""


def planted() -> str:
    """Responses whose requests and answers hold everything that is private."""
    lines = []
    for line in text.responses(trace(0), started(day(0))).splitlines():
        record = json.loads(line)
        record["request"] |= {"prompt": PROMPT, "user": MAIL, "messages": [{"role": "user", "content": PROMPT}]}
        record["headers"] = {"authorization": f"Bearer {KEY}", "x-forwarded-for": ADDRESS}
        record["response"]["choices"] = [{"index": 0, "text": ANSWER, "finish_reason": "length"}]
        lines.append(json.dumps(record))
    lines.insert(1, lines[0][: lines[0].index(PROMPT) + len(PROMPT)])
    return "\n".join([*lines, json.dumps({"error": {"message": f"no: {PROMPT}"}}), PROMPT, ""])


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a night ran over such inputs, as a program of its own."""
    folder = tmp_path_factory.mktemp("night")
    paths = write_night(folder / "input" / "chat", 0)
    paths["log"].write_text(LOG + paths["log"].read_text())
    paths["responses"].write_text(planted())
    write_config(folder, '[source.labels]\nquant = "fp8"\n')
    (folder / "specledger.toml").write_text('metrics = "run.prom"\n' + (folder / "specledger.toml").read_text())
    call = [sys.executable, "-m", "specledger", "--log-format", "json", "nightly", "--config", "specledger.toml"]
    environment = {"PYTHONPATH": ":".join(sys.path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [*call, "--date", str(day(0))], cwd=folder, check=False, capture_output=True, text=True, env=environment
    )
    (folder / "said.log").write_text(done.stdout + done.stderr)
    assert done.returncode == 0, done.stderr
    return folder


def values(warehouse: Path) -> Iterator[str]:
    """Every row of every table, as text with its table's name."""
    with Warehouse(warehouse).connect() as connection:
        for name in TABLES:
            for row in connection.execute(f"FROM {name}").fetchall():
                yield f"{name}: {row!r}"


def test_no_private_text_is_in_any_table(night: Path) -> None:
    found = [(secret, row) for row in values(night / "warehouse") for secret in SECRETS if secret in row]
    assert found == []


def test_no_private_text_is_in_any_file_or_message(night: Path) -> None:
    written = [path for path in night.rglob("*") if path.is_file() and "input" not in path.relative_to(night).parts]
    assert {"report.html", "report.md", "report.json", "junit.xml", "run.json", "index.html", "said.log"} <= {
        path.name for path in written
    }
    assert [(path.name, s) for path in written for s in SECRETS if s.encode() in path.read_bytes()] == []


def test_what_was_planted_was_read(night: Path) -> None:
    with Warehouse(night / "warehouse").connect() as connection:
        assert connection.execute("SELECT count(*) > 50 FROM requests").fetchone() == (True,)
        assert connection.execute("SELECT count(*) >= 2 FROM rejects").fetchone() == (True,)
        assert connection.execute("SELECT count(*) > 0 FROM events").fetchone() == (True,)


def test_files_and_folders_are_private_to_the_user(night: Path) -> None:
    for path in [*(night / "warehouse").rglob("*"), *(night / "nights").rglob("*")]:
        allowed = 0o700 if path.is_dir() else 0o600
        assert path.stat().st_mode & 0o777 == allowed, path
