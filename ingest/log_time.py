"""When a record was written: the year that its text does not have, and the zone that it does not name.

The year comes from the option (then it is the year of the first record), an outer timestamp, or the last change of the
file; it turns where the local date does. The zone comes from the option, an outer timestamp, or is UTC with a note.
"""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..schemas.errors import UsageError

Integers = npt.NDArray[np.int64]

SECOND = 1_000_000
DAY = 86_400
_DAYS_BEFORE = np.array([0, 0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335])
_YEAR = 366 * DAY
"""Seconds from a date to the same date of the next year, as phases count: every year has its 29 February."""
_QUARTER = 900
"""Zones differ from UTC by whole quarters of an hour."""
_WIDEST_ZONE = 15 * 3600
_CLOCK_SLACK = DAY
"""How far a record may lie after the last change of its file: the zone may not be known."""
_ORDER_SLACK = 5
"""Seconds that records of several processes are out of order at most; a local time further back was repeated."""
UNKNOWN = np.iinfo(np.int64).min

AFTER_NOTE = (
    "The log goes on after its file was last changed, so it spans more than a year and some of its dates are too late: "
    "ingest it again with --year, the year of its first record."
)
UTC_NOTE = (
    "The log names no time zone, so its times were taken as UTC: give --timezone if the server ran in another zone."
)


@dataclass
class Stamps:
    """Times as printed, one a record in the order of the log, as integers; UNKNOWN where a part is missing.

    ``fraction`` is in microseconds; ``outer`` is the instant of an outer timestamp in seconds since the epoch, in its
    own zone where ``zoned``, else of an unknown zone.
    """

    year: Integers
    month: Integers
    day: Integers
    hour: Integers
    minute: Integers
    second: Integers
    fraction: Integers
    outer: Integers
    zoned: npt.NDArray[np.bool_]


