"""The configuration that ``specledger init`` writes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..ingest.detect import detect
from ..ingest.opening import locate
from ..ingest.streams import open_input
from ..schemas.warehouse import check_deployment

MOST_LOOKED_AT = 10_000
"""Files of one folder whose kind is told, some seconds' work; how many there are beyond is said."""


@dataclass(frozen=True)
class Found:
    """The inputs of what is taken for one deployment."""

    deployment: str
    path: Path
    formats: Mapping[str, int]
    """Files looked at, by format."""
    beyond: int = 0
    """Files that were not looked at."""


def find(folder: Path) -> list[Found]:
    """What lies in each folder inside a folder, and in the folder itself; only what can be read."""
    top = folder.absolute()
    places = [path for path in sorted(top.iterdir()) if path.is_dir() and not path.name.startswith(".")]
    found = [_look(path.name, path, [path]) for path in places]
    own = [path for path in sorted(top.iterdir()) if path.is_file() and not path.name.startswith(".")]
    if own:
        # The folder would bring the folders inside it along, so its own files are named by a pattern.
        found.append(_look(top.name, top / "*.*" if places else top, own))
    return [one for one in found if one.formats]


def _look(name: str, place: Path, paths: list[Path]) -> Found:
    formats: Counter[str] = Counter()
    files = locate(paths)
    for located in files[:MOST_LOOKED_AT]:
        if located.problem or not isinstance(located.path, Path):
            continue
        with open_input(located.path) as stream:
            kind = detect(stream.head).format
        if kind:
            formats[kind] += 1
    deployment = check_deployment(re.sub(r"[\x00-\x1f]", "", name) or "default")
    return Found(deployment, place, formats, max(0, len(files) - MOST_LOOKED_AT))


def render(found: list[Found]) -> str:
    """The text of the configuration."""
    sources = "\n".join(_source(one) for one in found)
    return _TOP + sources + _REST


def _source(one: Found) -> str:
    kinds = ", ".join(sorted(one.formats))
    more = _LOG if "server_log" in one.formats else ""
    return (
        f"[[source]]  # {kinds}\n"
        f"paths = [{_quoted(str(one.path))}]\n"
        f"deployment = {_quoted(one.deployment)}\n"
        f"{more}"
        "# [source.labels]\n"
        '# quant = "fp8"\n'
    )


def _quoted(text: str) -> str:
    """The text as a TOML string, which is written as JSON's."""
    return json.dumps(text, ensure_ascii=True)


_TOP = """\
# What specledger does every night: specledger nightly --config specledger.toml
# Paths are relative to the folder of this file.

warehouse = "warehouse"  # the Parquet tables: a folder, or s3://BUCKET/PREFIX
out = "nights"  # a folder for each night, and index.html
# metrics = "/var/lib/node_exporter/specledger.prom"  # what runs tell Prometheus

# One [[source]] for each deployment. Files may grow, rotate, be compressed, moved or sent again: each record counts
# once. A path can be a file, a folder, a pattern, or prometheus://HOST:PORT.

"""
_LOG = """\
# year = 2026  # only for an old log whose file tells a later date: it holds for every night
timezone = "UTC"  # of the times in the log
"""
_REST = """
# Every report judges the night against the good nights before it. Without [[report]] there is one over everything;
# with several, each needs a name, and lies in a folder of that name.
#
# [[report]]
# name = "chat"
# candidate = "deployment = 'chat'"
# nights = 14  # good nights before it that it is held against
# within_days = 60
# gates = "gates.toml"
# acknowledge = "acknowledged.toml"
#
# [[report]]
# name = "against-plain"
# candidate = "deployment = 'drafted'"
# baseline = "deployment = 'plain' AND date = $night"  # pinned, instead of nights

# [bands]
# load = ["1", "2-4", "5-8", "9-16", "17-32", "33-64", "65-128", "129-256", "257+"]

# [goodput]
# ttft_ms = 500
# tpot_ms = 50

# What is told when a gate fails: it gets report.json on standard input, and SPECLEDGER_DATE, SPECLEDGER_REPORT and
# SPECLEDGER_FOLDER in its environment.
#
# [hook]
# command = ["/usr/local/bin/notify"]
# timeout_s = 60
# required = false  # whether its failure fails the run

[housekeeping]
compact_files = 32  # put small files of one table and day together when there are so many
# [housekeeping.keep_days]  # without it everything is kept
# snapshots = 90
# requests = 90
# iterations = 90
# log_stats = 90
# run_totals = 90
# results = 1000  # cells and marts, which outlive the rows that they were computed from
"""
