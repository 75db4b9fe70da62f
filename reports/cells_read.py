"""Cells of the selected nights, added up to what a comparison needs: unit × load × finer keys.

Units are the hours (or 10-minute blocks) of a deployment, all its engines and instances together. Sums of HUGEINT
become doubles here, after every addition that must be exact.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from ..schemas import TABLES
from ..schemas.cells import CELLS_LOG_STATS, CELLS_REQUESTS, CELLS_SNAPSHOTS
from ..schemas.measures import GPU_SECONDS, MEASURES, Measure
from ..schemas.table import Table, literal, quote
from ..schemas.warehouse import Warehouse, reading
from .buckets import Buckets
from .quantile import Histogram
from .selection import Selection, has_nights, select_nights
from .small_files import SmallFiles
from .strata import NO_LOAD, Rest, Strata
from .sums import Index, Mask, Sums, Vector, add_up, distinct

if TYPE_CHECKING:
    import pyarrow as pa

    _Held = dict[str, tuple[pa.ChunkedArray, Mask]]
    """By name, the histogram of each cell, and whether it has one."""

Grain = Literal["hour", "block"]
Part = Literal["figures", "moments"]
"""What is read of cells at a time: sums and histograms, or the second moments, which few comparisons need."""
Loads = tuple[int, int] | None
"""Loads from first to second, both included; NO_LOAD stands for those not known, None for all."""

CELLS: Mapping[str, Table] = {
    "requests": CELLS_REQUESTS,
    "snapshots": CELLS_SNAPSHOTS,
    "log_stats": CELLS_LOG_STATS,
}
"""Cell table of each origin that can be compared."""
FINER_KEYS = ("context_band", "task", "temperature_class", "output_band", "lora")
"""Keys of a stratum beside load; only requests have them."""
LENGTHS = TABLES["cells_draft_lengths"]
POSITIONS = ("origin", "accepted_at", "accepted")
"""What is read of the cells that know positions, which of requests are those of draft lengths."""
POSITIONS_ROUND = 0.01
"""Positions of log lines come from printed rates; within this share of C they add up."""
PLAIN = (
    "rounds",
    "rounds_min",
    "rounds_max",
    "drafted",
    "accepted",
    "output_tokens",
    "prompt_tokens",
    "cached_tokens",
    "requests",
    "steps",
    "step_tokens",
    "step_decode_ns",
    "step_rounds",
    "step_accepted",
)
"""Columns that are read as they are, for the split of TPOT, sizes of events and bounds of rounds."""
OVER_TIME = ("kv_n", "kv_ppm", "kv_max_ppm", "running_n", "running_milli", "waiting_max", "preemptions")
"""Columns that are read for the course of a side over its time alone."""
SQUARES = "steps_steps"
"""Σ of squares of what a request gives to the histogram of gaps."""
HISTOGRAMS = ("ttft", "itl", "request_tpot", "e2e")
"""Log-spaced histograms of requests; each request gives one value to all but those of gaps."""
KEYS = ("night", "unit", "load", "rest")


@dataclass(frozen=True)
class Frame:
    """One side and origin, one element for each unit × load × finer keys."""

    unit: Index
    hour: Index
    """Hours since 1970."""
    load: Index
    """NO_LOAD where it is not known."""
    rest: Index
    rests: tuple[Rest, ...]
    n: Vector
    columns: Mapping[str, Vector]
    """Σ by column; for measures ``<measure>.num``, ``.den`` and, where cells hold them, ``.nn``, ``.nd``, ``.dd``."""

    @property
    def night(self) -> Index:
        """UTC date as days since 1970."""
        return self.hour // 24

    @property
    def rows(self) -> int:
        return len(self.n)

    def observed(self) -> list[tuple[int, Rest, float]]:
        """(load, finer keys, observations), each combination once."""
        span = int(self.load.max(initial=0)) + 2
        pairs, inverse = distinct(self.rest * span + self.load + 1)
        counts = np.bincount(inverse, self.n, len(pairs))
        return [
            (int(pair % span) - 1, self.rests[int(pair // span)], float(count))
            for pair, count in zip(pairs, counts, strict=True)
        ]

    def strata(self, strata: Strata) -> Index:
        """The stratum of each row."""
        return strata.assign(self.load, self.rest, self.rests)

    def has(self, measure: str) -> bool:
        """Whether anything was observed of a ratio."""
        den = self.columns.get(f"{measure}.den")
        return den is not None and bool(den.sum() > 0)

    def sums(self, measure: str, stratum: Index, mask: Mask) -> Sums:
        """A ratio's rows where a mask holds."""
        second = None
        if f"{measure}.nn" in self.columns:
            nn, nd, dd = (self.columns[f"{measure}.{part}"] for part in ("nn", "nd", "dd"))
            second = (nn, nd, dd)
        return Sums(
            self.unit,
            self.night,
            stratum,
            self.columns[f"{measure}.num"],
            self.columns[f"{measure}.den"],
            self.n,
            second,
        ).where(mask)


