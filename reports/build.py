"""From two predicates and a set of gates to a report."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from ..schemas import CELL_TABLES, TABLES
from ..schemas.config import DEFAULT_SETTINGS, Settings
from ..schemas.errors import EmptyWarehouse
from ..schemas.measures import ACCEPTANCE_LENGTH
from ..schemas.warehouse import Warehouse
from ..version import __version__
from . import advice as advices
from . import changes as differences
from . import correctness, grid, quality
from .acknowledge import Acknowledgement, acknowledge
from .bands import NAMES, MartReader, band_figures, context_shares, quantile_figures
from .cells_read import CellReader
from .compare import Comparison
from .correctness import Acceptance
from .findings import contexts, effects, level_notes, load_gaps, load_notes, notes, split_rows, traffic
from .gates import DEFAULT_SET, GateSet
from .history import MEASURED, History, look_back, looked_back_on
from .judge import hold_rate
from .measured import measured_gates
from .model import GateResult, Grid, Habits, Report, Schedule, Side, SideName
from .origins import OriginChoice, choose, totals
from .outcome import exit_code, overall
from .requests_read import RequestReader
from .schedules import schedules
from .selection import Selection, Selector
from .small_files import SmallFiles
from .timeline import restarts, timeline


@dataclass(frozen=True)
class Question:
    """What a report is asked: two sides, or the four of a grid, or both."""

    baseline: str | None = None
    candidate: str | None = None
    grid: Mapping[str, str] = field(default_factory=dict)
    gates: GateSet = DEFAULT_SET
    acknowledged: tuple[Acknowledgement, ...] = ()
    settings: Settings = DEFAULT_SETTINGS


def build(
    warehouse: Warehouse,
    question: Question,
    now: dt.datetime,
    selector: Selector | None = None,
    meanwhile: Callable[[], object] = lambda: None,
) -> Report:
    """The report that answers a question; EmptyWarehouse or UsageError where it cannot be asked.

    ``selector`` is that of the warehouse, where the caller has it, and ``meanwhile`` what a core does that is free.
    """
    worker = ThreadPoolExecutor(1, "beside")
    try:
        return _Builder(warehouse, question, now, selector, worker, meanwhile).report()
    finally:
        worker.shutdown(cancel_futures=True)


class _Builder:
    def __init__(
        self,
        warehouse: Warehouse,
        question: Question,
        now: dt.datetime,
        selector: Selector | None,
        worker: Executor,
        meanwhile: Callable[[], object],
    ) -> None:
        warehouse.require()
        if not any(warehouse.files(table) for table in (*CELL_TABLES, TABLES["quality"])):
            raise EmptyWarehouse(
                f"The warehouse {warehouse.root} holds no cells yet: run `specledger transform` first."
            )
        self.warehouse = warehouse
        self.question = question
        self.now = now
        self.selector = selector or Selector.of(warehouse, warehouse.connect(["deployments"]))
        self.worker = worker
        self.meanwhile = meanwhile
        files = SmallFiles(warehouse, worker)
        self.reader = CellReader(warehouse, files)
        self.marts = MartReader(warehouse, files)
        self.requests = RequestReader(warehouse, files)

    def report(self) -> Report:
        question = self.question
        compared = question.baseline is not None and question.candidate is not None
        where = (
            (question.baseline, question.candidate) if compared else (question.grid["original"], question.grid["both"])
        )
        selections = tuple(self.selector.select(text or "") for text in where)
        facts = [self.selector.facts(selection) for selection in selections]
        sides = tuple(self._side(name, s, f) for name, s, f in zip(NAMES, selections, facts, strict=True))
        # Both cores are busy while cells are read; what follows leaves one of them free.
        scheduled = self.worker.submit(
            schedules, self.warehouse, selections[1], question.settings.load_bands, self.selector.deployments
        )
        for side in selections:
            self.marts.ahead(side)
            self.requests.ahead(side)
            self.reader.ahead(side)
        self.worker.submit(self.meanwhile)
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
        figures = self._figures(report, comparison, choice, scheduled)
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

    def _figures(
        self, report: Report, comparison: Comparison, choice: OriginChoice, scheduled: Future[tuple[Schedule, ...]]
    ) -> Report:
        """The report with everything that shows and does not judge."""
        if not choice.order:
            return report
        origin = choice.order[0]
        quantiles = tuple(quantile_figures(comparison))  # they take longest, and wait for nothing
        positions = [
            position
            for name, side in zip(NAMES, comparison.sides, strict=True)
            for position in self.marts.positions(side, name, comparison.origin_of(ACCEPTANCE_LENGTH) or origin)
        ]
        sides: dict[SideName, Selection] = {"baseline": comparison.sides[0], "candidate": comparison.sides[1]}
        return replace(
            report,
            effects=tuple(effects(comparison)),
            split=tuple(split_rows(comparison)),
            bands=tuple(band_figures(comparison, self.marts, origin)),
            quantiles=quantiles,
            positions=tuple(positions),
            contexts=tuple(context_shares(comparison, [label for label, _ in self.question.settings.context_bands])),
            load_gaps=tuple(load_gaps(comparison)),
            schedules=scheduled.result(),
            timeline=timeline(self.reader, sides),
            restarts=restarts(self.warehouse, sides),
        )

    def _judged(
        self, report: Report, comparison: Comparison, choice: OriginChoice, facts: Sequence[Sequence[Mapping[str, Any]]]
    ) -> Report:
        """The report with changes, gates, advice and verdict."""
        measured = measured_gates(self.question.gates, comparison, self.marts)
        habits = (self.requests.habits(comparison.sides[0]), self.requests.habits(comparison.sides[1]))
        stated = differences.start_up_changes(*facts)
        changes = [*stated, *traffic(comparison, habits)]
        reconciliation = [
            row
            for name, side in zip(NAMES, comparison.sides, strict=True)
            for row in self.marts.reconciliation(side, name)
        ]
        report = replace(
            report,
            baseline=replace(report.baseline, habits=habits[0]),
            candidate=replace(report.candidate, habits=habits[1]),
            changes=tuple(changes),
            reconciliation=tuple(reconciliation),
        )
        results = self._correctness(report, comparison, habits, known=all(facts))
        required = differences.target_changed(changes) or differences.lossy(facts[1])
        results += quality.quality_results(
            self.question.gates.gates,
            quality.figures(self.warehouse, comparison.sides[0]),
            quality.figures(self.warehouse, comparison.sides[1]),
            required=required,
        )
        results += measured
        results = hold_rate(results, self.question.gates.false_discovery_rate)
        dates = comparison.sides[1].dates
        results = acknowledge(
            results, self.question.acknowledged, comparison.sides[1].deployments, dates[-1] if dates else None
        )
        histories = self._histories(comparison, choice, results)
        clues = advices.Clues(
            results,
            report.split,
            report.bands,
            report.positions,
            reconciliation,
            changes,
            histories,
            contexts(comparison, [label for label, _ in self.question.settings.context_bands]),
        )
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
            history=tuple(night for history in histories for night in history.nights),
            notes=(
                *notes(results, comparison, required=required),
                *level_notes(histories),
                *load_notes(reconciliation),
            ),
        )

    def _histories(self, comparison: Comparison, choice: OriginChoice, results: Sequence[GateResult]) -> list[History]:
        """What the nights before the candidate's last one say, of each deployment that has enough of them."""
        baseline, candidate = comparison.sides
        if not choice.order or not candidate.nights:
            return []
        verdicts = {r.measure: r.verdict for r in results if r.stratum is None and r.gate in {"latency", "capacity"}}
        one_night = len(candidate.nights) == 1
        sides = looked_back_on(self.selector, {night.deployment: night.date for night in candidate.nights})
        return [
            look_back(
                frame,
                side,
                self.selector.starts(side.deployments[0]),
                self.question.settings.load_bands,
                compared=baseline,
                judged=verdicts if one_night else {},
            )
            for side, frame in zip(sides, self.reader.courses(sides, choice.order[0], MEASURED), strict=True)
        ]

    def _correctness(
        self,
        report: Report,
        comparison: Comparison,
        habits: tuple[Habits, Habits],
        *,
        known: bool,
    ) -> list[GateResult]:
        gates = {
            gate.measure: gate for gate in self.question.gates.gates if gate.gate == "correctness" and gate.enabled
        }
        results = []
        if "acceptance_length" in gates:
            origin = comparison.origin_of(ACCEPTANCE_LENGTH)
            counts = [self._acceptance(side, origin) for side in comparison.sides]
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
            results.append(
                correctness.comparability_gate(
                    gates["comparability"],
                    report.changes,
                    habits,
                    known=known,
                    two_sided=all(side.nights for side in comparison.sides),
                )
            )
        if "paired_outputs" in gates:
            baseline, candidate = comparison.sides
            results.append(
                correctness.paired_gate(
                    gates["paired_outputs"],
                    self.requests.pairs(baseline, candidate),
                    self.requests.self_pairs(baseline),
                    target_changed=differences.target_changed(report.changes),
                )
            )
        return results

    def _acceptance(self, side: Selection, origin: str | None) -> Acceptance:
        if origin is None:
            return Acceptance(0.0, 0.0, 0.0, None)
        columns = self.reader.frame(side, origin).columns
        rounds, drafted, accepted = (float(columns[name].sum()) for name in ("rounds", "drafted", "accepted"))
        return Acceptance(rounds, drafted, accepted, self.reader.first_position(side, origin))


def _limit_changed(counts: Sequence[Acceptance]) -> bool:
    """Whether drafts have another mean length on the two sides, whatever the start-up records say."""
    lengths = [side.drafted / side.rounds for side in counts if side.rounds > 0]
    return len(lengths) == 2 and abs(lengths[1] / lengths[0] - 1) > differences.SAME_LENGTH
