"""The command ``recommend``: which draft length to run at which load, with its evidence."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from ..schemas.errors import UsageError
from ..schemas.kept import settings_to_read
from ..schemas.options import config_option, format_option, warehouse_option
from ..schemas.published import published
from .gates import TPOT_RISE, GateSet, load_gates
from .recommend import BandAdvice, Recommendation, recommend_deployment
from .saving import Canary, CanaryPlan, Saving
from .schedule import Limits, Option

HEADINGS = (
    "load", "now", "K", "TPOT ms", "95 % interval", "shorter", "longer", "gap p99 ms", "KV use", "evidence",
)  # fmt: skip


@click.command("recommend")
@click.option("--deployment", required=True, metavar="NAME", help="Deployment whose nights are looked at.")
@click.option(
    "--date", "dates", multiple=True, type=click.DateTime(["%Y-%m-%d"]), help="Only this night; may be repeated."
)
@click.option("--schedule", metavar="JSON", help="Price this schedule over the nights instead of choosing one.")
@click.option(
    "--max-gap-ms", type=click.FloatRange(min=0, min_open=True), metavar="MS", help="Greatest p99 of the stream gap."
)
@click.option(
    "--max-kv-usage", type=click.FloatRange(0, 1), metavar="SHARE", help="Greatest KV use, candidates included."
)
@click.option(
    "--gates", type=click.Path(path_type=Path), metavar="FILE", help="TOML file with the tolerance of TPOT to prove."
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
    gates: Path | None,
    form: str,
    config: Path | None,
    warehouse: str,
) -> None:
    """Recommend draft lengths by load, with their evidence.

    The answer is a valid num_speculative_tokens_per_batch_size: what ran is measured, other lengths are foretold where
    the round-cost model tells them.
    """
    asked = _schedule(schedule) if schedule is not None else None
    house = published(warehouse).require()
    bands = settings_to_read(house, config).load_bands
    tolerance = _tolerance(load_gates(gates, [band.label for band in bands]))
    result = recommend_deployment(
        house,
        deployment,
        bands,
        dates=[day.date() for day in dates] if dates else None,
        schedule=asked,
        limits=Limits(max_gap_ms, max_kv_usage),
        tolerance=tolerance,
    )
    click.echo(json.dumps(result.as_json(), ensure_ascii=False) if form == "json" else "\n".join(_lines(result)))


def _schedule(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"--schedule is not JSON ({error}): write [[1, 64, 3], [65, 512, 0]].") from error


def _tolerance(gates: GateSet) -> float:
    """The relative tolerance of the gate on TPOT; the default where a file set it to a limit."""
    gate = next(gate for gate in gates.gates if gate.measure == "tpot_ms")
    return gate.tolerance if gate.kind == "relative" and gate.tolerance else TPOT_RISE


def _lines(result: Recommendation) -> Iterator[str]:
    if not result.schedule:
        yield "No load band has evidence: nothing is recommended."
    else:
        rows = [HEADINGS, *map(_row, result.bands)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for *figures, known in rows:
            cells = (cell.rjust(width) for cell, width in zip(figures, widths, strict=False))
            yield f"{'  '.join(cells)}  {known}"
        yield ""
        yield from (f"{band.choice.band.label.rjust(widths[0])}  {band.choice.reason}" for band in result.bands)
        yield from _missing(result.bands)
        yield ""
        yield f"in force: {json.dumps(result.in_force) if result.in_force is not None else 'not known'}"
        yield f"schedule: {json.dumps(result.schedule)}"
        config = result.speculative_config
        yield f"--speculative-config '{json.dumps(config)}'" if config else "run without --speculative-config"
        if result.schedule == result.in_force:
            yield "this is what runs"
        elif result.saving is not None:
            yield _saving(result.saving)
        if result.canary is not None:
            yield _canary(result.canary)
    yield from (f"note: {note}" for note in result.notes)


def _row(band: BandAdvice) -> tuple[str, ...]:
    choice, option = band.choice, band.choice.option
    shorter, longer = choice.neighbours
    begin = (choice.band.label, "?" if band.in_force is None else str(band.in_force), str(choice.length))
    if option is None:
        return (*begin, *"–" * 6, choice.source)
    low, high = option.interval
    beyond = ", extrapolated" if option.extrapolated else ""
    return (
        *begin,
        f"{option.tpot_ms:.2f}",
        f"{low:.2f} to {high:.2f}",
        _beside(shorter),
        _beside(longer),
        _gap(option),
        _kv(option),
        f"{choice.source}{beyond}",
    )


def _beside(option: Option | None) -> str:
    """A neighbour, with where it is from unless it is measured on the deployment itself."""
    if option is None:
        return "–"
    source = {"measured": "" if option.of is None else f" on {option.of}"}.get(option.evidence, f", {option.evidence}")
    return f"{option.tpot_ms:.2f} (K {option.length}{source})"


def _gap(option: Option) -> str:
    if option.gap_ms is None or option.gap_interval is None:
        return "–"
    low, high = option.gap_interval
    return f"{option.gap_ms:.0f} ({low:.0f} to {'?' if high is None else f'{high:.0f}'})"


def _kv(option: Option) -> str:
    return "–" if option.kv_interval is None else f"{option.kv_interval[0]:.1%}-{option.kv_interval[1]:.1%}"


def _missing(bands: Sequence[BandAdvice]) -> Iterator[str]:
    """Which lengths have no evidence beside a band's K, those of one reason together."""
    places: dict[str, dict[str, list[str]]] = {}
    for band in bands:
        if band.choice.option is None:
            continue
        reasons: dict[str, list[str]] = {}
        for length, why in band.missing.items():
            reasons.setdefault(why.reason, []).append(str(length))
        for reason, lengths in reasons.items():
            places.setdefault(reason, {}).setdefault(", ".join(lengths), []).append(band.choice.band.label)
    for reason, found in places.items():
        where = "; ".join(f"K = {lengths} at {', '.join(labels)}" for lengths, labels in found.items())
        yield f"no evidence for {where}: {reason}"


def _saving(saving: Saving) -> str:
    low, high = saving.interval
    if saving.saved >= 0:
        text = f"saves {saving.saved:.4g} {saving.unit} ({low:.4g} to {high:.4g}) of {saving.spent:.4g} that ran"
    else:
        cost = f"{-saving.saved:.4g} {saving.unit} more ({-high:.4g} to {-low:.4g})"
        text = f"costs {cost} than the {saving.spent:.4g} that ran"
    share = saving.share_without_evidence
    return text + (f"; {share:.0%} of the time has no evidence for its K" if share else "")


def _canary(plan: CanaryPlan) -> str:
    gate = f"passes the gate on TPOT ({plan.tolerance:+.0%})"
    parts = [f"{_of(plan.passes_gate)} {gate}" if plan.passes_gate else f"no canary of 3 months {gate}"]
    if plan.shows_gain:
        parts.append(f"{_of(plan.shows_gain)} shows the gain itself")
    rests = "" if plan.unit == "hour" else "; taken from blocks of 10 minutes, it may take longer"
    return f"canary (TPOT {plan.expected_change:+.1%} foretold): {', '.join(parts)}{rests}"


def _of(canary: Canary) -> str:
    return f"{canary.share:.0%} of the traffic for {canary.hours} hours"
