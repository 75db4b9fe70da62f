"""What a report of real runs says of draft lengths and of contexts."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from specledger.reports.build import Question, build
from specledger.reports.evidence_queries import READS
from specledger.reports.model import Report
from specledger.reports.schedule import check_ranges
from specledger.reports.schedules import schedules
from specledger.reports.selection import Night, Selection
from specledger.schemas.config import DEFAULT_SETTINGS
from specledger.schemas.warehouse import Warehouse
from tests.command_line import CommandLine
from tests.reports.fleet import put_row

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


def test_only_nights_that_a_schedule_rests_on_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    day, plain = dt.date(2026, 11, 28), dt.date(2026, 11, 9)
    warehouse = Warehouse(tmp_path)
    told = {"origin": "snapshots", "load_band": "all", "evidence": "derived"}
    put_row(warehouse, "ledger", day, "d", **told, t0_date=plain)
    put_row(warehouse, "ledger", dt.date(2026, 11, 27), "d", **told)
    asked = []
    connect = Warehouse.connect
    monkeypatch.setattr(
        Warehouse, "connect", lambda house, *given: (asked.append((set(given[0]), given[1])), connect(house, *given))[1]
    )
    starts = connect(warehouse, ["deployments"]).sql("FROM deployments").to_arrow_table()
    for known, names in ((None, set(READS)), (starts, set(READS) - {"deployments"})):
        assert schedules(warehouse, Selection("", (Night(day, "d"),)), DEFAULT_SETTINGS.load_bands, known) == ()
        assert asked.pop() == (names, {day, plain})
