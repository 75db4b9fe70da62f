"""The grammar of a server log: which records there are, where in a line they stand, and which numbers they hold.

A record is ``LEVEL MM-DD HH:MM:SS [file:line] message`` with the name of its process in front, found anywhere in a
line; in a JSON record level, time and process are keys of the object. Numbers are kept as the digits that were found,
so that the same grammar serves one line at a time and, through ``log_program``, millions of lines of the same form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from .log_text import STAMP_PARTS, TIMESTAMP, Clean, Number, Stamp, readable, stamp_of

HEADER = re.compile(
    r"(?<![A-Za-z])(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)[ \t]+"
    r"(?:(?P<year>\d{4})-)?(?P<month>\d\d)-(?P<day>\d\d)[ T](?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
    r"(?:[.,](?P<fraction>\d{1,9}))?[ \t]+"
    r"\[?[\w./<>\\-]+:\d+\][ \t]?"
)
PROCESS = re.compile(r"\((?P<name>(?:[^()]|\((?:[^()]|\([^()]*\))*\))*?\bpid=\d+[^()]*)\)\s*$")
_ENGINE_NAME = re.compile(r"DP(\d{1,6})|EngineCore_(\d{1,6})")
PROCESS_LENGTH = 400
_RECOGNISED = 10
"""Letters of its opening by which a record is recognised that ends there."""
OUTER_LENGTH = 2_000
"""An outer timestamp stands within so many characters before the record."""
TEXT_MESSAGE = re.compile(r"(?:Received request|Generated response|Request \S{1,200} details: prompt)")
"""What follows in such a record is text, whatever it looks like."""

Spans = dict[str, tuple[int, int]]
Marks = tuple[tuple[str, int | str | None], ...]

NUMERIC = ("stats", "spec", "speculative", "stages", "iteration")
"""Kinds of record whose facts are numbers only."""

_LEAD = re.compile(r"(?:Engine (?P<engine>\d+): |(?P<engines>\d+) Engines Aggregated: )?")
_FIELD = re.compile(
    r"(?:^|, )(?P<label>[A-Za-z][^:,\[\]{}'\"]{0,60}): (?P<value>nan|\d+(?:\.\d+)?)"
    r"(?P<unit>%| tokens/s| tokens| reqs)?(?=[,.\s]|$)"
)
_POSITIONS = re.compile(r"Per-position acceptance rate: (?P<values>(?:nan|[\d.]+)(?:, (?:nan|[\d.]+))*)")
_ITERATION = re.compile(
    r"(?P<iteration>\d+)\): (?P<context_requests>\d+) context requests, "
    r"(?P<context_tokens>\d+) context tokens, (?P<generation_requests>\d+) generation requests, "
    r"(?P<generation_tokens>\d+) generation tokens, iteration elapsed time: (?P<elapsed_ms>\d+\.\d+) ms"
    r"(?P<dummy> \(dummy\))?(?:, \w+ KV cache usage: (?P<kv_usage>\d+\.\d)%)?(?=[,\s]|$)"
)
_STAGES = re.compile(
    r"average_time_per_proposal_tok_ms=(?P<proposal_ms>\d+\.\d\d) "
    r"scoring_time_ms=(?P<scoring_ms>\d+\.\d\d) verification_time_ms=(?P<verification_ms>\d+\.\d\d)(?=\s|$)"
)

_STATS_LABELS = {
    "Avg prompt throughput": ("prompt_tps", " tokens/s"),
    "Avg generation throughput": ("generation_tps", " tokens/s"),
    "Running": ("running", " reqs"),
    "Waiting": ("waiting", " reqs"),
    "Pending": ("waiting", " reqs"),
    "Prefix cache hit rate": ("prefix_hit_rate", "%"),
    "Preemptions": ("preemptions", None),
}
_STATS_NEEDED = {"prompt_tps", "generation_tps", "running", "waiting", "kv_usage"}
_SPEC_LABELS = {
    "Draft acceptance rate": ("rate", "%"),
    "Avg Draft acceptance rate": ("rate", "%"),
    "Mean acceptance length": ("printed_length", None),
    "Accepted throughput": ("accepted_tps", " tokens/s"),
    "Drafted throughput": ("drafted_tps", " tokens/s"),
    "Accepted": ("accepted", " tokens"),
    "Drafted": ("drafted", " tokens"),
}
_V0_LABELS = {
    "Number of speculative tokens": ("draft_limit", None),
    "Number of accepted tokens": ("accepted", None),
    "Number of draft tokens": ("drafted", None),
    "Number of emitted tokens": ("emitted", None),
    # 0.5 printed the unit twice.
    "Number of accepted tokens tokens": ("accepted", None),
    "Number of draft tokens tokens": ("drafted", None),
    "Number of emitted tokens tokens": ("emitted", None),
}
_DECIMALS = {
    "prompt_tps": 1,
    "generation_tps": 1,
    "prefix_hit_rate": 1,
    "kv_usage": 1,
    "rate": 1,
    "printed_length": 2,
    "accepted_tps": 2,
    "drafted_tps": 2,
}
"""How many decimals vLLM prints; fewer mean that the record was cut."""
_POSITION_DECIMALS = 3


class Cut(Exception):
    """A record that can be recognised but not read; says what is missing."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a line. ``numbers`` holds its facts and the parts of its time and of an outer one (``outer_…``)."""

    kind: str
    """One of NUMERIC, ``text``, or empty while not yet read."""
    message: str
    span: tuple[int, int]
    """Where the message is in the clean text."""
    process: str | None = None
    level: str | None = None
    numbers: dict[str, Number] = field(default_factory=dict)
    marks: Marks = ()
    """What the words of the record say and its numbers do not."""


