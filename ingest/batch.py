"""Where the rows of a batch go: buffered, freed of what the warehouse holds, written by partition, committed."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from ..schemas import RAW_TABLES
from ..schemas.raw import INGESTED_FILES
from ..schemas.views import PARTS
from ..version import __version__
from .content_hash import digest, hexdigest
from .dedupe import PartitionKeys, Pass
from .frames import constant, filled, in_order, maps, partitions
from .identity import Known, pack_resume
from .plausible import impossible, refusal
from .publishing import Publication, publish
from .reader import InputContext
from .unsaid import answers

if TYPE_CHECKING:
    import pyarrow as pa

    from ..schemas.staged import StagedFile
    from ..schemas.table import Table
    from ..schemas.warehouse import Warehouse

FLUSH_BYTES = 12 << 20
"""Estimated size of buffered rows at which they are written to files aside, beside the reading of what follows."""
MOST_GROWING = 64
"""Files that grow at the same time: each keeps a file descriptor, of which a process often has 256 or 1,024."""
REJECT_TEXT = 200
"""Characters of a rejected record that are kept."""
REJECTS_BUFFERED = 10_000
RECORD_FILES = 32
"""Commit records of one day and deployment at which they are put together in one file."""

TABLES = {table.name: table for table in RAW_TABLES}
SCHEMAS: dict[str, dict[str, pl.DataType]] = {
    name: dict(pl.DataFrame(table.arrow_schema().empty_table()).schema) for name, table in TABLES.items()
}
"""Polars types of the columns inside the files of each raw table."""
_ORDER = {
    "requests": ("instance", "finished_at", "arrived_at"),
    "snapshots": ("instance", "engine", "model_name", "scraped_at"),
    "other_samples": ("instance", "metric", "labels", "scraped_at"),
    "iterations": ("instance", "process", "engine", "logged_at", "iteration"),
    "log_stats": ("instance", "process", "engine", "logged_at"),
    "events": ("instance", "logged_at"),
}
"""Order of rows inside a file: what belongs together lies together, which compresses and prunes well."""


_Target = tuple[str, dt.date, str, str]
"""The table and partition of a file, and what its name begins with."""


@dataclass
class _Growing:
    """A file to which rows are still added, one part after the other."""

    file: StagedFile
    keys: PartitionKeys
    last: Future[None] | None = None
    """The part that is written last; it knows of every failure before it."""

    def add(self, part: Callable[[], pa.Table], writer: Executor) -> None:
        """Have a part written by and by."""
        self.last = writer.submit(self._write, self.last, part)

    def _write(self, before: Future[None] | None, part: Callable[[], pa.Table]) -> None:
        if before is not None:
            before.result()
        self.file.add(part())

    def failure(self) -> BaseException | None:
        """Wait for what is being written, and tell whether it failed."""
        return self.last.exception() if self.last is not None else None


@dataclass
class Tally:
    """One input of a batch, and what became of its records."""

    context: InputContext
    format: str
    rows: int = 0
    rejects: int = 0
    duplicates: int = 0
    table_rows: Counter[str] = field(default_factory=Counter)
    first_reject: str | None = None
    answered: int = 0
    """Requests that went well."""
    counted: int = 0
    """Those of them that say how many tokens they returned."""
    before: frozenset[Pass] = frozenset()
    """The passes that read what the input begins with."""

    @property
    def records(self) -> int:
        return self.rows + self.rejects


class Batch:
    """Inputs that are committed together."""

    def __init__(self, warehouse: Warehouse, notes: dict[str, None], now: dt.datetime) -> None:
        self._warehouse = warehouse
        self._notes = notes
        self._now = now
        self.tallies: list[Tally] = []
        self._finished: dict[int, Known] = {}
        self._buffers: dict[str, list[pl.DataFrame]] = {}
        self._buffered = 0
        self._rejects: list[tuple[int | None, str, str, str, int]] = []
        self._partitions: dict[tuple[str, dt.date, str], PartitionKeys] = {}
        self._publication = Publication()
        self._targets: list[_Target] = []
        self._growing: dict[_Target, _Growing] = {}
        self._writer = ThreadPoolExecutor(2, "write")
        self.written: Counter[tuple[dt.date, str]] = Counter()
        """Rows by date and deployment."""

    def open(self, context: InputContext, format_name: str, before: frozenset[Pass] = frozenset()) -> int:
        """The number of a new input of the batch."""
        self.tallies.append(Tally(context, format_name, before=before))
        return len(self.tallies) - 1

    @property
    def deployments(self) -> set[str]:
        """The deployments that the batch wrote rows of."""
        return {deployment for _, _, deployment, _ in self._targets}

    def discard(self) -> None:
        """Give up: remove what was written aside."""
        self._writer.shutdown(cancel_futures=True)
        for growing in self._growing.values():
            growing.file.discard()
        for path, _ in self._publication.files:
            path.unlink(missing_ok=True)
        self._publication, self._targets, self._growing = Publication(), [], {}

    def finish(self, number: int, known: Known) -> None:
        """Record how far the input was read; an input that is not finished leaves no commit record."""
        self._finished[number] = known

    # --- what readers give ---------------------------------------------------------------------------------------

    def add(self, table: str, frame: pl.DataFrame, number: int | None = None) -> None:
        """Buffer rows of the input ``number``, or that have the column ``_input``.

        ValueError for what the declaration does not allow.
        """
        if frame.height == 0:
            return
        shaped = self._shape(TABLES[table], frame, number)
        self._buffers.setdefault(table, []).append(shaped)
        self._buffered += int(shaped.estimated_size())
        if self._buffered >= FLUSH_BYTES:
            self.flush()

    def reject(self, number: int, byte_offset: int | None, reason: str, text: str | bytes, records: int) -> None:
        """Count and keep a record that could not be read."""
        tally = self.tallies[number]
        tally.rejects += records
        tally.first_reject = tally.first_reject or reason
        if isinstance(text, bytes):
            text = text[: 4 * REJECT_TEXT].decode("utf-8", "replace")
        self._rejects.append((byte_offset, tally.format, reason, text[:REJECT_TEXT].replace("\0", "\ufffd"), number))
        if len(self._rejects) >= REJECTS_BUFFERED:
            self._add_rejects()

    def _possible(self, table: Table, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows without those that no server can have given, which become rejects."""
        wrong = impossible(table, rows)
        if wrong is None:
            return rows
        refused = rows.select("_input", "byte_offset", wrong.alias("wrong")).filter(pl.col("wrong").is_not_null())
        for number, byte_offset, what in refused.iter_rows():
            self.tallies[number].rows -= 1
            self.reject(number, byte_offset, refusal(what), "", 1)
        return rows.filter(wrong.is_null())

    def _count_answers(self, requests: pl.DataFrame) -> None:
        for number, answered, counted in answers(requests):
            self.tallies[number].answered += answered
            self.tallies[number].counted += counted

    def _add_rejects(self) -> None:
        schema = {name: SCHEMAS["rejects"][name] for name in ("byte_offset", "format", "reason", "text")}
        rejects, self._rejects = self._rejects, []
        self.add("rejects", pl.DataFrame(rejects, schema=schema | {"_input": pl.UInt32()}, orient="row"))

    def note(self, message: str) -> None:
        """Keep a message once."""
        self._notes.setdefault(message)

    def _shape(self, table: Table, frame: pl.DataFrame, number: int | None) -> pl.DataFrame:
        """The frame with exactly the declared columns, and ``_input``, ``_deployment`` and ``_date``."""
        schema = SCHEMAS[table.name]
        strange = set(frame.columns) - set(schema) - {"_input", "deployment", "date"}
        if strange:
            raise ValueError(f"{table.name} has no column {', '.join(sorted(strange))}")
        tallies = self.tallies if number is None else [self.tallies[number]]
        contexts = [tally.context for tally in tallies]
        inputs = constant("_input", number, pl.UInt32(), frame.height) if number is not None else frame["_input"]
        # Series by series: a query plan for each of the many small frames would take longer than the work itself.
        given = {column.name: column for column in frame.get_columns()}
        if "deployment" in given:
            given["_deployment"] = given["deployment"].alias("_deployment")
        shaped = {
            name: given[name].cast(kind) if name in given else constant(name, None, kind, frame.height)
            for name, kind in {**schema, "_deployment": pl.String()}.items()
        }
        for name, values in (
            ("source", [context.source for context in contexts]),
            ("instance", [context.instance for context in contexts]),
            ("_deployment", [context.deployment for context in contexts]),
        ):
            shaped[name] = filled(shaped[name], inputs, values)
        for column in table.stored_columns:
            if not column.nullable and shaped[column.name].null_count():
                raise ValueError(f"{table.name}.{column.name} may not be null")
        day = constant("_date", None, pl.Date(), frame.height)
        for name in table.moment:
            day = day.zip_with(day.is_not_null(), shaped[name].cast(pl.Date))
        days = [(context.named_at or context.modified_at).date() for context in contexts]
        return pl.DataFrame([*shaped.values(), inputs.cast(pl.UInt32), filled(day, inputs, days)])

    # --- writing -------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Have all buffered rows that are new written to files aside, once what was before them is."""
        self._wait()
        buffers, self._buffers, self._buffered = self._buffers, {}, 0
        rejected = buffers.pop("rejects", [])
        for name, frames in buffers.items():
            rows = self._possible(TABLES[name], pl.concat(frames, how="vertical"))
            frames.clear()
            if name == "requests":
                self._count_answers(rows)
            self._write(name, rows)
        if self._rejects:
            self._add_rejects()
        rejected += self._buffers.pop("rejects", [])
        self._buffered = 0
        if rejected:
            self._write("rejects", pl.concat(rejected, how="vertical"))

    def _write(self, name: str, rows: pl.DataFrame) -> None:
        """Write those of the rows that are new."""
        if rows.height:
            for part in partitions(rows):
                day, deployment = part["_date"][0], part["_deployment"][0]
                self._stage(TABLES[name], day, deployment, part.drop("_date", "_deployment"))

    def _stage(self, table: Table, day: dt.date, deployment: str, rows: pl.DataFrame) -> None:
        keys = self._keys(table, day, deployment)
        if "ingested_at" in rows.columns:
            rows = rows.with_columns(ingested_at=pl.lit(self._now, pl.Datetime("us")))
        own = {number: tally.before | {(tally.context.source, self._now)} for number, tally in enumerate(self.tallies)}
        new = keys.new_rows(rows, own)
        for number, count in rows["_input"].value_counts().iter_rows():
            self.tallies[number].duplicates += count
        for number, count in new["_input"].value_counts().iter_rows():
            self.tallies[number].duplicates -= count
            self.tallies[number].table_rows[table.name] += count
        if new.is_empty():
            return
        # The name tells readers whether rows must be put together: requests of several formats, parts of snapshots.
        prefix = PARTS if keys.in_parts else ""
        if table.name == "requests":
            prefix = "+".join(sorted(new["format"].unique().to_list())) + "-"
        target = (table.name, day, deployment, prefix)
        growing = self._growing.get(target)
        if growing is None:
            if len(self._growing) >= MOST_GROWING:
                self._end(next(iter(self._growing)))
            growing = self._growing[target] = _Growing(self._warehouse.staged(table), keys)
        rows = new.drop("_input")
        growing.add(lambda: _sorted(table, rows).to_arrow(), self._writer)
        self.written[day, deployment] += new.height

    def _wait(self) -> None:
        """Wait for what is being written; the error of the first file that cannot be, once all are known."""
        failed = [error for growing in self._growing.values() if (error := growing.failure())]
        if failed:
            raise failed[0]

    def _close(self, keys: PartitionKeys | None = None) -> None:
        """End the files of a partition, or all, so that they can be read."""
        ended = [target for target, growing in self._growing.items() if keys is None or growing.keys is keys]
        for target in ended:
            self._end(target)

    def _end(self, target: _Target) -> None:
        """End a file, once what it was given is written; the error of what could not be."""
        growing = self._growing[target]
        if error := growing.failure():
            raise error
        growing.file.close()
        del self._growing[target]
        growing.keys.staged(growing.file.path)
        self._targets.append(target)
        self._publication.files.append((growing.file.path, growing.file.path))

    def _keys(self, table: Table, day: dt.date, deployment: str) -> PartitionKeys:
        place = (table.name, day, deployment)
        if place not in self._partitions:
            paths = [file.path for file in self._warehouse.files(table, date=day, deployment=deployment)]
            keys = self._partitions[place] = PartitionKeys.of(table, SCHEMAS[table.name], paths)
            keys.before_reading = lambda: self._close(keys)
        return self._partitions[place]

    def commit(self) -> None:
        """Write and publish everything."""
        self.flush()
        self._close()
        self._writer.shutdown()
        if not self._finished:
            return
        batch = self._name()
        self._publication.files = [
            (path, self._warehouse.partition(TABLES[table], day, deployment) / f"{prefix}{batch}-{number:03d}.parquet")
            for number, ((path, _), (table, day, deployment, prefix)) in enumerate(
                zip(self._publication.files, self._targets, strict=True)
            )
        ]
        deployment = self.tallies[0].context.deployment
        records = self._records()
        earlier = self._warehouse.files(INGESTED_FILES, date=self._now.date(), deployment=deployment)
        if len(earlier) >= RECORD_FILES:
            # Every ingest reads all of these, so a server that is ingested every minute must not leave one a minute.
            self._publication.obsolete = [file.path for file in earlier]
            kept = pl.read_parquet(self._publication.obsolete, hive_partitioning=False).cast(records.schema)
            records = pl.concat([kept, records])
        target = self._warehouse.partition(INGESTED_FILES, self._now.date(), deployment) / f"{batch}.parquet"
        self._publication.commit = (self._warehouse.stage(INGESTED_FILES, records.to_arrow()), target)
        publish(self._warehouse, batch, self._publication)

    def _name(self) -> str:
        """A name that the same inputs, read from the same places on, always get."""
        state = digest()
        for number, known in sorted(self._finished.items()):
            context = self.tallies[number].context
            facts = (context.deployment, context.instance, context.offset, known.content_hash, known.bytes, known.seen)
            state.update(repr((*facts, known.source)).encode("utf-8", "surrogateescape"))
        return hexdigest(state)[:20]

    def _records(self) -> pl.DataFrame:
        inputs = [(self.tallies[number], known) for number, known in sorted(self._finished.items())]
        columns = {
            "instance": [tally.context.instance for tally, _ in inputs],
            "source": [known.source for _, known in inputs],
            "format": [tally.format for tally, _ in inputs],
            "bytes": [known.bytes for _, known in inputs],
            "head_hash": [known.head_hash for _, known in inputs],
            "content_hash": [known.content_hash for _, known in inputs],
            "records": [tally.records for tally, _ in inputs],
            "rows": [tally.rows for tally, _ in inputs],
            "rejects": [tally.rejects for tally, _ in inputs],
            "duplicates": [tally.duplicates for tally, _ in inputs],
            "table_rows": maps([tally.table_rows for tally, _ in inputs]),
            "resume": [pack_resume(known) for _, known in inputs],
            "ingested_at": [self._now] * len(inputs),
            "tool_version": [__version__] * len(inputs),
        }
        return pl.DataFrame(columns, schema=SCHEMAS["ingested_files"])


def _sorted(table: Table, rows: pl.DataFrame) -> pl.DataFrame:
    order = [name for name in _ORDER.get(table.name, ("instance", "byte_offset")) if name in rows.columns]
    return rows if in_order(rows, order) else rows.sort(order, maintain_order=True)
