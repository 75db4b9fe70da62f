"""Spark as the tests use it: in this process, and as a real cluster of one master and two workers on loopback."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from specledger.schemas.engine import EngineChoice
from specledger.schemas.errors import MissingExtra

SMALL = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"
"""A Java that starts fast and stays small, rather than one that runs fast after minutes."""
CONF = {
    "spark.driver.memory": "1g",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": SMALL,
    "spark.executor.extraJavaOptions": SMALL,
    "spark.executorEnv.PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    "spark.sql.codegen.wholeStage": "false",
}


def missing() -> str | None:
    """What keeps Spark from running here; None if nothing does."""
    if importlib.util.find_spec("pyspark") is None:
        return "PySpark is not installed (pip install --group spark)"
    from specledger.schemas.spark import check_java

    try:
        check_java()
    except MissingExtra as error:
        return str(error)
    return None


def local(cores: int = 2) -> EngineChoice:
    """Tasks in this machine's processes."""
    return EngineChoice("spark", f"local[{cores}]", CONF)


@dataclass(frozen=True)
class Standalone:
    """A running cluster."""

    choice: EngineChoice
    workers: list[subprocess.Popen[bytes]]

    def kill_a_worker_that_computes(self) -> None:
        """End a worker and what it runs at once, as a machine ends that loses its power."""
        while not (busy := [worker for worker in self.workers if _computes(worker.pid)]):
            time.sleep(0.05)
        os.killpg(busy[0].pid, signal.SIGKILL)
        busy[0].wait()


def _computes(pid: int) -> bool:
    """Whether an executor below this process has Python compute something: its daemon has forked a worker."""
    process = Path("/proc", str(pid))
    try:
        children = [int(child) for told in process.glob("task/*/children") for child in told.read_text().split()]
        daemon = b"pyspark.daemon" in (process / "cmdline").read_bytes()
    except OSError:  # it has ended meanwhile
        return False
    return bool(children) if daemon else any(map(_computes, children))


@contextlib.contextmanager
def standalone(folder: Path, workers: int = 2) -> Iterator[Standalone]:
    """A master and workers of one core each, as processes of their own that end with the block."""
    import pyspark

    home = Path(os.environ.get("SPARK_HOME") or str(Path(pyspark.__file__).parent))
    folder.mkdir(parents=True, exist_ok=True)
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": SMALL,
        "PYSPARK_PYTHON": sys.executable,
    }
    running: list[subprocess.Popen[bytes]] = []

    def start(name: str, *arguments: str) -> Path:
        log = folder / f"{name}.log"
        with log.open("wb") as out:
            call = [str(home / "bin" / "spark-class"), *arguments]
            process = subprocess.Popen(call, stdout=out, stderr=out, env=environment, start_new_session=True)
        running.append(process)
        return log

    try:
        log = start("master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0")
        url = _said(log, r"Starting Spark master at (spark://\S+)")
        logs = [
            start(
                f"worker-{number}", "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1",
                "--cores", "1", "--memory", "600m", "--work-dir", str(folder / f"work-{number}"), url,
            )
            for number in range(workers)
        ]  # fmt: skip
        for one in logs:
            _said(one, "Successfully registered with master")
        yield Standalone(EngineChoice("spark", url, CONF), running[1:])
    finally:
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        shutil.rmtree(folder / "local", ignore_errors=True)


def _said(log: Path, pattern: str, within_s: float = 180.0) -> str:
    """The first group (or all) of what a log says, as soon as it does."""
    deadline = time.monotonic() + within_s
    while True:
        if found := re.search(pattern, log.read_text(errors="replace")):
            return found[found.re.groups and 1]
        assert time.monotonic() < deadline, f"Spark does not start: {log.read_text(errors='replace')[-2000:]}"
        time.sleep(0.1)
