"""The figures of a capture, counted from its text in plain Python, without anything of specledger."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zstandard

SAMPLE = re.compile(r"^vllm:(\w+)(?:\{(.*)\})? (\S+)$")
ITERATION = re.compile(
    r"Iteration\((\d+)\): (\d+) context requests, (\d+) context tokens, (\d+) generation requests, "
    r"(\d+) generation tokens, iteration elapsed time: ([\d.]+) ms"
)
SPEC = re.compile(r"SpecDecoding metrics: .*?Accepted: (\d+) tokens, Drafted: (\d+) tokens")


def lines(path: Path) -> Iterator[str]:
    """The lines of a compressed text."""
    with path.open("rb") as file:
        stream = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
        for line in io.TextIOWrapper(stream, encoding="utf-8", errors="replace", newline="\n"):
            yield line.rstrip("\n")


@dataclass
class Counters:
    """What grew between the first and the last scrape; histograms as ``<name>_sum`` and ``<name>_count``."""

    grown: dict[str, float] = field(default_factory=dict)
    accepted_at: list[int] = field(default_factory=list)
    scrapes: int = 0

    def __getitem__(self, name: str) -> float:
        return self.grown[name]


def counters(path: Path) -> Counters:
    """Totals of all series of a name, last scrape less first, counters and histogram sums alike."""
    first: dict[str, float] = {}
    last: dict[str, float] = {}
    now: dict[str, float] = {}
    result = Counters()

    def close() -> None:
        if now:
            first.update({key: value for key, value in now.items() if not result.scrapes})
            last.update(now)
            result.scrapes += 1

    for line in lines(path):
        if line.startswith("# scraped_at "):
            close()
            now = {}
        elif match := SAMPLE.match(line):
            name, labels, value = match[1], match[2] or "", float(match[3])
            if name.endswith("_bucket") or name.endswith("_created"):
                continue
            position = re.search(r'position="(\d+)"', labels)
            key = f"{name}@{position[1]}" if position else name
            now[key] = now.get(key, 0.0) + value
    close()
    result.grown = {key: value - first.get(key, 0.0) for key, value in last.items() if "@" not in key}
    positions = sorted((key for key in last if "per_pos" in key), key=lambda key: int(key.split("@")[1]))
    result.accepted_at = [round(last[key] - first.get(key, 0.0)) for key in positions]
    return result


@dataclass
class Requests:
    """Sums over finished responses."""

    requests: int = 0
    output_tokens: int = 0
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    truncated: int = 0
    truncated_requests: int = 0
    server_decode_ms: float = 0.0
    client_decode_ms: float = 0.0
    request_tpot_ms: float = 0.0
    """Sum over requests of more than one token of each one's own time per token."""
    longer: int = 0

    @property
    def tokens(self) -> int:
        """Tokens after the first."""
        return self.output_tokens - self.requests


def responses(path: Path, client_step: int | None = None) -> Requests:
    """Sums over the responses of a capture, or over those of one number of clients."""
    total = Requests()
    for line in lines(path):
        envelope: dict[str, Any] = json.loads(line)
        body = envelope.get("response") or {}
        if not body.get("usage") or (client_step is not None and envelope["step"] != client_step):
            continue
        tokens = body["usage"]["completion_tokens"]
        metrics = body.get("metrics") or {}
        spec = metrics.get("speculative_decoding") or {}
        times = envelope.get("chunk_times_s") or [0.0]
        total.requests += 1
        total.output_tokens += tokens
        total.client_decode_ms += 1000 * (times[-1] - times[0])
        total.server_decode_ms += metrics.get("generation_time_ms", 0.0)
        if tokens > 1 and metrics:
            total.longer += 1
            total.request_tpot_ms += metrics["generation_time_ms"] / (tokens - 1)
        rounds, accepted = spec.get("num_spec_steps", 0), spec.get("num_accepted_draft_tokens", 0)
        total.rounds += rounds
        total.drafted += spec.get("num_draft_tokens", 0)
        total.accepted += accepted
        if spec:
            lost = 1 + rounds + accepted - tokens
            total.truncated += lost
            total.truncated_requests += lost > 0
    return total


def positions(path: Path) -> dict[int, tuple[int, int]]:
    """Rounds that drafted each position, and those of them in which it was accepted, step by step."""
    total: dict[int, tuple[int, int]] = {}
    for line in lines(path):
        metrics = (json.loads(line).get("response") or {}).get("metrics") or {}
        spec = metrics.get("speculative_decoding") or {}
        steps = zip(spec.get("per_step_drafted") or (), spec.get("per_step_accepted") or (), strict=True)
        for drafted, accepted in steps:
            for position in range(1, drafted + 1):
                rounds, hits = total.get(position, (0, 0))
                total[position] = rounds + 1, hits + (accepted >= position)
    return total


@dataclass
class Log:
    """Sums over the records of a server log."""

    iterations: int = 0
    generation_requests: int = 0
    generation_tokens: int = 0
    spec_records: int = 0
    drafted: int = 0
    accepted: int = 0
    alone: int = 0
    """Iterations without prefill at one generation request."""
    alone_ms: float = 0.0


def log(path: Path) -> Log:
    """Sums over iteration and spec records."""
    total = Log()
    for line in lines(path):
        if match := ITERATION.search(line):
            _, context_requests, context_tokens, requests, tokens = map(int, match.groups()[:5])
            total.iterations += 1
            total.generation_requests += requests
            total.generation_tokens += tokens
            if requests == 1 and context_tokens == 0 and context_requests == 0:
                total.alone += 1
                total.alone_ms += float(match[6])
        elif match := SPEC.search(line):
            total.spec_records += 1
            total.accepted += int(match[1])
            total.drafted += int(match[2])
    return total
