"""Units of work as tasks of a Spark cluster.

A unit is the one row of a partition of a small DataFrame; a function in Python computes its answer and sees nothing of
Spark. It is a plain UDF: what it takes and gives is one packed value, for which ``mapInArrow`` would want pandas installed
everywhere. Spark runs tasks that fail again elsewhere, and may run one twice: the answer of one of its runs counts.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..version import __version__
from .engine import EngineChoice, StageNumbers
from .errors import MissingExtra, RemoteError, SpecledgerError, UsageError, WarehouseError
from .warehouse import Warehouse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

U = TypeVar("U")
R = TypeVar("R")

INSTEAD = "or use --engine duckdb"
LEAST_JAVA = 17
WAVE = 16
"""Units for each slot that are ordered at once; what they gave is kept as soon as all of them are done."""
WAVES_AT_ONCE = 2
"""While the last units of one wave run, those of the next take the slots that are free."""
CONNECT = "sc://"
QUIET = {
    "spark.app.name": "specledger",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Settings unless others are given."""
MOST_SLOTS = 4_096
"""Slots beyond these are used and not counted."""


@contextlib.contextmanager
def cluster(choice: EngineChoice, warehouse: Warehouse) -> Iterator[Cluster]:
    """The cluster that a configuration names, for work on one warehouse.

    Raises MissingExtra without PySpark or Java, RemoteError where the cluster does not answer.
    """
    session = _session(choice)
    seen = warehouse.aside(".seen")
    seen.touch()
    try:
        yield Cluster(session, seen)
    finally:
        seen.unlink(missing_ok=True)
        session.stop()


@contextlib.contextmanager
def cluster_of(choice: EngineChoice, warehouse: Warehouse) -> Iterator[Cluster | None]:
    """The cluster that is to compute; None where this process is."""
    if choice.name != "spark":
        yield None
        return
    with cluster(choice, warehouse) as found:
        yield found


class Cluster:
    """A Spark session that runs units of work, and what they took."""

    def __init__(self, session: SparkSession, seen: Path) -> None:
        """``seen`` is a file of the warehouse, by which a worker knows that it sees this."""
        self._session = session
        self._seen = seen
        self.stages: list[StageNumbers] = []
        self.version = session.version
        with _explained():
            # A first job: Spark does not tell how many cores it has before it has asked for them.
            parts = session.range(0, MOST_SLOTS).selectExpr("spark_partition_id() AS part").collect()
        self.slots = max(2, len({row["part"] for row in parts}))

    def each(
        self,
        stage: str,
        work: Callable[[U], R],
        units: Sequence[U],
        read: Callable[[U], int],
        written: Callable[[R], int],
    ) -> Generator[R]:
        """What ``work`` gives for each unit, in order; both must pickle, and running it again must do no harm.

        ``read`` and ``written`` tell the bytes of a unit and of an answer. An error of specledger's own is raised here as
        soon as a task says it, every other is Spark's to try again.
        """
        if not units:
            return
        began = time.monotonic()
        sizes = [read(unit) for unit in units]
        count = WAVE * self.slots
        waves = [range(start, min(start + count, len(units))) for start in range(0, len(units), count)]
        answers: list[_Answer] = []
        out, place = 0, len(self.stages)

        def ran(wave: range) -> dict[int, _Answer]:
            return self._run(work, {unit: units[unit] for unit in sorted(wave, key=lambda unit: -sizes[unit])})

        pool = ThreadPoolExecutor(WAVES_AT_ONCE)
        try:
            for found in pool.map(ran, waves):
                answers += (found[unit] for unit in sorted(found))
                results = [answer.result for answer in answers[-len(found) :]]
                for result in results:
                    if isinstance(result, SpecledgerError):
                        raise result
                out += sum(map(written, results))
                done = _numbers(stage, answers, sizes, out, time.monotonic() - began)
                self.stages[place:] = [done]
                if done.tasks == len(units):
                    told = "Spark: %s in %d tasks, %d tried again, on %d workers, in %.1f s."
                    logger.info(told, stage, done.tasks, done.retries, done.workers, done.seconds)
                yield from results
        except BaseException:
            with contextlib.suppress(Exception):  # what ended the work is told, not what this may meet
                self._session.interruptAll()
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def _run(self, work: Callable[[U], Any], units: dict[int, U]) -> dict[int, _Answer]:
        """The answers of one job, the first unit first: those that take longest should not be the last to begin."""
        places = list(units)
        task = _Task(work, [pickle.dumps(unit) for unit in units.values()], self._seen, _versions(), _umask())
        with _explained():
            from pyspark.sql.functions import udf

            compute = udf(task, "binary", useArrow=False).asNondeterministic()
            numbers = self._session.range(0, len(places), 1, len(places))
            rows = numbers.select("id", compute("id").alias("answer")).collect()
        return {places[row["id"]]: pickle.loads(row["answer"]) for row in rows}  # noqa: S301 - our own tasks wrote it


