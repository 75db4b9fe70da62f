"""What the records that are not numbers alone are about: start-up, sampling parameters, and events.

Only messages whose words are known are kept, so that no text of a prompt or an output can be.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from .log_records import TEXT_MESSAGE, Record
from .log_text import readable
from .python_repr import NotRead, read_value

REQUEST = "Received request"
MESSAGE_LENGTH = 2_000
_ERROR_LENGTH = 200

STARTUP = ("version", "args", "engine", "kv_tokens", "blocks", "ready")
"""Kinds that describe a server start; see ``startup``."""

MARKERS = (
    "KV cache usage",
    "SpecDecoding m",
    "Speculative m",
    "SpecDecodeWorker s",
    "Iteration(",
    "Received request",
    "non-default args",
    "args: Namespace(",
    "LLM engine (v",
    "API server version",
    "KV cache size",
    "GPU blocks",
    "Application startup complete",
    "Avg prompt",
    "bort",
    "reempt",
    "JIT compilation",
    "torch.compile takes",
    "Compiling a graph",
    "ecompil",
    "Graph capturing finished",
    "init engine (profile",
    "onnector",
    "NIXL",
    "Nixl",
    "LMCache",
    "Mooncake",
    "Traceback",
    "Error",
    "Exception",
    "ERROR",
    "CRITICAL",
    "died",
    "EngineCore",
    "out of memory",
)
"""A line without any of these holds no record of interest."""

_STARTUP_OPENINGS = (
    (re.compile(r"(?:vLLM|LLM) API server version v?(?P<version>\S+)"), "version"),
    (re.compile(r"(?:non-default args: (?=\{)|args: Namespace\()"), "args"),
    (
        re.compile(r"Initializing an? (?:(?P<generation>V[01]) )?LLM engine \(v(?P<version>[^)]*)\) with config: "),
        "engine",
    ),
    (re.compile(r"(?:\w+ )?KV cache size: (?P<tokens>[\d,]+) tokens"), "kv_tokens"),
    (re.compile(r"# (?:GPU|cuda|\w+) blocks: (?P<blocks>\d+), # CPU blocks: \d+"), "blocks"),
)
_CUT_STARTUP = re.compile(
    r"non-default args: ?$|args: Namespace$|Initializing an? (?:V[01] )?LLM engine \(v|(?:\w+ )?KV cache size: [\d,]*$"
)

_EVENTS = (
    ("preemption", re.compile(r"is preempted by|[Pp]reempt(?:ed|ing) request|cumulative_preemption")),
    ("abort", re.compile(r"Abort(?:ed|ing) request|Request \S+ aborted")),
    ("compilation", re.compile(r"JIT compilation|torch\.compile takes|Compiling a graph|[Rr]ecompil")),
    ("warmup", re.compile(r"Graph capturing finished|init engine \(profile")),
)
_DEATH = re.compile(
    r"EngineDead|EngineCore (?:encountered|failed|hit)|Engine core (?:initialization failed|proc\w* \S* ?died)|"
    r"died unexpectedly|WorkerProc (?:hit an exception|initialization failed)|Engine process failed|"
    r"output_handler failed|[Ee]ngine loop (?:is dead|has died)|OutOfMemoryError|out of memory"
)
_CONNECTOR = re.compile(r"[Cc]onnector|NIXL|Nixl|LMCache|Mooncake|[Kk][Vv] transfer")
TRACEBACK = "Traceback (most recent call last)"
_EXCEPTION = re.compile(r"(?P<name>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Timeout))(?=:|$)")
_BARE_PREFIX = re.compile(
    r"(?:\d{4}-\d\d-\d\d[T ]\S+ (?:std(?:out|err) F )?)?(?:\S+ +\| ?)?(?:\d{4}-\d\d-\d\d[T ]\S+ )?"
    r"(?:\((?P<process>[^()]*pid=\d+[^()]*)\) ?)?"
)
RECORD = re.compile(
    r"SpecDecoding m|Speculative m|SpecDecodeWorker s|(?:Engine \d+: |Engines Aggregated: )?Avg prompt|"
    r"(?:Engine \d+: )?Iteration\(\d+\)|Initializing an? (?:V\d )?LLM engine|non-default args|KV cache size"
)
"""By what a record is recognised that has no end."""
_RECORD_OPENING = re.compile(
    r"(?:[\w :.,/<>\[-]{0,90}\] )?"  # what is left of a header whose beginning is cut off
    r"(?:Engine \d+: |\d+ Engines Aggregated: )?"
    r"(?:SpecDecoding metrics: |Speculative metrics: |Avg prompt throughput: |Iteration\(\d+\): )"
)
_TROUBLE = ("ERROR", "CRITICAL")

_PARAMETERS = (
    "n",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "min_tokens",
    "ignore_eos",
)
_PRESENT = {
    "seeded": ("seed",),
    "stop": ("stop", "stop_token_ids", "bad_words"),
    "logprobs": ("logprobs", "prompt_logprobs"),
    "logit_bias": ("logit_bias",),
    "structured": ("structured_outputs", "guided_decoding", "structured_output"),
}
"""Parameters whose values are the request's own business: only whether they were given is kept."""