def engine_of(process: str | None) -> int | None:
    """The number of the engine in the name of its process (``EngineCore_DP1 pid=7``); None where it names none."""
    named = _ENGINE_NAME.search(process or "")
    return int(named[1] or named[2]) if named else None


def records_of(found: Clean) -> list[Record]:
    """The records of a line, not yet read: their kind is empty."""
    if found.record and (TEXT_MESSAGE.match(found.text) or not HEADER.search(found.text, 0, OUTER_LENGTH)):
        return [_json_record(found)]
    return _headed_records(found)


def _json_record(found: Clean) -> Record:
    keys = found.keys
    name = keys.get("vllm_process_name") or keys.get("processName")
    process = None
    if name:
        process = readable(f"{name} pid={keys['process']}" if keys.get("process", "").isdigit() else name)
    numbers, marks = _stamp_numbers(found.stamp, "")
    level = keys.get("levelname") or keys.get("level")
    text = found.text.rstrip()
    return Record("", text, (0, len(text)), process, level.upper() if level else None, numbers, marks)


def _headed_records(found: Clean) -> list[Record]:
    text, result, position = found.text, [], 0
    header = HEADER.search(text)
    named = _process(text, 0, header.start()) if header else None
    while header is not None:
        start, end, following, next_named = header.end(), len(text), None, None
        if not TEXT_MESSAGE.match(text, start):
            following = HEADER.search(text, start)
        if following is not None:
            next_named = _process(text, start, following.start())
            end = next_named.start() if next_named else following.start()
        message = text[start:end].rstrip()
        numbers, marks = _header_numbers(found, header, max(position, header.start() - OUTER_LENGTH))
        result.append(
            Record(
                "",
                message,
                (start, start + len(message)),
                readable(named["name"]) if named else None,
                header["level"],
                numbers,
                marks,
            )
        )
        position, header, named = start, following, next_named
    return result


def _process(text: str, start: int, end: int) -> re.Match[str] | None:
    """The innermost process name that ends where a header starts."""
    return PROCESS.search(text, max(start, end - PROCESS_LENGTH), end)


def _header_numbers(found: Clean, header: re.Match[str], start: int) -> tuple[dict[str, Number], Marks]:
    numbers = {name: found.number(*header.span(name)) for name in STAMP_PARTS[:7] if header[name] is not None}
    outer = found.stamp
    if outer is None:
        stamps = [stamp_of(match, found) for match in TIMESTAMP.finditer(found.text, start, header.start())]
        outer = next((stamp for stamp in reversed(stamps) if stamp.sign is not None), stamps[-1] if stamps else None)
    outer_numbers, marks = _stamp_numbers(outer, "outer_")
    return numbers | outer_numbers, marks


def _stamp_numbers(stamp: Stamp | None, prefix: str) -> tuple[dict[str, Number], Marks]:
    if stamp is None:
        return {}, ()
    outer = {f"outer_{name}": number for name, number in stamp.parts.items()}
    marks: Marks = (("outer_sign", stamp.sign),) if stamp.sign is not None else ()
    if prefix:
        return outer, marks
    # The own time of a JSON record; where it has a zone, it is its outer time as well.
    own = {name: number for name, number in stamp.parts.items() if not name.startswith("zone")}
    return (own | outer, marks) if marks else (own, ())


def read_numeric(record: Record, found: Clean) -> Record | None:
    """The record with its kind and numbers, or None where it is not one of NUMERIC; raises Cut."""
    lead = _LEAD.match(record.message)
    skipped = lead.end() if lead else 0
    body = record.message[skipped:]
    reader = _reader_for(body)
    if reader is None:
        return None
    opening, kind, read = reader
    # What opens a stats record is the label of its first figure.
    skipped += 0 if kind == "stats" else len(opening)
    body = record.message[skipped:]
    spans, marks = read(body)
    start = record.span[0] + skipped
    facts = {name: found.number(start + first, start + last) for name, (first, last) in spans.items()}
    for name in ("engine", "engines"):
        if lead and lead[name] is not None:
            facts[name] = found.number(record.span[0] + lead.start(name), record.span[0] + lead.end(name))
    return replace(record, kind=kind, numbers=record.numbers | facts, marks=record.marks + marks)


