"""How large the random tests are: TEST_SCALE=100 makes them a hundred times as long."""

import os

SCALE = int(os.environ.get("TEST_SCALE", "1"))


def scaled(examples: int) -> int:
    """The number of random examples to run where ``examples`` are enough for every day."""
    return examples * SCALE
