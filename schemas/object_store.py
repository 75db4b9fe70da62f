"""Object stores as a warehouse needs them: whole objects, some of which are replaced only if nobody else did.

Credentials, region and endpoint come from the environment as the store's own tools name them; options of an S3 store
may stand behind the name: ``s3://bucket/prefix?region=eu-central-1&endpoint_override=minio:9000&scheme=http``.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import re
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from .errors import MissingExtra, RemoteError, UsageError

if TYPE_CHECKING:
    from obstore import PutMode, UpdateVersion
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

T = TypeVar("T")

SCHEMES = ("s3", "gs", "gcs", "az", "abfs", "abfss")
"""URL schemes of object stores."""
RETRY_S = 180.0
"""How long a request is tried again, after pauses that grow and are drawn at random, before it has failed."""
MOST_RETRIES = 10
MOST_REPLACEMENTS = 3
"""How often a request is sent again that the store's library does not repeat on its own: one on a condition."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 15.0
ANSWER_S = 30.0
"""How long a store may be silent in the middle of an answer."""
REQUEST_S = 600.0
"""How long one request may take; an upload is divided into requests of PART_BYTES."""
PART_BYTES = 8 << 20
AT_ONCE = 16
"""Requests under way at once."""
_URL = re.compile(r"([a-z][a-z0-9+.-]*)://(.*)", re.IGNORECASE | re.DOTALL)
_OPTIONS = ("region", "endpoint_override", "scheme", "force_virtual_addressing")
_ACCOUNTS = ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT")
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_KEYS = ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_KEY")


class StoreFailed(RemoteError):
    """The store refuses, or does not answer."""


class ObjectGone(StoreFailed):
    """An object that was named is no longer there."""


def is_url(place: str) -> bool:
    """Whether a place is named by a URL, not by a path."""
    return _URL.match(place) is not None


Tag = Mapping[str, str]
"""What tells one writing of an object from another: an entity tag, a generation, or both, as the store has them."""


@dataclass(frozen=True)
class Found:
    """A small object as it was read."""

    body: bytes
    tag: Tag


class Store:
    """One prefix of a bucket. Every failure of the store is a StoreFailed that names it, without credentials."""

    def __init__(self, url: str) -> None:
        """UsageError for a URL that names no store, MissingExtra without the library that speaks to it."""
        try:
            import obstore  # noqa: F401 - asked for here, before anything else is
        except ImportError as error:
            raise MissingExtra(
                "A warehouse in an object store needs one more package: pip install 'specledger[objects]'."
            ) from error
        name, _, options = url.partition("?")
        self.url = name.rstrip("/") if name.partition("://")[2].strip("/") else name
        """The place without options."""
        self.options = options
        self._store = _connect(self.url, options)

    def get(self, key: str) -> Found | None:
        """A small object, or None where there is none."""
        try:
            answer = self._asked(key, lambda: self._store.get(key))
            return Found(bytes(self._asked(key, answer.bytes)), _tag(answer.meta))
        except ObjectGone:
            return None

    def put(self, key: str, content: bytes | Path) -> None:
        """Write an object, in parts where it is large; nobody sees it before it is whole."""
        self._asked(key, lambda: self._store.put(key, content, chunk_size=PART_BYTES))

    def replace(self, key: str, body: bytes, tag: Tag | None) -> Tag | None:
        """Write an object if the one that is there has this tag, or if there is none (None); its tag.

        None is returned where somebody else was first. ``body`` must be like no other ever written under the key.
        """
        from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

        attempts = MOST_REPLACEMENTS
        while True:
            attempts -= 1
            try:
                mode: PutMode = "create" if tag is None else cast("UpdateVersion", dict(tag))
                return _tag(self._store.put(key, body, mode=mode))
            except (BaseError, OSError) as error:
                # A request without an answer may have been carried out, and one sent again then stood in its own way.
                found = self.get(key)
                if found is not None and found.body == body:
                    return found.tag
                if isinstance(error, AlreadyExistsError | PreconditionError | FileNotFoundError):
                    return None
                if not attempts:
                    raise self._failed(key, error) from error

    def download(self, key: str, path: Path) -> str:
        """Write an object to a file; the SHA-256 of its bytes. ObjectGone where there is none."""
        answer = self._asked(key, lambda: self._store.get(key))
        state = hashlib.sha256()
        with path.open("wb") as file:
            for piece in self._asked(key, lambda: answer.stream(min_chunk_size=PART_BYTES)):
                state.update(piece)
                file.write(piece)
        return state.hexdigest()

    def delete(self, keys: Sequence[str]) -> None:
        """Remove objects, whether they are there or not."""
        if keys:
            self._asked("", lambda: self._store.delete(list(keys)))

    def below(self, prefix: str) -> dict[str, dt.datetime]:
        """The keys below a prefix, and when each was written by the clock of the store."""
        found = self._asked(prefix, lambda: self._store.list(prefix).collect())
        return {one["path"]: one["last_modified"] for one in found}

    def clock(self, key: str) -> dt.datetime:
        """When an object was written by the clock of the store."""
        return self._asked(key, lambda: self._store.head(key))["last_modified"]

    def _asked(self, key: str, ask: Callable[[], T]) -> T:
        from obstore.exceptions import BaseError

        try:
            return ask()
        except FileNotFoundError as error:
            raise ObjectGone(f"{self.url}/{key} does not exist.") from error
        except (BaseError, OSError) as error:
            raise self._failed(key, error) from error

    def _failed(self, key: str, error: Exception) -> StoreFailed:
        from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

        what = f"{self.url}/{key}".rstrip("/")
        if isinstance(error, PermissionDeniedError | UnauthenticatedError | PermissionError):
            return StoreFailed(f"{what} may not be used ({_reason(error)}): check the credentials and what they allow.")
        return StoreFailed(f"{what} cannot be reached ({_reason(error)}): run the same again once it answers.")


