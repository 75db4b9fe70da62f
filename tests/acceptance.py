"""Acceptance cases: inputs, the commands that take them in, and what must come out (``expect.json``)."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from specledger.reports import next_steps, wording
from specledger.reports.model import from_json
from tests.command_line import CommandLine
from tests.reports.by_hand import disagreements

CASES = Path(__file__).resolve().parent / "cases"
GRID = {"original": "orig", "quantized": "quant", "speculative": "spec", "both": "both"}
"""The four sides of the quantization grid and the deployments that play them in the cases."""


TOPS = {
    "load_bands": (
        "On little data, speculation pays at load 2-4, 5-8 and 9-16 and costs at load 17-32 and 65-128; failed: TPOT",
        "TPOT rose by 55.5 % within like traffic",
        "Speculation pays at load 2-4 (1.87×, 95 % interval 1.84 to 1.90), 5-8 (1.69×, 1.65 to 1.72) and 9-16 (1.33×, ",
        "and costs at load 17-32 (0.91×, 0.89 to 0.93) and 65-128 (0.60×, ",
        "at load 65-128 not even full acceptance could pay; the pooled 1.21× (1.19 to 1.23) hides this.",
    ),
    "mix_shift": (
        "No gate failed",
        "the traffic changed",
        "acceptance length −18.2 % in all, +1.2 % within like traffic",
    ),
    "zero_acceptance": ("Failed: acceptance is dead: 0 of 20,016 rounds", "then switch speculation off"),
    "regression_true": ("acceptance length fell by 8.0 % (allowed −5 %)", "Every position fell"),
}
"""What the top of a report must say, so that someone who has nothing else can tell what happened."""


def names() -> list[str]:
    """Every case."""
    return sorted(path.parent.name for path in CASES.glob("*/expect.json"))


def failures(folder: Path, cli: CommandLine, out: Path) -> list[str]:
    """What a case expects and does not get, one line each; ``out`` is a folder for reports.

    Every verdict of a report must follow from the figures that stand beside it. A report may have further ``options``,
    in which ``{case}`` is the folder of the case, and an ``exit`` code.
    """
    expected = json.loads((folder / "expect.json").read_text())
    found = list(take_in(folder, cli))
    found += _checks(expected.get("checks", []), cli)
    found += _reports(expected.get("report") or [], cli, folder, out)
    found += _top(TOPS.get(folder.name, ()), out)
    found += _commands(expected.get("cli") or [], cli)
    found += _recommendation(expected.get("recommend"), cli)
    found += _facts(expected.get("facts", []), cli, out)
    return found


def take_in(folder: Path, cli: CommandLine) -> Iterator[str]:
    """Ingest and transform the inputs of a case; gives what goes wrong, one line each."""
    steps = _load(folder / "ingest.json", [])
    for step in steps:
        options = ["--deployment", step["deployment"]]
        for key, value in (step.get("labels") or {}).items():
            options += ["--label", f"{key}={value}"]
        for option in ("format", "year", "timezone", "instance"):
            if step.get(option) is not None:
                options += [f"--{option}", str(step[option])]
        result = cli.run("ingest", *(folder / path for path in step["paths"]), *options)
        if result.exit_code:
            yield f"ingest ended with {result.exit_code}: {result.stderr.strip()[-300:]}"
    if steps:
        result = cli.run("transform")
        if result.exit_code:
            yield f"transform ended with {result.exit_code}: {result.stderr.strip()[-300:]}"


def _checks(checks: list[dict[str, Any]], cli: CommandLine) -> Iterator[str]:
    for check in checks:
        result = cli.run("sql", check["sql"], "--format", "json")
        if result.exit_code:
            yield f"{check['name']}: sql ended with {result.exit_code}: {result.stderr.strip()[-200:]}"
            continue
        got = _answer(json.loads(result.stdout))
        if not _close(got, check["value"], check):
            yield f"{check['name']}: got {got}, want {check['value']}"


def _answer(rows: list[dict[str, Any]]) -> Any:
    """One value if the query gave one, else the rows (bare values where a row has one column)."""
    if not rows:
        return None
    values = [next(iter(row.values())) if len(row) == 1 else list(row.values()) for row in rows]
    return values[0] if len(values) == 1 and len(rows[0]) == 1 else values


def _close(got: Any, want: Any, tolerance: dict[str, Any]) -> bool:
    if isinstance(want, list):
        return (
            isinstance(got, list)
            and len(got) == len(want)
            and all(_close(g, w, tolerance) for g, w in zip(got, want, strict=True))
        )
    if want is None or isinstance(want, bool | str):
        return bool(got == want)
    if isinstance(got, bool) or not isinstance(got, int | float):
        return False
    allowed = tolerance.get("abs_tol") or abs(want) * (tolerance.get("rel_tol") or 0)
    return bool(abs(got - want) <= allowed + 1e-12 * max(1, abs(want)))


def _reports(
    reports: dict[str, Any] | list[dict[str, Any]], cli: CommandLine, folder: Path, out: Path
) -> Iterator[str]:
    for report in [reports] if isinstance(reports, dict) else reports:
        shutil.rmtree(out, ignore_errors=True)
        sides = ["--baseline", report["baseline"], "--candidate", report["candidate"]]
        options = [option.replace("{case}", str(folder)) for option in report.get("options", [])]
        result = cli.run("report", *sides, *options, "--out", out)
        document = _load(out / "report.json", None)
        if document is None:
            yield f"report ended with {result.exit_code} and wrote no report.json: {result.stderr.strip()[-300:]}"
            continue
        if result.exit_code != report.get("exit", result.exit_code):
            yield f"report ended with {result.exit_code}: {document['reason']}"
        yield from disagreements(document)
        yield from (f"report: {expected}" for expected in report["expect"] if not _reported(document, expected))


def _top(phrases: Iterable[str], out: Path) -> Iterator[str]:
    """The phrases that the sentences at the top of the last report lack."""
    if not phrases:
        return
    report = from_json((out / "report.json").read_text(encoding="utf-8"))
    said = " ".join((wording.headline(report), *wording.findings(report), next_steps.next_step(report) or ""))
    yield from (f"the top says «{said}», not «{phrase}»" for phrase in phrases if phrase not in said)


def _reported(document: dict[str, Any], expected: dict[str, Any]) -> bool:
    verdicts = expected.get("verdict", [])
    verdicts = verdicts if isinstance(verdicts, list) else [verdicts]
    if "effect" in expected:
        effects = [effect for effect in document["effects"] if effect["measure"] == expected["measure"]]
        distance = abs(effects[0][expected["effect"]] - expected["value"]) if effects else float("inf")
        return distance <= expected.get("abs_tol", 0.01)
    if "measure" not in expected:
        return document["verdict"] in verdicts
    gates = [
        gate
        for gate in document["gates"]
        if gate["measure"] == expected["measure"] and expected.get("gate") in (None, gate["gate"])
    ]
    if "stratum" in expected:
        gates = [gate for gate in gates if gate.get("stratum") == expected["stratum"]]
    else:
        gates = [gate for gate in gates if not gate.get("stratum")] or gates
    return bool(gates) and all(gate["verdict"] in verdicts for gate in gates)


def _commands(commands: list[dict[str, Any]], cli: CommandLine) -> Iterator[str]:
    for command in commands:
        arguments = [argument.replace("{warehouse}", str(cli.warehouse)) for argument in command["args"]]
        result = cli.run(*arguments)
        output = (result.stdout + result.stderr).lower()
        words = command.get("stderr_contains_any")
        if (
            result.exit_code != command.get("exit", 0)
            or "Traceback" in result.stderr
            or (words and not any(word.lower() in output for word in words))
        ):
            yield f"{' '.join(arguments)}: ended with {result.exit_code}, {result.stderr.strip()[-200:]}"


def _recommendation(expected: dict[str, Any] | None, cli: CommandLine) -> Iterator[str]:
    if not expected:
        return
    result = cli.run(*expected["args"])
    if result.exit_code:
        yield f"recommend ended with {result.exit_code}: {result.stderr.strip()[-200:]}"
        return
    schedule = json.loads(result.stdout)["num_speculative_tokens_per_batch_size"]
    follows = [(low, end) for (_, end, _), (low, _, _) in itertools.pairwise(schedule)]
    if not (
        schedule
        and schedule[0][0] == 1
        and all(low > end for low, end in follows)
        and all(low <= high and 0 <= k <= expected.get("max_k", 99) for low, high, k in schedule)
    ):
        yield f"recommend: {schedule} is no valid schedule"
        return
    for load, want in expected.get("k_at", []):
        got = next((k for low, high, k in schedule if low <= load <= high), schedule[-1][2])
        if got != want:
            yield f"recommend: K at {load} is {got}, want {want}"


def _facts(facts: list[dict[str, Any]], cli: CommandLine, out: Path) -> Iterator[str]:
    for fact in facts:
        got = _grid_fact(fact, cli, out / "grid") if fact["fn"] in ("gain", "interaction") else _estimate(fact, cli)
        if got is None or not _close(got, fact["value"], fact):
            yield f"{fact}: got {got}"


def _grid_fact(fact: dict[str, Any], cli: CommandLine, out: Path) -> float | None:
    if not out.exists():
        sides = [f"--grid={side}=deployment = '{deployment}'" for side, deployment in GRID.items()]
        cli.run("report", *sides, "--out", out)
    grid = (_load(out / "report.json", None) or {}).get("grid") or {}
    if fact["fn"] == "interaction":
        return grid.get("interaction")
    side = next(side for side, deployment in GRID.items() if deployment == fact["deployment"])
    return grid.get("gains", {}).get(side)


def _estimate(fact: dict[str, Any], cli: CommandLine) -> float | None:
    acceptance = fact.get("acceptance", fact.get("conditional"))
    values = acceptance if isinstance(acceptance, list) else [acceptance]
    options = [] if acceptance is None else ["--acceptance", ",".join(map(str, values))]
    for key in ("gamma", "t0", "t_draft", "t_verify", "t_other"):
        if fact.get(key) is not None:
            options += [f"--{key.replace('_', '-')}", str(fact[key])]
    result = cli.run("estimate", *options, "--format", "json")
    return None if result.exit_code else json.loads(result.stdout).get(fact["fn"])


def _load(path: Path, default: Any) -> Any:
    return json.loads(path.read_text()) if path.exists() else default
