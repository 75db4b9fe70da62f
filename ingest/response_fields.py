"""Where the facts of a request stand in a logged response, in all common spellings.

A record is a body (what the server answered) or an envelope around one. A fact is looked for in every place of its
list, and the first that has it wins. Which places occur is told from a sample of the records (a Shape), because a
query that looks everywhere costs several times as much; what a sample cannot be trusted with is always looked for.
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
SHORT_TAGS = ("kind", "step")
"""Scalars of an envelope that are kept as tags."""

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
    "metrics.speculative_decoding.acceptance_histogram": "BIGINT[]",
    "metrics.speculative_decoding.acceptance_histogram_by_draft_length": "JSON",
    "metrics.speculative_decoding.num_spec_steps": "BIGINT",
    "metrics.speculative_decoding.num_accepted_draft_tokens": "BIGINT",
    "metrics.speculative_decoding.num_draft_tokens": "BIGINT",
    "metrics.speculative_decoding.num_spec_tokens": "INTEGER",
    "metrics.speculative_decoding.per_step_accepted": "INTEGER[]",
    "metrics.speculative_decoding.per_step_drafted": "INTEGER[]",
}
_BODY_SOMETIMES: dict[str, str] = {
    "created_at": "VARCHAR",
    "code": "VARCHAR",
    "status_code": "VARCHAR",
    "usage.input_tokens": "BIGINT",
    "usage.output_tokens": "BIGINT",
    "usage.input_tokens_details.cached_tokens": "BIGINT",
    "metrics.num_preemptions": "BIGINT",
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


def _leaves() -> dict[str, str]:
    """Every place that is looked at, with the type to read it as; later rules do not change earlier ones."""
    leaves: dict[str, str] = {}
    for body in BODIES:
        for name, kind in {**_BODY_ALWAYS, **_BODY_SOMETIMES}.items():
            leaves[_join(body, name)] = kind
    for place in REQUESTS:
        for name, kind in _REQUEST.items():
            leaves.setdefault(_join(place, name), kind)
    for names, kind in (
        ((*STARTS, *ENDS, *IDS, *CODES, *REASONS, *SHORT_TAGS, *PATHS, "method", "task"), "VARCHAR"),
        ((*SECONDS, *MILLISECONDS, *FIRST_SECONDS, *FIRST_MILLISECONDS), "DOUBLE"),
        ((*CHUNK_SECONDS, *CHUNK_MILLISECONDS, *GAP_SECONDS, *GAP_MILLISECONDS), "DOUBLE[]"),
        (ABORTS, "BOOLEAN"),
        (LABELS, "MAP(VARCHAR, VARCHAR)"),
    ):
        for name in names:
            leaves.setdefault(name, kind)
    return leaves


def _join(*parts: str) -> str:
    return ".".join(part for part in parts if part)


LEAVES = _leaves()
"""Type by path of all places, bodies and envelopes alike."""
_EITHER = {_join(body, name) for body in BODIES for name in (*STARTS, *ENDS, *CODES, "created", "created_at")}
"""Places that hold a number in most logs and text in others."""


def _tree(types: Mapping[str, str]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for leaf, kind in types.items():
        *folders, name = leaf.split(".")
        node = tree
        for folder in folders:
            node = node.setdefault(folder, {})
        node[name] = kind
    return tree


_MARKS = ("object", "created", "created_at", "choices.finish_reason")
_MARK_FOLDERS = ("usage", "metrics")


@dataclass(frozen=True)
class Shape:
    """The places that the records of an input use, and those of them that never held anything but numbers."""

    present: frozenset[str]
    numeric: frozenset[str] = frozenset()

    @classmethod
    def everywhere(cls) -> Shape:
        """The shape that looks at every place there is."""
        return cls(frozenset(LEAVES))

    def joined(self, other: Shape) -> Shape:
        """The shape of the records of both."""
        strange = (self.present - self.numeric) | (other.present - other.numeric)
        return Shape(self.present | other.present, (self.numeric | other.numeric) - strange)

    @cached_property
    def bodies(self) -> tuple[str, ...]:
        """Where bodies stand."""
        return tuple(
            body
            for body in BODIES
            if any(_join(body, mark) in self.present for mark in _MARKS)
            or any(place.startswith(_join(body, folder) + ".") for folder in _MARK_FOLDERS for place in self.present)
        )

    @cached_property
    def leaves(self) -> frozenset[str]:
        """All places that are looked at: those present, and those that are always looked at in the bodies in use."""
        always = {_join(body, name) for body in self.bodies for name in _BODY_ALWAYS}
        return self.present | always | set(_ENVELOPE_ALWAYS)

    def type_of(self, place: str) -> str:
        """The type to read a place as: times and codes as numbers where they are nothing else."""
        return "DOUBLE" if place in self.numeric and place in _EITHER else LEAVES[place]

    def structure(self) -> str:
        """The JSON structure of a record for DuckDB's ``from_json``."""

        def convert(node: Any, name: str) -> Any:
            if isinstance(node, dict):
                inner = {key: convert(value, key) for key, value in node.items()}
                return [inner] if name == "choices" else inner
            return [node[:-2]] if node.endswith("[]") else node

        return json.dumps(convert(self._tree(), ""))

    def columns(self) -> str:
        """The same as the argument ``columns`` of DuckDB's ``read_json``."""

        def convert(node: Any, name: str) -> str:
            if not isinstance(node, dict):
                return str(node)
            fields = ", ".join(f'"{key}" {convert(value, key)}' for key, value in node.items())
            return f"STRUCT({fields})" + ("[]" if name == "choices" else "")

        parts = [f"'{name}': '{convert(node, name)}'" for name, node in self._tree().items()]
        return "{" + ", ".join(parts) + "}"

    def _tree(self) -> dict[str, Any]:
        return _tree({place: self.type_of(place) for place in LEAVES if place in self.leaves})

    def first(self, *places: str) -> str:
        """The SQL for the first of these places that has a value; a typed NULL where none is in use."""
        used = [column(place) for place in places if place in self.leaves]
        if not used:
            return f"CAST(NULL AS {LEAVES[places[0]]})"
        if len({self.type_of(place) for place in places if place in self.leaves}) > 1:
            used = [f"CAST({place} AS VARCHAR)" for place in used]
        return used[0] if len(used) == 1 else f"coalesce({', '.join(used)})"

    def each(self, template: str, *places: str) -> str:
        """As ``first``, each place put into an SQL template such as ``instant({})``."""
        used = [template.format(column(place)) for place in places if place in self.leaves]
        if not used:
            return template.format(f"CAST(NULL AS {LEAVES[places[0]]})")
        return used[0] if len(used) == 1 else f"coalesce({', '.join(used)})"

    def instants(self, *places: str) -> str:
        """The first of these places that holds a time, as TIMESTAMP."""
        used = [
            f"number_instant({column(place)})" if self.type_of(place) == "DOUBLE" else f"instant({column(place)})"
            for place in places
            if place in self.leaves
        ]
        return f"coalesce({', '.join([*used, 'CAST(NULL AS TIMESTAMP)'])})"

    def in_body(self, *fields: str) -> str:
        """The first of these fields that any body has, the record's own body first."""
        return self.first(*(_join(body, field) for field in fields for body in BODIES))

    def in_request(self, *fields: str) -> str:
        """The first of these sampling parameters that is given."""
        return self.first(*(_join(place, field) for field in fields for place in REQUESTS))


def column(place: str) -> str:
    """The SQL for a place in the record ``r``."""
    return ".".join(["r", *(f'"{word}"' for word in place.split("."))])


_LOOKED_AT = _tree(LEAVES)


def shape_of(records: Iterable[object]) -> Shape:
    """The shape of these records."""
    present: set[str] = set()
    strange: set[str] = set()
    for record in records:
        for place, value in _present(record, _LOOKED_AT, ""):
            present.add(place)
            if isinstance(value, bool) or not isinstance(value, int | float):
                strange.add(place)
    return Shape(frozenset(present), frozenset(present - strange))


def _present(value: object, tree: Mapping[str, Any], place: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, list):
        value = value[0] if value else None
    if not isinstance(value, Mapping):
        return
    for key, below in tree.items():
        if key not in value:
            continue
        if isinstance(below, dict):
            yield from _present(value[key], below, _join(place, key))
        elif value[key] is not None:
            yield _join(place, key), value[key]
