"""Acceptance cases that are written when wanted: a simulated server's own text, and the decision it must lead to.

A case is a folder as those beside it in ``tests/cases``: inputs, ``ingest.json`` and ``expect.json``.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.simulator import Task, World, text
from tests.simulator.engine import simulate

BEFORE, AFTER = "before", "after"
NIGHTS = {BEFORE: dt.datetime(2026, 9, 14, 3, tzinfo=dt.UTC), AFTER: dt.datetime(2026, 9, 15, 3, tzinfo=dt.UTC)}
TASKS = (
    Task("chat", 0.6, (0.66, 0.64, 0.62), output_tokens=60.0),
    Task("code", 0.4, (0.82, 0.80, 0.78), output_tokens=60.0),
)
WORLD = World(arrivals_per_s=5.0, tasks=TASKS)
SCRAPES, RESPONSES, LOG = "scrapes", "responses", "log"
Edit = Callable[[str], str]


@dataclass
class Case:
    """What is written into the folder of a case, and what is expected of it."""

    folder: Path
    steps: list[dict[str, Any]] = field(default_factory=list)
    expected: dict[str, Any] = field(default_factory=dict)

    def side(
        self,
        name: str,
        world: World,
        *inputs: str,
        seconds: float = 100.0,
        seed: int | None = None,
        instance: str = "one",
        edit: Edit = str,
        every_s: float = 3.0,
    ) -> None:
        """The text that one server of a deployment wrote, passed through ``edit``."""
        began = NIGHTS.get(name, NIGHTS[AFTER]).timestamp()
        number = len(self.steps) if seed is None else seed
        traces = [simulate(world, seconds, np.random.default_rng([number, e]), e) for e in range(world.engines)]
        folder = self.folder / "input" / name / instance
        folder.mkdir(parents=True)
        if SCRAPES in inputs:
            scrapes = text.scrapes(traces, began, every_s)
            body = "".join(f"# scraped_at {moment}\n{edit(scrape)}" for moment, scrape in scrapes)
            (folder / "metrics.prom").write_text(body)
        for trace in traces:
            if RESPONSES in inputs:
                (folder / f"responses{trace.engine}.jsonl").write_text(edit(text.responses(trace, began)))
            if LOG in inputs:
                (folder / "server.log").write_text(edit(text.log(trace, began, details=False)))
        self.ingest(name, folder, instance=instance, year=2026, timezone="UTC")

    def ingest(self, deployment: str, path: Path, **options: Any) -> None:
        """Take a path in for a deployment."""
        self.steps.append({"deployment": deployment, "paths": [str(path.relative_to(self.folder))], **options})

    def evaluated(self, name: str, figures: Mapping[str, tuple[float, float]]) -> None:
        """Evaluation figures (value and standard error) of a deployment, by task."""
        moment = NIGHTS[name] + dt.timedelta(hours=1)
        rows = [
            f"{name},{task},acc,{value},{error},5000,{moment.isoformat()}" for task, (value, error) in figures.items()
        ]
        path = self.folder / "input" / name / "quality.csv"
        path.write_text("\n".join(["deployment,task,metric,value,stderr,n,evaluated_at", *rows]) + "\n")
        self.ingest(name, path)

    def expect(self, *expectations: Mapping[str, Any], **report: Any) -> None:
        """What the report of after against before must say; ``exit`` and ``options`` as the runner knows them."""
        self.expected.setdefault("report", []).append(
            {
                "baseline": f"deployment = '{BEFORE}'",
                "candidate": f"deployment = '{AFTER}'",
                "expect": list(expectations),
                **report,
            }
        )

    def write(self) -> None:
        """Write the two files that make the folder a case."""
        (self.folder / "ingest.json").write_text(json.dumps(self.steps))
        (self.folder / "expect.json").write_text(json.dumps(self.expected))


def says(gate: str, measure: str, *verdicts: str, **more: Any) -> dict[str, Any]:
    """That a gate's overall verdict is one of these."""
    return {"gate": gate, "measure": measure, "verdict": list(verdicts), **more}


def both(case: Case, after: World, *inputs: str, before: World = WORLD, **options: Any) -> None:
    """The two nights of a comparison."""
    case.side(BEFORE, before, *inputs, **options)
    case.side(AFTER, after, *inputs, **options)


