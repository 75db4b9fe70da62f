"""What an input is, told from its first bytes and never from its name."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .formats import FORMATS


@dataclass(frozen=True)
class Detected:
    """The format of an input, or why it has none (``reason``, one sentence)."""

    format: str | None
    reason: str | None = None
    perhaps_scrape: bool = False
    """No format, but what a failed scrape would leave: among scrapes it is one of them."""


KNOWN_KINDS = ", ".join(FORMATS)

_MAGIC = (
    (b"\x1f\x8b\x08", "data compressed twice"),
    (b"\x28\xb5\x2f\xfd", "data compressed twice"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ\x00", "xz data"),
    (b"PK\x03\x04", "a zip archive"),
    (b"PAR1", "a Parquet file"),
    (b"SQLite format 3", "an SQLite database"),
    (b"\x7fELF", "a program"),
    (b"\x04\x22\x4d\x18", "lz4 data"),
)
_BOM = b"\xef\xbb\xbf"
_TAR = slice(257, 262)

_COMMENT = re.compile(rb"#\s*(?:HELP|TYPE|UNIT)\s+[a-zA-Z_:]|#\s*scraped_at\s|#\s*EOF\s*$")
# A line may be as long as all that is looked at: no blank and no word is tried from its middle.
_SAMPLE = re.compile(
    rb"[a-zA-Z_:][a-zA-Z0-9_:]*+(?:\{.*)?(?<!\s)\s++[-+]?(?:\d|\.\d|inf\b|nan\b)[\w.+-]*+(?:\s++[-+]?\d[\w.+-]*+)?"
    rb"\s*+(?:#\s*+\{.*)?$",
    re.IGNORECASE,
)
_RECORD = re.compile(
    rb"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\W{0,12}(?:\d{1,3}m)?\s*\d\d-\d\d \d\d:\d\d:\d\d\b"
    rb"|SpecDecoding metrics:|Speculative metrics:|Avg prompt throughput:|SpecDecodeWorker stage times:"
    rb"|\bIteration\(\d+\): |\bINFO:\s+\d+\.\d+\.\d+\.\d+:\d+ - \""
    rb"|\bINFO:\s+(?:Started server process|Application startup complete|Waiting for application startup)"
    rb"|Initializing an? (?:V[01] )?LLM engine|vLLM API server version"
)
_HTML = re.compile(rb"<(?:!doctype\s+html|html|head|body|title|h1)\b", re.IGNORECASE)
_QUALITY_COLUMNS = {b"task", b"metric", b"value"}
_LINES = 200


def detect(head: bytes) -> Detected:
    """The format of an input from its first decompressed bytes (at most SNIFF_BYTES, or all of them)."""
    if _COMMENT.match(head, 3 * head.startswith(_BOM)):
        return Detected("exposition")
    if reason := _no_text(head):
        return Detected(None, reason)
    if _is_otlp_protobuf(head):
        return Detected("otlp")
    text = head.removeprefix(_BOM).lstrip()
    if not text:
        return Detected(None, "The input holds nothing but white space.", perhaps_scrape=True)
    if _HTML.match(text):
        return Detected(None, "This is an HTML page: ask the server's owner what it answered.", perhaps_scrape=True)
    lines = [line.strip() for line in text.split(b"\n", _LINES)[:_LINES]]
    found = _from_json(text, lines) or _from_lines(text, lines)
    if found:
        return Detected(found)
    return Detected(
        None,
        f"The content is none of {KNOWN_KINDS}: give --format if it is one of them.",
        perhaps_scrape=b"\0" not in text and text[:1] not in b"{[",
    )


def _no_text(head: bytes) -> str | None:
    for magic, what in _MAGIC:
        if head.startswith(magic):
            return f"This is {what}: convert it to plain, gzip or zstd text first."
    if head[_TAR] == b"ustar":
        return "This is a tar archive: unpack it and give the folder."
    return "This is UTF-16 text: convert it to UTF-8 first." if _is_utf16(head[:512]) else None


def _is_utf16(head: bytes) -> bool:
    """Whether it has the mark of UTF-16, or one byte of nearly every two is zero and nearly none of the others."""
    zeros = sorted((head[0::2].count(0), head[1::2].count(0)))
    marked = head[:2] in (b"\xff\xfe", b"\xfe\xff") and 4 * sum(zeros) >= len(head)
    return marked or (len(head) > 8 and 2 * zeros[1] > 0.9 * (len(head) - 1) and 2 * zeros[0] < 0.1 * len(head))


def _from_lines(text: bytes, lines: list[bytes]) -> str | None:
    filled = [line for line in lines if line]
    if any(_COMMENT.match(line) for line in filled[:50]):
        return "exposition"
    # The last line may be cut by the end of what was looked at.
    whole = [line for line in (filled[:-1] or filled) if not line.startswith(b"#")]
    samples = sum(1 for line in whole[:50] if _SAMPLE.match(line))
    if samples and samples * 2 > len(whole[:50]):
        return "exposition"
    header = {cell.strip(b' "').lower() for cell in filled[0].split(b",")}
    if header >= _QUALITY_COLUMNS:
        return "quality"
    if _RECORD.search(text):
        return "server_log"
    return None


def _from_json(text: bytes, lines: list[bytes]) -> str | None:
    starts = [line for line in lines if line[:1] in (b"{", b"[")]
    if text[:1] in (b"{", b"["):
        found = classify(outline(text))
        if found:
            return found
    # A file may start in the middle of a record, or with a broken one.
    if 2 * len(starts) >= len([line for line in lines if line]):
        for line in starts[:20]:
            found = classify(outline(line))
            if found:
                return found
    return None


# A string without an end goes to the end of the text, or every quote in it would be tried as the start of another.
_TOKEN = re.compile(rb'"((?:[^"\\]++|\\.)*+)(?:"|\\?\Z)|[{}\[\],:]', re.DOTALL)
_DEPTH = 3


def outline(text: bytes) -> dict[tuple[str, ...], str]:
    """The keys of the first JSON value down to three levels, each with its value if that is a string.

    Arrays do not count as a level. Text that is cut or broken gives the keys up to there.
    """
    found = _Outline()
    for token in _TOKEN.finditer(text):
        if not found.take(token[0][:1], token[1]):
            break
    return found.keys


class _Outline:
    """Keys of a JSON value, taken token by token."""

    def __init__(self) -> None:
        self.keys: dict[tuple[str, ...], str] = {}
        self._path: list[str] = []
        self._in_object: list[bool] = []
        self._key: str | None = None
        self._key_next = False

    def take(self, mark: bytes, word: bytes | None) -> bool:
        """Take a token; false once the value has ended or is broken."""
        if word is not None:
            self._take_string(word[:200].decode("utf-8", "replace"))
        elif mark == b":":
            self._note("")
        elif mark in b"{[":
            self._open(mark == b"{")
        elif mark in b"}]":
            return self._close(mark == b"}")
        elif self._in_object and self._in_object[-1]:  # a comma between members
            self._key, self._key_next = None, True
        return True

    def _take_string(self, word: str) -> None:
        if self._key_next:
            self._key, self._key_next = word, False
        else:
            self._note(word)

    def _note(self, value: str) -> None:
        if self._key is not None and len(self._path) < _DEPTH:
            path = (*self._path, self._key)
            self.keys[path] = self.keys.get(path) or value

    def _open(self, is_object: bool) -> None:
        if is_object:
            if self._in_object:
                self._path.append(self._key or "")
            self._key, self._key_next = None, True
        self._in_object.append(is_object)

    def _close(self, is_object: bool) -> bool:
        if not self._in_object or self._in_object.pop() is not is_object or not self._in_object:
            return False
        if is_object:
            self._path.pop()
            self._key = None
        return True


_BODIES = ("response", "response_body", "body", "completion", "result", "output", "resp")
_OBJECTS = ("chat.completion", "text_completion", "response")
_MESSAGE = {"message", "msg", "MESSAGE", "event", "log"}
_STAMP = {"level", "levelname", "severity", "asctime", "time", "timestamp", "ts", "@timestamp", "stream"} | {
    "__REALTIME_TIMESTAMP",
    "PRIORITY",
}
_IDENTITY = {"request_id", "x_request_id", "req_id", "id", "custom_id"}
_STATUS = {"status", "status_code", "http_status", "code"}
_REPORT_PARTS = {"versions", "config", "configs", "n-shot", "n-samples", "higher_is_better", "lm_eval_version"}


def classify(keys: dict[tuple[str, ...], str]) -> str | None:
    """The format of a JSON document or record with these keys; None if it is none of the known ones."""
    top = {path[0] for path in keys if len(path) == 1}
    # In an array of documents the keys of its first element lie one level deeper, under no name.
    if not top and keys:
        inner = {path[1:]: value for path, value in keys.items() if path[0] == "" and len(path) > 1}
        return classify(inner)
    for name, test in _JSON_FORMATS:
        if test(top, keys):
            return name
    return None


def _is_prometheus(top: set[str], keys: dict[tuple[str, ...], str]) -> bool:
    return ("data", "resultType") in keys or {"resultType", "result"} <= top or ("status" in top and "errorType" in top)


def _is_bench(top: set[str], keys: dict[tuple[str, ...], str]) -> bool:
    return {"total_input_tokens", "total_output_tokens"} <= top or {"num_prompts", "completed", "duration"} <= top


def _is_responses(top: set[str], keys: dict[tuple[str, ...], str]) -> bool:
    if top & {"usage", "choices"} or keys.get(("object",), "").startswith(_OBJECTS):
        return True
    if any((body, part) in keys for body in _BODIES for part in ("usage", "choices", "object", "error", "body")):
        return True
    return bool(top & _IDENTITY and top & _STATUS) and not top & _MESSAGE


_JSON_FORMATS = (
    ("otlp", lambda top, keys: bool(top & {"resourceSpans", "resource_spans"})),
    ("prometheus", _is_prometheus),
    ("aiperf", lambda top, keys: "aiperf_version" in top or ("metadata", "request_start_ns") in keys),
    ("guidellm", lambda top, keys: "benchmarks" in top or ("metadata", "guidellm_version") in keys),
    ("bench", _is_bench),
    ("quality", lambda top, keys: "results" in top and bool(top & _REPORT_PARTS)),
    ("responses", _is_responses),
    ("server_log", lambda top, keys: bool(top & _MESSAGE and top & _STAMP)),
)


def _is_otlp_protobuf(head: bytes) -> bool:
    body = head[4:] if head[:1] == b"\0" else head
    return body[:1] == b"\x0a" and (b"llm_request" in head or b"gen_ai." in head or b"service.name" in head)
