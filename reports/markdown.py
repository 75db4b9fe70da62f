"""The report as GitHub-flavoured Markdown for pull requests and step summaries: failing things first, under 64 KB."""

from __future__ import annotations

import re
from collections.abc import Sequence

from . import next_steps, tables, wording
from .charts import CHARTS
from .format import dates, figure, verdict_counts, verdict_label
from .groups import remedies
from .model import GATE_NAMES, Report, Schedule, Side, Verdict
from .plain import one_line
from .terms import switched

MOST_BYTES = 60_000
"""GitHub refuses comments above 65,536 characters; the rest is for whoever puts something around the report."""
MOST_GATES = 40
LONGEST = 300
"""Characters of one cell or sentence."""
SIGNS: dict[Verdict, str] = {
    "fail": "❌",
    "warn": "⚠️",
    "inconclusive": "❔",
    "not_comparable": "≠",
    "no_data": "–",
    "acknowledged": "☑️",
    "pass": "✅",
}
"""A sign beside each verdict; the word stands next to it."""
NO_WIDTH = "\N{ZERO WIDTH SPACE}"
_MARKUP = re.compile(r"([\\`*_\[\]!|~$])")
_BLOCK = re.compile(r"^([-+=#]|\d+(?=[.)](\s|$)))")
"""What at the start of a line would make a list, a heading or a rule of it."""
_COMMAND = re.compile(r"\\`(specledger [a-z]+)\\`")
"""A command of ours in a sentence: the one code span that text may make."""
_LINKED = re.compile(r"@|#(?=\d)|(?<=:)//|(?<=www)\.", re.IGNORECASE)
"""What GitHub turns into a mention, a reference or a link even where it is escaped; a space of no width stops it."""


def render(report: Report) -> str:
    """The report as Markdown text of at most 60,000 bytes."""
    sections = [
        _head(report),
        _sides(report),
        _gates(report, ("fail", "warn"), "What needs a look", open_=True),
        _advice(report),
        _summary(report),
        _boundary(report),
        *(_schedule(one) for one in report.schedules),
        _gates(report, ("inconclusive", "not_comparable"), "Undecided", open_=False),
        _folded(tables.split_table(report.split, switch=switched(report) is not None)),
        _folded(tables.effect_table(report.effects)),
        _folded(tables.difference_table(report.changes)),
        _folded(tables.reconciliation_table([row for row in report.reconciliation if row.verdict != "ok"])),
        _notes(report),
        _gates(report, ("pass", "acknowledged", "no_data"), "The other gates", open_=False),
    ]
    return _fitted([section for section in sections if section])


def escape(text: str) -> str:
    """Untrusted text as text: no markup, link, mention, image or HTML comes of it."""
    line = one_line(text)
    if len(line) > LONGEST:
        line = line[: LONGEST - 1] + "…"
    line = _MARKUP.sub(r"\\\1", line).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    line = _COMMAND.sub(r"`\1`", line)
    return _LINKED.sub(lambda match: f"{match[0]}{NO_WIDTH}" if match[0] in "@#" else f"{NO_WIDTH}{match[0]}", line)


def paragraph(text: str) -> str:
    """Untrusted text that begins a line, as text."""
    return _BLOCK.sub(lambda match: match[0] + NO_WIDTH if match[0].isdigit() else f"\\{match[0]}", escape(text))


def code(text: str) -> str:
    """Untrusted text as a code span, also inside a table."""
    line = one_line(text)
    if len(line) > LONGEST:
        line = line[: LONGEST - 1] + "…"
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    fence = "`" * (longest + 1)
    space = " " if line.startswith("`") or line.endswith("`") or not line else ""
    return f"{fence}{space}{line.replace('|', chr(92) + '|')}{space}{fence}"


def _head(report: Report) -> str:
    lines = [
        f"## {SIGNS[report.verdict]} specledger: {wording.verdict(report)}",
        "",
        paragraph(wording.headline(report)),
    ]
    lines += ["", *(f"- {paragraph(sentence)}" for sentence in wording.findings(report))]
    step = next_steps.next_step(report)
    lines += ["", f"**Try:** {escape(step)}"] if step else []
    return "\n".join(lines).rstrip()


