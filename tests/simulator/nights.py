"""Whole nights of a fleet, drawn request by request without an engine loop.

Each engine is an instance of its own. Its load is one whole number in each 10-minute block, drawn around the daily
wave; every round takes the time that the world's cost has at that load, times the shocks of hour and night.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import numpy as np
import polars as pl
import pyarrow as pa

from specledger.schemas.cells import CELLS_REQUESTS, MOMENTS
from specledger.schemas.raw import REQUESTS, SNAPSHOTS

from . import draw
from .world import World

BLOCK_S = 600
BLOCKS = 86_400 // BLOCK_S
LOAD_SPREAD = 0.25
"""Standard deviation of the logarithm of an engine's load from block to block."""
LOG_BASE = 1.02
EPOCH = dt.date(1970, 1, 1)


def requests(
    world: World, dates: Sequence[dt.date], rng: np.random.Generator, *, per_hour: float = 60.0, gaps: bool = True
) -> pl.DataFrame:
    """One row a request, ``per_hour`` of them and engine on average, following the daily wave.

    All finish on the day they arrive. Columns: date, engine, arrived_s and finished_s (of the day), load, task,
    temperature, prompt_tokens, output_tokens, draft_limit, steps, rounds, drafted, accepted, accepted_at (list),
    ttft_ms, decode_ms, gaps_ms (list, single precision). Without ``gaps`` there is no gaps_ms, and decode_ms is the sum
    of the expected times of the rounds.
    """
    block_at = np.arange(BLOCKS) * BLOCK_S + BLOCK_S / 2
    wave = world.wave_at(block_at)
    nights, engines = len(dates), world.engines
    expected = np.broadcast_to(per_hour * BLOCK_S / 3600 * wave, (nights, engines, BLOCKS)).copy()
    expected[..., -1] = 0.0  # nothing arrives so late that it would end tomorrow
    counts = rng.poisson(expected)
    spread = rng.normal(0.0, LOAD_SPREAD, counts.shape)
    load_of = np.maximum(1, np.rint(world.mean_load * wave * np.exp(spread))).astype(np.int64)
    shock_of = _shocks(world, nights, rng) * ("times" in world.shaken)

    home = np.repeat(np.arange(counts.size), counts.ravel())
    night, engine, block = np.unravel_index(home, counts.shape)
    total = len(home)
    kinds = _kinds(world, night * 24 + block // 6, nights * 24, rng)
    load = load_of.ravel()[home]
    limit = world.draft_limit
    prompt, wanted = np.zeros(total, np.int64), np.zeros(total, np.int64)
    conditional, coverage = np.zeros((total, limit)), np.zeros(total)
    for index, task in enumerate(world.tasks):
        mine = kinds == index
        count = int(mine.sum())
        prompt[mine] = draw.tokens(rng, task.prompt_tokens, count)
        wanted[mine] = draw.tokens(rng, task.output_tokens, count)
        conditional[mine] = draw.conditional(rng, task, limit, count)
        coverage[mine] = task.coverage
    if "acceptance" in world.shaken:
        shock = np.exp(_shocks(world, nights, rng)[night, block])
        conditional = np.minimum(conditional * shock[:, None], 1.0)
    factor = np.exp(shock_of[night, block])
    length = world.length_at(load)
    played = _play(world, wanted, conditional, coverage, length, load, factor, gaps, rng)
    waits = rng.exponential(1.0, total) * world.cost.ms(load, load * (length + 1), 0.0, length) * factor
    ttft = waits + (world.cost.base + world.cost.per_prefill_token * prompt) * factor
    arrived = block * BLOCK_S + rng.random(total) * BLOCK_S
    names = np.array([task.name for task in world.tasks])
    warmth = np.array([task.temperature for task in world.tasks])
    frame = pl.DataFrame(
        {
            "date": np.array([(date - EPOCH).days for date in dates], np.int32)[night],
            "engine": engine,
            "arrived_s": arrived,
            "finished_s": arrived + (ttft + played["decode_ms"]) / 1000,
            "load": load,
            "task": names[kinds],
            "temperature": warmth[kinds],
            "prompt_tokens": prompt,
            "output_tokens": wanted,
            "ttft_ms": ttft,
            **played,
        }
    )
    return (
        frame.filter(pl.col("finished_s") < 86_400)
        .with_columns(pl.col("date").cast(pl.Date), draft_limit=pl.lit(limit, pl.Int32))
        .sort("date", "engine", "arrived_s")
    )


def _shocks(world: World, nights: int, rng: np.random.Generator) -> np.ndarray:
    """Logarithms of the factors that nights and their hours bring, night by block."""
    hours = rng.normal(0.0, world.night_shock, (nights, 1)) + rng.normal(0.0, world.hour_shock, (nights, 24))
    return hours.repeat(6, axis=1)


def _kinds(world: World, hour: np.ndarray, hours: int, rng: np.random.Generator) -> np.ndarray:
    """The task of each request, from the shares of its hour."""
    shares = np.array([task.share for task in world.tasks]) * np.exp(
        rng.normal(0.0, world.mix_spread, (hours, len(world.tasks)))
    )
    upto = np.cumsum(shares / shares.sum(axis=1, keepdims=True), axis=1)
    return (rng.random(len(hour))[:, None] > upto[hour][:, :-1]).sum(axis=1)


def _play(
    world: World,
    wanted: np.ndarray,
    conditional: np.ndarray,
    coverage: np.ndarray,
    length: np.ndarray,
    load: np.ndarray,
    factor: np.ndarray,
    with_gaps: bool,
    rng: np.random.Generator,
) -> dict[str, object]:
    """Let every request take its rounds until it has its tokens."""
    total, limit = conditional.shape
    steps, rounds, drafted, accepted = (np.zeros(total, np.int64) for _ in range(4))
    accepted_at = np.zeros((total, limit), np.int64)
    decode_ms = np.zeros(total)
    owners: list[np.ndarray] = []
    pauses: list[np.ndarray] = []
    left = wanted - 1
    active = np.flatnonzero(left > 0)
    base = world.cost.ms(load, load * (length + 1), 0.0, length) * factor
    arrivals = world.arrivals_per_s * base / 1000
    prefill = world.cost.per_prefill_token * np.mean([task.prompt_tokens for task in world.tasks])
    while len(active):
        covered = (coverage[active] >= 1) | (rng.random(len(active)) < coverage[active])
        proposed = np.where(covered, length[active], 0)
        hits = (rng.random((len(active), limit)) < conditional[active]) & (np.arange(limit) < proposed[:, None])
        prefix = np.cumprod(hits, axis=1)
        got = prefix.sum(axis=1)
        steps[active] += 1
        rounds[active] += proposed > 0
        drafted[active] += proposed
        accepted[active] += got
        accepted_at[active] += prefix
        if with_gaps:
            # Now and then a round waits for the prefill of somebody else's prompt.
            other = rng.poisson(arrivals[active]) * rng.gamma(2.0, prefill / 2.0, len(active)) * factor[active]
            gap = (base[active] * np.exp(rng.normal(0.0, world.cost.noise, len(active))) + other).astype(np.float32)
            owners.append(active)
            pauses.append(gap)
            decode_ms[active] += gap.astype(np.float64)
        else:
            decode_ms[active] += base[active]
        left[active] -= got + 1
        active = active[left[active] > 0]
    played: dict[str, object] = {
        "steps": steps,
        "rounds": rounds,
        "drafted": drafted,
        "accepted": accepted,
        "decode_ms": decode_ms,
        "accepted_at": pl.Series(accepted_at, dtype=pl.Array(pl.Int64, limit)).arr.to_list() if limit else [[]] * total,
    }
    if with_gaps:
        played["gaps_ms"] = _lists(np.concatenate([*owners, []]).astype(int), np.concatenate([*pauses, []]), total)
    return played


def _lists(owner: np.ndarray, value: np.ndarray, total: int) -> pl.Series:
    """Values as one list an owner, in the order given."""
    order = np.argsort(owner, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=total))]).astype(np.int32)
    return pl.Series(pl.from_arrow(pa.ListArray.from_arrays(offsets, value[order].astype(np.float32))))


