"""What readers see: hard links to the files of a warehouse, in folders that never lose a file.

DuckDB opens a file more than once while it answers, each time by its name. Were files replaced or removed under their
names, a question that is being answered would meet another file or none. So writers work on ``<root>/<table>/…`` as they
like, and when they have done, link what is there now into a folder of its own and say so in ``_read/state.json``, in one
step. Whoever reads follows that file, or the views of ``specledger.duckdb``, which name the same folders. What they name
stays for a day after it was followed by something newer, and what those views name for as long as they do.

Layout: ``<root>/_read/<month>.<run>/<schema>/<table>/date=…/deployment=…/<file>.parquet``, where ``schema`` tells files
that have exactly the declared columns from others.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from . import CELL_TABLES, MART_TABLES, RAW_TABLES
from .errors import SpecledgerError, WarehouseError, WarehouseLocked
from .lock import FULL, exclusive
from .table import Table
from .warehouse import READ, VIEWS, Warehouse, declared, inside, schema_version
from .working_copy import OPEN

logger = logging.getLogger(__name__)

WRITERS = {"ingest": RAW_TABLES, "transform": (*CELL_TABLES, *MART_TABLES)}
"""The locks under which tables are written."""
GRACE_S = 86_400.0
"""How long what was followed by something newer stays for those who are still reading it."""
FORMAT = 2
STATE = "state.json"
BEGUN = ".begun"
"""Ending of the file that is there while readers do not see yet what a run writes."""
UNLIKE = "other"
"""Where files lie that have not exactly the declared columns: an older specledger wrote them."""
_NO_LINKS = (errno.EPERM, errno.EXDEV, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)
_Files = dict[tuple[str, str], int]
"""The inode of each file of a date, by the name of its deployment's folder and its own."""


class Links(NamedTuple):
    """Where the links of one table's date are."""

    run: str
    schema: str

    def folder(self, table: str) -> str:
        """Where the links of all dates of the same run and table are, below ``_read``."""
        return f"{self.run}/{self.schema}/{table}"


@dataclass
class State:
    """What ``_read/state.json`` says."""

    tables: dict[str, dict[str, Links]] = field(default_factory=dict)
    """By table and ``date=…``."""
    followed: dict[str, float] = field(default_factory=dict)
    """Folders of which no date is read any more, and since when (seconds since 1970)."""

    def text(self) -> str:
        """As JSON."""
        return json.dumps({"format": FORMAT, "tables": self.tables, "followed": self.followed})

    def folders(self) -> set[str]:
        """The folders below ``_read`` where the links of all tables are."""
        return {links.folder(name) for name, days in self.tables.items() for links in days.values()}

    def runs(self) -> set[str]:
        """All that are named."""
        named = {links.run for days in self.tables.values() for links in days.values()}
        return named | {folder.partition("/")[0] for folder in self.followed}