class Clock:
    """Turns printed times into instants, record after record; ``state`` is all it needs to go on later."""

    def __init__(
        self,
        year: int | None,
        timezone: str | None,
        modified_at: dt.datetime,
        note: Callable[[str], None],
        state: Mapping[str, Any],
    ) -> None:
        self._given_year = year
        self._zone = find_zone(timezone) if timezone else None
        self._modified_at = modified_at
        self._note = note
        self._year: int | None = state.get("year")
        self._phase: int = state.get("phase", 0)
        self._offset: int | None = state.get("offset")
        self._guessed: bool = state.get("guessed", False)
        """Whether the year is from the last change of the file."""
        self.last: int | None = state.get("last")
        """The instant of the last record in microseconds since the epoch; None before the first."""

    @property
    def state(self) -> dict[str, int | None]:
        return {
            "year": self._year,
            "phase": self._phase,
            "offset": self._offset,
            "last": self.last,
            "guessed": self._guessed,
        }

    def instants(self, stamps: Stamps) -> tuple[Integers, npt.NDArray[np.bool_]]:
        """Microseconds since the epoch of each record, and which of them are no possible date."""
        bad = ~_possible(stamps)
        result = np.full(len(bad), UNKNOWN, dtype=np.int64)
        good = np.flatnonzero(~bad)
        if not len(good):
            return result, bad
        stamps = Stamps(**{name: values[good] for name, values in vars(stamps).items()})
        phase = (
            (_DAYS_BEFORE[stamps.month] + stamps.day - 1) * DAY
            + stamps.hour * 3600
            + stamps.minute * 60
            + stamps.second
        )
        years = self._years(stamps, phase)
        wall, real = _wall(years, stamps)
        instants = (wall - self._offsets(wall, stamps)) * SECOND + stamps.fraction
        result[good[real]] = instants[real]
        bad[good[~real]] = True
        if real.any():
            self.last = int(instants[real][-1])
            if self._guessed and self.last > self._latest():
                self._note(AFTER_NOTE)
        self._year, self._phase = int(years[-1]), int(phase[-1])
        return result, bad

    def _years(self, stamps: Stamps, phase: Integers) -> Integers:
        known = stamps.year.copy()
        has_outer = (stamps.outer != UNKNOWN) & (known == UNKNOWN)
        if self._given_year is None and has_outer.any():
            outer_year, outer_phase = _year_and_phase(stamps.outer[has_outer])
            known[has_outer] = outer_year + np.rint((outer_phase - phase[has_outer]) / _YEAR).astype(np.int64)
        if self._year is None:
            self._year, self._phase = self._first_year(stamps, int(known[0])), int(phase[0])
        steps = np.diff(phase, prepend=np.int64(self._phase))
        # Back by more than half a year is New Year; forward by all but a day is a late record of the old one.
        turned = self._year + np.cumsum((steps < -_YEAR // 2).astype(np.int64) - (steps > _YEAR - DAY))
        fixed = known != UNKNOWN
        if not fixed.any():
            return turned
        last_fixed = np.maximum.accumulate(np.where(fixed, np.arange(len(phase)), -1))
        shift = np.where(last_fixed >= 0, (known - turned)[last_fixed], 0)
        return np.asarray(turned + shift, dtype=np.int64)

    def _first_year(self, stamps: Stamps, known: int) -> int:
        if known != UNKNOWN:
            return known
        if self._given_year is not None:
            return self._given_year
        self._guessed = True
        month, day = int(stamps.month[0]), int(stamps.day[0])
        latest = self._modified_at + dt.timedelta(seconds=_CLOCK_SLACK)
        for year in range(latest.year, latest.year - 9, -1):
            try:
                first = dt.datetime(
                    year, month, day, int(stamps.hour[0]), int(stamps.minute[0]), min(int(stamps.second[0]), 59)
                )
            except ValueError:  # 29 February
                continue
            if first <= latest:
                return year
        return latest.year

    def _latest(self) -> int:
        """The last instant that a record can have, in microseconds."""
        return int((self._modified_at - dt.datetime(1970, 1, 1)).total_seconds() + _CLOCK_SLACK) * SECOND

    def _offsets(self, wall: Integers, stamps: Stamps) -> Integers:
        """Seconds that local time is ahead of UTC, for each record."""
        if self._zone is not None:
            return self._zone_offsets(wall)
        offset = np.rint((wall - stamps.outer) / _QUARTER).astype(np.int64) * _QUARTER
        known = stamps.zoned & (np.abs(offset) <= _WIDEST_ZONE)
        if self._offset is None and not known[0]:
            self._note(UTC_NOTE)
        last_known = np.maximum.accumulate(np.where(known, np.arange(len(wall)), -1))
        result = np.where(last_known >= 0, offset[last_known], self._offset or 0)
        if known.any():
            self._offset = int(result[-1])
        elif self._offset is None:
            self._offset = 0
        return np.asarray(result, dtype=np.int64)

    def _zone_offsets(self, wall: Integers) -> Integers:
        quarters, where = np.unique(wall // _QUARTER, return_inverse=True)
        both = np.array([self._both_offsets(int(quarter) * _QUARTER) for quarter in quarters])
        first, second = both[where, 0], both[where, 1]
        result: Integers = first.copy()
        # Local times that come twice (the clock was set back): the order of the records tells which one it is.
        last = self.last // SECOND if self.last is not None else None
        previous = int(wall[0] - first[0]) if last is None else last
        repeated = np.flatnonzero(first > second)
        for position in repeated.tolist():
            if position:
                previous = int(wall[position - 1] - result[position - 1])
            if wall[position] - first[position] < previous - _ORDER_SLACK:
                result[position] = second[position]
        return result

    def _both_offsets(self, wall: int) -> tuple[int, int]:
        local = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=wall)
        first, second = (local.replace(tzinfo=self._zone, fold=fold).utcoffset() for fold in (0, 1))
        return (
            int(first.total_seconds()) if first is not None else 0,
            int(second.total_seconds()) if second is not None else 0,
        )


def find_zone(name: str) -> dt.tzinfo:
    """The time zone of that name or offset (``+02:00``); UsageError if there is none."""
    offset = re.fullmatch(r"([+-])(\d\d):?(\d\d)", name)
    if offset:
        ahead = dt.timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        return dt.timezone(-ahead if offset[1] == "-" else ahead)
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UsageError(f"The time zone {name[:60]!r} is not known: give a name such as Europe/Berlin.") from error


def _possible(stamps: Stamps) -> npt.NDArray[np.bool_]:
    possible: npt.NDArray[np.bool_] = (
        (stamps.month >= 1)
        & (stamps.month <= 12)
        & (stamps.day >= 1)
        & (stamps.day <= 31)
        & (stamps.hour <= 23)
        & (stamps.minute <= 59)
        & (stamps.second <= 60)
        & ((stamps.year == UNKNOWN) | ((stamps.year >= 1970) & (stamps.year <= 9998)))
    )
    return possible


def _wall(years: Integers, stamps: Stamps) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """Local seconds since 1970, and which dates exist in their year."""
    months = ((years - 1970) * 12 + stamps.month - 1).astype("datetime64[M]")
    days = months.astype("datetime64[D]").astype(np.int64) + stamps.day - 1
    real = days.astype("datetime64[D]").astype("datetime64[M]") == months
    return days * DAY + stamps.hour * 3600 + stamps.minute * 60 + stamps.second, real


def _year_and_phase(seconds: Integers) -> tuple[Integers, Integers]:
    days = (seconds // DAY).astype("datetime64[D]")
    months = days.astype("datetime64[M]").astype(np.int64)
    month = months % 12 + 1
    day = (days - days.astype("datetime64[M]")).astype(np.int64)
    return months // 12 + 1970, (_DAYS_BEFORE[month] + day) * DAY + seconds % DAY


def outer_seconds(parts: Mapping[str, Integers], sign: int | None, rows: int) -> Integers:
    """The instant of outer timestamps (``outer_…`` parts) in seconds since the epoch, UNKNOWN where there are none."""
    if "outer_year" not in parts:
        return np.full(rows, UNKNOWN, dtype=np.int64)
    none = np.zeros(rows, dtype=np.int64)
    month = np.clip(parts["outer_month"], 1, 12)
    months = ((parts["outer_year"] - 1970) * 12 + month - 1).astype("datetime64[M]")
    days = months.astype("datetime64[D]").astype(np.int64) + parts["outer_day"] - 1
    seconds = days * DAY + parts["outer_hour"] * 3600 + parts["outer_minute"] * 60 + parts["outer_second"]
    zone = parts.get("outer_zone_hour", none) * 3600 + parts.get("outer_zone_minute", none) * 60
    return np.asarray(seconds - (sign or 0) * zone, dtype=np.int64)