EPOCH = dt.date(1970, 1, 1)
PLACE = 1 << 32
"""Hours since 1970 of one deployment are less than this."""


class CellReader:
    """Reads and remembers the cells of the sides of a comparison."""

    def __init__(self, warehouse: Warehouse, files: SmallFiles | None = None) -> None:
        self._warehouse = warehouse
        self._files = files or SmallFiles(warehouse)
        self._connection = reading()
        # Cells are read once, and the footers of 2,000 of their files take 200 MB.
        self._connection.execute("SET parquet_metadata_cache = false")
        self._frames: dict[tuple[Selection, str, Grain, Loads], Frame] = {}
        self._with_moments: dict[tuple[Selection, str], Frame] = {}
        self._histograms: dict[tuple[Selection, Grain, Loads], tuple[pa.Table, _Held, Index]] = {}
        self._tables: dict[tuple[Selection, str, Part], str] = {}
        self._loaded: dict[tuple[Selection, str, Part], str] = {}
        self._places: dict[str, int] = {}

    def frame(self, side: Selection, origin: str, grain: Grain = "hour", loads: Loads = None) -> Frame:
        """The sums of a side; ``loads`` restricts to loads from first to second (NO_LOAD: those not known)."""
        key = (side, origin, grain, loads)
        if key not in self._frames:
            self._frames[key] = self._read(side, origin, grain, loads)
        return self._frames[key]

    def with_moments(self, side: Selection, origin: str) -> Frame:
        """The sums of a side by hour, with second moments where the cells hold them."""
        key = (side, origin)
        if key not in self._with_moments:
            parts = self._ratios(origin, ("nn", "nd", "dd"))
            found = self._grouped(self._cells(side, origin, "hour", None, "moments"), parts)
            frame = self.frame(side, origin)
            columns = {**frame.columns, **{key: _floats(found, key) for key in parts}}
            self._with_moments[key] = replace(frame, columns=columns)
        return self._with_moments[key]

    def course(self, side: Selection, origin: str, measures: Sequence[str]) -> Frame:
        """The sums of some ratios by hour, without second moments, of a side that may be long: nothing else is read."""
        return self.courses([side], origin, measures)[0]

    def courses(self, sides: Sequence[Selection], origin: str, measures: Sequence[str]) -> list[Frame]:
        """The same of several sides that have no deployment in common, which are read together."""
        parts = {
            key: part
            for measure in map(MEASURES.__getitem__, measures)
            if origin in measure.origins
            for key, part in _ratio_parts(measure, set(CELLS[origin].names)).items()
            if key.endswith((".num", ".den"))
        }
        loaded = {night for (held, *of) in self._loaded if of == [origin, "figures"] for night in held.nights}
        found: dict[Selection, Frame] = {}
        for known in (True, False):
            some = [side for side in sides if loaded.issuperset(side.nights) is known]
            nights = tuple(sorted(night for side in some for night in side.nights))
            rows = self._course(Selection("", nights), origin, parts) if some else None
            found |= {side: _frame(self._of(side, rows), parts) for side in some if rows is not None}
        return [found[side] for side in sides]

    def _course(self, side: Selection, origin: str, parts: Mapping[str, str]) -> pa.Table:
        """Sums of cells by hour, deployment, load and finer keys: of those that are held, else straight from files."""
        table = CELLS[origin]
        finer = [name for name in FINER_KEYS if name in table.names]
        keys = ["date", "deployment", "hour", f"coalesce(load, {NO_LOAD})::BIGINT AS load", *finer]
        sums = {"n": "sum(n)::DOUBLE"} | {key: f"coalesce(sum({part}), 0)::DOUBLE" for key, part in parts.items()}
        told = ", ".join(f"{sql} AS {quote(key)}" for key, sql in sums.items())
        if held := self._held(side, origin, "figures"):
            return self._arrow(
                f"SELECT epoch_hour, unit_hour AS unit, load, rest, place, {told} FROM {held} GROUP BY ALL ORDER BY ALL"
            )
        cells = f"SELECT {', '.join(keys)}, {told} FROM ({select_nights(self._warehouse, table, side)}) GROUP BY ALL"
        return self._arrow(
            f"WITH {self._numbered(side)} "
            f"SELECT 24 * (date - DATE '1970-01-01')::BIGINT + hour AS epoch_hour, "
            f"place * {PLACE} + epoch_hour AS unit, load, {_rest(finer)} AS rest, place, {', '.join(map(quote, sums))} "
            f"FROM ({cells}) AS cells INNER JOIN places USING (deployment) ORDER BY ALL"
        )

    def _of(self, side: Selection, rows: pa.Table) -> pa.Table:
        """The rows of the deployments of a side."""
        return rows.filter(np.isin(_ints(rows, "place"), [self._places[name] for name in side.deployments]))

    def tokens(self, side: Selection, origin: str) -> int | None:
        """Output tokens of a side, read alone; None where the origin does not tell them."""
        table = CELLS[origin]
        if "output_tokens" not in table.names:
            return None
        query = f"SELECT coalesce(sum(output_tokens), 0) FROM ({select_nights(self._warehouse, table, side)})"
        ((tokens,),) = self._connection.execute(query).fetchall()
        return int(tokens)

    def ahead(self, side: Selection) -> None:
        """Begin to read what ``first_position`` of requests will ask for."""
        self._files.ahead(LENGTHS, side, POSITIONS)

    def holds(self, side: Selection, origin: str) -> bool:
        """Whether there are cells of a side."""
        return has_nights(self._warehouse, CELLS[origin], side)

    def histogram(self, side: Selection, name: str, grain: Grain, strata: Strata, loads: Loads) -> Histogram:
        """Log-spaced histograms of requests, with stratum numbers in place of loads and keys."""
        key = (side, grain, loads)
        if key not in self._histograms or name not in self._histograms[key][1]:
            self._histograms[key] = self._read_histograms(side, grain, loads)
        every, held, places = self._histograms[key]
        any_of = _floats(every, f"{name}.den") > 0
        columns = {part: f"{name}.{part}" for part in ("den", "n", "squares")} | {key: key for key in KEYS}
        seen = every.select(columns.values()).rename_columns(list(columns)).filter(any_of)
        sums, row = _seen(seen, strata, squares_known=seen["squares"].null_count == 0)
        of_every = np.zeros(len(any_of), dtype=np.int64)
        of_every[any_of] = row
        # Nobody asks twice, and they fill as much memory as all that is made of them.
        place, bucket, numbers = _added(*held.pop(name), places)
        return Histogram(of_every[place], bucket, numbers, sums)

    def _read_histograms(self, side: Selection, grain: Grain, loads: Loads) -> tuple[pa.Table, _Held, Index]:
        """What histograms hold by unit, load and finer keys, those of each cell, and its row among the first."""
        cells, keys = self._cells(side, "requests", grain, loads), ", ".join(KEYS)
        sums = ", ".join(
            f"(sum({column}) FILTER ({name}_n > 0))::DOUBLE AS {quote(f'{name}.{part}')}"
            for name in HISTOGRAMS
            for part, column in (
                ("den", f"{name}_n"),
                ("n", "n" if name == "itl" else f"{name}_n"),
                ("squares", SQUARES if name == "itl" else f"{name}_n"),
            )
        )
        seen = self._arrow(f"SELECT {keys}, {sums} FROM ({cells}) GROUP BY ALL ORDER BY ALL")
        told = ", ".join(f"{name}, coalesce({name}_n > 0, false) AS {quote(f'{name}.any')}" for name in HISTOGRAMS)
        held = self._arrow(f"SELECT {keys}, {told} FROM ({cells})")
        return (
            seen,
            {name: (held[name], held[f"{name}.any"].to_numpy()) for name in HISTOGRAMS},
            _places(seen, held),
        )

    def buckets(self, side: Selection, name: str, grain: Grain, strata: Strata, loads: Loads) -> Buckets:
        """Server histograms of scrapes, with stratum numbers in place of loads."""
        cells = self._cells(side, "snapshots", grain, loads)
        keys = ", ".join(KEYS)
        seen = self._arrow(
            f"SELECT {keys}, sum({name}_n)::DOUBLE AS den, sum(n)::DOUBLE AS n, 0.0::DOUBLE AS squares "
            f"FROM ({cells}) WHERE {name}_n > 0 AND {name} IS NOT NULL GROUP BY ALL ORDER BY ALL"
        )
        elements = self._arrow(
            f"SELECT {keys}, lower, upper, sum(count)::DOUBLE AS count FROM ("
            f"SELECT {keys}, unnest(list_prepend(0.0::DOUBLE, {name}.le[1:len({name}.le) - 1])) AS lower, "
            f"unnest({name}.le) AS upper, unnest({name}.n) AS count "
            f"FROM ({cells}) WHERE {name}_n > 0 AND {name} IS NOT NULL) GROUP BY ALL ORDER BY ALL"
        )
        sums, row = _seen(seen, strata, squares_known=False)
        row = row[_places(seen, elements)]
        return Buckets(row, _floats(elements, "lower"), _floats(elements, "upper"), _floats(elements, "count"), sums)

    def units(self, side: Selection, origin: str, grain: Grain) -> int:
        """How many hours or blocks of a deployment a side has."""
        return int(self.scalar(side, origin, f"count(DISTINCT unit_{grain})") or 0)

    def scalar(self, side: Selection, origin: str, expression: str, loads: Loads = None) -> float | None:
        """One aggregate over the cells of a side; ``expression`` is SQL of this package over the cell's columns."""
        query = f"SELECT ({expression})::DOUBLE FROM ({self._cells(side, origin, 'hour', loads)})"
        ((value,),) = self._connection.execute(query).fetchall()
        return cast("float | None", value)

    def first_position(self, side: Selection, origin: str) -> float | None:
        """C_1 over all cells of a side; None where positions are not known or do not add up to C."""
        table = LENGTHS if origin == "requests" else CELLS[origin]
        cells = self._files.select(self._connection, table, side, POSITIONS)
        ((first, positions, accepted),) = self._connection.execute(
            "SELECT sum(accepted_at[1])::DOUBLE, sum(list_sum(accepted_at))::DOUBLE, sum(accepted)::DOUBLE "
            f"FROM ({cells}) WHERE origin = ?",
            [origin],
        ).fetchall()
        if first is None or positions is None or accepted is None:
            return None
        return cast(float, first) if abs(positions - accepted) <= POSITIONS_ROUND * accepted else None

    def stretches(self, side: Selection, origin: str, minutes: int, selected: Sequence[str]) -> list[tuple[Any, ...]]:
        """Aggregates of the cells of a side, for each date and stretch of so many minutes, rising."""
        found = self._connection.execute(
            f"SELECT DATE '1970-01-01' + night::INTEGER AS date, (block * 10) // {minutes} AS stretch, "
            f"{', '.join(selected)} FROM ({self._cells(side, origin, 'hour', None)}) GROUP BY ALL ORDER BY ALL"
        )
        return found.fetchall()

    def _read(self, side: Selection, origin: str, grain: Grain, loads: Loads) -> Frame:
        names = CELLS[origin].names
        parts = self._ratios(origin, ("num", "den")) | {name: quote(name) for name in PLAIN if name in names}
        return _frame(self._grouped(self._cells(side, origin, grain, loads), parts), parts)

    def _ratios(self, origin: str, wanted: tuple[str, ...]) -> dict[str, str]:
        """SQL of these parts of every ratio that an origin tells, by key."""
        table = CELLS[origin]
        names = {*table.names, "gpu_ns"} if origin in GPU_SECONDS.origins else set(table.names)
        return {
            key: part
            for measure in MEASURES.values()
            if measure.form == "ratio" and origin in measure.origins
            for key, part in _ratio_parts(measure, names).items()
            if key.rpartition(".")[2] in wanted
        }

    def _grouped(self, cells: str, parts: Mapping[str, str]) -> pa.Table:
        """Sums of cells by unit, load and finer keys, always in one order."""
        selected = "".join(f", coalesce(sum({part}), 0)::DOUBLE AS {quote(key)}" for key, part in parts.items())
        return self._arrow(
            f"SELECT epoch_hour, unit, load, rest, sum(n)::DOUBLE AS n{selected} "
            f"FROM ({cells}) GROUP BY ALL ORDER BY epoch_hour, unit, load, rest"
        )

    def _cells(self, side: Selection, origin: str, grain: Grain, loads: Loads, part: Part = "figures") -> str:
        """A SELECT of the cells of a side with the columns night, unit, load and rest, and those of a part."""
        limits = "" if loads is None else f" WHERE load BETWEEN {int(loads[0])} AND {int(loads[1])}"
        return f"SELECT *, unit_{grain} AS unit FROM {self._table(side, origin, part)}{limits}"

    def _table(self, side: Selection, origin: str, part: Part) -> str:
        """What to select a part of a side's cells from: temporary tables, so that files are opened once for each."""
        key = (side, origin, part)
        if key not in self._tables:
            self._tables[key] = self._held(side, origin, part) or self._load(side, origin, part)
        return self._tables[key]

    def _held(self, side: Selection, origin: str, part: Part) -> str | None:
        """The cells of a side out of those of other sides; None where they do not hold all of its nights."""
        wanted, found = set(side.nights), []
        for (other, *of), table in self._loaded.items():
            if of == [origin, part] and (nights := sorted(wanted.intersection(other.nights))):
                wanted.difference_update(nights)
                named = ", ".join(f"({(n.date - EPOCH).days}, {self._places[n.deployment]})" for n in nights)
                found.append(f"SELECT * FROM {table} WHERE (night, place) IN (VALUES {named})")
        return f"({' UNION ALL BY NAME '.join(found)})" if found and not wanted else None

    def _load(self, side: Selection, origin: str, part: Part) -> str:
        """The name of a new temporary table with a part of the cells of a side."""
        table = CELLS[origin]
        finer = [key for key in FINER_KEYS if key in table.names]
        left = ["block", *_columns(origin, part)]
        gpus, days, joined = "", "", ""
        if part == "figures" and origin in GPU_SECONDS.origins:
            days = f"WITH days AS ({select_nights(self._warehouse, TABLES['deployment_days'], side)}) "
            gpus = ", duration_ns * gpus_per_engine AS gpu_ns"
            joined = " LEFT JOIN days USING (date, deployment)"
        name, names = f"cells_{len(self._loaded)}", self._number(side)
        # To join the deployments with their numbers would hold all rows in memory once more.
        self._connection.execute(f"CREATE TEMP TYPE places_of_{name} AS ENUM ({', '.join(map(literal, names))})")
        # To keep the order of many small files doubles what a table of them costs, and only second moments, which are
        # added up as doubles, depend on it.
        self._connection.execute(f"SET preserve_insertion_order = {part == 'moments'}")
        self._connection.execute(
            f"CREATE TEMP TABLE {name} AS {days}"
            f"SELECT {', '.join('cells.' + quote(name) for name in left)}{gpus}, "
            f"enum_code(cells.deployment::places_of_{name})::BIGINT AS place, "
            f"(cells.date - DATE '1970-01-01')::BIGINT AS night, 24 * night + hour AS epoch_hour, "
            f"place * {PLACE} + epoch_hour AS unit_hour, "
            f"6 * place * {PLACE} + 144 * night + block AS unit_block, "
            f"coalesce(load, {NO_LOAD})::BIGINT AS load, {_rest(finer)} AS rest "
            f"FROM ({select_nights(self._warehouse, table, side)}) AS cells{joined}"
        )
        # Few texts in many rows: as numbers in their order they are grouped and sorted in half the time.
        rests = f"SELECT rest FROM {name} UNION SELECT {_rest([])} ORDER BY rest"
        self._connection.execute(f"CREATE TEMP TYPE rests_of_{name} AS ENUM ({rests})")
        self._connection.execute(f"ALTER TABLE {name} ALTER rest TYPE rests_of_{name}")
        self._loaded[(side, origin, part)] = name
        return name

    def _numbered(self, side: Selection) -> str:
        """A common table expression that numbers deployments, the same one always alike."""
        places = (
            ", ".join(f"({literal(name)}, {place})" for place, name in enumerate(self._number(side))) or "(NULL, 0)"
        )
        return f"places AS (FROM (VALUES {places}) AS places (deployment, place))"

    def _number(self, side: Selection) -> list[str]:
        """All deployments that were ever asked for, those of a side among them, in the order of their numbers."""
        for deployment in side.deployments:
            self._places.setdefault(deployment, len(self._places))
        return list(self._places)

    def _arrow(self, query: str) -> pa.Table:
        return self._connection.sql(query).to_arrow_table()


