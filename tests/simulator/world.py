"""What is true in a simulated world."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

Schedule = tuple[tuple[int, int, int], ...]
"""Inclusive ranges of requests running, each with its draft length (num_speculative_tokens_per_batch_size)."""


@dataclass(frozen=True)
class Task:
    """One kind of request.

    ``conditional`` are the mean probabilities a_i that draft position i is accepted when all before it were; each
    request draws its own around them from Beta distributions of that ``concentration`` (infinite: all alike).
    """

    name: str = "chat"
    share: float = 1.0
    conditional: tuple[float, ...] = (0.75, 0.75, 0.75, 0.75, 0.75)
    concentration: float = 20.0
    coverage: float = 1.0
    """Share of steps for which the drafter proposes anything."""
    prompt_tokens: float = 300.0
    output_tokens: float = 80.0
    temperature: float = 0.0


@dataclass(frozen=True)
class RoundCost:
    """Milliseconds of one engine iteration.

    T = base + per_request · requests + per_token · verified tokens + per_prefill_token · prefill tokens
    + per_draft_pass · draft passes, and an extra for every cliff (verified tokens above which it falls due, ms).
    """

    base: float = 10.0
    per_request: float = 0.1
    per_token: float = 0.12
    per_prefill_token: float = 0.02
    per_draft_pass: float = 0.8
    cliffs: tuple[tuple[int, float], ...] = ()
    noise: float = 0.02
    """Standard deviation of the logarithm of one iteration's time."""

    def ms(
        self, requests: np.ndarray | float, verified: np.ndarray | float, prefill: float = 0.0, passes: float = 0.0
    ) -> np.ndarray | float:
        """The expected time in ms, without noise and shocks."""
        time = (
            self.base
            + self.per_request * requests
            + self.per_token * verified
            + self.per_prefill_token * prefill
            + self.per_draft_pass * passes
        )
        for above, extra in self.cliffs:
            time = time + extra * (np.asarray(verified) > above)
        return time


