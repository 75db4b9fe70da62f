"""The tables of a report as plain cells, for every writer to set in its own way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any

from .charts.chart import Chart, Rows, Shown
from .format import (
    UNKNOWN,
    band_label,
    change,
    factor,
    figure,
    hundredths,
    interval,
    listed,
    measure_label,
    number,
    percent,
    place,
    plural,
    tolerance,
    verdict_label,
)
from .groups import URGENCY, by_urgency
from .model import (
    Change,
    DeploymentFacts,
    Effect,
    Evidence,
    GateResult,
    Grid,
    ReconciliationRow,
    Report,
    Schedule,
    SplitRow,
)
from .terms import terms

LONG = 48
"""A cell of more characters is a sentence, and may break."""
WIDE = 7
"""Columns that a screen of medium width holds."""
MOST_STACKED = 200
"""Rows that are bearable as blocks."""


@dataclass(frozen=True)
class Column:
    """One column: heading, the measure that defines its figures, and whether they are numbers."""

    heading: str
    measure: str | None = None
    numeric: bool = False


@dataclass(frozen=True)
class Cell:
    """One cell: its text, the value it sorts by, its verdict if it is one, and what can be unfolded below it."""

    text: str
    sort: float | str | None = None
    verdict: str | None = None
    more: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Table:
    """A caption, columns and rows of cells."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...] = field(default=())

    def __bool__(self) -> bool:
        return bool(self.rows)

    @property
    def stacks(self) -> bool:
        """Whether a narrow screen shows its rows as blocks: it holds sentences, or is too wide for it."""
        if len(self.rows) > MOST_STACKED:
            return False
        return len(self.columns) > WIDE or any(len(cell.text) > LONG for row in self.rows for cell in row)


def gate_table(gates: Sequence[GateResult], caption: str = "All results") -> Table:
    """Gates with their figures and reasons; below each reason what it was computed from."""
    columns = (
        Column("Verdict"),
        Column("Measure"),
        Column("Where"),
        Column("Baseline", numeric=True),
        Column("Candidate, same mix", numeric=True),
        Column("Change", numeric=True),
        Column("95 % interval", numeric=True),
        Column("Allowed", numeric=True),
        Column("Why"),
    )
    return Table(caption, columns, tuple(_gate_row(gate) for gate in by_urgency(gates)))


def chart_table(chart: Chart, rows: Rows) -> Table:
    """The rows of a chart."""
    columns = tuple(Column(_heading(shown), shown.measure, shown.units is not None) for shown in chart.columns)
    return Table(chart.title, columns, tuple(tuple(_shown(shown, row) for shown in chart.columns) for row in rows))


def effect_table(effects: Sequence[Effect]) -> Table:
    """What happened within like traffic, and what its mix did."""
    return _table(
        "Change within like traffic and by another mix",
        effects,
        ("Measure", lambda effect: Cell(measure_label(effect.measure))),
        ("Within", lambda effect: _signed(effect.within)),
        ("Mix", lambda effect: _signed(effect.mix)),
        ("Whole change", lambda effect: _signed(effect.total)),
        ("Common traffic", lambda effect: Cell(percent(effect.common_share), effect.common_share)),
        ("Strata", lambda effect: Cell(number(effect.strata), effect.strata)),
        ("Origin", lambda effect: Cell(effect.origin)),
    )


def split_table(split: Sequence[SplitRow], *, switch: bool) -> Table:
    """The change of ln TPOT by load band, taken apart; ``switch`` where speculation was switched on or off."""
    names = [term.label for term in terms(split[0], switch=switch)] if split else []
    return _table(
        "Change of TPOT by load, taken apart (Δ ln × 100: the terms of a line add up)",
        split,
        ("Where", lambda row: Cell(place(row.stratum))),
        ("All terms", lambda row: Cell(hundredths(row.d_ln_tpot), row.d_ln_tpot)),
        *((name, _term(position, switch=switch)) for position, name in enumerate(names)),
        ("Share of decode time", lambda row: Cell(percent(row.decode_share), row.decode_share)),
        ("Origin", lambda row: Cell(row.origin)),
    )


