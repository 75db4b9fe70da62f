"""OpenTelemetry spans of vLLM as the Collector's file exporter writes them: OTLP JSON, one export request a line, or
protobuf, each message behind its length. A span named ``llm_request`` is a request; other spans are passed over.

The spans say nothing about acceptance. An absent temperature beside other sampling parameters is zero: vLLM leaves
out what is false.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from ..schemas.errors import MissingExtra
from .client_rows import Row, frame
from .json_input import LONGEST_DOCUMENT, Documents
from .reader import InputContext, Progress, Sink
from .values import EXACT, SMALL, count, duration_ms, instant_ns, number, text

_BATCH = 10_000
_CHUNK = 1 << 20
_SECONDS: dict[str, tuple[str, ...]] = {
    "ttft_ms": ("gen_ai.latency.time_to_first_token",),
    "queue_ms": ("gen_ai.latency.time_in_queue",),
    "prefill_ms": ("gen_ai.latency.time_in_model_prefill",),
    "decode_ms": ("gen_ai.latency.time_in_model_decode",),
    "e2e_ms": ("gen_ai.latency.e2e",),
}
_COUNTS: dict[str, tuple[str, ...]] = {
    "prompt_tokens": ("gen_ai.usage.prompt_tokens", "gen_ai.usage.input_tokens"),
    "output_tokens": ("gen_ai.usage.completion_tokens", "gen_ai.usage.output_tokens"),
    "max_tokens": ("gen_ai.request.max_tokens",),
    "sequences": ("gen_ai.request.n",),
}
_SAMPLING = ("gen_ai.request.top_p", "gen_ai.request.max_tokens", "gen_ai.request.n")
_SCOPES = ("scopeSpans", "instrumentationLibrarySpans")
_ERROR = (2, "2", "STATUS_CODE_ERROR")


def read(stream: BinaryIO, context: InputContext, sink: Sink) -> Progress:
    """Requests of all spans named ``llm_request``; MissingExtra for protobuf without its library."""
    head = stream.read(1)
    if head not in (b"", b"{", b" ", b"\n", b"\r", b"\t", b"\xef"):
        return _read_protobuf(head, stream, context, sink)
    documents, rows, spans = Documents(stream, context, sink, head), [], _Spans(sink)
    for offset, export in documents:
        if not isinstance(export.get("resourceSpans"), list):
            if not {"resourceMetrics", "resourceLogs"} & set(export):
                sink.reject(offset, "The line is no OTLP export: resourceSpans is missing.", str(list(export)[:20]))
            continue
        rows += spans.requests(export, offset)
        if len(rows) >= _BATCH:
            sink.rows("requests", frame("requests", rows))
            rows = []
    if rows:
        sink.rows("requests", frame("requests", rows))
    spans.told()
    return documents.progress


class _Spans:
    """Takes the requests out of exports, and says of everything else why it is none."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._others = 0

    def requests(self, export: Mapping[str, Any], offset: int) -> list[Row]:
        """Rows of the spans named ``llm_request``."""
        rows = []
        for span in self._spans(export, offset):
            if span.get("name") != "llm_request":
                self._others += 1
            elif (row := _request(span, offset)) is None:
                self._sink.reject(offset, "The span has no id or no end time: it cannot be placed.", "")
            else:
                rows.append(row)
        return rows

    def told(self) -> None:
        """Say what was passed over; once, at the end."""
        if self._others:
            self._sink.note(f"Spans that are not named llm_request were passed over: {self._others}.")

    def _spans(self, export: Mapping[str, Any], offset: int) -> Iterator[Mapping[str, Any]]:
        for resource in self._objects(export, ("resourceSpans",), (), offset):
            for scope in self._objects(resource, _SCOPES, ("resource", "schemaUrl"), offset):
                yield from self._objects(scope, ("spans",), ("scope", "instrumentationLibrary", "schemaUrl"), offset)

    def _objects(
        self, holder: Mapping[str, Any], names: tuple[str, ...], beside: tuple[str, ...], offset: int
    ) -> Iterator[Mapping[str, Any]]:
        """The objects of the list under one of ``names``; an empty list may be left out, not renamed."""
        left_out: list[object] | None = [] if set(holder) <= set(beside) else None
        values: object = next((holder[name] for name in names if name in holder), left_out)
        if not isinstance(values, list):
            self._sink.reject(
                offset, f"{names[0]} is missing or no list: its spans were not read.", str(list(holder)[:20])
            )
            return
        for value in values:
            if isinstance(value, Mapping):
                yield value
            else:
                self._sink.reject(offset, f"{names[0]} holds what is no object: it was not read.", "")