def clear_pass(case: Case) -> None:
    """Tails of two minutes are hardly known: a short load test is given tolerances that it can resolve."""
    both(case, WORLD, RESPONSES)
    tails = ("ttft_ms_p95", "e2e_ms_p95")
    wider = (f'[[gate]]\ngate = "latency"\nmeasure = "{name}"\ntolerance = 0.6\n' for name in tails)
    without = '[[gate]]\ngate = "latency"\nmeasure = "itl_ms_p99"\nenabled = false\n'
    (case.folder / "gates.toml").write_text("".join([*wider, without]))
    case.expect(
        {"verdict": "pass"},
        *(says("latency", name, "pass") for name in ("tpot_ms", *tails)),
        *(says("capacity", name, "pass") for name in ("acceptance_length", "effective_length", "round_time_ms")),
        options=["--gates", "{case}/gates.toml"],
        exit=0,
    )


def tpot_from_scrapes_alone(case: Case) -> None:
    both(case, WORLD.with_round_time(1.2), SCRAPES)
    case.expect(
        says("latency", "tpot_ms", "fail"),
        says("capacity", "round_time_ms", "fail"),
        says("capacity", "acceptance_length", "pass", "inconclusive"),
        exit=1,
    )


def tpot_from_requests_alone(case: Case) -> None:
    both(case, WORLD.with_round_time(1.2), RESPONSES)
    case.expect(
        {"verdict": "fail"},
        says("latency", "tpot_ms", "fail"),
        says("capacity", "round_time_ms", "fail"),
        says("capacity", "acceptance_length", "pass"),
        exit=1,
    )


def quality_regression(case: Case) -> None:
    both(case, WORLD, RESPONSES)
    case.evaluated(BEFORE, {"gsm8k": (0.712, 0.004), "mmlu": (0.634, 0.003)})
    case.evaluated(AFTER, {"gsm8k": (0.671, 0.004), "mmlu": (0.635, 0.003)})
    case.expect({"verdict": "fail"}, says("quality", "gsm8k/acc", "fail"), says("quality", "mmlu/acc", "pass"), exit=1)


def _started_with(draft: str = "/models/draft", quantization: str = "None") -> Edit:
    return lambda log: log.replace("/models/draft", draft).replace("quantization=None", f"quantization={quantization}")


def better_drafter(case: Case) -> None:
    case.side(BEFORE, WORLD, RESPONSES, LOG)
    case.side(AFTER, WORLD.with_length(1.25), RESPONSES, LOG, edit=_started_with(draft="/models/draft-v2"))
    case.expect(says("correctness", "acceptance_length", "pass"), says("capacity", "acceptance_length", "pass"), exit=0)


def better_without_a_reason(case: Case) -> None:
    both(case, WORLD.with_length(1.25), RESPONSES, LOG)
    case.expect({"verdict": "inconclusive"}, says("correctness", "acceptance_length", "inconclusive"), exit=0)


def changed_target(case: Case) -> None:
    case.side(BEFORE, WORLD, RESPONSES, LOG)
    case.side(AFTER, WORLD, RESPONSES, LOG, edit=_started_with(quantization="fp8"))
    case.expect(says("quality", "quality", "no_data"), says("correctness", "paired_outputs", "not_comparable"), exit=3)


def changed_target_with_quality(case: Case) -> None:
    case.side(BEFORE, WORLD, RESPONSES, LOG)
    case.side(AFTER, WORLD, RESPONSES, LOG, edit=_started_with(quantization="fp8"))
    case.evaluated(BEFORE, {"mmlu": (0.634, 0.003)})
    case.evaluated(AFTER, {"mmlu": (0.636, 0.003)})
    case.expect(says("quality", "mmlu/acc", "pass"), says("correctness", "paired_outputs", "not_comparable"), exit=0)


def required_without_data(case: Case) -> None:
    both(case, WORLD, RESPONSES)
    gates = '[[gate]]\ngate = "capacity"\nmeasure = "goodput_tps"\nrequired = true\n'
    (case.folder / "gates.toml").write_text(gates)
    case.expect(says("capacity", "goodput_tps", "no_data"), options=["--gates", "{case}/gates.toml"], exit=3)
    case.expect(says("capacity", "goodput_tps", "no_data"), exit=0)


