"""The correctness gate: is acceptance alive and plausible, do the identities hold, are the sides comparable, and do
greedy outputs of the same prompts agree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .format import percent
from .gates import Gate
from .interval import MIN_UNITS, Estimate, critical, detectable, lower_bound, upper_bound
from .judge import blank, decide, failed
from .model import Change, Evidence, GateResult, Habits, ReconciliationRow, Verdict
from .requests_read import Pairs

ALIVE_SHARE = 0.05
"""Acceptance of the first position below which a drafter does nothing but cost time."""
ALIVE_ROUNDS = 300
"""Rounds from which such a low acceptance is a fault of the drafter and not of the sample."""
FULL_ACCEPTANCE = 0.97
"""C / D from which a drafter is too good to be true: repeated or degenerate output is easy to draft."""
IMPLAUSIBLE_RISE = 0.15
"""Rise of L over the baseline that an unchanged drafter does not make on the same traffic."""
REPETITION_SHARE = 0.01
"""Requests ended for repetition, beyond the baseline's, that settle the matter."""
REPETITIVE_4GRAMS = 0.5
"""Mean share of distinct 4-grams below which outputs repeat themselves."""


@dataclass(frozen=True)
class Acceptance:
    """The counts that say whether a drafter is alive; ``first`` is C_1 where positions are known and add up to C."""

    rounds: float
    drafted: float
    accepted: float
    first: float | None

    @property
    def length(self) -> float | None:
        return 1 + self.accepted / self.rounds if self.rounds > 0 else None

    @property
    def alive_rounds(self) -> float:
        """Rounds whose first token was accepted; without positions at most min(C, R)."""
        return self.first if self.first is not None else min(self.accepted, self.rounds)


def acceptance_gate(
    gate: Gate,
    baseline: Acceptance,
    candidate: Acceptance,
    change: Estimate,
    habits: tuple[Habits, Habits],
    *,
    draft_changed: bool,
    origin: str | None,
) -> GateResult:
    """Alive and plausible, in one result: the first of the two that does not pass decides."""
    result = replace(
        blank(gate, None, "no_data", "The candidate ran no speculative rounds."),
        baseline=baseline.length,
        candidate=candidate.length,
        origin=origin,
        method="exact",
        n_baseline=int(baseline.rounds),
        n_candidate=int(candidate.rounds),
        unit="round",
        tolerance=ALIVE_SHARE,
        evidence_candidate=Evidence(candidate.length, None, candidate.alive_rounds, candidate.rounds),
    )
    if candidate.rounds <= 0:
        return result
    verdict, reason, code = _alive(candidate, gate)
    if verdict == "pass":
        verdict, reason, code = _plausible(baseline, candidate, change, habits, gate, draft_changed=draft_changed)
    return replace(result, verdict=verdict, reason=reason, reason_code=code)


def _alive(candidate: Acceptance, gate: Gate) -> tuple[Verdict, str, str | None]:
    upper = upper_bound(candidate.alive_rounds, candidate.rounds)
    counted = f"{candidate.alive_rounds:,.0f} of {candidate.rounds:,.0f} rounds had their first token accepted"
    if candidate.rounds >= ALIVE_ROUNDS:
        if upper < ALIVE_SHARE:
            reason = f"Acceptance is dead: {counted}, at most {percent(upper)} at 95 % confidence."
            return failed(gate.severity), reason, "dead"
        return "pass", f"Acceptance is alive and plausible: {counted}.", None
    if lower_bound(candidate.alive_rounds, candidate.rounds) >= ALIVE_SHARE:
        return "pass", f"Acceptance is alive and plausible: {counted}.", None
    return (
        "inconclusive",
        f"Too few rounds to tell: {counted}, at most {percent(upper)} at 95 % confidence.",
        "few_rounds",
    )


def _plausible(
    baseline: Acceptance,
    candidate: Acceptance,
    change: Estimate,
    habits: tuple[Habits, Habits],
    gate: Gate,
    *,
    draft_changed: bool,
) -> tuple[Verdict, str, str | None]:
    suspicion = None
    rate = candidate.accepted / candidate.drafted if candidate.drafted > 0 else 0.0
    if rate >= FULL_ACCEPTANCE:
        suspicion = f"{percent(rate)} of the draft tokens were accepted"
    elif _risen(change) and not draft_changed and baseline.rounds > 0:
        suspicion = f"acceptance length is {percent(change.change)} above the baseline at an unchanged drafter"
    if suspicion is None:
        return "pass", _alive(candidate, gate)[1], None
    repeated = _repetition(*habits)
    if repeated:
        return failed(gate.severity), f"Too good to be true: {suspicion}, and {repeated}.", "implausible"
    return "inconclusive", f"Too good to be true: {suspicion}; look for repeated output first.", "implausible"


def _risen(change: Estimate) -> bool:
    """Whether L rose implausibly, and the rise is no chance."""
    if change.change is None or change.change <= IMPLAUSIBLE_RISE:
        return False
    return change.interval is None or change.interval[0] > 0


def _repetition(before: Habits, after: Habits) -> str | None:
    """What shows that the candidate's outputs repeat themselves."""
    ended = after.repetition
    if ended is not None and ended - (before.repetition or 0.0) >= REPETITION_SHARE:
        return f"{percent(ended)} of its requests ended for repetition"
    distinct = after.distinct_4grams
    if distinct is not None and distinct < REPETITIVE_4GRAMS and distinct < (before.distinct_4grams or 1.0):
        return f"only {percent(distinct)} of its 4-grams are distinct"
    return None


