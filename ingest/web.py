"""One HTTP exchange with bounds on time and size."""

from __future__ import annotations

import base64
import http.client
import time
import urllib.error
import urllib.parse
import urllib.request
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..version import __version__

_PART = 1 << 16


class ExchangeError(Exception):
    """No usable answer came back; the message says why. ``too_much``: it was too long, or took too long."""

    def __init__(self, message: str, *, too_much: bool = False) -> None:
        super().__init__(message)
        self.too_much = too_much


@dataclass(frozen=True)
class Exchanged:
    """An answer: HTTP status, headers in lower case, and the body, decompressed."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True)
class Address:
    """An address without credentials, and the header that holds them."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)


def address(url: str) -> Address:
    """The address in a URL that may hold user and password; ValueError if it names no host or a bad port."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("it is no http or https address")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    bare = urllib.parse.urlunsplit(parts._replace(netloc=f"{host}:{parts.port}" if parts.port else host, fragment=""))
    if parts.username is None:
        return Address(bare)
    pair = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
    return Address(bare, {"Authorization": "Basic " + base64.b64encode(pair.encode()).decode()})


def exchange(
    to: Address, *, timeout: float, limit: int, form: Mapping[str, str] | None = None, accept: str = "*/*"
) -> Exchanged:
    """Ask once: GET, or POST with a form. Any HTTP status is an answer; ExchangeError where none came.

    ``timeout`` (seconds) holds for connecting and for the whole answer, ``limit`` (bytes) for its body, decompressed.
    """
    end = time.monotonic() + timeout
    data = None if form is None else urllib.parse.urlencode(form).encode()
    request = urllib.request.Request(to.url, data=data)  # noqa: S310 - an Address is http or https
    request.add_header("Accept", accept)
    request.add_header("Accept-Encoding", "gzip")
    request.add_header("User-Agent", f"specledger/{__version__}")
    for name, value in to.headers.items():
        request.add_unredirected_header(name, value)  # credentials stay with the host they were given for
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:  # noqa: S310
            return _taken(answer, answer.status, limit, end)
    except urllib.error.HTTPError as answer:
        with answer:
            return _taken(answer, answer.code, limit, end)
    except urllib.error.URLError as error:
        reason = error.reason
        raise ExchangeError(getattr(reason, "strerror", None) or str(reason)) from error
    except TimeoutError as error:
        raise ExchangeError("the answer took too long", too_much=True) from error
    except (OSError, http.client.HTTPException, zlib.error, ValueError) as error:
        raise ExchangeError(getattr(error, "strerror", None) or str(error) or type(error).__name__) from error


def _taken(answer: http.client.HTTPResponse | urllib.error.HTTPError, status: int, limit: int, end: float) -> Exchanged:
    headers = {name.lower(): value for name, value in answer.headers.items()}
    parts, size = [], 0
    while part := answer.read1(_PART):
        parts.append(part)
        size += len(part)
        if size > limit:
            raise ExchangeError(f"the answer is longer than {limit >> 20} MiB", too_much=True)
        if time.monotonic() > end:
            raise ExchangeError("the answer took too long", too_much=True)
    if headers.get("content-length", "").isdecimal() and size < int(headers["content-length"]):
        raise ExchangeError("the connection ended in the middle of the answer")
    body = b"".join(parts)
    if headers.get("content-encoding", "").lower() == "gzip":
        unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        body = unpacker.decompress(body, limit + 1)
        if len(body) > limit:
            raise ExchangeError(f"the answer is longer than {limit >> 20} MiB", too_much=True)
        if not unpacker.eof:
            raise ExchangeError("the compressed answer has no end")
    return Exchanged(status, headers, body)
