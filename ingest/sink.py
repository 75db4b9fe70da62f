"""What a reader gives its rows to: the batch, for one input or for many at once."""

from __future__ import annotations

import polars as pl

from .batch import Batch


class InputSink:
    """The sink of one input."""

    def __init__(self, batch: Batch, number: int) -> None:
        self._batch = batch
        self._number = number

    def rows(self, table: str, frame: pl.DataFrame, records: int | None = None) -> None:
        self._batch.tallies[self._number].rows += frame.height if records is None else records
        self._batch.add(table, frame, self._number)

    def reject(self, byte_offset: int | None, reason: str, text: str | bytes, records: int = 1) -> None:
        self._batch.reject(self._number, byte_offset, reason, text, records)

    def note(self, message: str) -> None:
        self._batch.note(message)


class ManySink:
    """The sink of many inputs, which the reader numbers from zero in the order in which it took them."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self.numbers: list[int] = []
        """The number in the batch of each input taken."""

    def rows(self, table: str, frame: pl.DataFrame) -> None:
        numbers = pl.Series("_input", self.numbers, pl.UInt32).gather(frame["input"])
        for number, count in numbers.value_counts().iter_rows():
            self._batch.tallies[number].rows += count
        self._batch.add(table, frame.drop("input").with_columns(numbers))

    def reject(self, position: int, byte_offset: int | None, reason: str, text: str | bytes, records: int = 1) -> None:
        self._batch.reject(self.numbers[position], byte_offset, reason, text, records)

    def note(self, message: str) -> None:
        self._batch.note(message)
