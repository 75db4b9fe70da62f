"""What a server says of itself when it starts: several records that become one row of ``deployments``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .log_messages import Message, startup_match
from .log_records import engine_of
from .log_text import readable
from .plausible import MOST
from .python_repr import NotRead, read_arguments, read_value

_SECRET = re.compile(
    r"(?:^|[_-])(?:api_?keys?|key|token|secret|passw(?:or)?d|credentials?|authorization)$", re.IGNORECASE
)
_USER = re.compile(r"://[^/@\s]+@")
_TEMPLATE_KEYS = ("chat_template", "system_prompt", "default_system_prompt")
"""Arguments that can hold a prompt."""
_LONGEST_VALUE = 4_000
_CONFIG = (
    "model",
    "served_model_name",
    "speculative_config",
    "quantization",
    "dtype",
    "kv_cache_dtype",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "max_seq_len",
    "enforce_eager",
    "enable_prefix_caching",
    "enable_lora",
    "compilation_config",
)
"""What is kept of the engine's configuration."""


@dataclass
class Start:
    """One server start, as far as its records have been read."""

    started_at: int
    """Instant of the first record, in microseconds."""
    records: int = 0
    version: str | None = None
    generation: str | None = None
    args: dict[str, Any] | None = None
    config: dict[str, Any] | None = None
    kv_tokens: dict[str, int] = field(default_factory=dict)
    """Least KV cache size in tokens of the workers of each engine."""
    blocks: int | None = None
    told: int = 0
    """Records that the last row given of it had."""

    def row(self) -> dict[str, Any]:
        """The start as a row of ``deployments``, without what is known only from outside."""
        args, config = self.args or {}, self.config or {}
        spec = _speculation(args, config)
        block_size = _whole(args.get("block_size"))
        # An engine of a data-parallel group may print the size of its own group, which is one.
        sizes_given = (_whole(source.get("data_parallel_size")) for source in (config, args))
        data_parallel = max((size for size in sizes_given if size is not None), default=None)
        compilation = config.get("compilation_config")
        sizes = compilation.get("cudagraph_capture_sizes") if isinstance(compilation, dict) else None
        served = args.get("served_model_name") or config.get("served_model_name")
        lora = config.get("enable_lora", args.get("enable_lora", False if self.args is not None else None))
        return {
            "started_at": self.started_at,
            "vllm_version": self.version,
            "engine_version": self.generation,
            "model": _text(config.get("model") or args.get("model") or args.get("model_tag")),
            "served_model_name": _text(served[0] if isinstance(served, list) and served else served),
            **spec,
            "quantization": _text(config.get("quantization", args.get("quantization"))),
            "dtype": _dtype(config.get("dtype", args.get("dtype"))),
            "kv_cache_dtype": _text(config.get("kv_cache_dtype", args.get("kv_cache_dtype"))),
            "tensor_parallel": _whole(config.get("tensor_parallel_size", args.get("tensor_parallel_size"))),
            "pipeline_parallel": _whole(config.get("pipeline_parallel_size", args.get("pipeline_parallel_size"))),
            "data_parallel": data_parallel,
            "max_num_seqs": _whole(args.get("max_num_seqs")),
            "max_model_len": _whole(config.get("max_seq_len", args.get("max_model_len"))),
            "kv_tokens": self._kv_tokens(data_parallel, block_size),
            "block_size": block_size,
            "enforce_eager": _flag(config.get("enforce_eager", args.get("enforce_eager"))),
            "prefix_caching": _flag(config.get("enable_prefix_caching", args.get("enable_prefix_caching"))),
            "lora": _flag(lora),
            "capture_sizes": sorted(size for size in sizes if isinstance(size, int))
            if isinstance(sizes, list)
            else None,
            "args": json.dumps(args, sort_keys=True) if self.args is not None else None,
        }

    def _kv_tokens(self, data_parallel: int | None, block_size: int | None) -> int | None:
        if not self.kv_tokens:
            return self.blocks * block_size if self.blocks is not None and block_size else None
        unnamed = self.kv_tokens.get("")
        if unnamed is not None and len(self.kv_tokens) == 1:  # before engines had names in the log
            return unnamed * (data_parallel or 1)
        return sum(self.kv_tokens.values())


