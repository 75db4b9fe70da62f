"""Parquet files of raw and derived tables while they are written, out of sight of readers."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import WarehouseError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from .table import Table

ROW_GROUP_ROWS = 122_880
"""DuckDB's own row-group size: one scan task a group."""
COMPRESSION_LEVEL = 3


class StagedFile:
    """A file of a table to which rows are added, a row group at a time at least, until it is closed."""

    def __init__(self, table: Table, path: Path, place: Path, **metadata: str) -> None:
        """``place`` is the warehouse that errors name; the metadata is told of the file itself."""
        self.path = path
        self._table = table
        self._place = place
        self._metadata = {f"specledger.{key}": value for key, value in metadata.items()}
        self._writer: pq.ParquetWriter | None = None

    def add(self, rows: pa.Table) -> None:
        """Write rows with the columns of the table.

        Raises WarehouseError, and leaves no file, where that cannot be done.
        """
        schema = self._table.arrow_schema()
        if not rows.schema.equals(schema, check_metadata=False):
            rows = rows.select(schema.names).cast(schema)
        rows = rows.replace_schema_metadata(self._metadata)
        try:
            if self._writer is None:
                self._writer = self._opened(rows.schema)
            self._writer.write_table(rows, ROW_GROUP_ROWS)
        except OSError as error:
            raise self._failed(error) from error

    def close(self) -> None:
        """Write the end of the file; WarehouseError, and no file, where that cannot be done."""
        writer, self._writer = self._writer, None
        if writer is not None:
            try:
                writer.close()
            except OSError as error:
                raise self._failed(error) from error

    def discard(self) -> None:
        """Remove what was written."""
        writer, self._writer = self._writer, None
        try:
            if writer is not None:
                writer.close()
        except OSError:
            pass  # it goes anyway
        finally:
            self.path.unlink(missing_ok=True)

    def _opened(self, schema: pa.Schema) -> pq.ParquetWriter:
        import pyarrow.parquet as pq

        table = self._table
        return pq.ParquetWriter(
            self.path,
            schema,
            compression="zstd",
            compression_level=COMPRESSION_LEVEL,
            use_dictionary=_repetitive(table),
            column_encoding=dict.fromkeys(_rising(table), "DELTA_BINARY_PACKED"),
            # Of small files the footer is most of what is read: nobody asks for the ranges of figures.
            write_statistics=[name for name in schema.names if name in (*table.key, *table.moment)],
            store_schema=False,
        )

    def _failed(self, error: OSError) -> WarehouseError:
        self.discard()
        return WarehouseError(
            f"Cannot write {self._table.name} into {self._place}: {error.strerror or error}; mend that, then run the "
            "same again."
        )


@cache
def _repetitive(table: Table) -> list[str]:
    """The leaves of a table's files that a dictionary makes smaller: all but what rises and measured times, which hardly
    repeat.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    times = {
        column.name for column in table.columns if column.unit == "ms" and column.type.startswith(("DOUBLE", "FLOAT"))
    }
    empty = pa.BufferOutputStream()
    pq.write_table(table.arrow_schema().empty_table(), empty)
    schema = pq.ParquetFile(pa.BufferReader(empty.getvalue())).schema
    leaves = [schema.column(place).path for place in range(len(schema))]
    return [leaf for leaf in leaves if leaf.partition(".")[0] not in times.union(_rising(table))]


def _rising(table: Table) -> list[str]:
    """The columns of a table's files that mostly rise from row to row, in steps much smaller than their values."""
    return [name for name in table.arrow_schema().names if name == "byte_offset" or name in table.moment]
