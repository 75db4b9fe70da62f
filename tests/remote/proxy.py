"""A proxy in front of a store that answers, delays, cuts and forgets as a test wants."""

from __future__ import annotations

import contextlib
import http.client
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.serving import serving

Fault = Callable[["Handler"], bool]
"""Called before a request is passed on; True if it has dealt with it."""


class Proxy(ThreadingHTTPServer):
    """Passes everything on to a port on loopback, unless a fault takes it."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.target = port
        self.fault: Fault = lambda _: False
        self.requests: list[tuple[str, str]] = []
        """Method and path of every request."""

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def handle_error(self, *_: object) -> None:
        """A client that goes away is what some tests want."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy

    def handle_one_request(self) -> None:
        with contextlib.suppress(ConnectionError):
            super().handle_one_request()

    def _any(self) -> None:
        self.server.requests.append((self.command, self.path))
        if self.server.fault(self):
            return
        self.give(*self.passed_on())

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _any  # noqa: N815

    def passed_on(self) -> tuple[int, list[tuple[str, str]], bytes]:
        """What the store answers."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        connection = http.client.HTTPConnection("127.0.0.1", self.server.target, timeout=60)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def give(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        """Answer."""
        self.send_response_only(status)
        own = {"connection", "transfer-encoding", "content-length"}
        length = {name.lower(): value for name, value in headers}.get("content-length", str(len(body)))
        for name, value in headers:
            if name.lower() not in own:
                self.send_header(name, value)
        self.send_header("Content-Length", length if self.command == "HEAD" else str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status: int) -> bool:
        """Answer with an error, once the request was read."""
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.give(status, [("Content-Type", "application/xml")], b"<Error><Code>InternalError</Code></Error>")
        return True

    def cut(self) -> bool:
        """End the connection in the middle of the request."""
        self.rfile.read(int(self.headers.get("Content-Length") or 0) // 2)
        self.connection.close()
        self.close_connection = True
        return True

    def forget(self) -> bool:
        """Pass the request on, and end the connection instead of answering."""
        self.passed_on()
        self.connection.close()
        self.close_connection = True
        return True

    def hang(self, seconds: float) -> bool:
        """Answer nothing for a while, and pass nothing on."""
        time.sleep(seconds)
        self.connection.close()
        self.close_connection = True
        return True

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def proxy(port: int) -> Iterator[Proxy]:
    """A proxy that lives inside the block."""
    server = Proxy(port)
    with serving(server):
        yield server