@dataclass(frozen=True)
class World:
    """A fleet of equal engines under one configuration.

    ``draft_length`` is a fixed K, a schedule, or 0. Arrivals are Poisson; their rate follows a daily wave around
    ``arrivals_per_s`` (``wave`` 0.5 means between half and one and a half of it), highest at 15:00 UTC.
    """

    deployment: str = "d"
    model: str = "tiny-llama"
    engines: int = 1
    tasks: tuple[Task, ...] = (Task(),)
    cost: RoundCost = RoundCost()
    draft_length: int | Schedule = 3
    arrivals_per_s: float = 1.0
    wave: float = 0.0
    mean_load: float = 8.0
    """Requests running on an engine on average; only for whole nights, where load is drawn instead of arising."""
    hour_shock: float = 0.0
    """Standard deviation of the logarithm of a factor on all that is shaken in an hour, the same for all engines."""
    night_shock: float = 0.0
    """The same for a whole night."""
    shaken: frozenset[str] = frozenset({"times"})
    """What hours and nights move: times, the acceptance of every request, or both, each on its own."""
    mix_spread: float = 0.0
    """Standard deviation of the logarithm of each task's share, drawn anew each hour."""
    max_num_seqs: int = 64
    kv_tokens: int = 200_000
    block_size: int = 16
    abort_share: float = 0.0
    vllm_version: str = "0.32.0"

    @property
    def schedule(self) -> Schedule:
        """The draft length as a schedule over all loads."""
        if isinstance(self.draft_length, int):
            return ((1, self.max_num_seqs, self.draft_length),)
        return self.draft_length

    @property
    def draft_limit(self) -> int:
        """The longest draft that can occur."""
        return max(length for _, _, length in self.schedule)

    def length_at(self, load: np.ndarray | int) -> np.ndarray:
        """The draft length that runs at a load; beyond the last range that range's."""
        loads = np.asarray(load)
        lengths = np.full(loads.shape, self.schedule[-1][2])
        for low, high, length in self.schedule:
            lengths = np.where((loads >= low) & (loads <= high), length, lengths)
        return np.where(loads < self.schedule[0][0], self.schedule[0][2], lengths)

    def wave_at(self, second: np.ndarray | float) -> np.ndarray:
        """The factor on arrivals (or load) at a second of the UTC day."""
        return 1.0 + self.wave * np.cos(2 * np.pi * (np.asarray(second) - 15 * 3600) / 86_400)

    def with_acceptance(self, factor: float) -> World:
        """The world in which every conditional acceptance is that many times as large."""
        tasks = tuple(
            replace(task, conditional=tuple(min(0.999, a * factor) for a in task.conditional)) for task in self.tasks
        )
        return replace(self, tasks=tasks)

    def with_length(self, factor: float) -> World:
        """The world whose acceptance length of like requests is that many times as long; ValueError if out of reach."""
        target = factor * self.acceptance_length()
        low, high = 0.0, 1.0 / max(max(task.conditional) for task in self.tasks)
        reach = [self.with_acceptance(end).acceptance_length() for end in (low, high)]
        if not reach[0] <= target <= reach[1]:
            raise ValueError(f"no acceptance makes the length {factor} times as long")
        for _ in range(60):
            middle = (low + high) / 2
            if self.with_acceptance(middle).acceptance_length() < target:
                low = middle
            else:
                high = middle
        return self.with_acceptance((low + high) / 2)

    def with_round_time(self, factor: float) -> World:
        """The world in which every iteration takes that many times as long."""
        cost = self.cost
        return replace(
            self,
            cost=replace(
                cost,
                base=cost.base * factor,
                per_request=cost.per_request * factor,
                per_token=cost.per_token * factor,
                per_prefill_token=cost.per_prefill_token * factor,
                per_draft_pass=cost.per_draft_pass * factor,
                cliffs=tuple((above, extra * factor) for above, extra in cost.cliffs),
            ),
        )

    def with_shares(self, *shares: float) -> World:
        """The world with another mix of the same tasks."""
        return replace(
            self, tasks=tuple(replace(task, share=share) for task, share in zip(self.tasks, shares, strict=True))
        )

    # The truth of single figures. Exact for requests that are all alike (infinite concentration): spread over requests
    # moves pooled figures a little, since requests with low acceptance need more rounds.

    def survival(self, task: Task) -> np.ndarray:
        """S_i of a task for i = 1 … the longest draft."""
        return np.cumprod(padded(task.conditional, self.draft_limit))

    def acceptance_length(self, length: int | None = None) -> float:
        """L at a draft length (by default the longest), over the tasks by the rounds that their tokens need."""
        longest = self.draft_limit if length is None else length
        tokens = rounds = 0.0
        for task in self.tasks:
            each = 1 + np.cumprod(padded(task.conditional, longest)).sum() if longest else 1.0
            tokens += task.share * task.output_tokens
            rounds += task.share * task.output_tokens / each
        return float(tokens / rounds)

    def round_time_ms(self, load: int, length: int) -> float:
        """T_round at a load and draft length, without prefill."""
        return float(self.cost.ms(load, load * (length + 1), passes=length))

    def tpot_ms(self, load: int, length: int) -> float:
        """Time per token at a load and draft length, without truncation and prefill, at full coverage."""
        return self.round_time_ms(load, length) / self.acceptance_length(length)

    def best_length(self, load: int, longest: int = 8) -> int:
        """The draft length with the least time per token; the smaller one of equals."""
        return min(range(longest + 1), key=lambda length: (self.tpot_ms(load, length), length))


def padded(conditional: tuple[float, ...], length: int) -> np.ndarray:
    """Conditional rates up to a length; positions beyond the given ones repeat the last."""
    return np.array([*conditional, *[conditional[-1]] * max(0, length - len(conditional))][:length])