def instance(engine: int) -> str:
    """The name of an engine's instance."""
    return f"e{engine}"


def cells(world: World, frame: pl.DataFrame) -> pa.Table:
    """The rows of ``cells_requests`` that these requests add up to, date and deployment included.

    Columns that need what was not drawn (queue, prefill, preemptions, goodput) are null.
    """
    ns = {name: (pl.col(f"{name}_ms") * 1e6).round().cast(pl.Int64) for name in ("ttft", "decode")}
    tokens = pl.col("output_tokens") - 1
    known = pl.col("output_tokens") > 1
    per_request = frame.with_row_index("request").with_columns(
        hour=(pl.col("finished_s") // 3600).cast(pl.Int8),
        block=(pl.col("finished_s") // BLOCK_S).cast(pl.Int16),
        context_band=_context_band(pl.col("prompt_tokens") + pl.col("output_tokens") / 2),
        temperature_class=pl.when(pl.col("temperature") == 0).then(pl.lit("greedy")).otherwise(pl.lit("sampled")),
        output_band=_output_band(pl.col("output_tokens")),
        ttft_ns=ns["ttft"],
        decode_ns=ns["decode"],
        decode_tokens=tokens,
        step_tokens=tokens,
        step_decode_ns=ns["decode"],
        step_rounds=pl.col("rounds"),
        step_accepted=pl.col("accepted"),
        e2e_ns=((pl.col("ttft_ms") + pl.col("decode_ms")) * 1e6).round().cast(pl.Int64),
        request_tpot_ns=pl.when(known).then((ns["decode"] / tokens).round().cast(pl.Int64)),
    )
    if "gaps_ms" in frame.columns:
        longest = pl.col("gaps_ms").list.max().cast(pl.Float64)
        per_request = per_request.with_columns(longest_pause_ns=(longest * 1e6).round().cast(pl.Int64))
    grain = ["date", "engine", "hour", "block", "load", "context_band", "task", "temperature_class", "output_band"]
    sums = [
        "output_tokens", "prompt_tokens", "rounds", "drafted", "accepted", "decode_ns", "decode_tokens",
        "steps", "step_tokens", "step_decode_ns", "step_rounds", "step_accepted",
    ]  # fmt: skip
    grouped = per_request.group_by(grain, maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("n"),
        *(pl.col(name).sum() for name in sums),
        *(_moment(column.name) for column in MOMENTS),
        *(
            expression
            for name in ("ttft", "e2e", "request_tpot")
            for expression in (
                pl.col(f"{name}_ns").count().cast(pl.Int64).alias(f"{name}_n"),
                pl.col(f"{name}_ns").sum().alias(f"{name}_sum"),
                pl.col(f"{name}_ns").max().alias(f"{name}_max"),
                pl.col(f"{name}_ns").drop_nulls().alias(name),
            )
        ),
        *(
            (
                pl.col("gaps_ms").explode().drop_nulls().alias("itl"),
                pl.col("longest_pause_ns").drop_nulls().alias("longest_pause"),
            )
            if "gaps_ms" in frame.columns
            else ()
        ),
    )
    return _cell_table(world, grouped)


def _moment(name: str) -> pl.Expr:
    """Σ of a product, from the name that the cells give it (``steps_step_decode`` is steps · step_decode_ns)."""
    factors = {
        "rounds_rounds": ("rounds", "rounds"),
        "rounds_accepted": ("rounds", "accepted"),
        "accepted_accepted": ("accepted", "accepted"),
        "drafted_drafted": ("drafted", "drafted"),
        "drafted_accepted": ("drafted", "accepted"),
        "decode_decode": ("decode_ns", "decode_ns"),
        "decode_tokens_decode": ("decode_tokens", "decode_ns"),
        "decode_tokens_tokens": ("decode_tokens", "decode_tokens"),
        "steps_steps": ("steps", "steps"),
        "steps_step_tokens": ("steps", "step_tokens"),
        "step_tokens_tokens": ("step_tokens", "step_tokens"),
        "steps_step_decode": ("steps", "step_decode_ns"),
        "step_decode_decode": ("step_decode_ns", "step_decode_ns"),
        "steps_step_rounds": ("steps", "step_rounds"),
        "step_rounds_rounds": ("step_rounds", "step_rounds"),
    }[name]
    return (pl.col(factors[0]).cast(pl.Int128) * pl.col(factors[1]).cast(pl.Int128)).sum().alias(name)


def _cell_table(world: World, grouped: pl.DataFrame) -> pa.Table:
    count = grouped.height
    schema = CELLS_REQUESTS.arrow_schema()
    columns: dict[str, object] = {
        "instance": [instance(engine) for engine in grouped["engine"]],
        "origin": ["requests"] * count,
        "requests": grouped["n"].to_list(),
        "succeeded": grouped["n"].to_list(),
        "failed": [0] * count,
        "draft_limit": [world.draft_limit or None] * count,
    }
    for name in ("ttft", "e2e", "request_tpot", "itl", "longest_pause"):
        if name not in grouped.columns:
            continue
        values = grouped[name].explode().cast(pl.Float64).to_numpy()
        owner = np.repeat(np.arange(count), grouped[name].list.len().to_numpy())
        if name == "itl":
            values = np.rint(values * 1e6)
            columns |= {
                "itl_n": np.bincount(owner, minlength=count),
                "itl_sum": np.bincount(owner, values, minlength=count).astype(np.int64),
                "itl_max": grouped["longest_pause"].list.max(),
                "longest_pause_ns": grouped["longest_pause"].list.max(),
                "itl_client_n": np.zeros(count, np.int64),
            }
        columns[name] = _log_histograms(owner, values, count)
    arrays = []
    for field in schema:
        given = columns.get(field.name, grouped[field.name] if field.name in grouped.columns else None)
        if given is None:
            arrays.append(pa.nulls(count, field.type))
        elif isinstance(given, pa.Array):
            arrays.append(given)
        elif pa.types.is_decimal(field.type):
            arrays.append(pa.array([int(value) for value in given], pa.decimal128(38, 0)))
        else:
            arrays.append(pa.array(list(given), field.type))
    table = pa.Table.from_arrays(arrays, schema=schema)
    table = table.add_column(0, "date", pa.array(grouped["date"].to_list(), pa.date32()))
    return table.add_column(1, "deployment", pa.array([world.deployment] * count, pa.string()))


def _log_histograms(owner: np.ndarray, value: np.ndarray, count: int) -> pa.Array:
    """Bucket counts by owner, as the cells hold them."""
    bucket = np.where(value >= 1, np.floor(np.log(np.maximum(value, 1)) / np.log(LOG_BASE)), -1).astype(np.int64)
    pairs, n = np.unique(owner.astype(np.int64) * 4096 + bucket + 1, return_counts=True)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(pairs // 4096, minlength=count))]).astype(np.int32)
    keys, items = pa.array((pairs % 4096 - 1).astype(np.int32)), pa.array(n.astype(np.int64))
    return pa.MapArray.from_arrays(pa.array(offsets), keys, items)


def _context_band(tokens: pl.Expr) -> pl.Expr:
    return (
        pl.when(tokens < 1_000).then(pl.lit("<1k"))
        .when(tokens < 4_000).then(pl.lit("1-4k"))
        .when(tokens < 16_000).then(pl.lit("4-16k"))
        .when(tokens < 64_000).then(pl.lit("16-64k"))
        .otherwise(pl.lit("64k+"))
    )  # fmt: skip


def _output_band(tokens: pl.Expr) -> pl.Expr:
    return (
        pl.when(tokens <= 20).then(pl.lit("1-20"))
        .when(tokens <= 100).then(pl.lit("21-100"))
        .when(tokens <= 500).then(pl.lit("101-500"))
        .otherwise(pl.lit("501+"))
    )  # fmt: skip


def rows(world: World, frame: pl.DataFrame, *, every_s: int = 30) -> dict[str, pa.Table]:
    """The raw rows of these requests and of scrapes that show their engine's load and their tokens.

    Tables by name, each with date and deployment in front of the columns of its declaration. Counters of a scrape hold
    what had finished by then.
    """
    finished = pl.col("date").cast(pl.Datetime("us")) + pl.duration(
        microseconds=(pl.col("finished_s") * 1e6).round().cast(pl.Int64)
    )
    arrived = pl.col("date").cast(pl.Datetime("us")) + pl.duration(
        microseconds=(pl.col("arrived_s") * 1e6).round().cast(pl.Int64)
    )
    served = frame.with_row_index("number").select(
        "date",
        pl.lit(world.deployment).alias("deployment"),
        pl.format("e{}", "engine").alias("instance"),
        pl.lit("simulated").alias("source"),
        pl.lit("responses").alias("format"),
        pl.format("req-{}-{}", "date", "number").alias("request_id"),
        pl.lit(world.model).alias("model_name"),
        arrived.alias("arrived_at"),
        finished.alias("finished_at"),
        pl.lit("ok").alias("status"),
        pl.lit("length").alias("finish_reason"),
        "prompt_tokens",
        "output_tokens",
        "ttft_ms",
        "decode_ms",
        (pl.col("ttft_ms") + pl.col("decode_ms")).alias("e2e_ms"),
        *(("gaps_ms", pl.lit("server").alias("gaps_from")) if "gaps_ms" in frame.columns else ()),
        pl.lit("server").alias("decode_from"),
        *(("rounds", "drafted", "accepted", "draft_limit") if world.draft_limit else ()),
        "temperature",
        "task",
    )
    return {
        REQUESTS.name: _conform(REQUESTS.arrow_schema(), served),
        SNAPSHOTS.name: _conform(SNAPSHOTS.arrow_schema(), _scrapes(world, frame, every_s)),
    }


def _scrapes(world: World, frame: pl.DataFrame, every_s: int) -> pl.DataFrame:
    moments = np.arange(every_s, 86_400, every_s)
    parts = []
    for (date, engine), mine in frame.group_by("date", "engine", maintain_order=True):
        ordered = mine.sort("finished_s")
        upto = np.searchsorted(ordered["finished_s"].to_numpy(), moments, "right")
        blocks = dict(zip((mine["arrived_s"] // BLOCK_S).cast(pl.Int64), mine["load"], strict=True))
        totals = {
            name: np.concatenate([[0], np.cumsum(ordered[name].to_numpy())])[upto]
            for name in ("rounds", "drafted", "accepted", "prompt_tokens", "output_tokens", "steps", "decode_ms")
        }
        midnight = dt.datetime.combine(date, dt.time())
        columns: dict[str, object] = {
            "date": [date] * len(moments),
            "instance": [instance(engine)] * len(moments),
            "scraped_at": [midnight + dt.timedelta(seconds=int(moment)) for moment in moments],
            "running": [float(blocks.get(int(moment) // BLOCK_S, 0)) for moment in moments],
            "prompt_tokens": totals["prompt_tokens"],
            "generation_tokens": totals["output_tokens"],
            "itl": [_one_bucket(n, ms / 1000) for n, ms in zip(totals["steps"], totals["decode_ms"], strict=True)],
            "ttft": [_one_bucket(n, 0.0) for n in upto],
        }
        if world.draft_limit:
            columns |= {name: totals[name] for name in ("rounds", "drafted", "accepted")}
        parts.append(pl.DataFrame(columns))
    return pl.concat(parts).with_columns(
        deployment=pl.lit(world.deployment),
        source=pl.lit("simulated"),
        engine=pl.lit(0),
        model_name=pl.lit(world.model),
        process_started_at=pl.col("date").cast(pl.Datetime("us")),
    )


def _one_bucket(count: int, total_s: float) -> dict[str, object]:
    return {"le": [float("inf")], "n": [int(count)], "sum": float(total_s), "count": int(count)}


def _conform(schema: pa.Schema, frame: pl.DataFrame) -> pa.Table:
    """The frame with exactly the columns of a declaration, missing ones null, date and deployment first."""
    given = frame.to_arrow()
    head = pa.table({"date": given["date"].cast(pa.date32()), "deployment": given["deployment"].cast(pa.string())})
    for field in schema:
        known = field.name in given.column_names
        column = given[field.name].cast(field.type) if known else pa.nulls(given.num_rows, field.type)
        head = head.append_column(field.name, column)
    return head
