"""What each draft length gives at one load band: as measured where it ran, else foretold.

A length γ that did not run has T_round(γ) = T_round(γ') · model(γ) / model(γ') with the length γ' that ran most, and
L_eff(γ) = 1 + coverage · (E[L](γ) − 1) · (1 − φ) with the band's own coverage and φ. Drafts are foretold only where two
draft lengths ran: between none and one length, what drafting at all costs is not told from what each token costs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from .estimate import survivals
from .format import percent
from .interval import critical
from .round_cost import CostModel, NotPredicted, predict
from .schedule import Option

LEAST_STEPS = 100
"""A length that ran for fewer steps in a band is no evidence there."""
LEAST_PRECISION = 0.25
"""A foretold TPOT whose 95 % interval reaches further than this share of it to either side is no evidence."""
MODEL = "model"


@dataclass(frozen=True)
class Missing:
    """Why a length has no evidence at a band: in a few words, and what exactly was in the way."""

    reason: str
    detail: str | None = None

    def __str__(self) -> str:
        return self.reason if self.detail is None else f"{self.reason}: {self.detail}"


NOTHING_RAN = "nothing ran here long enough"
NO_MODEL = "did not run, and there is no round-cost model"
UNTOLD = "did not run, and the round-cost model does not tell"
NO_POSITIONS = "did not run, and the acceptance of its positions cannot be told"
TOO_ROUGH = "did not run, and is foretold too roughly"
STALLS = "ran, but its times hold stalls of preemption that cannot be told apart"
ONE_DRAFT = "one draft length does not tell what drafting at all costs from what each token costs"


@dataclass(frozen=True)
class Ratio:
    """A foretold round time over that of a length that ran, with half the width of its 95 % interval, relative."""

    value: float
    margin: float


RoundTimes = Callable[[float, int, int], Ratio | Missing]
"""Requests running, draft length, length that ran → the ratio of their round times."""


def round_times(models: Sequence[CostModel]) -> RoundTimes | None:
    """What the first model says that tells both lengths; None without any model."""
    if not models:
        return None

    def ratio(requests: float, length: int, ran: int) -> Ratio | Missing:
        answers = [_ratio(model, requests, length, ran) for model in models]
        return next((answer for answer in answers if isinstance(answer, Ratio)), answers[0])

    return ratio


def _ratio(model: CostModel, requests: float, length: int, ran: int) -> Ratio | Missing:
    if length and sum(one > 0 for one in model.lengths) < 2:
        return Missing(UNTOLD, ONE_DRAFT)
    here, there = predict(model, requests, length), predict(model, requests, ran)
    if isinstance(here, NotPredicted):
        return Missing(UNTOLD, here.reason)
    if isinstance(there, NotPredicted):
        return Missing(UNTOLD, there.reason)
    return Ratio(here.value_ms / there.value_ms, (here.upper_ms - here.value_ms) / here.value_ms)


@dataclass(frozen=True)
class Ran:
    """One length that ran at one load band, pooled over the nights."""

    length: int
    steps: float
    tokens: float
    decode_ms: float
    margin: float
    """Half the width of the 95 % interval of TPOT, relative."""
    unit: str
    of: str | None = None
    """The other deployment that ran it, ordinary decode of the same target; None where it is the one looked at."""

    @property
    def own(self) -> bool:
        return self.of is None

    @property
    def tpot_ms(self) -> float:
        return self.decode_ms / self.tokens

    @property
    def round_time_ms(self) -> float:
        return self.decode_ms / self.steps


@dataclass(frozen=True)
class Acceptance:
    """What is known of acceptance at a band, or of the whole deployment."""

    conditional: tuple[float, ...] = ()
    """a_1, a_2, … as far as drafts reached; empty where the rounds that drafted a position cannot be told."""
    rounds: float = 0.0
    coverage: float = 1.0
    truncated_share: float = 0.0

    def effective_length(self, length: int) -> float:
        """L_eff at a draft length; 1 without drafts."""
        mean = math.fsum(survivals(self.conditional, length)) if length else 0.0
        return 1.0 + self.coverage * mean * (1.0 - self.truncated_share)

    def margin(self, length: int) -> float:
        """Half the width of the 95 % interval of L_eff, relative.

        The accepted tokens of a round lie between 0 and its length, which bounds their variance.
        """
        if not length or not self.rounds:
            return 0.0
        mean = math.fsum(survivals(self.conditional, length))
        error = math.sqrt(max(mean * (length - mean), 0.0) / self.rounds)
        return critical(math.inf) * self.coverage * error / self.effective_length(length)


@dataclass(frozen=True)
class Load:
    """What a load band took and held, over all nights."""

    seconds: float = 0.0
    gpus: float | None = None
    requests: float | None = None
    """Requests decoding, the mean over steps."""
    kv_mean: float | None = None
    kv_p95: float | None = None
    kv_max: float | None = None
    kv_tokens: float | None = None
    """KV capacity of an engine."""
    gap_ms: float | None = None
    """p99 of the stream gap, of the worst night."""
    gap_lower_ms: float | None = None
    gap_upper_ms: float | None = None


def options(
    ran: Sequence[Ran], load: Load, acceptance: Acceptance, times: RoundTimes | None, longest: int
) -> tuple[list[Option], dict[int, Missing]]:
    """The lengths from 0 to ``longest`` with evidence, and why the others have none."""
    measured = {one.length: one for one in ran if one.steps >= LEAST_STEPS}
    found: list[Option] = []
    missing: dict[int, Missing] = {}
    anchor = max(measured.values(), key=lambda one: (one.own, one.steps), default=None)
    for length in sorted({*range(longest + 1), *measured}):
        if length in measured:
            found.append(_measured(measured[length]))
            continue
        foretold = _foretold(length, anchor, load, acceptance, times)
        if isinstance(foretold, Missing):
            missing[length] = foretold
        else:
            found.append(foretold)
    return [_with_side_effects(option, ran, load) for option in found], missing


def _measured(ran: Ran) -> Option:
    tpot = ran.tpot_ms
    length = ran.tokens / ran.steps
    return Option(ran.length, tpot, ran.margin * tpot, ran.round_time_ms, length, "measured", ran.of, ran.unit)


def _foretold(
    length: int, anchor: Ran | None, load: Load, acceptance: Acceptance, times: RoundTimes | None
) -> Option | Missing:
    """The option of a length that did not run, or why there is none."""
    if anchor is None or load.requests is None:
        return Missing(NOTHING_RAN)
    if times is None:
        return Missing(NO_MODEL)
    if length and not acceptance.conditional:
        return Missing(NO_POSITIONS)
    ratio = times(load.requests, length, anchor.length)
    if isinstance(ratio, Missing):
        return ratio
    round_time = anchor.round_time_ms * ratio.value
    effective = acceptance.effective_length(length)
    tpot = round_time / effective
    margin = math.hypot(ratio.margin, anchor.margin, acceptance.margin(length))
    if margin > LEAST_PRECISION:
        return Missing(TOO_ROUGH, f"the interval reaches {percent(margin)} to either side")
    beyond = length > len(acceptance.conditional)
    return Option(
        length, tpot, margin * tpot, round_time, effective, "model", unit=MODEL, extrapolated=bool(length) and beyond
    )


def _with_side_effects(option: Option, ran: Sequence[Ran], load: Load) -> Option:
    """The option with its stream gap and KV use: as seen with what ran, moved by its round time and its candidates."""
    own = [one for one in ran if one.own]
    steps = math.fsum(one.steps for one in own)
    if not steps:
        return option
    if load.gap_ms is not None and load.gap_lower_ms is not None:
        moved = option.round_time_ms - math.fsum(one.decode_ms for one in own) / steps
        upper = load.gap_upper_ms
        option = replace(
            option,
            gap_ms=max(load.gap_ms + moved, option.round_time_ms),
            gap_interval=(max(load.gap_lower_ms + moved, 0.0), None if upper is None else upper + moved),
        )
    known = (load.kv_mean, load.kv_p95, load.kv_max, load.kv_tokens, load.requests)
    if all(value is not None for value in known):
        mean, p95, most, capacity, requests = (value or 0.0 for value in known)
        before = math.fsum(one.steps * one.length for one in own) / steps
        added = requests * (option.length - before) / capacity if capacity else 0.0
        low, middle, high = (min(max(share + added, 0.0), 1.0) for share in (mean, p95, most))
        option = replace(option, kv_usage=middle, kv_interval=(low, high))
    return option
