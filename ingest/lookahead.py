"""The inputs of an ingest in order, one of them in sight before it is taken."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from .opening import Located
from .prepare import Prepared


class Lookahead:
    """The inputs in order, of which the next can be looked at; each is prepared when nothing before it is unread."""

    def __init__(self, located: list[Located], prepare: Callable[[Located], Prepared | Located | None]) -> None:
        self._located = deque(located)
        self._prepare = prepare
        self._next: Prepared | Located | None = None

    @property
    def rotation(self) -> tuple[str, str] | None:
        """The rotated set of the next input that was not prepared."""
        return self._located[0].rotation if self._located else None

    def peek(self) -> Prepared | Located | None:
        while self._next is None and self._located:
            self._next = self._prepare(self._located.popleft())
        return self._next

    def take(self) -> None:
        self._next = None

    def put_back(self) -> None:
        """Have the next input prepared anew, as more is known by now."""
        if isinstance(self._next, Prepared):
            self._located.appendleft(self._next.located)
            self.close()
            self._next = None

    def close(self) -> None:
        """Close the input that nobody came to take."""
        if isinstance(self._next, Prepared):
            self._next.stream.close()
