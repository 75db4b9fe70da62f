"""What a sample name means: which column it fills, and which part of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from ..schemas.vllm_metrics import (
    BIRTH_SUFFIX,
    DIFFUSION_PREFIX,
    METRICS,
    PROCESS_START,
    SERVERS,
    V0_REFUSED,
    V0_SIGNS,
    Metric,
)

Part = Literal["value", "bucket", "sum", "count", "info", "birth", "start", "refused", "unknown"]

# vllm:x, vllm_x (OpenMetrics), ray_vllm_x and other wrappers' words in front.
_PREFIXED = re.compile(rf"(?P<wrapper>(?:[a-zA-Z0-9_]*[_:])?)(?P<server>{'|'.join(SERVERS)})(?P<mark>[:_])(?P<rest>.+)")


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a series tells: the metrics it fills (none for unknown series) and which part of their value it is.

    Of two names of one metric the one of higher ``rank`` counts: the newer name, then the unwrapped prefix.
    """

    part: Part
    metrics: tuple[Metric, ...] = ()
    rank: tuple[int, ...] = ()
    wrapped: bool = False
    v0_sign: bool = False
    diffusion: bool = False


def _known_names() -> dict[tuple[str, str], tuple[Part, tuple[Metric, ...], tuple[int, ...]]]:
    known: dict[tuple[str, str], tuple[Part, tuple[Metric, ...], tuple[int, ...]]] = {}
    for metric in METRICS:
        for age, name in enumerate(metric.names):
            server, bare = name.server, name.name
            if metric.kind == "counter":
                known[server, f"{bare}_total"] = ("value", (metric,), (age, 1))
                known[server, bare] = ("value", (metric,), (age, 0))
            elif metric.kind == "gauge":
                known[server, bare] = ("value", (metric,), (age, 0))
            elif metric.kind == "histogram":
                known[server, f"{bare}_bucket"] = ("bucket", (metric,), (age, 0))
                known[server, f"{bare}_sum"] = ("sum", (metric,), (age, 0))
                known[server, f"{bare}_count"] = ("count", (metric,), (age, 0))
            else:
                _, others, _ = known.get((server, bare), ("info", (), ()))
                known[server, bare] = ("info", (*others, metric), (age, 0))
    return known


_KNOWN = _known_names()


@lru_cache(maxsize=16_384)
def meaning(name: str) -> Meaning | None:
    """What a sample of that name tells; None for a series of another program."""
    if name == PROCESS_START:
        return Meaning("start")
    found = _PREFIXED.fullmatch(name)
    if found is None:
        return None
    wrapped, rest = bool(found["wrapper"]), found["rest"]
    bare = rest.removesuffix("_total")
    if (known := _KNOWN.get((found["server"], rest))) is not None:
        part, metrics, rank = known
        return Meaning(part, metrics, (*rank, int(not wrapped), int(found["mark"] == ":")), wrapped)
    if rest.endswith(BIRTH_SUFFIX):
        return Meaning("birth", wrapped=wrapped)
    if bare in V0_REFUSED:
        return Meaning("refused", wrapped=wrapped, v0_sign=True)
    return Meaning("unknown", wrapped=wrapped, v0_sign=bare in V0_SIGNS, diffusion=rest.startswith(DIFFUSION_PREFIX))
