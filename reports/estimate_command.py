"""The command ``estimate``: the ledger from given numbers."""

from __future__ import annotations

import json

import click

from ..schemas.errors import UsageError
from ..schemas.options import format_option, warehouse_option_beside
from .estimate import Estimate, Facts, RoundTime, estimate


@click.command("estimate")
@click.option(
    "--acceptance", metavar="A[,A…]", help="Acceptance of a draft token: one value, or conditional values by position."
)
@click.option("--gamma", metavar="N[,N…]", help="Draft length, or several.  [default: those of --round-time]")
@click.option("--t0", type=float, metavar="MS", help="Time of an ordinary decode step.")
@click.option("--t-draft", type=float, metavar="MS", help="Draft time of a whole round.")
@click.option("--t-verify", type=float, metavar="MS", help="Verify time of a whole round.")
@click.option("--t-other", type=float, metavar="MS", help="Everything else in a whole round.")
@click.option(
    "--round-time", metavar="N=MS[,N=MS…]", help="Time of a whole round by draft length, instead of the three parts."
)
@click.option("--load", type=float, metavar="N", help="Requests running, for the checklist.")
@click.option("--output-tokens", type=float, metavar="N", help="Mean output tokens of a request, for the checklist.")
@click.option("--ttft", type=float, metavar="MS", help="Mean time to first token, for the checklist.")
@click.option("--deployment", metavar="NAME", help="Take what is not given from this deployment's marts.")
@format_option("table", "json")
@warehouse_option_beside("deployment")
def estimate_command(
    acceptance: str | None,
    gamma: str | None,
    t0: float | None,
    t_draft: float | None,
    t_verify: float | None,
    t_other: float | None,
    round_time: str | None,
    load: float | None,
    output_tokens: float | None,
    ttft: float | None,
    deployment: str | None,
    form: str,
    warehouse: str,
) -> None:
    """Estimate what speculation gains from given numbers, no logs needed.

    \b
    specledger estimate --acceptance 0.8 --gamma 3,5,8
    specledger estimate --acceptance 0.8 --gamma 5 --t0 5.2 --t-draft 2.5 --t-verify 6 --t-other 0.5
    specledger estimate --acceptance 0.8 --t0 10 --round-time 1=10.8,2=11.8,4=14.4
    """
    lengths = _whole_numbers(gamma) if gamma else []
    times = _round_times(round_time)
    parts = (t_draft, t_verify, t_other)
    if times and any(part is not None for part in parts):
        raise UsageError("Give --round-time or the parts --t-draft, --t-verify and --t-other, not both.")
    facts, conditional = Facts(load, output_tokens, ttft), _numbers(acceptance, "--acceptance") if acceptance else []
    if deployment is not None:
        from .estimate_facts import known

        measured = known(warehouse, deployment)
        facts = measured.complete(facts)
        conditional = conditional or list(measured.conditional)
        t0 = t0 if t0 is not None else measured.t0_ms
        if not times and all(part is None for part in parts):
            times = dict(measured.round_times)
    if not conditional:
        raise UsageError("Give --acceptance, or --deployment to take it from measured data.")
    lengths = lengths or sorted(times)
    if not lengths:
        raise UsageError("Give --gamma, the draft length, or --round-time.")
    if any(part is not None for part in parts):
        times = _time_of_parts(lengths, *parts)
    result = estimate(conditional, lengths, t0, times, facts)
    click.echo(json.dumps(result.as_json(), ensure_ascii=False) if form == "json" else _table(result))


def _time_of_parts(
    lengths: list[int], draft: float | None, verify: float | None, other: float | None
) -> dict[int, RoundTime]:
    if draft is None or verify is None:
        raise UsageError("A round needs --t-draft and --t-verify (and --t-other, 0 if left out).")
    if len(set(lengths)) != 1:
        raise UsageError("--t-draft and --t-verify hold for one draft length; for several give --round-time N=MS,…")
    whole = draft + verify + (other or 0.0)
    return {lengths[0]: RoundTime(whole, draft, verify, other or 0.0)}


def _round_times(text: str | None) -> dict[int, RoundTime]:
    times: dict[int, RoundTime] = {}
    for part in text.split(",") if text else []:
        length, separator, time = part.partition("=")
        if not separator:
            raise UsageError(f"--round-time {part!r} is not understood: write N=MS, for example 4=14.4.")
        times[_whole_numbers(length)[0]] = RoundTime(_numbers(time, "--round-time")[0])
    return times


def _numbers(text: str, option: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise UsageError(f"{option} {text!r} is not a number or a comma-separated list of numbers.") from error


def _whole_numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError as error:
        raise UsageError(f"Draft length {text!r} is not a whole number or a comma-separated list of them.") from error


def _table(result: Estimate) -> str:
    heads = ("γ", "E[L]", "next gain", "round ms", "TPOT ms", "speedup", "conservative", "break-even L", "break-even a")
    lines = ["  ".join(f"{head:>12}" for head in heads)]
    for row in result.table:
        figures = (
            row.expected_length, row.marginal_gain, row.round_time_ms, row.tpot_ms, row.speedup,
            row.conservative_speedup, row.break_even_length, row.break_even_acceptance,
        )  # fmt: skip
        cells = [f"{row.gamma}{'*' if row.extrapolated else ''}", *("–" if x is None else f"{x:.3f}" for x in figures)]
        mark = "  ← best" if len(result.table) > 1 and row == result.best and row.tpot_ms is not None else ""
        lines.append("  ".join(f"{cell:>12}" for cell in cells) + mark)
    if any(row.extrapolated for row in result.table):
        lines.append("* beyond the given acceptances: the last one is repeated (extrapolated)")
    lines.append("")
    marks = {True: "yes", False: "NO", None: "?"}
    for answer in result.checklist:
        advice = f" {answer.if_not}" if answer.holds is False else ""
        lines.append(f"{marks[answer.holds]:>4}  {answer.question} ({answer.found}){advice}")
    return "\n".join(lines)
