"""All that the marts and cells know of a deployment's draft lengths, load band by load band."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..schemas.config import LoadBand
from ..schemas.errors import UsageError
from .estimate import LONG_OUTPUT
from .evidence_queries import (
    CAPACITY,
    IN_FORCE,
    LOADS,
    ORDINARY,
    ORIGIN,
    POSITIONS,
    ROWS,
    SHORT_OUTPUTS,
    SYNTHETIC,
    TRUNCATED,
)
from .format import percent
from .lengths import Acceptance, Load, Missing, Ran, options, round_times
from .round_cost import models
from .scatter import Hourly, Sample, hourly, margin, step_variance
from .schedule import Option
from .sums import Vector, add_up, squared_residuals

if TYPE_CHECKING:
    import duckdb


MANY_SHORT = 0.1
"""Share of short outputs from which they are worth a word."""


@dataclass(frozen=True)
class InForce:
    """What the latest start-up record says of the deployment; None where nothing was said."""

    max_num_seqs: int | None = None
    draft_limit: int | None = None
    draft_schedule: str | None = None
    draft_method: str | None = None
    draft_model: str | None = None
    data_parallel: int | None = None
    pipeline_parallel: int | None = None
    lora: bool | None = None
    enforce_eager: bool | None = None
    speculative: bool | None = None

    def schedule(self, end: int) -> list[list[int]] | None:
        """The schedule in force, a fixed length as one range up to ``end``; None where it is not known."""
        if self.draft_schedule:
            found = json.loads(self.draft_schedule)
            return found if isinstance(found, list) and found else None
        limit = 0 if self.speculative is False else self.draft_limit
        return [[1, self.max_num_seqs or end, limit]] if limit is not None else None


@dataclass(frozen=True)
class BandEvidence:
    """What is known at one load band."""

    ran: tuple[Ran, ...] = ()
    options: tuple[Option, ...] = ()
    missing: Mapping[int, Missing] = field(default_factory=dict)
    """Length without evidence → why."""
    load: Load = field(default_factory=Load)
    times: Mapping[int, float] = field(default_factory=dict)
    """Requests running → share of the deployment's own decode time in the band."""


@dataclass(frozen=True)
class Evidence:
    """All that is known of a deployment over some nights."""

    deployment: str
    dates: tuple[Any, ...]
    bands: Mapping[str, BandEvidence]
    in_force: InForce = InForce()
    hourly: Hourly | None = None
    said: tuple[str, ...] = ()
    """What a reader must know of the data, in sentences."""


def evidence(
    connection: duckdb.DuckDBPyConnection,
    deployment: str,
    bands: Sequence[LoadBand],
    dates: Sequence[Any] | None = None,
) -> Evidence:
    """The evidence of a deployment from the marts; UsageError where the marts hold nothing of it."""
    known = [row[0] for row in connection.execute(
        "SELECT DISTINCT date FROM band_totals WHERE deployment = $deployment ORDER BY date", {"deployment": deployment}
    ).fetchall()]  # fmt: skip
    chosen = [date for date in known if dates is None or date in dates]
    if not chosen:
        raise UsageError(f"The marts hold nothing of deployment {deployment!r}: ingest and transform it first.")
    record = connection.execute(IN_FORCE, {"deployment": deployment}).fetchone()
    return _Reader(connection, deployment, chosen, bands).evidence(InForce(*record) if record else InForce())