def identities_gate(gate: Gate, rows: Sequence[ReconciliationRow]) -> GateResult:
    """Whether the account closes: fails on the candidate's side, warns where only the baseline's does not."""
    checked = {side: [row for row in rows if row.side == side and row.verdict != "no_data"] for side in _SIDES}
    broken = {side: [row for row in checked[side] if row.verdict == "fail"] for side in _SIDES}
    result = replace(
        blank(gate, None, "no_data", "No identity could be checked."),
        baseline=float(len(broken["baseline"])),
        candidate=float(len(broken["candidate"])),
        n_baseline=len(checked["baseline"]),
        n_candidate=len(checked["candidate"]),
        unit="check",
        method="exact",
        origin="reconciliation",
    )
    if broken["candidate"]:
        return replace(
            result, verdict=failed(gate.severity), reason=f"The account does not close: {_named(broken['candidate'])}."
        )
    if broken["baseline"]:
        reason = f"The account of the baseline does not close: {_named(broken['baseline'])}."
        return replace(result, verdict="warn", reason=reason)
    if not checked["candidate"]:
        return result
    return replace(
        result, verdict="pass", reason=f"All {len(checked['candidate'])} identities that could be checked hold."
    )


_SIDES = ("baseline", "candidate")


def _named(rows: Sequence[ReconciliationRow]) -> str:
    names = list(dict.fromkeys(row.check_name for row in rows))
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"{shown} ({len(rows)} time{'s' if len(rows) > 1 else ''})"


def comparability_gate(
    gate: Gate, changes: Sequence[Change], habits: tuple[Habits, Habits], *, known: bool, two_sided: bool
) -> GateResult:
    """Whether sampling and cache history are the same; changed start-up records are stated, not judged."""
    result = replace(blank(gate, None, "no_data", "Nothing is known of how the requests were sampled."), method="exact")
    if not two_sided:
        return replace(result, reason="One side has no nights that could be like those of the other.")
    before, after = (side.greedy for side in habits)
    if before is not None and after is not None and {before, after} == {0.0, 1.0}:
        reason = "One side samples and the other is greedy."
        return replace(result, verdict="not_comparable", reason=reason, reason_code="sampling")
    shifted = [change for change in changes if change.kind in {"sampling", "traffic"}]
    if shifted:
        named = ", ".join(f"{change.what} ({change.baseline} to {change.candidate})" for change in shifted)
        return replace(result, verdict="warn", reason=f"The sides differ in {named}.")
    if not known and before is None and after is None:
        return result
    return replace(result, verdict="pass", reason="Sampling, cache use and lengths are alike as far as they are known.")


def paired_gate(gate: Gate, pairs: Pairs, itself: Pairs, *, target_changed: bool) -> GateResult:
    """Whether greedy outputs of the same prompts agree as often as the baseline agrees with itself."""
    result = replace(
        blank(gate, None, "no_data", "No prompt has a hashed greedy output on both sides (ingest with --hash-text)."),
        method="difference",
        unit="pair",
        origin="requests",
        n_baseline=itself.pairs,
        n_candidate=pairs.pairs,
    )
    if target_changed:
        return replace(result, verdict="not_comparable", reason="The target changed, so its outputs may.")
    if pairs.pairs == 0:
        return result
    rate = pairs.differing / pairs.pairs
    where = "" if pairs.first_divergence is None else f", typically within {pairs.first_divergence} tokens"
    counted = f"{pairs.differing:,} of {pairs.pairs:,} outputs differ{where}"
    result = replace(result, candidate=rate)
    if itself.pairs == 0:
        if pairs.differing == 0 and pairs.pairs >= MIN_UNITS:
            return replace(result, verdict="pass", reason=f"{counted}.")
        reason = f"{counted}, and the baseline has no repeated prompts to hold that against."
        return replace(result, verdict="inconclusive", reason=reason, reason_code="few_units")
    own = itself.differing / itself.pairs
    interval = difference_of_shares(itself.differing, itself.pairs, pairs.differing, pairs.pairs)
    error = (interval[1] - interval[0]) / (2 * critical(math.inf))
    result = replace(result, baseline=own, change=rate - own, interval=interval, detectable=detectable(error, math.inf))
    if min(itself.pairs, pairs.pairs) < MIN_UNITS:
        return replace(
            result, verdict="inconclusive", reason=f"{counted}: too few to judge by.", reason_code="few_units"
        )
    decided = decide(interval, gate.tolerance or 0.0, upwards=True)
    verdict = failed(gate.severity) if decided == "fail" else decided
    return replace(result, verdict=verdict, reason=f"{counted}; the baseline against itself: {percent(own)}.")


def difference_of_shares(k0: int, n0: int, k1: int, n1: int) -> tuple[float, float]:
    """95 % interval of k1 / n1 − k0 / n0 (Newcombe's hybrid of Wilson intervals)."""
    (low0, high0), (low1, high1) = (_wilson(k, n) for k, n in ((k0, n0), (k1, n1)))
    p0, p1 = k0 / n0, k1 / n1
    return (
        p1 - p0 - math.hypot(p1 - low1, high0 - p0),
        p1 - p0 + math.hypot(high1 - p1, p0 - low0),
    )


def _wilson(successes: int, trials: int) -> tuple[float, float]:
    z = critical(math.inf)
    share, shrink = successes / trials, 1 + z * z / trials
    middle = (share + z * z / (2 * trials)) / shrink
    half = z / shrink * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    return middle - half, middle + half