def _objects(values: object) -> Iterator[Mapping[str, Any]]:
    yield from (value for value in values if isinstance(value, Mapping)) if isinstance(values, list) else ()


def _request(span: Mapping[str, Any], offset: int) -> Row | None:
    facts = {str(entry.get("key")): _value(entry.get("value")) for entry in _objects(span.get("attributes"))}
    name = text(facts.get("gen_ai.request.id")) or text(span.get("spanId"))
    finished = instant_ns(span.get("endTimeUnixNano"))
    if name is None or finished is None:
        return None
    status = span.get("status")
    failed = isinstance(status, Mapping) and status.get("code") in _ERROR
    temperature = number(facts.get("gen_ai.request.temperature"))
    if temperature is None and any(key in facts for key in _SAMPLING):
        temperature = 0.0
    row: Row = {
        "byte_offset": offset,
        "format": "otlp",
        "request_id": name,
        "model_name": text(facts.get("gen_ai.response.model")) or text(facts.get("gen_ai.request.model")),
        "arrived_at": instant_ns(span.get("startTimeUnixNano")),
        "finished_at": finished,
        "status": "failed" if failed else "ok",
        "temperature": temperature,
        "top_p": number(facts.get("gen_ai.request.top_p")),
    }
    for column, keys in _SECONDS.items():
        row[column] = duration_ms(_first(facts, keys), 1e3)
    for column, keys in _COUNTS.items():
        row[column] = count(_first(facts, keys), SMALL if column == "sequences" else EXACT)
    row["decode_from"] = "server" if row["decode_ms"] is not None else None
    return row


def _first(facts: Mapping[str, Any], keys: tuple[str, ...]) -> object:
    return next((facts[key] for key in keys if key in facts), None)


def _value(value: object) -> object:
    if not isinstance(value, Mapping):
        return None
    return next(
        (value[kind] for kind in ("doubleValue", "intValue", "stringValue", "boolValue") if kind in value), None
    )


def _read_protobuf(head: bytes, stream: BinaryIO, context: InputContext, sink: Sink) -> Progress:
    try:
        from google.protobuf.json_format import MessageToJson
        from google.protobuf.message import DecodeError
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    except ImportError as error:
        raise MissingExtra("OTLP in protobuf needs a library: pip install 'specledger[otlp]'.") from error
    offset, spans = context.offset, _Spans(sink)
    prefix = head + stream.read(3)
    while len(prefix) == 4:
        size = int.from_bytes(prefix, "big")
        if size > LONGEST_DOCUMENT:
            sink.reject(offset, "The length of the message is damaged: what follows was not read.", prefix)
            offset += len(prefix)
            while chunk := stream.read(_CHUNK):
                offset += len(chunk)
            prefix = b""
            break
        message = stream.read(size)
        if len(message) < size:
            prefix += message
            break
        try:
            export = json.loads(MessageToJson(ExportTraceServiceRequest.FromString(message)))
        except (DecodeError, RecursionError) as error:
            sink.reject(offset, f"The message is no OTLP export ({error}): it was passed over.", message[:50])
        else:
            rows = spans.requests(export, offset)
            if rows:
                sink.rows("requests", frame("requests", rows))
        offset += 4 + size
        prefix = stream.read(4)
    if prefix and context.settled:
        sink.reject(offset, "The last message is cut: it was not used.", prefix[:50])
        offset += len(prefix)
    spans.told()
    return Progress(offset)
