"""Where each table lies in a warehouse, how a file is published, and how DuckDB sees it all.

Layout: ``<root>/<table>/date=YYYY-MM-DD/deployment=<name, percent-encoded>/<file>.parquet``. A data file is written
aside under ``<root>/_tmp`` and published by one rename, so a reader never sees half a file.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import itertools
import logging
import os
import re
import urllib.parse
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from . import RAW_TABLES, TABLES, layout
from .errors import EmptyWarehouse, UsageError, WarehouseError
from .raw import DEPLOYMENTS, REQUESTS, SNAPSHOTS
from .staged import StagedFile
from .table import Table, literal, quote
from .views import PARTS, current_deployments, merged_requests, merged_snapshots

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

logger = logging.getLogger(__name__)

DATABASE = "specledger.duckdb"
VIEWS = f"_state/{DATABASE}.json"
"""What the views of the database say, as a hash, and the folders that they name."""
ON_DEMAND: dict[Path, list[Callable[[Iterable[Path]], None]]] = {}
"""What gives files their content before they are read, by the root of the warehouse that is held elsewhere."""
READ = "_read"
"""The folder of what readers see; see ``published``."""
_PARQUET = re.compile(r"""['"](/[^'"\n]*\.parquet)['"]""")


@dataclass(frozen=True)
class DataFile:
    """One Parquet file of a table."""

    table: str
    date: dt.date
    deployment: str
    path: Path
    size: int


@cache
def encode(value: str) -> str:
    """A partition value as one safe path segment."""
    return urllib.parse.quote(value, safe="") or "%00"


def decode(segment: str) -> str:
    """The partition value of a path segment."""
    return "" if segment == "%00" else urllib.parse.unquote(segment)


class Warehouse:
    """A directory of hive-partitioned Parquet tables."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)

    def require(self) -> Warehouse:
        """This warehouse, if something was ingested into it; EmptyWarehouse otherwise.

        Raises WarehouseTooNew if a newer specledger wrote it.
        """
        layout.check(self.root)
        if not any((self.root / name).is_dir() for name in TABLES):
            raise EmptyWarehouse(f"The warehouse {self.root} is empty: ingest something into it first.")
        return self

    def mark(self) -> None:
        """Say which layout a warehouse has that is about to be written; WarehouseError if it is not the present one."""
        layout.check(self.root, writing=True)
        if not (self.root / layout.FILE).exists():
            aside = self.aside(".json")
            aside.write_text(layout.content(), encoding="utf-8")
            self.publish(aside, self.root / layout.FILE)

    def partition(self, table: Table, date: dt.date, deployment: str) -> Path:
        """The folder of one partition of one table."""
        return self.root / table.name / f"date={date.isoformat()}" / f"deployment={encode(deployment)}"

    def files(self, table: Table, *, date: dt.date | None = None, deployment: str | None = None) -> list[DataFile]:
        """The published files of a table, by path; restricted to one date or deployment if given."""
        found = []
        for day, own, folder, name in self._listed(table, date, deployment):
            path = Path(folder, name)
            with contextlib.suppress(FileNotFoundError):  # housekeeping may have removed it since
                found.append(DataFile(table.name, *_place(day, own), path, path.stat().st_size))
        return found

    def paths(self, table: Table, partitions: Iterable[tuple[dt.date, str]]) -> Iterator[str]:
        """The paths of the published files of some dates and deployments, which may be thousands, in their order."""
        for date, deployment in partitions:
            if within := self.day(table, f"date={date}"):
                folder = f"{within}/deployment={encode(deployment)}"
                yield from (f"{folder}/{name}" for name in inside(folder, "", ".parquet"))

    def count(self, table: Table, date: dt.date) -> int:
        """How many published files a table has of a date; the files themselves are not looked at."""
        return sum(1 for _ in self._listed(table, date, None))

    def partitions(self, tables: Iterable[Table]) -> set[tuple[dt.date, str]]:
        """The dates and deployments of which one of the tables has a published file."""
        found: set[tuple[str, str]] = set()
        for table in tables:
            for day, within in self.days(table):
                for own in inside(within, "deployment="):
                    if (day, own) not in found and inside(f"{within}/{own}", "", ".parquet"):
                        found.add((day, own))
        return {_place(day, own) for day, own in found}

    def days(self, table: Table) -> Iterator[tuple[str, str]]:
        """The name (``date=…``) and the path of the folder of each date of a table, by date."""
        # Paths are texts until a file is found: a year of nights has thousands of folders.
        top = os.path.join(self.root, table.name)  # noqa: PTH118
        for day in inside(top, "date="):
            yield day, f"{top}/{day}"

    def day(self, table: Table, day: str) -> str | None:
        """The path of the folder of one date, which need not be there."""
        return f"{os.path.join(self.root, table.name)}/{day}"  # noqa: PTH118

    def globs(self, table: Table) -> list[str]:
        """Patterns of the paths of all files of a table that has some."""
        return [str((self.root / table.name).resolve() / "*" / "*" / "*.parquet")]

    def _days(self, table: Table, date: dt.date | None) -> Iterable[tuple[str, str]]:
        if date is None:
            return self.days(table)
        day = f"date={date.isoformat()}"
        folder = self.day(table, day)
        return [(day, folder)] if folder else []

    def _listed(
        self, table: Table, date: dt.date | None, deployment: str | None
    ) -> Iterator[tuple[str, str, str, str]]:
        """``date=…``, ``deployment=…``, the path of that folder, and the name of a file in it."""
        for day, within in self._days(table, date):
            for own in inside(within, "deployment=") if deployment is None else [f"deployment={encode(deployment)}"]:
                folder = f"{within}/{own}"
                for name in inside(folder, "", ".parquet"):
                    yield day, own, folder, name

    def write(self, table: Table, date: dt.date, deployment: str, name: str, rows: pa.Table, **metadata: str) -> Path:
        """Publish rows as ``<partition>/<name>.parquet`` in one step, replacing a file of that name.

        ``rows`` must have the Arrow schema of the table; ``metadata`` goes into the file's footer.
        """
        target = self.partition(table, date, deployment) / f"{name}.parquet"
        try:
            self.publish(self.stage(table, rows, **metadata), target)
        except OSError as error:
            raise WarehouseError(f"Cannot write {target}: {error.strerror or error}; nothing was published.") from error
        return target

    def stage(self, table: Table, rows: pa.Table, suffix: str = ".parquet", **metadata: str) -> Path:
        """Write rows to a file that no reader looks at, to be published later; the arguments are those of ``write``.

        Raises WarehouseError, and leaves nothing, where that cannot be done.
        """
        staged = self.staged(table, suffix, **metadata)
        staged.add(rows)
        staged.close()
        return staged.path

    def staged(self, table: Table, suffix: str = ".parquet", **metadata: str) -> StagedFile:
        """A file that no reader looks at, to which rows are added, to be published later; WarehouseError if that cannot
        be begun.
        """
        try:
            self.declare(table)
            return StagedFile(table, self.aside(suffix), self.root, **metadata)
        except OSError as error:
            raise WarehouseError(
                f"Cannot write {table.name} into {self.root}: {error.strerror or error}; mend that, then run the same "
                "again."
            ) from error

    def declare(self, table: Table) -> None:
        """See to it that there is a file of the table's declared schema, which ``scan`` reads along."""
        import pyarrow.parquet as pq

        target = declared(self.root, table)
        if not target.exists():
            aside = self.aside()
            pq.write_table(table.arrow_schema().empty_table(), aside)
            self.publish(aside, target)

    def aside(self, suffix: str = ".parquet") -> Path:
        """A fresh path under the warehouse, on the same file system, that no reader looks at."""
        folder = self.root / "_tmp"
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise WarehouseError(f"The warehouse {self.root} cannot be written: {error.strerror or error}.") from error
        return folder / f"{uuid.uuid4().hex}{suffix}"

    @contextlib.contextmanager
    def draft(self, suffix: str) -> Iterator[Path]:
        """The path of a file aside; unless that is published, nothing of it is left after the block."""
        path = self.aside(suffix)
        try:
            yield path
        finally:
            for left in path.parent.glob(f"{path.name}*"):  # DuckDB keeps a log beside its file
                left.unlink(missing_ok=True)

    def publish(self, aside: Path, target: Path) -> None:
        """Move a finished file to its place in one atomic step."""
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        aside.replace(target)

    def keep_copy(self, rows: pa.Table, target: Path) -> None:
        """Publish what is known from other files as well; where that cannot be done, the next run tries again."""
        import pyarrow.parquet as pq

        aside = self.aside()
        try:
            pq.write_table(rows, aside, compression="zstd", store_schema=False)
            self.publish(aside, target)
        except OSError as error:
            aside.unlink(missing_ok=True)
            logger.debug("%s cannot be written (%s): the next run tries again", target, error)

    def connect(
        self, names: Iterable[str] = tuple(TABLES), dates: Collection[dt.date] | None = None
    ) -> duckdb.DuckDBPyConnection:
        """A DuckDB connection in memory with views of all declared tables, or of those named.

        Empty tables are empty views. Each view costs a look at the footers of all files of its table; ``dates`` restricts
        the views to the files of these, but for ``deployments``, which holds for every date.
        """
        connection = reading()
        for table in (TABLES[name] for name in names):
            every = table is DEPLOYMENTS or dates is None
            select = self.select(table) if every else self.select_dates(table, dates or ())
            connection.execute(f"CREATE OR REPLACE VIEW {quote(table.name)} AS {select}")
        return connection

    def select_dates(self, table: Table, dates: Collection[dt.date]) -> str:
        """A SELECT over the files that a table has of these dates; see ``scan``."""
        paths = [str(file.path.resolve()) for date in sorted(dates) for file in self.files(table, date=date)]
        return scan(table, paths) if paths else table.empty_select()

    def select(self, table: Table) -> str:
        """A SELECT over all files of a table with exactly the declared columns; see ``scan``."""
        listed = ((folder, name) for _, _, folder, name in self._listed(table, None, None))
        # One file tells that there are any; names and content of all are asked for only where something depends on them.
        files = list(listed if table in (REQUESTS, SNAPSHOTS) or ON_DEMAND else itertools.islice(listed, 1))
        if not files:
            return table.empty_select()
        bring(self.root, (Path(folder, name) for folder, name in files))
        return scan(table, self.globs(table), merge=to_merge(table, (name for _, name in files)))


