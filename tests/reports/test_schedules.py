"""What a report of real runs says of draft lengths and of contexts."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable

import pytest

from specledger.reports.build import Question, build
from specledger.reports.model import Report
from specledger.reports.schedule import check_ranges
from specledger.schemas.warehouse import Warehouse
from tests.command_line import CommandLine

PLAIN, DRAFTED = "deployment = 'baseline_nospec'", "deployment = 'spec_k3_draft'"


@pytest.fixture(scope="module")
def pair(captured: Callable[..., CommandLine]) -> CommandLine:
    return captured("spec_k3_draft", "baseline_nospec")


def reported(pair: CommandLine, baseline: str, candidate: str) -> Report:
    return build(Warehouse(pair.warehouse), Question(baseline, candidate), dt.datetime(2026, 11, 30))


def test_the_schedule_of_a_report_is_that_of_recommend(pair: CommandLine) -> None:
    (found,) = reported(pair, PLAIN, DRAFTED).schedules
    told = json.loads(pair.ok("recommend", "--deployment", "spec_k3_draft", "--format", "json"))
    ranges = [list(part) for part in found.ranges]
    assert ranges == told["num_speculative_tokens_per_batch_size"] == check_ranges(ranges)
    assert [(band.load_band, band.length, band.tpot_ms) for band in found.bands] == [
        (band["load_band"], band["k"], band["tpot_ms"]) for band in told["bands"]
    ]
    assert found.saved_interval is not None
    assert found.saved_interval[0] < (found.saved or 0) < found.saved_interval[1]


def test_a_candidate_without_speculation_has_no_schedule(pair: CommandLine) -> None:
    assert reported(pair, DRAFTED, PLAIN).schedules == ()


def test_contexts_share_the_output_of_each_side(pair: CommandLine) -> None:
    found = reported(pair, PLAIN, DRAFTED)
    for side in (found.baseline, found.candidate):
        mine = [share for share in found.contexts if share.side == side.name]
        requests = next(origin for origin in side.origins if origin.origin == "requests")
        assert sum(share.token_share for share in mine) == pytest.approx(1.0)
        assert sum(share.output_tokens for share in mine) == requests.output_tokens
        assert sum(share.requests for share in mine) == requests.observations
        assert [share.context_band for share in mine] == ["<1k", "1-4k"]