def _numbers(stage: str, answers: list[_Answer], sizes: list[int], written: int, seconds: float) -> StageNumbers:
    return StageNumbers(
        stage,
        tasks=len(answers),
        retries=sum(answer.attempt for answer in answers),
        workers=len({answer.worker for answer in answers}),
        read_bytes=sum(sizes[: len(answers)]),
        written_bytes=written,
        task_seconds=round(sum(answer.seconds for answer in answers), 3),
        seconds=round(seconds, 3),
    )


class _Answer:
    """What a run of a task gave, and where and how."""

    def __init__(self, result: Any, seconds: float) -> None:
        from pyspark import TaskContext

        context = TaskContext.get()
        self.result = result
        self.seconds = seconds
        self.attempt = context.attemptNumber() if context else 0
        self.worker = f"{platform.node()}-{os.getppid()}"


class _Task:
    """The function that Spark calls with the number of a unit."""

    def __init__(
        self, work: Callable[[Any], Any], units: list[bytes], seen: Path, versions: tuple[str, ...], umask: int
    ) -> None:
        self._work = work
        self._units = units
        self._seen = seen
        self._versions = versions
        self._umask = umask

    def __call__(self, number: int) -> bytes:
        os.umask(self._umask)
        return pickle.dumps(self._answer(number))

    def _answer(self, number: int) -> _Answer:
        began = time.monotonic()
        try:
            self._check()
            result = self._work(pickle.loads(self._units[number]))  # noqa: S301 - the driver wrote it
        except SpecledgerError as error:
            result = error
        return _Answer(result, time.monotonic() - began)

    def _check(self) -> None:
        if not self._seen.exists():
            raise WarehouseError(
                f"The worker {platform.node()} does not see {self._seen.parents[1]}: keep the warehouse (of one in an "
                "object store the working copy, whose place is SPECLEDGER_CACHE) on a file system that all workers "
                "share, under one path, or use a local master."
            )
        if self._versions != _versions():
            raise UsageError(
                f"The worker {platform.node()} has {' '.join(_versions())} and this process {' '.join(self._versions)}: "
                "install the same on both."
            )


def _versions() -> tuple[str, ...]:
    """Of whatever decides on a figure."""
    return (
        f"specledger {__version__}",
        *(f"{name} {metadata.version(name)}" for name in ("duckdb", "polars", "numpy")),
    )


def _umask() -> int:
    """Files of tasks are as private as those of this process."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _session(choice: EngineChoice) -> SparkSession:
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingExtra(f"Spark is not installed: pip install 'specledger[spark]', {INSTEAD}.") from error
    builder = SparkSession.builder
    for name, value in (QUIET | dict(choice.conf)).items():
        builder = builder.config(name, value)
    if choice.master and choice.master.startswith(CONNECT):
        builder = builder.remote(choice.master)
    else:
        check_java()
        # Without it Spark takes the python3 that it finds first, which may have none of our libraries.
        os.environ.setdefault("PYSPARK_PYTHON", choice.conf.get("spark.pyspark.python", sys.executable))
        if choice.master:
            builder = builder.master(choice.master)
    with _explained():
        return builder.getOrCreate()


def check_java() -> None:
    """Say what is missing before Spark does, which tells it in many lines; spark-submit has a Java already."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    said = ""
    if java:
        with contextlib.suppress(OSError):
            said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603
    version = re.search(r'version "(?:1\.)?(\d+)', said)
    if version is None:
        raise MissingExtra(f"Spark needs Java {LEAST_JAVA} or newer, and there is none: install it, {INSTEAD}.")
    if int(version[1]) < LEAST_JAVA:
        raise MissingExtra(
            f"Spark needs Java {LEAST_JAVA} or newer, and {java} is Java {version[1]}: install a newer one and set "
            f"JAVA_HOME, {INSTEAD}."
        )


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Make one sentence of an error of Spark."""
    try:
        yield
    except SpecledgerError:
        raise
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark", "py4j", "grpc")):
            raise
        raise RemoteError(said(str(error))) from error


def said(message: str) -> str:
    """What an error of Spark, with all its traces, comes to."""
    if re.search(r"No module named '(specledger|duckdb|polars|pyarrow)", message):
        return (
            "The workers of Spark have no specledger: install it there, for the Python that spark.pyspark.python names, "
            f"{INSTEAD}."
        )
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    told = [line for line in lines if re.match(r"(\w+\.)*\w*(Error|Exception): ", line)] or lines
    return f"Spark could not end the work ({told[-1][:300].rstrip('.') if told else 'no reason given'}): run it again."