def state_of(root: Path) -> State | None:
    """What readers of a warehouse follow; None where they read its files as they are."""
    path = root / READ / STATE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["format"] != FORMAT:
            return None
        tables = {
            str(table): {str(day): Links(*map(str, links)) for day, links in days.items()}
            for table, days in found["tables"].items()
        }
        return State(tables, {str(name): float(since) for name, since in found["followed"].items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None  # the files are there as well, and the next run writes it anew


class Published(Warehouse):
    """A warehouse as its readers see it, in the state that it had when this was made."""

    def __init__(self, root: Path, state: State) -> None:
        super().__init__(root)
        self._state = state

    def days(self, table: Table) -> Iterator[tuple[str, str]]:
        """As of every warehouse, but where the links are."""
        for day, links in sorted(self._state.tables.get(table.name, {}).items()):
            yield day, os.path.join(self.root, READ, links.folder(table.name), day)  # noqa: PTH118

    def day(self, table: Table, day: str) -> str | None:
        """As of every warehouse, but where the links are."""
        links = self._state.tables.get(table.name, {}).get(day)
        return links and os.path.join(self.root, READ, links.folder(table.name), day)  # noqa: PTH118

    def globs(self, table: Table) -> list[str]:
        """One for each folder of a month: of none of these does a reader see some dates and others not."""
        folders = dict.fromkeys(links.folder(table.name) for links in self._state.tables.get(table.name, {}).values())
        top = self.root.resolve() / READ
        return [f"{top}/{folder}/*/*/*.parquet" for folder in folders]

    def folders(self) -> list[str]:
        """The folders below ``_read`` that the patterns of all tables name."""
        return sorted(self._state.folders())


def published(root: str | os.PathLike[str]) -> Warehouse:
    """The warehouse as its readers see it: whatever runs do meanwhile, what they see stays as it is for a day."""
    state = None if Path(root).resolve() in OPEN else state_of(Path(root))
    if state is None or not all((Path(root) / READ / folder).is_dir() for folder in state.folders()):
        return Warehouse(root)
    return Published(Path(root), state)


@contextlib.contextmanager
def publishing(
    warehouse: Warehouse, tables: Collection[Table], work: str, then: Callable[[], None] = lambda: None
) -> Iterator[set[dt.date]]:
    """Let readers see at the end of the block, however it ends, what these tables hold of the dates put into the set.

    Of all dates where a run of the same work was ended before it had done so. Where there are any, ``then`` comes next.
    The lock of those who write the tables must be held.
    """
    if warehouse.root.resolve() in OPEN:
        yield set()
        return
    begun = warehouse.root / READ / f"{work}{BEGUN}"
    touched: set[dt.date] = set()
    days = None if begun.exists() else touched
    with _told(warehouse.root):
        begun.parent.mkdir(mode=0o700, exist_ok=True)
        begun.touch()
    try:
        yield touched
    except BaseException:
        with contextlib.suppress(SpecledgerError, OSError):  # what ended the work is told
            publish(warehouse, tables, days=days)
            begun.unlink(missing_ok=True)
        raise
    if days is None or touched:
        publish(warehouse, tables, days=days)
        then()
    begun.unlink(missing_ok=True)


def publish(
    warehouse: Warehouse,
    tables: Collection[Table],
    *,
    days: Collection[dt.date] | None = None,
    now: float | None = None,
) -> None:
    """Let readers see what these tables hold now; who calls it must hold the lock of those who write them.

    With ``days`` only these dates are looked at, unless readers see nothing yet or no longer. Where files cannot be
    linked, readers get the files themselves. Those of a working copy of an object store have published states of that.
    """
    root = warehouse.root.resolve()
    if root in OPEN:
        return
    now = time.time() if now is None else now
    wanted = None if days is None else {f"date={day}" for day in days}
    with exclusive(root, "read"), _told(root), contextlib.ExitStack() as at_end:
        state = state_of(root)
        if state is None:
            state, tables = State(), (*tables, *_others(root, tables, at_end))
        aside = warehouse.aside("-aside")
        at_end.callback(shutil.rmtree, aside, ignore_errors=True)
        try:
            changed = [_follow(warehouse, table, state, aside, wanted, now) for table in tables]
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            logger.debug("%s takes no hard links (%s): readers read the files themselves", root, error)
            shutil.rmtree(root / READ, ignore_errors=True)
            return
        if aside.exists():
            for made in sorted(aside.iterdir()):
                (root / READ).mkdir(mode=0o700, exist_ok=True)
                made.rename(root / READ / made.name)
        changed.append(_expire(root, state, now))
        if any(changed):
            with warehouse.draft(".json") as draft:
                draft.write_text(state.text(), encoding="utf-8")
                warehouse.publish(draft, root / READ / STATE)
        _sweep(root, state)


def _others(root: Path, tables: Collection[Table], locks: contextlib.ExitStack) -> Iterator[Table]:
    """Tables of other writers, which were lost to readers with the state; those who write just now show theirs then."""
    asked = {table.name for table in tables}
    for work, others in WRITERS.items():
        if asked.isdisjoint(table.name for table in others):
            with contextlib.suppress(WarehouseLocked):
                locks.enter_context(exclusive(root, work, wait_s=0))
                yield from others


@contextlib.contextmanager
def _told(root: Path) -> Iterator[None]:
    """Make one sentence of an error of the file system; a full disk is told by the lock."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise
        raise WarehouseError(
            f"Readers of {root} do not see yet what was written ({error.filename}: {error.strerror or error}): mend that, "
            "then run the same again."
        ) from error


def _follow(
    warehouse: Warehouse, table: Table, state: State, aside: Path, wanted: Collection[str] | None, now: float
) -> bool:
    """Link the dates of a table that have changed, of those wanted, and note what they were linked from.

    New files join those of their date, and a new date those of its month. With a date that lost a file its whole month
    moves to another folder, so that folders are followed as a whole: a reader that comes too late finds none of its dates,
    and never some. True if there was something to note.
    """
    read = warehouse.root / READ
    known = state.tables.get(table.name, {})
    held = {folder for folder in {links.folder(table.name) for links in known.values()} if (read / folder).is_dir()}
    same: dict[str, Links] = {}
    other: dict[str, Links] = {}
    for day, folder in Warehouse.days(warehouse, table):
        links = known.get(day)
        if links and links.folder(table.name) in held:
            if wanted is not None and day not in wanted:
                same[day] = links
                continue
            place = read / links.folder(table.name) / day
            if _joined(warehouse, table, folder, place, links.schema):
                same[day] = links
                continue
        run = _run(day, aside)
        if schema := _linked(warehouse, table, folder, aside / run):
            other[day] = Links(run, schema)
    moving = {_month(day) for day in known.keys() - same.keys()}
    runs = {_month(day): links.run for day, links in same.items()} if other else {}
    for day, links in other.items():
        if (month := _month(day)) in runs and month not in moving:
            other[day] = joined = links._replace(run=runs[month])
            target = read / joined.folder(table.name) / day
            if target.exists():  # a run was ended before it could say so
                other[day] = links
                moving.add(month)
            else:
                target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                (aside / links.folder(table.name) / day).rename(target)
    for day, links in (same | other).items() if moving else ():
        if _month(day) in moving and links.run != (run := _run(day, aside)):
            moved = links._replace(run=run)
            origin = f"{read}/{links.folder(table.name)}/{day}"
            _link(origin, _files(origin), aside / moved.folder(table.name) / day)
            other[day] = moved
    left = {links.folder(table.name) for day, links in known.items() if _month(day) in moving} if moving else set()
    state.followed |= dict.fromkeys(sorted(left & held), now)
    state.tables[table.name] = same | other
    if not state.tables[table.name]:
        del state.tables[table.name]
    return state.tables.get(table.name, {}) != known


def _month(day: str) -> str:
    return day[len("date=") :][: len("2026-11")]


def _run(day: str, aside: Path) -> str:
    """The folder of the dates of a month that are linked now."""
    return f"{_month(day)}.{aside.name.partition('-')[0]}"


def _joined(warehouse: Warehouse, table: Table, folder: str, place: Path, schema: str) -> bool:
    """Whether a date has all files that were linked; those that came since are linked beside them."""
    there, linked = _files(folder), _files(str(place))
    new = there.keys() - linked.keys()
    if not linked.items() <= there.items():
        return False
    if (
        new
        and schema != UNLIKE
        and _schema(warehouse, table, [f"{folder}/{own}/{name}" for own, name in new]) != schema
    ):
        return False
    _link(folder, sorted(new), place)
    return True


def _linked(warehouse: Warehouse, table: Table, folder: str, run: Path) -> str | None:
    """Link the files of a date; the schema under which they lie, if there are any."""
    files = _files(folder)
    if not files:
        return None
    schema = _schema(warehouse, table, [f"{folder}/{own}/{name}" for own, name in files])
    _link(folder, files, run / schema / table.name / Path(folder).name)
    return schema


def _link(folder: str, files: Iterable[tuple[str, str]], target: Path) -> None:
    made = set()
    for own, name in files:
        if own not in made:
            (target / own).mkdir(parents=True, exist_ok=True, mode=0o700)
            made.add(own)
        os.link(f"{folder}/{own}/{name}", f"{target}/{own}/{name}")


def _schema(warehouse: Warehouse, table: Table, paths: Iterable[str]) -> str:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with contextlib.suppress(OSError, pa.ArrowException):
        same = pq.read_metadata(declared(warehouse.root, table)).schema
        if all(pq.read_metadata(path).schema.equals(same) for path in paths):
            return schema_version(table)
    return UNLIKE


def _files(folder: str) -> _Files:
    found: _Files = {}
    for own in inside(folder, "deployment="):
        for name in inside(f"{folder}/{own}", "", ".parquet"):
            with contextlib.suppress(FileNotFoundError):
                found[own, name] = os.stat(f"{folder}/{own}/{name}").st_ino  # noqa: PTH116
    return found


def _expire(root: Path, state: State, now: float) -> bool:
    """Remove what was followed long ago, and the folders that are empty then; a clock set back waits no longer.

    True if there was any.
    """
    over = [folder for folder, since in state.followed.items() if not now - GRACE_S < since <= now + GRACE_S]
    named = _named_by_views(root) if over else ()
    for folder in over:
        if folder in named:
            state.followed[folder] = now
            continue
        del state.followed[folder]
        shutil.rmtree(root / READ / folder, ignore_errors=True)
        for above in list((root / READ / folder).parents)[:2]:
            with contextlib.suppress(OSError):
                above.rmdir()
    return bool(over)


def _named_by_views(root: Path) -> list[str]:
    """The folders that ``specledger.duckdb`` names, which is written anew more rarely than they are followed."""
    try:
        return [str(folder) for folder in json.loads((root / VIEWS).read_text(encoding="utf-8"))["folders"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _sweep(root: Path, state: State) -> None:
    """Remove what neither the state nor a view names: a run was ended before it could say so."""
    runs = state.runs() | {folder.partition("/")[0] for folder in _named_by_views(root)}
    for name in inside(str(root / READ), ""):
        if name not in runs and name != STATE and not name.endswith(BEGUN):
            shutil.rmtree(root / READ / name, ignore_errors=True)
