"""Deployments whose draft lengths took known times, as cells; and the evidence that the marts make of them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from specledger.reports.evidence import Evidence, evidence
from specledger.schemas.config import DEFAULT_SETTINGS
from tests.transforms.marts import DAY, House

BANDS = DEFAULT_SETTINGS.load_bands
MARTS = ("round_cost", "positions", "ledger", "capacity", "preemption", "latency", "reconciliation", "acceptance_by")
"""What the evidence is read from; marts that these read are computed along."""
HOURS = 10


class Deployments:
    """A house to which lengths that ran are added, with the same time and length in each of ten hours but for noise."""

    def __init__(self) -> None:
        self.house = House()

    def start(self, name: str = "d", **facts: Any) -> Deployments:
        """A start-up record before all data."""
        given = {"deployment": name, "instance": "one", "started_at": dt.datetime(2026, 11, 28), "model": "m"}
        self.house.put("deployments", {**given, "quantization": "none", "speculative": True, **facts})
        return self

    def ran(
        self,
        load: int,
        length: int,
        round_ms: float,
        effective: float,
        *,
        name: str = "d",
        noise: float = 0.002,
        steps: int = 1_000,
        hours: int = HOURS,
        instance: str = "one",
        preempted: int = 0,
        stall_ms: float = 0.0,
        **cells: Any,
    ) -> Deployments:
        """Rounds of one length at one load; ``noise`` is what even hours take longer and odd ones shorter.

        In each hour so many requests are ``preempted``: the step after that has no draft, and its time holds the stall.
        Intervals in which every step drafted lie beside those of the stalls; without drafts they cannot be told apart.
        """
        accepted = round((effective - 1) * steps)
        rounds = steps if length else 0
        by_position = _positions(accepted, rounds, length)
        rows = []
        for hour in range(hours):
            time = round(steps * round_ms * 1e6 * (1 + noise * (1 if hour % 2 == 0 else -1)))
            rows.append({
                "deployment": name, "instance": instance, "date": DAY, "hour": hour, "block": 6 * hour, "load": load,
                "steps": steps, "step_decode_ns": time, "step_tokens": steps + accepted, "rounds": rounds,
                "drafted": rounds * length, "accepted": accepted, "accepted_at": by_position, "n": 10,
                "steps_steps": steps**2 // 10, "steps_step_decode": steps * time // 10,
                "step_decode_decode": time * time // 10,
            })  # fmt: skip
        by_length = {"origin": "snapshots", "draft_length": length}
        stalls = {"steps": preempted, "step_tokens": preempted, "step_decode_ns": round(preempted * stall_ms * 1e6)}
        stalled = [{**row, **{name: row[name] + more for name, more in stalls.items()}} for row in rows]
        self.house.put("cells_draft_lengths", *({**row, **by_length} for row in (rows if length else stalled)))
        whole = {
            "step_rounds": rounds, "step_accepted": accepted, "requests": 1,
            "output_tokens": steps + accepted + preempted + 1, "decode_tokens": steps + accepted + preempted,
            "preemptions": preempted, **cells,
        }  # fmt: skip
        times = [{"decode_ns": row["step_decode_ns"], "duration_ns": row["step_decode_ns"] // load} for row in stalled]
        self.house.put("cells_snapshots", *({**row, **time, **whole} for row, time in zip(stalled, times, strict=True)))
        return self

    def evidence(self, name: str = "d", dates: Sequence[dt.date] | None = None) -> Evidence:
        """What the marts know."""
        self.house.marts(*MARTS)
        return evidence(self.house.connection, name, BANDS, dates)


def _positions(accepted: int, rounds: int, length: int) -> list[int]:
    """Accepted tokens by position under equal conditional acceptance, as whole numbers that add up."""
    if not length:
        return []
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        total = rounds * sum(middle**i for i in range(1, length + 1))
        low, high = (middle, high) if total < accepted else (low, middle)
    counts = [round(rounds * low**i) for i in range(1, length + 1)]
    return [counts[0] + accepted - sum(counts), *counts[1:]]
