"""Where the facts of a request stand in a logged response, in all common spellings.

A record is a body (what the server answered) or an envelope around one. A fact is looked for in every place of its
list, and the first that has it wins. Which places occur is told from a sample of the records (a Shape), because looking
everywhere costs several times as much; what a sample cannot be trusted with is always looked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

BODIES = ("", "response", "response.body", "body", "response_body")
"""Where a body can stand; an empty path is the record itself."""
REQUESTS = ("", "request", "request_body", "params", "sampling_params")
"""Where the sampling parameters can stand."""

STARTS = (
    "start_unix", "start_time", "startTime", "started_at", "arrived_at", "request_time", "start",
    "timestamp", "ts", "time",
)  # fmt: skip
ENDS = ("end_unix", "end_time", "endTime", "ended_at", "finished_at", "completed_at", "end")
CREATED = ("created", "created_at")
SECONDS = ("end_s", "duration_s", "latency_s", "elapsed_s", "total_time_s", "duration_seconds", "latency_seconds")
MILLISECONDS = ("duration_ms", "latency_ms", "elapsed_ms", "response_time_ms", "total_time_ms", "e2e_ms")
FIRST_SECONDS = ("ttft_s", "client_ttft_s", "ttft_seconds", "first_token_s")
FIRST_MILLISECONDS = ("client_ttft_ms", "ttft_ms", "first_token_ms")
CHUNK_SECONDS = ("chunk_times_s", "chunk_times", "token_times_s")
CHUNK_MILLISECONDS = ("chunk_times_ms", "token_times_ms")
GAP_SECONDS = ("itl_s", "itls")
GAP_MILLISECONDS = ("itl_ms", "gaps_ms")
IDS = ("request_id", "x_request_id", "req_id", "x-request-id", "requestId", "custom_id")
CODES = ("status_code", "http_status", "status", "http_status_code", "code")
ABORTS = ("aborted_by_client", "aborted", "cancelled", "canceled", "client_disconnected")
REASONS = ("finish_reason", "finishReason", "stop_reason")
LABELS = ("labels", "tags", "metadata")
PATHS = ("path", "url", "endpoint", "route")
SPECULATION = "metrics.speculative_decoding"
HISTOGRAM = f"{SPECULATION}.acceptance_histogram"

_BODY_ALWAYS: dict[str, str] = {
    "id": "VARCHAR",
    "object": "VARCHAR",
    "created": "VARCHAR",
    "model": "VARCHAR",
    "error": "VARCHAR",
    "status": "VARCHAR",
    "usage.prompt_tokens": "BIGINT",
    "usage.completion_tokens": "BIGINT",
    "usage.prompt_tokens_details.cached_tokens": "BIGINT",
    "choices.finish_reason": "VARCHAR",
    "metrics.time_to_first_token_ms": "DOUBLE",
    "metrics.generation_time_ms": "DOUBLE",
    "metrics.queue_time_ms": "DOUBLE",
    "metrics.mean_itl_ms": "DOUBLE",
    HISTOGRAM: "BIGINT[]",
    f"{SPECULATION}.num_spec_steps": "BIGINT",
    f"{SPECULATION}.num_accepted_draft_tokens": "BIGINT",
    f"{SPECULATION}.num_draft_tokens": "BIGINT",
    f"{SPECULATION}.num_spec_tokens": "INTEGER",
    f"{SPECULATION}.per_step_accepted": "INTEGER[]",
    f"{SPECULATION}.per_step_drafted": "INTEGER[]",
}
_BODY_SOMETIMES: dict[str, str] = {
    "created_at": "VARCHAR",
    "code": "VARCHAR",
    "status_code": "VARCHAR",
    "usage.input_tokens": "BIGINT",
    "usage.output_tokens": "BIGINT",
    "usage.input_tokens_details.cached_tokens": "BIGINT",
    "metrics.num_preemptions": "BIGINT",
    f"{SPECULATION}.acceptance_histogram_by_draft_length": "JSON",
    "incomplete_details.reason": "VARCHAR",
}
_REQUEST: dict[str, str] = {
    "model": "VARCHAR",
    "temperature": "DOUBLE",
    "top_p": "DOUBLE",
    "max_tokens": "BIGINT",
    "max_completion_tokens": "BIGINT",
    "max_output_tokens": "BIGINT",
    "n": "INTEGER",
    "lora": "VARCHAR",
    "lora_name": "VARCHAR",
}
_ENVELOPE_ALWAYS = ("request_id", "start_unix", "end_s", "status", "aborted_by_client", "finish_reason", "error")
_BODY_MARKS = ("object", "created", "created_at", "choices.finish_reason")
_BODY_MARK_FOLDERS = ("usage", "metrics")


def within(place: str, *fields: str) -> tuple[str, ...]:
    """The paths of fields inside of a place, which may be the record itself."""
    return tuple(f"{place}.{field}" if place else field for field in fields)


def _leaves() -> dict[str, str]:
    """Every place that is looked at, with the type to read it as; later rules do not change earlier ones."""
    leaves: dict[str, str] = {}
    for body in BODIES:
        for name, kind in {**_BODY_ALWAYS, **_BODY_SOMETIMES}.items():
            leaves[within(body, name)[0]] = kind
    for place in REQUESTS:
        for name, kind in _REQUEST.items():
            leaves.setdefault(within(place, name)[0], kind)
    for names, kind in (
        ((*STARTS, *ENDS, *IDS, *CODES, *REASONS, *PATHS, "method", "task"), "VARCHAR"),
        ((*SECONDS, *MILLISECONDS, *FIRST_SECONDS, *FIRST_MILLISECONDS), "DOUBLE"),
        ((*CHUNK_SECONDS, *CHUNK_MILLISECONDS, *GAP_SECONDS, *GAP_MILLISECONDS), "DOUBLE[]"),
        (ABORTS, "BOOLEAN"),
        (LABELS, "MAP(VARCHAR, VARCHAR)"),
    ):
        for name in names:
            leaves.setdefault(name, kind)
    return leaves


LEAVES = _leaves()
"""Type by path of all places, bodies and envelopes alike."""
TIMES = frozenset({*STARTS, *ENDS, *(path for body in BODIES for path in within(body, *CREATED))})
STATUSES = frozenset({*CODES, *(path for body in BODIES for path in within(body, "status", "status_code", "code"))})


def _tree(types: Mapping[str, str]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for leaf, kind in types.items():
        *folders, name = leaf.split(".")
        node = tree
        for folder in folders:
            node = node.setdefault(folder, {})
        node[name] = kind
    return tree


@dataclass(frozen=True)
class Shape:
    """The places that the records of an input use.

    ``numeric`` are those that never held anything but numbers, ``objects`` those that held an object where a list is
    usual.
    """

    present: frozenset[str]
    numeric: frozenset[str] = frozenset()
    objects: frozenset[str] = frozenset()

    def joined(self, other: Shape) -> Shape:
        """The shape of the records of both."""
        strange = (self.present - self.numeric) | (other.present - other.numeric)
        return Shape(
            self.present | other.present, (self.numeric | other.numeric) - strange, self.objects | other.objects
        )

    @cached_property
    def bodies(self) -> tuple[str, ...]:
        """Where bodies stand."""
        return tuple(
            body
            for body in BODIES
            if self.present.intersection(within(body, *_BODY_MARKS))
            or any(place.startswith(within(body, *_BODY_MARK_FOLDERS)) for place in self.present)
        )

    @cached_property
    def types(self) -> dict[str, str]:
        """Type by path of all places looked at: those present, and those always looked at in the bodies in use."""
        always = {path for body in self.bodies for path in within(body, *_BODY_ALWAYS)}
        used = self.present | always | set(_ENVELOPE_ALWAYS)
        return {place: self._type(place) for place in LEAVES if place in used}

    def _type(self, place: str) -> str:
        if place in self.objects:
            return "JSON"
        # A number that is read as text would have to be parsed twice.
        return "DOUBLE" if place in self.numeric and place in TIMES | STATUSES else LEAVES[place]

    def structure(self) -> str:
        """The JSON structure of a record for DuckDB's ``from_json``."""

        def convert(node: Any, name: str) -> Any:
            if isinstance(node, dict):
                inner = {key: convert(value, key) for key, value in node.items()}
                return [inner] if name == "choices" else inner
            return [node[:-2]] if node.endswith("[]") else node

        return json.dumps(convert(_tree(self.types), ""))

    def columns(self) -> str:
        """The same as the argument ``columns`` of DuckDB's ``read_json``."""

        def convert(node: Any, name: str) -> str:
            if not isinstance(node, dict):
                return str(node)
            fields = ", ".join(f'"{key}" {convert(value, key)}' for key, value in node.items())
            return f"STRUCT({fields})" + ("[]" if name == "choices" else "")

        parts = [f"'{name}': '{convert(node, name)}'" for name, node in _tree(self.types).items()]
        return "{" + ", ".join(parts) + "}"


_LOOKED_AT = _tree(LEAVES)


def shape_of(records: Iterable[object]) -> Shape:
    """The shape of these records."""
    present: set[str] = set()
    strange: set[str] = set()
    objects: set[str] = set()
    for record in records:
        for place, value in _present(record, _LOOKED_AT, ""):
            present.add(place)
            if isinstance(value, bool) or not isinstance(value, int | float):
                strange.add(place)
            if isinstance(value, dict) and place.endswith(HISTOGRAM):
                objects.add(place)
    return Shape(frozenset(present), frozenset(present - strange), frozenset(objects))


def _present(value: object, tree: Mapping[str, Any], place: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, list):
        value = value[0] if value else None
    if not isinstance(value, Mapping):
        return
    for key, held in value.items():
        below = tree.get(key)
        if below is None or held is None:
            continue
        path = f"{place}.{key}" if place else key
        if isinstance(below, dict):
            yield from _present(held, below, path)
        else:
            yield path, held
