"""Random facts of servers, and a writer of both text formats that says them in every way the formats allow."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from random import Random
from typing import Any

COUNTERS = {
    "rounds": ["spec_decode_num_drafts"],
    "drafted": ["spec_decode_num_draft_tokens"],
    "accepted": ["spec_decode_num_accepted_tokens"],
    "prompt_tokens": ["prompt_tokens"],
    "generation_tokens": ["generation_tokens"],
    "preemptions": ["num_preemptions"],
    "prefix_queries": ["gpu_prefix_cache_queries", "prefix_cache_queries"],
    "prefix_hits": ["gpu_prefix_cache_hits", "prefix_cache_hits"],
}
GAUGES = {
    "running": ["num_requests_running"],
    "waiting": ["num_requests_waiting"],
    "kv_usage": ["gpu_cache_usage_perc", "kv_cache_usage_perc"],
}
HISTOGRAMS = {
    "itl": ["time_per_output_token_seconds", "inter_token_latency_seconds"],
    "ttft": ["time_to_first_token_seconds"],
    "queue": ["time_in_queue_requests", "request_queue_time_seconds"],
    "iteration_tokens": ["iteration_tokens_total"],
}
ALPHABET = "ab0-_/ \"\\\n{}=,#é'"


@dataclass
class Engine:
    """What one engine says at one time, by column of ``snapshots``."""

    engine: int
    model_name: str
    columns: dict[str, Any] = field(default_factory=dict)


@dataclass
class Facts:
    """One scrape: its engines and series that nobody knows."""

    engines: list[Engine]
    others: dict[tuple[str, tuple[tuple[str, str], ...]], float]


def expected(facts: Facts) -> dict[tuple[int, str], dict[str, Any]]:
    """The columns of each row, by engine and model."""
    return {(engine.engine, engine.model_name): engine.columns for engine in facts.engines}


def stated(row: dict[str, Any]) -> dict[str, Any]:
    """What a row says of the engine."""
    where = {"input", "byte_offset", "scraped_at", "instance", "engine", "model_name"}
    return {name: value for name, value in row.items() if name not in where and value is not None}


def draw(random: Random) -> Facts:
    """Random facts of one scrape."""
    engines = [
        Engine(number, model, _columns(random))
        for number in random.sample(range(12), random.randint(1, 3))
        for model in sorted({_word(random) for _ in range(random.randint(1, 2))})
    ]
    others = {
        (f"novel_{random.randrange(5)}", (("engine", "0"), ("note", _word(random)))): random.choice(
            [0.0, -1.5, 2e300, math.inf, 123456.789]
        )
        for _ in range(random.randint(0, 4))
    }
    return Facts(engines, others)


def _columns(random: Random) -> dict[str, Any]:
    columns: dict[str, Any] = {"running": float(random.randint(0, 64))}
    for name in COUNTERS:
        if random.random() < 0.8:
            columns[name] = random.choice([0, random.randint(0, 10**6), random.randint(0, 2**53)])
    if "rounds" in columns:
        columns["accepted_at"] = [random.randint(0, 10**7) for _ in range(random.randint(1, 8))]
    columns["finished"] = {
        reason: random.randint(0, 999) for reason in random.sample(["stop", "length", _word(random)], 2)
    }
    columns["kv_usage"] = random.choice([0.0, 1.0, random.random()])
    for name in HISTOGRAMS:
        if random.random() < 0.8:
            edges = sorted(
                {round(random.random() * 10 ** random.randint(-2, 3), 6) for _ in range(random.randint(0, 9))}
            )
            count, counts = 0, []
            for _ in range(len(edges) + 1):
                count += random.randint(0, 10**6)
                counts.append(count)
            columns[name] = {"le": [*edges, math.inf], "n": counts, "sum": random.random() * 1e6, "count": count}
    return columns


def _word(random: Random) -> str:
    return "".join(random.choice(ALPHABET) for _ in range(random.randint(1, 12)))


def write(facts: Facts, random: Random, *, openmetrics: bool = False) -> str:
    """The facts as text, in an order, under a prefix and with numbers as any server might write them."""
    lines: list[tuple[str, str, dict[str, str], str]] = []  # family, suffix, labels, value
    prefix = random.choice(["vllm:", "ray_vllm_"])
    sample_prefix = "vllm_" if openmetrics else prefix
    for engine in facts.engines:
        own = {"engine": str(engine.engine), "model_name": engine.model_name}
        for column, value in engine.columns.items():
            lines += _lines(column, value, own, random)
    for (name, labels), value in facts.others.items():
        lines.append((name, "", dict(labels), _number(value, random)))
    families: dict[str, list[str]] = {}
    stamp = random.choice([None, None, 1789372800123])
    for family, suffix, labels, value in lines:
        tail = f" {stamp / 1000 if openmetrics else stamp}" if stamp else ""
        text = f"{sample_prefix}{family}{suffix}{_labels(labels, random)}{random.choice([' ', ' ', '  '])}{value}{tail}"
        families.setdefault(family, []).append(text)
    order = list(families)
    random.shuffle(order)
    parts = []
    for family in order:
        if random.random() < 0.5:
            parts.append(f'# HELP {prefix}{family} It says {family}{{engine="0"}} 5 \\n or \\\\.')
            parts.append(f"# TYPE {prefix}{family} untyped")
        samples = families[family]
        random.shuffle(samples)
        parts += samples
        if random.random() < 0.2:
            parts.append(random.choice(["", "# a comment", 'python_info{a="b} 5"} 1.0', "up 1"]))
    # The end decides whether a scrape looks cut, so it is always one of another program.
    parts.append("process_open_fds 32.0")
    return "\n".join(parts) + "\n" + ("# EOF\n" if openmetrics else "")


def answers(told: dict[float, Facts], random: Random, server: dict[str, str]) -> list[str]:
    """The facts at some times (unix seconds) as a Prometheus server answers for them, one or more metrics an answer."""
    series: dict[str, dict[tuple[tuple[str, str], ...], list[list[Any]]]] = {}
    for at, facts in told.items():
        lines = [
            line
            for engine in facts.engines
            for column, value in engine.columns.items()
            for line in _lines(column, value, {"engine": str(engine.engine), "model_name": engine.model_name}, random)
        ]
        lines += [(name, "", dict(labels), _number(value, random)) for (name, labels), value in facts.others.items()]
        for family, suffix, labels, value in lines:
            same = series.setdefault(f"vllm:{family}{suffix}", {})
            same.setdefault(tuple(sorted((labels | server).items())), []).append([at, value])
    names = list(series)
    random.shuffle(names)
    texts = []
    while names:
        count = random.randint(1, 9)
        chosen, names = names[:count], names[count:]
        result = [
            {"metric": dict([("__name__", name), *labels]), "values": values}
            for name in chosen
            for labels, values in series[name].items()
        ]
        random.shuffle(result)
        data = {"resultType": "matrix", "result": result}
        texts.append(json.dumps({"status": "success", "data": data}, ensure_ascii=random.random() < 0.5))
    return texts


def _lines(column: str, value: Any, own: dict[str, str], random: Random) -> list[tuple[str, str, dict[str, str], str]]:
    if column == "finished":
        return [
            ("request_success", "_total", own | {"finished_reason": reason}, _number(count, random))
            for reason, count in value.items()
        ]
    if column == "accepted_at":
        name = "spec_decode_num_accepted_tokens_per_pos"
        return [
            (name, "_total", own | {"position": str(position)}, _number(count, random))
            for position, count in enumerate(value)
        ]
    if column in HISTOGRAMS:
        lines = []
        for name in _names(HISTOGRAMS[column], random):
            edges = [
                (own | {"le": _edge(edge, random)}, count) for edge, count in zip(value["le"], value["n"], strict=True)
            ]
            lines += [(name, "_bucket", labels, _number(count, random)) for labels, count in edges]
            lines.append((name, "_sum", own, _number(value["sum"], random)))
            lines.append((name, "_count", own, _number(value["count"], random)))
        return lines
    suffix = "_total" if column in COUNTERS else ""
    return [(name, suffix, own, _number(value, random)) for name in _names((COUNTERS | GAUGES)[column], random)]


def _names(names: list[str], random: Random) -> list[str]:
    return random.choice([names, names[:1], names[-1:]])


def _number(value: float, random: Random) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return random.choice([repr(float(value)), f"{value:.17g}", f"{value:.17e}", f"{value:.17E}"])


def _edge(edge: float, random: Random) -> str:
    return "+Inf" if math.isinf(edge) else random.choice([repr(edge), f"{edge:.17g}"])


def _labels(labels: dict[str, str], random: Random) -> str:
    items = list(labels.items())
    random.shuffle(items)
    escaped = [(name, value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")) for name, value in items]
    comma = random.choice([",", ",", ", "])
    return "{" + comma.join(f'{name}="{value}"' for name, value in escaped) + random.choice(["", ","]) + "}"