def acknowledged(case: Case) -> None:
    both(case, WORLD.with_round_time(1.2), RESPONSES)
    slower = ("tpot_ms", "round_time_ms", "itl_ms_p99", "e2e_ms_p95", "ttft_ms_p95")
    for name, until in (("valid", "2026-09-15"), ("expired", "2026-09-14")):
        entries = (f'[[acknowledge]]\nmeasure = "{m}"\nreason = "New driver."\nuntil = {until}\n' for m in slower)
        (case.folder / f"{name}.toml").write_text("".join(entries))
    case.expect(says("latency", "tpot_ms", "acknowledged"), options=["--acknowledge", "{case}/valid.toml"], exit=0)
    case.expect(says("latency", "tpot_ms", "fail"), options=["--acknowledge", "{case}/expired.toml"], exit=1)


def _one_sided(case: Case, share: float, *verdicts: str) -> None:
    common, gone = TASKS
    before = replace(WORLD, tasks=(replace(common, share=share), replace(gone, share=1 - share)))
    both(case, replace(WORLD, tasks=(common,)), RESPONSES, before=before)
    case.expect(says("capacity", "acceptance_length", *verdicts))


def one_sided_above_half(case: Case) -> None:
    _one_sided(case, 0.7, "pass")


def one_sided_below_half(case: Case) -> None:
    _one_sided(case, 0.3, "not_comparable")


def greedy_to_sampled(case: Case) -> None:
    both(case, replace(WORLD, tasks=tuple(replace(task, temperature=0.8) for task in TASKS)), RESPONSES)
    case.expect(
        {"verdict": "not_comparable"},
        says("capacity", "acceptance_length", "not_comparable"),
        says("correctness", "comparability", "not_comparable"),
        exit=0,
    )


def mix_shift(case: Case) -> None:
    both(case, WORLD.with_shares(0.95, 0.05), RESPONSES, before=WORLD.with_shares(0.3, 0.7))
    case.expect(
        says("capacity", "acceptance_length", "pass", "inconclusive"),
        {"measure": "acceptance_length", "effect": "within", "value": 0.0, "abs_tol": 0.03},
        {"measure": "acceptance_length", "effect": "mix", "value": -0.14, "abs_tol": 0.04},
        exit=0,
    )


def regression_true(case: Case) -> None:
    both(case, WORLD.with_length(0.8), RESPONSES)
    case.expect({"verdict": "fail"}, says("capacity", "acceptance_length", "fail"), exit=1)


def regression_small_n(case: Case) -> None:
    both(case, WORLD.with_length(0.93), RESPONSES, seconds=5.0)
    case.expect(says("capacity", "acceptance_length", "inconclusive"), exit=0)


def zero_acceptance(case: Case) -> None:
    both(case, WORLD.with_acceptance(0.0), SCRAPES, seconds=60.0)
    case.expect({"verdict": "fail"}, says("correctness", "acceptance_length", "fail"), exit=1)


def zero_small(case: Case) -> None:
    case.side(BEFORE, WORLD, SCRAPES, seconds=60.0)
    few = replace(WORLD.with_acceptance(0.0), arrivals_per_s=0.4, tasks=(Task(output_tokens=6.0, conditional=(0.0,)),))
    case.side(AFTER, few, SCRAPES, seconds=20.0)
    case.expect(says("correctness", "acceptance_length", "inconclusive"))


def too_good(case: Case) -> None:
    loops = replace(WORLD, tasks=(replace(TASKS[0], share=1.0, conditional=(0.995, 0.995, 0.995), concentration=1e4),))
    both(case, loops, RESPONSES, before=replace(WORLD, tasks=(replace(TASKS[0], share=1.0),)))
    case.expect(says("correctness", "acceptance_length", "inconclusive"), exit=0)


def _without_edges(*edges: str) -> Edit:
    def edit(scrape: str) -> str:
        gone = tuple(f'le="{edge}"' for edge in edges)
        return "".join(
            line
            for line in scrape.splitlines(keepends=True)
            if not ("inter_token_latency_seconds_bucket" in line and any(edge in line for edge in gone))
        )

    return edit