def _place(day: str, own: str) -> tuple[dt.date, str]:
    """The date and the deployment of ``date=…/deployment=…``."""
    return dt.date.fromisoformat(day.removeprefix("date=")), decode(own.partition("=")[2])


def damaged(path: str | os.PathLike[str], reason: str) -> str:
    """What to say of a Parquet file of a warehouse that cannot be read, and what helps."""
    if "*" in Path(path).name and _is_link(Path(path)):
        root = root_of(Path(path))
        return f"{root / READ} has lost files ({reason}): remove that folder, then run specledger transform."
    path = kept_as(Path(path))
    folders = set(path.parts)
    if folders.intersection(TABLES) and folders.isdisjoint(table.name for table in RAW_TABLES):
        helps = "remove it, then run specledger transform --force"
    else:
        helps = "restore it from a backup, or remove it and the folder ingested_files, then ingest the inputs again"
    return f"{path} is damaged ({reason.rstrip('.')}): {helps}."


def damage_in(error: Exception, root: Path | None = None) -> str | None:
    """What to say of an error of DuckDB that names a Parquet file, one of the warehouse at ``root`` if that is given."""
    found = _PARQUET.search(str(error))
    if found is None or (root is not None and not _is_of(Path(found[1]), root)):
        return None
    return damaged(found[1], str(error).splitlines()[0].partition(found[0])[0].strip() or "it cannot be read")


