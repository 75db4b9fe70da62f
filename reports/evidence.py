"""All that the marts and cells know of a deployment's draft lengths, load band by load band."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

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
    PREEMPTIONS,
    ROWS,
    SHORT_OUTPUTS,
    SYNTHETIC,
    TRUNCATED,
)
from .format import listed, number, percent, plural
from .lengths import LEAST_STEPS, STALLS, Acceptance, Load, Missing, Ran, options, round_times
from .round_cost import models
from .scatter import Hourly, Sample, hourly, margin, step_variance
from .schedule import Option
from .stalls import STALLED, UNDRAFTED
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
class Stalls:
    """Preemptions at a load band whose stalls are left out of what its lengths are priced by."""

    preemptions: int
    tpot_ms: float
    """Decode time a token of the deployment there, stalls included."""
    apart: bool
    """Whether every length that ran could be priced without them."""


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
    stalls: Stalls | None = None


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
        bounds = {"stalled": STALLED, "undrafted": UNDRAFTED}
        rows = self._connection.execute(ROWS, {**self._of_origin, **bounds}).fetchnumpy()
        columns = {name: np.ma.filled(values, 0) for name, values in rows.items()}
        samples = {(band, own): self._samples(columns, band, own=own) for band in self._bands for own in (True, False)}
        step = step_variance([sample for found in samples.values() for sample in found])
        ordinary = {
            label: (t0, names) for label, t0, names in self._connection.execute(ORDINARY, self._of_origin).fetchall()
        }
        loads, acceptances = self._loads(), self._acceptances(columns)
        preemptions = dict(self._connection.execute(PREEMPTIONS, self._names).fetchall())
        times = round_times(models(self._connection, str(self._names["deployment"]), self._names["dates"]))
        longest = max([in_force.draft_limit or 0, *columns["draft_length"].tolist()], default=0)
        found = {}
        for band in self._bands:
            own, plain = samples[band, True], samples[band, False]
            ran = [_ran(sample, step) for sample in own]
            t0 = ordinary.get(band.label)
            if plain and t0 is not None and not any(one.length == 0 for one in ran):
                # T0 of the ledger is at the mix of contexts here, but holds what stalls there are.
                ran.append(_ran(plain[0], step, None if _unpriced(columns, band, own=False) else t0[0], t0[1]))
            load = self._with_requests(loads.get(band.label, Load()), columns, band)
            acceptance = acceptances.get(band.label, acceptances[None])
            one_more = longest + 1 if longest else 0
            choices, missing = options(ran, load, acceptance, times, one_more)
            stalls = self._stalls(columns, band, own, preemptions.get(band.label, 0))
            if stalls is not None and not stalls.apart:
                choices, missing = [], dict.fromkeys((*missing, *(one.length for one in choices)), Missing(STALLS))
            elif _unpriced(columns, band, own=False) and not plain:
                missing = {**missing, **({0: Missing(STALLS)} if 0 in missing else {})}
            shares = _time_shares(columns, _inside(columns, band, own=True))
            found[band.label] = BandEvidence(tuple(ran), tuple(choices), missing, load, shares, stalls)
        own_samples = [sample for (_, own), group in samples.items() if own for sample in group]
        dates = tuple(self._names["dates"])
        said = (*self._said(), *_said_of_stalls({label: one.stalls for label, one in found.items() if one.stalls}))
        return Evidence(str(self._names["deployment"]), dates, found, in_force, hourly(own_samples), said)

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
        inside = _inside(columns, band, own=own, kind="priced")
        return [
            _sample(columns, inside & (columns["draft_length"] == length), int(length), single=self._single)
            for length in np.unique(columns["draft_length"][inside])
        ]

    def _stalls(
        self, columns: Mapping[str, Vector], band: LoadBand, priced: Sequence[Sample], preemptions: int
    ) -> Stalls | None:
        """What was preempted in a band, and whether each length that ran has times without stalls.

        None where nothing was, and what was at other loads at the time does not matter.
        """
        unpriced = _unpriced(columns, band, own=True)
        if not unpriced:
            return None
        steps = {sample.length: float(sample.steps.sum()) for sample in priced}
        inside = _inside(columns, band, own=True)
        tpot = float(columns["decode_ms"][inside].sum() / columns["tokens"][inside].sum())
        apart = all(held < LEAST_STEPS or steps.get(length, 0.0) >= LEAST_STEPS for length, held in unpriced.items())
        return Stalls(preemptions, tpot, apart) if preemptions or not apart else None

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


def _inside(
    columns: Mapping[str, Vector], band: LoadBand | None, *, own: bool, kind: Literal["seen", "priced"] = "seen"
) -> Any:
    """The rows of the deployment itself, or of others, in a band: all that was seen, or what lengths are priced by."""
    mask = (columns["own"].astype(bool) == own) & columns[kind].astype(bool)
    if band is None:
        return mask
    mask = mask & (columns["load"] >= band.low)
    return mask if band.high is None else mask & (columns["load"] <= band.high)


def _unpriced(columns: Mapping[str, Vector], band: LoadBand, *, own: bool) -> dict[int, float]:
    """Draft length → steps in a band that are not priced, for the stalls that they may hold."""
    inside = _inside(columns, band, own=own) & ~columns["priced"].astype(bool)
    lengths = columns["draft_length"][inside]
    return {int(k): float(columns["steps"][inside][lengths == k].sum()) for k in np.unique(lengths)}


def _said_of_stalls(stalls: Mapping[str, Stalls]) -> list[str]:
    """What a reader must know of preemptions: of the loads where stalls were told apart, and of the others."""
    said = []
    for apart in (True, False):
        told = [
            f"{label} ({plural(one.preemptions, 'preemption')}, {number(one.tpot_ms)} ms a token with their stalls)"
            for label, one in stalls.items()
            if one.apart is apart
        ]
        if told:
            what = (
                "lengths are priced by rounds without a stall"
                if apart
                else "they cannot be told apart from rounds, so there is not enough data to price a length"
            )
            said.append(f"Round times hold stalls of preemption at load {listed(told)}: {what}.")
    return said


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


def _ran(sample: Sample, step: tuple[float, float], t0_ms: float | None = None, of: str | None = None) -> Ran:
    half, unit = margin(sample, step)
    steps, tokens = float(sample.steps.sum()), float(sample.tokens.sum())
    time = float(sample.decode_ms.sum()) if t0_ms is None else t0_ms * tokens
    return Ran(sample.length, steps, tokens, time, half, unit, of)


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