def schedule_table(schedule: Schedule) -> Table:
    """The draft length recommended at each load band beside the one in force, and why."""
    return _table(
        f"Draft length by load: {schedule.deployment}",
        schedule.bands,
        ("Load", lambda band: Cell(band_label(band.load_band))),
        ("K now", lambda band: Cell(number(band.in_force), band.in_force)),
        ("K advised", lambda band: Cell(number(band.length), band.length)),
        ("TPOT now (ms)", lambda band: Cell(number(band.tpot_ms_in_force), band.tpot_ms_in_force)),
        ("TPOT advised (ms)", lambda band: Cell(number(band.tpot_ms), band.tpot_ms)),
        ("95 % interval", lambda band: Cell(_bounds(band.interval), band.interval[0] if band.interval else None)),
        ("Evidence", lambda band: Cell(band.evidence)),
        ("Why", lambda band: Cell(band.reason)),
    )


def grid_table(grid: Grid) -> Table:
    """Gains over the original and their interaction at each load, with their intervals."""
    return _table(
        "Gains by load (× the original), with 95 % intervals",
        grid.by_band,
        ("Load", lambda load: Cell(band_label(load))),
        *(
            (name.capitalize(), partial(_gain, grid=grid, name=name))
            for name in dict.fromkeys(name for found in grid.by_band.values() for name in found)
        ),
    )


def reconciliation_table(rows: Sequence[ReconciliationRow], caption: str = "Identities") -> Table:
    """Identities that were checked, the broken ones first."""
    order = {"fail": 0, "no_data": 1, "ok": 2}
    return _table(
        caption,
        sorted(rows, key=lambda row: order.get(row.verdict, 0)),
        (
            "Verdict",
            lambda row: Cell({"ok": "holds"}.get(row.verdict, verdict_label(row.verdict)), verdict=row.verdict),
        ),
        ("Check", lambda row: Cell(row.check_name.replace("_", " "))),
        ("Of", lambda row: Cell(_where(row))),
        ("Date", lambda row: Cell(row.date)),
        ("Origin", lambda row: Cell(row.origin)),
        ("Expected", lambda row: Cell(number(row.expected), row.expected)),
        ("Found", lambda row: Cell(number(row.found), row.found)),
        ("Difference", lambda row: Cell(number(row.difference), row.difference)),
        ("What it means", lambda row: Cell(row.detail or "")),
    )


def reconciliation_summary(rows: Sequence[ReconciliationRow], caption: str) -> Table:
    """The same check by check, where there are too many to be read one by one."""
    groups: dict[tuple[str, str, str], list[ReconciliationRow]] = {}
    for row in rows:
        groups.setdefault((row.check_name, row.side, row.origin), []).append(row)
    return _table(
        f"{caption}, added up (one by one in report.json)",
        list(groups.items()),
        ("Check", lambda group: Cell(group[0][0].replace("_", " "))),
        ("Side", lambda group: Cell(group[0][1])),
        ("Origin", lambda group: Cell(group[0][2])),
        ("Identities", lambda group: Cell(number(len(group[1])), len(group[1]))),
        ("Deployments", lambda group: _how_many({row.deployment for row in group[1]})),
        ("Nights", lambda group: _how_many({row.date for row in group[1]})),
        ("Among them", lambda group: Cell(listed(list(dict.fromkeys(map(_where, group[1]))), most=3))),
        ("Largest difference", lambda group: _largest(row.difference for row in group[1])),
    )


def _how_many(names: set[str]) -> Cell:
    return Cell(number(len(names)), len(names))


def _largest(values: Iterable[float | None]) -> Cell:
    known = [abs(value) for value in values if value is not None]
    return Cell(number(max(known)), max(known)) if known else Cell("")


