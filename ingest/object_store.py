"""Inputs in object stores: ``s3://``, ``gs://`` and ``az://`` (or ``abfs[s]://``) as Arrow reads them.

Credentials come from the environment or the machine's role; options of the store stand behind the name, for example
``s3://bucket/logs/?region=eu-central-1&endpoint_override=minio:9000&scheme=http``.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from ..schemas.errors import NothingFound, RemoteError, UsageError
from ..schemas.object_store import first_set

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem

READ_BYTES = 8 << 20
"""Bytes asked of the store at once."""
_MAGIC = re.compile(r"[*\[]")
_AWS = re.compile(r"AWS Error (\w+) during \w+ operation: (?:curlCode: \d+, )?([^;]*)")
"""How Arrow words what an S3 store or the network answered."""
_ACCOUNTS = ("AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME")
_KEYS = ("AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY")


@dataclass(frozen=True)
class StoredObject:
    """One object of a store, as it was when it was listed."""

    url: str
    """Without credentials and options, as it is stored in the column ``source``."""
    size: int
    modified_at: dt.datetime
    """Naive UTC."""
    store: FileSystem
    key: str

    def open(self) -> BinaryIO:
        """The bytes, in large pieces; OSError if the store does not give them."""
        size = min(READ_BYTES, self.size + 1)
        return cast(BinaryIO, self.store.open_input_stream(self.key, compression=None, buffer_size=size))


def find(url: str) -> list[StoredObject]:
    """The objects that a URL names: one, all below a prefix (hidden names left out), or those that fit a glob.

    UsageError for a URL that is none, NothingFound if there is no object, RemoteError if the store cannot be asked.
    """
    scheme, _, rest = url.partition("://")
    name, _, options = rest.partition("?")
    shown = f"{scheme}://{name.rpartition('@')[2] if scheme.lower() in ('s3', 'gs', 'gcs') else name}"
    if not name.strip("/"):
        raise UsageError(f"{shown} names no bucket: give {scheme}://BUCKET/PREFIX.")
    store, key = _connect(scheme.lower(), name, options, shown)
    try:
        found = list(_listed(store, key))
    except OSError as error:
        what, helps = _told(error)
        raise RemoteError(f"{shown} cannot be listed ({what}): {helps}.") from error
    if not found:
        what = "matches nothing" if _MAGIC.search(key) else "does not exist"
        raise NothingFound(f"{shown} {what}: give an existing object, prefix or glob.", url)
    top = shown.partition("://")[2].partition("/")[0]
    return [
        StoredObject(
            f"{scheme}://{top}{one.path[len(key.partition('/')[0]) :]}",
            one.size or 0,
            _naive(one.mtime),
            store,
            one.path,
        )
        for one in found
    ]


def _told(error: OSError) -> tuple[str, str]:
    """What the store or the network said, without the request, and what to check."""
    text = str(error).splitlines()[0][:300].rstrip(" .")
    found = _AWS.search(text)
    if found is None:
        return text, "check its name, credentials and the network"
    word, detail = found[1].lower().replace("_", " "), found[2].strip(" .")
    if found[1] == "NETWORK_CONNECTION":
        return detail or word, "check the endpoint, whether it speaks http or https, and the network"
    what = word if detail in ("", "No response body") else f"{word}: {detail}"
    return what, "check its name, the credentials and what they allow"


def _connect(scheme: str, name: str, options: str, shown: str) -> tuple[FileSystem, str]:
    """The store and the path in it, which may be a glob."""
    from pyarrow import fs

    bucket, _, key = name.partition("/")
    try:
        if scheme == "az":
            account = first_set(_ACCOUNTS)
            if account is None:
                raise UsageError(f"{shown}: set {_ACCOUNTS[0]} to the name of the storage account.")
            return fs.AzureFileSystem(account, account_key=first_set(_KEYS)), f"{bucket}/{key}".rstrip("/")
        store, top = fs.FileSystem.from_uri(
            f"{'gs' if scheme == 'gcs' else scheme}://{bucket}" + (f"?{options}" if options else "")
        )
    except (OSError, ValueError) as error:
        what = str(error).splitlines()[0][:300]
        raise UsageError(f"{shown} cannot be used ({what}): give a bucket and options that the store knows.") from error
    return store, f"{top.rstrip('/')}/{key}".rstrip("/")


def _listed(store: FileSystem, key: str) -> Iterator[FileInfo]:
    from pyarrow import fs

    magic = _MAGIC.search(key)
    if magic is None:
        info = store.get_file_info(key)
        if info.type == fs.FileType.File:
            yield info
            return
        top, fits = key, re.compile(".*", re.DOTALL)
    else:
        top = key[: magic.start()].rpartition("/")[0]
        fits = _glob(key)
    for info in store.get_file_info(fs.FileSelector(top, recursive=True, allow_not_found=True)):
        below = info.path.removeprefix(top)
        hidden = any(part.startswith(".") for part in below.split("/"))
        if info.type == fs.FileType.File and not hidden and fits.fullmatch(info.path):
            yield info


def _glob(pattern: str) -> re.Pattern[str]:
    """A path with ``*`` and ``[…]`` inside one segment and ``**`` for any number of them."""

    def meant(found: re.Match[str]) -> str:
        mark = found[0]
        if mark.startswith("[") and len(mark) > 1:
            return "[" + mark[1:].replace("\\", "\\\\").replace("!", "^", 1 if mark[1] == "!" else 0)
        return {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*"}.get(mark, re.escape(mark))

    return re.compile(re.sub(r"\*\*/|\*\*|\*|\[[^\]/]+\]|.", meant, pattern, flags=re.DOTALL), re.DOTALL)


def _naive(moment: Any) -> dt.datetime:
    if moment is None:
        return dt.datetime.now(dt.UTC).replace(tzinfo=None)
    return cast(dt.datetime, moment).astimezone(dt.UTC).replace(tzinfo=None)
