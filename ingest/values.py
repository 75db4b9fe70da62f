"""Values out of JSON as a column can take them: the number, text or instant, or None where it is something else."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ..schemas.errors import UsageError

EXACT = 2**53
"""Whole numbers beyond this are not exact in JSON numbers."""
SMALL = 2**31 - 1
"""What a column of 32 bits takes."""

LONGEST_LABEL = 500


def number(value: object) -> float | None:
    """A finite float."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def count(value: object, most: int = EXACT) -> int | None:
    """A whole number, also from text or a float such as 12.0; one below 0 is -1 and one above ``most`` is ``most``.

    A record with a number that cannot be is refused on its way into the warehouse (see ``plausible``), not shown
    without it.
    """
    found = value if isinstance(value, int) and not isinstance(value, bool) else number(value)
    if found is None or found != int(found):
        return None
    return max(-1, min(int(found), most))


def duration_ms(value: object, factor: float = 1.0) -> float | None:
    """A duration in ms, whether it can be or not; ``factor`` turns the value's unit into ms."""
    found = number(value)
    return found * factor if found is not None else None


def text(value: object) -> str | None:
    """A short label."""
    return value[:LONGEST_LABEL] if isinstance(value, str) and value else None


def numbers(values: object, factor: float = 1.0) -> list[float] | None:
    """A list of durations; None if any is none."""
    if not isinstance(values, list):
        return None
    found = [duration_ms(value, factor) for value in values]
    return None if any(value is None for value in found) else [value for value in found if value is not None]


def histogram(value: object) -> list[int] | None:
    """Rounds by accepted tokens, from a dense list or an object with the numbers as keys."""
    if isinstance(value, Mapping):
        by_accepted = {count(key): count(rounds) for key, rounds in value.items()}
        if not by_accepted or None in by_accepted or -1 in by_accepted or None in by_accepted.values():
            return None
        longest = max(key for key in by_accepted if key is not None)
        return [by_accepted.get(accepted) or 0 for accepted in range(longest + 1)] if longest <= 1_000 else None
    if not isinstance(value, list):
        return None
    rounds = [count(item) for item in value]
    return None if None in rounds else [item for item in rounds if item is not None]


def instant(seconds: object) -> dt.datetime | None:
    """Naive UTC from unix seconds."""
    found = number(seconds)
    if found is None or not 0 < found < 32_503_680_000:  # the year 3000
        return None
    return dt.datetime.fromtimestamp(0, dt.UTC).replace(tzinfo=None) + dt.timedelta(microseconds=round(found * 1e6))


def instant_ns(nanoseconds: object) -> dt.datetime | None:
    """Naive UTC from unix nanoseconds, also as text."""
    try:
        found = int(nanoseconds) if isinstance(nanoseconds, int | str) else None
    except ValueError:
        return None
    if found is None or not 0 < found < 32_503_680_000 * 10**9:
        return None
    return dt.datetime.fromtimestamp(0, dt.UTC).replace(tzinfo=None) + dt.timedelta(microseconds=found // 1_000)


def local_time(moment: dt.datetime, timezone: str | None) -> dt.datetime:
    """A wall-clock time as naive UTC; UsageError for an unknown zone, ValueError for a time UTC has not."""
    if moment.tzinfo is None and timezone is None:
        return moment
    if moment.tzinfo is None:
        try:
            moment = moment.replace(tzinfo=ZoneInfo(str(timezone)))
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise UsageError(f"The time zone {timezone!r} is not known: give a name such as Europe/Berlin.") from error
    try:
        return moment.astimezone(dt.UTC).replace(tzinfo=None)
    except OverflowError as error:
        raise ValueError(str(error)) from error


def pairs(items: Iterable[tuple[str, Any]]) -> list[dict[str, Any]]:
    """Key-value pairs in the shape of a MAP column."""
    return [{"key": key, "value": value} for key, value in items]
