"""What only single requests can tell: sampling parameters, repetition, and outputs of the same prompt on both sides."""

from __future__ import annotations

from dataclasses import dataclass

from ..schemas.raw import REQUESTS
from ..schemas.warehouse import Warehouse, reading
from .model import Habits
from .selection import Selection, select_nights
from .small_files import SmallFiles

HASH_EVERY = 16
"""Output tokens between two hashes of the chain of prefixes."""
SAMPLED = (
    "status",
    "temperature",
    "top_p",
    "finish_reason",
    "distinct_4gram_share",
    "prompt_hash",
    "output_hash",
    "sequences",
)
PAIRED = "temperature = 0 AND prompt_hash IS NOT NULL AND output_hash IS NOT NULL AND coalesce(sequences, 1) = 1"
"""What a request must have for its output to be compared with that of another."""


@dataclass(frozen=True)
class Pairs:
    """Outputs of equal prompts, compared by hash."""

    pairs: int
    differing: int
    first_divergence: int | None
    """Median of the token before which the first difference lies, where chains of prefix hashes tell."""


NO_PAIRS = Pairs(0, 0, None)


class RequestReader:
    """Reads the raw requests of a comparison's sides."""

    def __init__(self, warehouse: Warehouse, files: SmallFiles | None = None) -> None:
        self._warehouse = warehouse
        self._files = files or SmallFiles(warehouse)
        self._connection = reading()
        self._known: dict[Selection, tuple[Habits, bool]] = {}

    def ahead(self, side: Selection) -> None:
        """Begin to read what ``habits`` will ask for."""
        self._files.ahead(REQUESTS, side, SAMPLED)

    def habits(self, side: Selection) -> Habits:
        """How the requests of a side were sampled, and how many repeated themselves."""
        return self._look(side)[0]

    def pairs(self, baseline: Selection, candidate: Selection) -> Pairs:
        """The candidate's greedy outputs against the baseline's of the same prompt and output cap, one to one."""
        if not all(self._look(side)[1] for side in (baseline, candidate)):
            return NO_PAIRS
        return self._paired(
            f"SELECT a.*, b.output_hash AS other_hash, b.output_prefix_hashes AS other_prefixes "
            f"FROM ({self._hashed(baseline)}) AS a JOIN ({self._hashed(candidate)}) AS b USING (prompt_hash, cap, turn)"
        )

    def self_pairs(self, side: Selection) -> Pairs:
        """The greedy outputs of one side against each other: what batch numerics alone make differ."""
        if not self._look(side)[1]:
            return NO_PAIRS
        hashed = self._hashed(side)
        return self._paired(
            f"SELECT a.*, b.output_hash AS other_hash, b.output_prefix_hashes AS other_prefixes "
            f"FROM ({hashed}) AS a JOIN ({hashed}) AS b "
            "ON a.prompt_hash = b.prompt_hash AND a.cap = b.cap AND a.turn % 2 = 1 AND b.turn = a.turn + 1"
        )

    def _look(self, side: Selection) -> tuple[Habits, bool]:
        """The habits of a side, and whether any of its outputs can be paired: mostly none can."""
        if side not in self._known:
            rows = self._files.select(self._connection, REQUESTS, side, SAMPLED)
            ((*habits, hashed),) = self._connection.execute(
                "SELECT avg((temperature = 0)::DOUBLE), avg((top_p < 1)::DOUBLE), "
                "avg((finish_reason = 'repetition')::DOUBLE), avg(distinct_4gram_share), "
                f"coalesce(bool_or({PAIRED}), false) FROM ({rows}) WHERE status = 'ok'"
            ).fetchall()
            self._known[side] = Habits(*habits), hashed
        return self._known[side]

    def _paired(self, pairs: str) -> Pairs:
        ((count, differing, divergence),) = self._connection.execute(
            "SELECT count(*), count(*) FILTER (output_hash <> other_hash), "
            "median(diverged) FILTER (output_hash <> other_hash) "
            f"FROM (SELECT *, {HASH_EVERY} * list_position(list_transform(range(1, greatest(len(output_prefix_hashes), "
            "len(other_prefixes)) + 1), lambda i: output_prefix_hashes[i] IS DISTINCT FROM other_prefixes[i]), true) "
            f"AS diverged FROM ({pairs}))"
        ).fetchall()
        return Pairs(count, differing, None if divergence is None else int(divergence))

    def _hashed(self, side: Selection) -> str:
        return (
            "SELECT prompt_hash, coalesce(max_tokens, -1) AS cap, output_hash, output_prefix_hashes, "
            "row_number() OVER (PARTITION BY prompt_hash, max_tokens ORDER BY finished_at, request_id) AS turn "
            f"FROM ({self._requests(side)}) WHERE status = 'ok' AND {PAIRED}"
        )

    def _requests(self, side: Selection) -> str:
        return select_nights(self._warehouse, REQUESTS, side)
