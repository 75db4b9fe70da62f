"""The head of each .sql file, from the declaration of its table: what a row is, what is read, what each column means.

``python -m specledger.transforms.headers`` brings all files up to date after a declaration was changed.
"""

from __future__ import annotations

import textwrap

from ..schemas.table import Column, Table
from .catalog import FOLDER, HEAD_END, ORDER, declared

WIDTH = 120


def header(table: Table) -> str:
    """The text of a head, the ruled line last."""
    widest = max(len(column.name) for column in table.columns)
    lines = [
        *_wrapped("-- ", f"{table.name}: one row per {table.grain}."),
        *_wrapped("-- Reads ", f"{', '.join(table.reads)}."),
        *(line for column in table.columns for line in _wrapped(f"--   {column.name:<{widest}}  ", _meaning(column))),
    ]
    return "\n".join(lines) + "\n" + HEAD_END


def with_header(table: Table, text: str) -> str:
    """The text of a .sql file under the head of its table, in place of the one it had."""
    _, ruled, below = text.partition(HEAD_END)
    return header(table) + (below if ruled else text)


def _meaning(column: Column) -> str:
    return f"{column.doc} [{column.unit}]" if column.unit else column.doc


def _wrapped(head: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=head, subsequent_indent="--" + " " * (len(head) - 2), break_on_hyphens=False
    )


def main() -> None:
    """Rewrite the head of every .sql file that has another one."""
    for path in ORDER:
        file = FOLDER / f"{path}.sql"
        text = file.read_text(encoding="utf-8")
        headed = with_header(declared(path), text)
        if headed != text:
            file.write_text(headed, encoding="utf-8")


if __name__ == "__main__":
    main()