def _is_of(path: Path, root: Path) -> bool:
    return path.is_relative_to(root.resolve()) and path.is_file()


@contextlib.contextmanager
def damage_told(path: Path, *kinds: type[Exception]) -> Iterator[None]:
    """Turn errors of these kinds, which say that a file of a warehouse is damaged, into a WarehouseError that names it."""
    try:
        yield
    except kinds as error:
        raise WarehouseError(damaged(path, str(error).splitlines()[0])) from error


def rows_of(path: Path, schema: pa.Schema) -> pa.Table:
    """The rows of one file with exactly these columns, null where an older specledger did not write one.

    WarehouseError where it is damaged.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with damage_told(path, pa.ArrowInvalid):
        rows = pq.read_table(path, partitioning=None)
    columns = [
        rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def reading() -> duckdb.DuckDBPyConnection:
    """A DuckDB connection in memory that reads the footer of a file once."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET parquet_metadata_cache = true")
    return connection


def scan(table: Table, paths: list[str], *, merge: bool | None = None) -> str:
    """A SELECT over Parquet files of one warehouse with exactly the declared columns of their table.

    Rows of ``deployments`` come with their current labels; ``requests`` that several formats report and ``snapshots``
    that came in parts are merged. ``merge`` says whether there may be such, which the names of the files tell otherwise
    (see ``views``).

    An empty file of the declared schema is read along, so that a column that all the others lack is null. A UNION with
    an empty SELECT would do as well, but DuckDB then reads whole structs where a query needs one field of them.
    """
    root = root_of(Path(paths[0]))
    empty = declared(root, table)
    bring(root, (path for path in (empty, *map(Path, paths)) if "*" not in path.name))
    known = [str(empty)] if empty.exists() else []
    # Where all files have these columns, only the footers of those are read that a question needs.
    alike = f"/{schema_version(table)}/{table.name}/"
    by_name = "" if known and all(alike in path for path in paths) else ", union_by_name = true"
    columns = ", ".join(
        f"CAST({quote(column.name)} AS HUGEINT) AS {quote(column.name)}"
        if column.type == "HUGEINT"
        else quote(column.name)
        for column in table.columns
    )
    rows = (
        f"read_parquet([{', '.join(map(literal, known + paths))}], "
        f"hive_partitioning = true, hive_types = {{'date': DATE, 'deployment': VARCHAR}}{by_name})"
    )
    if not known:
        rows = f"({table.empty_select()} UNION ALL BY NAME FROM {rows})"
    select = f"SELECT {columns} FROM {rows}"
    if table.name == "deployments":
        return current_deployments(select)
    if to_merge(table, (Path(path).name for path in paths)) if merge is None else merge:
        return merged_requests(select) if table.name == "requests" else merged_snapshots(select)
    return select


