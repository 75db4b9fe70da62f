"""``specledger.toml``: everything a night needs to know, validated whole before anything runs.

Paths are relative to the folder of the file. Whatever is wrong is one ConfigError that names file, line and key.
"""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..ingest.run import DEFAULT_DEPLOYMENT, check_options
from ..reports import acknowledge
from ..reports.acknowledge import Acknowledgement
from ..reports.gates import GateSet, load_gates
from ..schemas import CELL_TABLES, MART_TABLES, RAW_TABLES
from ..schemas.config import KNOWN_TABLES, Settings, parse_toml, settings_from
from ..schemas.engine import EngineChoice, engine_from
from ..schemas.errors import ConfigError
from ..schemas.object_store import is_url
from ..schemas.toml_lines import TomlLines
from ..schemas.typed_sql import unreadable
from ..transforms.partitions import INPUTS
from .section import Section

BASELINE_NIGHTS = 14
"""Two weeks: every day of the week twice, and enough nights to tell their variance."""
BASELINE_WITHIN_DAYS = 60
"""Good nights that lie further back say little of tonight's."""
HOOK_TIMEOUT_S = 60
LEAST_DAYS = 8
"""Rows of a week back are read again when the days after them are computed."""
EVERLASTING = ("deployments", "ingested_files")
"""Tables without which later ingests would take old inputs for new ones, or old nights lose their names."""
RESULTS = tuple(table.name for table in (*CELL_TABLES, *MART_TABLES))
RAW = tuple(table.name for table in RAW_TABLES if table.name not in EVERLASTING)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_FILES = (".html", ".json", ".md", ".xml")
"""Endings of what is written into the folder of a night, beside which the folders of reports lie."""

SOURCE = {
    "paths": "Files, folders, patterns, or URLs such as `prometheus://HOST:PORT` and `s3://BUCKET/PREFIX`.",
    "deployment": "Name of the deployment that the inputs are of.",
    "instance": "Name of the server process group; the deployment's name unless said otherwise.",
    "labels": "Labels of the deployment, as texts.",
    "format": "Format of the inputs; found out by content unless said.",
    "year": "Year of log lines that print none.",
    "timezone": "Time zone of log lines that print none.",
    "hash_text": "Whether hashes of prompts and outputs are kept, for paired outputs; no text ever is.",
    "required": "Whether a path that matches nothing fails the night.",
}
REPORT = {
    "name": "Folder of the report inside the night's; needed where there are several.",
    "candidate": "SQL predicate over deployments; the night is added to it.",
    "baseline": "Pinned predicate, in which `$night` stands for the date, instead of the last good nights.",
    "nights": f"How many good nights are the baseline; {BASELINE_NIGHTS} unless said otherwise.",
    "within_days": f"How far back they may lie, in days; {BASELINE_WITHIN_DAYS} unless said otherwise.",
    "gates": "TOML file that changes the gates' defaults.",
    "acknowledge": "TOML file of accepted regressions.",
}
HOOK = {
    "command": "Program and arguments; it gets `report.json` on standard input.",
    "timeout_s": f"How long it may take, in seconds; {HOOK_TIMEOUT_S} unless said otherwise.",
    "required": "Whether its failure fails the run.",
}
HOUSEKEEPING = {
    "compact_files": "Put small files of one table and day together when there are so many.",
    "keep_days": "Days that rows are kept, by table; without it everything is kept.",
}
KEEP_DAYS = {name: f"Days that rows of `{name}` are kept." for name in RAW} | {
    "results": "Days that cells and marts are kept.",
}


@dataclass(frozen=True)
class Source:
    """Inputs of one deployment; the fields are those of ``specledger ingest``."""

    paths: tuple[str, ...]
    deployment: str = DEFAULT_DEPLOYMENT
    instance: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    format: str | None = None
    year: int | None = None
    timezone: str | None = None
    hash_text: bool = False
    required: bool = False
    """Whether a path without any input fails the night; otherwise it is only noted."""


@dataclass(frozen=True)
class Comparison:
    """One report of every night: what is judged, and what it is held against."""

    name: str | None
    """The folder inside the night's; None puts the report into that itself."""
    candidate: str
    """Predicate over deployments; the night is added to it."""
    baseline: str | None
    """A pinned predicate, in which $night stands for the date; None means the last good nights of the candidate."""
    nights: int
    within_days: int
    gates: GateSet
    acknowledged: tuple[Acknowledgement, ...]

    def reach(self, date: dt.date) -> dt.date:
        """The first night that a night of this date may be held against; bad ones before it do not matter."""
        return date - dt.timedelta(self.within_days)


@dataclass(frozen=True)
class Hook:
    """A command that gets ``report.json`` on standard input when a gate failed."""

    command: tuple[str, ...]
    timeout_s: int
    required: bool
    """Whether its failure fails the night."""


@dataclass(frozen=True)
class Housekeeping:
    """What is tidied up after the reports; None and nothing mean never."""

    compact_files: int | None = None
    keep_days: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Config:
    """A whole configuration."""

    path: Path
    warehouse: str
    """A folder, or a prefix of an object store."""
    out: Path
    metrics: Path | None
    sources: tuple[Source, ...]
    settings: Settings
    comparisons: tuple[Comparison, ...]
    hook: Hook | None
    housekeeping: Housekeeping
    engine: EngineChoice
    fingerprint: str
    """Of everything in the files that bears on a report."""


