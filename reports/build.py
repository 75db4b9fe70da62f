"""From two predicates and a set of gates to a report."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .. import __version__
from ..schemas import CELL_TABLES, TABLES
from ..schemas.config import DEFAULT_SETTINGS, Settings
from ..schemas.errors import EmptyWarehouse
from ..schemas.measures import ACCEPTANCE_LENGTH, MEASURES, ROUND_TIME
from ..schemas.warehouse import Warehouse
from . import advice as advices
from . import changes as differences
from . import correctness, grid, quality
from .acknowledge import Acknowledgement, acknowledge
from .bands import NAMES, MartReader, band_figures, quantile_figures
from .cells_read import CellReader
from .compare import Comparison
from .correctness import Acceptance
from .gates import DEFAULT_SET, Gate, GateSet
from .judge import blank, hold_rate, judge, judge_limit, judge_point
from .model import Change, Effect, GateResult, Grid, Report, Side, SideName, SplitRow, Stratum
from .nights import MIN_NIGHTS
from .origins import OriginChoice, choose, totals
from .outcome import exit_code, overall
from .requests_read import Habits, RequestReader
from .selection import Selection, Selector
from .split import accounts, decode_share, split
from .timeline import restarts, timeline

EFFECTS = ("acceptance_length", "effective_length", "coverage", "round_time_ms", "tpot_ms", "output_tps")
"""Ratios whose change is told apart into within and mix."""
OF_ROUNDS = frozenset({"effective_length", "coverage", "round_time_ms"})
"""Figures of a step: one with a draft takes longer and returns more than one without, which is no regression."""
ONE_SPECULATES = "Only one side speculates: what a round takes and what it returns are judged together, as TPOT."
CLOCKS_DIFFER = "The gaps of one side were measured by its clients and those of the other by its servers."


@dataclass(frozen=True)
class Question:
    """What a report is asked: two sides, or the four of a grid, or both."""

    baseline: str | None = None
    candidate: str | None = None
    grid: Mapping[str, str] = field(default_factory=dict)
    gates: GateSet = DEFAULT_SET
    acknowledged: tuple[Acknowledgement, ...] = ()
    settings: Settings = DEFAULT_SETTINGS


def build(warehouse: Warehouse, question: Question, now: dt.datetime) -> Report:
    """The report that answers a question; EmptyWarehouse or UsageError where it cannot be asked."""
    return _Builder(warehouse, question, now).report()


class _Builder:
    def __init__(self, warehouse: Warehouse, question: Question, now: dt.datetime) -> None:
        warehouse.require()
        if not any(warehouse.files(table) for table in (*CELL_TABLES, TABLES["quality"])):
            raise EmptyWarehouse(
                f"The warehouse {warehouse.root} holds no cells yet: run `specledger transform` first."
            )
        self.warehouse = warehouse
        self.question = question
        self.now = now
        self.selector = Selector.of(warehouse, warehouse.connect())
        self.reader = CellReader(warehouse)
        self.marts = MartReader(warehouse)

    def report(self) -> Report:
        question = self.question
        compared = question.baseline is not None and question.candidate is not None
        where = (
            (question.baseline, question.candidate) if compared else (question.grid["original"], question.grid["both"])
        )
        selections = tuple(self.selector.select(text or "") for text in where)
        facts = [self.selector.facts(selection) for selection in selections]
        sides = tuple(self._side(name, s, f) for name, s, f in zip(NAMES, selections, facts, strict=True))
        choice = choose({name: side.origins for name, side in zip(NAMES, sides, strict=True)})
        comparison = Comparison(self.reader, selections[0], selections[1], question.settings.load_bands, choice)
        report = Report(
            "no_data",
            sides[0],
            sides[1],
            grid=self._grid(),
            load_bands=tuple(band.label for band in question.settings.load_bands),
            false_discovery_rate=question.gates.false_discovery_rate,
            tool_version=__version__,
            generated_at=self.now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        )
        figures = self._figures(report, comparison, choice)
        if not compared:
            return replace(
                figures, reason="No comparison was asked for: only the grid is answered.", notes=(choice.note,)
            )
        return self._judged(figures, comparison, choice, facts)

    def _side(self, name: str, selection: Selection, facts: Sequence[Mapping[str, Any]]) -> Side:
        return Side(
            name,
            " ".join(selection.where.split()),
            selection.deployments,
            tuple(date.isoformat() for date in selection.dates),
            totals(self.reader, selection),
            tuple(differences.deployment_facts(row) for row in facts),
        )

    def _grid(self) -> Grid | None:
        if not self.question.grid:
            return None
        selections = {name: self.selector.select(where) for name, where in self.question.grid.items()}
        shown = {name: self._side(name, s, self.selector.facts(s)) for name, s in selections.items()}
        evaluated = {name: quality.figures(self.warehouse, s) for name, s in selections.items()}
        choice = choose({name: side.origins for name, side in shown.items()})
        sides = grid.GridSides(selections, shown, evaluated)
        return grid.build(self.reader, sides, self.question.settings.load_bands, choice)

    def _figures(self, report: Report, comparison: Comparison, choice: OriginChoice) -> Report:
        """The report with everything that shows and does not judge."""
        if not choice.order:
            return report
        origin = choice.order[0]
        positions = [
            position
            for name, side in zip(NAMES, comparison.sides, strict=True)
            for position in self.marts.positions(side, name, comparison.origin_of(ACCEPTANCE_LENGTH) or origin)
        ]
        sides: dict[SideName, Selection] = {"baseline": comparison.sides[0], "candidate": comparison.sides[1]}
        return replace(
            report,
            effects=tuple(_effects(comparison)),
            split=tuple(_split_rows(comparison)),
            bands=tuple(band_figures(comparison, self.marts, origin)),
            quantiles=tuple(quantile_figures(comparison)),
            positions=tuple(positions),
            timeline=timeline(self.warehouse, sides),
            restarts=restarts(self.warehouse, sides),
        )

    def _judged(
        self, report: Report, comparison: Comparison, choice: OriginChoice, facts: Sequence[Sequence[Mapping[str, Any]]]
    ) -> Report:
        """The report with changes, gates, advice and verdict."""
        requests = RequestReader(self.warehouse)
        habits = (requests.habits(comparison.sides[0]), requests.habits(comparison.sides[1]))
        stated = differences.start_up_changes(*facts)
        changes = [*stated, *_traffic(comparison, habits)]
        reconciliation = [
            row
            for name, side in zip(NAMES, comparison.sides, strict=True)
            for row in self.marts.reconciliation(side, name)
        ]
        report = replace(report, changes=tuple(changes), reconciliation=tuple(reconciliation))
        results = self._correctness(report, comparison, habits, requests, known=all(facts))
        required = differences.target_changed(changes) or differences.lossy(facts[1])
        results += quality.quality_results(
            self.question.gates.gates,
            quality.figures(self.warehouse, comparison.sides[0]),
            quality.figures(self.warehouse, comparison.sides[1]),
            required=required,
        )
        results += self._measured(comparison, choice)
        results = hold_rate(results, self.question.gates.false_discovery_rate)
        dates = comparison.sides[1].dates
        results = acknowledge(
            results, self.question.acknowledged, comparison.sides[1].deployments, dates[-1] if dates else None
        )
        clues = advices.Clues(results, report.split, report.bands, report.positions, reconciliation, changes)
        advice = advices.advise(clues)
        results = advices.attach(results, advice)
        verdict, reason = overall(results, self.question.gates, report.baseline, report.candidate)
        return replace(
            report,
            verdict=verdict,
            reason=reason,
            exit_code=exit_code(results),
            gates=tuple(results),
            advice=advice,
            notes=tuple(_notes(choice, results, comparison, required=required)),
        )

    def _correctness(
        self,
        report: Report,
        comparison: Comparison,
        habits: tuple[Habits, Habits],
        requests: RequestReader,
        *,
        known: bool,
    ) -> list[GateResult]:
        gates = {
            gate.measure: gate for gate in self.question.gates.gates if gate.gate == "correctness" and gate.enabled
        }
        results = []
        if "acceptance_length" in gates:
            origin = comparison.origin_of(ACCEPTANCE_LENGTH)
            counts = [self._acceptance(comparison, side, origin) for side in comparison.sides]
            results.append(
                correctness.acceptance_gate(
                    gates["acceptance_length"],
                    counts[0],
                    counts[1],
                    comparison.estimate("acceptance_length").estimate,
                    habits,
                    draft_changed=differences.draft_changed(report.changes) or _limit_changed(counts),
                    origin=origin,
                )
            )
        if "identities" in gates:
            results.append(correctness.identities_gate(gates["identities"], report.reconciliation))
        if "comparability" in gates:
            results.append(correctness.comparability_gate(gates["comparability"], report.changes, habits, known=known))
        if "paired_outputs" in gates:
            baseline, candidate = comparison.sides
            results.append(
                correctness.paired_gate(
                    gates["paired_outputs"],
                    requests.pairs(baseline, candidate),
                    requests.self_pairs(baseline),
                    target_changed=differences.target_changed(report.changes),
                )
            )
        return results

    def _acceptance(self, comparison: Comparison, side: Selection, origin: str | None) -> Acceptance:
        if origin is None:
            return Acceptance(0.0, 0.0, 0.0, None)
        columns = self.reader.frame(side, origin).columns
        rounds, drafted, accepted = (float(columns[name].sum()) for name in ("rounds", "drafted", "accepted"))
        return Acceptance(rounds, drafted, accepted, self.reader.first_position(side, origin))

    def _measured(self, comparison: Comparison, choice: OriginChoice) -> list[GateResult]:
        """Latency and capacity: every gate at every place."""
        replaced = "itl_over" if comparison.origin_of(MEASURES["itl_ms_p99"]) != "snapshots" else "itl_ms_p99"
        results: list[GateResult] = []
        silent: set[str] = set()
        for gate, band in self.question.gates.places(comparison.load_bands):
            if gate.gate not in {"latency", "capacity"} or gate.measure == replaced:
                continue
            asked = band is None or gate.required or self.question.gates.explicit(gate, band)
            if gate.measure in silent and not asked:
                continue
            result = self._judge(gate, band, comparison, choice)
            if result.verdict == "no_data" and band is None:
                silent.add(gate.measure)  # what nobody has overall is not worth a line at every band
            if result.verdict != "no_data" or asked:
                results.append(result)
        return results

    def _judge(self, gate: Gate, band: str | None, comparison: Comparison, choice: OriginChoice) -> GateResult:
        measure = MEASURES[gate.measure]
        place = None if band is None else Stratum(band)
        if measure.form == "constant":
            sizes = [self.marts.kv_tokens(side) for side in comparison.sides]
            return replace(judge_point(gate, sizes[0], sizes[1], "deployments", "exact", (0, 0)), stratum=place)
        if measure.form == "maximum":
            values, counts, origin = comparison.maximum(gate.measure, band)
            result = judge_point(gate, values[0], values[1], origin, "maximum", (counts[0], counts[1]))
            return replace(result, stratum=place)
        if measure.histogram == "itl" and _clocks_differ(comparison, measure.name):
            return blank(gate, band, "not_comparable", CLOCKS_DIFFER)
        if gate.kind == "limit":
            found = comparison.alone(gate.measure, band)
            return judge_limit(gate, band, found, _partial(choice, found.origin))
        found = comparison.estimate(gate.measure, band, relative=gate.kind == "relative")
        result = judge(gate, band, found, _partial(choice, found.origin))
        if gate.measure in OF_ROUNDS and result.verdict != "no_data" and _one_speculates(comparison, found.origin):
            return replace(
                result, verdict="not_comparable", reason=ONE_SPECULATES, reason_code="speculation", p_value=None
            )
        return result


def _partial(choice: OriginChoice, origin: str | None) -> str:
    held = None if origin is None else choice.partial(origin)
    return "" if held is None else f"Requests hold only {held:.0%} of the servers' tokens."


def _clocks_differ(comparison: Comparison, name: str) -> bool:
    if comparison.origin_of(MEASURES[name]) != "requests":
        return False
    shares = [
        comparison.reader.scalar(side, "requests", "sum(itl_client_n) / nullif(sum(itl_n), 0)")
        for side in comparison.sides
    ]
    return {round(share) for share in shares if share is not None} == {0, 1}


def _one_speculates(comparison: Comparison, origin: str | None) -> bool:
    if origin is None:
        return False
    rounds = [float(comparison.reader.frame(side, origin).columns["rounds"].sum()) for side in comparison.sides]
    return (rounds[0] > 0) != (rounds[1] > 0)


def _limit_changed(counts: Sequence[Acceptance]) -> bool:
    """Whether drafts have another mean length on the two sides, whatever the start-up records say."""
    lengths = [side.drafted / side.rounds for side in counts if side.rounds > 0]
    return len(lengths) == 2 and abs(lengths[1] / lengths[0] - 1) > differences.SAME_LENGTH


def _effects(comparison: Comparison) -> list[Effect]:
    effects = []
    for name in EFFECTS:
        found = comparison.estimate(name)
        within, total = found.estimate.effect_within, found.estimate.effect_total
        if within is not None and total is not None and found.origin is not None:
            share, strata = found.estimate.common_share or 0.0, found.estimate.baseline.strata
            effects.append(Effect(name, within, total - within, total, share, found.origin, strata))
    return effects


def _split_rows(comparison: Comparison) -> list[SplitRow]:
    origin = comparison.origin_of(ROUND_TIME)
    if origin is None:
        return []
    strata = comparison.strata(origin)
    frames = [comparison.reader.frame(side, origin) for side in comparison.sides]
    rows = []
    for band in (None, *comparison.load_bands):
        inside = strata.in_band(band)
        sides = []
        for frame in frames:
            stratum = frame.strata(strata)
            sides.append(accounts(frame, stratum, len(strata.keys), inside[stratum]))
        terms = split(sides[0], sides[1])
        if terms is None:
            continue
        whole = accounts(
            frames[1], frames[1].strata(strata), len(strata.keys), strata.in_band(None)[frames[1].strata(strata)]
        )
        rows.append(
            SplitRow(
                None if band is None else Stratum(band),
                terms.total,
                terms.round_time,
                terms.acceptance,
                terms.coverage,
                terms.truncation,
                terms.mix,
                origin,
                decode_share(whole, inside) or 0.0,
                terms.largest,
            )
        )
    return rows


def _traffic(comparison: Comparison, habits: tuple[Habits, Habits]) -> list[Change]:
    """Shifts of sampling, lengths and cache use between the sides."""
    before, after = habits
    sampled = "Acceptance depends on the temperature: greedy and sampled requests are strata of their own."
    found = [
        differences.share_change("greedy requests", "sampling", before.greedy, after.greedy, sampled),
        differences.share_change("requests with top_p below 1", "sampling", before.nucleus, after.nucleus, sampled),
    ]
    origin = next((origin for origin in comparison.choice.order if origin != "log_stats"), None)
    if origin is not None:
        sums = []
        for side in comparison.sides:
            columns = comparison.reader.frame(side, origin).columns
            sums.append(
                {
                    name: float(columns[name].sum())
                    for name in ("requests", "prompt_tokens", "output_tokens", "cached_tokens")
                }
            )
        for name in ("prompt_tokens", "output_tokens"):
            means = [total[name] / total["requests"] if total["requests"] else None for total in sums]
            found.append(differences.mean_change(f"{name} a request", means[0], means[1]))
        cached = [total["cached_tokens"] / total["prompt_tokens"] if total["prompt_tokens"] else None for total in sums]
        found.append(
            differences.share_change(
                "cached prompt tokens",
                "traffic",
                cached[0],
                cached[1],
                "Prefill times and TTFT depend on the prefix cache.",
            )
        )
    return [change for change in found if change is not None]


def _notes(choice: OriginChoice, results: Sequence[GateResult], comparison: Comparison, *, required: bool) -> list[str]:
    notes = [choice.note]
    judged = [result for result in results if result.night_variance is not None]
    nights = len(comparison.sides[0].dates)
    if any(result.night_variance == "estimated" for result in judged):
        notes.append(f"The variance between nights is estimated from the baseline's {nights} nights.")
    elif judged:
        notes.append(
            f"Night-to-night variation is not estimated: that takes {MIN_NIGHTS} baseline nights, there "
            f"{'is' if nights == 1 else 'are'} {nights}."
        )
    units = {result.unit for result in judged}
    if units - {"hour", None}:
        smaller = ", ".join(sorted(unit for unit in units if unit not in {"hour", None} and unit is not None))
        notes.append(f"Some intervals rest on units below the hour ({smaller}) and understate what an hour can do.")
    if required:
        notes.append("The target or the acceptance rule changed, so quality is required.")
    return notes
