"""How far the time per token of one length may be off, where units are too few and single observations must do."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from specledger.reports.interval import critical
from specledger.reports.scatter import OBSERVATION, Sample, margin, step_variance

ONE_BLOCK = np.array([0])
PLAIN = Sample(0, ONE_BLOCK, ONE_BLOCK, np.array([4_000.0]), np.array([4_000.0]), np.array([40_000.0]), 900.0, 40, 39)
"""40 requests of 100 steps of 10 ms and no draft: what a step brings is certain, what it takes is not."""


def test_requests_that_run_alone_each_tell_of_their_own_rounds() -> None:
    variance, freedom = step_variance([PLAIN])
    assert variance == pytest.approx(40 * 900.0 / 40_000.0**2 * 4_000 / 39)
    assert freedom == 39
    half, unit = margin(PLAIN, (variance, freedom))
    assert unit == OBSERVATION
    assert half == pytest.approx(critical(39) * math.sqrt(variance / 4_000))


def test_ten_requests_at_once_tell_of_the_time_of_a_round_as_much_as_one() -> None:
    ten = replace(PLAIN, together=10.0)
    variance, freedom = step_variance([ten])
    assert freedom == pytest.approx(3.9)
    alone = margin(PLAIN, step_variance([PLAIN]))[0] / critical(39)
    assert margin(ten, (variance, freedom))[0] / critical(3.9) == pytest.approx(alone * math.sqrt(10))


def test_what_each_request_accepted_is_its_own() -> None:
    drafted = replace(PLAIN, length=2, tokens=np.array([8_000.0]), squares=0.0)
    alone, ten = (margin(one, (0.0, math.inf))[0] for one in (drafted, replace(drafted, together=10.0)))
    assert alone == ten > 0
