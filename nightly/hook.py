"""The command that is told of a failed gate."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from .config import Hook

logger = logging.getLogger(__name__)

DONE = "done"
OUTPUT_SHOWN = 500
"""Characters of what a failing hook said."""


def call(hook: Hook, report: Path, facts: Mapping[str, str]) -> str:
    """Run the hook with a file as standard input; DONE, or one sentence on why it failed.

    ``facts`` become environment variables SPECLEDGER_<NAME>. A hook that takes too long is ended, with what it started.
    """
    environment = os.environ | {f"SPECLEDGER_{name}": value for name, value in facts.items()}
    try:
        # The command is the user's own configuration, and no shell sees it.
        with report.open("rb") as file:
            process = subprocess.Popen(  # noqa: S603
                hook.command,
                stdin=file,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
    except OSError as error:
        return _failed(f"The hook {hook.command[0]} cannot be started: {error.strerror or error}.")
    try:
        said, _ = process.communicate(timeout=hook.timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return _failed(f"The hook {hook.command[0]} was ended after {hook.timeout_s} s.")
    if process.returncode:
        text = " ".join(said.decode("utf-8", "replace").split())[:OUTPUT_SHOWN]
        return _failed(f"The hook {hook.command[0]} ended with {process.returncode}: {text or 'it said nothing'}.")
    return DONE


def _failed(sentence: str) -> str:
    logger.warning(sentence)
    return sentence
