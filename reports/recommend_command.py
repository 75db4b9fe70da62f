"""The command ``recommend``: which draft length to run at which load, with its evidence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from ..schemas.errors import UsageError
from ..schemas.kept import settings_to_read
from ..schemas.options import config_option, format_option, warehouse_option
from ..schemas.warehouse import Warehouse
from .recommend import Recommendation, evidence, price, recommend
from .schedule import Limits, check_ranges


@click.command("recommend")
@click.option("--deployment", required=True, metavar="NAME", help="Deployment whose nights are looked at.")
@click.option(
    "--date", "dates", multiple=True, type=click.DateTime(["%Y-%m-%d"]), help="Only this night; may be repeated."
)
@click.option("--schedule", metavar="JSON", help="Price this schedule over the nights instead of choosing one.")
@click.option(
    "--max-gap-ms", type=click.FloatRange(min=0, min_open=True), metavar="MS", help="Longest mean stream gap."
)
@click.option(
    "--max-kv-usage", type=click.FloatRange(0, 1), metavar="SHARE", help="Greatest KV use, candidates included."
)
@format_option("table", "json")
@config_option
@warehouse_option
def recommend_command(
    deployment: str,
    dates: tuple[Any, ...],
    schedule: str | None,
    max_gap_ms: float | None,
    max_kv_usage: float | None,
    form: str,
    config: Path | None,
    warehouse: str,
) -> None:
    """Recommend draft lengths by load, with their evidence.

    The answer is a valid num_speculative_tokens_per_batch_size, from what ran.
    """
    given = _given(schedule) if schedule is not None else None
    house = Warehouse(warehouse).require()
    settings = settings_to_read(house, config)
    connection = house.connect()
    found = evidence(connection, deployment, [day.date() for day in dates] if dates else None)
    if given is not None:
        answer = {
            "deployment": deployment,
            "num_speculative_tokens_per_batch_size": given,
            "saving": price(found, given),
        }
        click.echo(json.dumps(answer) if form == "json" else f"{json.dumps(given)}\n{_saving(answer['saving'])}")
        return
    result = recommend(found, settings.load_bands, Limits(max_gap_ms, max_kv_usage))
    click.echo(json.dumps(result.as_json(), ensure_ascii=False) if form == "json" else _table(result))


def _given(text: str) -> list[list[int]]:
    try:
        return check_ranges(json.loads(text))
    except json.JSONDecodeError as error:
        raise UsageError(f"--schedule is not JSON ({error}): write [[1, 64, 3], [65, 512, 0]].") from error


def _table(result: Recommendation) -> str:
    lines = [f"{'load':>8}  {'K':>2}  {'TPOT ms':>8}  {'95 % interval':>17}  {'evidence':<9}  why"]
    for choice in result.choices:
        option = choice.option
        tpot = f"{option.tpot_ms:.2f}" if option else "–"
        interval = f"{option.interval[0]:.2f} to {option.interval[1]:.2f}" if option else "–"
        figures = f"{choice.band.label:>8}  {choice.length:>2}  {tpot:>8}  {interval:>17}"
        lines.append(f"{figures}  {choice.evidence:<9}  {choice.reason}")
    if not result.choices:
        lines = ["No load band has evidence: nothing is recommended."]
    else:
        lines += ["", f"--speculative-config '{json.dumps(result.speculative_config)}'"]
        if result.in_force is not None:
            lines.append(f"in force: {json.dumps(result.in_force)}")
        if result.saving is not None:
            lines.append(_saving(result.saving))
    return "\n".join([*lines, *(f"note: {note}" for note in result.notes)])


def _saving(saving: Any) -> str:
    low, high = saving["interval"]
    text = f"saves {saving['saved']:.4g} {saving['unit']} ({low:.4g} to {high:.4g}) of {saving['spent']:.4g} that ran"
    share = saving["share_without_evidence"]
    return text + (f"; {share:.0%} of the time has no evidence for its K" if share else "")