def _rest(finer: Sequence[str]) -> str:
    """SQL of the finer keys of a cell as one text."""
    return f"to_json([{', '.join(finer)}])::VARCHAR" if finer else "'[]'"


def _frame(found: pa.Table, parts: Iterable[str]) -> Frame:
    """The rows of a query as a frame with these columns."""
    unit, rest, rests = _unit_codes(found), *_rest_codes(found)
    return Frame(
        unit,
        _ints(found, "epoch_hour"),
        _ints(found, "load"),
        rest,
        rests,
        _floats(found, "n"),
        {key: _floats(found, key) for key in parts},
    )


def _columns(origin: str, part: Part) -> list[str]:
    """The columns of an origin's cells that a part of them has, beside those that say where a cell belongs."""
    asked = {"n"} if part == "moments" else {"n", SQUARES, "itl_client_n", *PLAIN, *OVER_TIME}
    for measure in MEASURES.values():
        if origin in measure.origins and part == "moments":
            asked.update(column for moment in measure.moments or () for _, column in moment)
        elif origin in measure.origins:
            histogram = measure.histogram
            asked.update((*measure.numerator, measure.denominator, histogram, f"{histogram}_n"))
    return [name for name in CELLS[origin].names if name in asked]


def _ratio_parts(measure: Measure, names: set[str]) -> dict[str, str]:
    """SQL of what a ratio adds up, by key; nothing where the origin lacks a column."""
    if not {*measure.numerator, measure.denominator} <= names:
        return {}
    num = " + ".join(quote(name) for name in measure.numerator)
    den = quote(measure.denominator)
    # Rows that lack one of the two belong to neither sum.
    parts = {"num": f"CASE WHEN {den} IS NOT NULL THEN {num} END", "den": f"CASE WHEN {num} IS NOT NULL THEN {den} END"}
    told = measure.moments or ()
    if all(column in names for moment in told for _, column in moment):
        for part, moment in zip(("nn", "nd", "dd"), told, strict=False):
            parts[part] = " + ".join(f"{weight!r}::DOUBLE * {quote(column)}" for weight, column in moment)
    return {f"{measure.name}.{part}": sql for part, sql in parts.items()}


