"""The printed times of records as columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .log_program import Integers
from .log_table import Group, Records
from .log_time import UNKNOWN, Stamps, outer_seconds


def stamps_of(records: Records, groups: Sequence[Group]) -> Stamps:
    """The printed times of records, in their order."""
    outer = [outer_seconds(group.parts("outer_"), _sign(group), len(group)) for group in groups]
    zoned = [np.full(len(group), "outer_sign" in dict(group.form.marks)) for group in groups]
    micros = [_micros(group) for group in groups]
    return Stamps(
        records.integers("year", UNKNOWN),
        records.integers("month"),
        records.integers("day"),
        records.integers("hour"),
        records.integers("minute"),
        records.integers("second"),
        records.ordered(micros),
        records.ordered(outer),
        records.ordered(zoned),
    )


def _sign(group: Group) -> int | None:
    sign = dict(group.form.marks).get("outer_sign")
    return sign if isinstance(sign, int) else None


def _micros(group: Group) -> Integers:
    if "fraction" not in group.form.names:
        return np.zeros(len(group), dtype=np.int64)
    row = group.form.names.index("fraction")
    digits = group.form.decimals[row]
    values: Integers = group.values[row] * 10 ** max(0, 6 - digits) // 10 ** max(0, digits - 6)
    return values
