"""What the ledger of the two runs says, in words: where speculation pays, and what the pooled figure makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

BANDS = """
SELECT load_band, t0_ms, round_time_ms, effective_length, tpot_ms, speedup, break_even_length, tokens
FROM ledger
WHERE deployment = $candidate AND origin = 'snapshots' AND speedup IS NOT NULL AND load_band NOT IN ('all', '0')
ORDER BY CAST(regexp_extract(load_band, '\\d+') AS INTEGER)
"""
POOLED = """
SELECT
    max(tpot_ms) FILTER (WHERE deployment = $baseline),
    max(tpot_ms) FILTER (WHERE deployment = $candidate)
FROM ledger
WHERE origin = 'snapshots' AND load_band = 'all'
"""


@dataclass(frozen=True)
class Band:
    """One load band of the ledger, times in ms."""

    load: str
    t0: float
    round_time: float
    effective_length: float
    tpot: float
    speedup: float
    break_even: float
    tokens: int


def tell(connection: duckdb.DuckDBPyConnection, baseline: str, candidate: str) -> str:
    """A table by load band, and what it means."""
    bands = [Band(*row) for row in connection.execute(BANDS, {"candidate": candidate}).fetchall()]
    pooled = connection.execute(POOLED, {"baseline": baseline, "candidate": candidate}).fetchone()
    if not bands or pooled is None or None in pooled:
        return "The ledger has no load band that both runs cover."
    return f"{_table(bands)}\n\n{words(bands, pooled[0] / pooled[1])}"


def words(bands: Sequence[Band], pooled: float) -> str:
    """What the bands say against the pooled speedup (TPOT of all ordinary over that of all speculative decoding)."""
    gains = [band for band in bands if band.speedup > 1]
    losses = [band for band in bands if band.speedup <= 1]
    sentences = [f"Pooled over everything, {_effect(pooled)}."]
    if not losses or not gains:
        sentences.append(f"Every load band says the same: {_effect(bands[0].speedup)} at {_load(bands[0])}.")
        return " ".join(sentences)
    best, worst = max(bands, key=lambda band: band.speedup), min(bands, key=lambda band: band.speedup)
    sentences.append(
        f"The pooled figure hides a boundary: {_effect(best.speedup)} at {_load(best)}, but {_effect(worst.speedup)} "
        f"at {_load(worst)}."
    )
    if pooled > 1:
        share = sum(band.tokens for band in losses) / sum(band.tokens for band in bands)
        sentences.append(
            f"{share:.0%} of the tokens were made where speculation did not pay ({', '.join(b.load for b in losses)} "
            "requests running)."
        )
    sentences.append(
        f"A round at {_load(worst)} takes {worst.break_even:.2f} ordinary steps and returns "
        f"{worst.effective_length:.2f} tokens; at {_load(best)} it takes {best.break_even:.2f} and returns "
        f"{best.effective_length:.2f}."
    )
    return " ".join(sentences)


def _effect(speedup: float) -> str:
    change = speedup - 1
    if abs(change) < 0.005:
        return "speculation changes nothing"
    return f"speculation makes tokens {abs(change):.0%} {'faster' if change > 0 else 'slower'}"


def _load(band: Band) -> str:
    return "1 request running" if band.load == "1" else f"{band.load} requests running"


def _table(bands: Sequence[Band]) -> str:
    head = ("load", "T0 ms", "round ms", "L_eff", "TPOT ms", "speedup", "break-even")
    rows = [
        (
            band.load,
            f"{band.t0:.2f}",
            f"{band.round_time:.2f}",
            f"{band.effective_length:.2f}",
            f"{band.tpot:.2f}",
            f"{band.speedup:.2f}",
            f"{band.break_even:.2f}",
        )
        for band in bands
    ]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in (head, *rows)
    )
