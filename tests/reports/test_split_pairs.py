"""The split of Δ ln TPOT on pairs of nights: exact, of opposite sign the other way round, and right in its term."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from specledger.reports.cells_read import CellReader
from specledger.reports.compare import Comparison
from specledger.reports.findings import split_rows
from specledger.reports.model import SplitRow
from specledger.reports.origins import choose, totals
from specledger.reports.selection import Selector
from specledger.reports.split import Terms
from specledger.schemas.config import DEFAULT_SETTINGS
from specledger.schemas.warehouse import Warehouse
from tests import acceptance
from tests.command_line import CommandLine

TERMS = [field.name for field in fields(Terms)]
Captured = Callable[..., CommandLine]


def rows(cli: CommandLine, baseline: str, candidate: str) -> dict[str | None, SplitRow]:
    """The split by load band (None: overall); sums and signs are checked on every pair."""
    forth, back = (
        _split(Warehouse(str(cli.warehouse)), *sides) for sides in ((baseline, candidate), (candidate, baseline))
    )
    assert forth
    for row, other in zip(forth, back, strict=True):
        band = "all" if row.stratum is None else row.stratum.load_band
        assert math.fsum(getattr(row, term) for term in TERMS) == pytest.approx(row.d_ln_tpot, abs=1e-9)
        assert row.d_ln_tpot == pytest.approx(change(cli, baseline, candidate, row.origin, band), abs=1e-9)
        assert [getattr(row, term) for term in TERMS] == [-getattr(other, term) for term in TERMS]
    return {None if row.stratum is None else row.stratum.load_band: row for row in forth}


def _split(warehouse: Warehouse, *deployments: str) -> list[SplitRow]:
    selector, reader = Selector.of(warehouse, warehouse.connect()), CellReader(warehouse)
    sides = [selector.select(f"deployment = '{name}'") for name in deployments]
    held = {f"side {at}": totals(reader, side) for at, side in enumerate(sides)}
    return split_rows(Comparison(reader, sides[0], sides[1], DEFAULT_SETTINGS.load_bands, choose(held)))


def change(cli: CommandLine, baseline: str, candidate: str, origin: str, band: str) -> float:
    """ln(TPOT candidate / baseline) as the sums of the marts have it."""
    inside = "" if band == "all" else f"AND load_band = '{band}'"
    found = cli.rows(
        "SELECT deployment, sum(step_decode_ns) / sum(step_tokens) AS tpot FROM band_totals"
        f" WHERE origin = '{origin}' {inside} GROUP BY deployment"
    )
    tpot = {row["deployment"]: row["tpot"] for row in found}
    return math.log(tpot[candidate] / tpot[baseline])


def case(name: str, cli: CommandLine) -> CommandLine:
    assert list(acceptance.take_in(acceptance.CASES / name, cli)) == []
    return cli


def scrapes(cli: CommandLine, name: str, inputs: Path, edit: Callable[[str], str], out: Path) -> None:
    """Take in the scrapes of a folder as a deployment, edited."""
    for path in inputs.glob("*.prom"):
        (out / name).mkdir(parents=True, exist_ok=True)
        (out / name / path.name).write_text(edit(path.read_text()))
    cli.ok("ingest", out / name, "--deployment", name)


def counter(text: str, name: str) -> int:
    found = re.search(rf"^vllm:{name}\{{.*\}} (\S+)$", text, re.MULTILINE)
    assert found
    return round(float(found[1]))


def with_counters(text: str, grow: Callable[[str, int], int]) -> str:
    """The scrape with every running total as a function of its name and value."""
    return re.sub(
        r"^(vllm:(\w+_total)\{.*\}) (\S+)$",
        lambda line: f"{line[1]} {float(grow(line[2], round(float(line[3]))))}",
        text,
        flags=re.MULTILINE,
    )


def test_another_mix_of_tasks_is_mix(cli: CommandLine) -> None:
    found = rows(case("mix_shift", cli), "night1", "night2")
    assert found[None].largest == "mix"
    assert found[None].mix > 0.8 * found[None].d_ln_tpot > 0


def test_at_busy_loads_the_round_costs_more_than_it_returns(cli: CommandLine) -> None:
    found = rows(case("load_bands", cli), "plain", "drafted")
    for band in ("17-32", "65-128"):
        assert (found[band].largest, found[band].d_ln_tpot > 0) == ("round_time", True)
    for band in ("2-4", "5-8", "9-16"):
        assert (found[band].largest, found[band].d_ln_tpot < 0) == ("coverage", True)
    # Most drafted traffic ran at low load: the pooled figure owes more than its whole gain to that.
    assert found[None].mix < found[None].d_ln_tpot < 0


def test_answers_that_end_inside_a_round_are_truncation(cli: CommandLine, tmp_path: Path) -> None:
    inputs = acceptance.CASES / "eos_truncation" / "input" / "scrapes"

    def whole(text: str) -> str:
        """Every accepted token was returned."""
        requests, steps = (
            counter(text, f"{name}_seconds_count") for name in ("time_to_first_token", "inter_token_latency")
        )
        accepted = counter(text, "spec_decode_num_accepted_tokens_total")
        return with_counters(text, lambda n, v: requests + steps + accepted if n == "generation_tokens_total" else v)

    scrapes(cli, "whole", inputs, whole, tmp_path)
    scrapes(cli, "short", inputs, lambda text: text, tmp_path)
    cli.ok("transform")
    row = rows(cli, "whole", "short")[None]
    assert row.largest == "truncation"
    assert row.truncation == pytest.approx(math.log((411 + 836) / (1_227 - 90)), abs=1e-9)


def test_steps_for_which_no_draft_was_found_are_coverage(cli: CommandLine, tmp_path: Path) -> None:
    inputs = acceptance.CASES / "draftless_steps" / "input" / "ngram"

    def matched(text: str) -> str:
        """Three times as many rounds of the same acceptance in the same steps."""
        accepted = counter(text, "spec_decode_num_accepted_tokens_total")

        def grow(name: str, value: int) -> int:
            if name.startswith("spec_decode"):
                return 3 * value
            return value + 2 * accepted if name == "generation_tokens_total" else value

        return with_counters(text, grow)

    scrapes(cli, "matched", inputs, matched, tmp_path)
    scrapes(cli, "ngram", inputs, lambda text: text, tmp_path)
    cli.ok("transform")
    row = rows(cli, "matched", "ngram")[None]
    assert row.largest == "coverage"
    assert row.coverage > 0.9 * row.d_ln_tpot > 0


def test_real_nights_split_exactly(captured: Captured) -> None:
    found = rows(captured("spec_k3_draft", "baseline_nospec"), "baseline_nospec", "spec_k3_draft")
    assert found[None].coverage < 0 < found[None].round_time
    assert found["17-32"].largest == "round_time"


def test_quantization_and_speculation_split_exactly(cli: CommandLine) -> None:
    case("quant_2x2", cli)
    assert rows(cli, "orig", "quant")[None].round_time < 0
    assert rows(cli, "orig", "spec")[None].coverage < 0
    assert rows(cli, "quant", "both")[None].largest == "coverage"
    rows(cli, "orig", "both")
