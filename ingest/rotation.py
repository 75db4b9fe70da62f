"""What goes on from one file of a rotated set to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .formats import Format
from .lookahead import Lookahead
from .opening import Located
from .prepare import Prepared


class Carried:
    """What readers remembered at the end of the last file of each set."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], tuple[str, Mapping[str, Any], Any]] = {}

    def keep(self, found: Located, kind: Format, resume: Mapping[str, Any], torn: Any = None) -> None:
        """Remember the end of a file, where its format is one that goes on."""
        if kind.carries:
            self._last[found.rotation] = (kind.name, resume, torn)

    def given_to(self, item: Prepared, *, followed: bool) -> Prepared:
        """A file read from its start with what the reader remembered at the end of the file before."""
        context = replace(item.context, followed=followed)
        name, resume, torn = self._last.get(item.located.rotation, ("", {}, None))
        if name == item.format.name and not context.offset:
            context = replace(context, resume=resume, torn=torn)
        return replace(item, context=context)


def follows(item: Prepared, waiting: Lookahead) -> bool:
    """Whether the next input is the next file of the same set, new, not a copy, and at least a line long."""
    if not item.format.carries or waiting.rotation != item.located.rotation:
        return False
    following = waiting.peek()
    return (
        isinstance(following, Prepared)
        and following.format is item.format
        and following.located.rotation == item.located.rotation
        and not following.context.offset
        and b"\n" in following.head
        and not following.head.startswith(item.head[: len(following.head)])
        and not item.head.startswith(following.head)
    )
