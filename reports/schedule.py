"""Which draft length to run at which load: choice, filling of gaps, and vLLM's schedule form.

Per load band and draft length γ the account is predicted TPOT = T_round(γ) / L_eff(γ); the lowest one wins, a tie
within the error keeps the smaller γ, and γ = 0 is always a candidate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ..schemas.config import LoadBand
from ..schemas.errors import UsageError

Evidence = Literal["measured", "model", "neighbour", "none"]

OPEN_END = 1024
"""Where the last band ends when the deployment does not say how many requests it runs: vLLM's greatest default."""


@dataclass(frozen=True)
class Option:
    """One draft length at one load band; times in ms, intervals are of 95 %."""

    length: int
    tpot_ms: float
    margin_ms: float
    """Half the width of the interval of TPOT."""
    round_time_ms: float
    effective_length: float
    evidence: Evidence
    of: str | None = None
    """The deployment that ran it, where that is another one."""
    unit: str | None = None
    """What the interval rests on: night, hour, block, observation or model."""
    extrapolated: bool = False
    """Whether the length lies beyond every draft whose acceptance is known."""
    gap_ms: float | None = None
    """p99 of the stream gap."""
    gap_interval: tuple[float, float | None] | None = None
    kv_usage: float | None = None
    """p95 of the share of KV cache in use, candidates included."""
    kv_interval: tuple[float, float] | None = None
    """From the mean share to the greatest one."""

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of TPOT in ms."""
        return self.tpot_ms - self.margin_ms, self.tpot_ms + self.margin_ms

    @property
    def source(self) -> str:
        """What is known of it, and whose it is."""
        return self.evidence if self.of is None else f"{self.evidence} on {self.of}"


@dataclass(frozen=True)
class Limits:
    """What a choice must stay within; None is no limit."""

    gap_ms: float | None = None
    kv_usage: float | None = None


@dataclass(frozen=True)
class Choice:
    """The draft length chosen for one band, and why."""

    band: LoadBand
    length: int
    evidence: Evidence
    reason: str
    option: Option | None = None
    options: tuple[Option, ...] = field(default=())
    """All lengths with evidence, the shortest first."""

    @property
    def source(self) -> str:
        """What stands behind the choice, and whose it is."""
        return self.evidence if self.option is None else self.option.source

    @property
    def neighbours(self) -> tuple[Option | None, Option | None]:
        """The next shorter and the next longer length with evidence."""
        shorter = [option for option in self.options if option.length < self.length]
        longer = [option for option in self.options if option.length > self.length]
        return (shorter[-1] if shorter else None, longer[0] if longer else None)


def choose(band: LoadBand, options: Sequence[Option], limits: Limits) -> Choice | None:
    """The best length of a band; None where nothing has evidence."""
    if not options:
        return None
    known = tuple(sorted(options, key=lambda option: option.length))
    allowed = [option for option in known if _within(option, limits)]
    if not allowed:
        zero = next((option for option in known if option.length == 0), None)
        reason = "every length with evidence breaks a limit, so no drafts are left"
        return Choice(band, 0, zero.evidence if zero else "none", reason, zero, known)
    best = min(allowed, key=lambda option: (option.tpot_ms, option.length))
    chosen = next(option for option in allowed if _ties(option, best))
    faster = [option.length for option in known if option.tpot_ms < chosen.tpot_ms and option not in allowed]
    return Choice(band, chosen.length, chosen.evidence, _reason(chosen, best, known, faster), chosen, known)


def _within(option: Option, limits: Limits) -> bool:
    gap = option.round_time_ms if option.gap_ms is None else option.gap_ms
    if limits.gap_ms is not None and gap > limits.gap_ms:
        return False
    return limits.kv_usage is None or option.kv_interval is None or option.kv_interval[1] <= limits.kv_usage


def _ties(option: Option, best: Option) -> bool:
    return option is best or option.tpot_ms - best.tpot_ms <= math.hypot(option.margin_ms, best.margin_ms)


def _reason(chosen: Option, best: Option, known: Sequence[Option], faster: Sequence[int]) -> str:
    if len(known) == 1:
        return f"no evidence of gain: only K = {chosen.length} has evidence here"
    if faster:
        return f"K = {', '.join(map(str, faster))} would be faster but breaks a limit"
    if chosen is not best:
        return _tie(best)
    second = min((option for option in known if option is not chosen), key=lambda option: option.tpot_ms)
    if second.length > chosen.length and _ties(second, chosen):
        return _tie(second)
    against = f"{second.tpot_ms:.2f} ms at K = {second.length} ({second.source})"
    return f"{chosen.tpot_ms:.2f} ms a token ({chosen.source}) against {against}"


def _tie(other: Option) -> str:
    faster = f"K = {other.length} ({other.tpot_ms:.2f} ms, {other.source})"
    return f"ties with {faster} within the error, so the smaller length is taken"


def fill(bands: Sequence[LoadBand], found: Mapping[str, Choice]) -> list[Choice]:
    """A choice for every band: bands without evidence take the smaller K of the nearest ones that have it.

    Above the last band with evidence its K is kept. Empty where no band has evidence.
    """
    known = [index for index, band in enumerate(bands) if band.label in found]
    if not known:
        return []
    choices = []
    for index, band in enumerate(bands):
        if band.label in found:
            choices.append(found[band.label])
            continue
        below = max((place for place in known if place < index), default=None)
        above = min((place for place in known if place > index), default=None)
        nearest = [found[bands[place].label] for place in (below, above) if place is not None]
        taken = min(nearest, key=lambda choice: choice.length)
        reason = f"no evidence at this load: taken from band {taken.band.label}"
        choices.append(Choice(band, taken.length, "neighbour", reason))
    return choices


def ranges(choices: Sequence[Choice], max_num_seqs: int | None = None) -> list[list[int]]:
    """The ``num_speculative_tokens_per_batch_size`` of the choices: inclusive ranges from 1 on, neighbours merged."""
    end = max_num_seqs or max([OPEN_END, *(choice.band.low for choice in choices)])
    found: list[list[int]] = []
    for choice in choices:
        low, high = choice.band.low, min(choice.band.high or end, end)
        if low > end:
            break
        if found and found[-1][2] == choice.length:
            found[-1][1] = high
        else:
            found.append([low, high, choice.length])
    if found:
        found[-1][1] = max(found[-1][1], end)
    return found


def check_ranges(schedule: object) -> list[list[int]]:
    """A given schedule if vLLM would take it; UsageError with the rule that it breaks otherwise."""
    if not isinstance(schedule, list) or not schedule:
        raise UsageError("The schedule must be a list such as [[1, 64, 3], [65, 512, 0]].")
    end = 0
    for entry in schedule:
        whole = isinstance(entry, list) and all(isinstance(x, int) and not isinstance(x, bool) for x in entry)
        if not whole or len(entry) != 3:
            raise UsageError(f"The schedule entry {entry!r} must be [first batch size, last batch size, K].")
        low, high, length = entry
        if low != end + 1 and not (end and low > end):
            raise UsageError(f"The schedule entry {entry!r} must start at 1, or after the entry before it ends.")
        if high < low or length < 0:
            raise UsageError(f"The schedule entry {entry!r} must rise, and its K must not be negative.")
        end = high
    return [list(entry) for entry in schedule]


def length_at(schedule: Sequence[Sequence[int]], load: int) -> int:
    """The draft length that a schedule gives to a batch size; beyond its end the last one holds."""
    for low, high, length in schedule:
        if low <= load <= high:
            return length
    return schedule[-1][2]