def _sides(report: Report) -> str:
    return "\n".join(_side(side) for side in (report.baseline, report.candidate))


def _side(side: Side) -> str:
    names = ", ".join(code(name) for name in side.deployments[:5]) or "no deployment matches"
    more = f" and {len(side.deployments) - 5} more" if len(side.deployments) > 5 else ""
    return f"- **{side.name.capitalize()}**: {names}{more}, {escape(dates(side.dates))}; {code(side.where)}"


def _summary(report: Report) -> str:
    lines = ["| Gate | Results |", "| --- | --- |"]
    for name in GATE_NAMES:
        counts = verdict_counts([gate for gate in report.gates if gate.gate == name])
        told = ", ".join(f"{SIGNS[verdict]} {n} {verdict_label(verdict)}" for verdict, n in counts.items())
        lines.append(f"| {name} | {told or 'not judged'} |")
    return "\n".join(lines)


def _gates(report: Report, verdicts: Sequence[Verdict], title: str, *, open_: bool) -> str:
    chosen = [gate for gate in report.gates if gate.verdict in verdicts]
    if not chosen:
        return ""
    table = tables.gate_table(chosen, title)
    if open_:
        return f"### {title}\n\n{_table(table)}"
    return _details(f"{title} ({len(chosen)})", _table(table))


def _advice(report: Report) -> str:
    if not report.advice:
        return ""
    items = [
        f"1. {f'{escape(item.where)} ' if item.where else ''}**{escape(item.advice.finding)}** "
        f"{escape(item.advice.evidence)} "
        f"Try: {escape(item.advice.action)}"
        for item in remedies(report.advice)
    ]
    return "### What to try\n\n" + "\n".join(items)


def _boundary(report: Report) -> str:
    chart = CHARTS["speedup"]
    rows = chart.rows(report)
    if not rows:
        return ""
    lines = ["| Load | Side | T0 | Round time | L_eff | Needed | TPOT | Speedup | 95 % interval |"]
    lines.append("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for row in rows:
        bounds = (
            f"{figure(row['speedup_lower'], measure='speedup')} to {figure(row['speedup_upper'], measure='speedup')}"
            if row["speedup_lower"] is not None
            else ""
        )
        cells = (
            escape(row["load_band"]),
            row["side"],
            figure(row["t0_ms"], "ms"),
            figure(row["round_time_ms"], "ms"),
            figure(row["effective_length"]),
            figure(row["break_even_length"]),
            figure(row["tpot_ms"], "ms"),
            figure(row["speedup"], measure="speedup"),
            bounds,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return f"### {chart.title}\n\n" + "\n".join(lines)


def _schedule(recommended: Schedule) -> str:
    table = _folded(tables.schedule_table(recommended)) if next_steps.compared(recommended) else ""
    return f"{paragraph(next_steps.schedule(recommended))}\n\n{table}".rstrip()


def _notes(report: Report) -> str:
    return "\n".join(f"- {paragraph(note)}" for note in report.notes)


def _folded(table: tables.Table) -> str:
    return _details(table.caption, _table(table)) if table else ""


def _details(summary: str, body: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>\n\n{body}\n\n</details>"


def _table(table: tables.Table) -> str:
    lines = [
        f"| {' | '.join(escape(column.heading) for column in table.columns)} |",
        f"| {' | '.join('---:' if column.numeric else '---' for column in table.columns)} |",
    ]
    lines += [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in table.rows[:MOST_GATES]]
    if len(table.rows) > MOST_GATES:
        lines.append("")
        lines.append(f"{len(table.rows) - MOST_GATES} more rows are in the report.")
    return "\n".join(lines)


def _cell(cell: tables.Cell) -> str:
    sign = f"{SIGNS[cell.verdict]} " if cell.verdict in SIGNS else ""
    return sign + escape(cell.text)


def _fitted(sections: list[str]) -> str:
    """As many sections as fit, and a word about the others."""
    kept: list[str] = []
    used = 0
    for section in sections:
        used += len(section.encode()) + 2
        if used > MOST_BYTES:
            kept.append("The rest is in the report itself: it would not fit here.")
            break
        kept.append(section)
    return "\n\n".join(kept) + "\n"
