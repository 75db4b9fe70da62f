"""The configuration that ``specledger init`` writes."""

from __future__ import annotations

import fnmatch
import glob
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..ingest.detect import detect
from ..ingest.opening import Located, locate
from ..ingest.streams import open_input
from ..schemas.warehouse import check_deployment

MOST_LOOKED_AT = 10_000
"""Files of one folder whose kind is told, some seconds' work; how many there are beyond is said."""


OF_A_SERVER = frozenset({"server_log", "responses", "exposition", "otlp"})
"""Formats of what a server itself leaves behind."""


@dataclass(frozen=True)
class Found:
    """The inputs of what is taken for one deployment."""

    deployment: str
    paths: Sequence[str]
    """Files, folders and patterns, as in the configuration."""
    formats: Mapping[str, int]
    """Files looked at, by format."""
    beyond: int = 0
    """Files that were not looked at."""


@dataclass(frozen=True)
class _Looked:
    """What lies in one place."""

    formats: Mapping[str, int]
    inputs: Sequence[Located]
    others: Sequence[Located]
    """Files that are no input, though something is in them."""
    beyond: int


def find(folder: Path) -> list[Found]:
    """What lies in each folder inside a folder, and in the folder itself; only what can be read."""
    top = folder.absolute()
    shown = [path for path in sorted(top.iterdir()) if not path.name.startswith(".")]
    below = {path: looked for path in shown if path.is_dir() and (looked := _look([path])).formats}
    own = _look([path for path in shown if path.is_file()])
    if own.formats and _are_parts(below.values(), own):
        parts = [own, *below.values()]
        # The folder itself stands for all of it, now and later, unless it would bring along what is no input.
        whole = not own.others and len(below) == sum(path.is_dir() for path in shown)
        paths = [str(top)] if whole else [*_patterns(top, own), *map(str, below)]
        return [Found(_deployment(top), paths, _together(parts), sum(one.beyond for one in parts))]
    found = [Found(_deployment(path), [str(path)], looked.formats, looked.beyond) for path, looked in below.items()]
    if own.formats:
        # The folder would bring the folders inside it along, so its own files are named by patterns.
        found.append(Found(_deployment(top), _patterns(top, own), own.formats, own.beyond))
    return found


def _are_parts(below: Collection[_Looked], own: _Looked) -> bool:
    """Whether folders are parts of the server whose files lie beside them: each holds one kind, which nothing else has.

    A second log or a second set of scrapes is of another server.
    """
    kinds = [kind for one in (own, *below) for kind in one.formats]
    alone = all(len(one.formats) == 1 for one in below) and len(set(kinds)) == len(kinds)
    return alone and (not below or not OF_A_SERVER.isdisjoint(own.formats))


def _together(looked: Iterable[_Looked]) -> Mapping[str, int]:
    return sum((Counter(one.formats) for one in looked), Counter[str]())


def _look(paths: list[Path]) -> _Looked:
    formats: Counter[str] = Counter()
    inputs, others = list[Located](), list[tuple[Located, bool]]()
    scrapes = set()
    files = locate(paths)
    for located in files[:MOST_LOOKED_AT]:
        if located.problem or not isinstance(located.path, Path):
            continue
        with open_input(located.path) as stream:
            detected, empty = detect(stream.head), not stream.head.strip()
        if detected.format:
            formats[detected.format] += 1
            inputs.append(located)
            if detected.format == "exposition":
                scrapes.add(_ending(located))
        elif not empty:
            others.append((located, detected.perhaps_scrape))
    # Among scrapes, what a failed one left belongs to them.
    strange = [located for located, perhaps in others if not (perhaps and _ending(located) in scrapes)]
    return _Looked(formats, inputs, strange, max(0, len(files) - MOST_LOOKED_AT))


def _patterns(folder: Path, looked: _Looked) -> list[str]:
    """Patterns of the inputs in a folder and of those that will come, as wide as what is no input lets them be."""
    others = [located.rotation[1] for located in looked.others]
    found = dict[str, None]()
    for located in looked.inputs:
        stem, ending = located.rotation[1], _ending(located)
        wide = f"*{glob.escape(ending)}*"
        if not ending or any(fnmatch.fnmatchcase(other, wide) for other in others):
            wide = re.sub(r"\d+", "*", glob.escape(stem)) + "*"
        found.setdefault(str(Path(glob.escape(str(folder)), wide)))
    return list(found)


def _ending(located: Located) -> str:
    return Path(located.rotation[1]).suffix


def _deployment(folder: Path) -> str:
    return check_deployment(re.sub(r"[\x00-\x1f]", "", folder.name) or "default")


def render(found: list[Found]) -> str:
    """The text of the configuration."""
    sources = "\n".join(_source(one) for one in found)
    return _TOP + sources + _REST


def _source(one: Found) -> str:
    kinds = ", ".join(sorted(one.formats))
    more = _LOG if "server_log" in one.formats else ""
    return (
        f"[[source]]  # {kinds}\n"
        f"paths = [{', '.join(map(_quoted, one.paths))}]\n"
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
