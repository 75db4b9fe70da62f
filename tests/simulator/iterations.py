"""Iterations of many servers with known costs, and the marts of round costs that come out of them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from specledger.schemas import CELL_TABLES, RAW_TABLES, TABLES
from specledger.schemas.config import DEFAULT_SETTINGS
from specledger.transforms.catalog import query
from specledger.transforms.macros import create_macros

from .engine import simulate
from .world import World

DAY = dt.date(2026, 11, 29)
MARTS = ("deployment_days", "cost_observations", "step_cliffs", "round_cost", "round_split")
COLUMNS = ("ended", "context_requests", "context_tokens", "generation_requests", "generation_tokens", "elapsed_ms")


@dataclass(frozen=True)
class Server:
    """One server of a deployment; servers with the same ``target`` serve the same model."""

    world: World
    deployment: str
    target: str
    capture_sizes: tuple[int, ...] = ()
    instance: str = "one"


def simulated(world: World, arrivals_per_s: Iterable[float], seconds: float, rng: np.random.Generator) -> np.ndarray:
    """COLUMNS of every iteration, from an engine that starts anew each hour at another rate of arrivals."""
    return np.array(
        [
            [3600 * hour + iteration.ended, *(getattr(iteration, name) for name in COLUMNS[1:])]
            for hour, rate in enumerate(arrivals_per_s)
            for iteration in simulate(replace(world, arrivals_per_s=rate), seconds, rng).iterations
        ]
    )


def drawn(
    world: World, loads: Iterable[float], count: int, rng: np.random.Generator, stalls: float = 0.003
) -> np.ndarray:
    """COLUMNS of iterations drawn one by one: ``count`` of each hour, around another load each.

    The draft length follows the load one iteration late, every tenth iteration has prefill work, and a share of them
    ``stalls`` for ten times its time.
    """
    hours = []
    for hour, mean in enumerate(loads):
        requests = np.clip(rng.poisson(mean, count + 1), 1, world.max_num_seqs)
        lengths, requests = world.length_at(requests[:-1]), requests[1:]
        fresh = rng.random(count) < 0.1
        prompts = np.where(fresh, np.maximum(1, rng.gamma(2.0, 100.0, count).astype(int)), 0)
        verified = requests * (lengths + 1)
        factor = np.exp(rng.normal(0, world.cost.noise, count) + rng.normal(0, world.hour_shock))
        factor *= np.where(rng.random(count) < stalls, 10.0, 1.0)
        elapsed = (world.cost.ms(requests, verified, 0.0, lengths) + world.cost.per_prefill_token * prompts) * factor
        moments = 3600 * hour + np.cumsum(elapsed) / 1000
        hours.append(np.column_stack([moments, fresh, prompts, requests, verified, elapsed]))
    return np.concatenate(hours)


def marts(servers: Iterable[tuple[Server, np.ndarray]]) -> dict[str, list[dict[str, Any]]]:
    """All rows of the marts of round costs, by mart, from the iterations of each server."""
    connection = duckdb.connect(config={"threads": 1})
    create_macros(connection, DEFAULT_SETTINGS)
    for table in (*RAW_TABLES, *CELL_TABLES):
        connection.execute(table.ddl())
    for server, iterations in servers:
        names = {"date": DAY, "deployment": server.deployment, "instance": server.instance, "source": "log"}
        _insert(connection, "deployments", names, _start(server))
        _insert(connection, "iterations", names, _logged(iterations))
    connection.execute(f"INSERT INTO cells_iterations BY NAME {query('cells', 'cells_iterations')}")
    found = {}
    for name in MARTS:
        connection.execute(TABLES[name].ddl())
        connection.execute(f"INSERT INTO {name} BY NAME {query('marts', name)}")
        found[name] = connection.sql(f"FROM {name} ORDER BY ALL").to_arrow_table().to_pylist()
    return found


def _start(server: Server) -> pa.Table:
    limit = server.world.draft_limit
    return pa.table(
        {
            "started_at": [dt.datetime.combine(DAY, dt.time())],
            "model": [server.target],
            "quantization": ["none"],
            "speculative": [limit > 0],
            "draft_limit": [limit or None],
            "capture_sizes": [list(server.capture_sizes)],
        }
    )


def _logged(iterations: np.ndarray) -> pa.Table:
    start = np.datetime64(DAY, "us")
    whole = {name: iterations[:, at].astype(np.int64) for at, name in enumerate(COLUMNS[1:5], 1)}
    return pa.table(
        {
            "logged_at": start + (iterations[:, 0] * 1e6).astype("timedelta64[us]"),
            "engine": np.zeros(len(iterations), np.int64),
            "iteration": np.arange(len(iterations)),
            **whole,
            "elapsed_ms": np.round(iterations[:, 5], 2),
        }
    )


def _insert(connection: duckdb.DuckDBPyConnection, table: str, names: dict[str, Any], given: pa.Table) -> None:
    connection.register("given", given)
    constants = ", ".join(f"${name} AS {name}" for name in names)
    connection.execute(f"INSERT INTO {table} BY NAME SELECT {constants}, * FROM given", names)
    connection.unregister("given")
