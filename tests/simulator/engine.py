"""One engine, iteration by iteration."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from . import draw
from .world import World


@dataclass
class Request:
    """What one request is and what became of it; times in seconds since the start of the simulation."""

    id: str
    task: str
    temperature: float
    arrived: float
    prompt: int
    wanted: int
    conditional: np.ndarray
    coverage: float
    aborts_after: int | None
    scheduled: float = 0.0
    returns: list[tuple[float, int]] = field(default_factory=list)
    """Time and tokens of every return; the first one belongs to prefill."""
    steps: list[tuple[int, int]] = field(default_factory=list)
    """Draft length and accepted tokens of every step; length 0 without a draft."""
    output: int = 0
    preemptions: int = 0
    resumes: bool = False
    finished: float | None = None
    aborted: bool = False

    @property
    def rounds(self) -> int:
        return sum(drafted > 0 for drafted, _ in self.steps)

    @property
    def drafted(self) -> int:
        return sum(drafted for drafted, _ in self.steps)

    @property
    def accepted(self) -> int:
        return sum(accepted for _, accepted in self.steps)

    @property
    def first_token(self) -> float:
        return self.returns[0][0]

    @property
    def context(self) -> int:
        return self.prompt + self.output


@dataclass(frozen=True)
class Iteration:
    """One iteration as the log prints it, and the load that chose its draft length."""

    ended: float
    context_requests: int
    context_tokens: int
    generation_requests: int
    generation_tokens: int
    elapsed_ms: float
    running: int
    """Requests running when it ended."""
    waiting: int
    used_tokens: int
    preempted: int


@dataclass(frozen=True)
class Trace:
    """Everything that happened on one engine from second 0 until the last request was done or the time was up."""

    world: World
    engine: int
    requests: list[Request]
    """Every request that returned a first token, by arrival."""
    iterations: list[Iteration]
    seconds: float


def simulate(world: World, seconds: float, rng: np.random.Generator, engine: int = 0) -> Trace:
    """Run one engine while requests arrive for that many seconds, and until the last of them is done."""
    waiting = deque(_arrivals(world, seconds, rng, engine))
    seen: list[Request] = []
    queue: deque[Request] = deque()
    running: list[Request] = []
    iterations: list[Iteration] = []
    shocks = rng.normal(0.0, world.hour_shock, int(seconds // 3600) + 26)
    now, length = 0.0, int(world.length_at(1))
    while waiting or queue or running:
        if not queue and not running:
            now = max(now, waiting[0].arrived)
        while waiting and waiting[0].arrived <= now:
            queue.append(waiting.popleft())
        preempted = _make_room(world, running, queue)
        admitted = _admit(world, running, queue)
        fresh = [request for request in admitted if not request.resumes]
        resumed = [request for request in admitted if request.resumes]
        plan = [(request, _draft(request, length, rng)) for request in running]
        prefill = sum(request.prompt for request in fresh)
        verified = sum(drafted + 1 for _, drafted in plan) + sum(request.context for request in resumed)
        passes = max((drafted for _, drafted in plan), default=0)
        decoding = len(plan) + len(resumed)
        shock = shocks[int(now // 3600) % len(shocks)] + rng.normal(0.0, world.cost.noise)
        elapsed = float(world.cost.ms(decoding, verified, prefill, passes)) * float(np.exp(shock))
        started, now = now, now + elapsed / 1000
        for request in fresh:
            request.scheduled = started
            _deliver(request, now, 1)
            seen.append(request)
        for request in resumed:
            request.resumes = False
            _step(request, now, 0, 0)
        for request, drafted in plan:
            _step(request, now, drafted, _accepted(request, drafted, rng))
        running = [request for request in (*running, *admitted) if request.finished is None]
        # The draft length follows a change of the batch one iteration late, as in vLLM.
        length = int(world.length_at(max(decoding, 1)))
        iterations.append(
            Iteration(
                now, len(fresh), prefill, decoding, verified, elapsed,
                len(running), len(queue), sum(request.context for request in running), preempted,
            )
        )  # fmt: skip
    return Trace(world, engine, sorted(seen, key=lambda request: request.arrived), iterations, max(now, seconds))


def _arrivals(world: World, seconds: float, rng: np.random.Generator, engine: int) -> list[Request]:
    peak = world.arrivals_per_s * (1 + world.wave)
    times = np.cumsum(rng.exponential(1 / peak, int(peak * seconds * 1.2 + 50)))
    times = times[(times < seconds) & (rng.random(len(times)) < world.wave_at(times) * world.arrivals_per_s / peak)]
    shares = np.array([task.share for task in world.tasks])
    kinds = rng.choice(len(world.tasks), len(times), p=shares / shares.sum())
    requests = []
    for number, (arrived, kind) in enumerate(zip(times, kinds, strict=True)):
        task = world.tasks[kind]
        wanted = int(draw.tokens(rng, task.output_tokens, 1)[0])
        aborts = bool(rng.random() < world.abort_share) and wanted > 1
        requests.append(
            Request(
                id=f"req-{engine}-{number:06d}",
                task=task.name,
                temperature=task.temperature,
                arrived=float(arrived),
                prompt=int(draw.tokens(rng, task.prompt_tokens, 1)[0]),
                wanted=wanted,
                conditional=draw.conditional(rng, task, world.draft_limit, 1)[0],
                coverage=task.coverage,
                aborts_after=int(rng.integers(1, wanted)) if aborts else None,
            )
        )
    return requests


def _make_room(world: World, running: list[Request], queue: deque[Request]) -> int:
    """Throw out the youngest requests while the KV cache cannot hold what the next iteration may add."""
    thrown = 0
    while len(running) > 1 and sum(r.context + world.draft_limit + 1 for r in running) > world.kv_tokens:
        request = running.pop()
        request.preemptions += 1
        request.resumes = True
        queue.appendleft(request)
        thrown += 1
    return thrown


def _admit(world: World, running: list[Request], queue: deque[Request]) -> list[Request]:
    admitted: list[Request] = []
    used = sum(request.context + world.draft_limit + 1 for request in running)
    while queue and len(running) + len(admitted) < world.max_num_seqs:
        need = queue[0].context + world.draft_limit + 1
        if used + need > world.kv_tokens and (running or admitted):
            break
        used += need
        admitted.append(queue.popleft())
    return admitted


def _draft(request: Request, length: int, rng: np.random.Generator) -> int:
    return length if request.coverage >= 1 or rng.random() < request.coverage else 0


def _accepted(request: Request, drafted: int, rng: np.random.Generator) -> int:
    hits = rng.random(drafted) < request.conditional[:drafted]
    return int(np.cumprod(hits).sum())


def _step(request: Request, now: float, drafted: int, accepted: int) -> None:
    request.steps.append((drafted, accepted))
    _deliver(request, now, accepted + 1)


def _deliver(request: Request, now: float, tokens: int) -> None:
    given = min(tokens, request.wanted - request.output)
    request.output += given
    request.returns.append((now, given))
    if request.output == request.wanted:
        request.finished = now
    elif request.aborts_after is not None and request.output >= request.aborts_after:
        request.finished, request.aborted = now, True
