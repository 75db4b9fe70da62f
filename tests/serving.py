"""Servers that answer while a test runs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from socketserver import BaseServer

POLL_S = 0.02


@contextlib.contextmanager
def serving(server: BaseServer) -> Iterator[None]:
    """Have a server answer inside the block, and be closed after it."""
    thread = threading.Thread(target=server.serve_forever, args=(POLL_S,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
