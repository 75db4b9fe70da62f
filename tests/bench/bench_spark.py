"""A fleet on a Spark cluster of two workers against the default engine held to one thread, and what starting costs.

Whole programs, so that Java, the session and the imports of the workers count. No rows without PySpark or Java.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from specledger.schemas.raw import SNAPSHOTS
from specledger.schemas.warehouse import Warehouse
from tests.bench import inputs
from tests.bench.measure import PROGRAM, Row, program
from tests.spark import standalone

DEPLOYMENTS, SERVERS, TURNS = 64, 8, 40
GOAL, MOST_OVERHEAD_S = 1.6, 30.0
ONE_THREAD = """
import sys
from specledger.schemas.config import DEFAULT_SETTINGS
from specledger.schemas.warehouse import Warehouse
from specledger.transforms.database import Limits
from specledger.transforms.runner import run
run(Warehouse(sys.argv[1]), DEFAULT_SETTINGS, force=True, limits=Limits(threads=1))
"""


def rows(scale: float, folder: Path) -> Iterator[Row]:
    """A large fleet, then one small deployment."""
    if why := standalone.missing():
        print(f"Spark is not measured: {why}", file=sys.stderr)
        return
    model = Warehouse(folder / "model")
    count = inputs.fleet(model, TURNS, SERVERS)
    (file,) = model.files(SNAPSHOTS)
    fleet, small = Warehouse(folder / "fleet"), Warehouse(folder / "small")
    deployments = max(2, round(DEPLOYMENTS * scale))
    for warehouse, number in ((fleet, deployments), (small, 1)):
        for place in range(number):
            target = warehouse.partition(SNAPSHOTS, file.date, f"d{place}") / "exposition-0.parquet"
            target.parent.mkdir(parents=True)
            shutil.copyfile(file.path, target)
    os.environ["POLARS_MAX_THREADS"] = "1"
    with standalone.standalone(folder / "spark") as cluster:
        config = folder / "specledger.toml"
        conf = "".join(f"{json.dumps(name)} = {json.dumps(value)}\n" for name, value in cluster.choice.conf.items())
        config.write_text(f'[engine]\nmaster = "{cluster.choice.master}"\n[engine.conf]\n{conf}')
        times = {}
        for warehouse in (small, fleet):
            root = str(warehouse.root)
            alone = program([sys.executable, "-c", ONE_THREAD, root]).seconds
            call = [*PROGRAM, "transform", "--force", "--engine", "spark", "--config", str(config), "--warehouse", root]
            times[warehouse.root] = alone, program(call).seconds
    alone, spread = times[fleet.root]
    yield Row(
        "transform of a fleet on Spark, two workers",
        f"{deployments} deployments, {deployments * count:,} scrapes",
        f"{spread:.1f} s",
        f"{alone:.1f} s",
        alone / spread,
        GOAL,
        at_least=True,
        anchor_name="default engine, one thread",
    )
    alone, spread = times[small.root]
    yield Row(
        "what Spark adds to a small transform (s)",
        f"1 deployment, {count:,} scrapes",
        f"{spread:.1f} s",
        f"{alone:.1f} s",
        spread - alone,
        MOST_OVERHEAD_S,
        anchor_name="default engine, one thread",
    )
