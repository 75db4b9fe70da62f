"""What the marts know of a deployment, for an estimate that is asked to fill in what was not given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..schemas.errors import UsageError
from ..schemas.published import published
from .estimate import Facts, RoundTime
from .lengths import LEAST_STEPS


@dataclass(frozen=True)
class Measured:
    """Pooled figures of one deployment; times in ms, None or empty where the marts do not tell."""

    conditional: tuple[float, ...]
    t0_ms: float | None
    round_times: Mapping[int, RoundTime]
    facts: Facts

    def complete(self, given: Facts) -> Facts:
        """The given facts, completed by the measured ones."""
        own = self.facts
        return Facts(
            given.load if given.load is not None else own.load,
            given.output_tokens if given.output_tokens is not None else own.output_tokens,
            given.ttft_ms if given.ttft_ms is not None else own.ttft_ms,
            own.tpot_ms,
        )


POSITIONS = """
WITH best AS (
    SELECT origin FROM positions WHERE deployment = $deployment AND NOT censored
    GROUP BY origin ORDER BY sum(rounds) DESC LIMIT 1
),
pooled AS (
    SELECT position, sum(accepted) AS accepted, sum(rounds) AS rounds
    FROM positions JOIN best USING (origin)
    WHERE deployment = $deployment AND NOT censored
    GROUP BY position
)
SELECT (accepted / nullif(rounds, 0)) / nullif(lag(accepted / nullif(rounds, 0), 1, 1.0) OVER (ORDER BY position), 0)
FROM pooled ORDER BY position
"""

# Lengths are compared at the loads at which all of them ran; where there are none, only the one that ran most is told.
ROUND_TIMES = """
WITH best AS (
    SELECT origin FROM draft_lengths WHERE deployment = $deployment AND round_time_ms IS NOT NULL
    GROUP BY origin ORDER BY sum(steps) DESC, origin LIMIT 1
),
told AS (
    SELECT load_band, draft_length, sum(round_time_ms * steps) / sum(steps) AS round_time_ms, sum(steps) AS steps
    FROM draft_lengths INNER JOIN best USING (origin)
    WHERE deployment = $deployment AND draft_length > 0 AND round_time_ms IS NOT NULL
    GROUP BY ALL
    HAVING sum(steps) >= $least
),
common AS (
    SELECT load_band, sum(steps) AS weight FROM told
    GROUP BY load_band HAVING count(*) = (SELECT count(DISTINCT draft_length) FROM told)
),
chosen AS (
    SELECT * FROM told INNER JOIN common USING (load_band)
    UNION ALL
    SELECT *, steps AS weight FROM told
    WHERE NOT EXISTS (FROM common)
        AND draft_length = (SELECT arg_max(draft_length, steps) FROM (
            SELECT draft_length, sum(steps) AS steps FROM told GROUP BY draft_length
        ))
)
SELECT draft_length, sum(round_time_ms * weight) / sum(weight), list(load_band) FROM chosen GROUP BY draft_length
"""

# What a round is made of, where it is told: the draft, and the pass of the target (an ordinary step and what the draft
# adds to it, or all of it as printed).
PARTS = """
WITH told AS (
    SELECT draft_length, origin, steps, draft_ms, coalesce(ordinary_ms, 0) + verify_ms AS target_ms
    FROM round_split
    WHERE deployment = $deployment AND draft_length > 0 AND draft_ms IS NOT NULL AND verify_ms IS NOT NULL AND steps > 0
),
best AS (SELECT origin FROM told GROUP BY origin ORDER BY sum(steps) DESC, origin LIMIT 1)
SELECT draft_length, sum(draft_ms * steps) / sum(steps), sum(target_ms * steps) / sum(steps)
FROM told INNER JOIN best USING (origin)
GROUP BY draft_length
"""

FACTS = """
WITH best AS (
    SELECT origin FROM band_totals WHERE deployment = $deployment AND decode_tokens > 0
    GROUP BY origin ORDER BY sum(decode_tokens) DESC, origin LIMIT 1
)
SELECT
    (SELECT sum(running_milli) / nullif(sum(running_n), 0) / 1000 FROM cells_snapshots WHERE deployment = $deployment),
    sum(output_tokens) / nullif(sum(requests), 0),
    sum(decode_ns) / nullif(sum(decode_tokens), 0) / 1e6,
    (SELECT sum(t0_ms * tokens) / nullif(sum(tokens), 0) FROM ledger JOIN best USING (origin)
     WHERE deployment = $deployment AND load_band IN (SELECT unnest($bands)) AND t0_ms IS NOT NULL),
    (SELECT sum(ttft_sum) / nullif(sum(ttft_n), 0) / 1e6 FROM cells_requests WHERE deployment = $deployment),
    (SELECT sum(ttft_sum) / nullif(sum(ttft_n), 0) / 1e6 FROM cells_snapshots WHERE deployment = $deployment)
FROM band_totals JOIN best USING (origin) WHERE deployment = $deployment
"""


def known(warehouse: str, deployment: str) -> Measured:
    """What the marts of a warehouse hold of a deployment; UsageError where they hold nothing."""
    connection = published(warehouse).require().connect()
    name = {"deployment": deployment}
    conditional = tuple(row[0] for row in connection.execute(POSITIONS, name).fetchall() if row[0] is not None)
    parts = {length: (draft, target) for length, draft, target in connection.execute(PARTS, name).fetchall()}
    told = connection.execute(ROUND_TIMES, {**name, "least": LEAST_STEPS}).fetchall()
    times = {length: RoundTime(total, *parts.get(length, ())) for length, total, _ in told}
    bands = sorted({band for _, _, seen in told for band in seen})
    row = connection.execute(FACTS, {**name, "bands": bands}).fetchone()
    if row is None or (row[1] is None and row[2] is None):
        raise UsageError(f"The marts hold nothing of deployment {deployment!r}: ingest and transform it first.")
    load, output_tokens, tpot_ms, t0_ms, request_ttft, scrape_ttft = row
    ttft_ms = request_ttft if request_ttft is not None else scrape_ttft
    return Measured(conditional, t0_ms, times, Facts(load, output_tokens, ttft_ms, tpot_ms))