def bring(root: Path, paths: Iterable[Path]) -> None:
    """See to it that files can be read."""
    if ON_DEMAND and (givers := ON_DEMAND.get(root.resolve())):
        givers[-1](paths)


def to_merge(table: Table, names: Iterable[str]) -> bool:
    """Whether several rows of these files may be one: requests of several formats, scrapes in parts."""
    if table.name == "snapshots":
        return any(name.startswith(PARTS) for name in names)
    return table.name == "requests" and _several_formats(names)


def _several_formats(names: Iterable[str]) -> bool:
    """Whether files of requests, named ``<format>[+<format>…]-<batch>…``, hold more than one format."""
    formats: set[str] = set()
    for name in names:
        formats.update(name.partition("-")[0].split("+"))
    return len(formats) > 1


def declared(root: Path, table: Table) -> Path:
    """The empty file of a table's declared schema; a schema that changes gets another one."""
    return root / "_schema" / table.name / "date=1970-01-01" / "deployment=none" / f"{schema_version(table)}.parquet"


@cache
def schema_version(table: Table) -> str:
    """A name for the columns that a table is declared to have."""
    return hashlib.sha256(table.ddl().encode()).hexdigest()[:16]


def root_of(path: Path) -> Path:
    """The warehouse that a file of a table, or a pattern of such files, belongs to; a link that readers follow as well."""
    above = path.parents
    return above[6] if _is_link(path) else above[3]


def kept_as(path: Path) -> Path:
    """The path under which a writer keeps the file that readers follow a link to."""
    above = path.parents
    return above[6] / path.relative_to(above[3]) if _is_link(path) else path


def _is_link(path: Path) -> bool:
    above = path.parents
    return len(above) > 6 and above[5].name == READ


def is_text(value: str) -> bool:
    """Whether a text from the command line was valid UTF-8 there, and so can be stored."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


LONGEST_FOLDER = 255
"""Bytes of a file name that every common file system takes."""
LONGEST_NAME = 200
_MEANS_NULL = "__HIVE_DEFAULT_PARTITION__"
"""The value under which hive partitioning keeps rows that have none."""


def check_deployment(name: str) -> str:
    """The deployment name if it can be used; UsageError otherwise."""
    shown = repr(name[:60])
    if not is_text(name):
        raise UsageError(f"The deployment name {shown} cannot be used: it is no valid UTF-8.")
    if not name or len(name) > LONGEST_NAME or any(ord(character) < 32 for character in name):
        raise UsageError(f"The deployment name {shown} cannot be used: give 1 to {LONGEST_NAME} printable characters.")
    folder = f"deployment={encode(name)}"
    if len(folder) > LONGEST_FOLDER:
        raise UsageError(
            f"The deployment name {shown} is too long: its folder's name would have {len(folder)} bytes and may have "
            f"{LONGEST_FOLDER}; every byte that is no ASCII letter or digit takes three."
        )
    if name == _MEANS_NULL:
        raise UsageError(f"The deployment name {shown} cannot be used: in a partitioned table it means no value.")
    return name


def inside(folder: str, prefix: str, suffix: str = "") -> list[str]:
    """The names of what a folder holds, in order; a folder that may not be read is an error, not an empty one."""
    try:
        names = os.listdir(folder)  # noqa: PTH208
    except (FileNotFoundError, NotADirectoryError):
        return []
    except PermissionError as error:
        raise WarehouseError(f"{folder} may not be read: ask its owner for access, or run as that user.") from error
    return sorted(name for name in names if name.startswith(prefix) and name.endswith(suffix))
