"""The report as JUnit XML: one test case a gate result, so that any CI system shows what failed and why."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence

from .format import change, figure, gate_title, interval, plural, tolerance, verdict_label
from .model import GATE_NAMES, GateResult, Report
from .plain import one_line
from .wording import headline

REQUIRED_NOT_DECIDED = frozenset({"inconclusive", "no_data", "not_comparable"})
"""Verdicts that count as failures where a gate is required."""


def render(report: Report) -> str:
    """The report as JUnit XML, valid against the schemas that Jenkins, Ant and Surefire publish.

    Failed gates, and required ones that could not be decided, are failures; whatever else did not pass is skipped, with
    its reason as message.
    """
    root = ET.Element("testsuites")
    root.extend(_suite(report, position, name) for position, name in enumerate(GATE_NAMES))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(report: Report, position: int, name: str) -> ET.Element:
    gates = [gate for gate in report.gates if gate.gate == name]
    cases = [_case(gate, number) for gate, number in _numbered(gates)]
    suite = ET.Element(
        "testsuite",
        name=f"specledger.{name}",
        tests=str(len(cases)),
        failures=str(sum(case.find("failure") is not None for case in cases)),
        errors="0",
        skipped=str(sum(case.find("skipped") is not None for case in cases)),
        time="0",
        timestamp=report.generated_at[:19] or "1970-01-01T00:00:00",
        hostname="localhost",
        id=str(position),
        package="specledger",
    )
    properties = ET.SubElement(suite, "properties")
    for key, value in (("baseline", report.baseline.where), ("candidate", report.candidate.where)):
        ET.SubElement(properties, "property", name=key, value=one_line(value))
    suite.extend(cases)
    ET.SubElement(suite, "system-out").text = one_line(headline(report))
    ET.SubElement(suite, "system-err").text = ""
    return suite


def _numbered(gates: Sequence[GateResult]) -> list[tuple[GateResult, int]]:
    """Each gate with how many before it have the same title: names must be unique for CI systems to follow them."""
    seen: dict[str, int] = {}
    numbered = []
    for gate in gates:
        title = gate_title(gate)
        seen[title] = seen.get(title, 0) + 1
        numbered.append((gate, seen[title]))
    return numbered


def _case(gate: GateResult, number: int) -> ET.Element:
    title = one_line(gate_title(gate)) + (f" ({number})" if number > 1 else "")
    case = ET.Element("testcase", classname=f"specledger.{gate.gate}", name=title, time="0")
    message = one_line(gate.reason) or verdict_label(gate.verdict)
    required = gate.required and gate.verdict in REQUIRED_NOT_DECIDED
    if gate.verdict == "fail" or required:
        kind = gate.verdict if not required else f"required_{gate.verdict}"
        ET.SubElement(case, "failure", message=message, type=kind).text = _detail(gate)
    elif gate.verdict != "pass":
        ET.SubElement(case, "skipped", message=f"{verdict_label(gate.verdict)}: {message}")
    return case


def _detail(gate: GateResult) -> str:
    told = [
        ("baseline", figure(gate.baseline, gate.units, gate.measure)),
        ("candidate", figure(gate.candidate, gate.units, gate.measure)),
        ("change", change(gate)),
        ("95 % interval", interval(gate)),
        ("allowed", tolerance(gate)),
        ("data", f"{plural(gate.n_baseline, gate.unit or 'unit')} against {gate.n_candidate:,}"),
        ("origin", gate.origin or ""),
        *(("try", text) for text in gate.advice),
    ]
    return "\n".join(f"{name}: {one_line(text)}" for name, text in told if text)
