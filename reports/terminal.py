"""The report on a terminal: what failed and why, in 80 columns, with or without colour."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Sequence
from typing import TextIO

from . import next_steps, wording
from .benefit import speculating_side
from .format import (
    change,
    dates,
    figure,
    gate_title,
    interval,
    listed,
    number,
    place,
    plural,
    tolerance,
    verdict_counts,
    verdict_label,
)
from .groups import needs_a_look, remedies, results
from .model import GATE_NAMES, BandFigures, GateResult, Report, Side
from .plain import NO_BREAK, cut, one_line, padded, unbroken, width

COLUMNS = 80
MOST_GATES = 12
"""Measures that are told one by one; the others are counted."""
MOST_REMEDIES = 5
COLOURS = {
    "fail": "31",
    "warn": "33",
    "inconclusive": "36",
    "no_data": "2",
    "not_comparable": "36",
    "acknowledged": "34",
    "pass": "32",
}
"""Verdict: its SGR colour. The word says the same."""


def wants_colour(stream: TextIO) -> bool:
    """Whether a stream should get colours: a terminal that has them, and NO_COLOR not set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def show(report: Report, stream: TextIO) -> None:
    """Write the summary to a stream, in colour where it wants it; what its encoding lacks becomes a question mark."""
    text = render(report, colour=wants_colour(stream))
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(text.encode(encoding, "replace").decode(encoding))


def render(report: Report, *, colour: bool = False) -> str:
    """The summary of a report as lines of at most 80 columns, ended by a line break."""
    painted = _Paint(colour)
    blocks = [
        _head(report, painted),
        _sides(report),
        _gate_counts(report, painted),
        _gates(report, painted),
        _advice(report),
        _boundary(report),
        _wrapped(map(next_steps.schedule, report.schedules), "", "  "),
        _wrapped(report.notes, "- ", "  "),
    ]
    text = "\n\n".join("\n".join(block) for block in blocks if block)
    return text.replace(NO_BREAK, " ").replace("−", "-").replace("–", "-").replace("→", "->") + "\n"


class _Paint:
    def __init__(self, colour: bool) -> None:
        self._colour = colour

    def verdict(self, verdict: str, text: str) -> str:
        return f"\x1b[1;{COLOURS[verdict]}m{text}\x1b[0m" if self._colour else text


def _head(report: Report, painted: _Paint) -> list[str]:
    word = wording.verdict(report).upper()
    lines = _wrapped([wording.headline(report).removeprefix("Failed: ")], f"{word}  ", "  ")
    lines[0] = painted.verdict(report.verdict, word) + lines[0].removeprefix(word)
    step = next_steps.next_step(report)
    return [
        *lines,
        *_wrapped(wording.findings(report), "- ", "  "),
        *_wrapped([step] if step else [], "Try: ", "  "),
    ]


def _sides(report: Report) -> list[str]:
    return [_side(report.baseline), _side(report.candidate)]


def _side(side: Side) -> str:
    names = one_line(listed(side.deployments, most=3)) or "no deployment matches"
    when = dates(side.dates) if side.dates else ""
    room = COLUMNS - 11 - width(when) - 2
    return f"{side.name:<11}{cut(names, room)}{'  ' if when else ''}{when}"


def _gate_counts(report: Report, painted: _Paint) -> list[str]:
    lines = []
    for name in GATE_NAMES:
        mine = [gate for gate in report.gates if gate.gate == name]
        counts = verdict_counts(mine)
        told = ", ".join(painted.verdict(verdict, f"{n} {verdict_label(verdict)}") for verdict, n in counts.items())
        lines.append(f"{name:<13}{told or 'not judged'}")
    return lines


def _gates(report: Report, painted: _Paint) -> list[str]:
    shown = results(gate for gate in report.gates if needs_a_look(gate))
    lines: list[str] = []
    for group in shown[:MOST_GATES]:
        gate = group.first
        word = f"{verdict_label(gate.verdict):<14}"
        title = padded(one_line(gate_title(gate)), 30)
        lines.append(f"{painted.verdict(gate.verdict, word)} {title} {cut(_figures(gate), COLUMNS - 46)}".rstrip())
        also = listed([f"{place(other.stratum)} {change(other)}".rstrip() for other in group.others], most=12)
        lines += _wrapped([gate.reason + (f" Also {also}." if also else "")], "  ", "  ")
    if len(shown) > MOST_GATES:
        lines.append(f"and {plural(len(shown) - MOST_GATES, 'more measure')}, see the report")
    return lines


def _figures(gate: GateResult) -> str:
    if change(gate):
        bounds = f" ({interval(gate)})" if interval(gate) else ""
        return f"{change(gate)}{bounds}"
    if gate.candidate is None:
        return ""
    allowed = f", allowed {tolerance(gate)}" if tolerance(gate) else ""
    return f"{figure(gate.candidate, gate.units, gate.measure)}{allowed}"


def _advice(report: Report) -> list[str]:
    lines = ["What to try"]
    for remedy in remedies(report.advice)[:MOST_REMEDIES]:
        lines += _wrapped([f"{remedy.where}{remedy.advice.finding} {remedy.advice.action}"], "- ", "  ")
    return lines if len(lines) > 1 else []


def _boundary(report: Report) -> list[str]:
    side = speculating_side(report)
    bands = [band for band in report.bands if band.side == side and band.speedup is not None]
    if not bands:
        return []
    order = {band: position for position, band in enumerate(report.load_bands)}
    bands.sort(key=lambda band: (band.load_band == "all", order.get(band.load_band, len(order))))
    head = f"{'load':<10}{'T0 ms':>9}{'round ms':>10}{'L':>7}{'L_eff':>7}{'needed':>8}{'TPOT ms':>10}{'speedup':>9}"
    return [f"Benefit boundary ({side})", head, *(_band(band) for band in bands)]


def _band(band: BandFigures) -> str:
    return (
        f"{padded(one_line(band.load_band), 10)}{number(band.t0_ms):>9}{number(band.round_time_ms):>10}"
        f"{number(band.acceptance_length, 3):>7}{number(band.effective_length, 3):>7}"
        f"{number(band.break_even_length, 3):>8}{number(band.tpot_ms):>10}"
        f"{figure(band.speedup, measure='speedup'):>9}"
    )


def _wrapped(sentences: Iterable[str] | Sequence[str], first: str, others: str) -> list[str]:
    lines: list[str] = []
    for sentence in sentences:
        lines += textwrap.wrap(
            unbroken(one_line(sentence)),
            COLUMNS,
            initial_indent=first,
            subsequent_indent=others,
            break_on_hyphens=False,
        )
    return lines