def origin_table(report: Report) -> Table:
    """How much each source of figures holds for each side."""
    found = [(side.name, origin) for side in (report.baseline, report.candidate) for origin in side.origins]
    return _table(
        "What the figures rest on",
        found,
        ("Side", lambda row: Cell(row[0])),
        ("Origin", lambda row: Cell(row[1].origin)),
        ("Observations", lambda row: Cell(number(row[1].observations), row[1].observations)),
        ("Output tokens", lambda row: Cell(number(row[1].output_tokens), row[1].output_tokens)),
        ("Rounds", lambda row: Cell(number(row[1].rounds), row[1].rounds)),
        ("Hours", lambda row: Cell(number(row[1].hours), row[1].hours)),
    )


def difference_table(changes: Sequence[Change]) -> Table:
    """What differs between the two sides, and what that means."""
    return _table(
        "What differs between the sides",
        changes,
        ("What", lambda row: Cell(_named(row.what))),
        ("Kind", lambda row: Cell(row.kind)),
        ("Baseline", lambda row: Cell(row.baseline)),
        ("Candidate", lambda row: Cell(row.candidate)),
        ("What it means", lambda row: Cell(row.consequence)),
    )


def fact_table(report: Report) -> Table:
    """What the deployments of each side said of themselves; only facts that one of them gave."""
    facts = [fact for side in (report.baseline, report.candidate) for fact in side.facts]
    names = [
        name
        for name in DeploymentFacts.__dataclass_fields__
        if name not in {"deployment", "labels"} and any(getattr(fact, name) is not None for fact in facts)
    ]
    labels = sorted({key for fact in facts for key in fact.labels})
    asked: list[tuple[str, Callable[[DeploymentFacts], Any]]] = [
        *((name.replace("_", " "), attrgetter(name)) for name in names),
        *((f"label {key}", partial(_label, key=key)) for key in labels),
    ]
    return _table(
        "What the deployments said of themselves",
        asked,
        ("Fact", lambda row: Cell(row[0])),
        ("Baseline", lambda row: Cell(_said(report.baseline.facts, row[1]))),
        ("Candidate", lambda row: Cell(_said(report.candidate.facts, row[1]))),
    )


def evidence(gate: GateResult) -> tuple[tuple[str, str], ...]:
    """What a gate was computed from, as names and figures; nothing for gates without."""
    told = [
        ("Baseline", plural(gate.n_baseline, gate.unit or "unit") if gate.n_baseline else ""),
        ("Candidate", plural(gate.n_candidate, gate.unit or "unit") if gate.n_candidate else ""),
        ("Origin", gate.origin or ""),
        ("Smallest change that would show", _detectable(gate)),
        ("Method", gate.method or ""),
        (
            "Night-to-night variation",
            {"estimated": "estimated", "not_estimated": "not estimated"}.get(gate.night_variance or "", ""),
        ),
        ("Common traffic", percent(gate.common_share) if gate.common_share is not None else ""),
        ("p, not worse than allowed", number(gate.p_value, 3) if gate.p_value is not None else ""),
        ("Degrees of freedom", number(gate.degrees_of_freedom, 3) if gate.degrees_of_freedom is not None else ""),
        *_side_evidence("baseline", gate.evidence_baseline),
        *_side_evidence("candidate", gate.evidence_candidate),
        ("Accepted because", gate.acknowledged or ""),
    ]
    return tuple((name, text) for name, text in told if text)


def _side_evidence(side: str, found: Evidence | None) -> list[tuple[str, str]]:
    if found is None:
        return []
    told = [(f"Figure, {side}", number(found.figure, 6) if found.figure is not None else "")]
    if found.numerator is not None and found.denominator is not None:
        scale = "" if found.scale == 1 else f"{number(found.scale)} · "
        told.append((f"Made of, {side}", f"{scale}{number(found.numerator, 8)} / {number(found.denominator, 8)}"))
    if found.variance is not None:
        told.append((f"Standard error, {side}", number(found.variance**0.5, 3)))
    told.append((f"Strata and nights, {side}", f"{found.strata} and {found.nights}" if found.strata else ""))
    return told


