"""Writes server logs from random facts: every record, every wording, behind every prefix, and what must be read back.

Nothing here is shared with the reader; the formats are those that vLLM prints.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import zoneinfo
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

WORDINGS = ("0.8.3", "0.8.5", "0.9", "0.10.2")
TRAP = (
    "(APIServer pid=1) INFO 09-14 09:00:00 [metrics.py:101] SpecDecoding metrics: Mean acceptance length: 2.91, "
    "Accepted throughput: 14.70 tokens/s, Drafted throughput: 23.10 tokens/s, Accepted: 147 tokens, "
    "Drafted: 231 tokens, Per-position acceptance rate: 0.844, 0.662, 0.403, Avg Draft acceptance rate: 63.6%"
)


@dataclass(frozen=True)
class Window:
    """The rounds of one window: how many, what they drafted and what of it was accepted."""

    rounds: int
    drafted: int
    accepted_at: tuple[int, ...]

    @property
    def accepted(self) -> int:
        return sum(self.accepted_at)


def window(random: Random, limit: int, most: int = 3_000, *, fixed: bool | None = None) -> Window:
    """A random window of a drafter that proposes up to ``limit`` tokens, always as many if ``fixed``."""
    rounds = max(1, int(most ** random.random()))
    fixed = random.random() < 0.5 if fixed is None else fixed
    first, later = random.random() ** 0.5, random.random()
    accepted_at = [0] * limit
    drafted = 0
    for _ in range(rounds):
        length = limit if fixed else random.randint(1, limit)
        drafted += length
        accepted = 0
        while accepted < length and random.random() < (later if accepted else first):
            accepted_at[accepted] += 1
            accepted += 1
    return Window(rounds, drafted, tuple(accepted_at))


def spec_message(rounds: Window | None, wording: str, limit: int, seconds: float = 10.0, extra: str = "") -> str:
    """A spec record; ``rounds`` None is a window without any."""
    if rounds is None:
        accepted, drafted, rate, length, positions = 0, 0, "nan", "nan", ", ".join(["nan"] * limit)
    else:
        accepted, drafted = rounds.accepted, rounds.drafted
        rate = f"{accepted / drafted * 100:.1f}" if drafted else "nan"
        ratio = accepted / rounds.rounds
        length = f"{ratio if wording == '0.8.5' else 1 + ratio:.2f}"
        positions = ", ".join(f"{count / rounds.rounds:.3f}" for count in rounds.accepted_at)
    if wording == "0.8.3":
        said = f"Draft acceptance rate: {rate}%, Accepted: {accepted} tokens, Drafted: {drafted} tokens"
    elif wording == "0.10.2":
        said = (
            f"Mean acceptance length: {length}, {extra}Accepted throughput: {accepted / seconds:.2f} tokens/s, "
            f"Drafted throughput: {drafted / seconds:.2f} tokens/s, Accepted: {accepted} tokens, "
            f"Drafted: {drafted} tokens, Per-position acceptance rate: {positions}, Avg Draft acceptance rate: {rate}%"
        )
    else:
        said = (
            f"Draft acceptance rate: {rate}%, Mean acceptance length: {length}, Accepted: {accepted} tokens, "
            f"Drafted: {drafted} tokens, Per-position acceptance rate: {positions}"
        )
    return f"SpecDecoding metrics: {said}"


@dataclass(frozen=True)
class Stats:
    """One stats record; figures as they are printed."""

    engine: int
    prompt_tps: str
    generation_tps: str
    running: int
    waiting: int
    kv_usage: str
    prefix_hit_rate: str | None
    deferred: int | None = None
    preemptions: int | None = None
    external: str | None = None
    engines: int | None = None
    device: str = "GPU"

    def message(self) -> str:
        head = f"Engine {self.engine:03d}: " if self.engines is None else f"{self.engines} Engines Aggregated: "
        parts = [
            f"Avg prompt throughput: {self.prompt_tps} tokens/s",
            f"Avg generation throughput: {self.generation_tps} tokens/s",
            f"Running: {self.running} reqs",
            f"Waiting: {self.waiting} reqs",
            *([f"Deferred: {self.deferred} reqs"] if self.deferred is not None else []),
            *([f"Preemptions: {self.preemptions}"] if self.preemptions is not None else []),
            f"{self.device} KV cache usage: {self.kv_usage}%",
            *([f"Prefix cache hit rate: {self.prefix_hit_rate}%"] if self.prefix_hit_rate is not None else []),
            *([f"External prefix cache hit rate: {self.external}%"] if self.external is not None else []),
        ]
        return head + ", ".join(parts)

    def row(self) -> dict[str, Any]:
        return {
            "engine": self.engine if self.engines is None else None,
            "engines": self.engines,
            "prompt_tps": float(self.prompt_tps),
            "generation_tps": float(self.generation_tps),
            "running": float(self.running),
            "waiting": float(self.waiting),
            "kv_usage": float(f"{self.kv_usage}e-2"),
            "prefix_hit_rate": None if self.prefix_hit_rate is None else float(f"{self.prefix_hit_rate}e-2"),
            "preemptions": self.preemptions,
        }


def stats(random: Random, engine: int = 0) -> Stats:
    """A random stats record."""
    return Stats(
        engine,
        f"{random.choice([0, 1]) * random.random() * 10 ** random.randint(0, 5):.1f}",
        f"{random.random() * 10 ** random.randint(0, 5):.1f}",
        random.randint(0, 300),
        random.choice([0, 0, random.randint(1, 5000)]),
        f"{random.random() * 100:.1f}",
        f"{random.random() * 100:.1f}" if random.random() < 0.8 else None,
        random.randint(1, 99) if random.random() < 0.2 else None,
        random.randint(1, 999) if random.random() < 0.1 else None,
        f"{random.random() * 100:.1f}" if random.random() < 0.2 else None,
        random.randint(2, 16) if random.random() < 0.1 else None,
        random.choice(["GPU", "GPU", "CPU", "TPU"]),
    )


@dataclass(frozen=True)
class Iteration:
    """One iteration record."""

    engine: int
    iteration: int
    context_requests: int
    context_tokens: int
    generation_requests: int
    generation_tokens: int
    elapsed_ms: str
    dummy: bool
    kv_usage: str | None
    named: bool = True
    """Whether the record names its engine; older ones do not."""

    def message(self) -> str:
        head = f"Engine {self.engine:03d}: " if self.named else ""
        tail = f", GPU KV cache usage: {self.kv_usage}%" if self.kv_usage is not None else ""
        return (
            f"{head}Iteration({self.iteration}): {self.context_requests} context requests, "
            f"{self.context_tokens} context tokens, {self.generation_requests} generation requests, "
            f"{self.generation_tokens} generation tokens, iteration elapsed time: {self.elapsed_ms} ms"
            f"{' (dummy)' if self.dummy else ''}{tail}"
        )

    def row(self) -> dict[str, Any]:
        return {
            "engine": self.engine if self.named else 0,
            "iteration": self.iteration,
            "context_requests": self.context_requests,
            "context_tokens": self.context_tokens,
            "generation_requests": self.generation_requests,
            "generation_tokens": self.generation_tokens,
            "elapsed_ms": float(self.elapsed_ms),
            "kv_usage": None if self.kv_usage is None else float(f"{self.kv_usage}e-2"),
            "dummy": self.dummy,
        }


@dataclass
class OldEngine:
    """What a V0 engine prints of itself: instants, and totals since its start."""

    limit: int
    drafted: int = 0
    accepted: int = 0
    emitted: int = 0

    def stats(self, random: Random) -> tuple[str, dict[str, Any]]:
        """A stats record, and its row."""
        prompt, generation, use = random.random() * 1e4, random.random() * 1e3, random.random() * 100
        running, pending = random.randint(0, 256), random.randint(0, 999)
        message = (
            f"Avg prompt throughput: {prompt:.1f} tokens/s, Avg generation throughput: {generation:.1f} tokens/s, "
            f"Running: {running} reqs, Swapped: {random.randint(0, 9)} reqs, Pending: {pending} reqs, "
            f"GPU KV cache usage: {use:.1f}%, CPU KV cache usage: {random.random() * 100:.1f}%."
        )
        return message, {
            "engine": 0,
            "prompt_tps": float(f"{prompt:.1f}"),
            "generation_tps": float(f"{generation:.1f}"),
            "running": float(running),
            "waiting": float(pending),
            "kv_usage": float(f"{use:.1f}e-2"),
        }

    def totals(self, random: Random) -> tuple[str, dict[str, Any]]:
        """A spec record after some more rounds, and what it adds to the row of its stats record."""
        rounds = random.randint(0, 500)
        self.drafted += rounds * self.limit
        self.accepted += random.randint(0, rounds * self.limit)
        self.emitted += random.randint(rounds, rounds * (self.limit + 1))
        twice = random.choice(["", " tokens"])
        rate = self.accepted / self.drafted if self.drafted else math.nan
        message = (
            f"Speculative metrics: Draft acceptance rate: {rate:.3f}, System efficiency: {random.random():.3f}, "
            f"Number of speculative tokens: {self.limit}, Number of accepted tokens: {self.accepted}, "
            f"Number of draft tokens{twice}: {self.drafted}, Number of emitted tokens{twice}: {self.emitted}."
        )
        return message, {
            "drafted": self.drafted,
            "accepted": self.accepted,
            "emitted": self.emitted,
            "draft_limit": self.limit,
            "wording": "V0",
            "cumulative": True,
        }

    def stages(self, random: Random) -> tuple[str, dict[str, Any]]:
        """A record of stage times, and its row."""
        names = ("proposal_ms", "scoring_ms", "verification_ms")
        times = {name: f"{random.random() * 10 ** random.randint(0, 3):.2f}" for name in names}
        message = (
            f"SpecDecodeWorker stage times: average_time_per_proposal_tok_ms={times['proposal_ms']} "
            f"scoring_time_ms={times['scoring_ms']} verification_time_ms={times['verification_ms']}"
        )
        return message, {"engine": 0, **{name: float(text) for name, text in times.items()}}


def iteration(random: Random, number: int, engine: int = 0) -> Iteration:
    """A random iteration record."""
    return Iteration(
        engine,
        number,
        random.choice([0, 0, random.randint(1, 9)]),
        random.choice([0, 0, random.randint(1, 20_000)]),
        random.randint(0, 300),
        random.randint(0, 4_000),
        f"{random.random() * 10 ** random.randint(0, 4):.2f}",
        random.random() < 0.1,
        f"{random.random() * 100:.1f}" if random.random() < 0.8 else None,
        random.random() < 0.8,
    )


@dataclass(frozen=True)
class Record:
    """A message with what stands in front of it."""

    at: dt.datetime
    """Local time of the server."""
    message: str
    process: str | None = "APIServer pid=1"
    level: str = "INFO"
    source: str = "loggers.py:123"
    old: bool = False
    """Whether the V0 engine prints it, which leaves out the first bracket."""

    @property
    def place(self) -> str:
        return f"{self.source}]" if self.old else f"[{self.source}]"

    def header(self) -> str:
        process = f"({self.process}) " if self.process else ""
        return f"{process}{self.level} {self.at:%m-%d %H:%M:%S} {self.place} "

    def line(self) -> str:
        return self.header() + self.message


Written = Iterator[str]
Wrap = Callable[[Random, Record, dt.datetime], list[str]]
"""Lines for a record; the third argument is its instant in UTC."""


def bare(random: Random, record: Record, instant: dt.datetime) -> list[str]:
    return [record.line()]


def compose(random: Random, record: Record, instant: dt.datetime) -> list[str]:
    return [f"vllm-1  | {record.line()}"]


def word(random: Random, record: Record, instant: dt.datetime) -> list[str]:
    return [f"inference {record.line()}"]


def nested(random: Random, record: Record, instant: dt.datetime) -> list[str]:
    return [f"(MapWorker(Stage(Udf)) pid=412, ip=192.0.2.7) {record.line()}"]


def journald(random: Random, record: Record, instant: dt.datetime) -> list[str]:
    return [f"{record.at:%b %d %H:%M:%S} node-1 vllm[991]: {record.line()}"]


def progress(random: Random, record: Record, instant: dt.datetime) -> list[str]:
    return [f"\rLoading: 50% | 2/4 \rLoading: 100% | 4/4 [00:03<00:00,  1.31it/s]{record.line()}"]


def _coloured(record: Record, escape: str) -> list[str]:
    process = f"{escape}[0;36m({record.process}){escape}[0;0m " if record.process else ""
    time = f"{escape}[90m{record.at:%m-%d %H:%M:%S}{escape}[0m"
    source = f"{escape}[90m{record.place}{escape}[0m"
    return [f"{process}{escape}[32m{record.level}{escape}[0m {time} {source} {record.message}"]


def escapes(random: Random, record: Record, instant: dt.datetime) -> list[str]:
    return _coloured(record, "\x1b")


def carets(random: Random, record: Record, instant: dt.datetime) -> list[str]:
    return _coloured(record, "^[")


def stripped(random: Random, record: Record, instant: dt.datetime) -> list[str]:
    return _coloured(record, "")


def _outer(random: Random, instant: dt.datetime, digits: int, zone: str) -> str:
    offset = {"Z": dt.timedelta(0), "+02:00": dt.timedelta(hours=2), "-07:00": dt.timedelta(hours=-7)}[zone]
    fraction = "".join(random.choice("0123456789") for _ in range(digits))
    return f"{instant + offset:%Y-%m-%dT%H:%M:%S}.{fraction}{zone}"


def outer3(random: Random, record: Record, instant: dt.datetime) -> list[str]:
    return [f"{_outer(random, instant, 3, '+02:00')} | {record.line()}"]


def outer9(random: Random, record: Record, instant: dt.datetime) -> list[str]:
    return [f"{_outer(random, instant, 9, '-07:00')} {record.line()}"]


def outer6(random: Random, record: Record, instant: dt.datetime) -> list[str]:
    return [f"vllm-1 | {_outer(random, instant, 6, 'Z')} {record.line()}"]


def _pieces(random: Random, text: str) -> list[str]:
    cuts = sorted(random.randint(1, max(1, len(text) - 1)) for _ in range(random.choice([0, 0, 1, 2])))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def cri(random: Random, record: Record, instant: dt.datetime) -> list[str]:
    pieces = _pieces(random, record.line())
    lines = []
    for number, piece in enumerate(pieces):
        lines.append(f"{_outer(random, instant, 9, 'Z')} stdout {'F' if piece is pieces[-1] else 'P'} {piece}")
        if number < len(pieces) - 1 and random.random() < 0.5:
            lines.append(f"{_outer(random, instant, 9, 'Z')} stderr F a line of the other stream")
    return lines


def docker(random: Random, record: Record, instant: dt.datetime) -> list[str]:
    pieces = _pieces(random, record.line() + "\n")
    separators = random.choice([(",", ":"), (", ", ": ")])
    return [
        json.dumps({"log": piece, "stream": "stderr", "time": _outer(random, instant, 9, "Z")}, separators=separators)
        for piece in pieces
    ]


def json_record(random: Random, record: Record, instant: dt.datetime) -> list[str]:
    name, _, pid = (record.process or "APIServer pid=1").partition(" pid=")
    return [
        json.dumps(
            {
                "asctime": f"{record.at:%Y-%m-%d %H:%M:%S},000",
                "levelname": record.level,
                "name": "vllm",
                "process": int(pid),
                "message": record.message,
                "vllm_process_name": name,
            }
        )
    ]


WRAPS: dict[str, Wrap] = {
    wrap.__name__: wrap
    for wrap in (
        bare, compose, word, nested, journald, progress, escapes, carets, stripped,
        outer3, outer6, outer9, cri, docker, json_record,
    )
}  # fmt: skip
ZONED = {"outer3", "outer6", "outer9", "cri", "docker"}
"""Prefixes that tell the zone."""
DATED = {*ZONED, "json_record"}
"""Prefixes that tell the year."""

NOISE = (
    'INFO:     127.0.0.1:36404 - "GET /metrics HTTP/1.1" 200 OK',
    "Triton is installed, but doesn't include CPU backend. Disabling Triton.",
    "\u00e9\u00e8 caf\u00e9 \u4f60\u597d",
    "",
)


@dataclass
class Log:
    """A log and what must be read from it."""

    content: bytes
    options: dict[str, Any]
    log_stats: list[dict[str, Any]] = field(default_factory=list)
    truths: list[int | None] = field(default_factory=list)
    """The number of rounds behind each row of ``log_stats``; None without any."""
    iterations: list[dict[str, Any]] = field(default_factory=list)
    requests: int = 0


def write(random: Random, *, wrap: str | None = None, records: int | None = None, zone: str | None = None) -> Log:
    """A random log of one server behind one prefix, in a random zone."""
    wrap = wrap or random.choice(list(WRAPS))
    zone = zone or random.choice(["UTC", "Europe/Berlin", "America/Los_Angeles", "Asia/Kolkata"])
    at = dt.datetime(2026, random.randint(1, 12), random.randint(1, 28), random.randint(4, 22), random.randint(0, 59))
    if random.random() < 0.2:
        at = dt.datetime(2026, 12, 31, 23, 58)
    limit = random.randint(1, 24)
    wording = random.choice(WORDINGS)
    engines = random.choice([1, 1, 1, 2, 3])
    process = random.choice(["APIServer pid=1", "APIServer_0 pid=77"]) if wording == "0.10.2" else None
    process = "APIServer pid=1" if wrap in ("json_record", "nested") else process
    options: dict[str, Any] = {} if wrap in DATED else {"year": 2026}
    if wrap not in ZONED or random.random() < 0.3:
        options["timezone"] = zone
    log = Log(b"", options)
    lines: list[str] = []
    end = "\r\n" if random.random() < 0.2 else "\n"

    def put(record: Record) -> None:
        if random.random() < 0.15 and wrap in ("bare", "compose", "journald"):
            lines.append(random.choice(NOISE))
        lines.extend(WRAPS[wrap](random, record, _instant(record.at, zone)))

    def moment() -> dict[str, Any]:
        return {"logged_at": _instant(at, zone), "process": process}

    for number in range(records if records is not None else random.randint(1, 12)):
        at += dt.timedelta(seconds=random.choice([0, 1, 5, 10, 10, 300]))
        if not number and "year" in options:
            options["year"] = at.year
        kind = random.choice(["stats", "stats", "stats", "iteration", "request"])
        if kind == "iteration":
            found = iteration(random, number, random.randrange(engines))
            put(Record(at, found.message(), process, source="loggers.py:199"))
            log.iterations.append(moment() | found.row())
        elif kind == "request":
            put(Record(at, _request(random, number), process, source="request_logger.py:65"))
            log.requests += 1
        else:
            for engine in range(engines):
                at += dt.timedelta(seconds=3)  # else several stats records may look like one run
                said = stats(random, engine)
                put(Record(at, said.message(), process))
                rounds = window(random, limit, 300) if random.random() < 0.8 else None
                extra = random.choice(["", "Drafting depth in use: 3, "]) if wording == "0.10.2" else ""
                message = spec_message(rounds, wording, limit, 10.0, extra)
                put(Record(at, message, process, source="metrics.py:101"))
                row = moment() | said.row()
                row |= {"drafted": rounds.drafted if rounds else 0, "accepted": rounds.accepted if rounds else 0}
                row |= {"wording": wording if rounds or wording in ("0.8.3", "0.10.2") else None, "cumulative": False}
                row |= _survival(rounds, wording)
                log.log_stats.append(row)
                log.truths.append(rounds.rounds if rounds else None)
    log.content = end.join([*lines, ""]).encode()
    return log


def write_old(random: Random, *, wrap: str | None = None, records: int | None = None) -> Log:
    """A random log of one V0 engine behind one prefix."""
    wrap = wrap or random.choice([name for name in WRAPS if name not in ("json_record", "nested")])
    at = dt.datetime(2026, random.randint(1, 12), random.randint(1, 28), random.randint(4, 20))
    options: dict[str, Any] = {} if wrap in DATED else {"year": 2026}
    log = Log(b"", options | {"timezone": "UTC"})
    engine = OldEngine(random.randint(1, 8))
    lines: list[str] = []
    for _ in range(records if records is not None else random.randint(1, 12)):
        at += dt.timedelta(seconds=random.choice([3, 5, 10, 300]))
        stages = random.random() < 0.2
        message, row = engine.stages(random) if stages else engine.stats(random)
        lines.extend(WRAPS[wrap](random, Record(at, message, None, source="metrics.py:295", old=True), at))
        if not stages and random.random() < 0.8:
            said, more = engine.totals(random)
            lines.extend(WRAPS[wrap](random, Record(at, said, None, source="metrics.py:316", old=True), at))
            row |= more
        log.log_stats.append({"logged_at": at, **row})
    log.content = "".join(f"{line}\n" for line in lines).encode()
    return log


def _survival(rounds: Window | None, wording: str) -> dict[str, Any]:
    if rounds is None or wording == "0.8.3":
        return {"survival": None, "printed_length": None}
    ratio = rounds.accepted / rounds.rounds
    return {
        "survival": [float(f"{count / rounds.rounds:.3f}") for count in rounds.accepted_at],
        "printed_length": float(f"{ratio if wording == '0.8.5' else 1 + ratio:.2f}"),
    }


def _request(random: Random, number: int) -> str:
    prompt = random.choice(["", f"prompt: {TRAP!r}, ", "prompt: 'params: SamplingParams(temperature=9.9)', "])
    return (
        f"Received request cmpl-{random.getrandbits(64):016x}-{number}: {prompt}params: SamplingParams(n=1, "
        f"temperature={random.choice(['0.0', '0.7'])}, top_p=1.0, seed=None, stop=['secret'], "
        f"max_tokens={random.randint(1, 4096)}, min_tokens=0), lora_request: None."
    )


def _instant(local: dt.datetime, zone: str) -> dt.datetime:
    return local.replace(tzinfo=zoneinfo.ZoneInfo(zone)).astimezone(dt.UTC).replace(tzinfo=None)