class _Reader:
    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        deployment: str,
        dates: Sequence[Any],
        bands: Sequence[LoadBand],
    ) -> None:
        self._connection = connection
        self._bands = bands
        self._names = {"deployment": deployment, "dates": list(dates)}
        origin = connection.execute(ORIGIN, self._names).fetchone()
        self._of_origin = {**self._names, "origin": origin[0] if origin else "snapshots"}
        self._single = self._of_origin["origin"] == "requests"

    def evidence(self, in_force: InForce) -> Evidence:
        rows = self._connection.execute(ROWS, self._of_origin).fetchnumpy()
        columns = {name: np.ma.filled(values, 0) for name, values in rows.items()}
        samples = {(band, own): self._samples(columns, band, own=own) for band in self._bands for own in (True, False)}
        step = step_variance([sample for found in samples.values() for sample in found])
        ordinary = dict(self._connection.execute(ORDINARY, self._of_origin).fetchall())
        loads, acceptances = self._loads(), self._acceptances(columns)
        times = round_times(models(self._connection, str(self._names["deployment"]), self._names["dates"]))
        longest = max([in_force.draft_limit or 0, *columns["draft_length"].tolist()], default=0)
        found = {}
        for band in self._bands:
            own, plain = samples[band, True], samples[band, False]
            ran = [_ran(sample, step) for sample in own]
            t0 = ordinary.get(band.label)
            if plain and t0 is not None and not any(one.length == 0 for one in ran):
                ran.append(_ran(plain[0], step, t0))
            load = self._with_requests(loads.get(band.label, Load()), columns, band)
            acceptance = acceptances.get(band.label, acceptances[None])
            one_more = longest + 1 if longest else 0
            choices, missing = options(ran, load, acceptance, times, one_more)
            found[band.label] = BandEvidence(
                tuple(ran), tuple(choices), missing, load, _time_shares(columns, _inside(columns, band, own=True))
            )
        own_samples = [sample for (_, own), group in samples.items() if own for sample in group]
        dates = tuple(self._names["dates"])
        return Evidence(str(self._names["deployment"]), dates, found, in_force, hourly(own_samples), self._said())

    def _said(self) -> tuple[str, ...]:
        """What a reader must know of the data."""
        said = [f"{date}: {detail}" for date, detail in self._connection.execute(SYNTHETIC, self._names).fetchall()]
        row = self._connection.execute(SHORT_OUTPUTS, self._names).fetchone()
        if row is not None and row[0] is not None and row[0] >= MANY_SHORT:
            said.append(
                f"{percent(row[0], brief=True)} of the requests return up to {LONG_OUTPUT} tokens: their last round is "
                "often cut off, so acceptance length says more than they get."
            )
        return tuple(said)

    def _samples(self, columns: Mapping[str, Vector], band: LoadBand, *, own: bool) -> list[Sample]:
        inside = _inside(columns, band, own=own)
        return [
            _sample(columns, inside & (columns["draft_length"] == length), int(length), single=self._single)
            for length in np.unique(columns["draft_length"][inside])
        ]

    def _with_requests(self, load: Load, columns: Mapping[str, Vector], band: LoadBand) -> Load:
        inside = _inside(columns, band, own=True)
        steps = float(columns["steps"][inside].sum())
        mean = float(columns["steps"][inside] @ columns["load"][inside]) / steps if steps else None
        return Load(**{**vars(load), "requests": mean})

    def _loads(self) -> dict[str, Load]:
        capacity = self._connection.execute(CAPACITY, self._names).fetchone()
        return {
            label: Load(seconds, gpus, None, mean, p95, most, capacity[0] if capacity else None, gap, lower, upper)
            for label, seconds, gpus, mean, p95, most, gap, lower, upper in self._connection.execute(
                LOADS, self._names
            ).fetchall()
        }

    def _acceptances(self, columns: Mapping[str, Vector]) -> dict[str | None, Acceptance]:
        """Acceptance by band where its positions are told, and of the whole deployment under None."""
        counts: dict[str | None, dict[int, tuple[float, float]]] = defaultdict(dict)
        for label, position, accepted, rounds in self._connection.execute(POSITIONS, self._names).fetchall():
            for key in (label, None):
                before = counts[key].get(position, (0.0, 0.0))
                counts[key][position] = (before[0] + accepted, before[1] + rounds)
        cut = dict.fromkeys([None, *(band.label for band in self._bands)], (0.0, 0.0))
        for label, truncated, accepted in self._connection.execute(TRUNCATED, self._of_origin).fetchall():
            for key in (label, None):
                before = cut.get(key, (0.0, 0.0))
                cut[key] = (before[0] + truncated, before[1] + accepted)
        found = {}
        places: dict[str | None, LoadBand | None] = {None: None, **{band.label: band for band in self._bands}}
        for key, band in places.items():
            if key is not None and key not in counts:
                continue
            inside = _inside(columns, band, own=True) & (columns["draft_length"] > 0)
            steps, rounds = float(columns["steps"][inside].sum()), float(columns["rounds"][inside].sum())
            truncated, accepted = cut[key]
            conditional = _conditional(counts[key])
            found[key] = Acceptance(
                conditional,
                counts[key][1][1] if conditional else 0.0,
                rounds / steps if steps else 1.0,
                min(max(truncated / accepted, 0.0), 1.0) if accepted else 0.0,
            )
        return found


def _inside(columns: Mapping[str, Vector], band: LoadBand | None, *, own: bool) -> Any:
    """The rows of the deployment itself, or of the others, in a band."""
    mask = columns["own"].astype(bool) == own
    if band is None:
        return mask
    mask = mask & (columns["load"] >= band.low)
    return mask if band.high is None else mask & (columns["load"] <= band.high)


def _sample(columns: Mapping[str, Vector], inside: Any, length: int, *, single: bool) -> Sample:
    """What one length did; ``single`` where an observation is one request, which shares its rounds with others."""
    steps, tokens, decode, load, n = (columns[name][inside] for name in ("steps", "tokens", "decode_ms", "load", "n"))
    loads, code = np.unique(load, return_inverse=True)
    mean = add_up(code, decode, len(loads)) / add_up(code, steps, len(loads))
    moments = [
        add_up(code, columns[name][inside], len(loads)) for name in ("decode_decode", "steps_decode", "steps_steps")
    ]
    squares = float(squared_residuals(moments, mean).sum())
    night, block = (columns[name][inside].astype(np.int64) for name in ("night", "block"))
    observations = float(n.sum())
    together = float(steps @ load / steps.sum()) if single else 1.0
    freedom = max(observations - len(loads), 0.0)
    return Sample(length, night, block, steps, tokens, decode, squares, observations, freedom, together)


def _ran(sample: Sample, step: tuple[float, float], t0_ms: float | None = None) -> Ran:
    half, unit = margin(sample, step)
    steps, tokens = float(sample.steps.sum()), float(sample.tokens.sum())
    time = float(sample.decode_ms.sum()) if t0_ms is None else t0_ms * tokens
    return Ran(sample.length, steps, tokens, time, half, unit, own=t0_ms is None)


def _time_shares(columns: Mapping[str, Vector], inside: Any) -> dict[int, float]:
    loads, code = np.unique(columns["load"][inside], return_inverse=True)
    times = np.bincount(code, columns["decode_ms"][inside], len(loads))
    return {int(load): float(time / times.sum()) for load, time in zip(loads, times, strict=True)}


def _conditional(counts: Mapping[int, tuple[float, float]]) -> tuple[float, ...]:
    """a_1, a_2, … from C_i and R_i by position; up to the first position after which nothing survives."""
    found: list[float] = []
    before = 1.0
    for position in sorted(counts):
        accepted, rounds = counts[position]
        if position != len(found) + 1 or not rounds or not before:
            break
        survival = accepted / rounds
        found.append(min(survival / before, 1.0))
        before = survival
    return tuple(found)
