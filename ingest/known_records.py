"""The records of the inputs that a warehouse holds, read from few files however many ingests there were.

Every ingest leaves a file of records. Now and then they are copied together, so that a night opens at most MOST_APART
files and not one for each night before it. What the copy lacks is read from the files themselves, and what it holds of
files that are gone does not count.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from ..schemas.raw import INGESTED_FILES
from ..schemas.warehouse import encode
from .frames import stored

if TYPE_CHECKING:
    from ..schemas.warehouse import Warehouse

logger = logging.getLogger(__name__)

MOST_APART = 32
"""Files of records that are read one by one."""
SCHEMA = pl.Schema(
    {
        "instance": pl.String(),
        "source": pl.String(),
        "bytes": pl.Int64(),
        "head_hash": pl.String(),
        "content_hash": pl.String(),
        "resume": pl.String(),
        "ingested_at": pl.Datetime("us"),
    }
)
_FILE = "file"
"""Column of the copy that says which file a record is from: its folder, name and size, for one may be replaced."""
_COPY = pl.Schema({**SCHEMA, _FILE: pl.String()})


def records(warehouse: Warehouse, deployment: str) -> pl.DataFrame:
    """The records of all inputs of a deployment, with the columns of SCHEMA; the caller holds the lock of ingest."""
    files = {
        f"{file.date}/{file.path.name}/{file.size}": file.path
        for file in warehouse.files(INGESTED_FILES, deployment=deployment)
    }
    copy = warehouse.root / "_state" / "known" / f"{encode(deployment)}.parquet"
    copied = _copied(copy).filter(pl.col(_FILE).is_in(list(files)))
    covered = set(copied[_FILE])
    apart = {name: path for name, path in files.items() if name not in covered}
    found = pl.concat([copied, _read(apart)])
    if len(apart) > MOST_APART:
        warehouse.keep_copy(found.to_arrow(), copy)
    return found.drop(_FILE)


def _read(files: Mapping[str, Path]) -> pl.DataFrame:
    frames = [_COPY.to_frame()]
    for name, path in files.items():
        rows = stored(path, list(SCHEMA)).cast(SCHEMA)
        frames.append(rows.with_columns(pl.lit(name).alias(_FILE)))
    return pl.concat(frames)


def _copied(path: Path) -> pl.DataFrame:
    """The copy; nothing where there is none that can be read."""
    try:
        return pl.read_parquet(path, hive_partitioning=False).cast(_COPY)
    except FileNotFoundError:
        pass
    except (OSError, pl.exceptions.PolarsError) as error:
        logger.debug("%s cannot be read (%s) and is written anew", path, error)
    return _read({})