def together(work: Callable[[T], Any], items: Sequence[T]) -> None:
    """Do the work for every item, several at once; the first error ends it."""
    if not items:
        return
    with ThreadPoolExecutor(AT_ONCE) as pool:
        try:
            for _ in pool.map(work, items):
                pass
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def _connect(url: str, options: str) -> ObjectStore:
    from obstore.exceptions import BaseError
    from obstore.store import AzureStore, GCSStore, S3Store

    parsed = _URL.match(url)
    scheme = parsed[1].lower() if parsed else ""
    place, _, prefix = (parsed[2] if parsed else "").partition("/")
    if scheme not in SCHEMES:
        raise UsageError(
            f"{scheme}:// is no object store: give {', '.join(f'{name}://' for name in SCHEMES[:2])}, az://."
        )
    if "@" in place and not scheme.startswith("abfs"):
        raise UsageError(f"{scheme}://…@… holds credentials: leave them to the environment.")
    if not re.fullmatch(r"[\w.@-]+", place, re.ASCII):
        raise UsageError(f"{url} names no bucket: give {scheme}://BUCKET/PREFIX.")
    found = dict(urllib.parse.parse_qsl(options, keep_blank_values=True))
    unknown = sorted(set(found) - set(_OPTIONS)) if scheme == "s3" else sorted(found)
    if unknown:
        raise UsageError(f"{url} has the option {unknown[0]!r}, which is not known: give {', '.join(_OPTIONS)} for s3.")
    client: ClientConfig = {
        "connect_timeout": dt.timedelta(seconds=min(10.0, ANSWER_S)),
        "read_timeout": dt.timedelta(seconds=ANSWER_S),
        "timeout": dt.timedelta(seconds=REQUEST_S),
    }
    retry: RetryConfig = {
        "max_retries": MOST_RETRIES,
        "retry_timeout": dt.timedelta(seconds=RETRY_S),
        "backoff": {
            "init_backoff": dt.timedelta(seconds=FIRST_PAUSE_S),
            "max_backoff": dt.timedelta(seconds=LONGEST_PAUSE_S),
        },
    }
    try:
        if scheme == "s3":
            config = dict(_s3_config(found, client))
            return S3Store(place, prefix=prefix or None, config=config, client_options=client, retry_config=retry)  # type: ignore[arg-type]
        if scheme in ("gs", "gcs"):
            return GCSStore(place, prefix=prefix or None, client_options=client, retry_config=retry)
        container, _, host = place.partition("@")
        account = host.partition(".")[0] or first_set(_ACCOUNTS)
        if account is None:
            raise UsageError(f"{url}: set {_ACCOUNTS[1]} to the name of the storage account.")
        key = first_set(_KEYS)
        return AzureStore(
            container,
            prefix=prefix or None,
            config={"account_name": account} | ({"account_key": key} if key else {}),  # type: ignore[arg-type]
            client_options=client,
            retry_config=retry,
        )
    except (BaseError, ValueError, TypeError) as error:
        raise UsageError(f"{url} cannot be used ({_reason(error)}): check its name and options.") from error


def _s3_config(options: dict[str, str], client: ClientConfig) -> Iterator[tuple[str, Any]]:
    """Settings of the S3 client for the options that inputs take as well."""
    scheme = options.get("scheme", "https")
    given = "endpoint_override" in options
    client["allow_http"] = scheme == "http" if given else (first_set(_ENDPOINTS) or "").startswith("http://")
    if region := options.get("region"):
        yield "region", region
    if endpoint := options.get("endpoint_override"):
        yield "endpoint", endpoint if "://" in endpoint else f"{scheme}://{endpoint}"
    if options.get("force_virtual_addressing", "").lower() in ("1", "true"):
        yield "virtual_hosted_style_request", True


def _tag(meta: Mapping[str, Any]) -> Tag:
    return {name: meta[name] for name in ("e_tag", "version") if meta.get(name)}


def first_set(names: tuple[str, ...]) -> str | None:
    """The first of these variables of the environment that says anything."""
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def _reason(error: Exception) -> str:
    """What a store or the network said, on one line and without the request."""
    text = str(error)
    if code := re.search(r"<Code>(\w+)</Code>", text):
        return code[1]
    told = text.partition(" - ")[2].partition("\n\nDebug source")[0].partition("<?xml")[0] or text
    return " ".join(told.split())[:200].rstrip(" :.")