def load(path: Path) -> Config:
    """The configuration of a file; ConfigError with file, line and key if anything in it cannot be used."""
    text = _read(path)
    document = parse_toml(text, path)
    lines = TomlLines(path, text)
    top = Section(document, (), lines, KNOWN_TABLES)
    folder = path.absolute().parent
    settings = settings_from(document, lines)
    sources = tuple(_source(section, folder) for section in top.sections("source", SOURCE))
    if not sources:
        top.refuse("source", "is missing: name at least one [[source]] with paths")
    read = [text]
    comparisons = _comparisons(top, folder, settings, read)
    metrics = top.text("metrics", None)
    return Config(
        path,
        _place(top.text("warehouse", "warehouse"), folder),
        folder / top.text("out", "nights"),
        folder / metrics if metrics else None,
        sources,
        settings,
        comparisons,
        _hook(top.section("hook", HOOK)) if "hook" in top else None,
        _housekeeping(top.section("housekeeping", HOUSEKEEPING)),
        engine_from(document, lines),
        hashlib.sha256("\0".join(read).encode()).hexdigest()[:16],
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"Cannot read {path}: {error.strerror or error}; specledger init writes a configuration."
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {error}.") from error


def _place(text: str, folder: Path) -> str:
    """A URL as it is, a path relative to the folder of the configuration."""
    return text if is_url(text) else str(folder / text)


def _source(section: Section, folder: Path) -> Source:
    paths = section.texts("paths")
    for text in paths:
        if text == "-":
            section.refuse("paths", "cannot hold -: nobody types at night")
    labels = section.table("labels")
    for key, value in labels.items():
        if not isinstance(value, str):
            section.refuse("labels", f"must hold texts: write {key} in quotes")
    source = Source(
        tuple(_place(text, folder) for text in paths),
        section.text("deployment", DEFAULT_DEPLOYMENT),
        section.text("instance", None),
        labels,
        section.text("format", None),
        section.whole("year", None, 2000, 2100),
        section.text("timezone", None),
        section.flag("hash_text"),
        section.flag("required"),
    )
    for key in ("deployment", "instance", "labels", "format", "timezone"):
        section.checked(key, functools.partial(check_options, **{key: getattr(source, key)}))
    return source


def _comparisons(top: Section, folder: Path, settings: Settings, read: list[str]) -> tuple[Comparison, ...]:
    """Every ``[[report]]``, or one over everything; the texts of the files they name are added to ``read``."""
    sections = list(top.sections("report", REPORT)) or [Section({}, ("report",), TomlLines(Path(), ""), REPORT)]
    bands = [band.label for band in settings.load_bands]
    found: list[Comparison] = []
    for section in sections:
        name = section.text("name", None)
        if name is None and len(sections) > 1:
            section.refuse("name", "is missing: each of several [[report]] tables needs one")
        if name is not None and not _NAME.fullmatch(name):
            section.refuse(
                "name",
                "must be a folder's name: a letter or digit, then letters, digits, _ . and -, at most 64 in all",
            )
        if name is not None and name.lower().endswith(_FILES):
            section.refuse(
                "name", f"cannot end in {', '.join(_FILES[:-1])} or {_FILES[-1]}, as the night's own files do"
            )
        if name is not None and name.lower() in {(other.name or "").lower() for other in found}:
            section.refuse(
                "name", f"must be of its own: another [[report]] is named {name} too, in letters of any case"
            )
        for key in ("candidate", "baseline"):
            _check_predicate(section, key)
        if "baseline" in section and "nights" in section:
            section.refuse("nights", "is about the rolling baseline: leave out either it or baseline")
        paths = {key: folder / file if (file := section.text(key, None)) else None for key in ("gates", "acknowledge")}
        gates = load_gates(paths["gates"], bands)
        acknowledged = acknowledge.load(paths["acknowledge"], bands)
        read += [path.read_text(encoding="utf-8") for path in paths.values() if path]
        found.append(
            Comparison(
                name,
                section.text("candidate", "true"),
                section.text("baseline", None),
                section.whole("nights", BASELINE_NIGHTS, 1, 365),
                section.whole("within_days", BASELINE_WITHIN_DAYS, 1, 3650),
                gates,
                acknowledged,
            )
        )
    return tuple(found)


def _check_predicate(section: Section, key: str) -> None:
    """Refuse what is no SQL expression; whether its columns exist depends on what has been ingested by then."""
    import duckdb

    where = section.text(key, None)
    if where is None:
        return
    if why := unreadable(where):
        section.refuse(key, why)
    try:
        statements = duckdb.extract_statements(f"SELECT 1 WHERE (\n{where.replace('$night', 'NULL')}\n)")
    except duckdb.Error as error:
        section.refuse(key, f"is no SQL predicate ({str(error).splitlines()[0].rstrip('.')})")
    if len(statements) != 1:
        section.refuse(key, "must be one SQL predicate")


def _hook(section: Section) -> Hook:
    return Hook(
        section.texts("command"),
        section.whole("timeout_s", HOOK_TIMEOUT_S, 1, 3600),
        section.flag("required"),
    )


def _housekeeping(section: Section) -> Housekeeping:
    keep = section.section("keep_days", KEEP_DAYS)
    days = {name: keep.whole(name, None, LEAST_DAYS, 36_500) for name in KEEP_DAYS}
    kept = {name: count for name, count in days.items() if count is not None}
    results = kept.pop("results", None)
    if results is not None:
        if any(kept.get(name, results + 1) > results for name in INPUTS):
            keep.refuse("results", f"needs {', '.join(INPUTS)} to be kept no longer, or they would be computed again")
        kept |= dict.fromkeys(RESULTS, results)
    return Housekeeping(section.whole("compact_files", None, 2, 100_000), kept)
