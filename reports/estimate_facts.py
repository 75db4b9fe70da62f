"""What the marts know of a deployment, for an estimate that is asked to fill in what was not given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..schemas.errors import UsageError
from ..schemas.warehouse import Warehouse
from .estimate import Facts


@dataclass(frozen=True)
class Measured:
    """Pooled figures of one deployment; times in ms, None or empty where the marts do not tell."""

    conditional: tuple[float, ...]
    t0_ms: float | None
    round_times: Mapping[int, float]
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

ROUND_TIMES = """
SELECT draft_length, sum(round_time_ms * steps) / sum(steps)
FROM draft_lengths
WHERE deployment = $deployment AND round_time_ms IS NOT NULL AND steps > 0 AND origin = (
    SELECT origin FROM draft_lengths WHERE deployment = $deployment AND round_time_ms IS NOT NULL
    GROUP BY origin ORDER BY sum(steps) DESC, origin LIMIT 1
)
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
     WHERE deployment = $deployment AND load_band <> 'all' AND t0_ms IS NOT NULL),
    (SELECT sum(ttft_sum) / nullif(sum(ttft_n), 0) / 1e6 FROM cells_requests WHERE deployment = $deployment),
    (SELECT sum(ttft_sum) / nullif(sum(ttft_n), 0) / 1e6 FROM cells_snapshots WHERE deployment = $deployment)
FROM band_totals JOIN best USING (origin) WHERE deployment = $deployment
"""


def known(warehouse: str, deployment: str) -> Measured:
    """What the marts of a warehouse hold of a deployment; UsageError where they hold nothing."""
    connection = Warehouse(warehouse).require().connect()
    name = {"deployment": deployment}
    conditional = tuple(row[0] for row in connection.execute(POSITIONS, name).fetchall() if row[0] is not None)
    times = dict(connection.execute(ROUND_TIMES, name).fetchall())
    row = connection.execute(FACTS, name).fetchone()
    if row is None or (row[1] is None and row[2] is None):
        raise UsageError(f"The marts hold nothing of deployment {deployment!r}: ingest and transform it first.")
    load, output_tokens, tpot_ms, t0_ms, request_ttft, scrape_ttft = row
    ttft_ms = request_ttft if request_ttft is not None else scrape_ttft
    return Measured(conditional, t0_ms, times, Facts(load, output_tokens, ttft_ms, tpot_ms))