def _gate_row(gate: GateResult) -> tuple[Cell, ...]:
    required = ", required" if gate.required and gate.verdict not in {"pass", "fail"} else ""
    return (
        Cell(verdict_label(gate.verdict) + required, float(URGENCY.index(gate.verdict)), gate.verdict),
        Cell(measure_label(gate.measure)),
        Cell(place(gate.stratum)),
        Cell(figure(gate.baseline, gate.units, gate.measure), gate.baseline),
        Cell(figure(gate.candidate, gate.units, gate.measure), gate.candidate),
        Cell(change(gate), gate.change),
        Cell(interval(gate), gate.interval[0] if gate.interval else None),
        Cell(tolerance(gate), gate.tolerance),
        Cell(gate.reason, more=evidence(gate)),
    )


def _detectable(gate: GateResult) -> str:
    if gate.detectable is None:
        return ""
    return percent(gate.detectable) if gate.kind == "relative" else number(gate.detectable)


def _table(caption: str, rows: Iterable[Any], *columns: tuple[str, Callable[[Any], Cell]]) -> Table:
    cells = tuple(tuple(make(row) for _, make in columns) for row in rows)
    numeric = [any(isinstance(line[position].sort, int | float) for line in cells) for position in range(len(columns))]
    heads = tuple(Column(heading, numeric=flag) for (heading, _), flag in zip(columns, numeric, strict=True))
    return Table(caption, heads, cells)


def _heading(shown: Shown) -> str:
    plain = shown.units is None or shown.units in {"count", "ratio", "%"}
    return shown.heading if plain else f"{shown.heading} ({shown.units})"


def _shown(shown: Shown, row: Any) -> Cell:
    value = row.get(shown.field)
    if value is None:
        return Cell("–")
    if isinstance(value, bool):
        return Cell("yes" if value else "no")
    if isinstance(value, str):
        return Cell(band_label(value) if shown.field == "load_band" else value)
    if shown.units == "ratio":
        return Cell(percent(value), value)
    if shown.units == "×":
        return Cell(factor(value), value)
    if shown.units == "%":
        return Cell(percent(value / 100, signed=True), value)
    return Cell(number(value), value)


def _term(position: int, *, switch: bool) -> Callable[[SplitRow], Cell]:
    def cell(row: SplitRow) -> Cell:
        value = terms(row, switch=switch)[position].value
        return Cell(hundredths(value), value)

    return cell


def _label(fact: DeploymentFacts, key: str) -> str | None:
    return fact.labels.get(key)


def _said(facts: Sequence[DeploymentFacts], asked: Callable[[DeploymentFacts], Any]) -> str:
    """What the deployments of a side said; where they differ, which of them said it."""
    said: dict[str, list[str]] = {}
    for fact in facts:
        value = asked(fact)
        text = UNKNOWN if value is None else number(value) if isinstance(value, int) else str(value)
        said.setdefault(text, []).append(fact.deployment)
    if len(said) <= 1:
        return next(iter(said), UNKNOWN)
    return "; ".join(f"{text} ({listed(names, most=3)})" for text, names in said.items())


def _gain(load: str, *, grid: Grid, name: str) -> Cell:
    value = grid.by_band[load].get(name)
    bounds = grid.by_band_intervals.get(load, {}).get(name)
    within = "" if bounds is None else f" ({number(bounds[0], 3)} to {number(bounds[1], 3)})"
    return Cell(f"{number(value, 3)}{within}", value)


def _named(what: str) -> str:
    """A fact as words; labels keep the name that they were given."""
    return what.replace("_", " ") if what in DeploymentFacts.__dataclass_fields__ else what


def _bounds(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else f"{number(interval[0])} to {number(interval[1])}"


def _signed(share: float) -> Cell:
    return Cell(percent(share, signed=True), share)


def _where(row: ReconciliationRow) -> str:
    instance = row.instance if row.instance not in {None, row.deployment} else None
    engine = None if row.engine is None else f"engine {row.engine}"
    return ", ".join(part for part in (f"{row.side} {row.deployment}", instance, engine) if part)
