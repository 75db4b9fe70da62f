"""The rows of ``deployments``, read from few files however many starts there were.

Every start leaves a small file, often one a night, and whatever is computed or judged looks at all of them. Now and
then they are copied together, so that a night opens at most MOST_APART files beside the copy. What the copy lacks is
read from the files themselves, and what it holds of files that are gone does not count.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ..schemas.raw import DEPLOYMENTS
from ..schemas.views import current_deployments
from ..schemas.warehouse import DataFile, Warehouse, rows_of

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb
    import pyarrow as pa

logger = logging.getLogger(__name__)

MOST_APART = 4
"""Files that are read one by one."""
_FILE = "file"
"""Column of the copy that says which file a row is from: its place, name and size, for one may be replaced."""


def bind_deployments(connection: duckdb.DuckDBPyConnection, warehouse: Warehouse) -> None:
    """Make ``deployments`` mean all start-up records with their current labels, as every transform expects it."""
    connection.register("start_rows", _rows(warehouse)[0])
    connection.execute(f"CREATE OR REPLACE TEMP TABLE deployments AS {current_deployments('FROM start_rows')}")
    connection.unregister("start_rows")


def keep_together(warehouse: Warehouse) -> None:
    """Copy the rows together where too many files lie apart; the caller holds the lock of transforms."""
    rows, apart = _rows(warehouse)
    if apart > MOST_APART:
        warehouse.keep_copy(rows, _copy(warehouse))


def _rows(warehouse: Warehouse) -> tuple[pa.Table, int]:
    """All rows with the declared columns and _FILE, and how many files lay apart from the copy."""
    import pyarrow as pa
    import pyarrow.compute as pc

    listed = warehouse.files(DEPLOYMENTS)
    files = {f"{file.date}/{file.deployment}/{file.path.name}/{file.size}": file for file in listed}
    copied = _copied(_copy(warehouse))
    copied = copied.filter(pc.is_in(copied[_FILE], pa.array(list(files), pa.string())))
    apart = files.keys() - set(copied[_FILE].to_pylist())
    return pa.concat_tables([copied, *(_read(files[name], name) for name in sorted(apart))]), len(apart)


def _copy(warehouse: Warehouse) -> Path:
    return warehouse.root / "_state" / "start_rows.parquet"


def _copied(path: Path) -> pa.Table:
    """The copy; nothing where there is none that can be read, or one of other columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        found = pq.read_table(path, partitioning=None)
        if found.column_names == _schema().names:
            return found.cast(_schema())
    except FileNotFoundError:
        pass
    except (OSError, pa.ArrowException) as error:
        logger.debug("%s cannot be read (%s) and is written anew", path, error)
    return _schema().empty_table()


def _read(file: DataFile, name: str) -> pa.Table:
    """The rows of a file; null where an older specledger did not write a column."""
    import pyarrow as pa

    schema = _schema()
    rows = rows_of(file.path, schema)
    for column, value in (("date", file.date), ("deployment", file.deployment), (_FILE, name)):
        field = schema.field(column)
        rows = rows.set_column(schema.names.index(column), field, pa.repeat(pa.scalar(value, field.type), len(rows)))
    return rows


def _schema() -> pa.Schema:
    import pyarrow as pa

    from ..schemas.arrow_types import arrow_type

    declared = [pa.field(column.name, arrow_type(column.type)) for column in DEPLOYMENTS.columns]
    return pa.schema([*declared, pa.field(_FILE, pa.string())])
