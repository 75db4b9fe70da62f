"""A server on loopback that speaks as much of S3 as reading needs; one bucket is closed."""

from __future__ import annotations

import contextlib
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from xml.sax.saxutils import escape

from tests.serving import serving

MODIFIED = "2026-09-14T12:00:00.000Z"
PAGE = 2
"""Keys in one answer to a list."""


@dataclass
class ObjectServer:
    """What the server holds, by bucket and key; ``gets`` are the keys whose bytes were asked for."""

    port: int
    objects: dict[str, bytes] = field(default_factory=dict)
    gets: list[str] = field(default_factory=list)

    def url(self, path: str) -> str:
        """The URL of an object, prefix or glob, with the options that lead to this server."""
        return f"s3://{path}?region=us-east-1&scheme=http&endpoint_override=127.0.0.1:{self.port}"


@contextlib.contextmanager
def serve() -> Iterator[ObjectServer]:
    """A running server, empty at first."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path).strip("/")
            body = held.objects.get(path)
            if body is None and any(name.startswith(f"{path}/") for name in held.objects) and "/" not in path:
                body = b""
            if path.startswith("forbidden/"):
                self._answer(403, b"")
            else:
                self._answer(404 if body is None else 200, b"", len(body or b""))

        def do_GET(self) -> None:
            parts = urllib.parse.urlsplit(self.path)
            path = urllib.parse.unquote(parts.path).strip("/")
            if "list-type=2" in parts.query:
                self._list(path, dict(urllib.parse.parse_qsl(parts.query)))
            elif path in held.objects:
                held.gets.append(path)
                body = held.objects[path]
                start, _, end = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
                part = body[int(start) : int(end or len(body)) + 1]
                self._answer(206, part, len(part))
            else:
                self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")

        def _list(self, bucket: str, asked: dict[str, str]) -> None:
            if not any(name.startswith(f"{bucket}/") for name in held.objects):
                self._answer(404, b"<Error><Code>NoSuchBucket</Code><Message>no such bucket</Message></Error>")
                return
            prefix = f"{bucket}/{asked.get('prefix', '')}"
            names = sorted(name for name in held.objects if name.startswith(prefix))
            names = [name for name in names if name > asked.get("continuation-token", "")]
            page = names[:PAGE]
            more = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if len(names) > PAGE else ""
            keys = "".join(
                f"<Contents><Key>{escape(name.partition('/')[2])}</Key><Size>{len(held.objects[name])}</Size>"
                f"<LastModified>{MODIFIED}</LastModified></Contents>"
                for name in page
            )
            truncated = str(bool(more)).lower()
            self._answer(
                200,
                f"<ListBucketResult><IsTruncated>{truncated}</IsTruncated><KeyCount>{len(page)}</KeyCount>{keys}{more}"
                "</ListBucketResult>".encode(),
            )

        def _answer(self, status: int, body: bytes, size: int | None = None) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body) if size is None else size))
            self.send_header("Last-Modified", "Mon, 14 Sep 2026 12:00:00 GMT")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    held = ObjectServer(server.server_port)
    with serving(server):
        yield held
