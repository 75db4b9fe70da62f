"""What every figure of a report means, taken from its declaration."""

from __future__ import annotations

from dataclasses import dataclass

from ..schemas import TABLES
from ..schemas.measures import MEASURES
from .format import measure_label

COLUMNS = {
    "speedup": "ledger",
    "t0_ms": "ledger",
    "break_even_length": "ledger",
    "survival": "positions",
    "conditional": "positions",
    "predicted_length": "positions",
    "marginal_gain": "positions",
    "token_share": "load_mix",
}
"""Figures that are no measure of a gate, and the mart whose column defines them."""


@dataclass(frozen=True)
class Term:
    """One figure: its name in reports and in SQL, what it is, its formula, and what tends to fool its readers."""

    name: str
    label: str
    sentence: str
    formula: str
    unit: str
    where: str
    traps: tuple[str, ...]


def glossary() -> dict[str, Term]:
    """Every figure that reports show, by its name in SQL, in the order of its label."""
    terms = [
        Term(
            measure.name,
            measure_label(measure.name),
            measure.sentence,
            measure.formula,
            measure.unit,
            f"{measure.mart}.{measure.name}",
            measure.traps,
        )
        for measure in MEASURES.values()
    ]
    for name, table in COLUMNS.items():
        column = TABLES[table].column(name)
        terms.append(Term(name, measure_label(name), column.doc, "", column.unit or "", f"{table}.{name}", ()))
    return {term.name: term for term in sorted(terms, key=lambda term: term.label.lower())}