@dataclass(frozen=True, slots=True)
class Message:
    """What a text record says: a kind of STARTUP or of event, ``request``, ``traceback``, ``exception``, ``lost``."""

    kind: str
    text: str
    """For events and requests, what is kept of the message; for start-up records, all of it."""
    cut: bool = False


def message_of(record: Record) -> Message | None:
    """What a record with a header says; None where it is of no interest."""
    text = record.message
    if TEXT_MESSAGE.match(text):
        return Message("request", request_parameters(text) or "") if text.startswith(REQUEST) else None
    for opening, kind in _STARTUP_OPENINGS:
        match = opening.match(text)
        if match:
            return Message(kind, text)
    if _CUT_STARTUP.match(text):
        return Message("args", text[:60], cut=True)
    if text.startswith(TRACEBACK):
        return Message("traceback", TRACEBACK)
    return _event(text, record.level)


def message_without_header(text: str) -> tuple[Message, str | None] | None:
    """What a line without a header says, and the name of its process; None where it is of no interest."""
    prefix = _BARE_PREFIX.match(text)
    process = prefix["process"] if prefix else None
    said = text[prefix.end() :] if prefix else text
    if said.startswith(TRACEBACK):
        return Message("traceback", TRACEBACK), process
    exception = _EXCEPTION.match(said)
    if exception:
        return Message("death" if _DEATH.search(said) else "exception", exception["name"]), process
    if said.rstrip().endswith("Application startup complete."):
        return Message("ready", ""), process
    return (Message("lost", ""), process) if _RECORD_OPENING.match(said) else None


def _event(text: str, level: str | None) -> Message | None:
    exception = _EXCEPTION.match(text)
    if _DEATH.search(text):
        return Message("death", exception["name"] if exception else _shortened(text))
    if exception:
        return Message("exception", exception["name"])
    for kind, words in _EVENTS:
        if words.search(text):
            return Message(kind, readable(text)[:MESSAGE_LENGTH])
    if level in ("WARNING", *_TROUBLE) and _CONNECTOR.search(text):
        return Message("connector", _shortened(text))
    if level in _TROUBLE and not text[:1].isspace() and text.strip(" ^~"):
        return Message("other", _shortened(text))
    return None


def _shortened(text: str) -> str:
    """The opening words of a message: what follows a colon, a quote or a bracket may be anybody's text."""
    return readable(re.split(r"[:'\"\[{(<]", text, maxsplit=1)[0])[:_ERROR_LENGTH].strip() or "(no words)"


def startup_match(message: Message) -> re.Match[str] | None:
    """The opening of a start-up message with its named parts."""
    return next(
        (
            match
            for opening, kind in _STARTUP_OPENINGS
            if kind == message.kind and (match := opening.match(message.text))
        ),
        None,
    )


def request_parameters(text: str) -> str | None:
    """The sampling parameters of a ``Received request`` record as JSON, without prompt, stop strings or schemas."""
    start = text.rfind("params: SamplingParams(")
    if start < 0:
        return None
    try:
        given, end = read_value(text, start + len("params: "))
    except NotRead:
        return None
    if text[end : end + 1] not in ("", ",", "."):  # they were part of a prompt
        return None
    kept: dict[str, Any] = {
        name: given[name] for name in _PARAMETERS if isinstance(given.get(name), int | float | bool)
    }
    for name, sources in _PRESENT.items():
        if any(given.get(source) not in (None, [], {}, "") for source in sources):
            kept[name] = True
    lora = re.search(r"lora_request: (?!None)\S", text[end:])
    if lora:
        kept["lora"] = True
    return json.dumps(kept, sort_keys=True)
