"""The ledger from given numbers: expected length, speedup and break-even, without any logs.

The formulas are those of the ledger: E[L](γ) = 1 + Σ S_i, speedup = T0 · E[L] / T_round, where S_i is the product of
the conditional acceptances a_1 … a_i.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from ..schemas.errors import UsageError

LONGEST_DRAFT = 256
"""No drafter proposes more tokens a round; a longer one is a typing error."""

WORTH_IT = 1.3
"""Rule of thumb: below this speedup, speculation is not worth its complexity."""

BUSY_LOAD = 32
"""Rule of thumb: from this many running requests on, batching has used the idle compute."""

GOOD_ACCEPTANCE = 0.6
"""Rule of thumb: equal acceptance below which a round rarely pays."""

CHEAP_DRAFT = 0.5
"""Rule of thumb: the whole draft should cost less than this share of an ordinary step."""

LONG_OUTPUT = 20
"""Rule of thumb: outputs of fewer tokens do not repay the first round."""

VERIFY_RANGE = (1.0, 1.5)
"""Rule of thumb for verify time / T0 of a single request, for drafts up to VERIFY_RANGE_GAMMA."""

VERIFY_RANGE_GAMMA = 5


@dataclass(frozen=True)
class RoundTime:
    """The time of one round in ms; the parts are None where only the whole is known."""

    total: float
    draft: float | None = None
    verify: float | None = None
    other: float | None = None


@dataclass(frozen=True)
class Row:
    """The ledger at one draft length; times in ms, None where it takes a time that was not given."""

    gamma: int
    expected_length: float
    survival: float
    marginal_gain: float
    extrapolated: bool
    round_time_ms: float | None = None
    tpot_ms: float | None = None
    speedup: float | None = None
    conservative_speedup: float | None = None
    break_even_length: float | None = None
    break_even_acceptance: float | None = None


@dataclass(frozen=True)
class Answer:
    """One line of the decision checklist; ``holds`` is None where the numbers do not tell."""

    question: str
    holds: bool | None
    found: str
    if_not: str


@dataclass(frozen=True)
class Facts:
    """What the checklist can be answered from, besides the ledger itself."""

    load: float | None = None
    output_tokens: float | None = None
    ttft_ms: float | None = None
    tpot_ms: float | None = None


@dataclass(frozen=True)
class Estimate:
    """The ledger at the best of the given draft lengths, one row for each, and the checklist."""

    best: Row
    table: tuple[Row, ...]
    checklist: tuple[Answer, ...]

    def as_json(self) -> dict[str, object]:
        """The machine-readable answer: the figures of the best row at the top, then the table and the checklist."""
        return {
            **asdict(self.best),
            "table": [asdict(row) for row in self.table],
            "checklist": [asdict(answer) for answer in self.checklist],
        }


def survivals(acceptance: Sequence[float], gamma: int) -> list[float]:
    """S_1 … S_γ from conditional acceptances; beyond the last given one it is repeated."""
    found, survival = [], 1.0
    for position in range(gamma):
        survival *= acceptance[min(position, len(acceptance) - 1)]
        found.append(survival)
    return found


def expected_length(acceptance: Sequence[float], gamma: int) -> float:
    """E[L](γ) = 1 + Σ S_i for i up to γ, in tokens a round."""
    return 1.0 + math.fsum(survivals(acceptance, gamma))


def break_even_acceptance(length: float, gamma: int) -> float | None:
    """The equal conditional acceptance at which E[L](γ) is ``length``; 0 for up to one token, None beyond γ + 1."""
    if length <= 1.0:
        return 0.0
    if length > gamma + 1 or not math.isfinite(length):
        return None
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if expected_length([middle], gamma) < length else (low, middle)
    return (low + high) / 2


def estimate(
    acceptance: Sequence[float],
    gammas: Sequence[int],
    t0: float | None = None,
    round_times: Mapping[int, RoundTime] | None = None,
    facts: Facts | None = None,
) -> Estimate:
    """The ledger for each draft length.

    ``acceptance``: one value for all positions, or conditional values a_1, a_2, … (0 to 1). ``t0``: ms of an ordinary
    step. ``round_times``: the whole round by draft length. Raises UsageError for numbers that cannot be.
    """
    times = dict(round_times or {})
    _check(acceptance, gammas, t0, times)
    rows = tuple(_row(acceptance, gamma, t0, times.get(gamma)) for gamma in sorted(set(gammas)))
    timed = [row for row in rows if row.tpot_ms is not None]
    best = min(timed, key=lambda row: (row.tpot_ms or math.inf, row.gamma)) if timed else rows[-1]
    return Estimate(best, rows, checklist(best, t0, times.get(best.gamma), facts or Facts()))


def _row(acceptance: Sequence[float], gamma: int, t0: float | None, time: RoundTime | None) -> Row:
    survival = survivals(acceptance, gamma + 1)
    length = 1.0 + math.fsum(survival[:-1])
    row = Row(
        gamma=gamma,
        expected_length=length,
        survival=survival[gamma - 1] if gamma else 1.0,
        marginal_gain=survival[gamma],
        extrapolated=1 < len(acceptance) < gamma,
        round_time_ms=time.total if time else None,
        tpot_ms=time.total / length if time else None,
    )
    if t0 is None or time is None:
        return row
    conservative = None
    if time.draft is not None and time.verify is not None:
        conservative = length / (1 + time.draft / t0 + time.verify / t0)
    return Row(
        **{
            **asdict(row),
            "speedup": t0 * length / time.total,
            "conservative_speedup": conservative,
            "break_even_length": time.total / t0,
            "break_even_acceptance": break_even_acceptance(time.total / t0, gamma),
        }
    )


def checklist(best: Row, t0: float | None, time: RoundTime | None, facts: Facts) -> tuple[Answer, ...]:
    """The questions to ask before speculation is switched on, each answered from numbers or left open."""
    equal = break_even_acceptance(best.expected_length, best.gamma) if best.gamma else None
    draft = time.draft / t0 if time and time.draft is not None and t0 else None
    verify = time.verify / t0 if time and time.verify is not None and t0 else None
    decode = facts.tpot_ms if facts.tpot_ms is not None else t0
    share = None
    if facts.output_tokens is not None and decode is not None and facts.ttft_ms is not None:
        decode_ms = decode * max(facts.output_tokens - 1, 0)
        share = decode_ms / (decode_ms + facts.ttft_ms) if decode_ms + facts.ttft_ms > 0 else None
    low, high = VERIFY_RANGE
    return (
        _answer("Is decode the bottleneck?", share, lambda x: x > 0.5, "{:.0%} of a request's time is decode",
                "Work on prefill and queueing first."),
        _answer(f"Is the load below {BUSY_LOAD} running requests?", facts.load, lambda x: x < BUSY_LOAD,
                "{:.1f} requests run", "Speculate less, or not at all, at that load."),
        _answer(f"Is acceptance above {GOOD_ACCEPTANCE}?", equal, lambda x: x > GOOD_ACCEPTANCE,
                "equal acceptance {:.3f}", "Look for a draft that fits the target and the traffic better."),
        _break_even(equal, best),
        _answer(f"Does the draft cost less than {CHEAP_DRAFT} of an ordinary step?", draft, lambda x: x < CHEAP_DRAFT,
                "draft / T0 = {:.2f}", "Try a smaller draft, fewer candidates or a model-free method."),
        _answer(f"Are outputs longer than {LONG_OUTPUT} tokens?", facts.output_tokens, lambda x: x > LONG_OUTPUT,
                "{:.0f} output tokens", "Short outputs do not repay the first round."),
        _answer(f"Is verification within {low} to {high} of an ordinary step?",
                verify if best.gamma <= VERIFY_RANGE_GAMMA else None, lambda x: x <= high,
                "verify / T0 = {:.2f}", "Verification is dear here: fewer candidates, or a smaller batch."),
        _answer(f"Is the speedup at least {WORTH_IT}?", best.speedup, lambda x: x >= WORTH_IT,
                "speedup {:.2f}", "The gain may not be worth the complexity."),
    )  # fmt: skip


def _break_even(equal: float | None, best: Row) -> Answer:
    question = "Is acceptance above its break-even?"
    if_not = "The round costs more than the tokens it commits: shorten the draft or turn speculation off."
    if equal is None or best.break_even_length is None:
        return Answer(question, None, "not known", if_not)
    needed = best.break_even_acceptance
    if needed is None:
        return Answer(
            question, False, f"no acceptance pays: {best.break_even_length:.3f} tokens a round needed", if_not
        )
    return Answer(question, equal > needed, f"equal acceptance {equal:.3f} against {needed:.3f} needed", if_not)


def _answer(question: str, value: float | None, holds: Callable[[float], bool], wording: str, if_not: str) -> Answer:
    if value is None:
        return Answer(question, None, "not known", if_not)
    return Answer(question, holds(value), wording.format(value), if_not)


def _check(
    acceptance: Sequence[float], gammas: Sequence[int], t0: float | None, times: Mapping[int, RoundTime]
) -> None:
    if not acceptance or not all(0.0 <= value <= 1.0 for value in acceptance):
        raise UsageError("--acceptance must be one value or a comma-separated list of values from 0 to 1.")
    if not gammas or not all(0 <= gamma <= LONGEST_DRAFT for gamma in gammas):
        raise UsageError(f"--gamma must be a whole number, or a list of them, from 0 to {LONGEST_DRAFT}.")
    if t0 is not None and not (math.isfinite(t0) and t0 > 0):
        raise UsageError("--t0 must be a positive number of milliseconds.")
    for gamma, time in times.items():
        parts = [part for part in (time.draft, time.verify, time.other) if part is not None]
        if not (math.isfinite(time.total) and time.total > 0) or not all(part >= 0 for part in parts):
            raise UsageError(f"The round time of draft length {gamma} must be a positive number of milliseconds.")