FINE = ("0.025", "0.05", "0.075", "0.1", "0.15", "0.2", "0.3")


def bucket_edges(case: Case) -> None:
    both(case, WORLD, SCRAPES, edit=_without_edges(*FINE))
    gates = '[[gate]]\ngate = "latency"\nmeasure = "itl_ms_p95"\ntolerance = 0.1\n'
    (case.folder / "gates.toml").write_text(gates)
    case.expect(says("latency", "itl_ms_p95", "inconclusive"), options=["--gates", "{case}/gates.toml"])
    case.expected["checks"] = [
        {
            "name": "a quantile is no better known than its bucket",
            "sql": "SELECT DISTINCT [itl_ms_p95_lower, itl_ms_p95_upper] FROM latency "
            "WHERE origin = 'snapshots' AND itl_ms_p95 IS NOT NULL AND load_band <> '0'",
            "value": [10.0, 400.0],
        }
    ]


def histogram_edges_differ(case: Case) -> None:
    for name in (BEFORE, AFTER):
        case.side(name, WORLD, SCRAPES, seconds=90.0)
        case.side(name, WORLD, SCRAPES, seconds=90.0, instance="two", edit=_without_edges("0.01", "0.05", "0.1"))
    case.expected["checks"] = [
        {
            "name": "two lists of edges, never added",
            "sql": "SELECT count(DISTINCT itl.le) FROM cells_snapshots WHERE itl IS NOT NULL",
            "value": 2,
        },
        {
            "name": "every gap is counted once",
            "sql": "SELECT sum(list_sum(itl.n)) - sum(itl_n) FROM cells_snapshots",
            "value": 0,
        },
    ]
    case.expect(says("latency", "tpot_ms", "pass", "inconclusive"), exit=0)


def quant_2x2(case: Case) -> None:
    """A quantized step takes 0.6 of the time; its draft passes do not get faster."""
    slow = replace(WORLD, cost=replace(WORLD.cost, per_draft_pass=1.5, per_prefill_token=0.0), arrivals_per_s=2.0)
    cost = slow.cost
    fast = replace(
        slow,
        cost=replace(cost, base=0.6 * cost.base, per_request=0.6 * cost.per_request, per_token=0.6 * cost.per_token),
    )
    sides = {"orig": (slow, 0), "quant": (fast, 0), "spec": (slow, 3), "both": (fast, 3)}
    for name, (world, length) in sides.items():
        case.side(name, replace(world, draft_length=length), RESPONSES, SCRAPES, seed=7, every_s=5.0)
    truth = {name: world.tpot_ms(1, length) for name, (world, length) in sides.items()}
    gain = {name: truth["orig"] / truth[name] for name in ("quant", "spec", "both")}
    case.expected["facts"] = [
        *({"fn": "gain", "deployment": name, "value": value, "rel_tol": 0.06} for name, value in gain.items()),
        {"fn": "interaction", "value": gain["both"] / gain["quant"] / gain["spec"], "rel_tol": 0.06},
    ]


def dp_missing_engine(case: Case) -> None:
    """The counters hold the sum of a group of three, those by position one engine of it."""

    def one_of_three(scrape: str) -> str:
        return re.sub(r"(per_pos_total\{.*\}) (\S+)", lambda m: f"{m[1]} {float(m[2]) // 3}", scrape)

    case.side(BEFORE, WORLD, SCRAPES)
    case.side(AFTER, WORLD, SCRAPES, edit=one_of_three)
    case.expect(
        says("correctness", "identities", "fail"),
        says("correctness", "acceptance_length", "pass"),
        says("capacity", "acceptance_length", "pass", "inconclusive"),
        exit=1,
    )


CASES: Sequence[Callable[[Case], None]] = (
    clear_pass,
    tpot_from_scrapes_alone,
    tpot_from_requests_alone,
    quality_regression,
    better_drafter,
    better_without_a_reason,
    changed_target,
    changed_target_with_quality,
    required_without_data,
    acknowledged,
    one_sided_above_half,
    one_sided_below_half,
    greedy_to_sampled,
    mix_shift,
    regression_true,
    regression_small_n,
    zero_acceptance,
    zero_small,
    too_good,
    bucket_edges,
    histogram_edges_differ,
    quant_2x2,
    dp_missing_engine,
)
