"""Keeps a warehouse small: small files are put together, and rows that have had their time are removed.

Every partition changes in one step, in which its folder is exchanged or moved away; readers see it before or after. A
run that is ended leaves at most a folder aside, which the next ingest removes.
"""

from __future__ import annotations

import datetime as dt
import logging
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..schemas import RAW_TABLES, TABLES
from ..schemas.config import Settings
from ..schemas.errors import WarehouseError
from ..schemas.exchange import CannotExchange, exchange
from ..schemas.lock import exclusive
from ..schemas.published import published, publishing
from ..schemas.table import Table
from ..schemas.warehouse import DataFile, Warehouse, rows_of
from ..transforms.database import publish_database
from ..transforms.partitions import INPUTS
from ..transforms.retire import files_changed, retire
from .config import Housekeeping

if TYPE_CHECKING:
    pass

logger = logging.getLogger(__name__)

SMALL_BYTES = 16 << 20
"""A file of this size costs as much to read as to find."""
TOGETHER_BYTES = 64 << 20
"""Compressed bytes put together at once, which must fit in memory as rows."""
ASIDE = "-aside"
"""Ending of the folders under ``_tmp`` that hold a partition before or after its change."""


def run(warehouse: Warehouse, work: Housekeeping, settings: Settings, today: dt.date | None = None) -> dict[str, int]:
    """Do what is configured; the numbers of files put together and of partitions removed."""
    done = {"compacted_files": 0, "removed_partitions": 0}
    if work.compact_files is None and not work.keep_days:
        return done

    def views() -> None:
        publish_database(published(warehouse.root), settings)

    try:
        with (
            exclusive(warehouse.root, "ingest"),
            exclusive(warehouse.root, "transform"),
            publishing(warehouse, list(TABLES.values()), "housekeeping", views) as seen,
        ):
            if work.keep_days:
                now = today or dt.datetime.now(dt.UTC).date()
                done["removed_partitions"] = remove_old(warehouse, work.keep_days, now, seen)
            if work.compact_files is not None:
                done["compacted_files"] = compact(warehouse, settings, work.compact_files, seen)
    except OSError as error:
        raise WarehouseError(
            f"Cannot tidy {warehouse.root}: {error.strerror or error}; the next run tries again."
        ) from error
    return done


def compact(warehouse: Warehouse, settings: Settings, least: int, seen: set[dt.date]) -> int:
    """Put together the small files of every raw partition that has at least that many; the number of files that went.

    The dates of these are added to ``seen``. What was computed from them counts as computed from what they became.
    """
    crowded = list(_crowded(warehouse, least))
    if not crowded:
        return 0
    went = 0
    with files_changed(warehouse, settings):
        for table, files in crowded:
            seen.add(files[0].date)
            try:
                went += _put_together(warehouse, table, files)
            except CannotExchange as error:
                logger.info(str(error))
                break
    return went


def _crowded(warehouse: Warehouse, least: int) -> Iterator[tuple[Table, list[DataFile]]]:
    """The small files of each crowded partition, at most TOGETHER_BYTES of them."""
    for table in RAW_TABLES:
        by_folder: dict[Path, list[DataFile]] = {}
        for file in warehouse.files(table):
            if file.size <= SMALL_BYTES:
                by_folder.setdefault(file.path.parent, []).append(file)
        for files in by_folder.values():
            if len(files) >= least:
                yield table, list(_first(files))


def _first(files: Sequence[DataFile]) -> Iterator[DataFile]:
    total = 0
    for file in sorted(files, key=lambda file: (file.size, file.path.name)):
        total += file.size
        if total > TOGETHER_BYTES:
            return
        yield file


def _put_together(warehouse: Warehouse, table: Table, files: Sequence[DataFile]) -> int:
    """Exchange the partition's folder for one in which one file holds the rows of these; the others are the same."""
    import pyarrow as pa

    if len(files) < 2:
        return 0
    place = files[0].path.parent
    schema = table.arrow_schema()
    parts = [rows_of(file.path, schema) for file in files]
    staged = warehouse.stage(table, pa.concat_tables(parts))
    newest = max(file.path.stat().st_mtime for file in files)
    os.utime(staged, (newest, newest))  # status tells late data by it
    aside = warehouse.aside(ASIDE)
    aside.mkdir(mode=0o700)
    staged.rename(aside / _name(files))
    for path in set(place.glob("*.parquet")) - {file.path for file in files}:
        (aside / path.name).hardlink_to(path)
    try:
        exchange(aside, place)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return len(files) - 1


def _name(files: Sequence[DataFile]) -> str:
    """``[<format>[+<format>…]-]<name of the first>``, marked; the formats tell readers what must be merged."""
    stems = [file.path.stem for file in files]
    formats = sorted(
        {kind for stem in stems if files[0].table == "requests" for kind in stem.partition("-")[0].split("+")}
    )
    first = min(stem.partition("-")[2] if formats else stem for stem in stems)
    return ("+".join(formats) + "-" if formats else "") + f"{first}-with-{len(files) - 1}.parquet"


def remove_old(warehouse: Warehouse, keep_days: Mapping[str, int], today: dt.date, seen: set[dt.date]) -> int:
    """Remove partitions that are older than their table keeps them; the number that went.

    Their dates are added to ``seen``. Days are counted back from today, or from the day after the newest rows if the
    clock is ahead of them.
    """
    dates = [file.date for name in INPUTS for file in warehouse.files(TABLES[name])]
    if not dates:
        return 0
    now = min(today, max(dates) + dt.timedelta(1))
    raw = [days for name, days in keep_days.items() if name in INPUTS]
    if raw:
        retire(warehouse, now - dt.timedelta(min(raw)))
    gone = 0
    for name, days in keep_days.items():
        last = now - dt.timedelta(days)
        folders = {(file.date, file.path.parent) for file in warehouse.files(TABLES[name]) if file.date <= last}
        for date, folder in sorted(folders):
            seen.add(date)
            aside = warehouse.aside(ASIDE)
            folder.rename(aside)
            shutil.rmtree(aside, ignore_errors=True)
            if not any(folder.parent.iterdir()):
                folder.parent.rmdir()
        gone += len(folders)
    return gone
