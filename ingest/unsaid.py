"""Inputs of which no request says how many tokens it returned, though some went well: a field may have been renamed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl


def answers(requests: pl.DataFrame) -> Iterator[tuple[int, int, int]]:
    """Of each input among rows of ``requests``: its number, the requests that went well, those of them with tokens."""
    well = requests.filter(pl.col("status") == "ok")
    yield from well.group_by("_input").agg(pl.len(), pl.col("output_tokens").count()).iter_rows()


@dataclass
class Unsaid:
    """The inputs of one format that say nothing."""

    first: str
    inputs: int = 0
    requests: int = 0

    def add(self, requests: int) -> None:
        """One more input, of whose requests so many went well."""
        self.inputs += 1
        self.requests += requests

    def note(self) -> str:
        """One sentence for all of them, for there may be an input for each request."""
        others = self.inputs - 1
        more = f" and {others:,} more input{'' if others == 1 else 's'}" if others else ""
        return (
            f"None of the requests in {self.first}{more} says how many tokens it returned ({self.requests:,} that went "
            "well): is the field renamed or left out?"
        )