def _stats(body: str) -> tuple[Spans, Marks]:
    spans: Spans = {}
    for match in _FIELD.finditer(body):
        label = match["label"]
        # GPU, or another device; the old engine prints the CPU's after it.
        name, unit = ("kv_usage", "%") if label.endswith(" KV cache usage") else _STATS_LABELS.get(label, ("", None))
        if name and name not in spans:
            spans[name] = _value(match, name, unit)
    _complete("A stats record", spans, _STATS_NEEDED)
    _no_tail("A stats record", body)
    return spans, ()


def _spec(body: str) -> tuple[Spans, Marks]:
    spans: Spans = {}
    labels: list[str] = []
    for match in _FIELD.finditer(body):
        name, unit = _SPEC_LABELS.get(match["label"], ("", None))
        if name:
            labels.append(match["label"])
            place = _value(match, name, unit)
            if match["value"] != "nan":
                spans[name] = place
    _complete("A spec record", spans, {"accepted", "drafted"})
    positions = _positions(body, spans)
    if labels[0] == "Mean acceptance length" or "Accepted throughput" in labels:
        wording = "0.10.2"
        _complete("A spec record", dict.fromkeys(labels), {"Avg Draft acceptance rate"})
    elif "Mean acceptance length" in labels:
        wording = "0.9"  # or 0.8.5: the same words, told apart by the figures
        if not positions:
            raise Cut("A spec record without its rates by position")
    else:
        wording = "0.8.3"
    _no_tail("A spec record", body)
    return spans, (("wording", wording), ("positions", positions))


def _positions(body: str, spans: Spans) -> int:
    """Adds the rates by position to ``spans`` and gives their number, nan included."""
    match = _POSITIONS.search(body)
    if not match:
        return 0
    count = 0
    for count, value in enumerate(re.finditer(r"[^, ]+", match["values"]), 1):
        if value[0] == "nan":
            continue
        if not re.fullmatch(rf"\d+\.\d{{{_POSITION_DECIMALS}}}", value[0]):
            raise Cut("A spec record whose rates by position end early")
        spans[f"position_{count}"] = (match.start("values") + value.start(), match.start("values") + value.end())
    return count


def _speculative(body: str) -> tuple[Spans, Marks]:
    spans: Spans = {}
    for match in _FIELD.finditer(body):
        name, _ = _V0_LABELS.get(match["label"], ("", None))
        if name:
            spans[name] = match.span("value")
    _complete("A speculative record of the old engine", spans, {"draft_limit", "accepted", "drafted", "emitted"})
    if not body.rstrip().endswith("."):
        raise Cut("A speculative record of the old engine without its end")
    return spans, ()


def _iteration(body: str) -> tuple[Spans, Marks]:
    match = _ITERATION.match(body)
    if not match:
        raise Cut("An iteration record without all of its figures")
    _no_tail("An iteration record", body[match.end() :])
    spans = {name: match.span(name) for name, value in match.groupdict().items() if value and name != "dummy"}
    return spans, (("dummy", 1 if match["dummy"] else 0),)


def _stages(body: str) -> tuple[Spans, Marks]:
    match = _STAGES.match(body)
    if not match:
        raise Cut("A stage-times record without all of its figures")
    return {name: match.span(name) for name in match.groupdict()}, ()


_READERS: tuple[tuple[str, str, Callable[[str], tuple[Spans, Marks]]], ...] = (
    ("Iteration(", "iteration", _iteration),
    ("SpecDecoding metrics: ", "spec", _spec),
    ("SpecDecodeWorker stage times: ", "stages", _stages),
    ("Speculative metrics: ", "speculative", _speculative),
    ("Avg prompt throughput: ", "stats", _stats),
)


def _reader_for(body: str) -> tuple[str, str, Callable[[str], tuple[Spans, Marks]]] | None:
    """Opening, kind and reader of the record that a message is; raises Cut where it ends within its opening."""
    for reader in _READERS:
        if body.startswith(reader[0]):
            return reader
        if len(body) >= _RECOGNISED and reader[0].startswith(body):
            raise Cut("A record that ends in its first words")
    return None


def _value(match: re.Match[str], name: str, unit: str | None) -> tuple[int, int]:
    """Where a figure is; raises Cut where its unit or one of the decimals that vLLM prints is missing."""
    decimals = len(match["value"].partition(".")[2])
    if (unit is not None and match["unit"] != unit) or (
        match["value"] != "nan" and name in _DECIMALS and decimals != _DECIMALS[name]
    ):
        raise Cut(f"A record whose {match['label']} ends early")
    return match.span("value")


def _complete(what: str, found: Mapping[str, object], needed: set[str]) -> None:
    missing = needed - found.keys()
    if missing:
        raise Cut(f"{what} without {', '.join(sorted(missing))}")


def _no_tail(what: str, body: str) -> None:
    """Raises Cut where the last field has a label and no value."""
    last = body.rpartition(", ")[2] if ", " in body else body
    if last.strip() != "nan" and re.fullmatch(r"[A-Za-z][^:]*:?\s*", last):
        raise Cut(f"{what} that ends in the middle of a field")