def _seen(seen: pa.Table, strata: Strata, *, squares_known: bool) -> tuple[Sums, Index]:
    """The rows of unit × stratum, and which of them each row of ``seen`` belongs to."""
    rest, rests = _rest_codes(seen)
    stratum = strata.assign(_ints(seen, "load"), rest, rests)
    places, row = distinct(_unit_codes(seen) * (len(strata.keys) + 1) + stratum)
    rows = len(places)
    night = np.zeros(rows, dtype=np.int64)
    night[row] = _ints(seen, "night")
    den, n, squares = (add_up(row, _floats(seen, name), rows) for name in ("den", "n", "squares"))
    zero = np.zeros(rows)
    second = (zero, zero, squares) if squares_known else None
    return Sums(places // (len(strata.keys) + 1), night, places % (len(strata.keys) + 1), zero, den, n, second), row


def _places(seen: pa.Table, others: pa.Table) -> Index:
    """The row of ``seen`` with the unit, load and finer keys of each other row."""
    import pyarrow as pa

    both = pa.concat_tables([table.select(["unit", "load", "rest"]) for table in (seen, others)])
    load = _ints(both, "load") - NO_LOAD
    rest, rests = _rest_codes(both)
    codes = distinct((_unit_codes(both) * (load.max(initial=0) + 1) + load) * len(rests) + rest)[1]
    place = np.zeros(len(codes), dtype=np.int64)
    place[codes[: seen.num_rows]] = np.arange(seen.num_rows)
    return place[codes[seen.num_rows :]]


def _added(histograms: pa.ChunkedArray, mask: Mask, place: Index) -> tuple[Index, Index, Vector]:
    """Those histograms that a mask keeps added up by place: place, bucket and count of every element, in this order.

    DuckDB takes twice as long for it.
    """
    held = histograms.combine_chunks()
    ends = held.offsets.to_numpy().astype(np.int64)
    if np.diff(ends)[~mask].any():  # those that are left out hold nothing, but for damaged ones
        return _added(histograms.filter(mask), mask[mask], place[mask])
    elements = slice(int(ends[0]), int(ends[-1])) if len(held) else slice(0)
    bucket, count = (part[elements].to_numpy() for part in (held.keys, held.items))
    low, high = int(bucket.min(initial=0)), int(bucket.max(initial=0))
    codes = np.repeat(place, np.diff(ends)) * (high - low + 1) + (bucket - low)
    order = np.argsort(codes, kind="stable")
    codes = codes[order]
    first = np.flatnonzero(np.diff(codes, prepend=-1))
    added = np.add.reduceat(count[order], first) if len(first) else count
    return codes[first] // (high - low + 1), codes[first] % (high - low + 1) + low, added.astype(np.float64)


def _unit_codes(table: pa.Table) -> Index:
    return np.unique(_ints(table, "unit"), return_inverse=True)[1].astype(np.int64)


def _rest_codes(table: pa.Table) -> tuple[Index, tuple[Rest, ...]]:
    """The number of each row's finer keys, and the keys of those numbers in the order of their texts."""
    import json

    column = table["rest"].combine_chunks().dictionary_encode()
    texts, codes = column.dictionary.to_pylist(), np.asarray(column.indices).astype(np.int64)
    used = sorted(distinct(codes)[0], key=texts.__getitem__)
    place = np.zeros(len(texts), dtype=np.int64)
    place[used] = np.arange(len(used))
    return place[codes], tuple(tuple(json.loads(texts[code])) for code in used)


def _ints(table: pa.Table, name: str) -> Index:
    return cast("NDArray[np.int64]", table[name].to_numpy().astype(np.int64))


def _floats(table: pa.Table, name: str) -> Vector:
    return cast("NDArray[np.float64]", np.nan_to_num(table[name].to_numpy().astype(np.float64), nan=0.0, posinf=np.inf))