class Starts:
    """Gathers start-up records into starts; a start is finished when the server serves, or the next one begins."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self._open = Start(**state["open"]) if state.get("open") else None
        self.draft_limit: int | None = state.get("draft_limit")
        """K of the server that is running, as its start-up records say."""
        self.speculative: bool | None = state.get("speculative")

    @property
    def state(self) -> dict[str, Any]:
        return {
            "open": vars(self._open) if self._open else None,
            "draft_limit": self.draft_limit,
            "speculative": self.speculative,
        }

    @property
    def open(self) -> bool:
        """Whether a start is being read."""
        return self._open is not None

    def finish(self) -> Start | None:
        """The start that was being read, if there is one with news; it takes no more records."""
        finished, self._open = self._open, None
        return finished if finished and finished.records > finished.told else None

    def so_far(self) -> Start | None:
        """The start that is being read, if its engine has said what it is and there is news; it stays open."""
        start = self._open
        return start if start and start.config is not None and start.records > start.told else None

    def add(self, message: Message, process: str | None, instant: int) -> tuple[Start | None, str | None]:
        """Takes a start-up record; gives the start that it ends, and what was wrong with the record if anything."""
        ended = None
        start, trouble = self._open, None
        match = startup_match(message)
        if match is None:
            return None, "A start-up record that ends early"
        if start is None or _begins_anew(start, message.kind):
            if message.kind in ("kv_tokens", "blocks") and start is None:
                return None, None
            ended, start = self.finish(), Start(instant)
            self._open = start
        start.records += 1
        if message.kind == "version":
            start.version = match["version"]
        elif message.kind == "args":
            trouble = _read_args(start, message.text, match)
        elif message.kind == "engine":
            trouble = _read_engine(start, message.text, match)
        elif message.kind == "blocks":
            start.blocks = _size(match["blocks"])
        else:
            _read_kv_tokens(start, match["tokens"], process)
        row = start.row()
        self.draft_limit, self.speculative = row["draft_limit"], row["speculative"]
        return ended, trouble


def _begins_anew(start: Start, kind: str) -> bool:
    seen = start.config is not None or bool(start.kv_tokens) or start.blocks is not None
    return (kind == "version" and (start.args is not None or seen)) or (
        kind == "args" and (start.args is not None or seen)
    )


def _read_args(start: Start, text: str, match: re.Match[str]) -> str | None:
    try:
        if text.startswith("args"):
            start.args = _public(read_arguments(text, match.end())[0])
        else:
            start.args = _public(dict(read_value(text, match.end())[0]))
    except NotRead as error:
        start.args = start.args or _public(error.found)
        return "A record of the server's arguments that cannot be read to its end"
    return None


def _read_engine(start: Start, text: str, match: re.Match[str]) -> str | None:
    start.version = readable(match["version"])
    start.generation = match["generation"] or "V0"
    trouble = None
    try:
        config = read_arguments(text, match.end())[0]
    except NotRead as error:
        config = error.found
        trouble = "A record of the engine's configuration that cannot be read to its end"
    start.config = start.config or {name: config[name] for name in _CONFIG if name in config}
    return trouble


def _read_kv_tokens(start: Start, tokens: str, process: str | None) -> None:
    ranked = engine_of(process)
    engine = str(ranked or 0) if process else ""
    size = _size(tokens)
    if size is not None:
        start.kv_tokens[engine] = min(size, start.kv_tokens.get(engine, size))


def _size(digits: str) -> int | None:
    """A size as printed; None where no memory is as large."""
    plain = digits.replace(",", "")
    return int(plain) if 0 < len(plain) < len(str(MOST)) else None


def _speculation(args: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """The columns about speculation; from the engine's configuration, completed by the arguments."""
    given = args.get("speculative_config")
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            given = None
    given = given if isinstance(given, dict) else {}
    if not given and args.get("speculative_model"):  # the flat arguments of the old engine
        given = {
            "model": args.get("speculative_model"),
            "num_speculative_tokens": args.get("num_speculative_tokens"),
            "quantization": args.get("speculative_model_quantization"),
            "acceptance_method": args.get("spec_decoding_acceptance_method"),
        }
    stated = config.get("speculative_config")
    used = stated if isinstance(stated, dict) else {}
    speculative = True if used or given else None
    if "speculative_config" in config and not used:
        speculative = False
    if speculative is False:
        used, given = {}, {}
    model = _named(used.get("model")) or _named(used.get("draft_model")) or _named(given.get("model"))
    method = _text(used.get("method") or given.get("method"))
    if method is None and model is not None:
        method = "ngram" if model == "[ngram]" else "draft_model"
    schedule = given.get("num_speculative_tokens_per_batch_size")
    return {
        "draft_method": method,
        "draft_model": model,
        "draft_limit": _whole(used.get("num_spec_tokens", given.get("num_speculative_tokens"))),
        "draft_schedule": json.dumps(schedule) if schedule else None,
        "draft_quantization": _text(given.get("quantization")),
        "acceptance_rule": _text(given.get("rejection_sample_method") or given.get("acceptance_method")),
        "speculative": speculative,
    }


def _public(value: Any, name: str = "") -> Any:
    """Arguments without secrets and without text that a user may have put there."""
    if isinstance(value, dict):
        return {
            str(key): _public(item, str(key))
            for key, item in value.items()
            if not _SECRET.search(str(key)) and str(key) not in _TEMPLATE_KEYS
        }
    if isinstance(value, list):
        return [_public(item, name) for item in value]
    if isinstance(value, str):
        return _USER.sub("://", readable(value))[:_LONGEST_VALUE]
    return value


def _text(value: Any) -> str | None:
    return readable(value) if isinstance(value, str) and value else None


def _named(value: Any) -> str | None:
    """A model's name; the engine prints the word None where there is no draft model."""
    return None if value == "None" else _text(value)


def _dtype(value: Any) -> str | None:
    text = _text(value)
    return text.removeprefix("torch.") if text else None


def _whole(value: Any) -> int | None:
    """A number of the configuration; None also for -1, which says that the server chooses."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31 else None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None
