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
_ERROR = (2, "2", "STATUS_CODE_ERROR")


def read(stream: BinaryIO, context: InputContext, sink: Sink) -> Progress:
    """Requests of all spans named ``llm_request``; MissingExtra for protobuf without its library."""
    head = stream.read(1)
    if head not in (b"", b"{", b" ", b"\n", b"\r", b"\t", b"\xef"):
        return _read_protobuf(head, stream, context, sink)
    documents, rows = Documents(stream, context, sink, head), []
    for offset, export in documents:
        if not isinstance(export.get("resourceSpans"), list):
            if not {"resourceMetrics", "resourceLogs"} & set(export):
                sink.reject(offset, "The line is no OTLP export: resourceSpans is missing.", str(list(export)[:20]))
            continue
        rows += _requests(export, offset, sink)
        if len(rows) >= _BATCH:
            sink.rows("requests", frame("requests", rows))
            rows = []
    if rows:
        sink.rows("requests", frame("requests", rows))
    return documents.progress


def _requests(export: Mapping[str, Any], offset: int, sink: Sink) -> list[Row]:
    rows = []
    for span in _spans(export):
        if span.get("name") == "llm_request":
            row = _request(span, offset)
            if row is None:
                sink.reject(offset, "The span has no id or no end time: it cannot be placed.", "")
            else:
                rows.append(row)
    return rows


def _spans(export: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for resource in _objects(export.get("resourceSpans")):
        for scope in _objects(resource.get("scopeSpans", resource.get("instrumentationLibrarySpans"))):
            yield from _objects(scope.get("spans"))


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
    offset = context.offset
    prefix = head + stream.read(3)
    while len(prefix) == 4:
        size = int.from_bytes(prefix, "big")
        if size > LONGEST_DOCUMENT:
            sink.reject(offset, "The length of the message is damaged: what follows was not read.", prefix)
            offset += len(prefix)
            while chunk := stream.read(_CHUNK):
                offset += len(chunk)
            return Progress(offset)
        message = stream.read(size)
        if len(message) < size:
            prefix += message
            break
        try:
            export = json.loads(MessageToJson(ExportTraceServiceRequest.FromString(message)))
        except (DecodeError, RecursionError) as error:
            sink.reject(offset, f"The message is no OTLP export ({error}): it was passed over.", message[:50])
        else:
            rows = _requests(export, offset, sink)
            if rows:
                sink.rows("requests", frame("requests", rows))
        offset += 4 + size
        prefix = stream.read(4)
    if prefix and context.settled:
        sink.reject(offset, "The last message is cut: it was not used.", prefix[:50])
        offset += len(prefix)
    return Progress(offset)
