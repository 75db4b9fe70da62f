"""How large the random tests are: TEST_SCALE=100 makes them a hundred times as long, and says how much was tried."""

import os
from collections import Counter

SCALE = int(os.environ.get("TEST_SCALE", "1"))
TRIED: Counter[str] = Counter()
"""Random records and inputs of this process, by what they are."""


def scaled(examples: int) -> int:
    """The number of random examples to run where ``examples`` are enough for every day."""
    return examples * SCALE


def tried(what: str, count: int = 1) -> None:
    """Count random records or inputs that came out right."""
    TRIED[what] += count
